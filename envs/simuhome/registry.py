"""Where the clusters' functions are registered, by cluster and name, and the two sorts of result that most of them share.

Invariants: a function gets a `View` and the arguments of the catalogue, and returns the result's data or raises
`Failure`; a `PASSES` function brings its cluster `n` passes further, exactly as n single ones would.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from envs.simuhome.home import ClusterView

CommandFunction = Callable[..., Any]  # of a view and the command's arguments by name; the result's data
WriteFunction = Callable[[ClusterView, str, Any], Any]  # of a view, the attribute and its new value; the result's data
PassFunction = Callable[[ClusterView, int], None]  # of a view and a number of passes

COMMANDS: dict[tuple[str, str], CommandFunction] = {}
WRITES: dict[tuple[str, str], WriteFunction] = {}
PASSES: dict[str, PassFunction] = {}


def register_command(cluster: str, *names: str) -> Callable[[CommandFunction], CommandFunction]:
    """Register a command; one that is given several names gets the name it was called by as `name`."""

    def register(function: CommandFunction) -> CommandFunction:
        for name in names:
            COMMANDS[cluster, name] = _named(function, name) if len(names) > 1 else function
        return function

    return register


def _named(function: CommandFunction, name: str) -> CommandFunction:
    return lambda view, **arguments: function(view, name, **arguments)


def register_write(cluster: str, *attributes: str) -> Callable[[WriteFunction], WriteFunction]:
    """Register how attributes are written that are not just stored."""

    def register(function: WriteFunction) -> WriteFunction:
        for attribute in attributes:
            WRITES[cluster, attribute] = function
        return function

    return register


def register_passes(cluster: str) -> Callable[[PassFunction], PassFunction]:
    """Register what a cluster does by itself while time passes."""

    def register(function: PassFunction) -> PassFunction:
        PASSES[cluster] = function
        return function

    return register


def command_result(view: ClusterView, command: str, **more: Any) -> dict[str, Any]:
    """The result of a command: its cluster and name, and `more`."""
    return {"cluster": view.cluster, "command": command, **more}


def store_attribute(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Store a value; the result says what was there before."""
    old = view[attribute]
    view[attribute] = value
    return {"cluster": view.cluster, "attribute": attribute, "old_value": old, "new_value": value}
