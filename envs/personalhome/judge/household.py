"""What the judges are told of a household, which is plain data of the paper's schema (Appendix H).

Invariants: every member is there, in the order of the household; memories and sensors are left out, since what matters of
them is in the situation; `smart_home` is no member's id.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

HOME = "smart_home"  # the part of the home itself
TOLD = ("occupancy_type", "layout", "members", "pets", "appliances")


def judge_personas(household: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts that a judge plays: the ids of all members, and then the home. Raises `ValueError` if two are equal."""
    parts = (*(member["member_id"] for member in household["members"]), HOME)
    if len(set(parts)) != len(parts):
        raise ValueError(f"a household needs member ids that differ, and none of them '{HOME}': {', '.join(parts)}")
    return parts


def household_matter_json(household: Mapping[str, Any], situation: Mapping[str, Any] | str, **plans: Any) -> str:
    """The household, the situation and plans as the JSON text that a judge reads."""
    told = {key: household[key] for key in TOLD if key in household}
    return json.dumps({"household": told, "situation": situation, **plans}, ensure_ascii=False, indent=1)


def strip_program_ids(programs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Programs without their ids, which agents choose and could praise themselves with."""
    return [{"steps": [dict(step) for step in program["steps"]]} for program in programs]
