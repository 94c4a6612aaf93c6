"""Whether a home has the automation that was asked for (SMH-Bench TC4)."""

from __future__ import annotations

from envs.homeenv.home import Home
from homerl.blueprints.blueprint import Automation


def fulfils(home: Home, start: Home, wanted: Automation) -> bool:
    """Whether some rule made since the start is set off by the same things and does the same."""
    known = {rule.id for rule in start.rules}
    made = [rule.describe() for rule in home.rules if rule.id not in known]
    return any(set(rule["conditions"]) == set(wanted.conditions) for rule in made)
