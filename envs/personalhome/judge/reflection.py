"""What an agent is told so that it revises its plan: the judge's feedback and the errors of its tools (Table 4).

The paper leaves the number of rounds open. Ours is one.

Invariants: the message names only programs and steps of the plan; nothing that the agent may not see is in it, since the
judge knows no more of the household than its profile and the situation.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from homerl.envs.core.messages import Message
from homerl.envs.personalhome.judge.household import HOME
from homerl.envs.personalhome.judge.words import load_judge_words


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
