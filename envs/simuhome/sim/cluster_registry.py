"""What modules of clusters share: the registry of their functions, and how many seconds a number of passes counts.

Invariants:
- A command or write function gets a `ClusterView` and the arguments that the catalogue lists. It returns the data of
  the result or raises `OperationError`.
- A pass function advances its cluster by n passes. The result is exactly that of n single passes.
- With passes of 0.1 s, second k is counted at pass 10k + 1. The released program adds 0.1 as doubles, and ten such
  additions fall just short of 1.
- With passes of any other length, the fraction is summed pass by pass, as the released program sums it.

A counter says how much of a second has been counted, and is 0 after a reset. An integer counts passes of 0.1 s, and
begins anew with each second; from the second one on it is a `LaterCounter`. A float is the fraction of a second itself, for
passes of any other length.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from homerl.envs.core.state_encoding import written_by
from homerl.envs.simuhome.sim.home import ClusterView

CommandFunction = Callable[..., Any]  # (view, arguments by name) -> data of the result
WriteFunction = Callable[[ClusterView, str, Any], Any]  # (view, attribute, new value) -> data of the result
PassFunction = Callable[[ClusterView, int], None]  # (view, number of passes)

COMMANDS: dict[tuple[str, str], CommandFunction] = {}
WRITES: dict[tuple[str, str], WriteFunction] = {}
PASSES: dict[str, PassFunction] = {}


def register_command(cluster: str, *names: str) -> Callable[[CommandFunction], CommandFunction]:
    """Decorator: register the function for commands of a cluster.

    A function that serves several commands gets the command's name as its argument `name`.
    """

    def register(function: CommandFunction) -> CommandFunction:
        COMMANDS.update({(cluster, name): partial(function, name=name) if len(names) > 1 else function for name in names})
        return function

    return register


def register_write(cluster: str, *attributes: str) -> Callable[[WriteFunction], WriteFunction]:
    """Decorator: register the function that writes these attributes. Other attributes are stored without one."""

    def register(function: WriteFunction) -> WriteFunction:
        WRITES.update({(cluster, attribute): function for attribute in attributes})
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


TENTH = 0.1  # seconds: the usual length of a pass


@written_by(int.__repr__)
class LaterCounter(int):
    """A counter of a second that is not the first since the reset.

    In the released program, taking off a whole second leaves another rounding error than the first second has. The class
    keeps the `repr` of its integer: state keys hash such texts, and stored trajectories hold these keys.
    """


class PassCount(NamedTuple):
    """What some passes counted: the number of passes that were used, the seconds, and the counter after them."""

    passes: int
    seconds: int
    counter: float


def count_seconds(counter: float, passes: int, interval: float, most: float = math.inf) -> PassCount:
    """Count `passes` passes of `interval` seconds. Stop after the pass in which `most` seconds are reached."""
    if interval == TENTH and isinstance(counter, int):
        before = _seconds_counted(counter)
        if most < math.inf:
            passes = min(passes, max(0, 10 * (before + math.ceil(most)) + 1 - counter))
        after = counter + passes
        kept = LaterCounter((after - 1) % 10 + 1) if after > 10 or isinstance(counter, LaterCounter) else after
        return PassCount(passes, _seconds_counted(after) - before, kept)
    fraction, seconds, used = counter, 0, 0
    if isinstance(counter, int):  # the passes so far were of 0.1 s: their fraction is summed as the released program sums it
        first = sum([TENTH] * 11) - 1 if isinstance(counter, LaterCounter) else TENTH * min(counter, 1)
        fraction = sum([TENTH] * (counter - 1), first)
    while used < passes and seconds < most:
        used, fraction = used + 1, fraction + interval
        whole = int(fraction)
        seconds, fraction = seconds + whole, fraction - whole
    return PassCount(used, seconds, fraction)


def _seconds_counted(passes: int) -> int:
    """The seconds counted in so many passes of 0.1 s since the reset."""
    return max(0, (passes - 1) // 10)
