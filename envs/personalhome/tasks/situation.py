"""A task of PersonalHome as an episode sees it: the system prompt, the user's message, and the goals Φ.

Φ has a goal for each row of the task's evidence, which is met once a call has shown the row, and the goals of the last words
(`answer_goals`). Words without a call are the answer, and end the episode.

Invariants:
- A verdict is a pure function of blueprint and words.
- A right answer meets all of Φ, whatever was read before.
- A wrong answer meets none of it. So what was gained by reading is lost again, and no policy gains by reading alone.
- Reading counts only while it is sparing, in rows (at most `ROOM` times the evidence and `SPARE` more; a fact of a video
  and its time are one row) and in messages (see `met`). So an agent that reads and never answers gains nothing.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.core.messages import Message
from homerl.envs.core.world import Action
from homerl.envs.personalhome.sim.env import PersonalHome
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.tasks import answer_parser as answers
from homerl.envs.personalhome.tasks.benchmark_metrics import rank_deviation
from homerl.envs.personalhome.tasks.blueprint import (
    LETTERS,
    Choice,
    Features,
    Grounding,
    PersonalHomeBlueprint,
    PersonalHomeIntent,
    Task,
)
from homerl.envs.personalhome.tasks.plan_rules import judge_plan
from homerl.play.situation import JSON_ANSWERS, Reply, Situation

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


@cache
def load_task_prompts(language: str) -> Mapping[str, str]:
    """The texts of a language."""
    texts: Mapping[str, str] = read_yaml(Path(__file__).parent / "prompts.yaml").data[language]
    return texts


def personalhome_system_prompt(blueprint: PersonalHomeBlueprint) -> str:
    """The system prompt: what the agent is, and the form of its answer. In the setting `sole`, the household too."""
    texts, task, about = load_task_prompts(blueprint.language), blueprint.task, ""
    if blueprint.setting == "sole":
        about = json.dumps(household_for_prompt(blueprint.household), ensure_ascii=False)
    more = texts["more"] if task.kind == "grounding" and len(task.parts) > 1 else ""
    return texts[blueprint.setting].format(about=about) + "\n" + texts[task.kind].format(more=more)


def household_for_prompt(household: Household) -> dict[str, Any]:
    """The household, and what its video shows. The id of a video tells its situation, so it is left out."""
    shown = household_shown(household)
    if household.transcript:
        shown["video_description"] = household.transcript.video_description.model_dump(mode="json", by_alias=True)
    return shown


def user_question(task: Task, language: str) -> str:
    """What the user says."""
    texts = load_task_prompts(language)
    if task.kind == "grounding":
        conditions = "".join(texts["condition"].format(key=p.key, condition=p.condition) for p in task.parts if p.condition)
        return texts["ask_parts"].format(question=task.question, conditions=conditions)
    if task.kind == "choice":
        choices = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, task.choices, strict=True))
        return texts["ask_choice"].format(question=task.question, choices=choices)
    if task.kind == "features":
        return texts["ask_features"].format(features="\n".join(f"{id}: {title}" for id, title in task.titles.items()))
    return texts["ask_plans"]


ANSWER = "answer"  # the action that words stand for
ROOM, SPARE = 4, 24  # rows that may be read: 4 for each row of evidence, and 24 more


@dataclass
class PersonalHomeSituation(Situation):
    """A blueprint's household during an episode. `answer` is the agent's last words, or None before them.

    `messages` counts what it has sent. `verdict` are the goals of the answer, of which silence meets none.
    """

    blueprint: PersonalHomeBlueprint
    world: PersonalHome
    verdict: tuple[bool, ...]
    answer: str | None = None
    messages: int = 0

    @classmethod
    def begin(cls, blueprint: PersonalHomeBlueprint) -> PersonalHomeSituation:
        """The situation before the first call. There are tools in the setting `agentic` only."""
        tools = () if blueprint.setting == "sole" else blueprint.tools
        return cls(blueprint, PersonalHome(HouseholdState(blueprint.household), tools=tools), answer_goals(blueprint, ""))

    def opening(self) -> list[Message]:
        """The system message."""
        return [{"role": "system", "content": personalhome_system_prompt(self.blueprint)}]

    def fork(self) -> PersonalHomeSituation:
        """An independent copy."""
        return PersonalHomeSituation(self.blueprint, self.world.fork(), self.verdict, self.answer, self.messages)

    def met(self) -> tuple[bool, ...]:
        """The goals of the evidence, then those of the answer."""
        evidence, seen = self.blueprint.task.evidence, self.world.state.seen
        if self.blueprint.setting == "sole":
            evidence = ()
        if self.answer is not None:
            return (self.verdict[0],) * len(evidence) + self.verdict
        # Whoever reads everything would gain every goal of the evidence without knowing what is asked.
        rows = len({id.removesuffix(".time") for id in seen})
        # One message for each kind of evidence, and two to find out what there is.
        patience = len({id.partition(":")[0] for id in evidence}) + 2
        sparing = rows <= ROOM * len(evidence) + SPARE and self.messages <= patience
        return tuple(sparing and id in seen for id in evidence) + self.verdict

    def open_intents(self) -> list[PersonalHomeIntent]:
        """The one intent, unless all of Φ is met."""
        return [] if all(self.met()) else list(self.blueprint.intents)

    @property
    def protocol(self) -> Mapping[str, bool]:
        """JSON without a call's mark is an answer."""
        return {JSON_ANSWERS: True}

    @property
    def ended(self) -> bool:
        """Whether the agent has answered."""
        return self.answer is not None

    def stands_for(self, reply: Reply) -> Action | str | None:
        """An answer, if the message has no call."""
        if reply.malformed or reply.message.get("tool_calls"):
            return None
        return {"name": ANSWER, "text": reply.message.get("content") or ""}

    def take(self, action: Action) -> tuple[str, Mapping[str, Any]]:
        """Make a call, or take the answer."""
        if action["name"] != ANSWER or not isinstance(action.get("text"), str):
            return super().take(action)
        self.answer = action["text"]
        self.verdict = answer_goals(self.blueprint, self.answer)
        return "", {"blocked": None, "error": None, "changed": (ANSWER,)}

    def note_reply(self, intent: int | None, message: Message, refusals: Sequence[str], spoke: bool) -> None:
        """Count the agent's messages."""
        self.messages += 1

    def closing_message(self, message: Message) -> None:
        """None: an answer is data, and claims nothing to anybody."""

    def mark(self) -> tuple[HouseholdState, str | None]:
        """The present state and answer, to compare with later."""
        return self.world.state.fork(), self.answer

    def changed_since(self, mark: tuple[HouseholdState, str | None]) -> tuple[str, ...]:
        """The names of all that differs from a mark."""
        return self.world.state.changes_since(mark[0]) + ((ANSWER,) if mark[1] != self.answer else ())

    def state_key(self) -> str:
        """An exact hash of the state."""
        return self.world.state_key()
