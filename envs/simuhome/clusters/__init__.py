"""What clusters do: one function a command, a special write or a passage of time, found by cluster and name.

Invariants: a function gets a `View` and the arguments of the catalogue, and returns the result's data or raises
`Failure`; a `PASSES` function brings its cluster `n` passes further, exactly as n single ones would.
"""

from envs.simuhome.clusters import (
    appliances,
    channel,
    covering,
    fan,
    laundry,
    level,
    media,
    modes,
    onoff,
    simple,
    thermostat,
    vacuum,
)
from envs.simuhome.clusters.registry import COMMANDS, PASSES, WRITES

__all__ = [
    "COMMANDS", "PASSES", "WRITES", "appliances", "channel", "covering", "fan", "laundry", "level", "media", "modes",
    "onoff", "simple", "thermostat", "vacuum",
]  # fmt: skip
