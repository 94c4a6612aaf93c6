"""Folders that appear under their name as a whole or not at all.

Invariants:
- Only what an earlier export wrote is replaced, and only once the new folder has its name. Other content is refused.
- A kill leaves the earlier folder, or the new one. What is left beside it, the next export removes.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from homerl.envs.core.documents import InputError, name_path_in_errors


def refuse_other_content(folder: Path, facts: str) -> None:
    """Raise `InputError` if a folder has content that no export wrote: the file `facts` is missing in it."""
    if folder.exists() and not (folder / facts).is_file() and not (folder.is_dir() and not any(folder.iterdir())):
        remedy = "give another name, or move it away"
        raise InputError("what stands here is no earlier export", str(folder), remedy)


@contextmanager
def write_whole_folder(folder: Path) -> Iterator[Path]:
    """A new folder beside `folder`, to be filled within the block. It then takes its name, unless the block failed."""
    making = folder.with_name(f".{folder.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    with name_path_in_errors(folder, making):
        making.mkdir(parents=True)
    try:
        yield making
        earlier = folder.with_name(f".{folder.name}.earlier")
        shutil.rmtree(earlier, ignore_errors=True)
        if folder.exists():
            folder.rename(earlier)
        making.rename(folder)
        shutil.rmtree(earlier, ignore_errors=True)
    finally:
        shutil.rmtree(making, ignore_errors=True)
