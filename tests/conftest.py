"""Sets up Hypothesis (a few cases per property by default, thousands with the profile `many`: `scripts/test --all`), the
order of the tests, the number of processes that run them, and Ctrl-C for the processes that tests start.
"""

import gc
import os
import signal
from functools import cache

import pytest
import typer.main
from hypothesis import settings

pytest_plugins = ["shared_fixtures"]  # tests/helpers/shared_fixtures.py

# What a shell starts in the background ignores Ctrl-C, and so do its children.
signal.signal(signal.SIGINT, signal.default_int_handler)

gc.disable()  # until all is collected

settings.register_profile("few", deadline=None, max_examples=20)  # a busy machine fails no test
settings.register_profile("many", deadline=None)
settings.load_profile("few")

# A command line of forty commands takes longer to build than most tests take to run it.
typer.main.get_command = cache(typer.main.get_command)

# Idle processes take tests off the end, and would make the fixtures of these again.
FIRST = ("test_third_world.py", "test_in_tree.py")


@pytest.hookimpl(optionalhook=True)  # `scripts/benchmark` goes without xdist
def pytest_xdist_auto_num_workers() -> int:
    """One more than there are cores: many tests wait for a process or a server. `scripts/test` allows four."""
    return (os.cpu_count() or 1) + 1


def pytest_collection_finish() -> None:
    """What was imported and collected is never garbage. What tests leave is looked through less often than Python would,
    which takes a fifth of all their time.
    """
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)
    gc.enable()


def pytest_collection_modifyitems(items: list) -> None:
    """Begin with the modules whose fixtures take longest."""
    items.sort(key=lambda item: item.path.name not in FIRST)
