"""The calls of a step: kept with their arguments in every world, and stored only where the message does not tell them."""

import json
from dataclasses import replace
from functools import cache

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.messages import tool_call
from homerl.envs.core.world import MOST_LEVELS, ToolCall
from homerl.envs.homeenv.sim.toolset import RunResult, Tool
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.envs.simuhome.tasks.blueprint import SimuHomeRecipe
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import Boundary, Fault
from homerl.play.replay import first_difference
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import parse_reply, tool_calls_of
from homerl.play.trajectory import Step, Trajectory, absent_facts, trajectory_from_row, trajectory_to_row
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, restore_situation

LIMITS = EpisodeLimits(turns=99, steps=99)
HOME = {"devices": (2, 3), "categories": ("light", "heater")}
TOOLSETS = ("homeflow", "smh", "direct", "released", "paper")
DEEP, TOO_DEEP = ("[" * levels + "]" * levels for levels in (MOST_LEVELS - 1, MOST_LEVELS + 1))


@cache
def started(toolset: str) -> Episode:
    """An episode of any toolset in which the user has spoken."""
    world = {"world": "simuhome", "toolset": toolset} if toolset in ("released", "paper") else None
    recipe = SimuHomeRecipe(**world) if world else BlueprintRecipe(home=HOME, toolset=toolset)
    return begin_episode(make_blueprint_of_seed(recipe, "train", 3), LIMITS)


def act(toolset: str, *replies: Reply) -> Episode:
    """The episode after some messages."""
    episode = started(toolset).fork()
    for reply in replies:
        if episode.outcome is None:
            if episode.messages[-1]["role"] in ("system", "assistant"):
                episode.add_utterance("go on", 1)
            episode.apply_reply(reply)
    return episode


def calling(*calls: tuple[str, str]) -> dict:
    """A message of calls whose arguments are any text."""
    made = [{"type": "function", "function": {"name": name, "arguments": text}} for name, text in calls]
    return {"role": "assistant", "content": "", "tool_calls": made}


def finished(episode: Episode) -> Trajectory:
    if episode.outcome is None:
        episode.end_with_fault(Fault(Boundary.USER, "left_role: stopped by the test"))
    return episode.to_trajectory("policy", "nobody")


def stored_facts(trajectory: Trajectory) -> list[dict]:
    return [step["facts"] for step in json.loads(trajectory_to_row(trajectory)["steps"])]


@pytest.mark.parametrize(
    ("toolset", "message", "calls"),
    [
        ("homeflow", calling(("pyexec", '{"code": "1"}'), ("query_spec", '{"did": "1"}')),
         [("pyexec", {"code": "1"}), ("query_spec", {"did": "1"})]),
        ("homeflow", calling(("pyexec", "{no"), ("query_spec", "[1]"), ("", "")),
         [("pyexec", {}), ("query_spec", {}), ("", {})]),
        ("homeflow", calling(("a", f'{{"a": {DEEP}}}'), ("b", f'{{"b": {TOO_DEEP}}}'), ("c", "[" * 100_000)),
         [("a", {"a": json.loads(DEEP)}), ("b", {}), ("c", {})]),
        ("homeflow", {"role": "assistant", "content": '{"mode": "clarify"}'}, []),
        ("smh", calling(("control_device", '{"did": "1", "name": "x"}')), [("control_device", {"did": "1", "name": "x"})]),
        ("direct", {"role": "assistant", "content": '```json\n{"mode": "clarify", "response": "Which?"}\n```'},
         [("answer", {"mode": "clarify", "response": "Which?"})]),
        ("direct", {"role": "assistant", "content": "Done."}, []),
        ("direct", {"role": "assistant", "content": f'{{"mode": {TOO_DEEP}}}'}, [("answer", {})]),
        ("released", calling(("get_rooms", "{}")), [("get_rooms", {})]),
        ("paper", {"role": "assistant", "content": "It is warm."}, [("finish", {"answer": "It is warm."})]),
    ],
)  # fmt: skip
def test_every_call_is_kept(toolset, message, calls):
    trajectory = finished(act(toolset, Reply(message)))
    assert trajectory.steps[0].facts.calls == tuple(ToolCall(*call) for call in calls)
    assert [("calls" in facts) for facts in stored_facts(trajectory)] == [toolset == "paper"]
    row = json.loads(json.dumps(trajectory_to_row(trajectory)))
    assert trajectory_from_row(row) == trajectory
    assert first_difference(trajectory_from_row(row), restore_situation, absent_facts(row)) is None


def test_answers_are_calls_of_the_one_tool_whatever_it_and_its_toolset_are_called():
    trajectory = finished(act("direct", Reply({"role": "assistant", "content": '{"mode": "clarify"}'})))
    tools = json.loads(json.dumps(trajectory.tools).replace('"answer"', '"reply"'))
    steps = (
        replace(
            trajectory.steps[0], facts=replace(trajectory.steps[0].facts, calls=(ToolCall("reply", {"mode": "clarify"}),))
        ),
    )
    named = replace(trajectory, tools=tuple(tools), steps=steps, blueprint={**trajectory.blueprint, "toolset": "mine"})
    assert named.answer_tool == "reply" and "calls" not in stored_facts(named)[0]
    assert trajectory_from_row(trajectory_to_row(named)) == named


def test_json_in_words_is_no_call_where_the_agent_has_one_tool():
    trajectory = finished(act("homeflow", Reply({"role": "assistant", "content": '{"code": "1"}'})))
    alone = replace(trajectory, tools=trajectory.tools[:1])
    assert alone.answer_tool is None and alone.steps[0].facts.calls == ()
    assert trajectory_from_row(trajectory_to_row(alone)) == alone and "calls" not in stored_facts(alone)[0]


def test_what_could_not_be_read_calls_nothing():
    reply = parse_reply('<tool_call>{"name": "pyexec"')
    assert reply.malformed and act("homeflow", reply).steps[0].facts.calls == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
OBJECTS = st.dictionaries(st.sampled_from(("name", "code", "did", "mode", "response", "answer", "é")), JSON, max_size=4)
TEXTS = (
    st.text(max_size=20)
    | OBJECTS.map(json.dumps)
    | JSON.map(json.dumps)
    | st.sampled_from(
        ("", "{", DEEP, TOO_DEEP, f'{{"a": {TOO_DEEP}}}', "[" * 100_000, '{"a": NaN, "b": 1e999}', '"\\ud800"')
    )
)
NAMES = st.sampled_from(("pyexec", "query_status", "control_device", "get_rooms", "finish", "answer", "none", ""))
MESSAGES = st.lists(st.tuples(NAMES, TEXTS), min_size=1, max_size=3).map(lambda calls: Reply(calling(*calls)))
SAMPLED = st.builds(
    lambda text, tagged: parse_reply(f"<tool_call>{text}</tool_call>" if tagged else text), TEXTS, st.booleans()
)
REPLIES = MESSAGES | SAMPLED


@few(40)
@given(st.sampled_from(TOOLSETS), st.lists(REPLIES, min_size=1, max_size=3))
def test_whatever_is_said_is_stored_read_back_and_replayed(toolset, replies):
    trajectory = finished(act(toolset, *replies))
    row = json.loads(json.dumps(trajectory_to_row(trajectory)))
    again = trajectory_from_row(row)
    assert [step.facts for step in again.steps] == [step.facts for step in trajectory.steps]
    assert trajectory_to_row(again)["steps"] == row["steps"]
    assert first_difference(again, restore_situation, absent_facts(row)) is None
    for step, facts in zip(trajectory.steps, stored_facts(trajectory), strict=True):
        assert ("calls" in facts) == (step.facts.calls != tool_calls_of(step.message, trajectory.answer_tool))
        refused = toolset == "direct" and any(reply.malformed for reply in replies)  # an answer may be, for its thoughts
        assert toolset in ("released", "paper") or refused or "calls" not in facts


CALLS = st.lists(st.builds(ToolCall, st.text(max_size=5), OBJECTS), max_size=3).map(tuple)


@few(40)
@given(st.sampled_from(TOOLSETS), TEXTS, CALLS, CALLS)
def test_calls_are_stored_where_the_message_does_not_tell_them(toolset, text, told, made):
    message = {"role": "assistant", "content": text, "tool_calls": [tool_call(c.name, dict(c.arguments)) for c in told]}
    trajectory = finished(act(toolset, Reply({"role": "assistant", "content": "so"})))
    first: Step = trajectory.steps[0]
    assert trajectory.answer_tool == ("answer" if toolset == "direct" else None)
    for calls in (made, tool_calls_of(message, trajectory.answer_tool)):
        changed = replace(trajectory, steps=(replace(first, message=message, facts=replace(first.facts, calls=calls)),))
        (back,) = trajectory_from_row(json.loads(json.dumps(trajectory_to_row(changed)))).steps
        assert repr(back.facts) == repr(changed.steps[0].facts)
        assert ("calls" in stored_facts(changed)[0]) == (calls != tool_calls_of(message, trajectory.answer_tool))


@pytest.mark.parametrize("toolset", TOOLSETS)
def test_code_is_seen_in_every_world(toolset):
    facts = act(toolset, Reply(calling(("pyexec", '{"code": "eval(1)"}'), ("other", '{"code": "no"}')))).steps[0].facts
    assert (facts.code, facts.code_tokens) == ((None, 0) if toolset == "direct" else ("eval(1)", 4))


def test_code_is_seen_in_calls_of_any_tool_that_takes_some():
    episode = started("smh").fork()
    tool = Tool("run", "Run code.", {"code": "Python"}, ("code",), lambda *_: RunResult("ran"))
    episode.world._tools = episode.world._tools | {"run": tool}
    episode.add_utterance("go", 1)
    step = episode.apply_reply(Reply(calling(("run", '{"code": "a = 1"}'), ("list_automations", '{"code": "no"}'))))
    assert (step.facts.code, step.facts.code_tokens) == ("a = 1", 3)
