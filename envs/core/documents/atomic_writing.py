"""Writing files.

Invariant: a file is replaced as a whole or not at all.
"""

from __future__ import annotations

import errno
import os
import re
import tempfile
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path

from homerl.envs.core.documents.document import name_path_in_errors


def write_atomic(path: str | Path, content: str | bytes | Iterable[str] | Iterable[bytes], mode: int = 0o666) -> None:
    """Replace the file at `path`, and create its folder if needed. Readers see either the old content or the new one.

    The same holds after a crash. `content` may be an iterable of strings, which are written one by one, so that the
    whole need not fit into memory. `mode` says who may read it, as far as the umask allows. Raises `OSError` with the path
    if the file cannot be written; the old file then stays as it was. What is no file (such as /dev/stdout) is written to.
    """
    path = Path(path)
    parts = [content] if isinstance(content, (str, bytes)) else content
    chunks = (part.encode() if isinstance(part, str) else part for part in parts)
    _refuse_folder_as_file(path)
    if path.exists() and not path.is_file():
        with name_path_in_errors(path), path.open("wb") as device:
            device.writelines(chunks)
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    # The content goes to a temporary file beside `path`, which then gets its name.
    writer = f"{os.getpid()}.{threading.get_ident()}"  # so that two writers never share a temporary file
    temporary = path.with_name(f".{path.name}.{writer}.tmp")
    try:
        with name_path_in_errors(path, temporary), open(temporary, "wb", opener=partial(os.open, mode=mode)) as file:
            file.writelines(chunks)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def ensure_writable(path: str | Path) -> None:
    """Create the folder of the file at `path`. Raises the `OSError` that `write_atomic` would raise, before long work."""
    path = Path(path)
    _refuse_folder_as_file(path)
    if path.is_file() or not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with tempfile.TemporaryFile(dir=path.parent):
                return
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(path)) from error


def _refuse_folder_as_file(path: Path) -> None:
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))


def remove_unfinished_writes(path: Path) -> None:
    """Remove what `write_atomic` left beside the file at `path` in processes of this machine that were killed."""
    for place in path.parent.glob(".*.tmp"):
        writer = re.fullmatch(rf"\.{re.escape(path.name)}\.(\d+)\.\d+\.tmp", place.name)
        if writer and not _is_process_running(int(writer[1])):
            place.unlink(missing_ok=True)


def _is_process_running(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # it runs, and is somebody else's
        pass
    return True
