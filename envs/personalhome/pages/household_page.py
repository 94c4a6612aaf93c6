"""A timeline as a grid: a lane for each person, a column for each month or hour, and a dot for each row.

Invariants: every row has a dot in the lane of everybody that it is about, or in the lane of the home; columns have no gap.

A household as one HTML file: people, home, timeline, and on it an episode: what the agent read, and what it needed.

Invariants: the page needs no network, and shows everything without its script, which filters and highlights; all data is
escaped; equal households and episodes give equal bytes; every fact that a tool can show has a place on the page.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.personalhome.bench.episode_results import final_words
from homerl.envs.personalhome.pages import task_view
from homerl.envs.personalhome.pages.episode_replay import EpisodeMarks, EpisodeReplay, FactMark
from homerl.envs.personalhome.pages.task_view import format_attribute_value
from homerl.envs.personalhome.sim.appliance_catalogue import is_sensor
from homerl.envs.personalhome.sim.appliance_features import load_features
from homerl.envs.personalhome.sim.household import Event, Household, Memory
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.sim.scene.transcript import SceneFact
from homerl.envs.personalhome.sim.vocabulary import load_fact_words
from homerl.envs.personalhome.tasks.blueprint import Choice, Features, Grounding, Plans
from homerl.envs.personalhome.tasks.task_goals import personalhome_goals_in_words
from homerl.host.html_pages import load_template
from homerl.play.trajectory import ShownStep, show_dialogue

HOME = "home"


@dataclass(frozen=True)
class TimelineEntry:
    """A memory, an event of the last day or an event of a video. `about` are the ids of those that it is about.

    `id` is the id of the fact, `kind` a word for what happened, and `note` what is said beside the text.
    """

    id: str
    time: datetime
    text: str
    note: str
    kind: str
    about: tuple[str, ...]
    mark: FactMark

    @property
    def html_anchor(self) -> str:
        """The HTML id of its row."""
        return self.id.replace(":", "-")


@dataclass(frozen=True)
class TimelineColumn:
    """A month or an hour. `major` says that its label is shown where there is little room."""

    label: str
    group: str
    major: bool


@dataclass(frozen=True)
class TimelineLane:
    """The entries of a person, or of the home, by column."""

    name: str
    cells: tuple[tuple[TimelineEntry, ...], ...]


@dataclass(frozen=True)
class Timeline:
    """A grid. `groups` are the names of years or days with their numbers of columns."""

    columns: tuple[TimelineColumn, ...]
    lanes: tuple[TimelineLane, ...]

    @property
    def column_groups(self) -> list[tuple[str, int]]:
        """(name, number of columns) of each year or day."""
        return [(name, len(list(columns))) for name, columns in groupby(self.columns, key=lambda column: column.group)]


def timeline_by_month(entries: Sequence[TimelineEntry], people: Mapping[str, str], now: datetime) -> Timeline:
    """The entries by month, from the first one to now. `people` are the names of the lanes by id."""
    first = min((entry.time for entry in entries), default=now)
    months = range(_month(first), _month(max(now, *(entry.time for entry in entries), now)) + 1)
    columns = [TimelineColumn(f"{datetime(2000, at % 12 + 1, 1):%b}", str(at // 12), at % 3 == 0) for at in months]
    return Timeline(tuple(columns), _lanes(entries, people, lambda entry: _month(entry.time) - months[0], len(columns)))


def timeline_by_hour(entries: Sequence[TimelineEntry], people: Mapping[str, str], now: datetime) -> Timeline:
    """The entries by hour, from the first one to now."""
    first = min((entry.time for entry in entries), default=now).replace(minute=0, second=0)
    hours = int((now - first) / timedelta(hours=1)) + 1
    times = [first + timedelta(hours=at) for at in range(hours)]
    columns = [TimelineColumn(f"{time:%H}", f"{time:%m-%d}", time.hour % 3 == 0) for time in times]
    place: Callable[[TimelineEntry], int] = lambda entry: int((entry.time - first) / timedelta(hours=1))  # noqa: E731
    return Timeline(tuple(columns), _lanes(entries, people, place, hours))


def _lanes(
    entries: Iterable[TimelineEntry], people: Mapping[str, str], column: Callable[[TimelineEntry], int], width: int
) -> tuple[TimelineLane, ...]:
    cells: dict[str, list[list[TimelineEntry]]] = {id: [[] for _ in range(width)] for id in (*people, HOME)}
    for entry in entries:
        for id in [one for one in entry.about if one in people] or [HOME]:
            cells[id][min(max(column(entry), 0), width - 1)].append(entry)
    kept = [id for id in cells if id in people or any(cells[id])]
    return tuple(TimelineLane(people.get(id, HOME), tuple(map(tuple, cells[id]))) for id in kept)


def _month(time: datetime) -> int:
    return 12 * time.year + time.month - 1


OWN = ("seen.", "answer")  # changes of a step that are none of the household


@dataclass(frozen=True)
class DeviceView:
    """An appliance or a sensor. `state` are (attribute, value, its value after the plan or None).

    `features` are (method, title, mark of its results), and `parts` the marks of what can be read of it, by name.
    """

    device: Device
    state: tuple[tuple[str, str, str | None], ...]
    features: tuple[tuple[str, str, FactMark], ...]
    parts: Mapping[str, FactMark]
    mark: FactMark

    @property
    def is_planned(self) -> bool:
        """Whether the plan changes it."""
        return any(after is not None for _, _, after in self.state)


@dataclass(frozen=True)
class SceneRow:
    """An event of a video, or its setting, with its facts in words and their marks."""

    time: str
    text: str
    facts: tuple[tuple[str, str, FactMark], ...]
    mark: FactMark


@dataclass(frozen=True)
class EvidenceStepView:
    """A step of the episode. `new` are the facts that it was the first to show, and `needed` how many were needed."""

    number: int
    step: ShownStep
    new: tuple[str, ...]
    needed: int

    @property
    def changed_names(self) -> list[str]:
        """What it changed in the household."""
        return [name for name in self.step.changed if not name.startswith(OWN)]


@dataclass(frozen=True)
class EpisodeView:
    """An episode on the page."""

    replay: EpisodeReplay

    @property
    def task_name(self) -> str:
        """The paper's name of the task."""
        return task_view.NAMES[self.replay.blueprint.task.kind]

    @property
    def answer_text(self) -> str:
        """The agent's last words; empty if it gave none."""
        return final_words(self.replay.trajectory)

    @cached_property
    def goal_results(self) -> list[tuple[str, bool]]:
        """The goals in words, and whether they were met at the end."""
        return list(zip(personalhome_goals_in_words(self.replay.trajectory.blueprint), self.replay.met, strict=True))

    @cached_property
    def needed_evidence(self) -> tuple[str, ...]:
        """What the task rests on. A fact of a video and its time are one."""
        return tuple(dict.fromkeys(id.removesuffix(".time") for id in self.replay.blueprint.task.evidence))

    @property
    def evidence_read_count(self) -> int:
        """How much of the evidence was read."""
        return sum(id in self.replay.first for id in self.needed_evidence)

    def step_views(self) -> Iterator[EvidenceStepView]:
        """The agent's steps."""
        spoken = show_dialogue(self.replay.trajectory, ())
        for number, step in enumerate((step for _, steps in spoken.turns for step in steps), 1):
            new = tuple(self.replay.facts_first_shown_by(number))
            yield EvidenceStepView(number, step, new, sum(id in self.needed_evidence for id in new))

    @cached_property
    def answer_views(self) -> list[task_view.AnswerView]:
        """The parts of a grounding task; empty for others."""
        task = self.replay.blueprint.task
        return task_view.build_answer_views(task, self.answer_text) if isinstance(task, Grounding) else []

    @cached_property
    def option_views(self) -> list[task_view.OptionView]:
        """The choices of a question; empty for others."""
        task = self.replay.blueprint.task
        return task_view.build_option_views(task, self.answer_text) if isinstance(task, Choice) else []

    @cached_property
    def ranked_features(self) -> list[task_view.RankedFeature]:
        """The features of a recommendation, best first; empty for others."""
        task, household = self.replay.blueprint.task, self.replay.blueprint.household
        return task_view.build_ranked_features(task, household, self.answer_text) if isinstance(task, Features) else []

    @cached_property
    def plan_views(self) -> dict[str, task_view.PlanView]:
        """The agent's plan, and one that is right, by name; empty for tasks without plans."""
        blueprint = self.replay.blueprint
        if not isinstance(blueprint.task, Plans):
            return {}
        return {
            "The agent's plan": task_view.build_plan_view(blueprint, self.answer_text),
            "A right plan": task_view.build_right_plan_view(blueprint),
        }


@dataclass(frozen=True)
class HouseholdPage:
    """All that the template shows."""

    household: Household
    episode: EpisodeView | None = None

    @cached_property
    def fact_marks(self) -> EpisodeMarks:
        """The marks of all facts."""
        return EpisodeMarks.marks_of_replay(self.episode.replay if self.episode else None)

    @cached_property
    def shown_household(self) -> dict[str, Any]:
        """What agents may see of the household."""
        return household_shown(self.household)

    @cached_property
    def member_names(self) -> dict[str, str]:
        """The names of the members by id."""
        return {member.member_id: member.name for member in self.household.members}

    @property
    def situation_names(self) -> list[str]:
        """What goes on now, in words, the most urgent first."""
        words = load_fact_words(self.household.language)
        return [words.key_word("situations", key) for key in self.household.context.situations]

    @cached_property
    def memory_entries(self) -> list[TimelineEntry]:
        """The memories in the order of the household."""
        return [
            self._entry(f"memory:{at}", one, one.memory, one.additional_information, one.subjects)
            for at, one in enumerate(self.household.memories)
        ]

    @cached_property
    def event_entries(self) -> list[TimelineEntry]:
        """The events of the last day."""
        return [
            self._entry(f"event:{at}", one, one.description, ", ".join((*one.sensors, *one.appliances)), one.fact.others)
            for at, one in enumerate(self.household.context.events)
        ]

    def _entry(self, id: str, one: Memory | Event, text: str, note: str, about: tuple[str, ...]) -> TimelineEntry:
        everybody = tuple(dict.fromkeys(filter(None, (one.fact.who, *about))))
        return TimelineEntry(
            id, one.time, text, note, one.fact.kind.replace("_", " "), everybody, self.fact_marks.mark_of(id)
        )

    @property
    def memory_timeline(self) -> Timeline:
        """The memories by month."""
        return timeline_by_month(self.memory_entries, self.member_names, self.household.now)

    @property
    def event_timeline(self) -> Timeline:
        """The events by hour."""
        return timeline_by_hour(self.event_entries, self.member_names, self.household.now)

    @property
    def kind_counts(self) -> list[tuple[str, int]]:
        """(kind, number of memories and events), the most frequent first."""
        counts = Counter(entry.kind for entry in (*self.memory_entries, *self.event_entries))
        return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))

    @cached_property
    def room_devices(self) -> list[tuple[Room, list[DeviceView]]]:
        """The rooms with their devices, appliances before sensors."""
        state = HouseholdState(self.household)
        devices = sorted(state.home.plan.devices, key=lambda device: is_sensor(device.spec))
        planned = self._planned()
        views = [self._device(device, state, planned) for device in devices]
        return [(room, [view for view in views if view.device.room.id == room.id]) for room in state.home.plan.rooms]

    @property
    def empty_rooms(self) -> list[str]:
        """The names of the rooms without devices."""
        return [room.name for room, devices in self.room_devices if not devices]

    def _planned(self) -> dict[tuple[str, str], str]:
        """The values that the agent's plan leaves, by device and attribute."""
        made = next(iter(self.episode.plan_views.values()), None) if self.episode else None
        return {(change.device, change.path): change.after for change in made.changes} if made else {}

    def _device(self, device: Device, state: HouseholdState, planned: Mapping[tuple[str, str], str]) -> DeviceView:
        did, of = device.did, self.fact_marks.mark_of
        methods = [(path, self._title(device, path), of(f"result:{did}.{path}")) for path in device.spec.service_index]
        ids = {name: f"{name}:{did}" for name in ("state", "features")}
        ids["name"] = f"{'sensor' if is_sensor(device.spec) else 'appliance'}:{did}"
        results = [f"result:{did}.{path}" for path, _, _ in methods]
        values = state.device_values(did).items()
        return DeviceView(
            device,
            tuple((path, format_attribute_value(value), planned.get((did, path))) for path, value in values),
            tuple(methods),
            {name: of(id) for name, id in ids.items()},
            of(*ids.values(), *results),
        )

    def _title(self, device: Device, path: str) -> str:
        known = load_features().get(f"{device.spec.category}.{path}")
        return getattr(known.title, self.household.language, known.title.en) if known else ""

    @property
    def scene_rows(self) -> list[SceneRow]:
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
        facts = tuple((id, fact_in_words(fact), self.fact_marks.mark_of(*both[id])) for id, fact in ids.items())
        return SceneRow(time, text, facts, self.fact_marks.mark_of(*(id for pair in both.values() for id in pair)))


def fact_in_words(fact: SceneFact) -> str:
    """A fact of a video: who does what, what is heard, or what is in which state."""
    if fact.sound:
        said = f"sound: {fact.sound}"
    elif fact.action:
        said = " ".join(filter(None, (fact.actor, fact.action, fact.object)))
    else:
        said = " ".join(filter(None, (fact.actor, fact.object, f"{fact.attribute}: {fact.value}")))
    return f"{said}, in {fact.zone}" if fact.zone else said


def render_household(household: Household, replay: EpisodeReplay | None = None) -> str:
    """The page as HTML: a household, and if there is one an episode in it."""
    page = HouseholdPage(household, EpisodeView(replay) if replay else None)
    return load_template(Path(__file__).with_name("household.html.jinja")).render(page=page, episode=page.episode)
