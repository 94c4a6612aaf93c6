"""A bundle: a folder as some .tar.xz files with their checksums, and back. It needs no package, and no `xz` program.

Invariants: equal folders give equal bytes (sorted names, no times, no owners); each file is a whole archive, which can be
unpacked by itself; what is unpacked was checked by its checksum before.
"""

from __future__ import annotations

import hashlib
import json
import lzma
import tarfile
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ABOUT = "bundle.json"
GROUPS: dict[str, Callable[[str], bool]] = {  # like files share an archive, which makes it smaller; each has its thread
    "vllm_libraries": lambda name: name.startswith("vllm/") and name.endswith(".so"),
    "programs": lambda name: name.startswith("bin/"),
    "libraries": lambda name: name.endswith(".so"),
    "sources": lambda name: True,
}
FILTERS = [  # xz's preset 9e takes ten times as long, for a twelfth of the bytes
    {"id": lzma.FILTER_X86},
    {"id": lzma.FILTER_LZMA2, "preset": 1, "dict_size": 2**25},
]


def pack(site: Path, out: Path, about: dict[str, Any]) -> dict[str, Any]:
    """Write the archives and `bundle.json` of a folder; return what that says."""
    out.mkdir(parents=True, exist_ok=True)
    names: dict[str, list[str]] = {group: [] for group in GROUPS}
    for path in sorted(path for path in site.rglob("*") if path.is_file()):
        name = path.relative_to(site).as_posix()
        names[next(group for group, holds in GROUPS.items() if holds(name))].append(name)
    groups = [group for group in GROUPS if names[group]]
    with ThreadPoolExecutor(len(groups)) as pool:  # xz works outside of Python's lock
        archives = list(
            pool.map(
                _archive,
                [site] * len(groups),
                [names[group] for group in groups],
                [out / f"{group}.tar.xz" for group in groups],
            )
        )
    size = sum(path.stat().st_size for path in site.rglob("*") if path.is_file())
    about = about | {"unpacked": size, "files": {path.name: described(path) for path in archives}}
    (out / ABOUT).write_text(json.dumps(about, indent=1) + "\n")
    return about


def _archive(site: Path, names: Iterable[str], out: Path) -> Path:
    def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
        member.mtime = member.uid = member.gid = 0
        member.uname = member.gname = ""
        member.mode = 0o755 if member.mode & 0o100 else 0o644
        return member

    with lzma.open(out, "wb", filters=FILTERS) as stream, tarfile.open(fileobj=stream, mode="w|") as archive:
        for name in names:
            archive.add(site / name, name, recursive=False, filter=plain)
    return out


def described(path: Path) -> dict[str, Any]:
    """The size and the checksum of a file."""
    return {"bytes": path.stat().st_size, "sha256": hashlib.sha256(path.read_bytes()).hexdigest()}


def read_about(bundle: Path) -> dict[str, Any]:
    """What `bundle.json` says. Raises `ValueError` if the folder is no bundle, or a file of it is missing or damaged."""
    if not (bundle / ABOUT).is_file():
        raise ValueError(f"{bundle} holds no {ABOUT}: name the folder that scripts/gpu_bundle wrote")
    about = json.loads((bundle / ABOUT).read_text())
    for name, said in about["files"].items():
        if not (bundle / name).is_file() or described(bundle / name) != said:
            raise ValueError(f"{bundle / name} is missing or damaged: copy the bundle again")
    return about


def unpack(bundle: Path, site: Path) -> dict[str, Any]:
    """Unpack a bundle into a folder, unless the same one is there already; return what `bundle.json` says."""
    about, mark = read_about(bundle), site / ABOUT
    if mark.is_file() and json.loads(mark.read_text()) == about:
        return about
    site.mkdir(parents=True, exist_ok=True)
    for name in about["files"]:
        with lzma.open(bundle / name) as stream, tarfile.open(fileobj=stream, mode="r|", ignore_zeros=True) as archive:
            archive.extraction_filter = getattr(tarfile, "tar_filter", None)  # Python 3.11.3 and older have none
            archive.extractall(site)
    mark.write_text(json.dumps(about))
    return about
