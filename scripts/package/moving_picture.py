"""Draws README's moving picture, `docs/replay.svg`: a dialogue in a home, call by call, with what changes and what each step
earns. `python -m package.moving_picture` in scripts/ writes it (`scripts/regenerate` calls it).

The dialogue is played here: the scripted expert, which makes a mistake now and then, and the scripted user, in a home of a
seed. Nothing of it is written by hand.

Invariants: the same commit draws the same bytes; the picture needs no script and no network; where motion is not wanted, it
shows the end.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby
from pathlib import Path

from homerl.envs.homeenv.pages import home_page
from homerl.envs.homeenv.pages.episode import HomeEpisodePage, HomeStepView, HomeView, replay_moments
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.host.html_pages import load_template
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.replay import add_step_rewards
from homerl.play.trajectory import Trajectory
from homerl.rewards.composite import RewardWeights
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, known_worlds
from homerl.worlds.users import ScriptedUser

PICTURE = Path(__file__).parents[2] / "docs/replay.svg"
SEED = 27  # of the home, the task and the expert: two wishes, and one call that the home refuses
RECIPE = {
    "home": {
        "devices": [6, 6],
        "rooms": [3, 3],
        "ids": "slug",
        "categories": ["light", "curtain", "fan", "air_conditioner", "plug", "speaker"],
    },
    "intents": [2, 2],
    "phrasings": 1,
    "toolset": "assist",
    "families": {"atomic": 2, "compositional": 1},
}
SECONDS, REST = 2.4, 4.0  # for each thing that appears, and for the end
WORDS, CALL = 34, 58  # pixels: of a sentence with its bubble, and of a call with what came of it


@dataclass(frozen=True)
class Shown:
    """A part of the picture that is seen from one second to another. `end` is None for what is seen to the end."""

    start: float
    end: float | None
    kind: str
    text: str


@dataclass(frozen=True)
class Line:
    """A line of the dialogue at a height: what was said or called, what came of it, and what it earned."""

    start: float
    top: int
    kind: str
    text: str
    result: str = ""
    earned: Sequence[tuple[str, float]] = ()


def play_dialogue() -> Trajectory:
    """The dialogue with the reward of each step."""
    blueprint = make_home_blueprint(BlueprintRecipe.model_validate(RECIPE), "train", SEED)
    expert = known_worlds()["homeenv"].expert(ExpertConfig(mistakes=0.25, styles={"stepwise": 1}), SEED)
    played = asyncio.run(play(begin_episode(blueprint, EpisodeLimits(4, 12, 6)), expert, ScriptedUser()))
    return add_step_rewards(played, RewardWeights())


def result_in_words(step: HomeStepView) -> str:
    """What came of a call: what it changed, or why it was refused."""
    if step.shown.blocked:
        return f"✗ {step.shown.observations[0].removeprefix('Error calling tool: ')}"
    return "   ".join(f"✓ {one.whose}: {one.what} {one.before} → {one.after}" for one in step.made_changes)


def lines_of_dialogue(page: HomeEpisodePage) -> Iterator[Line]:
    """The lines from top to bottom, each a while after the one before."""
    start, top = SECONDS / 3, 52
    for wish, steps in page.turns:
        for line in [Line(0, 0, "user", wish), *map(line_of_step, steps)]:
            yield Line(start, top, line.kind, line.text, line.result, line.earned)
            start, top = start + SECONDS, top + (CALL if line.kind == "call" else WORDS) + 8


def line_of_step(step: HomeStepView) -> Line:
    """A step as a line, without its place."""
    calls, words = "; ".join(step.shown.calls), step.shown.said or ""
    kind = "call" if calls else "agent"
    return Line(0, 0, kind, calls or words, result_in_words(step) if calls else "", step.shown.rewards)


def tile_states(homes: Sequence[HomeView], starts: Sequence[float], room: str, index: int) -> list[Shown]:
    """What a device's tile shows in turn, each until the next. `starts` are the seconds of the homes."""
    said = [home.room_tiles[room][index].tile_summary for home in homes]
    runs = [(next(iter(run)), key) for key, run in groupby(range(len(said)), key=lambda at: (said[at].tone, said[at].words))]
    ends: list[float | None] = [starts[at] for at, _ in runs[1:]]
    return [Shown(starts[at], end, tone, words) for (at, (tone, words)), end in zip(runs, [*ends, None], strict=True)]


def draw_moving_picture() -> str:
    """The picture as SVG."""
    trajectory = play_dialogue()
    page = HomeEpisodePage(trajectory)
    homes = [HomeView(f"s{at}", "Home", home) for at, (home, _) in enumerate(replay_moments(trajectory, "dialogue"))]
    lines = list(lines_of_dialogue(page))
    starts = [0.0, *(line.start for line in lines if line.kind != "user")]  # of the start and of each step
    totals = list(accumulate(page.rewards_by_step, initial=0.0))
    met = [sum(page.begun), *(sum(step.met) for step in page.all_steps)]
    counts = [(f"{total:+.1f}", f"{goals} of {len(page.goals)}") for total, goals in zip(totals, met, strict=True)]
    rooms = [
        (
            room.name,
            [(tile, tile_states(homes, starts, room.id, at)) for at, tile in enumerate(homes[0].room_tiles[room.id])],
        )
        for room in homes[0].home.plan.rooms
        if homes[0].room_tiles[room.id]
    ]
    icons = (Path(home_page.__file__).with_name("icons.svg")).read_text("utf-8")
    template = load_template(Path(__file__).with_name("moving_picture.svg.jinja"))
    ends = [*starts[1:], None]
    told = [Shown(start, end, *count) for start, end, count in zip(starts, ends, counts, strict=True)]
    states = [state for _, tiles in rooms for _, states in tiles for state in states]
    return template.render(
        lines=lines,
        rooms=rooms,
        counts=told,
        spans=sorted({(one.start, one.end) for one in [*told, *states] if one.end is not None}),
        total=lines[-1].start + SECONDS + REST,
        used={tile.icon_name for _, tiles in rooms for tile, _ in tiles},
        symbols=[line for line in icons.splitlines() if line.startswith('<symbol id="i-')],
    )


if __name__ == "__main__":
    PICTURE.write_text(draw_moving_picture(), "utf-8")
    print(f"{PICTURE.relative_to(PICTURE.parents[1])}: a dialogue in a home, as README shows it")
