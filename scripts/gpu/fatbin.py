"""CUDA's fat binaries inside a shared library: lists their kernels, and empties those that one GPU cannot run.

A library holds containers. A container holds entries: machine code (a cubin) or PTX, each for one architecture. An emptied
entry keeps its header and its size, with zeros as its content, so no address in the library changes. Zeros cost nothing in a
compressed archive.

Invariants: the file keeps its length and its ELF headers; an entry that is kept keeps its bytes; the driver is offered no
emptied PTX for the architecture that is kept.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MAGIC = b"\x50\xed\x55\xba"
CONTAINER = struct.Struct("<4sHHQ")  # magic, version, size of this header, size of all entries
ENTRY = struct.Struct("<HHIQIIHHI")  # kind, version, size of this header, size, its compressed size, ?, minor, major, sm
SM_OFFSET = ENTRY.size - 4
PTX, CUBIN = 1, 2
KINDS = (1, 2, 4, 8, 16, 32, 64)
NO_SUCH_SM = 120  # newer than any GPU that a bundle is for: its PTX is never translated


@dataclass(frozen=True)
class Entry:
    """A kernel image: where its header and its content lie in the file, its kind, and its architecture (90 for sm_90)."""

    header: int
    content: slice
    kind: int
    sm: int

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return self.content.stop - self.content.start


def containers(data: bytes) -> Iterator[list[Entry]]:
    """The entries of each container, in the order of the file."""
    at = data.find(MAGIC)
    while at >= 0:
        _, version, header, size = CONTAINER.unpack_from(data, at) if at + CONTAINER.size <= len(data) else (0, 0, 0, 0)
        begin, end = at + header, at + header + size
        real = version == 1 and header == CONTAINER.size and end <= len(data)
        if real:
            yield list(_entries(data, begin, end))
        at = data.find(MAGIC, end if real else at + len(MAGIC))


def _entries(data: bytes, begin: int, end: int) -> Iterator[Entry]:
    while begin + ENTRY.size <= end:
        kind, _, header, size, *_, sm = ENTRY.unpack_from(data, begin)
        content = slice(begin + header, begin + header + size)
        if kind not in KINDS or header < ENTRY.size or content.stop > end:  # padding at the container's end
            return
        yield Entry(begin, content, kind, sm)
        begin = content.stop


def kept(data: bytes, sm: int, used: Callable[[bytes], bool] = lambda code: True) -> bytes:
    """The library with all kernels emptied except the machine code for `sm` that is `used`."""
    slim = bytearray(data)
    for entries in containers(data):
        for entry in entries:
            if entry.kind == CUBIN and entry.sm == sm and used(data[entry.content]):
                continue
            slim[entry.content] = bytes(entry.size)
            if entry.kind == PTX and entry.sm <= sm:
                struct.pack_into("<I", slim, entry.header + SM_OFFSET, NO_SUCH_SM)
    return bytes(slim)


def code_sizes(data: bytes) -> dict[int, int]:
    """Bytes of machine code by architecture; an emptied entry does not count."""
    sizes: dict[int, int] = {}
    for entries in containers(data):
        for entry in entries:
            if entry.kind == CUBIN and any(data[entry.content]):
                sizes[entry.sm] = sizes.get(entry.sm, 0) + entry.size
    return sizes
