"""Pages of played episodes, as their worlds draw them: of one episode, or of several that are replayed in one file.

Invariants:
- A page is one file without network, whatever it replays.
- An episode without rewards, as benchmarks store them, is shown with those that the recipe of its run gives.
- A run's folder has several files of episodes. They are listed, and the page shows some of the last model's.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

import yaml

from homerl.envs.core.documents import InputError, write_atomic
from homerl.host.recipe_files import RECIPE
from homerl.host.terminal import count_with_noun
from homerl.play.replay import add_step_rewards
from homerl.play.trajectory import Outcome, Trajectory, locate_row_errors, read_rows, read_trajectory_row
from homerl.report.pages.world_pages import load_report_template
from homerl.rewards.composite import RewardWeights
from homerl.worlds.registry import default_world, world_of

FILE = "trajectories.jsonl"
MODELS = {"untrained": "untrained", "sft": "after SFT", "rlve": "after RLVE"}
PLAYERS = MODELS | {"expert": "expert (upper bound)"}  # whose scores a run holds; the expert knows the solution
EXAMPLES = 3  # successes and failures of a run that are replayed unasked
SYNTHESIS = "synthesis"
RANGE = re.compile(r"(\d+)-(\d+)$")  # of episodes' numbers
NO_DRAWING = "the report of any run shows its dialogues (report.html)"


# Files of episodes


@dataclass(frozen=True)
class EpisodeFile:
    """A file of episodes in a run's folder: who played what, how many there are, and how many of them succeed."""

    path: Path
    played: str
    episodes: int
    successes: int

    @property
    def source(self) -> Path:
        """What a person names to see the episodes: the file, or its folder where that is enough."""
        return self.path.parent if self.path.name == FILE else self.path


def list_episode_files(run: Path) -> list[EpisodeFile]:
    """The files of episodes of a run, in the order in which they were played; of training's rollouts the newest."""
    found = [(run / "synth" / FILE, SYNTHESIS)]
    for model, name in PLAYERS.items():
        played = sorted((run / model / "bench").glob(f"*/{FILE}"))
        found += [(path, f"{path.parent.name}, {name}") for path in played]
    updates = sorted((run / "rlve" / "rollouts").glob("update_*.jsonl"))
    found += [(path, f"rollouts of update {int(path.stem.removeprefix('update_')):,}") for path in updates[-1:]]
    return [_count_episodes(path, played) for path, played in found if path.is_file()]


def _count_episodes(path: Path, played: str) -> EpisodeFile:
    if played == SYNTHESIS:  # which may be large, and keeps successes only
        with path.open("rb") as lines:
            kept = sum(1 for _ in lines)
        return EpisodeFile(path, played, kept, kept)
    outcomes = [row.get("outcome") for row in read_rows(path)]
    return EpisodeFile(path, played, len(outcomes), outcomes.count(str(Outcome.SUCCESS)))


def find_example_file(files: Sequence[EpisodeFile]) -> EpisodeFile:
    """The file whose episodes stand for a run: the first suite of the model that was trained last, else any of them."""
    names = {name: rank for rank, name in enumerate(MODELS.values())}
    return max(files, key=lambda file: names.get(file.played.partition(", ")[2], -1))


def find_run_rewards(file: Path) -> RewardWeights | None:
    """The rewards that the recipe of the run gives to which a file belongs; None if no recipe lies above it."""
    for folder in list(file.resolve().parents)[:4]:
        if (folder / RECIPE).is_file():
            recipe = yaml.safe_load((folder / RECIPE).read_text(encoding="utf-8")) or {}
            known = RewardWeights.model_fields
            if "rewards" in recipe:
                return RewardWeights(**{key: value for key, value in recipe["rewards"].items() if key in known})
    return None


def with_run_rewards(trajectory: Trajectory, weights: RewardWeights | None) -> Trajectory:
    """The trajectory with its own rewards or, if it has none, with those of its run."""
    return trajectory if trajectory.rewards or weights is None else add_step_rewards(trajectory, weights)


def first_of_each_outcome(path: Path, n: int) -> list[tuple[str, Trajectory]]:
    """(where it stands, the trajectory) of the first n successes, then of the first n failures of a file."""
    found: dict[bool, list[tuple[str, Trajectory]]] = {True: [], False: []}
    for number, row in enumerate(read_rows(path) if path.is_file() else (), 1):
        where = f"{path}:{number}"
        with locate_row_errors(where):
            outcome = Outcome(row["outcome"])
        kind = found[outcome is Outcome.SUCCESS]
        if outcome.is_counted and len(kind) < n:
            kind.append((where, read_trajectory_row(row, where)))
        if all(len(kind) == n for kind in found.values()):
            break
    return [*found[True], *found[False]]


def find_episodes(source: Path, wanted: Sequence[str]) -> list[tuple[str, Trajectory]]:
    """(where it stands, the trajectory) of each episode that is wanted, in a file or in the folder that has it.

    An episode is wanted by its number from 1, by its id, or with others as a range of numbers such as `1-6`. Raises
    `InputError` for one that is not there.
    """
    path = source / FILE if source.is_dir() else source
    names = [name for text in wanted for name in _expand_range(text, path)]
    found: dict[str, tuple[str, Trajectory]] = {}
    ids: list[str] = []
    for at, row in enumerate(read_rows(path), 1):
        ids.append(str(row.get("id")))
        for name in {str(at), ids[-1]}.intersection(names):
            found.setdefault(name, (f"{path}:{at}", read_trajectory_row(row, f"{path}:{at}")))
        if len(found) == len(set(names)):
            break
    for name in names:
        if name not in found and name.isdecimal():
            raise InputError(f"there is no episode {name}", str(path), f"there are {len(ids)}, counted from 1")
        if name not in found:
            near = ", ".join(get_close_matches(name, ids, 5, cutoff=0))
            raise InputError(f"there is no episode '{name}'", str(path), f"most like it: {near}; there are {len(ids)}")
    return [found[name] for name in names]


def _expand_range(text: str, path: Path) -> list[str]:
    if not (numbers := RANGE.match(text)):
        return [text]
    first, last = map(int, numbers.groups())
    if not 0 < first <= last:
        raise InputError(f"'{text}' is no range of episodes", str(path), "write the lower number first, such as 1-6")
    return [str(number) for number in range(first, last + 1)]


# Pages


@dataclass(frozen=True)
class EpisodePage:
    """A drawn episode: the first sentence, what came of it, and the page."""

    title: str
    trajectory: Trajectory
    html: str

    @property
    def total_reward(self) -> float | None:
        """The sum of all rewards; None if there are none."""
        rewards = self.trajectory.rewards
        return sum(value for parts in rewards for value in parts.values()) if rewards else None


def write_episode_page(source: Path, wanted: Sequence[str], out: Path | None = None) -> tuple[Path, list[Trajectory]]:
    """Write the page of episodes to `out` or beside their file. The result is (page, trajectories).

    `wanted` names episodes as `find_episodes` takes them; without any, it is the first of a file, and in a run's folder the
    first successes and failures of its last model. Raises `InputError` if there is no such episode, or no drawing of it.
    """
    if wanted or not (files := [] if (source / FILE).is_file() else list_episode_files(source)):
        found = find_episodes(source, wanted or ["1"])
    else:
        found = first_of_each_outcome(find_example_file(files).path, EXAMPLES)
    pages = [_draw_episode(where, trajectory) for where, trajectory in found]
    path = out or (source / "episode.html" if source.is_dir() else source.with_suffix(".html"))
    write_atomic(path, render_episode_pages(pages, str(source)).encode("utf-8", "replace"))
    return path, [page.trajectory for page in pages]


def _draw_episode(where: str, trajectory: Trajectory) -> EpisodePage:
    shown = with_run_rewards(trajectory, find_run_rewards(Path(where.rpartition(":")[0])))
    with locate_row_errors(where):
        world = world_of(trajectory.blueprint)
        page = world.episode_page(shown, where)
        turns = trajectory.turns()
    if page is None:
        raise InputError(f"the world '{world.name}' draws no episodes", where, NO_DRAWING)
    return EpisodePage(turns[0].utterance if turns else str(trajectory.blueprint["id"]), shown, page)


def render_episode_pages(pages: Sequence[EpisodePage], source: str) -> str:
    """The page of one episode as its world draws it, or a page with a list of several, which shows the chosen one."""
    if len(pages) == 1:
        return pages[0].html
    world = world_of(pages[0].trajectory.blueprint) if pages else default_world()
    return load_report_template("episodes.html.jinja", world).render(pages=pages, source=source)


def describe_episodes(trajectories: Sequence[Trajectory]) -> Iterator[str]:
    """What a page shows, one line for each episode."""
    for played in trajectories:
        yield f"{played.blueprint['id']}, {played.outcome}, {count_with_noun(len(played.steps), 'step')}"
