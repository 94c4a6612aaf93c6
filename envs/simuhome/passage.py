"""The passage of time: rooms leap from event to event, workflows act in between.

Invariants: n passes at once give what n passes one by one give; a workflow due at tick D acts after pass D, so one due
at the tick at which time stops acts when it goes on; rooms that are left out stand still.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

from envs.simuhome import air, workflows
from envs.simuhome.clusters import PASSES
from envs.simuhome.home import ClusterView, Device, Home
from envs.simuhome.spec import DeviceType


def advance(home: Home, to_tick: int, rooms: Iterable[str] | None = None, live: bool = True) -> None:
    """Let time pass until a tick. Not `live` is the reference's fast-forward: a malformed workflow step makes it fail."""
    if home.plan.max_ticks is not None:
        to_tick = min(to_tick, home.plan.max_ticks)
    names = tuple(home.plan.rooms) if rooms is None else tuple(dict.fromkeys(rooms))
    while home.tick < to_tick:
        due = workflows.next_due(home)
        if due is not None and due <= home.tick:
            workflows.run_due(home, live)
            continue
        stop = to_tick if due is None else min(due, to_tick)
        advance_rooms(home, stop - home.tick, names)
        home.tick = stop


@lru_cache
def time_driven_clusters(kind: DeviceType) -> tuple[tuple[int, str], ...]:
    """Endpoints and clusters of a device type that change by themselves."""
    return tuple((endpoint, cluster.name) for endpoint, cluster in kind.places if cluster.name in PASSES)


def advance_rooms(home: Home, n: int, rooms: Iterable[str]) -> None:
    """n passes of some rooms, with nothing happening in between."""
    for name in rooms:
        if name not in home.plan.rooms:
            continue
        for device in home.plan.by_room[name]:
            advance_device(home, device, n)
        if home.plan.aggregators:
            air.advance_air(home, home.plan.rooms[name], n)


def advance_device(home: Home, device: Device, n: int) -> None:
    """n passes of what a device does by itself."""
    for endpoint, cluster in time_driven_clusters(device.type):
        PASSES[cluster](ClusterView(home, device, endpoint, cluster), n)
