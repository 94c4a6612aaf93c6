"""What judges are told of a household and of plans, and what an agent is told so that it revises its plan.

The words are in `prompts/<language>.yaml`. A household is plain data of the paper's schema (Appendix H). An agent that
revises its plan is told the judge's feedback and the errors of its tools (Table 4).

Invariants:
- Every language has every text (the model refuses a missing or unknown key).
- Judges are told every member, in the order of the household. Memories and sensors are left out, because what matters of
  them is in the situation. `smart_home` is no member's id.
- The message to an agent names only programs and steps of its plan. It holds nothing that the agent may not see, because
  the judge knows no more of the household than its profile and the situation.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.messages import Message
from homerl.envs.core.model import Model

PROMPTS = Path(__file__).parent / "prompts"


class RevisionWords(Model):
    """What an agent reads that shall revise its plan; templates with {slots}."""

    opening: str
    scores: str
    persona: str
    home: str
    refused: str
    refusal: str
    empty: str
    closing: str


class JudgeWords(Model):
    """The judges' instructions, one for each mode, and the parts that they share."""

    absolute: str
    relative: str
    equivalence: str
    data: str
    form: str
    feedback: str
    rationale: str
    revision: RevisionWords

    def mode_instruction(self, mode: str, form: Any) -> str:
        """The instruction of a mode, with the form of the answer: plain data that looks like it."""
        return f"{getattr(self, mode)}\n{self.data}\n{self.form}\n{json.dumps(form, ensure_ascii=False)}"


@cache
def load_judge_words(language: str) -> JudgeWords:
    """The words of a language. Raises `InputError` for one that has none."""
    path = PROMPTS / f"{language}.yaml"
    if not path.is_file():
        known = ", ".join(sorted(file.stem for file in PROMPTS.glob("*.yaml")))
        raise InputError(f"the judges have no words in '{language}'", str(path), f"known: {known}")
    return validate_document(JudgeWords, read_yaml(path))


HOME = "smart_home"  # the part of the home itself


def judge_personas(household: Mapping[str, Any]) -> tuple[str, ...]:
    """The parts that a judge plays: the ids of all members, and then the home. Raises `ValueError` if two are equal."""
    parts = (*(member["member_id"] for member in household["members"]), HOME)
    if len(set(parts)) != len(parts):
        raise ValueError(f"a household needs member ids that differ, and none of them '{HOME}': {', '.join(parts)}")
    return parts


def household_matter_json(household: Mapping[str, Any], situation: Mapping[str, Any] | str, **plans: Any) -> str:
    """The household, the situation and plans as the JSON text that a judge reads."""
    keys = ("occupancy_type", "layout", "members", "pets", "appliances")
    told = {key: household[key] for key in keys if key in household}
    return json.dumps({"household": told, "situation": situation, **plans}, ensure_ascii=False, indent=1)


def strip_program_ids(programs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Programs without their ids, which agents choose and could praise themselves with."""
    return [{"steps": [dict(step) for step in program["steps"]]} for program in programs]


@dataclass(frozen=True)
class RefusedStep:
    """A step of a plan that could not be carried out, and why, in the words of the tool."""

    program_id: str
    step_id: str
    message: str


def revision_message(
    programs: Sequence[Mapping[str, Any]],
    verdict: Mapping[str, Any] | None,
    refused: Sequence[RefusedStep],
    names: Mapping[str, str],
    language: str = "en",
) -> Message:
    """The user's message that asks for one revision.

    `verdict` is that of abs mode, None if there is none; `names` has the names of members by id.
    """
    said = load_judge_words(language).revision
    called = {HOME: said.home, **names}
    lines = [said.opening] if programs else [said.empty]
    for program, judged in zip(programs, (verdict or {}).values()):
        about = {"score": judged["overall_score"], "rationale": judged["rationale"]}
        lines.append(said.scores.format(program=program["program_id"], **about))
        lines += [said.persona.format(name=called.get(part, part), **given) for part, given in judged["personas"].items()]
    if refused:
        lines.append(said.refused)
        lines += [said.refusal.format(program=at.program_id, step=at.step_id, message=at.message) for at in refused]
    return {"role": "user", "content": "\n".join([*lines, said.closing])}
