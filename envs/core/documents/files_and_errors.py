"""Files: their data with line numbers, the error that points into one, an `OSError` in words, and how one is written.

Invariants:
- A file is replaced as a whole or not at all (`write_atomic`).
- An `InputError` says what is wrong, where, and what to do, in at most two lines. It can be pickled, so that a worker
  process can raise it.
- `Document.lines` holds the line of every key and list item. The key path leads there: `("rooms", 0, "name")`.
"""

from __future__ import annotations

import difflib
import errno
import hashlib
import os
import re
import tempfile
import threading
from collections.abc import Hashable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

KeyPath = tuple[Hashable, ...]


class InputError(ValueError):
    """Something that a person wrote cannot be used.

    `what` says what is wrong, `where` names the place (such as `home.yaml:12`), and `remedy` says what to do about it.
    """

    def __init__(self, what: str, where: str = "", remedy: str = "") -> None:
        self.what, self.where, self.remedy = (" ".join(str(part).split()) for part in (what, where, remedy))
        first = f"{self.where}: {self.what}" if self.where else self.what
        super().__init__(f"{first}\n{self.remedy}" if self.remedy else first)

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.what, self.where, self.remedy)  # pickled when a worker process raises it


@dataclass(frozen=True)
class Document:
    """The data of a file, and the line (from 1) of each of its keys.

    `path` names the file. A document may also be composed of several files: then `origins` names the source of each key
    that is not from `path`.
    """

    path: str
    data: Any
    lines: Mapping[KeyPath, int]
    origins: Mapping[KeyPath, str] = field(default_factory=dict)

    def locate_key(self, key: KeyPath = ()) -> str:
        """`file:line` of a key, or only the file if no line is known. For an absent key it is that of the nearest key
        above.
        """
        known = next((key[:size] for size in range(len(key), -1, -1) if key[:size] in self.lines), ())
        line = self.lines.get(known, 0)
        source = self.origins.get(known, self.path)
        return f"{source}:{line}" if line else source


_FULL = "make room there, and where temporary files go, or name another place; what was finished is kept"
_TOLD = re.compile(  # by Rust, by torch, and by numpy's `tofile`
    r"\(os error (?P<number>\d+)\)|PytorchStreamWriter failed|inline_container.*unexpected pos"
    r"|^\d+ requested and \d+ written"
)
_CLOSED = "name a place that you may read and write"
_REMEDIES = {
    errno.ENOSPC: _FULL,
    errno.EDQUOT: _FULL,
    errno.EFBIG: _FULL,
    errno.EACCES: _CLOSED,
    errno.EPERM: _CLOSED,
    errno.EROFS: _CLOSED,
    errno.EISDIR: "it is a folder: name a file",
    errno.ENOTDIR: "a part of the path is a file, where a folder should be",
    errno.EEXIST: "a file stands where a folder should be: name another place",
}


@contextmanager
def name_path_in_errors(path: str | Path, temporary: Path | None = None) -> Iterator[None]:
    """Let an error of writing to this file be an `OSError` that names it.

    By itself it names no file, or the temporary one, and libraries raise errors of their own.
    """
    try:
        yield
    except Exception as error:
        found = find_os_error(error)
        if found is None or found.errno not in _REMEDIES or found.filename not in (None, str(temporary)):
            raise
        raise OSError(found.errno, found.strerror or str(found), str(path)) from error


def find_os_error(error: BaseException | None) -> OSError | None:
    """The `OSError` that an error is, was raised from, or (as those of libraries in Rust and C++) tells of in its text."""
    while error is not None:
        if told := _TOLD.search(str(error)):
            number = int(told["number"]) if told["number"] else errno.ENOSPC
            return OSError(number, os.strerror(number))
        if isinstance(error, OSError):
            return error
        error = error.__cause__
    return None


def os_error_to_input_error(error: OSError) -> InputError:
    """The error as a message for people. An error without a number (libraries raise such) speaks for itself."""
    where = os.fsdecode(error.filename2 or error.filename or "")
    if isinstance(error, FileNotFoundError) and where:
        return InputError("there is no such file or folder", where, suggest_near_path(Path(where)))
    if error.errno is None:
        return InputError(str(error) or type(error).__name__, where)
    remedy = _REMEDIES.get(error.errno, "see to it, and start the same command again")
    if where and remedy is _CLOSED and not Path(where).exists():  # the file may be a temporary one, of which nobody knows
        nearest = next((folder for folder in Path(where).parents if folder.is_dir()), where)
        return InputError(f"nothing can be written in this folder ({error.strerror})", str(nearest), remedy)
    what = f"cannot be read or written ({error.strerror})" if where else f"what was needed failed: {error.strerror}"
    return InputError(what, where, remedy)


def suggest_near_path(path: Path) -> str:
    """The remedy for a missing file: it suggests a file in the same folder whose name is similar."""
    near = find_near_path(path)
    return f"did you mean {near}?" if near else "check the path"


def find_near_path(path: Path) -> Path | None:
    """The path beside a missing one whose name is most similar; None if none is."""
    there = path.parent.iterdir() if path.parent.is_dir() else ()
    beside = [other.name for other in there if other.name != path.name]
    near = difflib.get_close_matches(path.name, beside, n=1)
    return path.with_name(near[0]) if near else None


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


def file_sha256(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
