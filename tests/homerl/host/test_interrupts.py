"""What Ctrl-C becomes on its way out of a block that it may end."""

import os
import signal
import time
from contextlib import suppress

import pytest

from homerl.host.processes import stop_on_signals


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)
    time.sleep(1)


def test_an_error_that_a_library_makes_of_it_is_an_interrupt():
    with pytest.raises(KeyboardInterrupt), stop_on_signals():
        with suppress(KeyboardInterrupt):
            interrupt()
        raise ValueError("Error calling function `write`")  # as pydantic says, and nothing of its cause


def test_an_error_of_who_took_it_stays():
    with pytest.raises(RuntimeError, match="the server has ended"), stop_on_signals():
        try:
            interrupt()
        except KeyboardInterrupt:
            raise RuntimeError("the server has ended") from None
