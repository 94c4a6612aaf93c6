"""Stops work at once, and lets it keep what is done.

Invariant: within the block Ctrl-C and SIGTERM both raise `KeyboardInterrupt` where the work stands. (By itself asyncio only
asks its task to end, which happens once a model has sampled, minutes later.)
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

SIGNALS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def stop_on_signals() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end the block, so that its `finally` clauses run; only in the main thread."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def interrupt(number: int, frame: object) -> None:
        nonlocal asked
        asked = True
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in SIGNALS}
    try:
        yield
    except Exception as error:
        if asked and not isinstance(error.__context__, KeyboardInterrupt):
            raise KeyboardInterrupt from error  # a library, whose callback was interrupted, made its own error of it
        raise
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def children_ignore_interrupt() -> Iterator[None]:
    """Processes that the block starts ignore Ctrl-C, from their first moment: who started them speaks, and ends them."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
