"""Rules for the episodes that a judge would decide: what the final answer must say, and what must not have changed.

- Feasible QT1: the answer gives every value that was asked for, as the tools show it or converted, with its room. For
  example, 2350 and 23.5 °C are both right.
- Infeasible episodes: the answer gives the right reason and no other. Nothing was changed or scheduled, except for what
  a feasible part of the request asks for.

Invariants: all functions are pure; values come from the simulator, never from the agent; an answer that gives several
reasons or guesses several times, so as to suit any episode, suits none.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from datetime import timedelta
from functools import lru_cache
from typing import Any

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim import virtual_time as passage
from homerl.envs.simuhome.sim.air import WATCHED
from homerl.envs.simuhome.sim.episode_file import EpisodeFile, GoalSpec
from homerl.envs.simuhome.sim.evaluation import value_at
from homerl.envs.simuhome.sim.home import MatterHome
from homerl.envs.simuhome.tasks import sentences
from homerl.envs.simuhome.tasks.sentences import all_grammars, fold_for_patterns, reasons_in, shows_sign, simuhome_grammar
from homerl.play.words.answer_rules import Answer, judge_answer_by_rules, phrase_pattern
from homerl.play.words.numbers_and_times import find_times, minutes_apart


def goals_answered(episode: EpisodeFile, start: MatterHome, final: MatterHome, answer: str) -> tuple[bool, ...]:
    """For each goal of an episode that a judge would decide, whether answer and home meet it.

    `start` and `final` are the home before the first call and after the last one.
    """
    goals, text = episode.eval.goals, answer.strip()
    if not text or (episode.meta.case == "infeasible" and (shows_sign("done", text) or stray_changes(episode, final))):
        return (False,) * len(goals)
    if episode.temporal_conflict is not None:
        return (_names_true_time(episode, start, text),) * len(goals)
    return tuple(_is_goal_answered(episode, goal, start, final, text) for goal in goals)


def _is_goal_answered(episode: EpisodeFile, goal: GoalSpec, start: MatterHome, final: MatterHome, text: str) -> bool:
    if is_goal_feasible(goal, final):
        if episode.meta.query_type != "qt1":
            return True  # the request as a whole cannot be met, so nothing need be said of this part
        of_room = sum(other.room_id == goal.room_id for other in episode.eval.goals)
        return text_names_room(text, goal) and any(states_value(goal, home, text, of_room) for home in (final, start))
    if goal.device_type and not goal.room_state:
        return names_only_reason("absent", text) and text_names_room(text, goal) and text_names_kind(text, goal.device_type)
    return names_only_reason(immovable_reason(goal, final), text) and text_names_room(text, goal)


def is_goal_feasible(goal: GoalSpec, home: MatterHome) -> bool:
    """Whether a goal of such an episode can be met."""
    if goal.room_state:
        return goal.further_keys.get("feasibility", not goal.direction) and not goal.device_id
    return goal.device_id in home.plan.devices


def immovable_reason(goal: GoalSpec, home: MatterHome) -> str:
    """Why a room variable cannot be moved: `absent` (no device there moves it) or `limit` (its devices can do no more)."""
    there = {device.type.name for device in home.plan.devices_by_room.get(goal.room_id, ())}
    return "limit" if there & set(WATCHED[goal.room_state]) and not goal.device_id else "absent"


def names_only_reason(reason: str, text: str) -> bool:
    """Whether a text gives this reason and none of the others."""
    return reasons_in(text) == {reason}


# Names


def all_wordings(*keys: str) -> list[str]:
    """All ways to say these grammar keys, in every language."""
    return [way for grammar in all_grammars() for key in keys if key in grammar for way in grammar.plain_texts(key)]


def text_names_room(text: str, goal: Any) -> bool:
    """Whether a text names the goal's room, in any language."""
    return _contains_any(text, [goal.room_id, goal.room_id.replace("_", " "), *all_wordings(f"room.{goal.room_id}")])


def text_names_kind(text: str, kind: str) -> bool:
    """Whether a text names this kind of device, in any language.

    The name of another kind is not its name, even if it contains it: a dimmer light (调光灯) is no light (灯).
    """
    for pattern in _longer_name_patterns(kind):
        text = pattern.sub(" ", text)
    return _contains_any(text, _kind_names(kind))


@lru_cache
def _longer_name_patterns(kind: str) -> list[re.Pattern[str]]:
    """The names of other kinds that contain one of this kind, the longest first."""
    names = _kind_names(kind)
    others = {name for key in simuhome_grammar("en").keys("kind.") for name in _kind_names(key.removeprefix("kind."))}
    longer = (name for name in others if name not in names and _contains_any(name, names))
    return [re.compile(phrase_pattern(name), re.I) for name in sorted(longer, key=lambda name: (-len(name), name))]


def _kind_names(kind: str) -> list[str]:
    return [kind, kind.replace("_", " "), *all_wordings(f"kind.{kind}")]


def _contains_any(text: str, named: Iterable[str]) -> bool:
    text = fold_for_patterns(text)
    return any(re.search(phrase_pattern(way.lower()), text) for way in named)


# Values


def states_value(goal: GoalSpec, home: MatterHome, text: str, of_room: int = 1) -> bool:
    """Whether a text states a goal's value and no other, either as a whole or in a sentence that names the room.

    At most `of_room` sentences that name the room may state a value, where `of_room` is the number of values asked for
    in that room. Otherwise an agent could try one value after the other.
    """
    answers = list(expected_answers(goal, home))
    whole, *clauses = _text_and_sentences(text, goal, home)
    verdicts = [{judge_answer_by_rules(answer, sentence) for answer in answers} for sentence in clauses]
    claims = [verdict for verdict in verdicts if verdict != {"silent"}]
    alone = any(judge_answer_by_rules(answer, whole) == "right" for answer in answers)
    return len(claims) <= of_room and (alone or any("right" in verdict for verdict in claims))


def _text_and_sentences(text: str, goal: GoalSpec, home: MatterHome) -> list[str]:
    """The whole text, and then each sentence that names the room.

    The names of the device and of the attribute are removed first, because they may look like values: a heat pump
    contains "heat", its name has a number, and 开关 (the attribute on/off) contains the value 开. In a value, such as a
    vendor "Heat Pump", the name of the device's kind stays.
    """
    place, path = sentences.DeviceReference.from_target(goal), goal.asked_attribute.partition(".")[2]
    for name in all_wordings(f"attribute.{path}"):
        text = text.replace(name, "")
    asked = None if goal.room_state else value_at(home, goal.device_id, goal.asked_attribute)
    values = [str(one).lower() for one in (asked if isinstance(asked, list) else [asked])]
    for kind in all_wordings(f"kind.{place.kind}"):
        owner = r"(?:of|for)(?: the)? " if any(kind.lower() in value for value in values) else "(?<![a-z])"
        text = re.sub(rf"{owner}{re.escape(kind)}(?![a-z])(?: ?#?{place.number}(?!\d))?", "", text, flags=re.I)
    clauses = re.split(r"[。;；!！?？]|(?<!\d)[.]|[.](?!\d)|,? and (?=the |in )|，另外|，(?=.{0,12}的)", text)
    return [text, *(sentence for sentence in clauses if text_names_room(sentence, goal))]


def expected_answers(goal: GoalSpec, home: MatterHome) -> Iterator[Answer]:
    """A goal's value in every form in which it may be stated."""
    if goal.room_state:
        raw, scale = home.room_state(goal.room_id)[goal.room_state], sentences.SCALE[goal.room_state]
        yield from _number_answers(raw, scale, 0.5 if scale == 1 else 0.06)
        return
    flat = goal.asked_attribute
    value, path = value_at(home, goal.device_id, flat), flat.partition(".")[2]
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        yield from _number_answers(value, 100 if path in sentences.HUNDREDTHS else 1, 0.005)
    if value == []:
        said = all_wordings("value.empty")
        yield Answer(type="text", value=said[0], accepted=(tuple(said),))
    else:
        yield from _item_answers(flat, value) if isinstance(value, (list, dict)) else _label_answers(flat, value)


def _number_answers(raw: float, scale: int, tolerance: float) -> Iterator[Answer]:
    """A number as the tools show it and, if that is in hundredths, as people say it."""
    names = ("PM10", "pm2.5")  # names with numbers, which are no values
    yield Answer(type="number", value=raw, tolerance=max(0.5 if scale > 1 else tolerance, tolerance), distractors=names)
    if scale > 1:
        yield Answer(type="number", value=raw / scale, tolerance=tolerance, distractors=names)


def _label_answers(flat: str, value: Any) -> Iterator[Answer]:
    """A value by its names, such as on, cooling or running. A text is also accepted as it is."""
    path = flat.partition(".")[2]
    own = "null" if value is None else str(value).lower() if isinstance(value, bool) else f"{path}.{value}"
    said = all_wordings(f"value.{own}")
    said += [label] if (label := sentences.enum_label(flat, value)) else []
    said += [str(value)] if isinstance(value, (str, bool)) else []
    if not said:
        return
    others = [key for key in simuhome_grammar("en").keys(f"value.{path}.") if key != f"value.{own}"]
    others = ["value.false" if value else "value.true"] if isinstance(value, bool) else others
    wrong = tuple(way for way in all_wordings(*others) if way not in said)
    yield Answer(type="text", value=said[0], accepted=(tuple(said),), distractors=wrong)


def _item_answers(flat: str, value: Any) -> Iterator[Answer]:
    """A list or a structure, by the names of its items. Every one must be named, and no other of the enumeration."""
    groups = tuple(sentences.item_names(flat, item) for item in (value if isinstance(value, list) else [value]))
    said = {name for group in groups for name in group}
    others = tuple(name for name in sentences.enum_names(flat) if name not in said)
    yield Answer(type="names", value=tuple(group[0] for group in groups), accepted=groups, distractors=others)


# Times


def _names_true_time(episode: EpisodeFile, start: MatterHome, text: str) -> bool:
    """Whether a text says that the times disagree, names the true time, and names no time that the episode does not have.

    The true time is that of the action, or the end of the programme. Otherwise an agent could name one time after the
    other.
    """
    conflict = episode.temporal_conflict or {}
    true = _minute_of_day(conflict.get("expected_time") or conflict.get("anchor_end_time", ""))
    # An honest answer may name: now, the times of the request, the anchor's end, and when each goal is due.
    known = {true, *(minute for meant in find_times(episode.query) for minute in meant)}
    known |= {_minute_of_day(conflict[key]) for key in ("conflict_time", "anchor_end_time") if key in conflict}
    for tick in (0, *(goal.when.at_tick for goal in episode.eval.goals if goal.when)):
        known.add(_minute_of_day(f"{start.plan.base_time + timedelta(seconds=start.seconds_at(tick)):%H:%M}"))
    named = list(find_times(text))
    only_known = all(_is_near(meant, known) for meant in named)
    return names_only_reason("conflict", text) and only_known and any(_is_near(meant, {true}) for meant in named)


def _minute_of_day(time: str) -> int:
    """The minute of the day of a time such as 13:25:54."""
    hour, minute = time.split(":")[:2]
    return 60 * int(hour) + int(minute)


def _is_near(meant: Iterable[int], wanted: Iterable[int]) -> bool:
    """Whether one of the minutes that a time may mean is at most one away from one of the wanted."""
    return any(minutes_apart(one, other) <= 1 for one in meant for other in wanted)


# What was changed


def stray_changes(episode: EpisodeFile, final: MatterHome) -> set[str]:
    """The devices that differ from the untouched home, and the workflows, that no feasible part of the request asks for."""
    fresh = load.build_home(episode.initial_home_config, final.plan.strict)
    passage.advance_home(fresh, final.tick)
    feasible = [goal for goal in episode.eval.goals if episode.is_decided_by_rule or is_goal_feasible(goal, final)]
    if episode.temporal_conflict is not None:
        feasible = []
    rooms = {goal.room_id for goal in feasible if goal.direction}
    devices = {goal.device_id for goal in feasible if goal.asserts}
    devices |= {target.device_id for goal in feasible for target in goal.targets}
    strays = {flow.id for flow in final.workflows if episode.meta.case == "infeasible"}
    for name, device in {**fresh.plan.devices, **final.plan.devices}.items():
        if device.room not in rooms and name not in devices:
            before, after = (home.plan.devices.get(name) for home in (fresh, final))
            if before is None or after is None or fresh.shown_attributes(before) != final.shown_attributes(after):
                strays.add(name)
    return strays


# The expert's answer


def expert_reply(episode: EpisodeFile, home: MatterHome, language: str) -> str:
    """The final answer of a flawless agent."""
    speaker = sentences.plain_speaker(language)
    if episode.is_decided_by_rule:
        return speaker.say_phrase("reply.done")
    if (conflict := episode.temporal_conflict) is not None:
        if "expected_time" in conflict:
            times = {"expected": conflict["expected_time"][:5], "said": conflict["conflict_time"][:5]}
            return speaker.say_phrase("reply.conflict", **times)
        anchor = speaker.say_device(episode.eval.goals[0].anchor)
        return speaker.say_phrase("reply.ending", anchor=anchor, expected=conflict["anchor_end_time"][:5])
    told = (g for g in episode.eval.goals if episode.meta.query_type == "qt1" or not is_goal_feasible(g, home))
    return speaker.grammar.fit_spaces(" ".join(_goal_reply(goal, home, speaker) for goal in told))


def _goal_reply(goal: GoalSpec, home: MatterHome, speaker: sentences.SimuHomeSpeaker) -> str:
    place, room = sentences.DeviceReference.from_target(goal), speaker.say_room(goal.room_id)
    if is_goal_feasible(goal, home) and goal.room_state:
        value = home.room_state(goal.room_id)[goal.room_state] / sentences.SCALE[goal.room_state]
        return speaker.say_phrase(f"reply.{goal.room_state}", room=room, value=sentences.plain_number(value))
    if is_goal_feasible(goal, home):
        flat = goal.asked_attribute
        name, target = speaker.say_attribute(flat), speaker.say_device(goal)
        shown = speaker.say_value(flat, value_at(home, goal.device_id, flat))
        return speaker.say_phrase("reply.attribute", name=name, target=target, value=shown)
    if not goal.room_state:
        return speaker.say_phrase("reply.absent", kind=speaker.say_kind(place.kind), number=place.number, room=room)
    key = "limit" if immovable_reason(goal, home) == "limit" else "unequipped"
    return speaker.say_phrase(f"reply.{key}", room=room, name=speaker.say_phrase(f"name.{goal.room_state}"))
