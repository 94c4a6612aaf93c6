"""The rules by which calls of PersonalHomeTools are refused: HomeEnv's, and those about people, pets and places.

Invariant: every rule that a refusal names is a key of `RULES`.
"""

from __future__ import annotations

from collections.abc import Iterable

from homerl.envs.homeenv.sim.values import auditor as audit
from homerl.envs.homeenv.sim.values.types_and_ranges import clip_text, quote_value

RULES: dict[str, str] = audit.RULES | {
    "unknown_household": "the call is about another household",
    "unknown_member": "no member of the household has this id",
    "unknown_pet": "no pet of the household has this name",
    "unknown_appliance": "the household owns no appliance of this name",
    "unknown_sensor": "the household owns no sensor of this name",
    "unknown_location": "no room of the home has this name, or the device is in another room",
    "unknown_feature": "the appliance has no such feature",
}


class HouseholdRefused(audit.Refused):
    """The refusal of a tool's call. `rule` is a key of `RULES`."""

    rules = RULES


def unknown_name_refusal(rule: str, what: str, given: str, known: Iterable[str]) -> HouseholdRefused:
    """The refusal of an unknown name: it quotes the name and lists the known ones."""
    there_is = clip_text(", ".join(known), 600) or "none"
    return HouseholdRefused(rule, f"there is no {what} {quote_value(given)} (there is {there_is})")
