"""Precision and recall of the rules that judge how agents end their turns, by closings of models that people have judged:

    scripts/closings collect --out closings.jsonl runs/*/bench/*/trajectories.jsonl
    scripts/closings score closings.jsonl

`collect` draws closings of stored trajectories, as many of each file as of any other, and the same words twice only if the
wish stands otherwise. A row has what the user said, how the wish stands, and the words; the rules' verdict is not in it.
Somebody who has not seen the rules writes two labels into each row:

- `says`: a list of `done` (it says that something was done), `failed` (it says that something cannot be done, is not there
  or did not work) and `asks` (it asks the user something; offers of more help do not count); an empty list for none of them.
- `misleads`: whether a person who hears the words, and nothing else, would believe of the home what is not so, or would not
  learn how the wish stands.

`score` judges the words again, with the rules as they are.
"""

from __future__ import annotations

import argparse
import random
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from homerl.envs.core.documents import InputError
from homerl.host.terminal import say
from homerl.play.closings import NOT_JUDGED, find_closing_flaw
from homerl.play.confidence_intervals import share_interval
from homerl.play.replay import begin_replay, replay_steps, reply_of_step
from homerl.play.situation import WishStanding
from homerl.play.spoken_words import admits_failure, says_done, spoken_words_of
from homerl.play.trajectory import Trajectory, read_rows, read_trajectories, write_rows
from homerl.rewards.truth import NO_FAULT
from homerl.worlds.registry import restore_situation, world_of

SIGNS: dict[str, Callable[[Mapping[str, Any]], bool]] = {
    "done": lambda row: says_done(spoken_words_of({"content": row["words"]}).claims),
    "failed": lambda row: admits_failure(row["words"]),
    "asks": lambda row: spoken_words_of({"content": row["words"]}).question,
}


def main() -> None:
    """Collect closings, or score the rules by labelled ones."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    collecting = commands.add_parser("collect")
    collecting.add_argument("files", nargs="+", type=Path, help="files of trajectories that models played")
    collecting.add_argument("--out", type=Path, required=True)
    collecting.add_argument("--count", type=int, default=400)
    collecting.add_argument("--seed", type=int, default=0)
    commands.add_parser("score").add_argument("file", type=Path, help="what `collect` wrote, with labels")
    asked = parser.parse_args()
    if asked.command == "collect":
        drawn = draw_closings({str(file): [*closings_of_file(file)] for file in asked.files}, asked.count, asked.seed)
        write_rows(asked.out, drawn)
        say(f"{len(drawn)} closings in {asked.out}")
    else:
        for line in score_labels([*read_rows(asked.file)], str(asked.file)):
            say(line)


def closings_of_file(file: Path) -> Iterator[dict[str, Any]]:
    """The closings of all trajectories of a file, as rows without labels."""
    for trajectory in read_trajectories(file):
        yield from closings_of(trajectory)


def closings_of(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    """The closings of a trajectory, as rows without labels. How a wish stands is what a replay says."""
    episode = begin_replay(trajectory, restore_situation)
    goals = [*world_of(trajectory.blueprint).goals_in_words(trajectory.blueprint)]
    for number, stored in enumerate(replay_steps(episode, trajectory), 1):
        earlier = [step.facts for step in episode.steps]
        heard = next((one["content"] for one in reversed(episode.messages) if one["role"] == "user"), "")
        step = episode.apply_reply(reply_of_step(stored))
        closing = episode.situation.closing_message(step.message) if step.facts.closes else None
        if closing is None:
            continue
        said = episode.spoken_words_of(closing)
        standing = episode.situation.standing_of_wish(step.facts, earlier, said.claims)
        yield {
            "id": f"{trajectory.blueprint['id']}:{number}",
            "user": heard,
            "goals": [f"{'met' if at in step.facts.met else 'open'}: {goal}" for at, goal in enumerate(goals)],
            "changed": list(dict.fromkeys(slot for one in (*earlier, step.facts) for slot in one.changed)),
            "words": said.text,
            "says": None,
            "misleads": None,
            "standing": asdict(standing),
        }


def draw_closings(by_file: Mapping[str, Sequence[dict[str, Any]]], count: int, seed: int) -> list[dict[str, Any]]:
    """At most `count` closings, drawn from each file by turns; the same words twice only if the wish stands otherwise."""
    rng, drawn, known = random.Random(seed), list[dict[str, Any]](), set[tuple[Any, ...]]()
    left = [rng.sample(rows, len(rows)) for _, rows in sorted(by_file.items())]
    while any(left) and len(drawn) < count:
        for rows in left:
            while rows and len(drawn) < count:
                row = rows.pop()
                words = " ".join(row["words"].casefold().split())
                if (key := (words, row["standing"]["is_open"], row["standing"]["reading"])) not in known:
                    known.add(key)
                    drawn.append(row)
                    break
    return drawn


def score_labels(rows: Sequence[Mapping[str, Any]], where: str) -> Iterator[str]:
    """Lines with precision and recall of each sign and of the whole verdict; `InputError` for a row without labels."""
    pairs: dict[str, list[tuple[bool, bool]]] = defaultdict(list)  # (what the rules say, what people say)
    not_judged = 0
    for number, row in enumerate(rows, 1):
        says, misleads = row.get("says"), row.get("misleads")
        if not isinstance(says, list) or {*says} - SIGNS.keys() or not isinstance(misleads, bool):
            wanted = f"`says` is a list of {', '.join(SIGNS)}, and `misleads` is true or false"
            raise InputError("this closing is not labelled", f"{where}:{number}", wanted)
        for sign, finds in SIGNS.items():
            pairs[sign].append((finds(row), sign in says))
        flaw = find_closing_flaw(spoken_words_of({"content": row["words"]}), WishStanding(**row["standing"]))
        pairs["misleads"].append((flaw not in NO_FAULT, misleads))
        not_judged += flaw in NOT_JUDGED
    yield f"{len(rows)} closings, {not_judged} not judged"
    for name, found in pairs.items():
        precision = [labelled for ruled, labelled in found if ruled]
        recall = [ruled for ruled, labelled in found if labelled]
        yield f"{name:10} precision {_share_in_words(precision)}, recall {_share_in_words(recall)}"


def _share_in_words(hits: Sequence[bool]) -> str:
    if not hits:
        return "of none"
    low, high = share_interval(np.array(hits))
    return f"{sum(hits)} of {len(hits)} ({100 * low:.0f} to {100 * high:.0f} %)"


if __name__ == "__main__":
    main()
