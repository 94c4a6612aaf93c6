"""`--from RUN`: a run that starts at what another run made.

SFT takes the other run's synthesis as its data, and RLVE its SFT model. A flywheel copies (`homerl.app.runs.origin`).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from homerl.envs.core.documents import InputError

FLAG = "--from"


def split_from_option(words: Sequence[str]) -> tuple[list[str], Path | None]:
    """The words of a command line without `--from RUN`, and RUN. Raises `InputError` if no run is named."""
    rest = list(words)
    for at, word in enumerate(rest):
        name, equals, value = word.partition("=")
        if name == FLAG:
            given = value if equals else next(iter(rest[at + 1 : at + 2]), "")
            if not given or not Path(given).is_dir():
                raise InputError(f"there is no run {given}".rstrip(), FLAG, f"write {FLAG} and a run's folder")
            return [*rest[:at], *rest[at + (1 if equals else 2) :]], Path(given)
    return rest, None


def from_option_words(run: Path | None) -> list[str]:
    """`--from RUN` as words of a command line; none without a run."""
    return [] if run is None else [FLAG, str(run)]


def overrides_from_run(kind: str, run: Path) -> list[str]:
    """The overrides by which a recipe of a kind starts at a run. Raises `InputError` for a kind that cannot."""
    if kind == "rlve":
        from homerl.report.cards.export import find_trained_stage

        stage = run / "sft" if (run / "sft").is_dir() else run
        return ["--model.name", str(find_trained_stage(stage) / "model")]
    if kind == "sft":
        data = run / "synth" if (run / "synth").is_dir() else run
        if not (data / "trajectories.jsonl").is_file():
            raise InputError("there is no finished synthesis here", str(run), "name a run that has one")
        return ["--data", str(data)]
    if kind == "flywheel":
        return []
    raise InputError(f"a recipe of `run: {kind}` starts at nothing", FLAG, "it is for sft, rlve and flywheel")
