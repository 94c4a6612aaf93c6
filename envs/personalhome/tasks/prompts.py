"""What an agent of PersonalHome is told: the system prompt of a task, and the user's message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.shown import household_shown
from homerl.envs.personalhome.tasks.blueprint import LETTERS, PersonalHomeBlueprint, Task


@cache
def load_task_prompts(language: str) -> Mapping[str, str]:
    """The texts of a language."""
    texts: Mapping[str, str] = read_yaml(Path(__file__).parent / "prompts.yaml").data[language]
    return texts


def personalhome_system_prompt(blueprint: PersonalHomeBlueprint) -> str:
    """The system prompt: what the agent is, and the form of its answer. In the setting `sole`, the household too."""
    texts, task = load_task_prompts(blueprint.language), blueprint.task
    about = json.dumps(household_for_prompt(blueprint.household), ensure_ascii=False) if blueprint.setting == "sole" else ""
    more = texts["more"] if task.kind == "grounding" and len(task.parts) > 1 else ""
    return texts[blueprint.setting].format(about=about) + "\n" + texts[task.kind].format(more=more)


def household_for_prompt(household: Household) -> dict[str, Any]:
    """The household, and what its video shows. The id of a video tells its situation, so it is left out."""
    video = household.transcript.to_shown_json()["video_description"] if household.transcript else None
    return household_shown(household) | ({"video_description": video} if video else {})


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
