"""Plays sixty sentences of people with an agent, each in the same home anew, and counts those that end as wanted:

    scripts/sentence_success smollm2-home
    scripts/sentence_success smollm2-home --served --first hassil

What a person would want stands beside each sentence (`tests/benchmarks/sentences/sentences.yaml`). What came of each is
printed. With `--served` the agent answers as `homerl serve-agent --mode act` does, with all its rules, and the person says
yes to whatever it asks consent for: what is wrong is not saved by that question.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from homerl.app.chat.session import AgentAct, ChatRequest, ChatSession, Event, open_chat_session
from homerl.envs.assistant.first import MatcherFirst
from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange_journal import AgentJournal
from homerl.envs.assistant.serving.simulated_home import SimulatedHome
from homerl.envs.core.documents import read_yaml
from homerl.envs.core.messages import Message, text_message
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.envs.homeenv.visits import find_visit_changes
from homerl.host.terminal import say
from homerl.play.confidence_intervals import share_interval
from homerl.play.loop import Agent

FOLDER = Path(__file__).parent / "sentences"


def main() -> None:
    """Play all sentences, and print what came of each and the counts by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="as for homerl chat")
    parser.add_argument("--kind", action="append", help="the sentences of this kind alone; may be repeated")
    parser.add_argument("--served", action="store_true", help="answer as `homerl serve-agent --mode act` does")
    parser.add_argument("--first", choices=["hassil"], help="who takes what it understands before the agent, with --served")
    asked = parser.parse_args()
    session = open_chat_session(ChatRequest(asked.what, home=FOLDER / "home.json", cpu=True))
    play = partial(_play_served, session, first=asked.first) if asked.served else partial(_played, session)
    counts = {}
    for kind, sentences in sentences_by_kind().items():
        if asked.kind is None or kind in asked.kind:
            ends = [play(wanted) for wanted in sentences]
            counts[kind] = (sum(ends), len(ends))
    counts["all"] = tuple(map(sum, zip(*counts.values())))
    for kind, (good, of) in counts.items():
        low, high = share_interval(np.arange(of) < good)
        say(f"{kind:28} {good:2} of {of:2}   {100 * low:.0f} to {100 * high:.0f} %")


def sentences_by_kind() -> Mapping[str, Sequence[Mapping[str, Any]]]:
    """The sentences with what is wanted of each."""
    found: Mapping[str, Sequence[Mapping[str, Any]]] = read_yaml(FOLDER / "sentences.yaml").data
    return found


def _played(session: ChatSession, wanted: Mapping[str, Any]) -> bool:
    """Say a sentence in the home as it was, and print what came of it."""
    session.undo_all_turns()
    before, events = home_situation_of(session.episode).home.fork(), []
    for sentence in filter(None, (wanted["say"], wanted.get("then"))):
        events += asyncio.run(_said(session, sentence))
    last, changes = events[-1], _changes_in_words(before, home_situation_of(session.episode).home)
    words = last.words if isinstance(last, AgentAct) else f"[{last.text}]"
    calls = [call for did in events if isinstance(did, AgentAct) for call in did.step.calls]
    return _judge_and_print(wanted, calls, changes, words)


def _play_served(session: ChatSession, wanted: Mapping[str, Any], first: str | None) -> bool:
    """Say a sentence to the agent as it is served, in the home as it was, and print what came of it."""
    before, blueprint = home_situation_of(session.episode).home, home_situation_of(session.episode).blueprint
    house, of = SimulatedHome(), (blueprint.toolset, blueprint.language, blueprint.prompt)

    def agent() -> Agent:
        model = session.partner.agent(session.seed)
        return MatcherFirst(model, blueprint.language) if first else model

    async def talk(folder: str) -> tuple[list[str], str, Home]:
        journal = AgentJournal(Path(folder) / "log.jsonl")
        settings = CaretakerSettings("act", *of, patience=600)
        caretaker = Caretaker(before, agent, house, journal, settings, session.partner.name)
        dialogue: list[Message] = []
        said = [sentence for sentence in (wanted["say"], wanted.get("then")) if sentence]
        while said:
            dialogue.append({"role": "user", "content": said.pop(0)})
            dialogue.append(text_message(await caretaker.answer_dialogue(dialogue)))
            if journal.read_entries()[-1].outcome == "asked":
                said.insert(0, "yes")
        calls = [f"{call.service} {call.arguments}" for entry in journal.read_entries() for call in entry.calls]
        return calls, str(dialogue[-1]["content"]), await house.refresh_twin(before)

    with tempfile.TemporaryDirectory() as folder:
        calls, words, after = asyncio.run(talk(folder))
    return _judge_and_print(wanted, calls, _changes_in_words(before, after), words)


def _judge_and_print(wanted: Mapping[str, Any], calls: Sequence[str], changes: Sequence[str], words: str) -> bool:
    """Whether a sentence ended as wanted. Prints what came of it."""
    good = ends_well(wanted, changes, words) and bool(re.search(wanted.get("calls", ""), " ".join(calls), re.IGNORECASE))
    then = f" / {wanted['then']}" if "then" in wanted else ""
    say("\n  ".join([f"{'good' if good else 'BAD '} {wanted['say']}{then}", *calls, *changes, f'"{words}"']))
    return good


async def _said(session: ChatSession, sentence: str) -> list[Event]:
    """Say a sentence, and return what the agent did."""
    return [event async for event in session.say_sentence(sentence)]


def _changes_in_words(before: Home, after: Home) -> list[str]:
    """What became other in the home, one thing a line, as in `hallway switch: on → off`."""
    things: dict[str, list[str]] = {}
    for change in find_visit_changes(before, after):
        if change.thing != "the clock":  # in a served home time passes
            things.setdefault(change.thing, []).append(change.describe_change)
    lines = (f"{thing}: {', '.join(words)}" for thing, words in things.items())
    return [" ".join(line.split()) for line in lines]  # spaces between a number and its unit are narrow


def ends_well(wanted: Mapping[str, Any], changes: Sequence[str], words: str) -> bool:
    """Whether all that is wanted became other, and nothing else that may not, and the words are those of an answer."""
    if "or" in wanted and ends_well({"changes": wanted["or"]}, changes, words):
        return True
    must = [*wanted.get("changes", ())]
    left = [change for change in changes if not any(re.search(may, change) for may in (*must, *wanted.get("may", ())))]
    missed = [pattern for pattern in must if not any(re.search(pattern, change) for change in changes)]
    return not left and not missed and bool(re.search(wanted.get("says", ""), words, re.IGNORECASE))


if __name__ == "__main__":
    main()
