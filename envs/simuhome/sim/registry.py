"""The registry of what clusters do: the functions for commands, attribute writes and the passage of time.

Invariants:
- A command or write function gets a `ClusterView` and the arguments that the catalogue lists. It returns the data of
  the result or raises `OperationError`.
- A pass function advances its cluster by n passes. The result is exactly that of n single passes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from homerl.envs.simuhome.sim.home import ClusterView

CommandFunction = Callable[..., Any]  # (view, arguments by name) -> data of the result
WriteFunction = Callable[[ClusterView, str, Any], Any]  # (view, attribute, new value) -> data of the result
PassFunction = Callable[[ClusterView, int], None]  # (view, number of passes)

COMMANDS: dict[tuple[str, str], CommandFunction] = {}
WRITES: dict[tuple[str, str], WriteFunction] = {}
PASSES: dict[str, PassFunction] = {}


def register_command(cluster: str, *names: str) -> Callable[[CommandFunction], CommandFunction]:
    """Decorator: register the function for commands of a cluster.

    A function that serves several commands gets the command's name as its second argument.
    """

    def register(function: CommandFunction) -> CommandFunction:
        for name in names:
            COMMANDS[cluster, name] = _named(function, name) if len(names) > 1 else function
        return function

    return register


def _named(function: CommandFunction, name: str) -> CommandFunction:
    return lambda view, **arguments: function(view, name, **arguments)


def register_write(cluster: str, *attributes: str) -> Callable[[WriteFunction], WriteFunction]:
    """Decorator: register the function that writes these attributes. Other attributes are stored without one."""

    def register(function: WriteFunction) -> WriteFunction:
        for attribute in attributes:
            WRITES[cluster, attribute] = function
        return function

    return register


def register_passes(cluster: str) -> Callable[[PassFunction], PassFunction]:
    """Decorator: register the function that advances a cluster by a number of passes."""

    def register(function: PassFunction) -> PassFunction:
        PASSES[cluster] = function
        return function

    return register


def command_result(view: ClusterView, command: str, **more: Any) -> dict[str, Any]:
    """The data of a command's result: cluster, command, and `more`."""
    return {"cluster": view.cluster, "command": command, **more}


def store_attribute(view: ClusterView, attribute: str, value: Any) -> dict[str, Any]:
    """Store a value. The result has the old and the new value."""
    old = view[attribute]
    view[attribute] = value
    return {"cluster": view.cluster, "attribute": attribute, "old_value": old, "new_value": value}
