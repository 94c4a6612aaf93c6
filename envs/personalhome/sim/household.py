"""A household as data: its people, pets, memories, recent events and home (PersonalHomeBench Appendix H).

Everything that a text says is also a typed fact, so that questions can be computed and texts are only shown.
`household_view.py` gives the paper's schema, which agents and judges see; the typed facts are never shown.

Invariants: a household is complete in itself and never changes; ids that facts and texts mention exist; what the agent
changes lives in the environment, not here.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import Any, Literal, TypeVar

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.envs.core.state_encoding import written_as
from homerl.envs.personalhome.sim.scene.transcript import Transcript

Occupancy = Literal["single occupant", "family", "non-related roommates"]
Animal = Literal["cat", "dog", "hamster", "lizard", "guinea pig", "rabbit", "bird", "fish", "turtle"]
Gender = Literal["Male", "Female"]
Day = TypeVar("Day", bound=date)


def same_day_in_year(day: Day, year: int) -> Day:
    """The same day of another year. 29 February becomes the 28th, even in a leap year."""
    return day.replace(year=year, day=min(day.day, 28) if day.month == 2 else day.day)


def years_between(first: date, second: date) -> int:
    """Whole years from a date to a later one."""
    return second.year - first.year - ((second.month, second.day) < (first.month, first.day))


@written_as("Pet", name="name", animal="animal", age="age")
class Pet(Model):
    """An animal of the household. `age` is in whole years."""

    name: str
    animal: Animal
    age: int = Field(ge=0)


@written_as("Taste", kind="kind", what="what", low="low", high="high", hours="hours", room="room")
class Taste(Model):
    """A stated preference. `kind` and `what` are keys of `vocabulary.yaml`.

    `low` and `high` bound a wanted value (degrees Celsius, percent); `hours` are the local hours (from, to) in which it
    counts, over midnight if the first is larger; `room` restricts it to a room.
    """

    kind: str
    what: str | None = None
    low: float | None = None
    high: float | None = None
    hours: tuple[int, int] | None = None
    room: str | None = None


@written_as("Habit", activity="activity", days="days", hour="hour", room="room", appliance="appliance")
class Habit(Model):
    """What a person does regularly: an activity, on weekdays (0 is Monday), at an hour, in a room, with an appliance."""

    activity: str
    days: tuple[int, ...]
    hour: int = Field(ge=0, le=23)
    room: str | None = None
    appliance: str | None = None


@written_as("LifeEvent", date="date", kind="kind", description="description")
class LifeEvent(Model):
    """A major event of a life: when, what kind (a key of `vocabulary.yaml`), and in words."""

    date: date
    kind: str
    description: str


@written_as(
    "Member", member_id="member_id", name="name", role="role", birthday="birthday", gender="gender",
    occupation="occupation", persona="persona", hobbies="hobbies", lifestyle="lifestyle", preference="preference",
    major_events="major_events", traits="traits", tastes="tastes", habits="habits",
)  # fmt: skip
class Member(Model):
    """A person of the household. `traits` are keys of `vocabulary.yaml`, such as `allergy`.

    Age is computed from `birthday`. `lifestyle` and `preference` say `habits` and `tastes` in words.
    """

    member_id: str
    name: str
    role: str
    birthday: date
    gender: Gender
    occupation: str
    persona: str
    hobbies: tuple[str, ...]
    lifestyle: str
    preference: str
    major_events: tuple[LifeEvent, ...] = ()
    traits: tuple[str, ...] = ()
    tastes: tuple[Taste, ...] = ()
    habits: tuple[Habit, ...] = ()

    def age(self, at: date) -> int:
        """The age in whole years on a day."""
        return years_between(self.birthday, at)


@written_as(
    "Fact", kind="kind", who="who", others="others", pet="pet", appliance="appliance", sensor="sensor", room="room",
    what="what", value="value", unit="unit",
)  # fmt: skip
class Fact(Model):
    """What a memory or an event says, as one row. `kind` and `what` are keys of `vocabulary.yaml`.

    `who` did it or to whom it happened, `others` took part; `pet` is a pet's name, `appliance` and `sensor` are names of
    devices, `room` is a room's id; `value` is a number in `unit`. Which of them a kind has stands in `vocabulary.yaml`.
    """

    kind: str
    who: str | None = None
    others: tuple[str, ...] = ()
    pet: str | None = None
    appliance: str | None = None
    sensor: str | None = None
    room: str | None = None
    what: str | None = None
    value: float | None = None
    unit: str | None = None


@written_as(
    "Memory", memory="memory", subjects="subjects", additional_information="additional_information", time="time",
    fact="fact",
)  # fmt: skip
class Memory(Model):
    """Something that happened or was said, at a time of the home's clock. `additional_information` says nothing new."""

    memory: str
    subjects: tuple[str, ...]
    additional_information: str
    time: datetime
    fact: Fact


class Event(Model):
    """An event of the last day. `sensors` and `appliances` are the names of the devices that it concerns."""

    time: datetime
    description: str
    sensors: tuple[str, ...] = ()
    appliances: tuple[str, ...] = ()
    fact: Fact


class Outdoor(Model):
    """The weather outside: millimetres an hour of rain and snow, share of sunshine, degrees Celsius, metres a second."""

    rain: float
    snow: float
    sunny: float
    temperature: float
    wind: float


class Indoor(Model):
    """The air inside: dust (PM2.5, micrograms per cubic metre), humidity in percent, odour from 0 to 5, degrees Celsius."""

    dust: float
    humidity: float
    odor: float
    temperature: float


class Weather(Model):
    """The weather now, outside and inside."""

    outdoor: Outdoor
    indoor: Indoor


class Context(Model):
    """The present situation: events of the last day in the order of time, and the weather.

    `situations` are keys of `situations.yaml`: what is going on that a good plan settles, the most urgent first.
    """

    events: tuple[Event, ...]
    weather: Weather
    situations: tuple[str, ...] = ()


class Household(Model):
    """A household. `home` is a HomeEnv home as plain data, with all appliances and sensors; a device's did is its name.

    `transcript` describes a video of the present situation.
    """

    format: Literal[1] = 1
    household_id: str
    language: str = "en"
    occupancy_type: Occupancy
    layout: str
    pets: tuple[Pet, ...] = ()
    members: tuple[Member, ...] = Field(min_length=1, max_length=5)
    home: dict[str, Any]
    memories: tuple[Memory, ...]
    context: Context
    transcript: Transcript | None = None

    @property
    def now(self) -> datetime:
        """The home's clock at the start."""
        return datetime.fromtimestamp(self.home["clock"], UTC).replace(tzinfo=None)
