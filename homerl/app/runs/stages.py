"""The stage of a run that needs no model of its own: synthesis."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_json
from homerl.host.terminal.console import count_with_noun, say
from homerl.host.terminal.endings import RunStopped
from homerl.host.terminal.progress import progress_bar
from homerl.play.trajectory import Outcome, read_rows
from homerl.report.cards.dataset import write_dataset_description
from homerl.synth.collect import synthesise_dataset
from homerl.synth.make import NO_BLUEPRINT
from homerl.synth.recipe import SynthRecipe
from homerl.synth.report import count_filter_drops


def run_synth(recipe: SynthRecipe) -> Path:
    """Synthesise with a progress bar, and return the dataset's path. Finished shards are kept."""
    with progress_bar() as bar:
        task = bar.add_task("synth", total=None, note=recipe.synth.strategy)

        def progress(done: int, total: int) -> None:
            if bar.tasks[task].total is None and 0 < done < total:
                say(f"kept from an earlier start: {done} of {count_with_noun(total, 'shard')}")
            bar.update(task, completed=done, total=total)

        path = synthesise_dataset(
            recipe.synth, recipe.out, recipe.processes, progress, recipe.ray, write_dataset_description
        )
    stats = read_json(recipe.out / "stats.json").data
    if not stats["trajectories"]:
        raise NothingSynthesised(why_nothing_synthesised(stats, recipe.out))
    for line in synthesis_summary_lines(stats, recipe.out):
        say(line)
    return path


class NothingSynthesised(RunStopped):
    """A synthesis without any trajectory (exit code 4). The message begins with the reason."""

    code = 4


def why_nothing_synthesised(stats: Mapping[str, Any], out: Path) -> str:
    """The most frequent reason that blueprints gave no trajectory, and what to do."""
    faults = Counter(row["fault"] for row in read_rows(out / "blueprints.jsonl") if row.get("fault"))
    drops = count_filter_drops(stats["dropped"]) if NO_BLUEPRINT in stats["outcomes"] else {}
    dropped = [f"dropped: {reason}" for reason in sorted(drops, key=lambda reason: drops[reason])]
    outcomes = ", ".join(name.replace("_", " ") for name in stats["outcomes"])
    reason = faults.most_common(1)[0][0] if faults else (dropped[-1] if dropped else outcomes)
    tried = f"so {sum(stats['outcomes'].values()):,} blueprints gave no trajectory ({outcomes})"
    return f"{reason}: {tried}\nsee to the models that the recipe names; what was tried stands in {out / 'blueprints.jsonl'}"


def synthesis_summary_lines(stats: Mapping[str, Any], out: Path) -> Iterator[str]:
    """Yield what became of the blueprints, and what to do if servers failed."""
    outcomes = ", ".join(f"{count:,} {name.replace('_', ' ')}" for name, count in stats["outcomes"].items())
    made, of = (
        count_with_noun(stats["trajectories"], "trajectory"),
        count_with_noun(sum(stats["outcomes"].values()), "blueprint"),
    )
    yield f"{made} of {of} ({outcomes}): {out}"
    if lost := stats["outcomes"].get(Outcome.INFRA_ERROR):
        yield f"servers failed for {lost:,} of them for good: see to the servers, and the same command makes these again"
