"""A household as one HTML file: people, home, timeline, and on it an episode: what the agent read, and what it needed.

Invariants: the page needs no network, and shows everything without its script, which filters and highlights; all data is
escaped; equal households and episodes give equal bytes; every fact that a tool can show has a place on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from homerl.envs.homeenv.sim.devices.device import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.bench.results import final_words
from homerl.envs.personalhome.pages import task_view
from homerl.envs.personalhome.pages.replay import Mark, Marks, Replay
from homerl.envs.personalhome.pages.task_view import value_text
from homerl.envs.personalhome.pages.timeline import Entry, Timeline, by_hour, by_month
from homerl.envs.personalhome.sim.appliances import is_sensor
from homerl.envs.personalhome.sim.features import features
from homerl.envs.personalhome.sim.household import Event, Household, Memory
from homerl.envs.personalhome.sim.scene.transcript import SceneFact
from homerl.envs.personalhome.sim.shown import shown
from homerl.envs.personalhome.sim.state import HouseholdState
from homerl.envs.personalhome.sim.words import words_for
from homerl.envs.personalhome.tasks.blueprint import Choice, Features, Grounding, Plans
from homerl.envs.personalhome.tasks.verdicts import goals_in_words
from homerl.host.pages.templates import template
from homerl.play.dialogue import ShownStep, dialogue

OWN = ("seen.", "answer")  # changes of a step that are none of the household


@dataclass(frozen=True)
class DeviceView:
    """An appliance or a sensor. `state` are (attribute, value, its value after the plan or None).

    `features` are (method, title, mark of its results), and `parts` the marks of what can be read of it, by name.
    """

    device: Device
    state: tuple[tuple[str, str, str | None], ...]
    features: tuple[tuple[str, str, Mark], ...]
    parts: Mapping[str, Mark]
    mark: Mark

    @property
    def planned(self) -> bool:
        """Whether the plan changes it."""
        return any(after is not None for _, _, after in self.state)


@dataclass(frozen=True)
class SceneRow:
    """An event of a video, or its setting, with its facts in words and their marks."""

    time: str
    text: str
    facts: tuple[tuple[str, str, Mark], ...]
    mark: Mark


@dataclass(frozen=True)
class StepView:
    """A step of the episode. `new` are the facts that it was the first to show, and `needed` how many were needed."""

    number: int
    step: ShownStep
    new: tuple[str, ...]
    needed: int

    @property
    def changed(self) -> list[str]:
        """What it changed in the household."""
        return [name for name in self.step.changed if not name.startswith(OWN)]


@dataclass(frozen=True)
class EpisodeView:
    """An episode on the page."""

    replay: Replay

    @property
    def kind(self) -> str:
        """The paper's name of the task."""
        return task_view.NAMES[self.replay.blueprint.task.kind]

    @property
    def answer(self) -> str:
        """The agent's last words; empty if it gave none."""
        return final_words(self.replay.trajectory)

    @cached_property
    def goals(self) -> list[tuple[str, bool]]:
        """The goals in words, and whether they were met at the end."""
        return list(zip(goals_in_words(self.replay.trajectory.blueprint), self.replay.met, strict=True))

    @cached_property
    def evidence(self) -> tuple[str, ...]:
        """What the task rests on. A fact of a video and its time are one."""
        return tuple(dict.fromkeys(id.removesuffix(".time") for id in self.replay.blueprint.task.evidence))

    @property
    def read(self) -> int:
        """How much of the evidence was read."""
        return sum(id in self.replay.first for id in self.evidence)

    def steps(self) -> Iterator[StepView]:
        """The agent's steps."""
        spoken = dialogue(self.replay.trajectory, ())
        for number, step in enumerate((step for _, steps in spoken.turns for step in steps), 1):
            new = tuple(self.replay.shown_by(number))
            yield StepView(number, step, new, sum(id in self.evidence for id in new))

    @cached_property
    def answers(self) -> list[task_view.Answer]:
        """The parts of a grounding task; empty for others."""
        task = self.replay.blueprint.task
        return task_view.answers(task, self.answer) if isinstance(task, Grounding) else []

    @cached_property
    def options(self) -> list[task_view.Option]:
        """The choices of a question; empty for others."""
        task = self.replay.blueprint.task
        return task_view.options(task, self.answer) if isinstance(task, Choice) else []

    @cached_property
    def ranking(self) -> list[task_view.Ranked]:
        """The features of a recommendation, best first; empty for others."""
        task, household = self.replay.blueprint.task, self.replay.blueprint.household
        return task_view.ranking(task, household, self.answer) if isinstance(task, Features) else []

    @cached_property
    def plans(self) -> dict[str, task_view.PlanView]:
        """The agent's plan, and one that is right, by name; empty for tasks without plans."""
        blueprint = self.replay.blueprint
        if not isinstance(blueprint.task, Plans):
            return {}
        return {"The agent's plan": task_view.plan(blueprint, self.answer), "A right plan": task_view.right_plan(blueprint)}


@dataclass(frozen=True)
class HouseholdPage:
    """All that the template shows."""

    household: Household
    episode: EpisodeView | None = None

    @cached_property
    def marks(self) -> Marks:
        """The marks of all facts."""
        return Marks.of_replay(self.episode.replay if self.episode else None)

    @cached_property
    def told(self) -> dict[str, Any]:
        """What agents may see of the household."""
        return shown(self.household)

    @cached_property
    def people(self) -> dict[str, str]:
        """The names of the members by id."""
        return {member.member_id: member.name for member in self.household.members}

    @property
    def situations(self) -> list[str]:
        """What goes on now, in words, the most urgent first."""
        words = words_for(self.household.language)
        return [words.word("situations", key) for key in self.household.context.situations]

    @cached_property
    def memories(self) -> list[Entry]:
        """The memories in the order of the household."""
        return [
            self._entry(f"memory:{at}", one, one.memory, one.additional_information, one.subjects)
            for at, one in enumerate(self.household.memories)
        ]

    @cached_property
    def events(self) -> list[Entry]:
        """The events of the last day."""
        return [
            self._entry(f"event:{at}", one, one.description, ", ".join((*one.sensors, *one.appliances)), one.fact.others)
            for at, one in enumerate(self.household.context.events)
        ]

    def _entry(self, id: str, one: Memory | Event, text: str, note: str, about: tuple[str, ...]) -> Entry:
        everybody = tuple(dict.fromkeys(filter(None, (one.fact.who, *about))))
        return Entry(id, one.time, text, note, one.fact.kind.replace("_", " "), everybody, self.marks.of(id))

    @property
    def months(self) -> Timeline:
        """The memories by month."""
        return by_month(self.memories, self.people, self.household.now)

    @property
    def hours(self) -> Timeline:
        """The events by hour."""
        return by_hour(self.events, self.people, self.household.now)

    @property
    def kinds(self) -> list[tuple[str, int]]:
        """(kind, number of memories and events), the most frequent first."""
        counts = Counter(entry.kind for entry in (*self.memories, *self.events))
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))

    @cached_property
    def rooms(self) -> list[tuple[Room, list[DeviceView]]]:
        """The rooms with their devices, appliances before sensors."""
        state = HouseholdState(self.household)
        devices = sorted(state.home.plan.devices, key=lambda device: is_sensor(device.spec))
        planned = self._planned()
        views = [self._device(device, state, planned) for device in devices]
        return [(room, [view for view in views if view.device.room.id == room.id]) for room in state.home.plan.rooms]

    @property
    def bare(self) -> list[str]:
        """The names of the rooms without devices."""
        return [room.name for room, devices in self.rooms if not devices]

    def _planned(self) -> dict[tuple[str, str], str]:
        """The values that the agent's plan leaves, by device and attribute."""
        made = next(iter(self.episode.plans.values()), None) if self.episode else None
        return {(change.device, change.path): change.after for change in made.changes} if made else {}

    def _device(self, device: Device, state: HouseholdState, planned: Mapping[tuple[str, str], str]) -> DeviceView:
        did, of = device.did, self.marks.of
        methods = [(path, self._title(device, path), of(f"result:{did}.{path}")) for path in device.spec.service_index]
        ids = {name: f"{name}:{did}" for name in ("state", "features")}
        ids["name"] = f"{'sensor' if is_sensor(device.spec) else 'appliance'}:{did}"
        results = [f"result:{did}.{path}" for path, _, _ in methods]
        values = state.values(did).items()
        return DeviceView(
            device,
            tuple((path, value_text(value), planned.get((did, path))) for path, value in values),
            tuple(methods),
            {name: of(id) for name, id in ids.items()},
            of(*ids.values(), *results),
        )

    def _title(self, device: Device, path: str) -> str:
        known = features().get(f"{device.spec.category}.{path}")
        return getattr(known.title, self.household.language, known.title.en) if known else ""

    @property
    def scene(self) -> list[SceneRow]:
        """The events of the video with their facts, after its setting; empty without a video."""
        transcript = self.household.transcript
        if transcript is None:
            return []
        rows = [self._scene_row("", "Setting, which holds from the start", None)]
        for event in transcript.video_description.entities.events:
            heard = f" ({event.audio})" if event.audio and event.event_type != "sound" else ""
            rows.append(self._scene_row(event.ts_start.partition(".")[0], event.description + heard, event.event_id))
        return rows

    def _scene_row(self, time: str, text: str, event: str | None) -> SceneRow:
        assert self.household.transcript is not None
        ids = {fact.id: fact for fact in self.household.transcript.facts if fact.event_id == event}
        both = {id: (f"scene:{id}", f"scene:{id}.time") for id in ids}
        facts = tuple((id, fact_in_words(fact), self.marks.of(*both[id])) for id, fact in ids.items())
        return SceneRow(time, text, facts, self.marks.of(*(id for pair in both.values() for id in pair)))


def fact_in_words(fact: SceneFact) -> str:
    """A fact of a video: who does what, what is heard, or what is in which state."""
    if fact.sound:
        said = f"sound: {fact.sound}"
    elif fact.action:
        said = " ".join(filter(None, (fact.actor, fact.action, fact.object)))
    else:
        said = " ".join(filter(None, (fact.actor, fact.object, f"{fact.attribute}: {fact.value}")))
    return f"{said}, in {fact.zone}" if fact.zone else said


def render_household(household: Household, replay: Replay | None = None) -> str:
    """The page as HTML: a household, and if there is one an episode in it."""
    page = HouseholdPage(household, EpisodeView(replay) if replay else None)
    return template(Path(__file__).with_name("household.html.jinja")).render(page=page, episode=page.episode)
