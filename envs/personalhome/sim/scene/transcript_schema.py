"""The schema of a video in words (PersonalHomeBench Appendix H): what agents and judges see of a transcript.

Invariants: times are written as `MM:SS.mmm`; a model never changes; nothing in it is inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated

from pydantic import ConfigDict, Field, StringConstraints

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
