"""Where the clusters' functions are found, and the two sorts of result data that most of them share."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envs.simuhome.home import View

COMMANDS: dict[tuple[str, str], Callable[..., Any]] = {}
WRITES: dict[tuple[str, str], Callable[[View, str, Any], Any]] = {}
PASSES: dict[str, Callable[[View, int], None]] = {}


def command(cluster: str, *names: str) -> Callable:
    """Register a command; one that is given several names gets the name it was called by as `name`."""

    def register(function: Callable) -> Callable:
        for name in names:
            COMMANDS[cluster, name] = _named(function, name) if len(names) > 1 else function
        return function

    return register


def _named(function: Callable, name: str) -> Callable:
    return lambda view, **arguments: function(view, name, **arguments)


def write(cluster: str, *attributes: str) -> Callable:
    """Register how attributes are written that are not just stored."""

    def register(function: Callable) -> Callable:
        for attribute in attributes:
            WRITES[cluster, attribute] = function
        return function

    return register


def passes(cluster: str) -> Callable:
    def register(function: Callable) -> Callable:
        PASSES[cluster] = function
        return function

    return register


def done(view: View, command: str, **more: Any) -> dict[str, Any]:
    return {"cluster": view.cluster, "command": command, **more}


def store(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Store a value and say what was there."""
    old = view[attribute]
    view[attribute] = value
    return {"cluster": view.cluster, "attribute": attribute, "old_value": old, "new_value": value}
