"""The processes of a flywheel's stages.

Invariants: a stage runs from its own recipe, which lies in its folder; Ctrl-C reaches the flywheel alone, which says so;
no stage outlives the flywheel; a stage that fails ends the flywheel with the stage's exit code.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from homerl.envs.core.documents import write_atomic
from homerl.host.processes.exit_codes import TOLD, read_exit_code
from homerl.host.processes.lifetime import PARENT
from homerl.host.terminal.endings import RunStopped

GRACE = 10.0  # seconds that an interrupted benchmark gets to write what it played


def stage_recipe_path(stage: dict[str, Any]) -> Path:
    """The path of a stage's own recipe. A model's benchmark shares the folder of the model."""
    return Path(stage["out"]) / f"{stage['run']}.yaml"


def run_stage(stage: dict[str, Any], command: list[str]) -> None:
    """Run a stage to its end, with its output in the terminal. Raises `StageFailed` if it fails."""
    with start_stage_process(stage, command) as child:
        child.process.wait()
    child.raise_if_failed()


@dataclass(frozen=True)
class StageProcess:
    """The process of a stage, whose recipe is at `path`. Its output goes to the terminal or to `log`."""

    path: Path
    process: subprocess.Popen[bytes]
    log: Path | None

    @property
    def is_process_running(self) -> bool:
        """Whether the process has not ended."""
        return self.process.poll() is None

    def end_process(self) -> None:
        """End the process, if it still runs. A benchmark gets the time to write what it played."""
        if self.is_process_running and self.log:
            self.process.terminate()
            with suppress(subprocess.TimeoutExpired):
                self.process.wait(GRACE)
        if self.is_process_running:
            self.process.kill()
            self.process.wait()

    def raise_if_failed(self) -> None:
        """Raise `StageFailed` if the process failed."""
        if code := read_exit_code(exit_code_path(self.path), self.process.returncode):
            raise StageFailed(
                f"{self.path}: stage {self.path.parent.name} ended with code {code}\n"
                f"see {self.log or 'its message above'}; the same command goes on from here",
                code,
            )


class StageFailed(RunStopped):
    """A stage failed. The exit code is the stage's; 1 if a signal ended it."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = max(code, 1)


def exit_code_path(recipe: Path) -> Path:
    """The file into which a stage writes its exit code, which torchrun does not pass on."""
    return recipe.with_suffix(".exit_code")


@contextmanager
def start_stage_process(stage: dict[str, Any], command: list[str], log: Path | None = None) -> Iterator[StageProcess]:
    """Write the stage's recipe and start it. It ends with the block, whatever ends that."""
    path = stage_recipe_path(stage)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, "homerl: 1\n" + yaml.safe_dump({k: v for k, v in stage.items() if k != "homerl"}, sort_keys=False))
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ACCELERATE_", "RANK", "WORLD_", "LOCAL_", "MASTER_"))}
    environment = {"OMP_NUM_THREADS": "1"} | clean | {PARENT: str(os.getpid()), TOLD: str(exit_code_path(path))}
    exit_code_path(path).unlink(missing_ok=True)  # of a flywheel that was killed
    with log.open("w") if log else nullcontext() as words:
        process = subprocess.Popen(
            [*command, str(path)], env=environment, stdout=words, stderr=words, start_new_session=True
        )
    child = StageProcess(path, process, log)
    try:
        yield child
    finally:
        child.end_process()
