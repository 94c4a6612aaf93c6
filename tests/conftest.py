"""Sets up Hypothesis (a few cases per property by default, thousands with the profile `many`: `scripts/test --all`), the
order of the tests, and Ctrl-C for the processes that tests start.
"""

import signal

from hypothesis import settings

signal.signal(
    signal.SIGINT, signal.default_int_handler
)  # what a shell starts in the background ignores it, and so its children

settings.register_profile("few", deadline=None)  # a busy machine fails no test
settings.register_profile("many", deadline=None)
settings.load_profile("few")

FIRST = (
    "test_third_world.py",
    "test_in_tree.py",
)  # idle processes take tests off the end, and would make their fixtures again


def pytest_collection_modifyitems(items: list) -> None:
    """Begin with the modules whose fixtures take longest."""
    items.sort(key=lambda item: item.path.name not in FIRST)
