"""The transcript of a video of a household: its schema, and beside it the typed facts and what follows from them.

Invariants:
- Times are in order and within the length of the video. Events, captions and changes of state name entities and events that
  exist.
- Every change of state has a time and the events that caused it.
- `facts` are what is seen or heard. `inferred` is what may be concluded from them. No caption holds an inferred text.
- Agents and judges see `video_description` alone.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import PurePath
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.envs.personalhome.sim.scene.transcript_schema import VideoDescription, parse_video_timestamp

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

    def to_shown_json(self) -> dict[str, Any]:
        """The paper's schema as plain data: what agents may see of it."""
        return self.model_dump(mode="json", by_alias=True, include={"datapoint_id", "video_path", "video_description"})

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
