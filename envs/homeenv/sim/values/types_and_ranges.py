"""Value types of attributes and arguments (HomeFlow A.1): their bounds, and the one way to write each of their values.

Two kinds of values have a part of their own: texts that tell a date, a time of day or both; and states that people name and
devices spell in several ways (`on` is `ON`, `true` and `1` elsewhere).

Invariants:
- `check_value` returns the canonical value, or raises `Refused` with a named rule.
- A canonical value passes `check_value` unchanged and is hashable. The same holds of the text of a moment.
- `sample_value` returns only canonical values.
- No value has more than `MOST_UNITS` units, however its lists are nested, and each type has a value.
- This is the one place that knows spellings of states. Shipped products write the word itself.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from functools import cached_property
from itertools import islice
from typing import Annotated, Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import Field, PlainSerializer, model_validator

from homerl.envs.core.model import Model
from homerl.envs.homeenv.sim.values.auditor import Refused

Format = Literal["date", "time", "datetime", "instant"]  # an instant is one moment everywhere, told in UTC
PATTERNS: dict[Format, str] = {
    "date": "YYYY-MM-DD",
    "time": "HH:MM:SS",
    "datetime": "YYYY-MM-DD HH:MM:SS",
    "instant": "YYYY-MM-DDTHH:MM:SS+00:00",
}
FIRST = datetime(2026, 1, 1)  # of the year from which moments are drawn


def canonical_moment(kind: Format, text: str, zone: str | None = None) -> str | None:
    """The one way to write a moment: `07:30:00` for `7:30`. An instant that names no zone is one of `zone`."""
    try:
        if kind == "time":
            hour, _, rest = text.partition(":")
            return time.fromisoformat(f"{hour:0>2}:{rest}").replace(tzinfo=None).isoformat("seconds") if rest else None
        if kind == "date":
            return date.fromisoformat(text).isoformat()
        moment = datetime.fromisoformat(text)
        if kind == "datetime":
            return moment.replace(tzinfo=None).isoformat(" ", "seconds")
        return (
            (moment if moment.tzinfo else moment.replace(tzinfo=time_zone_of(zone)))
            .astimezone(UTC)
            .isoformat("T", "seconds")
        )
    except (ValueError, OverflowError):
        return None


def draw_moment_text(kind: Format, rng: random.Random) -> str:
    """A moment of the year 2026, at a full minute."""
    moment = FIRST + timedelta(minutes=rng.randrange(365 * 24 * 60))
    parts = {"date": moment.date().isoformat(), "time": moment.time().isoformat()}
    return canonical_moment(kind, parts.get(kind, moment.isoformat())) or ""


def time_zone_of(name: str | None) -> tzinfo:
    """The time zone of a name; UTC for none, and on a machine that does not know the zone."""
    try:
        return ZoneInfo(name) if name else UTC
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return UTC


STATE = "state"  # the attribute that describes a part as a whole
SPELLINGS = {
    "on": {"on", "true", "1", "yes", "turn_on"},
    "off": {"off", "false", "0", "no", "turn_off"},
    "locked": {"locked", "lock"},
    "unlocked": {"unlocked", "unlock"},
    "open": {"open", "opened"},
    "closed": {"closed", "close"},
}
OPPOSITES = {"on": "off", "off": "on", "locked": "unlocked", "unlocked": "locked", "open": "closed", "closed": "open"}


def value_means_word(value: Any, word: str) -> bool:
    """Whether a value of a state says what the word says."""
    return value == word or (value is not None and str(value).lower() in SPELLINGS.get(word, ()))


def words_of_values(values: Sequence[Any]) -> dict[str, Any]:
    """The words that these values say, each with the first that says it. A word is none without its opposite."""
    found = {word: value for word in SPELLINGS for value in reversed(values) if value_means_word(value, word)}
    return {word: value for word, value in found.items() if OPPOSITES[word] in found}


TypeName = Literal["str", "bool", "int", "float", "hex", "enum", "list", "tuple", "dict"]
HEX = re.compile(r"#[0-9a-f]{6}")
NUMBERS = ("int", "float")
LARGEST = 1 << 63  # the largest number of any device
FINEST = 1 << 52  # below it, floats are fine enough to be rounded to a precision
SHOWN = 80  # characters of a value that messages quote
LONGEST = 10_000  # the longest text or list of any device
DEEPEST = 10  # lists in lists, and the like
MOST_UNITS = 30_000  # of one value: its items, and those of its items
CHARACTERS = 10  # of a text, which count as one unit
UNIT_SIGNS = {  # of the units that devices everywhere have
    "celsius": "°C", "percentage": "%", "lux": "lx", "kelvin": "K", "second": "s", "minute": "min", "hour": "h",
}  # fmt: skip


# A number, written as an integer if it is whole.
Bound = Annotated[float, PlainSerializer(lambda bound: int(bound) if bound.is_integer() else bound)]


class ValueType(Model):
    """One type with its bounds. `range` bounds numbers, or the length of str and list (inclusive)."""

    type: TypeName
    range: tuple[Bound, Bound] | None = None
    options: tuple[str | int | float | bool, ...] | None = None
    items: tuple[ValueType, ...] | None = Field(None, description="tuple: one a place; list: one; dict: named")
    name: str | None = None
    precision: float | None = Field(None, ge=1e-9, le=1e9, description="numbers are rounded to a multiple of this")
    unit: str | None = None
    nullable: bool = Field(False, description="whether the value may be null (`None` in code): not known, or not set")
    format: Format | None = Field(  # home files are older than this key and the next
        None, exclude_if=lambda format: format is None, description="of a str: a moment, written in one way"
    )
    zone: str | None = Field(
        None, exclude_if=lambda zone: zone is None, description="in which an instant is, where its text names no zone"
    )

    @model_validator(mode="after")
    def _check_coherence(self) -> ValueType:
        if self.type == "enum" and not self.options:
            raise ValueError("an enum needs options")
        if self.options is not None and not self.options:
            raise ValueError("options must not be empty")
        if self.format and (self.type != "str" or self.options):
            raise ValueError(f"format {self.format}: only a str without options is a moment")
        if self.precision and self.type == "int" and self.precision % 1:
            raise ValueError(f"precision {self.precision}: an int is rounded to whole numbers")
        if self.range:
            self._check_range(*self.range)
        self._check_items()
        for option in self.options or ():
            try:
                self.check_value(option, "option")
            except Refused as refused:
                raise ValueError(f"options: {refused.message}") from None
        if len(self._option_values) < len(self.options or ()):
            raise ValueError(f"options {list(self.options or ())}: one is given twice")
        return self

    def _check_range(self, low: float, high: float) -> None:
        """Raise `ValueError` unless the range fits the type and both of its bounds are possible values."""
        if self.type not in (*NUMBERS, "str", "list"):
            raise ValueError(f"type {self.type} takes no range")
        if not low < high:
            raise ValueError(f"range {[low, high]}: the lower bound must be below the upper one")
        least, most = (-LARGEST, LARGEST) if self.type in NUMBERS else (0, LONGEST)
        if not least <= low or not high <= most:
            raise ValueError(f"range {[low, high]}: the bounds of type {self.type} lie in {least}..{most}")
        if self.type != "float" and (low % 1 or high % 1):
            raise ValueError(f"range {[low, high]}: the bounds of type {self.type} are whole numbers")
        if self.precision and any(self._round_to_precision(bound) != bound for bound in (low, high)):
            raise ValueError(f"range {[low, high]}: the bounds must be multiples of the precision {self.precision}")

    def _check_items(self) -> None:
        if self.type in ("tuple", "list", "dict") and not self.items:
            raise ValueError(f"type {self.type} needs items")
        if self.type == "list" and len(self.items or ()) != 1:
            raise ValueError("a list has one item type")
        if self.type == "dict":
            names = [item.name for item in self.items or ()]
            if not all(names):
                raise ValueError("every item of a dict needs a name")
            if len(set(names)) < len(names):
                raise ValueError(f"items {names}: a name is used twice")
        if self.nesting_depth > DEEPEST:
            raise ValueError(f"items: {self.nesting_depth} levels of items, and {DEEPEST} are allowed: write it with fewer")
        if self.least_units > MOST_UNITS:
            what = f"with its items the smallest value has {self.least_units:,} parts, and {MOST_UNITS:,} are allowed"
            raise ValueError(f"range: {what}: give a range from a lower bound")

    @cached_property
    def state_words(self) -> dict[str, Any]:
        """The words for states that its values say, such as `on`, each with the value; none if it has more than a few."""
        low, high = self.range or (0, 0)
        few = (int(low), int(high)) if self.type == "int" and high - low == 1 else ()
        return words_of_values(self.options or ((False, True) if self.type == "bool" else few))

    def word_of_value(self, value: Any) -> Any:
        """The word that a value says, or the value."""
        return next((word for word in self.state_words if value_means_word(value, word)), value)

    def value_of_word(self, word: str) -> Any:
        """The value that says a word, or the word."""
        return self.state_words.get(word, word)

    @cached_property
    def nesting_depth(self) -> int:
        """How many levels of items a value has: 0 for a number or a text."""
        return max((1 + item.nesting_depth for item in self.items or ()), default=0)

    @cached_property
    def least_units(self) -> int:
        """The units of the smallest value."""
        return self._count_type_units(0, [item.least_units for item in self.items or ()])

    @cached_property
    def most_units(self) -> int:
        """The units of the largest value that the bounds allow; `check_value` allows `MOST_UNITS`."""
        return self._count_type_units(1, [item.most_units for item in self.items or ()])

    def _count_type_units(self, end: int, inner: list[int]) -> int:
        """The units of a value with the least (0) or the greatest (1) length, if its items have `inner`."""
        length = int((self.range or (0, LONGEST))[end])
        match self.type:
            case _ if self.options:
                return max(map(count_units, self.options))
            case "str":
                return 1 + length // CHARACTERS
            case "list":
                return 1 + length * sum(inner)
        return 1 + sum(inner) + sum(2 + count_units(item.name) for item in self.items or () if self.type == "dict")

    @cached_property
    def _option_values(self) -> dict[Any, Any]:
        """The options by themselves: they are found at once, however many they are."""
        # A dict and no set: a lookup gives the option itself, whose type tells 1 from True and 1.0.
        return {option: option for option in self.options or ()}

    def describe_type(self) -> str:
        """The type in a few words (`int 1..100 percentage`), for messages and for specifications shown to agents."""
        bounds = f" {_number_text(self.range[0])}..{_number_text(self.range[1])}" if self.range else ""
        if self.format:
            bounds = f" {PATTERNS[self.format]}"
        if self.options:
            bounds = " one of " + ", ".join(map(repr, self.options))
        inner = f"({', '.join(item.describe_type() for item in self.items)})" if self.items else ""
        return f"{self.type}{inner}{bounds}{' ' + self.unit if self.unit else ''}{' or None' if self.nullable else ''}"

    def check_value(self, value: Any, what: str = "value") -> Any:
        """The canonical form of `value`. Raises `Refused` with the rule `wrong_type` or `out_of_range`.

        `what` is the name of the value in the message.
        """
        if type(value) is str and self.options is not None and value in self._option_values and self.type in ("str", "enum"):
            return value  # a fast path: most values are options or booleans
        if type(value) is bool and self.type == "bool" and self.options is None:
            return value
        if value is None and self.nullable:
            return None
        value = self._typed_value(value, what)
        if self.options is not None and value not in self._option_values:
            raise Refused(
                "out_of_range", f"{what} = {quote_value(value)} is not one of {', '.join(map(repr, self.options))}"
            )
        if self.range is not None:
            size = value if self.type in NUMBERS else len(value)
            if not self.range[0] <= size <= self.range[1]:
                low, high = map(_number_text, self.range)
                raise Refused("out_of_range", f"{what} = {quote_value(value)} is outside {low}..{high}")
        return value

    def nearest_in_range(self, value: Any) -> Any:
        """The number of the range that is nearest to a number; any other value as it is."""
        if self.range is None or not isinstance(value, (int, float)) or self.range[0] <= value <= self.range[1]:
            return value
        bound = self.range[0] if value < self.range[0] else self.range[1]
        return int(bound) if self.type == "int" else bound

    def _typed_value(self, value: Any, what: str) -> Any:
        kind = self.type
        if kind in NUMBERS and isinstance(value, (int, float)) and LARGEST < abs(value) < math.inf:
            raise Refused("out_of_range", f"{what} = {quote_value(value)} is too large")
        if kind in ("str", "list", "dict") and isinstance(value, (str, list, tuple, dict)) and len(value) > LONGEST:
            raise Refused("out_of_range", f"{what} = {quote_value(value)} is too long")
        if self.items and self.most_units > MOST_UNITS and count_units(value) > MOST_UNITS:
            raise Refused("out_of_range", f"{what} = {quote_value(value)} holds too much")
        if kind == "bool" and isinstance(value, bool):
            return value
        if kind == "int" and isinstance(value, int) and not isinstance(value, bool):
            return self._round_to_precision(value)
        number = isinstance(value, (int, float)) and not isinstance(value, bool)  # a bool is an int in Python
        if kind == "float" and number and math.isfinite(value):
            return self._round_to_precision(float(value)) + 0.0  # turns -0.0 into 0.0: equal values need equal hashes
        if self.format and isinstance(value, str):
            return self._canonical_moment(value, what)
        if kind in ("str", "enum") and isinstance(value, str):
            return refuse_lone_surrogates(value)
        if kind == "enum" and isinstance(value, (int, float)) and type(self._option_values.get(value)) is type(value):
            return value
        if kind == "hex" and isinstance(value, str) and HEX.fullmatch(value.lower()):
            return value.lower()
        items = self.items or ()  # a tuple, list or dict has them
        if kind == "tuple" and isinstance(value, (tuple, list)) and len(value) == len(items):
            return tuple(item.check_value(part, f"{what}[{i}]") for i, (item, part) in enumerate(zip(items, value)))
        if kind == "list" and isinstance(value, (tuple, list)):
            return tuple(items[0].check_value(part, f"{what}[{i}]") for i, part in enumerate(value))
        if kind == "dict" and (pairs := _as_dict(value)) is not None:
            return self._typed_dict(pairs, what)
        raise Refused("wrong_type", f"{what} = {quote_value(value)} is not {self.describe_type()}")

    def _canonical_moment(self, text: str, what: str) -> str:
        if self.format is None or (moment := canonical_moment(self.format, text, self.zone)) is None:
            raise Refused("out_of_range", f"{what} = {quote_value(text)} is not {self.describe_type()}")
        return moment

    def _typed_dict(self, pairs: dict[Any, Any], what: str) -> tuple[tuple[str | None, Any], ...]:
        items = self.items or ()
        names = {item.name for item in items}
        if len(pairs) != len(names) or not all(name in pairs for name in names):
            raise Refused("wrong_type", f"{what} needs exactly the keys {', '.join(sorted(map(str, names)))}")
        return tuple((item.name, item.check_value(pairs[item.name], f"{what}.{item.name}")) for item in items)

    def _round_to_precision(self, value: float) -> float:
        if self.precision is None:
            return value
        steps = value / self.precision
        # Rounded twice, because 3 * 0.1 is 0.30000000000000004.
        rounded = round(round(steps) * self.precision, 10) if abs(steps) < FINEST else value  # floats are coarser there
        return int(rounded) if self.type == "int" else rounded

    def sample_value(self, rng: random.Random) -> Any:
        """A canonical value, drawn uniformly from the options or the range. Texts and lists have their least length.

        It is never None.
        """
        if self.options is not None:
            return self.check_value(rng.choice(self.options))
        low, high = self.range or (0, 100)
        items = self.items or ()
        match self.type:
            case "bool":
                return rng.random() < 0.5
            case "int":
                return self.check_value(rng.randint(math.ceil(low), math.floor(high)))
            case "float":
                drawn = self._round_to_precision(round(rng.uniform(low, high), 1))
                return self.check_value(min(max(drawn, low), high))
            case "hex":
                return f"#{rng.randrange(1 << 24):06x}"
            case "str" if self.format:
                return draw_moment_text(self.format, rng)
            case "str":
                return "".join(rng.choice("abcdefghij") for _ in range(max(1, int(low))))
            case "list":
                return tuple(items[0].sample_value(rng) for _ in range(int(low)))
            case "tuple":
                return tuple(item.sample_value(rng) for item in items)
            case "dict":
                return tuple((item.name, item.sample_value(rng)) for item in items)
        raise AssertionError(self.type)  # `TypeName` has no other


def refuse_lone_surrogates(text: str) -> str:
    """The text unchanged. Raises `Refused` if it has a lone surrogate (half a character), which no file can hold."""
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise Refused("wrong_type", f"{quote_value(text)} holds half a character") from None
    return text


def count_units(value: Any) -> int:
    """The size of a value: its items and theirs, and its texts. What contains itself has `MOST_UNITS + 1` or more."""
    count, left = 1, [value]
    while left and count <= MOST_UNITS:
        part = left.pop()
        if isinstance(part, str):
            count += len(part) // CHARACTERS
        elif isinstance(part, (list, tuple, dict)):
            some = part if not isinstance(part, dict) else [one for pair in part.items() for one in pair]
            count += len(some)
            left += some[: MOST_UNITS + 1]
    return count


def clip_text(text: str, longest: int = 200) -> str:
    """The text, cut to `longest` characters. A cut text ends in ` ...`."""
    return text if len(text) <= longest else text[: longest - 4] + " ..."


def quote_value(value: Any) -> str:
    """A value as messages quote it: at most `SHOWN` characters, without details of host objects.

    No more of the value is read than is shown, so a value that contains itself is no problem.
    """
    text = "".join(islice(_quoted_pieces(value), SHOWN + 1))
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}..."


def _quoted_pieces(value: Any) -> Iterator[str]:
    """The text of a value in pieces. It is lazy, because a value may contain itself or grow exponentially with depth."""
    if value is None or type(value) in (bool, float):
        yield repr(value)
    elif type(value) is int:
        yield repr(value) if abs(value) < 10**SHOWN else "a number too long to show"
    elif isinstance(value, str):
        yield repr(value[: SHOWN + 1])
    elif isinstance(value, (list, tuple)):
        yield "(" if isinstance(value, tuple) else "["
        for i, part in enumerate(value):
            if i:
                yield ", "
            yield from _quoted_pieces(part)
        yield ("," if len(value) == 1 else "") + ")" if isinstance(value, tuple) else "]"
    elif isinstance(value, dict):
        yield "{"
        for i, (key, part) in enumerate(value.items()):
            if i:
                yield ", "
            yield from _quoted_pieces(key)
            yield ": "
            yield from _quoted_pieces(part)
        yield "}"
    else:
        yield "an object"


def _as_dict(value: Any) -> dict[Any, Any] | None:
    """A dict from a dict, or from the (text, value) pairs that stand for one in values and files; None for anything else."""
    if isinstance(value, dict):
        return value
    if not isinstance(value, (list, tuple)):
        return None
    pairs = all(isinstance(pair, (list, tuple)) and len(pair) == 2 and isinstance(pair[0], str) for pair in value)
    return dict(value) if pairs else None


def _number_text(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else str(value)
