"""What an agent of PersonalHome is told: the system prompt of a task, and the user's message."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.shown import shown
from homerl.envs.personalhome.tasks.blueprint import LETTERS, PersonalHomeBlueprint, Task


@cache
def prompts(language: str) -> Mapping[str, str]:
    """The texts of a language."""
    texts: Mapping[str, str] = read_yaml(Path(__file__).parent / "prompts.yaml").data[language]
    return texts


def system_prompt(blueprint: PersonalHomeBlueprint) -> str:
    """The system prompt: what the agent is, and the form of its answer. In the setting `sole`, the household too."""
    texts, task = prompts(blueprint.language), blueprint.task
    about = json.dumps(all_of(blueprint.household), ensure_ascii=False) if blueprint.setting == "sole" else ""
    more = texts["more"] if task.kind == "grounding" and len(task.parts) > 1 else ""
    return texts[blueprint.setting].format(about=about) + "\n" + texts[task.kind].format(more=more)


def all_of(household: Household) -> dict[str, Any]:
    """The household, and what its video shows. The id of a video tells its situation, so it is left out."""
    video = household.transcript.shown()["video_description"] if household.transcript else None
    return shown(household) | ({"video_description": video} if video else {})


def question_of(task: Task, language: str) -> str:
    """What the user says."""
    texts = prompts(language)
    if task.kind == "grounding":
        conditions = "".join(texts["condition"].format(key=p.key, condition=p.condition) for p in task.parts if p.condition)
        return texts["ask_parts"].format(question=task.question, conditions=conditions)
    if task.kind == "choice":
        choices = "\n".join(f"{letter}. {choice}" for letter, choice in zip(LETTERS, task.choices, strict=True))
        return texts["ask_choice"].format(question=task.question, choices=choices)
    if task.kind == "features":
        return texts["ask_features"].format(features="\n".join(f"{id}: {title}" for id, title in task.titles.items()))
    return texts["ask_plans"]
