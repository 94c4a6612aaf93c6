"""The passage of time: rooms are advanced from one event to the next, and workflows run in between.

Invariants:
- Advancing by n passes at once gives the same state as n single passes.
- A workflow that is due at tick D runs after pass D. If time stops at D, the workflow runs when time goes on.
- Rooms that are left out of `rooms` do not change.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from homerl.envs.simuhome.sim import air, workflows
from homerl.envs.simuhome.sim.clusters import PASSES
from homerl.envs.simuhome.sim.home import ClusterView, MatterDevice, MatterHome
from homerl.envs.simuhome.sim.spec import DeviceType


def advance_home(home: MatterHome, to_tick: int, rooms: Iterable[str] | None = None, live: bool = True) -> None:
    """Let time pass until tick `to_tick`, in all rooms or only in `rooms`.

    With `live=False` this is the released program's fast-forward: a malformed workflow step then raises
    `OperationError` in strict mode.
    """
    if home.plan.max_ticks is not None:
        to_tick = min(to_tick, home.plan.max_ticks)
    names = tuple(home.plan.rooms) if rooms is None else tuple(dict.fromkeys(rooms))
    while home.tick < to_tick:
        workflows.run_due(home, live)
        due = workflows.next_due(home)
        stop = to_tick if due is None else min(max(due, home.tick + 1), to_tick)
        advance_rooms(home, stop - home.tick, names)
        home.tick = stop


@lru_cache
def time_driven_clusters(kind: DeviceType) -> tuple[tuple[int, str], ...]:
    """(endpoint, cluster) of the clusters of a device type that change as time passes."""
    return tuple((endpoint, cluster.name) for endpoint, cluster in kind.cluster_places if cluster.name in PASSES)


def advance_rooms(home: MatterHome, n: int, rooms: Iterable[str]) -> None:
    """Advance some rooms by `n` passes, during which no workflow runs."""
    for name in rooms:
        if name not in home.plan.rooms:
            continue
        for device in home.plan.devices_by_room[name]:
            advance_device(home, device, n)
        if home.plan.aggregators:
            air.advance_air(home, home.plan.rooms[name], n)


def advance_device(home: MatterHome, device: MatterDevice, n: int) -> None:
    """Advance the time-driven clusters of one device by `n` passes."""
    for endpoint, cluster in time_driven_clusters(device.type):
        PASSES[cluster](ClusterView(home, device, endpoint, cluster), n)
