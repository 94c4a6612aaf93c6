"""What a SimuHome trajectory shows: the released program's result, the question to a judge, and the cause of a failure.

The error taxonomy is the paper's (Tables 2, 7 and 8), decided by rules. In feasible episodes: EP environment
perception, II intent inference, DC device control, AP action planning, TR temporal reasoning. In infeasible episodes:
CM, the agent notices the contradiction but handles it wrongly, and CB, it does not notice it. The class LJ, an error of
the judge, cannot be decided by a rule; `judge_agreement` measures it.

Invariant: all functions are pure functions of a trajectory.
"""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from homerl.envs.core.world import ClosingFlaw
from homerl.envs.simuhome.sim.air import WATCHED
from homerl.envs.simuhome.sim.episode_file import TIME_FORMAT
from homerl.envs.simuhome.tasks.blueprint import SimuHomeBlueprint
from homerl.envs.simuhome.tasks.expert import ACTS, actions_in_messages
from homerl.envs.simuhome.tasks.sentences import reasons_in
from homerl.envs.simuhome.tasks.situation import standing_in_simuhome
from homerl.play.closings import find_closing_flaws
from homerl.play.spoken_words import SpokenWords, spoken_words_of
from homerl.play.trajectory import Outcome, Step, Trajectory
from homerl.worlds.contract import EpisodeFailure, JudgeCase

DIMENSIONS = {
    "EP": "environment perception",
    "II": "intent inference",
    "DC": "device control",
    "AP": "action planning",
    "TR": "temporal reasoning",
    "CM": "contradiction mishandling",
    "CB": "contradiction blindness",
}
MAX_TRANSCRIPT_LENGTH = 24000  # characters


def final_answer(trajectory: Trajectory) -> str | None:
    """The final answer: the argument of `finish`, or the words that stand for it. None if the agent gave none."""
    answers = map(_answer_in, reversed(trajectory.steps))
    return next((answer for answer in answers if answer is not None), None)


def _answer_in(step: Step) -> str | None:
    if "answer" not in step.facts.changed:
        return None
    finish = [act for act in actions_in_messages([step.message]) if act["name"].lower() == "finish"]
    return str(finish[-1].get("answer", "")) if finish else step.message.get("content") or ""


def simuhome_closing_flaws(trajectory: Trajectory) -> list[ClosingFlaw]:
    """What is wrong with the final answer, by how the request stood then; empty for all other steps."""

    def words(step: Step) -> SpokenWords | None:
        answer = _answer_in(step)
        return None if answer is None else spoken_words_of({"role": "assistant", "content": answer})

    return find_closing_flaws(trajectory, partial(standing_in_simuhome, trajectory.blueprint["task"]), words)


def released_verdict(trajectory: Trajectory) -> int:
    """1 for success, 0 for failure, -1 if the released program does not evaluate the episode.

    It does not evaluate episodes without an end within 20 messages, with unknown tools or too many polls, or in which
    time could not go on.
    """
    if trajectory.success:
        return 1
    if not trajectory.outcome.is_counted or trajectory.outcome is Outcome.STEP_LIMIT:
        return -1
    last = trajectory.steps[-1].facts if trajectory.steps else None
    if last is None or last.error:
        return -1
    return 0 if "answer" in last.changed or "syntax" in last.blocked else -1


# The question to a judge

RUBRIC_TEXTS = {
    "qt1/feasible": "It is right if it gives every value that was asked for as the tools showed it, raw or converted "
    "(temperature and humidity are shown in hundredths), and names the right room for each.",
    "qt1/infeasible": "The device asked about does not exist in that room. It is right if it says so, names the room, "
    "makes up no value of that device, and gives any room value that was asked for as the tools showed it.",
    "qt2/saturation": "The devices in the room can do no more for what was wished. It is right if it says that it cannot "
    "help, names the very limit and the room, and claims no change; what it states must agree with what the tools showed.",
    "qt2/nonexistence": "The room has no device that could bring about what was wished. It is right if it says that it "
    "cannot help since no such device is there, names the room, and claims no change.",
    "qt3/infeasible": "A device that was to be controlled does not exist in its room. It is right if it says so, names "
    "the room, and claims no operation of that device.",
    "qt4/infeasible": "The request names times that contradict one another or the state of a machine; the truth says "
    "which. It is right if it found the true time, noticed the contradiction (to the minute), and refused, asked back or "
    "explained, and scheduled nothing as if all were well.",
}

RUBRICS = {
    kind: f"You check how a smart-home agent ended a task. You are given the user's request, what is true, and the agent's "
    f"tool calls with its final answer, which alone you judge. {text} Otherwise it is wrong."
    for kind, text in RUBRIC_TEXTS.items()
}


def simuhome_judge_cases(trajectory: Trajectory) -> list[JudgeCase]:
    """The final answer of an episode that a judge may decide, or nothing.

    Rules decide it if a required read is missing, the answer is empty, or something was changed: then it is wrong.
    """
    blueprint = SimuHomeBlueprint.model_validate(trajectory.blueprint)
    file, answer = blueprint.task, final_answer(trajectory)
    if (file["meta"]["case"] == "feasible" and file["meta"]["query_type"] != "qt1") or answer is None:
        return []
    meta, intent = file["meta"], blueprint.intents[0]
    kind = f"{meta['query_type'].split('-')[0]}/{meta['case']}"
    if kind.startswith("qt2"):  # here always infeasible
        kind = "qt2/saturation" if meta.get("infeasible_family") == "contextual_saturation" else "qt2/nonexistence"
    truth: dict[str, Any] = {"goals": file["eval"]["goals"], "user location": file.get("user_location", "")}
    if file.get("temporal_conflict"):
        truth["contradiction"] = file["temporal_conflict"]
    verdict = "wrong"
    if trajectory.success:
        verdict = "right"
    elif _required_reads(file) <= {*trajectory.steps[-1].facts.met} and answer.strip() and trajectory.clean:
        verdict = "undecided"
    shown = f"{_transcript_text(trajectory)}\nFinal answer: {answer}"
    number = len(trajectory.steps) - 1
    query = intent.queries[0]
    return [JudgeCase(number, intent.id, kind, query, json.dumps(truth), shown, verdict, RUBRICS[kind])]


def _required_reads(file: dict[str, Any]) -> set[int]:
    """The indices in Φ of the reads that an episode requires. They follow the goals."""
    goals = len(file["eval"]["goals"])
    return {*range(goals, goals + len(file["eval"]["required_actions"]))}


def _transcript_text(trajectory: Trajectory) -> str:
    """The agent's calls and observations. The middle is cut out if the text is longer than `MAX_TRANSCRIPT_LENGTH`."""
    lines = []
    for step in trajectory.steps:
        lines += [said] if (said := spoken_words_of(step.message).text) else []
        for act, seen in zip(actions_in_messages([step.message]), step.observations):
            lines.append(f"{json.dumps(act, ensure_ascii=False)} -> {seen}")
    text = "\n".join(lines)
    if len(text) <= MAX_TRANSCRIPT_LENGTH:
        return text
    return f"{text[: MAX_TRANSCRIPT_LENGTH // 2]}\n...\n{text[-MAX_TRANSCRIPT_LENGTH // 2 :]}"


# The cause of a failure


def simuhome_failure(trajectory: Trajectory) -> EpisodeFailure | None:
    """The cause of a failure in the paper's taxonomy. None for a success, and for an outcome that does not count."""
    if trajectory.success or not trajectory.outcome.is_counted:
        return None
    blueprint = SimuHomeBlueprint.model_validate(trajectory.blueprint)
    file = blueprint.task
    kind, goals = file["meta"]["query_type"], file["eval"]["goals"]
    if blueprint.intents[0].subcategory == "infeasible":
        words = [final_answer(trajectory) or "", *(spoken_words_of(step.message).text for step in trajectory.steps)]
        right = {"qt1": {"absent"}, "qt2": {"absent", "limit"}, "qt3": {"absent"}}.get(kind, {"conflict"})
        if not reasons_in(" ".join(words).lower()) & right:
            return EpisodeFailure("CB", "the contradiction is not noticed")
        acted = not trajectory.clean
        return EpisodeFailure("CM", "acts although it notices" if acted else "names another reason, or not all of it")
    met = set(trajectory.steps[-1].facts.met) if trajectory.steps else set()
    met_goals = met & {*range(len(goals))}
    if not _required_reads(file) <= met:
        return EpisodeFailure("EP", "does not look at what it must")
    if kind == "qt1":
        return EpisodeFailure("EP", "a value is wrong or missing")
    if trajectory.outcome is Outcome.STEP_LIMIT and not met_goals:
        return EpisodeFailure("AP", "comes to no end")
    if kind.startswith("qt4"):
        unmet = [goal for number, goal in enumerate(goals) if number not in met]
        return _schedule_failure(trajectory, unmet, len(goals), datetime.strptime(blueprint.home["base_time"], TIME_FORMAT))
    if met_goals:
        return EpisodeFailure("AP", "only a part is done")
    tried = [act for step in trajectory.steps for act in actions_in_messages([step.message]) if act["name"] in ACTS]
    if kind != "qt2":
        return EpisodeFailure("DC", "the wrong device or command") if tried else EpisodeFailure("AP", "nothing is done")
    helpers = tuple(f"{goal['room_id']}_{mover}" for goal in goals for mover in WATCHED[goal["room_state"]])
    if any(str(act.get("device_id")).startswith(helpers) for act in tried):
        return EpisodeFailure("DC", "the wrong command to a device that could help")
    return EpisodeFailure("II", "acts on what cannot help" if tried else "does nothing about it")


def _schedule_failure(
    trajectory: Trajectory, unmet: list[dict[str, Any]], goal_count: int, base_time: datetime
) -> EpisodeFailure:
    """The cause of a QT4 failure, from the workflows that were registered in steps without a refused call."""
    accepted = [act for step in trajectory.steps if not step.facts.blocked for act in actions_in_messages([step.message])]
    flows = [act for act in accepted if act["name"] == "schedule_workflow"]
    if not flows:
        return EpisodeFailure("AP", "nothing is scheduled")
    if not all(any(_is_on_time(flow, goal["when"], base_time) for flow in flows) for goal in unmet):
        return EpisodeFailure("TR", "at a wrong time")
    if len(unmet) < goal_count:
        return EpisodeFailure("AP", "only a part is done")
    return EpisodeFailure("DC", "the wrong device or command")


def _is_on_time(flow: dict[str, Any], when: dict[str, Any], base_time: datetime) -> bool:
    """Whether a workflow is due in a goal's window, or up to a minute before a goal that must hold at one moment."""
    try:
        due = datetime.strptime(str(flow.get("start_time")), TIME_FORMAT)
    except ValueError:
        return False
    # A workflow shows its effect after its tick, so it runs before a goal that must hold at one tick.
    late = (due - base_time) / timedelta(seconds=0.1) - when["at_tick"]  # in ticks
    return bool(-max(when["tolerance_ticks"], 600) <= late <= when["tolerance_ticks"])
