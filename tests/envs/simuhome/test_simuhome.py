"""SimuHome in the stack: blueprints, what is said, answers by rule, agents, search, the suite."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from datetime import timedelta

import pytest
from crossed import crossed
from tree_search import search_tree

from homerl.bench.suites import read_suite
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.agents.expert import Expert as HomeExpert
from homerl.envs.homeenv.bench.suite import SEED
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.simuhome.bench.cases import released_verdict, simuhome_failure
from homerl.envs.simuhome.bench.suite import (
    make_simuhome_instance,
    play_simuhome_instance,
    read_released_episodes,
    simuhome_instance,
    simuhome_instance_flaws,
)
from homerl.envs.simuhome.sim import evaluation as evaluate
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim.episode_file import EpisodeFile, read_episode
from homerl.envs.simuhome.tasks.answer_checks import expert_reply, goals_answered, names_only_reason
from homerl.envs.simuhome.tasks.author import make_group_blueprint
from homerl.envs.simuhome.tasks.blueprint import (
    GROUPS,
    QUERY_TYPES,
    SimuHomeRecipe,
    blueprint_from_episode,
    pack_home,
    unpack_home,
)
from homerl.envs.simuhome.tasks.episode_generator import generate_episode
from homerl.envs.simuhome.tasks.expert import BASELINES, FixedAnswerAgent, SimuHomeExpert, acting_message, expert_plan
from homerl.envs.simuhome.tasks.sentences import request_wordings, simuhome_grammar
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.replay import first_difference, reverify_file
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome, trajectory_from_row, trajectory_to_row
from homerl.play.words.grammar import Voice, split_of
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import make_shard
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import (
    begin_episode,
    known_suites,
    make_blueprint_of_seed,
    read_blueprint,
    restore_situation,
    world_of,
)
from homerl.worlds.users import ScriptedUser
from tests.envs.simuhome.conftest import SAMPLES, each_sample

each_group = pytest.mark.parametrize("group", GROUPS)
LIMITS = EpisodeLimits(1, 20, 20)


def made(group: str, number: int = 0, language: str = "en", **more):
    recipe = SimuHomeRecipe(world="simuhome", language=language, **more)
    return make_group_blueprint(
        recipe, "train", *group.split("/"), f"{group}-{number}", random.Random(f"{group} {number}"), Counter()
    )


def played(blueprint, agent, limits=LIMITS):
    return asyncio.run(play(begin_episode(blueprint, limits), agent, ScriptedUser()))


# Blueprints


def test_a_group_that_cannot_be_made_says_why_and_what_to_change():
    why = r"no blueprint of qt4-1/feasible in 60 .*: author: another number of goals \(60\)\n"
    with pytest.raises(InputError, match=why) as refused:
        made("qt4-1/feasible", goals=(9, 9))
    assert "`goals`" in refused.value.remedy


@each_group
def test_blueprints_are_whole_small_and_the_same_from_the_same_seed(group):
    blueprint = made(group)
    assert blueprint == made(group) != made(group, 1)
    assert read_blueprint(json.loads(blueprint.model_dump_json())) == blueprint
    config = blueprint.episode_file.initial_home_config.model_dump(mode="json")
    assert unpack_home(pack_home(config)) == config
    assert len(json.dumps(blueprint.home)) < len(json.dumps(config)) / 3


@each_sample
def test_released_files_are_kept_to_the_letter(path):
    episode = read_episode(path)
    assert blueprint_from_episode(episode, "x").episode_file.model_dump(mode="json") == episode.model_dump(mode="json")


def test_the_splits_share_no_home_and_no_sentence():
    recipe = SimuHomeRecipe(world="simuhome", phrasings=2)
    for seed in range(5):
        train, heldout = (make_blueprint_of_seed(recipe, split, seed) for split in ("train", "heldout"))
        assert train.home != heldout.home
        assert all(
            split_of(said) == blueprint.split for blueprint in (train, heldout) for said in blueprint.intents[0].queries
        )


def test_homes_are_of_the_recipes_scale_and_what_is_missing_there_is_a_kind_of_theirs():
    kinds = ("fan", "humidifier", "on_off_light")
    for group in ("qt1/infeasible", "qt2/feasible", "qt3/infeasible"):
        blueprint = made(group, devices=(6, 8), kinds=kinds)
        rooms = blueprint.episode_file.initial_home_config.rooms.values()
        devices = [device.device_type for room in rooms for device in room.devices]
        assert 6 <= len(devices) <= 8 and set(devices) <= set(kinds)
        assert {goal.device_type for goal in blueprint.episode_file.eval.goals} <= {*kinds, ""}


def test_a_kind_of_device_that_no_home_has_is_refused():
    with pytest.raises(ValueError, match="no toaster .*fan"):
        SimuHomeRecipe(world="simuhome", kinds=("fan", "toaster"))


# What is said


def test_the_languages_have_the_same_keys_and_slots():
    english, chinese = simuhome_grammar("en"), simuhome_grammar("zh")
    for known in (english, chinese):
        known.check_templates()
    assert english.keys() == chinese.keys()
    for key in list(english.keys()):
        here, there = (
            {slot for frame in grammar.frames_of(key, "clear") for slot in re.findall(r"{(\w+)}", frame.text)}
            for grammar in (english, chinese)
        )
        assert here == there, key


@each_group
@pytest.mark.parametrize("language", ["en", "zh"])
def test_requests_name_what_the_goals_name(group, language):
    episode = generate_episode(*group.split("/"), 5)
    (said,) = request_wordings(episode, Voice(language), "train", 1, random.Random(0))
    ways = [
        way for target in targets_of(episode) for way in [simuhome_grammar(language).plain_texts(f"room.{target.room_id}")]
    ]
    assert all(any(way in said.lower() for way in options) for options in ways)
    if (
        episode.meta.query_type.startswith("qt4")
        and episode.temporal_conflict
        and "conflict_time" in episode.temporal_conflict
    ):
        assert episode.temporal_conflict["conflict_time"][:5] in said
    minutes = {goal.when.model_extra["offset_minutes"] for goal in episode.eval.goals if goal.when} - {0, 1}
    assert all(str(number) in said for number in minutes)


def targets_of(episode):
    return [target for goal in episode.eval.goals for target in (goal.targets or [goal])]


# Scripted agents


@pytest.mark.parametrize(
    ("group", "language"),
    [
        *((group, "en") for group in GROUPS),
        *((group, "zh") for group in GROUPS if "qt1" in group or "qt4-1" in group),
        *(pytest.param(group, "zh", marks=pytest.mark.long) for group in GROUPS if "qt4-2" in group or "qt4-3" in group),
    ],
)
def test_only_who_does_what_is_right_succeeds(group, language):
    blueprint = made(group, language=language)
    expert = played(blueprint, BASELINES["expert"]())
    assert (
        expert.success and expert.is_valid and expert.progress == 1.0 and first_difference(expert, restore_situation) is None
    )
    assert released_verdict(expert) == 1
    for name in ("nothing", "refuses"):
        trajectory = played(blueprint, BASELINES[name]())
        assert trajectory.outcome is Outcome.AGENT_FAILURE and first_difference(trajectory, restore_situation) is None
        assert simuhome_failure(trajectory).dimension in ("EP", "II", "DC", "AP", "TR", "CM", "CB")
        assert released_verdict(trajectory) == 0
    rightly = played(blueprint, BASELINES["refuses-rightly"]())
    assert rightly.success == group.endswith("infeasible")


@crossed(kind=QUERY_TYPES, style=["snippet", "stepwise"])
def test_what_the_expert_does_first_does_not_tell_whether_it_can_be_done(kind, style):
    def first(case):
        trajectory = played(made(f"{kind}/{case}"), SimuHomeExpert(styles={style: 1.0}))
        return {call["function"]["name"] for call in trajectory.messages[2]["tool_calls"]} - {"get_room_states"}

    assert first("feasible") == first("infeasible")


def test_the_expert_reads_what_its_acts_rest_on_unless_it_is_to_do_the_least():
    """A time that hangs on a machine's end, or a setpoint, cannot be guessed."""
    for group, read in (("qt2/feasible", "get_all_attributes"), ("qt4-2/feasible", "get_attribute")):
        careful, least = (names(played(made(group), SimuHomeExpert(minimal=minimal))) for minimal in (False, True))
        assert read in careful and read not in least


def test_a_sweeping_expert_makes_every_call_that_may_help():
    """Then it need not know which devices are on, which a policy cannot see."""
    kinds = {"kinds": ["humidifier", "dehumidifier"], "goals": (2, 2)}
    more = 0
    for number in range(6):
        blueprint = made("qt2/feasible", number, **kinds)
        least, all_ = (played(blueprint, SimuHomeExpert(styles={s: 1.0}, minimal=True)) for s in ("snippet", "sweeping"))
        assert least.success and all_.success and set(names(least)) <= set(names(all_))
        more += all_.tool_calls - least.tool_calls
    assert more > 0


def names(trajectory):
    return [call["function"]["name"] for m in trajectory.messages for call in m.get("tool_calls") or ()]


@pytest.mark.parametrize("line", [60, 470, *(pytest.param(line, marks=pytest.mark.long) for line in (110, 299))])
def test_the_shipped_suite_is_sound(line):
    suite = read_suite("simuhome")
    assert len(suite) == 600 and set(Counter(instance.category for instance in suite).values()) == {50}
    assert not list(simuhome_instance_flaws(suite[line]))
    assert make_simuhome_instance(GROUPS[line // 50], line % 50, SEED) == suite[line]


@pytest.mark.long
def test_the_whole_suite_by_the_scripted_agents():
    for instance in read_suite("simuhome"):
        feasible = instance.category.endswith(" F")
        assert play_simuhome_instance(instance, BASELINES["expert"]()).success
        assert (
            not play_simuhome_instance(instance, BASELINES["nothing"]()).success
            and not play_simuhome_instance(instance, BASELINES["refuses"]()).success
        )
        assert play_simuhome_instance(instance, BASELINES["refuses-rightly"]()).success != feasible


@pytest.mark.skipif(not SAMPLES.is_dir(), reason="no samples")
def test_released_files_as_a_suite():
    found = read_released_episodes(SAMPLES)
    assert len(found) == 24 and len({instance.category for instance in found}) == 12
    for number, instance in enumerate(found):
        assert play_simuhome_instance(instance, BASELINES["expert"]()).success, instance.id
        for name in ("nothing", "refuses") if number % 2 else ():  # one of each category
            assert not play_simuhome_instance(instance, BASELINES[name]()).success, instance.id


# Answers


def answered(episode, text):
    home = load.start_home(episode.initial_home_config)
    return all(goals_answered(episode, home, evaluate.final_state(home), text))


HOME = {
    "base_time": "2025-08-23 10:00:00",
    "rooms": {
        "kitchen": {
            "state": {"temperature": 2355.0, "humidity": 4100.0, "illuminance": 300.0, "pm10": 20.0},
            "devices": [
                {"device_id": "kitchen_fan_1", "device_type": "fan"},
                {"device_id": "kitchen_dishwasher_1", "device_type": "dishwasher"},
                {"device_id": "kitchen_heat_pump_1", "device_type": "heat_pump"},
            ],
        },
        "study_room": {"devices": [{"device_id": "study_room_on_off_light_1", "device_type": "on_off_light"}]},
    },
}


def question(goal, case="feasible", query_type="qt1", **more):
    return EpisodeFile.model_validate({
        "meta": {"query_type": query_type, "case": case}, "query": "?", "eval": {"goals": [goal]},
        "initial_home_config": HOME, **more,
    })  # fmt: skip


WARMTH = question({"variant": "room_state", "room_id": "kitchen", "room_state": "temperature"})
FAN = question({"variant": "device_attribute", "room_id": "kitchen", "device_id": "kitchen_fan_1", "device_type": "fan",
                "attribute": "1.FanControl.FanMode"})  # fmt: skip
POWER = question({"variant": "device_attribute", "room_id": "kitchen", "device_id": "kitchen_fan_1", "device_type": "fan",
                  "attribute": "1.OnOff.OnOff"})  # fmt: skip
MODE = question({"variant": "device_attribute", "room_id": "kitchen", "device_id": "kitchen_heat_pump_1",
                 "device_type": "heat_pump", "attribute": "4.Thermostat.SystemMode"})  # fmt: skip
GONE = {"room_id": "study_room", "device_id": "study_room_fan_1", "device_type": "fan"}
NO_FAN = question(GONE | {"asserts": []}, "infeasible", "qt3")
NO_LIGHT, NO_HUMIDIFIER, NO_WASHER = (
    question(
        {"room_id": "kitchen", "device_id": f"kitchen_{kind}_1", "device_type": kind, "asserts": []}, "infeasible", "qt3"
    )
    for kind in ("on_off_light", "humidifier", "laundry_washer")
)
BRIGHT = question({"room_id": "study_room", "room_state": "illuminance", "direction": "decrease", "feasibility": False},
                  "infeasible", "qt2")  # fmt: skip
DAMP = question(
    {"room_id": "study_room", "room_state": "humidity", "direction": "increase", "feasibility": False}, "infeasible", "qt2"
)
CLASH = question(GONE | {"when": {"at_tick": 123540}}, "infeasible", "qt4-1", temporal_conflict={
    "type": "absolute_time_mismatch_nonop_multi", "expected_time": "13:25:54", "conflict_time": "13:39:54",
    "anchor_end_time": "13:04:54"})  # fmt: skip
EVERY_TIME = ", ".join(f"{minute // 60 or 12}:{minute % 60:02}" for minute in range(1, 720, 3))


@pytest.mark.parametrize(
    ("episode", "text", "right"),
    [
        (WARMTH, "The kitchen is at 23.55 °C.", True),
        (WARMTH, "It is 2355 in the kitchen, in hundredths.", True),
        (WARMTH, "厨房的温度是23.5度。", True),
        (WARMTH, "The kitchen is at 25 °C.", False),
        (WARMTH, "It is 23.55 °C.", False),
        (WARMTH, "The kitchen is at 23.55 or 27 °C.", False),
        (WARMTH, "The kitchen is at 21 °C. The kitchen is at 23.55 °C. The kitchen is at 27 °C.", False),
        (WARMTH, "I looked at the kitchen. The kitchen is at 23.55 °C.", True),
        (FAN, "Fan 1 in the kitchen is off.", True),
        (FAN, "The fan mode of kitchen fan 1 is 0.", True),
        (FAN, "Kitchen fan 1 runs high.", False),
        (POWER, "Kitchen fan 1 is off.", True),
        (POWER, "Kitchen fan 1 is on.", False),
        (MODE, "The operating mode of heat pump 1 in the kitchen is off.", True),
        (MODE, "The kitchen heat pump is off.", True),
        (MODE, "The kitchen heat pump is set to heat.", False),
        (NO_FAN, "There is no fan in the study.", True),
        (NO_FAN, "I could not find fan 1 in the study room, so nothing was changed.", True),
        (NO_FAN, "书房没有风扇1。", True),
        (NO_FAN, "I cannot do that.", False),
        (NO_FAN, "There is no fan in the kitchen.", False),
        (NO_FAN, "There is no light in the study.", False),
        (NO_FAN, "There is no fan in the study, so I have turned on the light.", False),
        (NO_HUMIDIFIER, "There is no humidifier in the kitchen.", True),
        (NO_HUMIDIFIER, "There are no humidifiers in the kitchen.", True),
        (NO_HUMIDIFIER, "The kitchen has a dehumidifier, but there is no humidifier.", True),
        (NO_HUMIDIFIER, "There is no dehumidifier in the kitchen.", False),
        (NO_WASHER, "There is no laundry washer in the kitchen.", True),
        (NO_WASHER, "There is no dishwasher in the kitchen.", False),
        (NO_WASHER, "厨房没有洗碗机。", False),
        (NO_LIGHT, "There is no on-off light in the kitchen.", True),
        (NO_LIGHT, "There is no dimmer light in the kitchen.", False),
        (NO_LIGHT, "厨房没有灯1。", True),
        (NO_LIGHT, "厨房没有调光灯1。", False),
        (BRIGHT, "The study room light is already off, so it cannot be made any darker.", True),
        (BRIGHT, "There is no device in the study that could help.", False),
        (DAMP, "The study has no humidifier.", True),
        (DAMP, "Everything in the study is already at its maximum.", False),
        (CLASH, "Those times conflict: that would be 1:25 PM, not 1:39 PM. Which one?", True),
        (CLASH, "这两个时间矛盾：应该是13:25。", True),
        (CLASH, "It is 10:00, the fan is due at 1:26 p.m., the machine ends at 13:04: that conflicts with 1:39.", True),
        (CLASH, "The times conflict: fan 1: it would be 13:25:54 (2025-08-23T13:25:54), not 13：39.", True),
        (CLASH, "两个时间矛盾：现在10点，机器13时04分结束，应该是下午1点25分，不是13点39分。", True),
        (CLASH, "Those times conflict: it would be 13:20 or 13:25.", False),
        (CLASH, "Those times conflict: it would be 1 p.m. or 1:25 p.m.", False),
        (CLASH, "这两个时间矛盾：应该是13时20分，或者13时25分。", False),
        (CLASH, f"The times in your request conflict. Possible times: {EVERY_TIME}. I scheduled nothing.", False),
        (CLASH, "Those times conflict.", False),
        (CLASH, "It is scheduled for 13:25.", False),
        (CLASH, "", False),
    ],
)
def test_answers_by_rule(episode, text, right):
    assert answered(episode, text) is right


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        ("absent", "The kitchen doesn't have a fan."),
        ("absent", "The kitchen doesn’t have a fan."),
        ("absent", "There's no fan in the kitchen."),
        ("absent", "There’s no fan in the kitchen."),
        ("absent", "There is no fan in the kitchen, so it is not possible to do that."),
        ("absent", "There is no humidifier in the kitchen. I have already checked the other rooms."),
        ("absent", "No fan exists in the kitchen."),
        ("absent", "No fan was found in the kitchen."),
        ("absent", "I don't see a fan in the kitchen."),
        ("absent", "I can't find a fan in the kitchen."),
        ("absent", "I didn't find any fan in the kitchen."),
        ("absent", "The kitchen does not contain a fan."),
        ("absent", "No device in the kitchen can change the humidity."),
        ("absent", "None of the devices in the kitchen can change the humidity, so that is impossible."),
        ("absent", "厨房里没发现风扇，所以不可能做到。"),
        ("absent", "厨房没装风扇。"),
        ("absent", "我在厨房看不到风扇，没有任何改动。"),
        ("limit", "All lights in the kitchen are off already, so it's not possible to make it any darker."),
        ("limit", "The lights in the kitchen are already off, and there are no other devices that could make it darker."),
        ("limit", "There's no way to make the kitchen any darker: all lights are off already."),
        ("limit", "The air conditioner in the kitchen is already cooling, so that is not possible."),
        ("limit", "厨房的灯已经关了，没有其他设备能让它更暗。"),
        ("limit", "厨房的灯不能再暗了，这不可能。"),
        ("conflict", "The times don’t match: it would be 18:50, not 19:00."),
        ("conflict", "That is impossible: the washer in the kitchen ends at 18:50."),
        ("conflict", "The washer is already running, and its end at 18:50 contradicts that."),
        ("conflict", "时间不相符：应该是18:50。"),
        (None, "There is no fan in the kitchen, and everything else is at its maximum, so it is not possible."),
        (None, "There's no fan in the kitchen, or it's off already."),
        (None, "There’s no fan in the kitchen, or the times don’t match."),
        (None, "All lights are off already, or the times conflict."),
        (None, "No fan exists in the kitchen, or the times conflict."),
        (None, "厨房没有风扇，或者时间不相符。"),
        (None, "厨房看不到风扇，或者已经到最大了。"),
        (None, "I cannot do that."),
    ],
)
def test_the_reason_of_a_refusal(reason, text):
    assert [name for name in ("absent", "limit", "conflict") if names_only_reason(name, text)] == [reason] * bool(reason)


def test_a_refusal_that_names_every_reason_names_none():
    text = BASELINES["refuses"]().answer
    assert not any(names_only_reason(reason, text) for reason in ("absent", "limit", "conflict"))


@each_group
def test_in_an_infeasible_episode_nothing_may_be_touched(group):
    if group.endswith("/feasible"):
        return
    blueprint = made(group)
    touch = {"name": "execute_command", "endpoint_id": 1, "cluster_id": "OnOff", "command_id": "Toggle", "args": {}}
    home = blueprint.episode_file.initial_home_config
    device = next(
        d.device_id for room in home.rooms.values() for d in room.devices if d.device_type in ("fan", "tv", "humidifier")
    )
    episode = begin_episode(blueprint, LIMITS)
    episode.add_utterance(blueprint.intents[0].queries[0], 1)
    episode.apply_reply(Reply(acting_message(touch | {"device_id": device})))
    assert episode.side_effects() == 1
    for part in expert_plan(episode.situation.file, episode.situation.start, blueprint.intents[0].reply):
        for act in part:
            episode.apply_reply(Reply(acting_message(act)))
    assert episode.outcome is Outcome.AGENT_FAILURE


# The protocol


def test_words_alone_are_the_answer_and_three_slips_end_it():
    blueprint = made("qt1/feasible")
    episode = begin_episode(blueprint, LIMITS)
    episode.add_utterance("?", 1)
    for act in expert_plan(episode.situation.file, episode.situation.start, "")[0]:
        episode.apply_reply(Reply(acting_message(act)))
    twin = episode.fork()
    twin.apply_reply(Reply({"role": "assistant", "content": blueprint.intents[0].reply}))
    assert twin.outcome is Outcome.SUCCESS and episode.outcome is None
    for _ in range(3):
        assert episode.outcome is None
        episode.apply_reply(Reply({"role": "assistant", "content": "{"}, "Invalid structured output format"))
    assert episode.outcome is Outcome.AGENT_FAILURE and episode.situation.broken_rule == "format"


def test_a_good_call_resets_the_slips_and_polls_take_time():
    episode = begin_episode(made("qt4-1/feasible"), LIMITS)
    episode.add_utterance("?", 1)
    unknown, time = {"name": "no_such_tool"}, {"name": "get_current_time"}
    for act in (unknown, unknown, time, unknown, unknown):
        episode.apply_reply(Reply(acting_message(act)))
    assert episode.outcome is None and episode.situation.home.tick == 0
    episode.apply_reply(Reply(acting_message(time)))
    for waited in (0, 10, 30, 70, 150, 230, 310, 390):
        episode.apply_reply(Reply(acting_message({"name": "get_workflow_status", "workflow_id": "w"})))
        assert episode.situation.home.tick == waited and episode.outcome is None
    episode.apply_reply(Reply(acting_message({"name": "get_workflow_status", "workflow_id": "w"})))
    assert episode.outcome is Outcome.AGENT_FAILURE and episode.situation.broken_rule == "polls"


def test_twenty_messages_are_all():
    trajectory = played(made("qt3/feasible"), Looker())
    assert trajectory.outcome is Outcome.STEP_LIMIT and len(trajectory.steps) == 20 and released_verdict(trajectory) == -1


def test_where_time_itself_fails_the_reference_counts_nothing():
    blueprint = made("qt4-1/feasible")
    broken = {"tool": "execute_command", "args": {"device_id": "x"}}
    flow = {"name": "schedule_workflow", "steps": [broken]}
    when = min(goal.when.at_tick for goal in blueprint.episode_file.eval.goals) // 20
    at = load.start_home(blueprint.episode_file.initial_home_config).plan.base_time + timedelta(seconds=when)
    trajectory = played(blueprint, acts_once(flow | {"start_time": str(at)}))
    assert trajectory.outcome is Outcome.AGENT_FAILURE and trajectory.steps[-1].facts.error
    assert released_verdict(trajectory) == -1


class Looker(FixedAnswerAgent):
    """Looks for ever."""

    def __init__(self):
        super().__init__("looker", "")

    async def consult(self, episode, n=1):
        return [Reply(acting_message({"name": "get_rooms"}))]


# Search, synthesis, replay


@pytest.mark.parametrize(
    "group",
    [
        "qt2/feasible",
        "qt4-3/feasible",
        *(pytest.param(group, marks=pytest.mark.long) for group in ("qt1/feasible", "qt4-1/infeasible")),
    ],
)
def test_search_finds_verified_trajectories(group):
    blueprint = made(group)
    expert = world_of(blueprint).expert(ExpertConfig(mistakes=0.3), 3)
    found, stats = asyncio.run(search_tree(blueprint, expert, [ScriptedUser()], limits=LIMITS))
    assert stats.nodes > 1
    for trajectory in found:
        assert trajectory.success and trajectory.is_valid and first_difference(trajectory, restore_situation) is None
        assert trajectory_from_row(json.loads(json.dumps(trajectory_to_row(trajectory)))) == trajectory


def test_synthesis_by_recipe_is_the_same_every_time_and_replays(tmp_path):
    data = {
        "blueprints": 8,
        "recipe": {"world": "simuhome", "types": {"qt1": 1, "qt3/feasible": 1}, "phrasings": 2},
        "limits": {"turns": 1, "steps": 20, "steps_per_turn": 20},
    }
    config = SynthesisConfig.model_validate(data)
    for name in ("one", "two"):
        make_shard(config, range(8), tmp_path / name)
    one, two = (tmp_path / name / "0000000.jsonl" for name in ("one", "two"))
    assert one.read_bytes() == two.read_bytes()
    assert "all as recorded" in reverify_file(one, restore_situation)


def test_each_world_has_its_own_expert():
    small = BlueprintRecipe.model_validate({"home": {"devices": (2, 2)}, "intents": (1, 1), "phrasings": 1})
    assert isinstance(world_of(make_blueprint_of_seed(small, "train", 0)).expert(ExpertConfig(), 0), HomeExpert)
    assert not isinstance(world_of(made("qt1/feasible")).expert(ExpertConfig(), 0), HomeExpert)


# Why it failed


def acts_once(*acts):
    class Acts(FixedAnswerAgent):
        async def consult(self, episode, n=1):
            first, second, *_ = expert_plan(episode.situation.file, episode.situation.start, "", minimal=True)
            rest = [act for act in (*first, *second, *acts) if act not in self.done]
            self.done += rest[:1]
            return [Reply(acting_message(rest[0] if rest else {"name": "finish", "answer": "Done."}))]

    agent = Acts("acts", "")
    agent.done = []
    return agent


def test_the_papers_taxonomy():
    hint = made("qt2/feasible")
    rooms = hint.episode_file.initial_home_config.rooms.values()
    other = next(d.device_id for room in rooms for d in room.devices if d.device_type == "refrigerator")
    cool = {"name": "execute_command", "device_id": other, "endpoint_id": 1, "cluster_id": "TemperatureControl",
            "command_id": "SetTemperature", "args": {"target_temperature": 300}}  # fmt: skip
    assert simuhome_failure(played(hint, acts_once(cool))).dimension == "II"
    assert simuhome_failure(played(hint, FixedAnswerAgent("blind", "Done.", looks_first=False))).dimension == "EP"
    later = made("qt4-1/feasible")
    step = {
        "tool": "execute_command",
        "args": {"device_id": other, "endpoint_id": 1, "cluster_id": "OnOff", "command_id": "On"},
    }
    wrong = {"name": "schedule_workflow", "start_time": "2025-08-23 23:59:59", "steps": [step]}
    assert simuhome_failure(played(later, acts_once(wrong))).dimension == "TR"
    assert simuhome_failure(played(later, BASELINES["nothing"]())).dimension == "AP"
    clash = made("qt4-1/infeasible")
    assert simuhome_failure(played(clash, BASELINES["nothing"]())).dimension == "CB"
    assert simuhome_failure(played(clash, BASELINES["refuses"]())).dimension == "CM"
    assert simuhome_failure(played(made("qt3/feasible"), BASELINES["nothing"]())).dimension == "AP"


def test_instances_stand_under_the_papers_columns():
    assert [simuhome_instance(made(group)).category for group in GROUPS] == known_suites()["simuhome"][1].printed()[
        "categories"
    ]


def test_the_words_suit_names_in_the_plural_and_the_number_one():
    gone = {"room_id": "kitchen", "device_id": "kitchen_window_covering_controller_1", "asserts": []}
    file = question(gone | {"device_type": "window_covering_controller"}, "infeasible", "qt3")
    reply = expert_reply(file, load.start_home(file.initial_home_config), "en")
    assert reply == "I found no blinds 1 in the kitchen, so I changed nothing." and answered(file, reply)
    cold = {"attribute": "1.TemperatureControl.TemperatureSetpoint", "value": 100}
    goal = {"room_id": "kitchen", "device_id": "kitchen_refrigerator_2", "device_type": "refrigerator", "asserts": [cold]}
    said = request_wordings(question(goal, query_type="qt3"), Voice("en"), "train", 4, random.Random(0))
    assert all("to 1 °C" in one for one in said)


def test_what_the_expert_answers_is_read_as_right():
    for group in GROUPS:
        for seed in range(2):
            episode = generate_episode(*group.split("/"), seed)
            if not episode.is_decided_by_rule:
                home = load.start_home(episode.initial_home_config)
                assert answered(episode, expert_reply(episode, home, "en")) and answered(
                    episode, expert_reply(episode, home, "zh")
                ), group
