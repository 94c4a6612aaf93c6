"""Reverify: what was played agrees to the letter, and whatever is edited in it is named with file, line and step."""

import asyncio
import copy
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from speaks import Speaks

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import tool_call
from homerl.envs.core.world import WorldError
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import AgentFault, InfraError, UserError
from homerl.play.loop import play
from homerl.play.replay import add_step_rewards, reverify_file
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import parse_reply
from homerl.play.trajectory import Outcome, Trajectory, trajectory_to_row, write_rows
from homerl.rewards.composite import RewardWeights
from homerl.worlds.registry import begin_episode, restore_situation
from homerl.worlds.users import ScriptedUser

WEIGHTS = RewardWeights(collateral=0.2, max_turns=1)


class Says:
    """An agent of fixed replies, which counts code in tokens of its own."""

    name = "policy"

    def __init__(self, *texts: str | Exception) -> None:
        self.texts = list(texts)

    async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
        text = self.texts.pop(0)
        if isinstance(text, Exception):
            raise text
        return [replace(parse_reply(text), tokens=9, code_tokens=lambda code: 7)]


def call(name: str, **arguments: Any) -> str:
    return f'<tool_call>\n{{"name": "{name}", "arguments": {json.dumps(arguments)}}}\n</tool_call>'


def simple(task) -> Blueprint:
    """A blueprint of one condition, which does not hold yet."""
    return next(b for b in (make_home_blueprint(task, "train", seed) for seed in range(99)) if len(b.all_conditions) == 1)


def endings(task) -> dict[str, Trajectory]:
    """One trajectory for every way to end."""
    blueprint = simple(task)
    did, other = (device["did"] for device in blueprint.home["devices"][:2])
    plan = "\n".join(c.code for intent in blueprint.intents for c in intent.plan)
    wrong = call("pyexec", code=f'device("{other}").nothing()')
    played: dict[str, tuple[list, list, EpisodeLimits]] = {
        "success": ([call("query_status", did=did), call("pyexec", code=plan), "Done."], ["go"], EpisodeLimits()),
        "malformed": (
            ["<tool_call>{]</tool_call>", "<tool_call>", call("pyexec", code=plan), "Done."],
            ["go"],
            EpisodeLimits(),
        ),
        "turn limit": ([wrong, "What?", call("query_spec", did=other), "So?"], ["go", "on"], EpisodeLimits(turns=2)),
        "step limit": ([wrong, wrong], ["go"], EpisodeLimits(steps=2)),
        "words at the step limit": (["One moment."], ["go"], EpisodeLimits(steps=1)),
        "false claim": (["Done."], ["go"], EpisodeLimits()),
        "agent fault": ([wrong, AgentFault("floods")], ["go"], EpisodeLimits()),
        "user error": (["Which one?"], ["go", UserError("it is a model", "leak")], EpisodeLimits()),
        "infra error": (["Which one?", InfraError("gone")], ["go", "that one"], EpisodeLimits()),
        "world error": ([wrong, WorldError("gone")], ["go"], EpisodeLimits()),
        "nobody spoke": ([], [InfraError("gone")], EpisodeLimits()),
    }
    return {
        name: add_step_rewards(asyncio.run(play(begin_episode(blueprint, limits), Says(*said), Speaks(*heard), 5)), WEIGHTS)
        for name, (said, heard, limits) in played.items()
    }


@pytest.fixture(scope="module")
def ended(task) -> dict[str, Trajectory]:
    return endings(task)


def check(path: Path, *rows: dict[str, Any]) -> str:
    write_rows(path / "rows.jsonl", rows)
    return reverify_file(path / "rows.jsonl", restore_situation)


def test_synthesised_trajectories_verify(dialogues, rows):
    steps = sum(len(json.loads(row["steps"])) for row in rows)
    assert reverify_file(dialogues / "trajectories.jsonl", restore_situation).endswith(
        f"{len(rows)} trajectories, {steps} steps replayed, all as recorded"
    )


def test_what_an_earlier_version_read_otherwise_verifies(task, tmp_path):
    """A call in JSON was words, and the reason of a refusal was another."""

    class Earlier(Says):
        async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
            text, malformed = self.texts.pop(0)
            return [Reply({"role": "assistant", "content": text}, malformed)]

    said = [
        ("[1", "it was no JSON"),
        ("<function=a></function>", "no JSON either"),
        ('{"name": "a", "arguments": {}}', None),
    ]
    begun = begin_episode(simple(task), EpisodeLimits(turns=1))
    trajectory = asyncio.run(play(begun, Earlier(*said), Speaks("go"), 5))
    assert [step.observations for step in trajectory.steps[:2]] == [(f"refused: syntax: {why}",) for _, why in said[:2]]
    assert "1 trajectories, 3 steps" in check(tmp_path, trajectory_to_row(trajectory))


def test_a_thought_is_kept_with_its_step_and_verifies(task, tmp_path):
    trajectory = asyncio.run(
        play(begin_episode(simple(task), EpisodeLimits(turns=1)), Says("<think>hm</think>Done."), Speaks("go"), 5)
    )
    row = trajectory_to_row(trajectory)
    assert [message["content"] for message in row["messages"]][-1] == "Done." and "hm" in row["steps"]
    assert "1 trajectories, 1 steps" in check(tmp_path, row)


def test_every_way_to_end_verifies(ended, tmp_path):
    outcomes = {name: str(trajectory.outcome) for name, trajectory in ended.items()}
    assert outcomes == {
        "success": "success",
        "malformed": "success",
        "turn limit": "turn_limit",
        "step limit": "step_limit",
        "words at the step limit": "step_limit",
        "false claim": "agent_failure",
        "agent fault": "agent_failure",
        "user error": "user_error",
        "infra error": "infra_error",
        "world error": "world_error",
        "nobody spoke": "infra_error",
    }
    assert f"{len(ended)} trajectories" in check(tmp_path, *map(trajectory_to_row, ended.values()))


def test_rewards_that_are_older_than_a_setting_verify_by_the_rule_of_their_time(task, tmp_path):
    blueprint = simple(task)
    begun = begin_episode(blueprint, EpisodeLimits(steps=2))
    code = f'device("{blueprint.home["devices"][1]["did"]}").nothing()'
    calls = [tool_call("pyexec", {"code": code}, id) for id in ("1", "2")]
    wrong = Reply({"role": "assistant", "content": "", "tool_calls": calls})

    class Errs:
        name = "errs"

        async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
            return [wrong]

    trajectory = asyncio.run(play(begun, Errs(), Speaks("go"), 5))
    new, older = (
        add_step_rewards(trajectory, RewardWeights(audit_each_call=each, charge_unmet_end=each)) for each in (True, False)
    )
    assert [step["audit"] for step in new.rewards] == [-0.4, -0.4] and new.rewards[-1]["turn_limit"] == -0.2
    assert [step["audit"] for step in older.rewards] == [-0.2, -0.2] and older.rewards[-1]["turn_limit"] == 0
    untold = {name: value for name, value in older.weights.items() if name not in ("audit_each_call", "charge_unmet_end")}
    for stored in (new, older, replace(older, weights=untold)):
        assert "1 trajectories" in check(tmp_path, trajectory_to_row(stored))
    with pytest.raises(InputError, match="step 1: rewards"):
        check(tmp_path, trajectory_to_row(replace(new, weights=untold)))


def test_fallible_experts_and_stray_devices_verify(task, tmp_path):
    rows = []
    for seed in range(12):
        blueprint = make_home_blueprint(task, "heldout", seed).model_copy(update={"preserve": bool(seed % 2)})
        episode = begin_episode(blueprint, EpisodeLimits(turns=3, steps=6))
        rows.append(
            trajectory_to_row(
                add_step_rewards(asyncio.run(play(episode, Expert(seed, 0.6), ScriptedUser(seed), seed)), WEIGHTS)
            )
        )
    check(tmp_path, *rows)


def test_phi_with_a_stray_device_is_a_failure_and_verifies(task, tmp_path):
    blueprint = simple(task)
    strange = next(d["did"] for d in blueprint.home["devices"] if d["did"] not in blueprint.changeable_devices)
    plan = "\n".join(c.code for intent in blueprint.intents for c in intent.plan)
    for code in ("turn_on()", "open()", "turn_off()", "close()", "set_position(31)"):
        episode = begin_episode(blueprint)
        episode.add_utterance("go", 1)
        step = episode.apply_reply(Reply(pyexec_message(f'device("{strange}").{code}')))
        if step.facts.side_effects_after:
            break
    episode.apply_reply(Reply(pyexec_message(plan)))
    episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
    assert episode.outcome is Outcome.AGENT_FAILURE and episode.progress == 1.0
    row = trajectory_to_row(episode.to_trajectory("expert", "scripted"))
    check(tmp_path, row)
    with pytest.raises(InputError, match="outcome agent_failure, stored success"):
        check(tmp_path, row | {"outcome": "success"})


def test_episodes_in_which_time_passes_verify(task, tmp_path):
    limits = EpisodeLimits(seconds_per_step=600)

    def play_of(seed):
        return play(begin_episode(make_home_blueprint(task, "heldout", seed), limits), Expert(seed), ScriptedUser(seed))

    check(tmp_path, *(trajectory_to_row(add_step_rewards(asyncio.run(play_of(seed)), WEIGHTS)) for seed in range(4)))


# Edits. Each takes a row with its JSON columns opened; the second value is what the message must say.

Edit = Callable[[dict[str, Any]], None]


def facts(row: dict[str, Any], step: int | None = None) -> dict[str, Any]:
    """Of the step that acts in a success, else of the last."""
    last = row["outcome"] != "success" if "outcome" in row else True
    return row["steps"][(-1 if last else 1) if step is None else step]["facts"]


EDITS: dict[str, tuple[str, Edit, str]] = {
    "observation": (
        "success",
        lambda r: r["steps"][0].update(observations=["all is well"]),
        "step 1: observed .* stored .*all is well",
    ),
    "observation gone": ("success", lambda r: r["steps"][0].update(observations=[]), "step 1: observed"),
    "state key": ("success", lambda r: r["steps"][1].update(state_key="0" * 24), "step 2: the home is in another state"),
    "progress of a step": (
        "success",
        lambda r: facts(r).update(progress_before=0.5),
        "step 2: progress_before 0.0, stored 0.5",
    ),
    "blocked": ("step limit", lambda r: facts(r).update(blocked=[]), r"step 2: blocked \('unknown_service',\), stored \(\)"),
    "turn": (
        "turn limit",
        lambda r: facts(r).update(turn=1, opens_turn=True),
        "step 4: turn 2, stored 1; opens_turn False, stored True",
    ),
    "changed": ("success", lambda r: facts(r).update(changed=[]), "step 2: changed "),
    "strayed": ("success", lambda r: facts(r).update(strayed_after=1), "step 2: strayed_after 0, stored 1"),
    "code": ("success", lambda r: facts(r).update(code="pass"), "step 2: code "),
    "code tokens of none": ("success", lambda r: facts(r, 0).update(code_tokens=5), "step 1: code_tokens 0, stored 5"),
    "more code tokens than bytes": (
        "success",
        lambda r: facts(r).update(code_tokens=5000),
        "step 2: code_tokens .*, stored 5000",
    ),
    "last too early": ("success", lambda r: facts(r, 0).update(last=True), "step 1: last False, stored True"),
    "last missing": ("step limit", lambda r: facts(r).update(last=False), "step 2: last True, stored False"),
    "reward": ("success", lambda r: r["rewards"][1].update(progress=0.75), "step 2: rewards .*stored"),
    "reward part gone": ("success", lambda r: r["rewards"][1].pop("audit"), "step 2: rewards"),
    "reward of a step gone": ("success", lambda r: r["rewards"].pop(), "3 steps, but rewards of 2"),
    "weights": ("success", lambda r: r["weights"].update(progress=2.0), "step 2: rewards"),
    "unknown weight": ("success", lambda r: r["weights"].update(luck=1.0), "weights hold 'luck', which no reward here has"),
    "system message": ("success", lambda r: r["messages"][0].update(content="You are free."), r"message 1 \(system\)"),
    "what was said": (
        "false claim",
        lambda r: r["messages"][2].update(content="Sorry."),
        r"message 3 \(assistant\): .*Done.*stored.*Sorry",
    ),
    "what a message called": (
        "success",
        lambda r: r["messages"][4]["tool_calls"][0]["function"].update(arguments='{"code": "pass"}'),
        r"message 5 \(assistant\)",
    ),
    "what a step called": (
        "success",
        lambda r: r["steps"][1]["message"]["tool_calls"][0]["function"].update(arguments='{"code": "pass"}'),
        "step 2: .*code pass",
    ),
    "what a tool answered": ("success", lambda r: r["messages"][3].update(content="no"), r"message 4 \(tool\)"),
    "message gone": ("success", lambda r: r["messages"].pop(-2), r"message 6 \(tool\)"),
    "assistant message gone": (
        "step limit",
        lambda r: [r["messages"].pop() for _ in range(2)],
        "step 2: there is a record of it, but no message",
    ),
    "step gone": ("step limit", lambda r: (r["steps"].pop(), r["rewards"].pop()), "step 1: last True, stored False"),
    "step gone without a trace": (
        "step limit",
        lambda r: (r["steps"].pop(), r["rewards"].pop(), facts(r).update(last=True)),
        "step 2: there is a message of it, but no record",
    ),
    "tools": ("success", lambda r: r["tools"].pop(), "the tools are others"),
    "condition": (
        "success",
        lambda r: r["blueprint"]["intents"][0].update(conditions=["device('none').state == 'on'"]),
        "not a trajectory that can be replayed",
    ),
    "another condition": (
        "success",
        lambda r: (i := r["blueprint"]["intents"][0]).update(conditions=[f"not ({i['conditions'][0]})"]),
        "step 1: progress",
    ),
    "home": ("success", lambda r: r["blueprint"]["home"].update(clock=1), "step 1: "),
    "clock": ("false claim", lambda r: r["blueprint"]["home"].update(clock=1), "step 1: the home is in another state"),
    "blueprint key": ("success", lambda r: r["blueprint"].update(luck=1), "not a trajectory that can be replayed"),
    "outcome won": ("step limit", lambda r: r.update(outcome="success"), "outcome step_limit, stored success"),
    "outcome lost": ("success", lambda r: r.update(outcome="step_limit"), "outcome success, stored step_limit"),
    "limit of turns, with the agent at work": (
        "step limit",
        lambda r: r.update(outcome="turn_limit"),
        "outcome step_limit, stored turn_limit",
    ),
    "limit of steps, before the agent": ("infra error", lambda r: r.update(outcome="step_limit"), "stored step_limit"),
    "progress": ("step limit", lambda r: r.update(progress=0.9), "progress 0.0, stored 0.9"),
    "whose fault": (
        "infra error",
        lambda r: r.update(fault='{"boundary": "user", "reason": "gone"}'),
        "a fault of the user makes user_error, stored infra_error",
    ),
    "a fault of nobody": (
        "infra error",
        lambda r: r.update(fault='{"boundary": "weather", "reason": "gone"}'),
        "not a trajectory that can be replayed .*weather",
    ),
    "a fault that ended nothing": (
        "step limit",
        lambda r: r.update(fault='{"boundary": "agent", "reason": "slow"}'),
        "a fault of the agent is stored, but the episode was over without it",
    ),
    "clean": ("success", lambda r: r.update(clean=False), "clean True, stored False"),
    "name": ("success", lambda r: r.update(id="train-777"), "the row is named train-777"),
    "no steps": ("success", lambda r: r.pop("steps"), "not a trajectory that can be replayed .*steps"),
    "an unknown outcome": (
        "success",
        lambda r: r.update(outcome="victory"),
        "not a trajectory that can be replayed .*victory",
    ),
}
NESTED = ("blueprint", "tools", "steps", "rewards", "weights")


@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_named_with_file_line_and_step(edit, ended, tmp_path):
    name, change, message = EDITS[edit]
    row = copy.deepcopy(trajectory_to_row(ended[name]))
    row |= {key: json.loads(row[key]) for key in NESTED}
    change(row)
    row |= {key: json.dumps(row[key]) for key in NESTED if key in row}
    with pytest.raises(InputError, match=message) as refused:
        check(tmp_path, trajectory_to_row(ended["success"]), row)
    assert refused.value.where.endswith("rows.jsonl:2") and "edited" in refused.value.remedy


@pytest.mark.parametrize("bound", [0, {"type": "number"}])
def test_a_bound_that_only_the_file_has_is_a_difference(ended, tmp_path, bound):
    """Bounds that a file lacks are none: the files in `previous` are older than those of SimuHome's ticks."""
    with pytest.raises(InputError, match="the tools are others"):
        check(
            tmp_path, with_columns(ended["success"], lambda r: r["tools"][0]["function"]["parameters"].update(minimum=bound))
        )


def with_columns(trajectory: Trajectory, change: Edit) -> dict[str, Any]:
    """A trajectory's row after an edit of its nested columns."""
    row = copy.deepcopy(trajectory_to_row(trajectory))
    row |= {key: json.loads(row[key]) for key in NESTED}
    change(row)
    return row | {key: json.dumps(row[key]) for key in NESTED}


def without(*names: str) -> Edit:
    """A file that is older than some rewards, settings and facts."""

    def change(row: dict[str, Any]) -> None:
        for part in (row["weights"], *row["rewards"], *(step["facts"] for step in row["steps"])):
            for name in names:
                part.pop(name, None)

    return change


def of_old(weight: float, earned: float = 0.0, **settings: Any) -> Edit:
    """A file with a reward that is gone."""

    def change(row: dict[str, Any]) -> None:
        row["weights"] |= {"luck": weight} | settings
        for rewards in row["rewards"]:
            rewards["luck"] = earned

    return change


@pytest.mark.parametrize(
    "change",
    [
        without("turn_limit", "max_turns"),
        without("audit", "collateral"),
        without("max_code_tokens"),
        without("met", "intent", "code_tokens"),
        of_old(0.0),
        of_old(0.0, most_luck=7),
        lambda row: row["weights"].update(luck=0.0),
        lambda row: row.update(rewards=[], weights={}),
    ],
)
def test_what_a_file_does_not_hold_is_no_difference(change, ended, tmp_path):
    assert "1 trajectories" in check(tmp_path, with_columns(ended["success"], change))


def without_the_last_word(row: dict[str, Any]) -> None:
    """As older versions ended: with the call that met the last goal."""
    for key in ("messages", "steps", "rewards"):
        row[key].pop()
    for step in row["steps"]:
        step["facts"].pop("closes", None)
    facts(row, -1).update(last=True)
    row["rewards"][-1]["success"] = 1.0


def test_a_success_of_an_older_version_needs_no_last_word(ended, tmp_path):
    assert "2 steps" in check(tmp_path, with_columns(ended["success"], without_the_last_word))


GONE = {
    "weight": (of_old(0.3, 0.1), r"no reward 'luck' to recompute \(weight 0.3\).*HOMERL_REWARDS"),
    "no weight, but earned": (of_old(0.0, 0.1), "no reward 'luck'"),
    "no longer a setting": (lambda row: row["weights"].update(most_luck=7), "weights hold 'most_luck'"),
    "part gone from one step": (lambda row: row["rewards"][0].pop("collateral"), "step 1: rewards"),
    "weight below 0": (lambda row: row["weights"].update(audit=-1), "weights cannot be used: .*'audit' is -1"),
    "fact that is none": (lambda row: facts(row).update(luck=1), "not a trajectory .*no fact of a step is called 'luck'"),
    "fact under the name that code has for it": (
        lambda row: facts(row).update(side_effects_after=1),
        "no fact of a step is called 'side_effects_after'",
    ),
    "calls": (lambda row: facts(row).update(calls=[]), "step 2: calls .*pyexec.*, stored \\(\\)"),
    "calls that are none": (lambda row: facts(row).update(calls=[{"tool": "x"}]), "not a trajectory that can be replayed"),
}


@pytest.mark.parametrize("name", GONE)
def test_what_a_file_holds_beyond_is_named(name, ended, tmp_path):
    change, message = GONE[name]
    with pytest.raises(InputError, match=message):
        check(tmp_path, with_columns(ended["success"], change))


def test_an_experts_code_tokens_can_be_counted_again(trajectories, tmp_path):
    row = trajectory_to_row(trajectories[0])
    steps = json.loads(row["steps"])
    steps[-1]["facts"]["code_tokens"] += 1
    with pytest.raises(InputError, match="code_tokens"):
        check(tmp_path, row | {"steps": json.dumps(steps)})


def test_a_file_cut_in_half_is_named(dialogues, tmp_path):
    whole = (dialogues / "trajectories.jsonl").read_bytes()
    (tmp_path / "half.jsonl").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"half.jsonl:\d+: not a JSON line"):
        reverify_file(tmp_path / "half.jsonl", restore_situation)
