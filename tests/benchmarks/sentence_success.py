"""Plays sixty sentences of people with an agent, each in the same home anew, and counts those that end as wanted:

    scripts/sentence_success smollm2-home

What a person would want stands beside each sentence (`tests/benchmarks/sentences/sentences.yaml`). What came of each is
printed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from homerl.app.chat.session import AgentAct, ChatRequest, ChatSession, Event, open_chat_session
from homerl.envs.core.documents import read_yaml
from homerl.host.terminal import say
from homerl.play.confidence_intervals import share_interval

FOLDER = Path(__file__).parent / "sentences"


def main() -> None:
    """Play all sentences, and print what came of each and the counts by kind."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", help="as for homerl chat")
    parser.add_argument("--kind", action="append", help="the sentences of this kind alone; may be repeated")
    asked = parser.parse_args()
    session = open_chat_session(ChatRequest(asked.what, home=FOLDER / "home.json", cpu=True))
    counts = {}
    for kind, sentences in sentences_by_kind().items():
        if asked.kind is None or kind in asked.kind:
            ends = [_played(session, wanted) for wanted in sentences]
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
    before, events = session.episode.fork().situation, []
    for sentence in filter(None, (wanted["say"], wanted.get("then"))):
        events += asyncio.run(_said(session, sentence))
    last, changes = events[-1], changes_of(session, before)
    words = last.words if isinstance(last, AgentAct) else f"[{last.text}]"
    calls = [call for did in events if isinstance(did, AgentAct) for call in did.step.calls]
    good = ends_well(wanted, changes, words) and bool(re.search(wanted.get("calls", ""), " ".join(calls)))
    then = f" / {wanted['then']}" if "then" in wanted else ""
    say("\n  ".join([f"{'good' if good else 'BAD '} {wanted['say']}{then}", *calls, *changes, f'"{words}"']))
    return good


async def _said(session: ChatSession, sentence: str) -> list[Event]:
    """Say a sentence, and return what the agent did."""
    return [event async for event in session.say_sentence(sentence)]


def changes_of(session: ChatSession, before: Any) -> list[str]:
    """What became other in the home, one thing a line, as in `hallway switch: on → off`."""
    things: dict[str, list[str]] = {}
    for change in session.visits.changes(before, session.current_situation):
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
