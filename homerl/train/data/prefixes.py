"""Groups that begin within a dialogue that is known to succeed: the expert's, or one that a search has found.

A policy that seldom reaches the end of a long dialogue seldom sees its reward. Begun a few steps before the end, it does;
as the share of such groups fades, it starts from ever farther away. HomeFlow's single-turn ablation (D.1) begins every group
at the last turn of a finished dialogue. With a synthesis, groups begin at the nodes of MCTS-Flow's trees: a verified
trajectory is a path through the tree of its blueprint, and each of its prefixes is a node.

Invariants:
- All rollouts of a group begin at one and the same state, and the steps before it are context, never trained on.
- Where a group begins is a function of the recipe, the seed and the group's number.
- Only prefixes of dialogues that succeed within the run's own limits are taken, so the rest can be solved.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path

from homerl.envs.core.documents import InputError
from homerl.play.episode import Episode
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import let_user_speak, replies_from, waits_for_user
from homerl.play.replay import replay_steps, reply_of_step
from homerl.play.situation import BlueprintProtocol
from homerl.play.trajectory import Outcome, Trajectory, read_rows, read_trajectory_row
from homerl.train.recipe import BlueprintSource, PrefixSettings
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import read_blueprint, world_of
from homerl.worlds.users import ScriptedUser

KEY = "rlve.curriculum.prefix.synthesis"
SAME = (
    "synthesise the same ones: synth.recipe and synth.first_seed as in `blueprints`, no synth.curriculum, and the same "
    "`behaviours`"
)
COMPARED = 8  # blueprints, before training
FLAWLESS = ExpertConfig(mistakes=0.0)


@dataclass(frozen=True)
class VerifiedTrajectories:
    """The verified trajectories of a synthesis. `lines` has, by blueprint, where they begin in the file, in bytes."""

    file: Path
    lines: Mapping[str, Sequence[int]]

    def draw_trajectory(self, blueprint: BlueprintProtocol, rng: random.Random) -> Trajectory | None:
        """One trajectory of a blueprint; None if the search found none.

        Raises `InputError` if the synthesis means another blueprint by the same name.
        """
        if not (lines := self.lines.get(blueprint.id)):
            return None
        with self.file.open("rb") as file:
            file.seek(rng.choice(lines))
            found = read_trajectory_row(json.loads(file.readline()), str(self.file))
        if read_blueprint(found.blueprint) != blueprint:
            raise InputError(f"{self.file} has another blueprint {blueprint.id} than this recipe", KEY, SAME)
        return found


def index_verified_trajectories(
    settings: PrefixSettings | None, source: BlueprintSource, blueprint: Callable[[int], BlueprintProtocol]
) -> VerifiedTrajectories | None:
    """The trajectories of the settings' synthesis; None if there is none. `blueprint` makes one from its seed.

    Raises `InputError` if the synthesis has none of the blueprints that are trained on, or others by their names.
    """
    if settings is None or settings.synthesis is None:
        return None
    file = Path(settings.synthesis)
    file = file / "trajectories.jsonl" if file.is_dir() else file
    ids = [str(row.get("id")) for row in read_rows(file)]
    with file.open("rb") as stored:
        starts = list(accumulate((len(line) for line in stored), initial=0))[:-1]  # where lines begin, in bytes
    lines: dict[str, list[int]] = {}
    for id, start in zip(ids, starts, strict=True):
        lines.setdefault(id, []).append(start)
    verified, rng = VerifiedTrajectories(file, lines), random.Random(0)
    # some blueprints are compared now, so that another recipe's synthesis is found before training
    seeds = rng.sample(range(source.first_seed, source.first_seed + source.count), source.count)
    known = islice((one for one in map(blueprint, seeds) if one.id in lines), COMPARED)
    if not [verified.draw_trajectory(one, rng) for one in known]:
        raise InputError(f"{file} has no trajectory of the {source.count} blueprints", KEY, SAME)
    return verified


@dataclass(frozen=True)
class GroupPrefix:
    """Where one group begins: in a dialogue of the expert, or of `verified`."""

    at: str
    seed: str
    verified: VerifiedTrajectories | None = None

    async def __call__(self, opening: Episode) -> Episode:
        """A copy of the opening, played up to a step; the opening itself if no dialogue succeeds."""
        rng = random.Random(self.seed)
        if self.verified is None:
            known = await play_demonstration(opening, rng.getrandbits(31))
        else:
            found = self.verified.draw_trajectory(opening.blueprint, rng)
            known = retrace_dialogue(opening, found) if found else []
        points = known[:-1]
        if self.at == "last":
            turn = max((point.turn for point in points), default=0)
            return next((point for point in points if point.turn == turn), opening)
        return rng.choice(points[1:-1] or [opening])  # neither at the start, nor before the last step


async def play_demonstration(opening: Episode, seed: int) -> list[Episode]:
    """Copies of the expert's episode before each of its steps, and the episode at its end; none if it does not succeed."""
    episode, points = opening.fork(), list[Episode]()
    expert, user = world_of(opening.blueprint).expert(FLAWLESS, seed), ScriptedUser(seed)
    try:
        while episode.outcome is None:
            if waits_for_user(episode):
                await let_user_speak(episode, user)
            else:
                points.append(episode.fork())
                (reply,) = await replies_from(expert, episode)
                episode.apply_reply(reply)
    except EPISODE_ERRORS:
        return []
    return [*points, episode] if episode.outcome is Outcome.SUCCESS else []


def retrace_dialogue(opening: Episode, known: Trajectory) -> list[Episode]:
    """Copies of the episode before each step of a stored dialogue, and the episode at its end; none if it does not succeed
    from this opening.
    """
    episode, points = opening.fork(), list[Episode]()
    try:
        for step in replay_steps(episode, known):
            if episode.outcome is not None:  # it came out otherwise than it was stored
                return []
            points.append(episode.fork())
            episode.apply_reply(reply_of_step(step))
    except EPISODE_ERRORS:
        return []
    return [*points, episode] if episode.outcome is Outcome.SUCCESS else []


def draw_group_prefix(
    settings: PrefixSettings | None, seed: int, number: int, groups: int, verified: VerifiedTrajectories | None = None
) -> GroupPrefix | None:
    """Where group `number` (from 0) of a run of `groups` begins; None at the start of the dialogue."""
    if settings is None:
        return None
    share = settings.share * (1 - number / groups if settings.fade else 1.0)
    rng = random.Random(f"prefix {seed} {number}")
    if rng.random() >= share:
        return None
    return GroupPrefix(settings.at, f"prefix point {seed} {number}", verified)
