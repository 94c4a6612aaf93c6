"""What a tool of PersonalHomeTools is (PersonalHomeBench Table 15).

Invariants: a tool returns plain data (what JSON holds); a refused call raises `Refused` and has changed nothing; arguments
are checked against `parameters` before `run` sees them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from homerl.envs.personalhome.sim.state import HouseholdState


@dataclass(frozen=True)
class HouseholdTool:
    """A tool. `parameters` are the JSON Schemas of its arguments by name, `required` the names that must be given.

    `run` gets the household's state and the checked arguments, and returns plain data. `in_plans` tells that it is a step of
    a plan only, and no tool of an agent that looks around.
    """

    name: str
    description: str
    parameters: Mapping[str, Mapping[str, Any]]
    run: Callable[[HouseholdState, Mapping[str, Any]], Any]
    required: tuple[str, ...] = ()
    in_plans: bool = False
