"""Episodes with the toolset `assist`: what its author makes, the expert solves, in any style and any kind of request."""

import asyncio
import json
from collections import Counter
from dataclasses import replace

import pytest
from crossed import crossed
from forked import homerl
from texts import common_beginning

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.bench.suite import SUITES, HomeInstance, make_home_instance, suite_slots
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, first_filter_failure, make_home_blueprint
from homerl.envs.homeenv.tasks.prompts import episode_system_prompt
from homerl.play.loop import play
from homerl.play.trajectory import Outcome
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import PATIENT

FAMILIES = ("atomic", "compositional", "ambiguous", "multi_turn", "memory", "query")


def made(family: str, seed: int, dropped: Counter | None = None, **changed):
    recipe = {"toolset": "assist", "families": {family: 1.0}, "home": {"devices": (6, 12), "entrance": True}} | changed
    return make_home_blueprint(BlueprintRecipe(**recipe), "train", seed, dropped)


def played(blueprint, style: str = "snippet", mistakes: float = 0.0):
    return asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(0, mistakes, {style: 1.0}), ScriptedUser(0)))


@crossed(family=FAMILIES, prompt=["brief", "full"])
def test_the_expert_succeeds_without_a_refused_call(family, prompt):
    for seed in range(100, 105):
        trajectory = played(made(family, seed, prompt=prompt))
        assert trajectory.outcome is Outcome.SUCCESS, trajectory.messages
        assert not any(step.facts.blocked for step in trajectory.steps)


@pytest.mark.parametrize("style", ["stepwise", "query_first"])
def test_the_expert_succeeds_in_its_other_styles(style):
    for seed in range(15):
        assert played(made("compositional", seed), style).outcome is Outcome.SUCCESS


def test_mistakes_are_played_and_break_nothing():
    outcomes = Counter(played(made("atomic", seed), mistakes=1.0).outcome for seed in range(25))
    assert outcomes[Outcome.SUCCESS] < 13  # the last call of a plan may be all of it, for a value switches its light on


def test_lights_of_a_room_are_one_call():
    calls = (
        call["function"]["arguments"]
        for seed in range(40)
        for step in played(made("compositional/batch", seed, home={"scale": "medium", "entrance": True})).steps
        for call in step.message.get("tool_calls") or ()
    )
    assert any('"area"' in call and '"name"' not in call for call in calls)


def test_devices_of_a_kind_are_one_call_where_they_are_all_of_it():
    """Whoever says "all lights" names none: the call has the domain, and the area if the words have it."""
    acts, reads = Counter(), Counter()
    for seed in range(30):
        for family in ("compositional/batch", "survey/any"):
            blueprint = made(family, seed)
            placed = any(
                room["name"].lower() in blueprint.intents[0].clarification.lower() for room in blueprint.home["rooms"]
            )
            for step in played(blueprint).steps:
                for call in step.message.get("tool_calls") or ():
                    kinds = reads if call["function"]["name"].endswith("GetLiveContext") else acts
                    kinds[
                        placed, tuple(sorted(json.loads(call["function"]["arguments"]).keys() & {"name", "area", "domain"}))
                    ] += 1
    assert acts[False, ("domain",)] > 5 and acts[True, ("area", "domain")] > 5 and not acts[True, ("domain",)]
    assert set(reads) <= {(False, ("domain",)), (True, ("area", "domain")), (True, ("domain",))} and len(reads) > 1


@pytest.mark.parametrize("toolset", ["assist", "homeflow", "smh"])
def test_a_slip_names_what_is_not_there_and_is_put_right(toolset):
    for seed in range(8):
        blueprint = made("atomic", seed, toolset=toolset, intents=(1, 1))
        trajectory = asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(seed, slips=1.0), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS and trajectory.clean
        assert [step.has_failed for step in trajectory.steps][:2] == [True, False]


def test_what_no_intent_can_do_is_dropped_and_counted():
    dropped: Counter = Counter()
    for seed in range(30):
        made("atomic", seed, dropped, home={"categories": ("air_conditioner", "light"), "devices": (4, 6)})
    reasons = {reason for reason in dropped if reason.startswith("expressible: ")}
    assert "expressible: no intent for 'set_ac_mode'" in reasons


def test_a_blueprint_of_another_toolset_is_fit_or_says_why_not():
    verdicts = Counter()
    for seed in range(20):
        blueprint = made("atomic", seed, toolset="smh").model_copy(update={"toolset": "assist"})
        verdicts[first_filter_failure(blueprint) is None] += 1
    assert verdicts[True] and verdicts[False]


def test_an_instance_of_a_benchmark_can_be_played_with_it():
    suite = SUITES["smarthome-bench"]
    slots = [slot for slot in suite_slots(suite) if slot.size == "simple"][:12]
    solved = 0
    for slot in slots:
        instance: HomeInstance = make_home_instance(suite, slot, seed=7).model_copy(update={"toolset": "assist"})
        if first_filter_failure(instance.blueprint_for("eia")) is None:
            assert played(instance.blueprint_for("eia")).outcome is Outcome.SUCCESS
            solved += 1
    assert solved


@pytest.mark.long
def test_dialogues_are_made_from_a_recipe_and_replayed(tmp_path):
    """A run as a person starts it, and the messages that a policy is trained on."""
    recipe = {
        "homerl": 1, "run": "synth", "out": str(tmp_path / "out"),
        "synth": {"blueprints": 4, "shard": 4, "recipe": {
            "toolset": "assist", "prompt": "full", "intents": [1, 1], "home": {"devices": [6, 8]},
        }},
    }  # fmt: skip
    (tmp_path / "play.yaml").write_text(json.dumps(recipe))
    for command in (["run", "play.yaml"], ["reverify", "out/trajectories.jsonl"]):
        done = homerl(*command, cwd=tmp_path)
        assert done.returncode == 0, done.stdout + done.stderr
    rows = [json.loads(line) for line in (tmp_path / "out/trajectories.jsonl").read_text().splitlines()]
    called = {call["function"]["name"] for row in rows for m in row["messages"] for call in m.get("tool_calls") or ()}
    assert rows and called and all("__" in name for name in called)
    assert all(row["messages"][0]["content"].startswith(latest_recorded_api().before) for row in rows)


@pytest.mark.parametrize("prompt", ["brief", "full"])
def test_a_placed_agent_is_told_the_room_and_people_leave_it_out(prompt):
    left = 0
    for seed in range(14):
        blueprint = made("ambiguous/state_level", seed, prompt=prompt, home={"devices": (6, 12), "placed": 1.0})
        told, said = begin_episode(blueprint, PATIENT), " ".join(blueprint.intents[0].queries)
        system, room = told.messages[0]["content"], told.situation.home.plan.entrance_room
        assert f"You are in area {room.name}" in system or f"\nThe person speaks in {room.name}." in system
        if left_out := " here" in said:
            assert played(blueprint).outcome is Outcome.SUCCESS
        left += left_out
    assert left > 1


@pytest.mark.parametrize("toolset", ["assist", "smh", "homeflow", "direct"])
@pytest.mark.parametrize("prompt", ["brief", "full"])
def test_two_rooms_share_all_of_the_prompt_but_its_last_line(toolset, prompt):
    home, told = make_home(3, HomeRecipe(devices=(8, 8), rooms=(3, 5))), []
    for room in sorted({device.room.id for device in home.plan.devices})[:2]:
        placed = home.fork()
        placed.plan = replace(home.plan, entrance=room)
        told.append(episode_system_prompt(placed, prompt, toolset, ("Likes it warm.",)))
    shared = common_beginning(told)
    if toolset == "assist" and prompt == "full":  # Home Assistant's own text, which ends with the area and what it means
        assert shared.splitlines()[-1].startswith("You are in area ")
        assert all(len(one) - len(shared) < 250 for one in told)
        return
    assert shared.splitlines()[-1].startswith("The person speaks in ") and told[0] != told[1]
    assert all("\n" not in one.removeprefix(shared) for one in told)
