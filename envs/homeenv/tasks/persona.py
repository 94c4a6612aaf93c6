"""The person of a HomeEnv blueprint, as an LLM user plays it: who it is, what it perceives, and what it must not say.

Invariants:
- The person knows how rooms feel and which lamps are lit. It never sees an id, a condition or a measured value.
- What the user must not say is decided by rules alone, which are pure functions of its words and the episode.
- A contradiction is reported only if it is certain. So a user may name what it was told, may object to what the assistant
  brought up, and may use a looser name for its own device.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache

from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.devices.rooms import Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.types_and_ranges import value_means_word
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Intent
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.play.episode import Episode
from homerl.play.words.user_manner import Manner, WordScale, load_manner

CODE = re.compile(
    r"[`{}]|[=!<>]=|=>|\w ?= ?\w|</?\w+>|\b\w+\((?!s\))[^)\s]*\)|\b[a-z]+(?:_[a-z0-9]+)+\b|\b(?-i:[a-z]{2,}[A-Z][a-z]\w*)"
    r"|\b\w+ ?: ?(?:true|false)\b|\b(?:state|status|power|mode) ?: ?(?:on|off)\b",
    re.I | re.A,
)
# No part of a word, of a decimal, of a time of day ("7:30", "7 pm") or of an ordinal ("2nd").
DIGITS = re.compile(r"(?<![\w.:])\d+(?:\.\d+)?(?!\d|:\d|[.]\d|\s?[ap]\.?m\b|st\b|nd\b|rd\b|th\b)", re.I | re.A)
THOUSANDS = re.compile(r"(?<=\d),(?=\d{3})")  # the comma of "1,500"


def replace_device_ids(text: str, home: Home) -> str:
    """The agent's text with each device id replaced by the device's room and name."""
    named = {did: f"{device.room.name} {device.name}" for did, device in home.plan.devices_by_did.items()}
    return re.sub(r"\w+", lambda match: named.get(match[0], match[0]), text, flags=re.A)


def texts_told_to_person(blueprint: Blueprint, intents: Sequence[Intent]) -> str:
    """Everything that the person was told, as one text: the intents' wordings, the scene, the memory and the history."""
    wishes = [text for intent in intents for text in (intent.clarification, *intent.queries)]
    wishes += [part.text for intent in intents for part in intent.course]
    return "\n".join([*wishes, blueprint.scene, *blueprint.memory, *(past.content for past in blueprint.history)])


def find_leaked_word(text: str, own: str, home: Home, words: Manner) -> str | None:
    """The first word of a text that only a simulator would say, or None.

    Such words are ids, code, names of parameters, and words about being a simulator. Words that the person was told are
    allowed.
    """
    ids = (word for form in (r"\w+", r"\d+") for word in re.findall(form, text, re.A) if word in home.plan.devices_by_did)
    code = (match[0] for match in CODE.finditer(text))
    # The paths of attributes and services of components, as code writes them: `light.brightness`.
    specs = {device.spec.name: device.spec for device in home.plan.devices}.values()
    paths = {path for spec in specs for path in (*spec.attribute_index, *spec.service_index) if "." in path}
    dotted = (path for path in paths if path.lower() in text.lower())
    role = (match[0] for pattern in words.out_of_role for match in re.finditer(pattern, text, re.I))
    return next((word for part in (ids, code, dotted, role) for word in part if word.lower() not in own.lower()), None)


def _is_repetition(text: str, episode: Episode) -> bool:
    """Whether the text repeats the user's last utterance although the turn in between changed nothing but the clock."""
    last = next((m["content"] for m in reversed(episode.messages) if m["role"] == "user"), None)
    if episode.turn == 0 or last is None or re.findall(r"\w+", last.lower()) != re.findall(r"\w+", text.lower()):
        return False
    facts = [step.facts for step in episode.steps if step.facts.turn == episode.turn]
    return all(f.progress_before == f.progress_after and set(f.changed) <= {"clock"} for f in facts)


def find_contradiction(text: str, own: str, episode: Episode, intents: Sequence[Intent], words: Manner) -> str | None:
    """What the text says against the user's wishes: a device, a number, or the opposite of a wish; None for nothing.

    If the text objects or corrects itself, it may also name what the assistant said, and a wrong number beside a right one.
    """
    home, said = home_situation_of(episode).home, numbers_in_text(text, words)
    # The person knows the numbers that it was told, and those in the intents' plans and conditions.
    told = numbers_in_text(own, words) | {value for intent in intents for value in _intent_numbers(intent)}
    if not _is_found_in(words.objects, text):
        if device := _foreign_device(text, own, home, intents):
            return device
        return f"{min(said - told):g}" if said - told else _opposite_word(text, own, intents, words)
    spoken = "\n".join(episode.spoken_words_of(m).text for m in episode.messages if m["role"] == "assistant")
    heard = replace_device_ids(spoken, home)
    named = any(_has_word(name, own) for name in mentioned_devices(text, home))
    if not named and (device := _foreign_device(text, f"{own}\n{heard}", home, intents)):
        return device
    unheard = said - told - numbers_in_text(heard, words)
    return f"{min(unheard):g}" if unheard and not said & told else None


def _foreign_device(text: str, own: str, home: Home, intents: Sequence[Intent]) -> str | None:
    """The name of a device in the text that is not one of the user's own, or None.

    A device of the same category may be named if the text does not place it in another room. An own device's name with a
    wrong room counts as foreign.
    """
    dids = {did for intent in intents for did in (*intent.devices, *(did for did, _ in intent.reads))}
    mine = [device for device in home.plan.devices if device.did in dids]
    for name in mentioned_devices(text, home) if mine else ():
        called = [device for device in home.plan.devices if device.name == name]
        here = [device for device in called if _has_word(device.room.name, text)]
        if _has_word(name, own):
            if here and not any(_has_word(device.room.name, own) for device in here):
                return name
        elif not any(_can_be_meant(device, own_device, text) for device in here or called for own_device in mine):
            return name
    return None


def _can_be_meant(device: Device, mine: Device, text: str) -> bool:
    """Whether the user may mean its own device `mine` by `device`: it is the same, or of its category in no other room."""
    if device is mine:
        return True
    return device.spec.category == mine.spec.category and (device.room is mine.room or not _has_word(device.room.name, text))


def mentioned_devices(text: str, home: Home) -> Iterator[str]:
    """Names of devices in a text. Where names overlap, the longest is used."""
    for name in sorted({device.name for device in home.plan.devices}, key=len, reverse=True):
        if _has_word(name, text):
            yield name
            text = _word_pattern(name).sub(" ", text)


def _intent_numbers(intent: Intent) -> Iterable[float]:
    """The numbers of the intent's plan, conditions and automation."""
    calls = (*intent.plan, *(intent.automation.actions if intent.automation else ()))
    yield from (abs(float(arg)) for call in calls for arg in call.args if isinstance(arg, (int, float)))
    yield from (float(digits) for text in intent.conditions for digits in DIGITS.findall(text))


def numbers_in_text(text: str, words: Manner) -> set[float]:
    """The absolute values of the numbers in a text: all digits, and number words from ten up."""
    pattern, values = words.numbers.pattern_and_values
    digits = DIGITS.findall(THOUSANDS.sub("", text))
    return {abs(float(number)) for number in digits} | {values[word.lower()] for word in pattern.findall(text)}


def _opposite_word(text: str, own: str, intents: Sequence[Intent], words: Manner) -> str | None:
    """The word for the opposite of what the person wants for its only device, or None.

    A text that also says the wanted side is no contradiction.
    """
    if len({did for intent in intents for did in intent.devices}) > 1:
        return None
    for pair in words.opposites:
        for said, wanted in (pair, pair[::-1]):
            match = re.search(said, text, re.I)
            if match and not _is_found_in(wanted, text) and _is_found_in(wanted, own) and not _is_found_in(said, own):
                return match[0]
    return None


def _is_found_in(pattern: str, text: str) -> bool:
    return re.search(pattern, text, re.I) is not None


@lru_cache(maxsize=4096)
def _word_pattern(word: str) -> re.Pattern[str]:
    """A pattern for a word: a whole word in ASCII, and any occurrence in a script without spaces."""
    return re.compile(rf"\b{re.escape(word)}\b" if word.isascii() else re.escape(word), re.I)


def _has_word(word: str, text: str) -> bool:
    return bool(_word_pattern(word).search(text))


@dataclass(frozen=True)
class HomePersona:
    """Implements `worlds.contract.Persona`."""

    episode: Episode

    def role(self, words: Manner) -> str:
        """The scene, and the person's name, age, health and habits."""
        blueprint = home_situation_of(self.episode).blueprint
        profile = blueprint.profile
        return words.role.format(
            scene=blueprint.scene,
            name=profile.name,
            age=profile.age,
            health=profile.health,
            habits=words.comma.join(profile.habits),
        )

    def notices(self, words: Manner) -> str:
        """The air and the lit lamps in the rooms of the person's devices."""
        situation = home_situation_of(self.episode)
        home, devices = situation.home, situation.home.plan.devices_by_did
        rooms = {devices[did].room.id: devices[did].room for did in sorted(situation.blueprint.changeable_devices)}
        return "\n".join(_describe_room(home, room, words) for room in rooms.values()) or words.unremarkable

    def overhears(self, text: str) -> str:
        """The agent's text without ids, see `replace_device_ids`."""
        return replace_device_ids(text, home_situation_of(self.episode).home)

    def fault(self, text: str, intents: Sequence[Intent]) -> tuple[str, str] | None:
        """(reason, explanation) if the user must not say this while these intents are open, else None."""
        words, situation = load_manner(self.episode.blueprint.language), home_situation_of(self.episode)
        own = texts_told_to_person(situation.blueprint, intents)
        if leaked := find_leaked_word(text, own, situation.home, words):
            return "leak", f"the user said {leaked!r}, which a person would not"
        if _is_repetition(text, self.episode):
            return "repetition", "the user said the same again though nothing had changed"
        if named := find_contradiction(text, own, self.episode, intents, words):
            return "contradiction", f"the user named {named!r}, which is not what it wants"
        return None

    def meant(self, text: str, intents: Sequence[Intent]) -> Intent | None:
        """The intent whose devices the text names, if there is exactly one such intent."""
        home = home_situation_of(self.episode).home
        named, devices = set(mentioned_devices(text, home)), home.plan.devices_by_did
        matching = [intent for intent in intents if any(devices[did].name in named for did in intent.devices)]
        return matching[0] if len(matching) == 1 else None

    def on_topic(self, text: str, intent: Intent) -> bool | None:
        """Whether a text names a device, a room or a value of the intent; one word of a name suffices.

        None if the intent has neither devices nor values.
        """
        plan = home_situation_of(self.episode).home.plan.devices_by_did
        calls = intent.automation.actions if intent.automation else ()
        dids = {*intent.devices, *(did for did, _ in intent.reads), *(call.did for call in calls)}
        names = {
            word for did in dids & plan.keys() for name in (plan[did].name, plan[did].room.name) for word in name.split()
        }
        values = set(_intent_numbers(intent))
        if not (names or values):
            return None
        said = numbers_in_text(text, load_manner(self.episode.blueprint.language))
        return any(_has_word(word, text) for word in names) or not values.isdisjoint(said)


def _describe_room(home: Home, room: Room, words: Manner) -> str:
    felt = []
    for path in ("temperature", "humidity", "brightness"):
        scale: WordScale = getattr(words.feels, path)
        value = home.read_value(room.id, path)
        felt.append(next((word for mark, word in scale if value < mark), scale[-1][1]))
    lit = []
    for device in home.find_devices(room.id):
        lamp = "state" if device.spec.category == "light" else "light.state"  # the lamp may be part of another device
        lit += [device.name] if value_means_word(home.state_of(device.did).get(lamp), "on") else []
    lamps = words.lamps.format(names=words.comma.join(lit)) if lit else ""
    return words.room.format(room=room.name, air=words.comma.join(filter(None, felt)), lamps=lamps)
