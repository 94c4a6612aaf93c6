"""The worker processes in which the sandbox runs agents' code.

Invariants:
- A process has at most one pool. Its threads share the pool, which starts on first use.
- A process that was forked after its parent had started a pool has none: threads and locks do not survive a fork.
"""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable

from pydantic_monty import Monty

from homerl.envs.core.world import WorldError


def make_worker_pool() -> Monty:
    """A pool, not yet started, of up to one worker per core (four at least). Further threads wait for a free worker.

    A worker is replaced after 2000 snippets, because code that fills the memory also fragments it.
    """
    most = max(4, os.cpu_count() or 1)
    return Monty(max_processes=most, request_timeout=30, checkout_timeout=60, max_checkouts_per_worker=2000)


class SandboxWorkers:
    """Holds the pool of the process that first asks for it. `make` makes a pool that is not yet started."""

    def __init__(self, make: Callable[[], Monty] = make_worker_pool) -> None:
        self._make = make
        self._pool: Monty | None = None
        self._owner: int | None = None  # the process that made the pool
        self._making = threading.Lock()

    def started_pool(self) -> Monty:
        """The started pool. Raises `WorldError` in a process that was forked from the owner of the pool."""
        if self._owner not in (None, os.getpid()):
            raise WorldError("this process was forked after its parent had used the sandbox: start it by 'spawn' instead")
        if self._pool is None:
            with self._making:
                if self._pool is None:
                    self._owner = os.getpid()
                    self._pool = self._make().__enter__()
                    atexit.register(self.stop_pool)
        return self._pool

    def stop_pool(self) -> None:
        """Stop the workers. In a forked child, which inherits the exit handler but no workers, this does nothing."""
        if self._pool is not None and self._owner == os.getpid():
            self._pool.__exit__(None, None, None)
