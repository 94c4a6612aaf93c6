"""What the goals Φ of a task say about an agent's last words.

Invariants:
- A verdict is a pure function of blueprint and words.
- A task that is answered wrong meets no goal. So what was gained by reading is lost again, and no policy gains by reading
  alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from homerl.envs.personalhome.tasks import answer_parser as answers
from homerl.envs.personalhome.tasks.benchmark_metrics import rank_deviation
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint
from homerl.envs.personalhome.tasks.plan_rules import judge_plan

LAZY_RANKS = 6  # a random ranking deviates by 11.3 ranks on average, and seldom by fewer than this: it earns next to nothing


def are_parts_right(task: Grounding, text: str) -> tuple[bool, ...]:
    """For each part, whether it is answered right by an exact match (PersonalHomeBench eq. 1)."""
    return tuple(answers.matches_variant(answer_to_part(task, part.key, text), part.variants) for part in task.parts)


def answer_to_part(task: Grounding, key: str, text: str) -> Any:
    """The agent's answer to a part; None if it gave none."""
    read = answers.parse_counterfactual_answers(text)
    if read.value is None and len(task.parts) == 1:
        return answers.parse_final_answer(text).value
    return None if read.value is None else read.value.get(key)


def is_choice_right(task: Choice, text: str) -> bool:
    """Whether the choice is right (eq. 6)."""
    return answers.parse_choice(answers.parse_final_answer(text).value, task.choices) == LETTERS.index(task.right)


def answer_goals(blueprint: PersonalHomeBlueprint, text: str) -> tuple[bool, ...]:
    """The goals that the last words of an episode meet. The first decides whether what was read still counts.

    A question has a goal for each of its parts, a ranking has `LAZY_RANKS`, and a plan has one for each situation and one
    for each rule (`plan_rules.py`).
    """
    task = blueprint.task
    if isinstance(task, Grounding):
        original, *others = are_parts_right(task, text)
        # A counterfactual counts only with the original: its assumption may state its answer.
        return original, *(original and other for other in others)
    if isinstance(task, Choice):
        return (is_choice_right(task, text),)
    if isinstance(task, Features):
        # The paper's reward is 1 - RRS / 27; a random ranking would earn more than half of it. Here k of the goals are unmet
        # if the three best features deviate by k ranks from their places (eq. 12).
        deviation = rank_deviation(answers.parse_ranking(text).value or (), task.ranking[:3])
        return tuple(deviation <= allowed for allowed in reversed(range(LAZY_RANKS)))
    return judge_plan(blueprint.household, task.situations, answers.parse_plan(text).value or ()).goals_met()


def personalhome_goals_in_words(blueprint: Mapping[str, Any]) -> list[str]:
    """Φ in words: what must be read, and what the answer must say."""
    task, kind = blueprint["task"], blueprint["task"]["kind"]
    read = [f"{id} was read" for id in task["evidence"] if blueprint["setting"] == "agentic"]
    if kind == "grounding":
        return read + [f"{part['key']}: {part['variants'][0]}" for part in task["parts"]]
    if kind == "choice":
        return [*read, f"the answer is {task['right']}"]
    if kind == "features":
        first = ", ".join(task["ranking"][:3])
        return read + [f"{first} deviate by at most {left} ranks" for left in reversed(range(LAZY_RANKS))]
    rules = ["no preference is broken", "the most urgent comes first", "steps go together"]
    rules += ["each step has a reason", "every step works"]
    return [*read, *(f"{key} is settled" for key in task["situations"]), *rules]
