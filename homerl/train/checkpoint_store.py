"""Checkpoints in a bucket, on the hub or in any other place that fsspec reaches, from which a run goes on after its machine
was lost: `checkpoint_to` of a recipe.

Below `checkpoint_to` a run has a folder of its name (a flywheel's stage that of both). In it are `checkpoint-N/`, `best/`,
and `run/` with the files by which the run is the same one: its recipe, its metrics, its id at Weights & Biases.

Invariants:
- A checkpoint counts when its list `checkpoint-N.json` is there, which is written last. What a kill left half is not taken.
- As many checkpoints stay as in the run's own folder. An older one is deleted after a newer one is there.
- A run takes from the store only what its folder lacks, and a checkpoint only if it has none of its own.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.host.recipe_files import RECIPE, RECORD, STAGES

KEY = "checkpoint_to"
FOLDER, BEST, RUN = "checkpoints", "best", "run"
OF_RUN = (RECIPE, RECORD, "metrics.jsonl", "wandb/run_id.txt")
LIST = re.compile(r"checkpoint-(\d+)\.json$")


def store_of_run(url: str, out: Path) -> CheckpointStore:
    """The store of the run in the folder `out`. Raises `InputError` if there is no such kind of place."""
    stage = out.name in STAGES and (out.parent / RECORD).is_file()
    name = f"{out.parent.resolve().name}/{out.name}" if stage else out.resolve().name
    return CheckpointStore(f"{url.rstrip('/')}/{name}", out)


class CheckpointStore:
    """The place of one run's checkpoints."""

    def __init__(self, url: str, out: Path) -> None:
        import fsspec

        self.url, self.out = url, out
        try:
            self.files, self.root = fsspec.core.url_to_fs(url)
        except (ValueError, ImportError) as error:
            remedy = "write a folder, s3://bucket/folder, gs://..., hf://org/name/... , and install what that needs"
            raise InputError(f"{url} cannot be used: {error}", KEY, remedy) from None
        self._best: str | None = None  # the score of the best model that is there

    def list_whole_checkpoints(self) -> list[int]:
        """The numbers of the whole checkpoints, the newest last. Raises `InputError` if the place does not answer."""
        try:
            self.files.invalidate_cache()
            names = self.files.ls(self.root, detail=False) if self.files.exists(self.root) else []
        except Exception as error:  # each kind of place has errors of its own
            what = f"{self.url} does not answer ({type(error).__name__}: {error})"
            raise InputError(what, KEY, "see to the place and the login to it, or leave the key out") from error
        return sorted(int(match[1]) for name in names if (match := LIST.search(str(name))))

    def take_up_run(self) -> str | None:
        """Bring the newest whole checkpoint here, with what belongs to the run, unless it has one. Returns its name."""
        if (self.out / "model").exists() or any((self.out / FOLDER).glob("checkpoint-*")):
            return None
        whole = self.list_whole_checkpoints()
        if not whole:
            return None
        name = f"checkpoint-{whole[-1]}"
        listed = json.loads(self.files.cat_file(f"{self.root}/{name}.json"))
        making = self.out / FOLDER / f".{name}.making"
        self._fetch(f"{self.root}/{name}", making, listed["files"])
        if listed.get("best") and not (self.out / BEST).exists():
            self._fetch(f"{self.root}/{BEST}", self.out / f"{BEST}.making", listed["best"])
            (self.out / f"{BEST}.making").rename(self.out / BEST)
        lacking = [file for file in listed["run"] if not (self.out / file).exists()]
        self._fetch(f"{self.root}/{RUN}", self.out, lacking)
        making.rename(self.out / FOLDER / name)
        return name

    def _fetch(self, source: str, target: Path, files: list[str]) -> None:
        for file in files:
            (target / file).parent.mkdir(parents=True, exist_ok=True)
            self.files.get_file(f"{source}/{file}", str(target / file))

    def send_files(self, step: int) -> None:
        """Send this machine's files of a checkpoint. Each machine of a run does so."""
        self._send(self.out / FOLDER / f"checkpoint-{step}", f"{self.root}/checkpoint-{step}")

    def finish_checkpoint(self, step: int, keep: int) -> None:
        """Send the files of the run, say that the checkpoint is whole, and delete older ones. One process does so last."""
        score = self.out / BEST / "score.json"
        if score.is_file() and score.read_text(encoding="utf-8") != self._best:
            self._send(self.out / BEST, f"{self.root}/{BEST}")
            self._best = score.read_text(encoding="utf-8")
        sent = [name for name in OF_RUN if (self.out / name).is_file()]
        for name in sent:
            self._send_file(self.out / name, f"{self.root}/{RUN}/{name}")
        base = f"{self.root}/checkpoint-{step}"
        listed = {"files": self._list_below(base), "best": self._list_below(f"{self.root}/{BEST}"), "run": sent}
        self.files.pipe_file(f"{base}.json", json.dumps(listed).encode())
        for old in self.list_whole_checkpoints()[:-keep]:
            self.files.rm_file(f"{self.root}/checkpoint-{old}.json")
            self.files.rm(f"{self.root}/checkpoint-{old}", recursive=True)

    def _list_below(self, folder: str) -> list[str]:
        self.files.invalidate_cache()
        return sorted(str(name).rpartition(f"{folder}/")[2] for name in self.files.find(folder))

    def _send(self, folder: Path, target: str) -> None:
        for path in sorted(folder.rglob("*")):
            if path.is_file():
                self._send_file(path, f"{target}/{path.relative_to(folder).as_posix()}")

    def _send_file(self, file: Path, target: str) -> None:
        self.files.makedirs(target.rpartition("/")[0], exist_ok=True)
        self.files.put_file(str(file), target)


def take_up_stored_run(recipe: Any) -> str | None:
    """Bring the newest checkpoint of a training from where its recipe stores them. Returns its name, or None."""
    url = getattr(recipe, KEY, None)
    return store_of_run(url, recipe.out).take_up_run() if url else None
