"""Automations: who makes what was asked for succeeds, however it is written; who makes something else does not."""

import asyncio
import json
import random
import re
from datetime import UTC, date, datetime
from functools import cache

import pytest
from crossed import crossed

from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.speaker import Speaker
from homerl.envs.homeenv.language.times_and_states import AfterDelay, ClockTime, OnceAt, RecurringAt
from homerl.envs.homeenv.maker.make import HomeRecipe
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.sim.toolset import ToolsetWriter
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.sim.toolsets.smh import automation_to_arguments
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Automation, Blueprint
from homerl.envs.homeenv.tasks.goals import find_automation_flaw, has_wanted_automation, rules_serving_wish
from homerl.envs.homeenv.tasks.prompts import device_label
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome
from homerl.play.words.grammar import Voice
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

SUBCATEGORIES = ("time_specific", "state_driven", "time_and_state")
COUNT = 16
CRON = re.compile(r"time_cron = (\S+) (\S+) (\S+) (\S+) (\S+) (\S+) (\S+)$")
THRESHOLD = re.compile(r"^(.*) (>|<|>=|<=) (-?\d+)$")
FLIPPED = {">": "<", "<": ">", ">=": "<=", "<=": ">="}
BESIDE = {">": ">=", "<": "<=", ">=": ">", "<=": "<"}


def recipe(subcategory: str, **parts) -> BlueprintRecipe:
    family = {f"automation/{subcategory}": 1.0}
    home = HomeRecipe(devices=(4, 26))
    return BlueprintRecipe(**({"families": family, "home": home, "intents": (1, 1), "toolset": "smh"} | parts))


@cache
def blueprints(subcategory: str) -> tuple[Blueprint, ...]:
    return tuple(make_home_blueprint(recipe(subcategory), "train", seed) for seed in range(COUNT))


def everything() -> list[Blueprint]:
    return [blueprint for subcategory in SUBCATEGORIES for blueprint in blueprints(subcategory)]


def writer_for(toolset: str, home: Home) -> ToolsetWriter:
    return TOOLSETS[toolset].writer(home, "Done.", device_label)


def wanted_of(blueprint: Blueprint) -> tuple[Home, Automation]:
    return home_from_json(blueprint.home), blueprint.intents[0].automation


def judged(start: Home, wanted: Automation, *rules: dict) -> bool:
    """Whether rules, as an agent writes them, do what is wanted."""
    home = start.fork()
    for said in rules:
        made = make_rule(
            home, said.get("conditions", ()), said["actions"], "mine", said.get("delay_seconds"), said.get("hold_seconds", 0)
        )
        home.rules = (*home.rules, made)
    return has_wanted_automation(home, start, wanted)


def plain(start: Home, wanted: Automation, **changes) -> dict:
    """The wanted rule as an agent writes it, some parts otherwise."""
    return {key: part for key, part in (automation_to_arguments(start, wanted) | changes).items() if part is not None}


def finished(blueprint: Blueprint, *messages: dict) -> Episode:
    """An episode in which these messages are all that an agent says, but for a last word where all is done."""
    episode = begin_episode(blueprint, EpisodeLimits(steps=len(messages) + 1))
    episode.add_utterance(blueprint.intents[0].queries[0], blueprint.intents[0].id)
    for message in messages:
        if episode.outcome is None:
            episode.apply_reply(Reply(message))
    if episode.outcome is None and episode.progress == 1.0:
        episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
    return episode


@crossed(subcategory=SUBCATEGORIES, toolset=["smh", "direct"])
def test_the_expert_succeeds(subcategory, toolset):
    for blueprint in blueprints(subcategory):
        blueprint = blueprint.model_copy(update={"toolset": toolset})
        trajectory = asyncio.run(play(begin_episode(blueprint, EpisodeLimits()), Expert(0), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS and trajectory.clean
        assert not any(step.facts.blocked for step in trajectory.steps)


@pytest.mark.parametrize("toolset", ["smh", "direct"])
def test_doing_nothing_or_doing_it_now_fails(toolset):
    for blueprint in everything():
        blueprint = blueprint.model_copy(update={"toolset": toolset})
        writer = writer_for(toolset, home_from_json(blueprint.home))
        wanted = blueprint.intents[0].automation
        now, later = writer.write_calls(wanted.actions), writer.automate(wanted)
        assert finished(blueprint, writer.write_reply("Done.")).outcome is not Outcome.SUCCESS
        early = finished(blueprint, now)
        assert early.outcome is not Outcome.SUCCESS and early.progress == 0 and early.side_effects() > 0
        assert finished(blueprint, now, later).outcome is Outcome.AGENT_FAILURE
        assert finished(blueprint, later).outcome is Outcome.SUCCESS


def test_intents_are_sound_and_nothing_may_change_now():
    for blueprint in everything():
        start, wanted = wanted_of(blueprint)
        (intent,) = blueprint.intents
        assert (
            find_automation_flaw(start, wanted) is None and not intent.devices and not intent.conditions and not intent.plan
        )
        assert 1 <= len({call.did for call in wanted.actions}) <= 3
        watched = {did for text in wanted.conditions for did in re.findall(r'device\("(\w+)"\)', text)}
        assert not watched & {call.did for call in wanted.actions}
        ids = {device.did for device in start.plan.devices}
        for text in (*intent.queries, intent.clarification):
            assert not ids & set(text.split()) and "==" not in text and "_" not in text and "{" not in text


def times(wanted: Automation) -> list[str]:
    return next((list(found.groups()) for text in wanted.conditions if (found := CRON.match(text))), [])


def with_time(wanted: Automation, *fields: str) -> list[str]:
    return [text if not CRON.match(text) else f"time_cron = {' '.join(fields)}" for text in wanted.conditions]


@pytest.mark.parametrize("subcategory", ["time_specific", "time_and_state"])
def test_times_are_told_apart_and_their_spellings_are_not(subcategory):
    for blueprint in blueprints(subcategory):
        start, wanted = wanted_of(blueprint)
        if not times(wanted):
            continue
        s, minute, hour, day, month, weekday, year = times(wanted)
        wrong = [
            (s, minute, str((int(hour) + 1) % 24), day, month, weekday, year),
            (s, str((int(minute) + 5) % 60), hour, day, month, weekday, year),
            ("30", minute, hour, day, month, weekday, year),
            (s, minute, hour, day, "3" if month == "*" else str(int(month) % 12 + 1), weekday, year),
            ("*", minute, hour, day, month, weekday, year),
        ]
        if year != "*":
            wrong += [(s, minute, hour, day, month, "?", str(int(year) + 1)), (s, minute, hour, day, month, "?", "*")]
        elif day == "?":
            others = {"*": ("MON-FRI", "MON-SAT"), "MON-FRI": ("*", "MON-THU"), "SAT,SUN": ("SAT", "*")}
            wrong += [
                (s, minute, hour, "?", "*", other, "*") for other in others.get(weekday, ("*", "MON-FRI", "SUN,SAT,WED"))
            ]
            wrong += [(s, minute, hour, "?", "*", weekday, "2020-2027"), (s, minute, hour, "?", "1-11", weekday, "*")]
            wrong += [(s, minute, hour, "?", "*", "THU" if weekday == "WED" else "WED", "*")]
        else:
            wrong += [(s, minute, hour, str(int(day) + 1), "*", "?", "*"), (s, minute, hour, "*", "*", "?", "*")]
        for fields in wrong:
            try:
                assert not judged(start, wanted, plain(start, wanted, conditions=with_time(wanted, *fields))), fields
            except Refused:
                continue
        right = [(s, minute, hour, day.replace("?", "*"), month, weekday.replace("?", "*").lower(), year)]
        if year == "*":
            right += [(minute, hour, day.replace("?", "*"), month, weekday.replace("?", "*"))]
            right += [(s, minute, hour, day.replace("?", "*"), month, weekday.replace("?", "*"))]
        for fields in right:
            assert judged(start, wanted, plain(start, wanted, conditions=with_time(wanted, *fields))), fields


def test_a_delay_is_the_moment_that_it_ends_at():
    for blueprint in blueprints("time_specific"):
        start, wanted = wanted_of(blueprint)
        if wanted.delay_seconds is not None:
            at = datetime.fromtimestamp(start.clock + wanted.delay_seconds, UTC)
            line = f"time_cron = 0 {at.minute} {at.hour} {at.day} {at.month} ? "
            assert judged(start, wanted, plain(start, wanted, delay_seconds=None, conditions=[f"{line}{at.year}"]))
            assert not judged(start, wanted, plain(start, wanted, delay_seconds=None, conditions=[f"{line}*"]))
            assert not judged(start, wanted, plain(start, wanted, delay_seconds=wanted.delay_seconds + 60))
            assert not judged(start, wanted, plain(start, wanted, delay_seconds=wanted.delay_seconds - 60))
        elif (fields := times(wanted)) and fields[-1] != "*":
            _, minute, hour, day, month, _, year = (int(text) if text.isdigit() else 0 for text in fields)
            wait = int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp()) - start.clock
            assert judged(start, wanted, plain(start, wanted, conditions=None, delay_seconds=wait))


def test_a_delay_counts_from_when_the_rule_is_made():
    blueprint = next(b for b in blueprints("time_specific") if b.intents[0].automation.delay_seconds)
    start, wanted = wanted_of(blueprint)
    home = start.fork()
    home.advance(40)
    home.rules = (make_rule(home, (), plain(home, wanted)["actions"], delay=wanted.delay_seconds),)
    assert has_wanted_automation(home, start, wanted)


@pytest.mark.parametrize("subcategory", ["state_driven", "time_and_state"])
def test_circumstances_are_told_apart_and_their_spellings_are_not(subcategory):
    for blueprint in blueprints(subcategory):
        start, wanted = wanted_of(blueprint)
        conditions, hold = list(wanted.conditions), wanted.hold_seconds
        states = [text for text in conditions if not CRON.match(text)]
        clock = [text for text in conditions if CRON.match(text)]
        wrong, right = [], [[*states[::-1], *clock], [" and ".join(f"({text})" for text in states), *clock]]
        right.append([*(f"not (not ({text}))" for text in states), *clock])
        for text in states:
            others = [*clock, *(other for other in states if other != text)]
            wrong.append([f"not ({text})", *others])
            wrong += [others] if len(states) > 1 or clock else []
            if found := THRESHOLD.match(text):
                what, operator, number = found[1], found[2], int(found[3])
                far = 1 if "no_move_duration" not in what else 30
                wrong += [[f"{what} {operator} {number + far}", *others], [f"{what} {operator} {number - far}", *others]]
                wrong += [[f"{what} {FLIPPED[operator]} {number}", *others]]
                wrong += [[f"{what} {BESIDE[operator]} {number}", *others]] if far == 1 else []
                right.append([f"{number} {FLIPPED[operator]} {what}", *others])
        for said in wrong:
            assert not judged(start, wanted, plain(start, wanted, conditions=said)), said
        for said in right:
            assert judged(start, wanted, plain(start, wanted, conditions=said)), said
        if hold:
            for other in (0, hold - 60, hold + 60):
                assert not judged(start, wanted, plain(start, wanted, hold_seconds=other))
        elif not clock:
            counted = any("no_move" in text for text in states)
            assert not judged(start, wanted, plain(start, wanted, hold_seconds=600)) or (counted and hold == 600)


def test_a_counter_and_a_hold_are_the_same_where_they_act_at_the_same_seconds():
    found = 0
    for seed in range(40):
        start = home_from_json(make_home_blueprint(recipe("state_driven"), "train", seed).home)
        for device in start.plan.devices:
            if (
                "no_move_duration" not in device.spec.attribute_index
                or start.read_value(device.did, "human_detected") == "no"
            ):
                continue
            light = next(
                (
                    d
                    for d in start.plan.devices
                    if "turn_on" in d.spec.service_index and start.read_value(d.did, "state") == "off"
                ),
                None,
            )
            if light is None:
                continue
            found += 1
            does = {"actions": [{"did": light.did, "locator": "turn_on"}]}
            counter, gone = (
                f'device("{device.did}").no_move_duration > 900',
                f'device("{device.did}").human_detected == "no"',
            )
            wanted = Automation.model_validate(
                {
                    "conditions": [counter],
                    "actions": [{"did": light.did, "service": "turn_on"}],
                    "effects": [f'device("{light.did}").state == "on"'],
                }
            )
            assert judged(start, wanted, {"conditions": [counter]} | does)
            assert judged(start, wanted, {"conditions": [gone], "hold_seconds": 900} | does)
            assert judged(start, wanted, {"conditions": [gone, counter]} | does)
            assert not judged(start, wanted, {"conditions": [gone], "hold_seconds": 840} | does)
            assert not judged(start, wanted, {"conditions": [gone]} | does)
    assert found


def test_a_sensor_speaks_for_its_room():
    for blueprint in blueprints("state_driven"):
        start = home_from_json(blueprint.home)
        sensor = next((d for d in start.plan.devices if "temperature" in d.spec.attribute_index), None)
        lamp = next(
            (d for d in start.plan.devices if d.spec.category == "light" and start.read_value(d.did, "state") == "off"), None
        )
        if sensor and lamp and sensor.spec.category.endswith("_sensor"):
            break
    number = int(start.read_value(sensor.did, "temperature")) + 3
    wanted = Automation.model_validate(
        {
            "conditions": [f'room("{sensor.room.id}").temperature > {number}'],
            "actions": [{"did": lamp.did, "service": "turn_on"}],
            "effects": [f'device("{lamp.did}").state == "on"'],
        }
    )
    does = {"actions": [{"did": lamp.did, "locator": "turn_on"}]}
    assert judged(start, wanted, {"conditions": [f'device("{sensor.did}").temperature > {number}']} | does)
    assert not judged(start, wanted, {"conditions": [f'device("{sensor.did}").temperature > {number + 1}']} | does)
    assert not judged(start, wanted, {"conditions": [f"home.temperature > {number}"]} | does)


def test_what_a_rule_does_is_judged_by_its_effects():
    rng = random.Random(0)
    for blueprint in everything():
        start, wanted = wanted_of(blueprint)
        said = plain(start, wanted)
        dids = sorted({call.did for call in wanted.actions})
        less = [action for action in said["actions"] if action["did"] != dids[0]]
        others = [d for d in start.plan.devices if d.did not in dids and "turn_on" in d.spec.service_index]
        assert judged(start, wanted, said)
        if less:
            assert not judged(start, wanted, said | {"actions": less})
        if others:
            for service in ("turn_on", "turn_off"):
                more = {"did": rng.choice(others).did, "locator": service}
                assert not judged(start, wanted, said | {"actions": [*said["actions"], more]})
        for index, action in enumerate(said["actions"]):
            (argument, value), *_ = [*(action.get("arguments") or {"": None}).items()]
            if type(value) is int:
                for other in (value + 1, value - 1):
                    wrong = [*said["actions"]]
                    wrong[index] = action | {"arguments": {argument: other}}
                    try:
                        assert not judged(start, wanted, said | {"actions": wrong})
                    except Refused:
                        continue


def test_several_rules_may_share_out_what_is_to_be_done():
    blueprint = next(b for b in blueprints("time_specific") if len({c.did for c in b.intents[0].automation.actions}) > 1)
    start, wanted = wanted_of(blueprint)
    said = plain(start, wanted)
    each = [said | {"actions": [a for a in said["actions"] if a["did"] == did]} for did in {c.did for c in wanted.actions}]
    assert judged(start, wanted, *each) and not judged(start, wanted, *each[1:])
    calls = [tool_call("create_automation", rule) for rule in each]
    episode = finished(blueprint, *({"role": "assistant", "content": "", "tool_calls": [call]} for call in calls))
    assert episode.outcome is Outcome.SUCCESS and episode.side_effects() == 0
    assert len(rules_serving_wish(episode.situation.home, episode.situation.start, wanted)) == len(each)


def test_a_rule_beyond_those_wanted_strays_and_so_does_one_that_is_switched_off():
    blueprint = blueprints("time_specific")[0]
    start, wanted = wanted_of(blueprint)
    right = tool_call("create_automation", plain(start, wanted))
    other = tool_call(
        "create_automation", plain(start, wanted, conditions=["time_cron = 0 0 3 * * ? *"], delay_seconds=None)
    )
    twice = finished(blueprint, {"role": "assistant", "content": "", "tool_calls": [other, right]})
    assert twice.progress == 1.0 and twice.outcome is Outcome.AGENT_FAILURE
    off = tool_call("edit_automation", {"id": "1", "enabled": False})
    assert finished(blueprint, {"role": "assistant", "content": "", "tool_calls": [right, off]}).progress == 0.0


def test_what_a_rule_has_done_by_itself_is_no_straying():
    """A circumstance that comes about while the dialogue goes on sets the rule off."""
    for blueprint in blueprints("state_driven"):
        start, wanted = wanted_of(blueprint)
        text = wanted.conditions[0]
        found = re.match(r'device\("(\d+)"\)\.(\S+) == ("?\w+"?)$', text)
        if len(wanted.conditions) == 1 and not wanted.hold_seconds and found:
            break
    episode = begin_episode(blueprint)
    episode.add_utterance(blueprint.intents[0].queries[0], 1)
    episode.apply_reply(Reply(writer_for("smh", episode.situation.home).automate(wanted)))
    slot = start.plan.slot_of(found[1], found[2])
    episode.situation.start.write_slot(slot, json.loads(found[3].lower()))  # as if the world had changed it, not the agent
    episode.situation.home.write_slot(slot, json.loads(found[3].lower()))
    assert {fired.rule for fired in episode.situation.home.advance(1)} == {"1"}
    assert episode.progress == 1.0 and episode.side_effects() == 0


def test_intents_after_an_automation_leave_its_devices_alone():
    for seed in range(12):
        mixed = recipe("state_driven", families={"automation": 1.0, "atomic": 1.0}, intents=(3, 3), phrasings=1)
        blueprint = make_home_blueprint(mixed, "train", seed)
        later = [i.automation for i in blueprint.intents if i.automation]
        concerned = [call.did for wanted in later for call in {c.did: c for c in wanted.actions}.values()]
        concerned += [
            did for wanted in later for text in wanted.conditions for did in re.findall(r'device\("(\w+)"\)', text)
        ]
        assert len(set(concerned)) == len(concerned) and not set(concerned) & blueprint.changeable_devices
        trajectory = asyncio.run(play(begin_episode(blueprint, EpisodeLimits()), Expert(0), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS


def test_no_odd_rule_makes_it_raise():
    blueprint = blueprints("state_driven")[0]
    start, wanted = wanted_of(blueprint)
    does = plain(start, wanted)["actions"]
    device = next(d for d in start.plan.devices if d.spec.attribute_index)
    path = next(iter(device.spec.attribute_index))
    odd = [
        {"conditions": ["1 / (home.temperature - home.temperature) > 0"]},
        {"conditions": ["home.temperature > 1e300 and home.humidity < -1e300"]},
        {"conditions": [f'device("{device.did}").{path} in ("a", 1, True)']},
        {"conditions": ["max(home.temperature, home.humidity, home.brightness) > min(3, home.temperature)"]},
        {"conditions": ["home.temperature > 3"], "hold_seconds": 300_000_000},
        {"conditions": ["time_cron = 0 0 0 30 2 ? *"]},
        {"conditions": ["time_cron = * * * * * ? *"]},
        {"delay_seconds": 300_000_000},
    ]
    for rule in odd:
        assert judged(start, wanted, rule | {"actions": does}) is False


NOW = datetime(2025, 6, 16, 9, 0)  # a Monday


@pytest.mark.parametrize(
    ("time", "english", "chinese"),
    [
        (AfterDelay(5400), "in an hour and a half", "一个半小时后"),
        (AfterDelay(1200), "in 20 minutes", "20分钟后"),
        (OnceAt(date(2025, 6, 16), ClockTime(22), NOW), "tonight at 10", "今晚10点"),
        (OnceAt(date(2025, 6, 17), ClockTime(7, 30), NOW), "tomorrow morning at half past seven", "明天早上7点半"),
        (OnceAt(date(2025, 6, 20), ClockTime(18, 45), NOW), "on friday at 6:45 pm", "6月20号晚上6点45"),
        (OnceAt(date(2025, 8, 1), ClockTime(12), NOW), "on august 1 at noon", "8月1号中午12点"),
        (RecurringAt(ClockTime(7, 5)), "every day at 7:05 am", "每天早上7点05"),
        (RecurringAt(ClockTime(14), (0, 1, 2, 3, 4)), "on weekdays at 2 pm", "工作日下午2点"),
        (
            RecurringAt(ClockTime(6, 15), (0, 2, 6)),
            "every monday, wednesday and sunday at 6:15 am",
            "每周一、周三和周日早上6点15",
        ),
        (RecurringAt(ClockTime(9), monthday=1), "on the first of every month at 9 am", "每月1号早上9点"),
        (RecurringAt(ClockTime(0)), "every day at midnight", "每天零点"),
    ],
)
def test_times_in_their_most_usual_words(time, english, chinese):
    home = home_from_json(blueprints("time_specific")[0].home)
    for language, words in (("en", english), ("zh", chinese)):
        assert time.words(Speaker(home, Voice(language, 0.0), "clear", random.Random(0))).replace(" ", "") == words.replace(
            " ", ""
        )


def test_no_time_that_is_asked_for_is_past_and_none_is_far():
    for blueprint in blueprints("time_specific"):
        start, wanted = wanted_of(blueprint)
        rule = make_rule(start, wanted.conditions, plain(start, wanted)["actions"], delay=wanted.delay_seconds)
        due = rule.progress.due
        assert start.clock + 600 <= due <= start.clock + 92 * 86400


def test_both_languages_have_the_same_frames_to_choose_from():
    known = [home_grammar(language).keys() for language in ("en", "zh")]
    ours = [{key for key in keys if key.startswith(("when.", "automation."))} for keys in known]
    assert ours[0] == ours[1]
