"""What judges are asked: to rate and order plans in role play, and to compare answers by meaning; and how verdicts are read.

The role-playing judge of plans (PersonalHomeBench Algorithm 1) has two modes. In abs mode one call rates a plan: each
program gets an opinion of every member and of the home, and an overall score from 1 to 5. In rel mode the judge orders the
plans of several models from best to worst. The paper leaves the order of the letters open. Here plans are shuffled by a
seed and asked about twice, the second time in the opposite order and so under other letters. Both orders count. Where their
best plans differ, that is reported. An agent that revises its plan is told the judge's feedback and the errors of its tools
(Table 4).

The judge of meaning decides answers to IG and CF (eq. 2 and 3): 1, 0, or -1 if it is unsure. Keys are those of the paper:
`o` (the original question), `f1` and `f2` (its counterfactuals).

The words are in `prompts/<language>.yaml`. A household is plain data of the paper's schema (Appendix H).

Invariants:
- Every language has every text (the model refuses a missing or unknown key).
- Judges are told every member, in the order of the household. Memories and sensors are left out, because what matters of
  them is in the situation. `smart_home` is no member's id.
- A verdict is complete. It has exactly the programs and parts, or each letter once, that were asked for. Its scores are
  whole numbers from 1 to 5.
- The judge does not see who made a plan. Programs are told by their number, from 1.
- Equal arguments give equal questions, whatever the order of `plans`.
- What rules decide is never asked about. An answer of which the judge is unsure counts as wrong and is reported.
- The message to an agent names only programs and steps of its plan. It holds nothing that the agent may not see, because
  the judge knows no more of the household than its profile and the situation.
"""

from __future__ import annotations

import json
import random
import string
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, create_model

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.messages import Message
from homerl.envs.core.model import Model
from homerl.envs.personalhome.judge.judge_client import JudgeQuestion
from homerl.envs.personalhome.tasks.answer_parser import Variant, decide_by_rules
from homerl.envs.personalhome.tasks.benchmark_metrics import HIGHEST_SCORE, LOWEST_SCORE

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


def revision_message(
    programs: Sequence[Mapping[str, Any]],
    verdict: Mapping[str, Any] | None,
    refused: Sequence[Mapping[str, str]],
    names: Mapping[str, str],
    language: str,
) -> Message:
    """The user's message that asks for one revision.

    `verdict` is that of abs mode, None if there is none. `refused` are the steps that could not be carried out: `program`,
    `step`, and why, in the words of the tool (`message`). `names` has the names of members by id.
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
        lines += [said.refusal.format(**step) for step in refused]
    return {"role": "user", "content": "\n".join([*lines, said.closing])}


class Opinion(Model):
    """What one part thinks of a program."""

    feedback: str = Field(min_length=1)
    score: int = Field(strict=True, ge=LOWEST_SCORE, le=HIGHEST_SCORE)


def absolute_question(
    household: Mapping[str, Any],
    situation: Mapping[str, Any] | str,
    programs: Sequence[Mapping[str, Any]],
    language: str = "en",
    about: Mapping[str, Any] | None = None,
) -> JudgeQuestion:
    """The question that rates a plan of one program at least: of none nothing can be asked."""
    said, parts = load_judge_words(language), judge_personas(household)
    numbers = [str(number) for number in range(1, len(programs) + 1)]
    opinion = {"feedback": said.feedback, "score": 3}
    one = {"personas": dict.fromkeys(parts, opinion), "rationale": said.rationale, "overall_score": 3}
    numbered = dict(zip(numbers, strip_program_ids(programs), strict=True))
    return JudgeQuestion(
        "absolute",
        said.mode_instruction("absolute", dict.fromkeys(numbers, one)),
        household_matter_json(household, situation, programs=numbered),
        plan_verdict_model(numbers, parts),
        about=about or {},
    )


def plan_verdict_model(numbers: Sequence[str], parts: Sequence[str]) -> type[Model]:
    """The model of a complete verdict: programs by number, in each the opinions of all parts."""
    opinions = model_with_keys("Opinions", parts, Opinion)
    fields: dict[str, Any] = {
        "personas": (opinions, ...),
        "rationale": (str, Field(min_length=1)),
        "overall_score": (int, Field(strict=True, ge=LOWEST_SCORE, le=HIGHEST_SCORE)),
    }
    return model_with_keys("PlanVerdict", numbers, create_model("ProgramVerdict", __base__=Model, **fields))


def model_with_keys(name: str, keys: Sequence[str], kind: Any) -> type[Model]:
    """A model with exactly these keys, all of one kind."""
    # The ids of members may be no Python names, so fields have names of their own and aliases.
    fields: dict[str, Any] = {f"key_{at}": (kind, Field(alias=key)) for at, key in enumerate(keys)}
    return create_model(name, __base__=Model, **fields)


def overall_scores(verdict: Mapping[str, Any]) -> list[int]:
    """The overall scores of a verdict by program, in the plan's order."""
    return [program["overall_score"] for program in verdict.values()]


def persona_scores(verdict: Mapping[str, Any]) -> dict[str, list[int]]:
    """The scores that each part gave, by program in the plan's order."""
    found: dict[str, list[int]] = {}
    for program in verdict.values():
        for part, opinion in program["personas"].items():
            found.setdefault(part, []).append(opinion["score"])
    return found


def relative_questions(
    household: Mapping[str, Any],
    situation: Mapping[str, Any] | str,
    plans: Mapping[str, Sequence[Mapping[str, Any]]],
    seed: int,
    language: str = "en",
    about: Mapping[str, Any] | None = None,
) -> tuple[JudgeQuestion, JudgeQuestion]:
    """Both questions that order the plans of models, given by name. Raises `ValueError` unless there are 2 to 26 plans."""
    if not 2 <= len(plans) <= 26:
        raise ValueError(f"2 to 26 plans can be ordered, not {len(plans)}")
    said, parts, questions = load_judge_words(language), judge_personas(household), []
    for at, letters in enumerate(assign_letters(plans, seed)):
        example = [min(letters), *(["..."] if len(letters) > 2 else []), max(letters)]
        form = {"overall_order": example, "persona_order": dict.fromkeys(parts, example), "rationale": said.rationale}
        shown = {letter: strip_program_ids(plans[model]) for letter, model in letters.items()}
        text = household_matter_json(household, situation, plans=shown)
        shape, more = order_verdict_model(tuple(letters), parts), {**(about or {}), "letters": letters}
        questions.append(JudgeQuestion("relative", said.mode_instruction("relative", form), text, shape, at, more))
    return questions[0], questions[1]


def assign_letters(models: Iterable[str], seed: int) -> tuple[dict[str, str], dict[str, str]]:
    """The model behind each letter, for both times of asking."""
    # Sorted first, so that the letters do not depend on the order in which runs are named.
    order = sorted(models)
    random.Random(f"letters {seed}").shuffle(order)
    return dict(zip(string.ascii_uppercase, order)), dict(zip(string.ascii_uppercase, reversed(order)))


def order_verdict_model(letters: tuple[str, ...], parts: Sequence[str]) -> type[Model]:
    """The model of a complete verdict: an order of all letters for the household and for each part."""

    def require_each_letter(order: tuple[str, ...]) -> tuple[str, ...]:
        if sorted(order) != sorted(letters):
            raise ValueError(f"every letter from {letters[0]} to {letters[-1]} must stand in it once")
        return order

    letter = Annotated[str, Field(pattern=f"^[A-{letters[-1]}]$")]
    order = Annotated[
        tuple[letter, ...], AfterValidator(require_each_letter), Field(min_length=len(letters), max_length=len(letters))
    ]
    fields: dict[str, Any] = {
        "overall_order": (order, ...),
        "persona_order": (model_with_keys("PersonaOrders", parts, order), ...),
        "rationale": (str, Field(min_length=1)),
    }
    return create_model("OrderVerdict", __base__=Model, **fields)


def read_plan_orders(verdicts: Sequence[Mapping[str, Any]], models: Iterable[str], seed: int) -> list[list[str]]:
    """The models in the orders of both verdicts for the household, best first, one for each time of asking."""
    both = zip(verdicts, assign_letters(models, seed), strict=True)
    return [[letters[letter] for letter in verdict["overall_order"]] for verdict, letters in both]


KEYS = ("o", "f1", "f2")


@dataclass(frozen=True)
class MeaningDecision:
    """What is right of the answers by key, of which of them the judge was unsure, and which lack a verdict."""

    correct: Mapping[str, bool]
    unsure: tuple[str, ...] = ()
    open: tuple[str, ...] = ()


def equivalence_question(
    asked: Mapping[str, str],
    said: Mapping[str, Any],
    variants: Mapping[str, Sequence[Variant]],
    language: str = "en",
    about: Mapping[str, Any] | None = None,
) -> JudgeQuestion | None:
    """The question about the answers that no rule decides, None if rules decide them all.

    `asked` has the questions, `said` what was answered and `variants` the right answers in all wordings, by key.
    """
    undecided = _keys_without_rule(said, variants)
    if not undecided:
        return None
    told = {key: {"question": asked[key], "true": list(variants[key]), "answered": said[key]} for key in undecided}
    system = load_judge_words(language).mode_instruction("equivalence", dict.fromkeys(undecided, 1))
    shape = model_with_keys("Equivalence", undecided, Annotated[int, Field(strict=True, ge=-1, le=1)])
    text = json.dumps(told, ensure_ascii=False, indent=1)
    return JudgeQuestion("equivalence", system, text, shape, about=about or {})


def decide_answers(
    said: Mapping[str, Any], variants: Mapping[str, Sequence[Variant]], verdict: Mapping[str, int] | None = None
) -> MeaningDecision:
    """Which answers are right: by rules, and by the judge's verdict where rules do not decide (eq. 3).

    Without a verdict, undecided answers count as wrong and are listed in `open`.
    """
    undecided, given = _keys_without_rule(said, variants), verdict or {}
    correct = {
        key: given.get(key) == 1 if key in undecided else decide_by_rules(said.get(key), wanted) == "right"
        for key, wanted in variants.items()
    }
    unsure = tuple(key for key in undecided if given.get(key) == -1)
    return MeaningDecision(correct, unsure, tuple(key for key in undecided if key not in given))


def _keys_without_rule(said: Mapping[str, Any], variants: Mapping[str, Sequence[Variant]]) -> list[str]:
    return [key for key, wanted in variants.items() if decide_by_rules(said.get(key), wanted) == "undecided"]
