"""Reads an agent's plan: programs of steps, the most important first (PersonalHomeBench I.2, Plan Generation).

The paper prints two shapes: programs that hold `steps`, and flat steps that share a `program_id`. Both give the same data:
`{"program_id": str, "steps": [{"step_id", "appliance", "feature", "category", "args", "rationale"}]}`.

Invariants: all functions are pure and never raise on text; every step that was written is there, so that a malformed one
counts as such: its missing names are empty, and its `args` are None if they are no object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.tasks.answers import FORMAT_ERROR, ReadAnswer, parse_answer_json
from homerl.envs.personalhome.tasks.mending import find_json

WRAPPERS = ("programs", "plan", "plans")
NAMES = ("step_id", "appliance", "feature", "rationale")


def parse_plan(text: str) -> ReadAnswer:
    """The programs of a plan as a tuple, in the order in which they begin. An empty list is a plan of no program."""
    read = parse_answer_json(text, lambda found: bool(_listed(found)[0]))
    if read.value is None:
        read = parse_answer_json(
            text, lambda found: _listed(found)[0] is not None
        )  # of no program, if there is no other plan
    if read.value is None:
        return read
    listed, mended = _listed(read.value)
    found: dict[str, list[Any]] = {}
    for at, item in enumerate(listed or (), 1):
        name = str(item.get("program_id") or f"program_{at}") if isinstance(item, Mapping) else f"program_{at}"
        flat = not isinstance(item, Mapping) or "steps" not in item
        steps = [item] if flat else item["steps"]
        found.setdefault(name, []).extend(steps if isinstance(steps, list) else [steps])
    programs = tuple({"program_id": name, "steps": _steps(steps)} for name, steps in found.items())
    mended = (*read.mended, *mended, *_faults(listed or (), found))
    return ReadAnswer(programs, mended, FORMAT_ERROR if mended else None)


def _listed(found: Any) -> tuple[list[Any] | None, tuple[str, ...]]:
    """(the programs or flat steps of a JSON value, what was mended); (None, ()) if the value is no plan."""
    if isinstance(found, dict):
        for key in WRAPPERS:
            if isinstance(found.get(key), list):
                return found[key], (f"a list in {key}",)
        return ([found], ("no list",)) if _is_part(found) else (None, ())
    if isinstance(found, list) and (not found or any(map(_is_part, found))):
        return found, ()
    return None, ()


def _is_part(item: Any) -> bool:
    return isinstance(item, Mapping) and ("steps" in item or {"appliance", "feature"} <= set(item))


def _faults(listed: Any, programs: Mapping[str, list[Any]]) -> tuple[str, ...]:
    """What a plan lacks in form, beside its JSON."""
    faults = {
        "no program_id": any(not isinstance(item, Mapping) or not item.get("program_id") for item in listed),
        "a step that is no object": any(not isinstance(step, Mapping) for steps in programs.values() for step in steps),
        "args as text": any(
            isinstance(step, Mapping) and isinstance(step.get("args"), str) for steps in programs.values() for step in steps
        ),
    }
    return tuple(fault for fault, there in faults.items() if there)


def _steps(steps: list[Any]) -> list[dict[str, Any]]:
    return [_step(step if isinstance(step, Mapping) else {}, at) for at, step in enumerate(steps, 1)]


def _step(step: Mapping[str, Any], at: int) -> dict[str, Any]:
    names = {key: str(step.get(key) or "") for key in NAMES}
    category = step.get("category") or []
    listed = category if isinstance(category, list) else [category]
    return names | {
        "step_id": names["step_id"] or str(at),
        "category": [str(item) for item in listed],
        "args": _args(step.get("args", {})),
    }


def _args(said: Any) -> dict[str, Any] | None:
    """The arguments of a step; None if they are no object. JSON in a text is read."""
    if isinstance(said, str):
        found = find_json(said, lambda value: isinstance(value, dict))
        return found.value if found else None
    return dict(said) if isinstance(said, Mapping) else {} if said is None else None
