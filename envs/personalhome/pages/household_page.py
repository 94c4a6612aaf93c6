"""A household as one HTML file: people, home, timeline, and on it an episode: what the agent read, and what it needed.

A timeline is a grid: a lane for each person, a column for each month or hour, and a dot for each row. An episode is
replayed, to learn which step showed which fact.

Invariants:
- The page needs no network, and shows everything without its scripts, which filter, and play what can be chosen by hand.
- At a chosen step all that came later is veiled: later steps, marks of facts that were read later, verdicts.
- All data is escaped. Equal households and episodes give equal bytes.
- Every fact that a tool can show has a place on the page.
- Every row has a dot in the lane of everybody that it is about, or in the lane of the home. Columns have no gap.
- A replay starts from the stored blueprint alone; whatever cannot be replayed as it was recorded raises `InputError` with
  its place; nothing is written.
- What is right or wrong is decided by the verdicts that also reward; a plan's changes are those of the end state that is
  judged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import cached_property
from itertools import accumulate, groupby
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.personalhome.bench.run_results import blueprint_of_trajectory, final_words
from homerl.envs.personalhome.sim.appliance_catalogue import GROUPS, is_sensor, load_features
from homerl.envs.personalhome.sim.household import Event, Household, Memory
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import household_shown
from homerl.envs.personalhome.sim.scene.transcript import SceneFact
from homerl.envs.personalhome.sim.vocabulary import load_fact_words
from homerl.envs.personalhome.tasks import plan_rules
from homerl.envs.personalhome.tasks.answer_parser import parse_choice, parse_final_answer, parse_plan, parse_ranking
from homerl.envs.personalhome.tasks.author import TIERS
from homerl.envs.personalhome.tasks.blueprint import LETTERS, Choice, Features, Grounding, PersonalHomeBlueprint, Plans
from homerl.envs.personalhome.tasks.plan_rules import reference_plan
from homerl.envs.personalhome.tasks.situation import (
    PersonalHomeSituation,
    answer_to_part,
    are_parts_right,
    personalhome_goals_in_words,
)
from homerl.host.html_pages import load_template
from homerl.play.replay import REMEDY, begin_replay, replay_as_recorded
from homerl.play.trajectory import ShownStep, Trajectory, show_dialogue


@dataclass(frozen=True)
class EpisodeReplay:
    """A replayed episode. `first` maps each fact that was shown to the number (from 1) of the first step that showed it.

    `met` are the goals Φ at the end.
    """

    trajectory: Trajectory
    blueprint: PersonalHomeBlueprint
    first: Mapping[str, int]
    met: tuple[bool, ...]

    def facts_first_shown_by(self, step: int) -> list[str]:
        """The facts that a step was the first to show. A fact of a video and its time are one."""
        return sorted({id.removesuffix(".time") for id, number in self.first.items() if number == step})


def replay_episode(trajectory: Trajectory, where: str) -> EpisodeReplay:
    """The replay of a trajectory. Raises `InputError` if its household or one of its steps comes out otherwise."""
    try:
        blueprint = blueprint_of_trajectory(trajectory)
        episode = begin_replay(trajectory, lambda _: PersonalHomeSituation.begin(blueprint))
    except (LookupError, TypeError, ValueError) as error:
        why = (str(error).splitlines() or [type(error).__name__])[0]
        raise InputError(f"its household cannot be made again ({why})", where, REMEDY) from None
    first: dict[str, int] = {}
    other = "its household came out differently: step {} showed something else when it was recorded"
    for number in replay_as_recorded(episode, trajectory, where, other):
        seen = episode.world.state.seen  # type: ignore[attr-defined]
        first |= dict.fromkeys(sorted(seen - first.keys()), number)
    return EpisodeReplay(trajectory, blueprint, first, episode.situation.met())


# Marks


@dataclass(frozen=True)
class FactMark:
    """Whether facts were read and needed. `tone` is `read`, `both`, `missed`, `needed` or empty, `steps` showed them first.

    Of several facts, one that was needed and never read decides the tone. `since` is the step from which the tone holds, or
    `end`.
    """

    ids: tuple[str, ...]
    tone: str
    steps: tuple[int, ...]
    since: int | str

    @property
    def text(self) -> str:
        """The mark in words."""
        steps = f"read in step {', '.join(map(str, self.steps))}"
        words = {"read": steps, "both": f"needed, {steps}", "missed": "needed, never read", "needed": "needed"}
        return words.get(self.tone, "")

    @property
    def tags(self) -> str:
        """What the filter finds it by."""
        needed = self.tone in ("both", "missed", "needed")
        parts = {"read": self.steps, "needed": needed, "missed": self.tone == "missed"}
        return " ".join(name for name, holds in parts.items() if holds)


TONES = ("missed", "needed", "both", "read", "")  # the first that any fact has decides


@dataclass(frozen=True)
class EpisodeMarks:
    """The marks of an episode. Without one every mark is empty. `told` says that the agent read all in its prompt."""

    first: Mapping[str, int]
    needed: frozenset[str]
    told: bool = False

    @classmethod
    def marks_of_replay(cls, replay: EpisodeReplay | None) -> EpisodeMarks:
        """The marks of a replayed episode, or of none."""
        if replay is None:
            return cls({}, frozenset())
        return cls(replay.first, frozenset(replay.blueprint.task.evidence), replay.blueprint.setting == "sole")

    def mark_of(self, *ids: str) -> FactMark:
        """The mark of some facts together."""
        steps = {id: self.first[id] for id in ids if id in self.first}
        tone = min(map(self._tone_of_fact, ids), key=TONES.index, default="")
        since: int | str = 0 if tone == "needed" else "end"
        if tone == "both":  # from the last that was needed
            since = max(step for id, step in steps.items() if id in self.needed)
        elif tone == "read":
            since = min(steps.values())
        return FactMark(ids, tone, tuple(sorted({*steps.values()})), since)

    def _tone_of_fact(self, id: str) -> str:
        if id not in self.needed:
            return "read" if id in self.first else ""
        return "both" if id in self.first else "needed" if self.told else "missed"


TASK_NAMES = {  # the paper's names
    "grounding": "Information Grounding (IG) and Counterfactual Reasoning (CF)",
    "choice": "Multiple Choice (MC)",
    "features": "Feature Recommendation (FR)",
    "plans": "Plan Generation (PG)",
}
PART_NAMES = {"original": "Question", "counterfactual_1": "Counterfactual 1", "counterfactual_2": "Counterfactual 2"}
TIER_NAMES = ("highly relevant", "relevant", "less relevant")


@dataclass(frozen=True)
class AnswerView:
    """A part of a question: its condition, the accepted answers, what was said (None is nothing) and whether it is right.

    `changed` tells of a counterfactual whether it changes the answer.
    """

    label: str
    condition: str
    right: tuple[str, ...]
    said: str | None
    ok: bool
    changed: bool | None = None


@dataclass(frozen=True)
class OptionView:
    """A choice of a question."""

    letter: str
    text: str
    right: bool
    chosen: bool


@dataclass(frozen=True)
class RankedFeature:
    """A feature with its right place, the place that the agent gave it (None is none), and what it is wanted for."""

    place: int
    given: int | None
    feature: str
    title: str
    tier: str
    wanted_for: tuple[str, ...]


@dataclass(frozen=True)
class AttributeChange:
    """An attribute of a device that a step changed."""

    device: str
    path: str
    before: str
    after: str


@dataclass(frozen=True)
class PlanStepView:
    """A step of a plan: its call, why it was refused (None if it worked), and what it changed."""

    call: str
    rationale: str
    refusal: str | None
    changes: tuple[AttributeChange, ...]


@dataclass(frozen=True)
class PlanView:
    """A plan's programs by name. `changes` lead from the start to the end state; `broken` are preferences that it breaks."""

    programs: tuple[tuple[str, tuple[PlanStepView, ...]], ...]
    changes: tuple[AttributeChange, ...]
    broken: tuple[str, ...]


def format_attribute_value(value: Any) -> str:
    """The value of a device's attribute, or of an answer."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return " + ".join(map(str, value)) if isinstance(value, list) else str(value)


def build_answer_views(task: Grounding, text: str) -> list[AnswerView]:
    """The parts of a grounding task."""
    rows = []
    for part, ok in zip(task.parts, are_parts_right(task, text), strict=True):
        said = answer_to_part(task, part.key, text)
        shown = None if said is None else format_attribute_value(said)
        rows.append(AnswerView(PART_NAMES[part.key], part.condition, part.variants, shown, ok, part.changed))
    return rows


def build_option_views(task: Choice, text: str) -> list[OptionView]:
    """The choices of a question."""
    chosen = parse_choice(parse_final_answer(text).value, task.choices)
    rows = enumerate(zip(LETTERS, task.choices))
    return [OptionView(letter, choice, letter == task.right, at == chosen) for at, (letter, choice) in rows]


def build_ranked_features(task: Features, household: Household, text: str) -> list[RankedFeature]:
    """The features, the best first."""
    given = {feature: place for place, feature in enumerate(parse_ranking(text).value or (), 1)}
    needs, words = plan_rules.household_needs(household), load_fact_words(household.language)
    tiers = [name for name, size in zip(TIER_NAMES, TIERS) for _ in range(size)]
    rows = []
    for place, (key, tier) in enumerate(zip(task.ranking, tiers, strict=True), 1):
        wanted = []
        for need in (need for need in load_features()[key].wanted_when if need in needs):
            # A need is a key of one of several groups of words.
            wanted.append(next((words.keys[group][need] for group in GROUPS if need in words.keys[group]), need))
        rows.append(RankedFeature(place, given.get(key), key, task.titles[key], tier, tuple(wanted)))
    return rows


def view_of_programs(household: Household, programs: Sequence[plan_rules.Program]) -> PlanView:
    """Programs as they run: each step is tried in a fork of its program, and changes add up to the judged end state."""
    start = HouseholdState(household)
    end, rows = start.fork(), []
    for program in programs:
        tried, steps = start.fork(), []
        for step in program["steps"]:
            refusal, before = plan_rules.try_plan_step(tried, step), end.home.fork()
            if step["appliance"] != plan_rules.TOOLBOX:  # what is written down changes no device
                plan_rules.run_plan_steps(end, [step])
            steps.append(PlanStepView(plan_step_in_words(step), step["rationale"], refusal, compare_homes(before, end.home)))
        rows.append((program["program_id"], tuple(steps)))
    words = load_fact_words(household.language)
    broken = plan_rules.broken_preferences(household, start.home, end.home)
    names = tuple(dict.fromkeys(words.key_word("tastes", taste.kind) for taste in broken))
    return PlanView(tuple(rows), compare_homes(start.home, end.home), names)


def plan_step_in_words(step: Mapping[str, Any]) -> str:
    """A step as a call, such as `speaker.notify(message='...')`."""
    given = "not an object" if step["args"] is None else ", ".join(f"{key}={value!r}" for key, value in step["args"].items())
    return f"{step['appliance']}.{step['feature']}({given})"


def compare_homes(before: Home, after: Home) -> tuple[AttributeChange, ...]:
    """What differs between two states of a home."""
    slots = before.plan.slots
    changes = []
    for one in before.diff(after):
        values = format_attribute_value(one.before), format_attribute_value(one.after)
        changes.append(AttributeChange(slots[one.slot].owner, slots[one.slot].path, *values))
    return tuple(changes)


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

    def number_month(time: datetime) -> int:
        return 12 * time.year + time.month - 1

    times = [entry.time for entry in entries]
    months = range(number_month(min(times, default=now)), number_month(max([*times, now])) + 1)
    columns = [TimelineColumn(f"{datetime(2000, at % 12 + 1, 1):%b}", str(at // 12), at % 3 == 0) for at in months]
    places = [number_month(time) - months[0] for time in times]
    return Timeline(tuple(columns), _fill_lanes(entries, people, places, len(months)))


def timeline_by_hour(entries: Sequence[TimelineEntry], people: Mapping[str, str], now: datetime) -> Timeline:
    """The entries by hour, from the first one to now."""
    first = min((entry.time for entry in entries), default=now).replace(minute=0, second=0)
    places = [int((time - first) / timedelta(hours=1)) for time in (*(entry.time for entry in entries), now)]
    times = [first + timedelta(hours=at) for at in range(places.pop() + 1)]
    columns = [TimelineColumn(f"{time:%H}", f"{time:%m-%d}", time.hour % 3 == 0) for time in times]
    return Timeline(tuple(columns), _fill_lanes(entries, people, places, len(times)))


def _fill_lanes(
    entries: Sequence[TimelineEntry], people: Mapping[str, str], places: Sequence[int], width: int
) -> tuple[TimelineLane, ...]:
    """The lanes with each entry in the column of its place."""
    cells: dict[str, list[list[TimelineEntry]]] = {id: [[] for _ in range(width)] for id in (*people, HOME)}
    for entry, place in zip(entries, places, strict=True):
        for id in [one for one in entry.about if one in people] or [HOME]:
            cells[id][min(max(place, 0), width - 1)].append(entry)
    kept = [id for id in cells if id in people or any(cells[id])]  # the lane of the home only if it has entries
    return tuple(TimelineLane(people.get(id, HOME), tuple(map(tuple, cells[id]))) for id in kept)


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
        return [name for name in self.step.changed if not name.startswith(("seen.", "answer"))]


class EpisodeView:
    """An episode on the page: its task, what the agent read and said, and how it is judged.

    Of `answer_views`, `option_views`, `ranked_features` and `plan_views` those are filled that suit the kind of the task.
    """

    def __init__(self, replay: EpisodeReplay) -> None:
        self.replay = replay
        blueprint, task = replay.blueprint, replay.blueprint.task
        self.task_name = TASK_NAMES[task.kind]
        self.answer_text = final_words(replay.trajectory)
        self.goal_results = list(zip(personalhome_goals_in_words(replay.trajectory.blueprint), replay.met, strict=True))
        # A fact of a video and its time are one.
        self.needed_evidence = tuple(dict.fromkeys(id.removesuffix(".time") for id in task.evidence))
        self.evidence_read_count = sum(id in replay.first for id in self.needed_evidence)
        self.answer_views = build_answer_views(task, self.answer_text) if isinstance(task, Grounding) else []
        self.option_views = build_option_views(task, self.answer_text) if isinstance(task, Choice) else []
        self.ranked_features: list[RankedFeature] = []
        if isinstance(task, Features):
            self.ranked_features = build_ranked_features(task, blueprint.household, self.answer_text)
        self.plan_views: dict[str, PlanView] = {}
        if isinstance(task, Plans):
            written = parse_plan(self.answer_text).value or ()
            self.plan_views["The agent's plan"] = view_of_programs(blueprint.household, written)
            self.plan_views["A right plan"] = view_of_programs(blueprint.household, reference_plan(blueprint))

    @cached_property
    def step_views(self) -> list[EvidenceStepView]:
        """The agent's steps."""
        spoken, rows = show_dialogue(self.replay.trajectory, ()), []
        for number, step in enumerate((step for _, steps in spoken.turns for step in steps), 1):
            new = tuple(self.replay.facts_first_shown_by(number))
            rows.append(EvidenceStepView(number, step, new, sum(id in self.needed_evidence for id in new)))
        return rows

    @property
    def evidence_read_by_moment(self) -> list[int]:
        """How many needed facts were read at the start and after each step."""
        return list(accumulate((view.needed for view in self.step_views), initial=0))


class HouseholdPage:
    """All that the template shows of a household, with the marks of an episode if there is one."""

    def __init__(self, household: Household, episode: EpisodeView | None = None) -> None:
        self.household, self.episode = household, episode
        self.fact_marks = EpisodeMarks.marks_of_replay(episode.replay if episode else None)
        self.shown_household = household_shown(household)  # what agents may see of it
        self.member_names = {member.member_id: member.name for member in household.members}
        words = load_fact_words(household.language)
        self.situation_names = [words.key_word("situations", key) for key in household.context.situations]
        self.memory_entries = [
            self._entry_of_row(f"memory:{at}", one, one.memory, one.additional_information, one.subjects)
            for at, one in enumerate(household.memories)
        ]
        self.event_entries = [
            self._entry_of_row(
                f"event:{at}", one, one.description, ", ".join((*one.sensors, *one.appliances)), one.fact.others
            )
            for at, one in enumerate(household.context.events)
        ]
        self.memory_timeline = timeline_by_month(self.memory_entries, self.member_names, household.now)
        self.event_timeline = timeline_by_hour(self.event_entries, self.member_names, household.now)
        counts = Counter(entry.kind for entry in (*self.memory_entries, *self.event_entries))
        self.kind_counts = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))  # the most frequent first
        state = HouseholdState(household)
        devices = sorted(state.home.plan.devices, key=lambda device: is_sensor(device.spec))  # appliances before sensors
        agents_plan = next(iter(episode.plan_views.values()), None) if episode else None
        planned = {(change.device, change.path): change.after for change in (agents_plan.changes if agents_plan else ())}
        views = [self._view_of_device(device, state, planned) for device in devices]
        self.room_devices = [
            (room, [view for view in views if view.device.room.id == room.id]) for room in state.home.plan.rooms
        ]
        self.empty_rooms = [room.name for room, devices in self.room_devices if not devices]

    def _entry_of_row(self, id: str, row: Memory | Event, text: str, note: str, about: tuple[str, ...]) -> TimelineEntry:
        everybody = tuple(dict.fromkeys(filter(None, (row.fact.who, *about))))
        kind = row.fact.kind.replace("_", " ")
        return TimelineEntry(id, row.time, text, note, kind, everybody, self.fact_marks.mark_of(id))

    def _view_of_device(self, device: Device, state: HouseholdState, planned: Mapping[tuple[str, str], str]) -> DeviceView:
        """A device with its marks. `planned` has the values that the agent's plan leaves, by device and attribute."""
        did, mark, known = device.did, self.fact_marks.mark_of, load_features()
        methods = []
        for path in device.spec.service_index:
            feature = known.get(f"{device.spec.category}.{path}")
            title = getattr(feature.title, self.household.language, feature.title.en) if feature else ""
            methods.append((path, title, mark(f"result:{did}.{path}")))
        ids = {name: f"{name}:{did}" for name in ("state", "features")}
        ids["name"] = f"{'sensor' if is_sensor(device.spec) else 'appliance'}:{did}"
        values = state.device_values(did).items()
        return DeviceView(
            device,
            tuple((path, format_attribute_value(value), planned.get((did, path))) for path, value in values),
            tuple(methods),
            {name: mark(id) for name, id in ids.items()},
            mark(*ids.values(), *(f"result:{did}.{path}" for path, _, _ in methods)),
        )

    @property
    def scene_rows(self) -> list[SceneRow]:
        """The events of the video with their facts, after its setting; empty without a video."""
        transcript = self.household.transcript
        if transcript is None:
            return []
        events: list[tuple[str, str, str | None]] = [("", "Setting, which holds from the start", None)]
        for event in transcript.video_description.entities.events:
            heard = f" ({event.audio})" if event.audio and event.event_type != "sound" else ""
            events.append((event.ts_start.partition(".")[0], event.description + heard, event.event_id))
        rows = []
        for time, text, event_id in events:
            facts = [fact for fact in transcript.facts if fact.event_id == event_id]
            ids = [(f"scene:{fact.id}", f"scene:{fact.id}.time") for fact in facts]
            marked = [(fact.id, fact_in_words(fact), self.fact_marks.mark_of(*both)) for fact, both in zip(facts, ids)]
            rows.append(SceneRow(time, text, tuple(marked), self.fact_marks.mark_of(*(id for both in ids for id in both))))
        return rows


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
