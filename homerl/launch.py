"""Starts the run that a recipe describes: the launch hook ends here.

Invariant: what a person got wrong is one message on stderr and exit code 2.
"""

import json
import sys

from envs.documents import InputError
from homerl import config


def main(path: str, argv: list[str]) -> int:
    """Resolves the recipe at `path` with the overrides `argv`, prints it, and returns the exit code."""
    try:
        data, _ = config.load(path, argv)
    except InputError as error:
        print(error, file=sys.stderr)
        return 2
    print(json.dumps(data, indent=2))
    return 0
