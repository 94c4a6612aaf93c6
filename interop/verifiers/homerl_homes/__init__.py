"""Smart homes of homerl as a taskset of verifiers, and the harness that plays them."""

from homerl_homes.harness import HomeHarness
from homerl_homes.taskset import HomeTaskset

__all__ = ["HomeHarness", "HomeTaskset"]
