"""The transcript of a video of a household: its schema, and beside it the typed facts and what follows from them.

`VideoDescription` is the paper's schema of a video in words (PersonalHomeBench Appendix H). Agents and judges see it alone.

Invariants:
- Times are written as `MM:SS.mmm`. They are in order and within the length of the video. Events, captions and changes of
  state name entities and events that exist.
- Every change of state has a time and the events that caused it.
- `facts` are what is seen or heard. `inferred` is what may be concluded from them. No caption holds an inferred text.
- A model never changes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import PurePath
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from homerl.envs.core.model import Model

Timestamp = Annotated[str, StringConstraints(pattern=r"^\d{2,3}:[0-5]\d\.\d{3}$")]
_STAMP = re.compile(r"(\d{2,3}):([0-5]\d)\.(\d{3})")
FORMAT = "MM:SS.mmm"


def format_video_timestamp(seconds: float) -> str:
    """A time in the form of transcripts: 83.5 s is `01:23.500`."""
    thousandths = round(seconds * 1000)
    return f"{thousandths // 60000:02d}:{thousandths // 1000 % 60:02d}.{thousandths % 1000:03d}"


def parse_video_timestamp(text: str) -> float:
    """The seconds of a timestamp. Raises `ValueError` if it has another form."""
    match = _STAMP.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is no time of the form {FORMAT}")
    minutes, whole, thousandths = map(int, match.groups())
    return minutes * 60 + whole + thousandths / 1000


class Timebase(Model):
    """How times are written, and where on the clip they start."""

    timestamp_format: str = FORMAT
    start_offset_seconds: int = 0


class Lighting(Model):
    """How bright the scene is, and the sources of light in view."""

    overall: str
    sources_visible: tuple[str, ...] = ()


class Camera(Model):
    """How the camera moves and from where it looks."""

    motion: str
    viewpoint: str
    notes: str = ""


class Zone(Model):
    """A part of the home that is in view. `zone_id` is the id of its room."""

    zone_id: str
    label: str
    relative_position: str


class Landmark(Model):
    """A fixed point of reference, such as a counter."""

    landmark_id: str
    type: str
    description: str
    zone_id: str


class Layout(Model):
    """The zones in view and their landmarks."""

    zones: tuple[Zone, ...]
    landmarks: tuple[Landmark, ...] = ()


class Scene(Model):
    """The setting of the video."""

    summary: str
    environment_type: str
    location_label: str
    lighting: Lighting
    camera: Camera
    layout: Layout


class SeenMember(Model):
    """A person in the video. One whom the household does not know has an id such as `unknown_1`."""

    member_id: str
    appearance: str
    initial_location: str


class SeenPet(Model):
    """An animal in the video. `pet_id` is the pet's name."""

    pet_id: str
    species: str
    initial_location: str
    description: str


class SeenAppliance(Model):
    """An appliance in view. `appliance_id` is its name in the household."""

    appliance_id: str
    type: str
    location: str
    initial_state: dict[str, str] = {}
    description: str


class SeenObject(Model):
    """A thing in view."""

    object_id: str
    label: str
    category: str
    initial_location: str
    initial_state: str
    description: str


class SceneEvent(Model):
    """Something that happens. Actors and targets are ids of entities or landmarks; `audio` is what is heard."""

    event_id: str
    ts_start: Timestamp
    ts_end: Timestamp
    event_type: str
    actors: tuple[str, ...] = ()
    targets: tuple[str, ...] = ()
    description: str
    audio: str = ""


class StateChange(Model):
    """The state of an entity from a time on, and the events that brought it about."""

    ts: Timestamp
    state: str
    trigger_event_ids: tuple[str, ...] = Field(min_length=1)


class MemberTimeline(Model):
    """How a person's state changes."""

    member_id: str
    states: tuple[StateChange, ...]


class PetTimeline(Model):
    """How an animal's state changes."""

    pet_id: str
    states: tuple[StateChange, ...]


class ApplianceTimeline(Model):
    """How an appliance's state changes."""

    appliance_id: str
    states: tuple[StateChange, ...]


class ObjectTimeline(Model):
    """How a thing's state changes."""

    object_id: str
    states: tuple[StateChange, ...]


class Timelines(Model):
    """The changes of state of every entity that changes."""

    members: tuple[MemberTimeline, ...] = ()
    pets: tuple[PetTimeline, ...] = ()
    appliances: tuple[ApplianceTimeline, ...] = ()
    objects: tuple[ObjectTimeline, ...] = ()

    def entity_rows(self) -> Iterator[tuple[str, tuple[StateChange, ...]]]:
        """(id, changes) of every entity."""
        yield from ((row.member_id, row.states) for row in self.members)
        yield from ((row.pet_id, row.states) for row in self.pets)
        yield from ((row.appliance_id, row.states) for row in self.appliances)
        yield from ((row.object_id, row.states) for row in self.objects)


class Entities(Model):
    """Who and what is in the video, what happens, and how states change."""

    members: tuple[SeenMember, ...] = ()
    pets: tuple[SeenPet, ...] = ()
    appliances: tuple[SeenAppliance, ...] = ()
    objects: tuple[SeenObject, ...] = ()
    events: tuple[SceneEvent, ...]
    entity_state_timelines: Timelines = Timelines()

    def entity_ids(self) -> list[str]:
        """The ids of members, pets, appliances and objects."""
        ids = [*(member.member_id for member in self.members), *(pet.pet_id for pet in self.pets)]
        return ids + [one.appliance_id for one in self.appliances] + [one.object_id for one in self.objects]


class Segment(Model):
    """What a part of the video shows, in words."""

    ts_start: Timestamp
    ts_end: Timestamp
    caption: str


class EventCaption(Model):
    """What an event shows, in words without times."""

    event_id: str
    caption: str


class Captions(Model):
    """The video in words: as a whole, by parts and by events."""

    model_config = ConfigDict(serialize_by_alias=True)

    global_: str = Field(alias="global")
    segments: tuple[Segment, ...]
    events: tuple[EventCaption, ...]

    def caption_texts(self) -> tuple[str, ...]:
        """Every caption."""
        return (self.global_, *(one.caption for one in self.segments), *(one.caption for one in self.events))


class ConsistencyChecks(Model):
    """What was checked. A transcript whose flag is true passes the check; one that cannot has the flag false."""

    entity_ids_consistent: bool
    all_state_changes_timestamped: bool
    no_unverifiable_inferences: bool


class Quality(Model):
    """How far the transcript can be trusted."""

    notes: str = ""
    consistency_checks: ConsistencyChecks


class VideoDescription(Model):
    """Everything that a video shows and that is heard in it."""

    timebase: Timebase = Timebase()
    scene: Scene
    entities: Entities
    captions: Captions
    quality: Quality


Domain = Literal["safety", "health", "daily"]


class SceneFact(Model):
    """What is seen or heard, as one row, with times in seconds.

    `event_id` is the event that shows it. None: it is the setting, which holds from the start. An action has `action`, with
    `actor` and `object`; a sound has `sound`; a state has `attribute` and `value` of `actor` or `object`, and holds until
    `ts_end`. An action at a place has the attribute `at`. `zone` is where it happens. Keys are those of `stage.yaml`.
    """

    id: str
    event_id: str | None = None
    ts_start: float = Field(ge=0)
    ts_end: float = Field(ge=0)
    actor: str | None = None
    action: str | None = None
    object: str | None = None
    zone: str | None = None
    sound: str | None = None
    attribute: str | None = None
    value: str | None = None


class Inference(Model):
    """What may be concluded from facts. `kind` is a situation of `vocabulary.yaml`, `because` are ids of facts."""

    kind: str
    text: str
    subjects: tuple[str, ...]
    because: tuple[str, ...] = Field(min_length=1)


class Transcript(Model):
    """A video in words and in facts. `length` is in seconds. `video_path` is empty if there is no clip.

    A clip is a file or folder that is named by its household's id.
    """

    datapoint_id: str
    video_path: str = ""
    language: str = "en"
    domain: Domain
    situation: str
    length: float = Field(gt=0)
    video_description: VideoDescription
    facts: tuple[SceneFact, ...]
    inferred: tuple[Inference, ...] = ()

    @property
    def clip_name(self) -> str | None:
        """The name of the clip; None: the transcript tells what the video shows."""
        return PurePath(self.video_path).stem or None

    @model_validator(mode="after")
    def _coherent(self) -> Self:
        claimed = self.video_description.quality.consistency_checks
        found = [*find_untimely_times(self), *find_loose_facts(self)]
        found += find_unknown_ids(self.video_description) if claimed.entity_ids_consistent else []
        found += find_untimed_changes(self.video_description) if claimed.all_state_changes_timestamped else []
        found += find_stated_inferences(self) if claimed.no_unverifiable_inferences else []
        if found:
            raise ValueError(f"the transcript is not coherent: {'; '.join(found[:3])}")
        return self


def find_untimely_times(transcript: Transcript) -> list[str]:
    """The times that are out of order or beyond the length of the video."""
    found: list[str] = []
    described = transcript.video_description
    spans = [(one.event_id, one.ts_start, one.ts_end) for one in described.entities.events]
    for rows in (spans, [("segment", one.ts_start, one.ts_end) for one in described.captions.segments]):
        last = 0.0
        for name, start, end in rows:
            if not last <= parse_video_timestamp(start) <= parse_video_timestamp(end) <= transcript.length:
                found.append(f"the times of {name} ({start} to {end}) are out of order or beyond the video")
            last = parse_video_timestamp(start)
    for owner, states in described.entities.entity_state_timelines.entity_rows():
        times = [parse_video_timestamp(one.ts) for one in states]
        if times != sorted(times) or any(time > transcript.length for time in times):
            found.append(f"the states of {owner} are out of order or beyond the video")
    return found


def find_loose_facts(transcript: Transcript) -> list[str]:
    """The facts that belong to no event or begin outside of theirs, and the conclusions that rest on no fact."""
    events = {one.event_id: one for one in transcript.video_description.entities.events}
    ids = [fact.id for fact in transcript.facts]
    found = [f"fact {id} is given twice" for id in _repeated_ids(ids)]
    for fact in transcript.facts:
        event = events.get(fact.event_id or "")
        if fact.event_id and event is None:
            found.append(f"fact {fact.id} is of the unknown event {fact.event_id}")
        begin, end = (parse_video_timestamp(event.ts_start), parse_video_timestamp(event.ts_end)) if event else (0.0, 0.0)
        if not begin <= fact.ts_start <= end or not fact.ts_start <= fact.ts_end <= transcript.length:
            found.append(f"fact {fact.id} is outside of its event")
    missing = {id for one in transcript.inferred for id in one.because} - {*ids}
    return found + [f"a conclusion rests on the unknown fact {id}" for id in sorted(missing)]


def find_unknown_ids(described: VideoDescription) -> list[str]:
    """The ids that are mentioned and belong to nobody and nothing, and those that are given twice."""
    layout, entities = described.scene.layout, described.entities
    zones = [zone.zone_id for zone in layout.zones]
    known = [*zones, *(mark.landmark_id for mark in layout.landmarks), *entities.entity_ids()]
    events = [event.event_id for event in entities.events]
    mentioned = {id for event in entities.events for id in (*event.actors, *event.targets)}
    mentioned |= {owner for owner, _ in entities.entity_state_timelines.entity_rows()}
    mentioned |= {mark.zone_id for mark in layout.landmarks}
    changes = [one for _, states in entities.entity_state_timelines.entity_rows() for one in states]
    triggers = {id for one in changes for id in one.trigger_event_ids}
    triggers |= {caption.event_id for caption in described.captions.events}
    lost = [*sorted(mentioned - {*known}), *sorted(triggers - {*events})]
    return [f"'{id}' is given twice" for id in _repeated_ids(known + events)] + [f"there is no '{id}'" for id in lost]


def find_untimed_changes(described: VideoDescription) -> list[str]:
    """The changes of state that come before an event that triggers them has begun."""
    begins = {event.event_id: parse_video_timestamp(event.ts_start) for event in described.entities.events}
    return [
        f"a state of {owner} at {one.ts} is earlier than its event {id}"
        for owner, states in described.entities.entity_state_timelines.entity_rows()
        for one in states
        for id in one.trigger_event_ids
        if begins.get(id, 0.0) > parse_video_timestamp(one.ts)
    ]


def find_stated_inferences(transcript: Transcript) -> list[str]:
    """The conclusions that a caption or a description states as if they were seen."""
    described = transcript.video_description
    texts = [described.scene.summary, *described.captions.caption_texts()]
    texts += [one.description for one in described.entities.events]
    stated = [one.text for one in transcript.inferred if any(one.text in text for text in texts)]
    return [f"'{text}' is concluded, and stated" for text in stated]


def _repeated_ids(ids: Iterable[str]) -> list[str]:
    """The ids that occur more than once, sorted."""
    return sorted(id for id, count in Counter(ids).items() if count > 1)
