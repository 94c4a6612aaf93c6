"""A talk: what was taken back leaves no trace, what was stopped keeps what was done, and all of it can be replayed."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable, Sequence
from contextlib import aclosing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.app.chat.session import (
    AgentAct,
    ChatPartner,
    ChatRequest,
    ChatSession,
    ChatTerms,
    Event,
    SessionNote,
    make_local_partner,
    open_chat_session,
    save_chat,
)
from homerl.app.served.model_agents import load_local_model
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home_file import home_to_json, load_home
from homerl.envs.homeenv.visits import find_visit_changes
from homerl.play.faults import InfraError
from homerl.play.replay import reverify_file
from homerl.play.situation import Observation, Reply
from homerl.report.pages.world_pages import readable_dialogue
from homerl.worlds.registry import default_world, restore_situation

SENTENCES = ("turn on the light", "set everything to 40", "close the curtain", "hello", "turn off the fan")


def talk(
    agent: Callable[[int], Any], name: str = "agent", terms: ChatTerms = ChatTerms(), recipe: dict[str, Any] | None = None
):
    """A session in the home of seed 3."""
    visits = default_world().visits
    assert visits is not None
    told = {"home": {"devices": (6, 6)}} | (recipe or {})
    return ChatSession(visits, visits.blueprint(told, None, 3), ChatPartner(name, agent), terms)


def of(name: str, **more: Any) -> ChatSession:
    """A session with a baseline."""
    visits = default_world().visits
    assert visits is not None
    return talk(lambda seed: visits.agents[name](), name, **more)


def say(session: ChatSession, *sentences: str) -> list[Event]:
    """All that comes of sentences."""

    async def all_of(sentence: str) -> list[Event]:
        return [event async for event in session.say_sentence(sentence)]

    return [event for sentence in sentences for event in asyncio.run(all_of(sentence))]


def test_a_home_to_talk_in_has_usual_names_where_training_made_some_up():
    visits = default_world().visits
    assert visits is not None
    home = {"devices": [4, 4], "rooms": [3, 3]}
    made_up = visits.blueprint({"home": home | {"coined": 1.0}}, None, 3)
    assert made_up.home == visits.blueprint({"home": home}, None, 3).home
    assert made_up.home != home_to_json(make_home(3, HomeRecipe(**home, coined=1.0)))


class Says:
    """An agent that gives these messages in turn; an exception is raised, and an event is waited for."""

    name = "script"

    def __init__(self, *messages: Any) -> None:
        self.messages = [text_message(one) if isinstance(one, str) else one for one in messages]
        self.heard: list[Observation] = []

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        self.heard.append(observation)
        message = self.messages.pop(0)
        if isinstance(message, BaseException):
            raise message
        if isinstance(message, asyncio.Event):
            await message.wait()
        return [Reply(message)]


def code(text: str) -> Message:
    return call_message(tool_call("pyexec", {"code": text}))


def first_light(session: ChatSession) -> str:
    home: Any = session.current_situation.home
    return next(device.did for device in home.plan.devices if "turn_on" in device.spec.service_index)


# Taking back


@pytest.mark.parametrize("name", ["keywords", "random"])
@few(12, 25)
@given(deeds=st.lists(st.one_of(st.sampled_from(SENTENCES), st.just("/undo")), max_size=8))
def test_what_was_taken_back_leaves_no_trace(name: str, deeds: list[str]) -> None:
    session, kept = of(name), list[str]()
    for deed in deeds:
        if deed == "/undo":
            assert session.undo_turn() == (kept.pop() if kept else None)
        else:
            say(session, deed)
            kept.append(deed)
    plain = of(name)
    say(plain, *kept)
    assert session.current_situation.state_key() == plain.current_situation.state_key()
    assert session.episode.messages == plain.episode.messages and session.episode.steps == plain.episode.steps
    session.undo_all_turns()
    assert session.current_situation.state_key() == of(name).current_situation.state_key() and not session.turns


def test_a_sampled_answer_depends_on_what_was_kept_alone(tiny: Path) -> None:
    model, terms = load_local_model(str(tiny), cpu=True), ChatTerms(temperature=1.0, max_tokens=12, steps=2)
    twice, once = (talk(make_local_partner(model, terms).agent, terms=terms) for _ in range(2))
    say(twice, "one thing")
    twice.undo_turn()
    for session in (twice, once):
        say(session, "another thing", "one more")
    assert twice.episode.messages == once.episode.messages
    answers = [message["content"] for message in once.episode.messages if message["role"] == "assistant"]
    assert len(set(answers)) > 1  # else nothing was sampled


# What is told


def test_changes_are_told_in_words_and_calls_with_their_results() -> None:
    session = talk(lambda seed: Says(code(f'device("{did}").turn_on()'), "It is on."))
    did = first_light(session)
    session.current_situation.home.call(did, "turn_off")  # type: ignore[attr-defined]
    done, spoken = say(session, "light please")
    assert isinstance(done, AgentAct) and isinstance(spoken, AgentAct)
    assert done.step.calls == (f'device("{did}").turn_on()',) and done.step.observations == ("ok",)
    (change,) = [change for change in done.changes if not change.what]
    assert (change.owner, change.describe_change) == (did, "off → on") and change.thing
    assert spoken.words == "It is on." and not spoken.changes


def test_one_json_answer_is_told_by_its_words() -> None:
    (did,) = say(of("keywords", recipe={"toolset": "direct"}), "turn on the light")
    assert isinstance(did, AgentAct) and "{" not in did.words and did.words


# How answers end


def test_a_stopped_answer_keeps_what_was_done() -> None:
    session = talk(lambda seed: Says(code(f'device("{did}").turn_on()'), asyncio.Event()))
    did = first_light(session)
    session.current_situation.home.call(did, "turn_off")  # type: ignore[attr-defined]

    async def stopped() -> None:
        async with aclosing(session.say_sentence("light please")) as events:
            await anext(events)
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.01)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(stopped())
    (turn,) = session.turns
    assert turn.events[-1] == SessionNote("stopped") and session.current_situation.home.read_value(did, "state") == "on"  # type: ignore[attr-defined]
    assert session.undo_turn() == "light please" and session.current_situation.home.read_value(did, "state") == "off"  # type: ignore[attr-defined]


def test_code_that_is_stopped_while_it_runs_has_done_nothing() -> None:
    did = first_light(talk(lambda seed: Says()))
    session = talk(lambda seed: Says(code(f'device("{did}").turn_on()\nwhile 1: pass')))
    session.current_situation.home.call(did, "turn_off")  # type: ignore[attr-defined]
    before = session.current_situation.state_key()

    async def stopped() -> None:
        async with aclosing(session.say_sentence("light please")) as events:
            waiting = asyncio.ensure_future(anext(events))
            await asyncio.sleep(0.1)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    asyncio.run(stopped())
    assert not session.turns and session.current_situation.state_key() == before


@pytest.mark.parametrize("error", [KeyboardInterrupt(), InfraError("the server is gone")])
def test_a_sentence_to_which_nothing_was_done_counts_as_unsaid(error: BaseException) -> None:
    session = talk(lambda seed: Says(error))
    before = session.current_situation.state_key(), list(session.episode.messages)
    if isinstance(error, InfraError):
        assert say(session, "light please") == [SessionNote("no answer: the server is gone")]
    else:
        with pytest.raises(KeyboardInterrupt):
            say(session, "light please")
    assert not session.turns and (session.current_situation.state_key(), session.episode.messages) == before


def test_a_message_that_is_interrupted_is_not_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    session = of("keywords")
    say(session, "hello")
    before, messages = session.current_situation.state_key(), list(session.episode.messages)
    step, calls = type(session.current_situation.world).step, list[int]()

    def interrupted(world: Any, action: Any) -> Any:
        calls.append(1)
        step(world, action)
        raise KeyboardInterrupt

    monkeypatch.setattr(type(session.current_situation.world), "step", interrupted)
    with pytest.raises(KeyboardInterrupt):
        say(session, "turn on the light")
    assert calls and session.current_situation.state_key() == before and session.episode.messages == messages


def test_an_answer_ends_with_the_last_message_that_is_allowed() -> None:
    session = talk(lambda seed: Says(code("1"), code("2"), code("3")), terms=ChatTerms(steps=2))
    *done, note = say(session, "light please")
    assert len(done) == 2 and isinstance(note, SessionNote) and "2 messages" in note.text


def test_an_answer_ends_with_the_second_refusal_of_one_call(tmp_path: Path) -> None:
    wrong, other = code('device("0").x()'), code('device("00").x()')
    session = talk(lambda seed: Says(wrong, other, wrong, "Sorry."))
    for _ in range(2):  # a new sentence may make it right
        *done, note = say(session, "light please")
        assert len(done) == 3 and isinstance(note, SessionNote) and "the same call was refused 2 times" in note.text
    save_chat(session, tmp_path / "talk.jsonl")
    assert "1 trajectories, 6 steps replayed" in reverify_file(tmp_path / "talk.jsonl", restore_situation)
    *_, last = say(talk(lambda seed: Says(wrong, wrong, wrong), terms=ChatTerms(same_refusals=3)), "light please")
    assert isinstance(last, SessionNote) and "3 times" in last.text


def test_the_agent_reads_the_last_turns_alone() -> None:
    agents: list[Says] = []

    def agent(seed: int) -> Says:
        agents.append(Says("Done."))
        return agents[-1]

    say(talk(agent, terms=ChatTerms(turns=2)), "one", "two", "three")
    (heard,) = agents[-1].heard
    assert [message["role"] for message in heard.messages] == ["system", "user", "assistant", "user"]
    assert [message["content"] for message in heard.messages if message["role"] == "user"] == ["two", "three"]


# What is stored


def test_a_talk_is_stored_replayed_and_shown(tmp_path: Path) -> None:
    session = of("keywords")
    say(session, "turn on the light", "hello")
    file = tmp_path / "talk.jsonl"
    save_chat(session, file)
    assert f"1 trajectories, {len(session.episode.steps)} steps replayed" in reverify_file(file, restore_situation)
    with pytest.raises(InputError, match="there already"):
        save_chat(session, file)
    shown = readable_dialogue(session.to_trajectory())
    assert [said for said, _ in shown.turns] == ["turn on the light", "hello"] and not shown.side_effects
    assert session.episode.outcome is None and session.episode.progress == 0.0 and shown.goals == ()


def test_a_visit_wants_nothing_and_everything_else_wants_something() -> None:
    blueprint: Any = of("nothing").blueprint
    assert blueprint.visit and not blueprint.intents
    data = blueprint.model_dump(mode="json")
    with pytest.raises(ValueError, match="needs an intent"):
        type(blueprint).model_validate({**data, "visit": False})


def test_a_run_is_met_in_the_homes_of_its_benchmark(tiny: Path, tmp_path: Path) -> None:
    stage = tmp_path / "run/sft"
    stage.mkdir(parents=True)
    shutil.copytree(tiny, stage / "model")
    (stage / "recipe.yaml").write_text("homerl: 1\nrun: sft\ndata: gone\n")
    (stage / "bench.yaml").write_text(
        "homerl: 1\nrun: bench\nbench:\n  temperature: 0.5\n  max_tokens: 9\n"
        "  limits: {turns: 3, steps: 8, steps_per_turn: 2, same_refusals: 4}\n"
        "  suites: [{name: heldout, recipe: {toolset: assist, home: {devices: [2, 2], ids: slug}}}]\n"
    )
    for what in (stage.parent, stage, stage / "model"):
        session = open_chat_session(ChatRequest(str(what), cpu=True, seed=5))
        assert session.terms == replace(session.terms, temperature=0.5, max_tokens=9, steps=2, turns=3, same_refusals=4)
        assert session.partner.name == "run-sft"
        home: Any = session.current_situation.home
        assert len(home.plan.devices) == 2 and session.blueprint.toolset == "assist"  # type: ignore[attr-defined]


def test_what_a_device_lacks_because_it_is_off_is_no_change() -> None:
    before = load_home(Path(__file__).parents[3] / "benchmarks/sentences/home.json")
    speaker = next(device for device in before.plan.devices if "speaker" in device.name)
    after = before.fork()
    after.call(speaker.did, "turn_off", ())
    (off,) = find_visit_changes(before, after)
    assert (off.describe_change, before.diff(after)[1:] != []) == ("on → off", True)
    (on,) = find_visit_changes(after, before)
    assert on.describe_change == "off → on", "it has again what it had"
