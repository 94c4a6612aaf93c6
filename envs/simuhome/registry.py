"""Where the clusters' functions are registered, by cluster and name, and the two sorts of result that most of them share.

Invariants: a function gets a `View` and the arguments of the catalogue, and returns the result's data or raises
`Failure`; a `PASSES` function brings its cluster `n` passes further, exactly as n single ones would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envs.simuhome.home import View

Command = Callable[..., Any]  # of a view and the command's arguments by name; the result's data
Write = Callable[[View, str, Any], Any]  # of a view, the attribute and its new value; the result's data
Pass = Callable[[View, int], None]  # of a view and a number of passes

COMMANDS: dict[tuple[str, str], Command] = {}
WRITES: dict[tuple[str, str], Write] = {}
PASSES: dict[str, Pass] = {}


def command(cluster: str, *names: str) -> Callable[[Command], Command]:
    """Register a command; one that is given several names gets the name it was called by as `name`."""

    def register(function: Command) -> Command:
        for name in names:
            COMMANDS[cluster, name] = _named(function, name) if len(names) > 1 else function
        return function

    return register


def _named(function: Command, name: str) -> Command:
    return lambda view, **arguments: function(view, name, **arguments)


def write(cluster: str, *attributes: str) -> Callable[[Write], Write]:
    """Register how attributes are written that are not just stored."""

    def register(function: Write) -> Write:
        for attribute in attributes:
            WRITES[cluster, attribute] = function
        return function

    return register


def passes(cluster: str) -> Callable[[Pass], Pass]:
    """Register what a cluster does by itself while time passes."""

    def register(function: Pass) -> Pass:
        PASSES[cluster] = function
        return function

    return register


def done(view: View, command: str, **more: Any) -> dict[str, Any]:
    """The result of a command: its cluster and name, and `more`."""
    return {"cluster": view.cluster, "command": command, **more}


def store(view: View, attribute: str, value: Any) -> dict[str, Any]:
    """Store a value; the result says what was there before."""
    old = view[attribute]
    view[attribute] = value
    return {"cluster": view.cluster, "attribute": attribute, "old_value": old, "new_value": value}
