"""What a sentence means to Home Assistant's sentence matcher, in a home.

`hassil` matches the sentence against those of `home-assistant-intents`. What the recognised intent does is that of
`envs/homeenv/sim/assist`, whose tools do the same. Like Home Assistant, it has no dialogue, memory or conditions.

Invariant: a sentence that is not recognised, or that means nothing in the home, makes no call.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.sim.assist.assist_tools import offered_assist_tools
from homerl.envs.homeenv.sim.assist.entities_of_home import (
    AssistEntity,
    EntityCall,
    areas_of_plan,
    entities_of_plan,
    floors_of_plan,
)
from homerl.envs.homeenv.sim.assist.intents import (
    EntityConstraints,
    IntentFailed,
    NoMatch,
    calls_of_intent,
    match_entities,
    match_intent_targets,
    read_intent_slots,
)
from homerl.envs.homeenv.sim.assist.value_translation import translation_table
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolset import Limits
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.blueprint import Call

try:
    from hassil import Intents, RecognizeResult, recognize_best
    from hassil.intents import TextSlotList
    from home_assistant_intents import get_intents
except ModuleNotFoundError as missing:
    what = f"the package {missing.name} is not installed"
    raise InputError(what, where="hassil", remedy="pip install 'homerl[serve]'") from None


def calls_of_sentence(home: Home, said: str, language: str, placed: bool = True) -> list[Call]:
    """The service calls that a sentence means in a home. `placed` says whether it is about where the person speaks."""
    result = recognise_sentence(home, said, language, placed)
    tool = result and tool_of_intent(result.intent.name)
    if not result or not tool:
        return []
    given = {name: slot.value for name, slot in result.entities.items()}
    if tool not in translation_table().tools:
        return _calls_of_own_tool(home, tool, given)
    try:
        slots = read_intent_slots(tool, given)
        found = match_intent_targets(home, tool, slots).entities
        return [_call_of_step(one.device, step) for one in found for step in calls_of_intent(home, tool, one, slots.values)]
    except (IntentFailed, Refused):
        return []


class _NotingHome(Home):
    """A home that notes the calls of its services in `noted`."""

    __slots__ = ("noted",)
    noted: list[Call]

    @classmethod
    def copy_of_home(cls, home: Home) -> _NotingHome:
        twin = cls(home.plan, home.values, home.clock)
        twin.noted = []
        return twin

    def call(self, did: str, service: str, args: Sequence[Any] = (), kwargs: Mapping[str, Any] | None = None) -> Any:
        step = EntityCall(service, tuple(args), kwargs or {})
        self.noted.append(_call_of_step(self.plan.devices_by_did[did], step))
        return super().call(did, service, args, kwargs)


def _calls_of_own_tool(home: Home, tool: str, given: Mapping[str, Any]) -> list[Call]:
    """The service calls of a tool that is no table's: of the home's lists, of rooms to clean, of what speaks; none if it is
    not offered or is refused."""
    twin, offered = _NotingHome.copy_of_home(home), {one.name: one for one in offered_assist_tools(home)}
    if tool not in offered or offered[tool].run(twin, given, Limits()).refusal:
        return []
    return twin.noted


def intent_of_sentence(home: Home, said: str, language: str) -> str | None:
    """The name of the intent that Home Assistant's sentences see in a sentence; None if they do not know it."""
    result = recognise_sentence(home, said, language, placed=True)
    return result.intent.name if result else None


@dataclass(frozen=True)
class HeardQuestion:
    """What a sentence asks: the ids of the devices that it is about, and the answer in the home as it is."""

    devices: frozenset[str]
    answer: str


def question_of_sentence(home: Home, said: str, language: str, placed: bool = True) -> HeardQuestion | None:
    """What a sentence asks in a home; None if it asks nothing, or if Home Assistant could not tell."""
    result = recognise_sentence(home, said, language, placed)
    if result is None:
        return None
    slots = {name: slot.value for name, slot in result.entities.items()}
    match result.intent.name:
        case "HassGetState":
            return _question_about_states(home, slots, result.response or "")
        case "HassGetWeather":
            return _question_about_states(home, slots | {"domain": "weather"}, "one")
        case "HassClimateGetTemperature":
            return _question_about_warmth(home, slots)
        case "HassGetCurrentTime":
            return HeardQuestion(frozenset(), f"{datetime.fromtimestamp(home.clock, UTC):%H:%M}")
        case "HassGetCurrentDate":
            return HeardQuestion(frozenset(), f"{datetime.fromtimestamp(home.clock, UTC):%Y-%m-%d}")
    return None


def _entities_in_place(home: Home, slots: Mapping[str, Any]) -> tuple[AssistEntity, ...]:
    sets = {key: frozenset([slots[key]] if key in slots else ()) for key in ("domain", "device_class")}
    wanted = EntityConstraints(
        slots.get("name"), slots.get("area"), slots.get("floor"), sets["domain"], sets["device_class"]
    )
    try:
        return match_entities(home, wanted).entities
    except NoMatch:
        return ()


def _question_about_states(home: Home, slots: Mapping[str, Any], asks: str) -> HeardQuestion | None:
    """The answer to a question about states. `asks` is Home Assistant's key of the response, which tells what is asked."""
    among = _entities_in_place(home, slots)
    met = [entity for entity in among if entity.state_text(home) == slots.get("state")]
    if not among or (asks.startswith("one") and len(among) > 1):
        return None
    match asks:
        case "one":
            answer = among[0].state_text(home)
        case "one_yesno" | "any":
            answer = "Yes." if met else "No."
        case "all":
            answer = "Yes." if len(met) == len(among) else "No."
        case "which":
            answer = ", ".join(f"{one.area.name if one.area else ''} {one.device.name}".strip() for one in met) or "None."
        case "how_many":
            answer = str(len(met))
        case _:
            return None
    return HeardQuestion(frozenset(entity.device.did for entity in among), answer)


def _question_about_warmth(home: Home, slots: Mapping[str, Any]) -> HeardQuestion | None:
    """The answer to how warm it is: what the only entity there shows that measures it."""
    shown: dict[str, Any] = {}
    for entity in _entities_in_place(home, slots):
        value = entity.shown_attributes(home).get("current_temperature")
        if entity.domain == "sensor" and entity.shape.device_class == "temperature":
            value = entity.state_text(home)
        if value is not None:
            shown[entity.device.did] = value
    return HeardQuestion(frozenset(shown), str(next(iter(shown.values())))) if len(shown) == 1 else None


def recognise_sentence(home: Home, said: str, language: str, placed: bool) -> RecognizeResult | None:
    """What the matcher sees in a sentence. `placed` says whether it may be about where the person speaks."""
    intents, defaults = load_hassil_sentences(language)
    near = [area.room.id for area in areas_of_plan(home.plan) if placed and area.room == home.plan.entrance_room]
    context = {"area": near[0]} if near else {}
    known = {**defaults, **_slot_lists_of_home(home)}
    return recognize_best(said, intents, slot_lists=known, intent_context=context, best_slot_name="name")


def _slot_lists_of_home(home: Home) -> dict[str, TextSlotList]:
    """The names of the home for hassil, each with an id. A name that two entities share stands for both."""
    named = [(name, name, {"domain": entity.domain}) for entity in entities_of_plan(home.plan) for name in entity.names]
    named = [entry for entry in named if any(map(str.isalnum, entry[0]))]
    areas = [(name, area.room.id) for area in areas_of_plan(home.plan) for name in area.names]
    floors = [(name, floor.id) for floor in floors_of_plan(home.plan) for name in (floor.name, *floor.aliases)]
    return {
        "name": TextSlotList.from_tuples(named, name="name"),
        "area": TextSlotList.from_tuples(areas, name="area"),
        "floor": TextSlotList.from_tuples(floors, name="floor"),
    }


def _call_of_step(device: Device, step: EntityCall) -> Call:
    arguments = device.spec.service_index[step.service].service.arguments
    # The named arguments in the order of the service's, None for those between them.
    last = max((i for i, argument in enumerate(arguments) if argument.name in step.kwargs), default=-1)
    named = [step.kwargs.get(argument.name) for argument in arguments[len(step.args) : last + 1]]
    # No validation: the values are checked already, and a colour is of floats.
    return Call.model_construct(did=device.did, service=step.service, args=(*step.args, *named))


def acts_on_states(intent: str) -> bool:
    """Whether an intent only brings devices into a state, so that nothing is left to do where they are in it."""
    return tool_of_intent(intent) in translation_table().tools


def tool_of_intent(intent: str) -> str | None:
    """The recorded tool of an intent; None if Home Assistant gives agents none."""
    return _tools_by_intent().get(intent)


@lru_cache
def _tools_by_intent() -> dict[str, str]:
    return {tool.rpartition("__")[2]: tool for tool in latest_recorded_api().tools}


@lru_cache
def load_hassil_sentences(language: str) -> tuple[Intents, dict[str, Any]]:
    """Home Assistant's sentences in a language, and their slot lists. Raises `InputError` for a language without any."""
    known = {"zh": "zh-CN", "zh-Hans": "zh-CN", "zh-Hant": "zh-TW"}.get(language, language)
    data = get_intents(known) or get_intents(language.partition("-")[0])
    if data is None:
        raise InputError(
            f"Home Assistant has no sentences in '{language}'", "hassil", "choose another language, or do without them"
        )
    intents = Intents.from_dict(data)
    return intents, dict(intents.slot_lists)
