"""Replays a stored episode, to learn which step showed which fact.

Invariants: a replay starts from the stored blueprint alone; whatever cannot be replayed as it was recorded raises
`InputError` with its place; nothing is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, cast

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.bench.episode_results import blueprint_of_trajectory
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.replay import REMEDY, replay_steps, reply_of_step
from homerl.play.trajectory import Trajectory


@dataclass(frozen=True)
class EpisodeReplay:
    """A replayed episode. `first` maps each fact that was shown to the number (from 1) of the first step that showed it.

    `met` are the goals Φ at the end.
    """

    trajectory: Trajectory
    blueprint: PersonalHomeBlueprint
    first: Mapping[str, int]
    met: tuple[bool, ...]

    def facts_first_shown_by(self, step: int) -> list[str]:
        """The facts that a step was the first to show. A fact of a video and its time are one."""
        return sorted({id.removesuffix(".time") for id, number in self.first.items() if number == step})


def replay_episode(trajectory: Trajectory, where: str) -> EpisodeReplay:
    """The replay of a trajectory. Raises `InputError` if its household or one of its steps comes out otherwise."""
    try:
        blueprint = blueprint_of_trajectory(trajectory)
        limits = EpisodeLimits(**cast(dict[str, Any], trajectory.limits))
        episode = Episode.from_situation(PersonalHomeSituation.begin(blueprint), limits)
    except (LookupError, TypeError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"its household cannot be made again ({why})", where, REMEDY) from None
    first: dict[str, int] = {}
    for number, stored in enumerate(replay_steps(episode, trajectory, where), 1):
        done = episode.apply_reply(reply_of_step(stored))
        if (done.observations, done.state_key) != (stored.observations, stored.state_key):
            what = f"its household came out differently: step {number} showed something else when it was recorded"
            raise InputError(what, where, REMEDY)
        seen = episode.world.state.seen  # type: ignore[attr-defined]
        first |= dict.fromkeys(sorted(seen - first.keys()), number)
    return EpisodeReplay(trajectory, blueprint, first, episode.situation.met())


# Marks


@dataclass(frozen=True)
class FactMark:
    """Whether facts were read and needed. `tone` is `read`, `both`, `missed`, `needed` or empty, `steps` showed them first.

    Of several facts, one that was needed and never read decides the tone.
    """

    ids: tuple[str, ...]
    tone: str
    steps: tuple[int, ...]

    @property
    def text(self) -> str:
        """The mark in words."""
        steps = f"read in step {', '.join(map(str, self.steps))}"
        words = {"read": steps, "both": f"needed, {steps}", "missed": "needed, never read", "needed": "needed"}
        return words.get(self.tone, "")

    @property
    def tags(self) -> str:
        """What the filter finds it by."""
        needed = self.tone in ("both", "missed", "needed")
        parts = {"read": self.steps, "needed": needed, "missed": self.tone == "missed"}
        return " ".join(name for name, holds in parts.items() if holds)


TONES = ("missed", "needed", "both", "read", "")  # the first that any fact has decides


@dataclass(frozen=True)
class EpisodeMarks:
    """The marks of an episode. Without one every mark is empty. `told` says that the agent read all in its prompt."""

    first: Mapping[str, int]
    needed: frozenset[str]
    told: bool = False

    @classmethod
    def marks_of_replay(cls, replay: EpisodeReplay | None) -> EpisodeMarks:
        """The marks of a replayed episode, or of none."""
        if replay is None:
            return cls({}, frozenset())
        return cls(replay.first, frozenset(replay.blueprint.task.evidence), replay.blueprint.setting == "sole")

    def mark_of(self, *ids: str) -> FactMark:
        """The mark of some facts together."""
        steps = sorted({self.first[id] for id in ids if id in self.first})
        return FactMark(ids, min(map(self._tone_of_fact, ids), key=TONES.index, default=""), tuple(steps))

    def _tone_of_fact(self, id: str) -> str:
        if id not in self.needed:
            return "read" if id in self.first else ""
        return "both" if id in self.first else "needed" if self.told else "missed"
