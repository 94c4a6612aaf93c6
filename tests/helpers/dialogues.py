"""Dialogues of the scripted user with the expert, labelled by the courses of their blueprints.

`python tests/helpers/dialogues.py FILE` writes the sample (`tests/homerl/worlds/dialogues.jsonl`), and
`python tests/helpers/dialogues.py detect 300` prints precision and recall of the rules in
`homerl/worlds/behaviour_rates.py` on held-out sentences, as docs/results/users.md shows them.

Invariant: the same seeds give the same bytes.
"""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import BEHAVIOURS, Behaviour
from homerl.play.trajectory import Trajectory
from homerl.worlds.behaviour_rates import detect_behaviours
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

FAMILIES = {"atomic": 4, "compositional": 2, "ambiguous": 2, "automation": 1, "query": 1}
WORDINGS = {"clear": 1.0, "colloquial": 1.0}  # a noisy sentence may hold a correction that nobody labelled
RATES = Behaviours(disclosure=0.3, self_correction=0.2, change_of_mind=0.2, beside_the_point=0.5)


def labelled(language: str, split: str, seed: int, rates: Behaviours = RATES) -> dict[str, Any]:
    """One dialogue, whose user messages have their behaviours as labels."""
    recipe = BlueprintRecipe(home={"language": language}, families=FAMILIES, wordings=WORDINGS, toolset="smh")
    blueprint = blueprint_with_behaviours(make_blueprint_of_seed(recipe, split, seed), rates, recipe)
    episode = begin_episode(blueprint, EpisodeLimits(turns=None))
    begins = len(episode.messages)
    expert = world_of(blueprint).expert(ExpertConfig(mistakes=0.0), seed)
    return {
        "language": language,
        "messages": _messages(asyncio.run(play(episode, expert, ScriptedUser(seed), seed)), begins),
    }


def _messages(trajectory: Trajectory, begins: int) -> list[dict[str, Any]]:
    of = _labels(trajectory.blueprint)
    said = [m for m in trajectory.messages[begins:] if m["role"] in ("user", "assistant") and m.get("content")]
    return [
        {"role": m["role"], "content": m["content"]}
        | ({"behaviours": of.get(m["content"], [])} if m["role"] == "user" else {})
        for m in said
    ]


def _labels(blueprint: dict[str, Any]) -> dict[str, list[str]]:
    """The behaviours of the utterances that show one. What completes a wish is labelled, not what opens it."""
    found = {}
    for intent in blueprint["intents"]:
        if intent["clarify"]:
            found[intent["clarification"]] = ["disclosure"]
        if intent.get("aside"):
            found[intent["aside"]] = ["beside_the_point"]
        for at, part in enumerate(intent.get("course", ())):
            if at or part["behaviour"] == "self_correction":
                found[part["text"]] = [part["behaviour"]]
    return found


@dataclass(frozen=True)
class Detection:
    """How well the rules find a behaviour: utterances found rightly, found wrongly, and missed."""

    right: int = 0
    wrong: int = 0
    missed: int = 0

    @property
    def precision(self) -> float | None:
        """The share of what was found that is right; None if nothing was found."""
        return self.right / (self.right + self.wrong) if self.right + self.wrong else None

    @property
    def recall(self) -> float | None:
        """The share of what is there that was found; None if there is nothing."""
        return self.right / (self.right + self.missed) if self.right + self.missed else None


def detections(pairs: Sequence[tuple[frozenset[Behaviour], frozenset[Behaviour]]]) -> dict[str, Detection]:
    """The detection of each behaviour, from (found, labelled) pairs, one for each utterance."""
    return {
        name: Detection(
            sum(name in found and name in labels for found, labels in pairs),
            sum(name in found and name not in labels for found, labels in pairs),
            sum(name not in found and name in labels for found, labels in pairs),
        )
        for name in BEHAVIOURS
    }


def sample() -> Iterator[str]:
    """The lines of the sample: 30 dialogues in each language."""
    for language in ("en", "zh"):
        for seed in range(30):
            yield json.dumps(labelled(language, "train", seed), ensure_ascii=False) + "\n"


def detected(language: str, count: int) -> dict[str, Detection]:
    """How well the rules find the behaviours in `count` dialogues of the held-out split."""
    pairs = []
    for seed in range(count):
        messages = labelled(language, "heldout", seed)["messages"]
        found = detect_behaviours([(m["role"], m["content"]) for m in messages], language)
        labels = [frozenset(m["behaviours"]) for m in messages if m["role"] == "user"]
        pairs += zip(found, labels, strict=True)
    return detections(pairs)


if __name__ == "__main__":
    if sys.argv[1] == "detect":
        for language in ("en", "zh"):
            for name, d in detected(language, int(sys.argv[2])).items():
                print(f"{language} {name}: n={d.right + d.missed}, precision {d.precision:.1%}, recall {d.recall:.1%}")
    else:
        Path(sys.argv[1]).write_text("".join(sample()), encoding="utf-8")
