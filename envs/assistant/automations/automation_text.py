"""The text of an automation: which keys of which part are read, and what the editor writes for devices, told of entities.

A text is kept as far as it is read, or tells on what the automation acts. Of every other key only its name is kept, with the
entities that it names (`named_entities.py`), so that whoever reads the text sees that there is more to it. A part that its
owner disabled is left out, and so are the codes in it.

Invariants:
- What is kept of what was kept is the same. No template that may hold anything, and no address with a password or a query,
  is kept.
- The times of the sun are told to some minutes alone, since they would tell where the home is.
- A trigger, condition or action of a device that names no entity, such as the press of a remote's button, is none of the
  home: nothing of the home makes it act.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from jinja2 import TemplateError, nodes

from homerl.envs.assistant.automations.named_entities import (
    ENVIRONMENT,
    NOTHING,
    OUTER,
    PLACES,
    AutomationReferences,
    is_left_out,
    list_heard_events,
    list_nodes,
)
from homerl.envs.assistant.listing.entity_capabilities import Forms, all_service_fields
from homerl.envs.assistant.listing.home_listing import (
    AREAS,
    AUTOMATIONS,
    CONFIG,
    DEVICES,
    ENTRIES,
    REGISTERED,
    STATES,
    Listing,
    entity_domain,
    is_entity_id,
)
from homerl.envs.homeenv.sim.assist.entities_of_home import DEAD
from homerl.envs.homeenv.sim.values.types_and_ranges import time_zone_of

PRIVATE = re.compile(r"\{[{%]|://\S*[?@]")  # a template, which may hold anything; an address with a password or a query
SECRET = re.compile(r"(?i)token|passw|secret|key|code|pin\b")  # in the name of a variable
NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)?")

IDLE = frozenset("alias description metadata response_variable".split())  # keys of any part that change nothing
IDLE_OF_ALL = (IDLE | frozenset("id max_exceeded initial_state trace fields icon".split())) - {"alias"}  # of an automation
ACTED = ("entity_id", "domain", "type", "above", "below")  # keys of what the editor writes for devices
TRIGGERS = {  # by kind of trigger, the keys that are read
    "time": ("at", "weekday"),
    "state": ("entity_id", "to", "from", "not_to", "not_from", "attribute", "for"),
    "numeric_state": ("entity_id", "above", "below", "attribute", "for", "value_template"),
    "time_pattern": ("hours", "minutes", "seconds"),
    "sun": ("event", "offset"),
    "template": ("value_template", "for"),
    "zone": ("entity_id", "zone", "event"),
    "device": (*ACTED, "for", "to", "from", "subtype", "device_id"),
}


class TargetTrigger(NamedTuple):
    """A trigger `<domain>.<name>` of what its `target` names: an entity of these domains reaches one of the states `to`.

    It comes from none of them or, where `origins` are told, from one of these.
    """

    domains: tuple[str, ...]
    to: tuple[str, ...]
    origins: tuple[str, ...] = ()


PLAYING, SILENT = ("buffering", "playing"), ("idle", "off", "on")  # states of media players
HEATING = ("auto", "cool", "dry", "fan_only", "heat", "heat_cool")  # and of what heats or cools
TARGET_TRIGGERS = {  # what the editor of Home Assistant writes since 2026.7, as far as it is read
    f"{domain}.{name}": TargetTrigger((domain,), (state,))
    for domain, states in {
        **{one: {"turned_on": "on", "turned_off": "off"} for one in ("light", "fan", "humidifier", "siren", "remote")},
        "lock": {"locked": "locked", "unlocked": "unlocked", "opened": "open", "jammed": "jammed"},
        "vacuum": {"docked": "docked", "errored": "error", "paused_cleaning": "paused", "started_cleaning": "cleaning"},
        "lawn_mower": {"docked": "docked", "errored": "error", "paused_mowing": "paused", "started_mowing": "mowing"},
        "alarm_control_panel": {
            name: name for name in "armed_away armed_home armed_night armed_vacation disarmed triggered".split()
        },
        "climate": {"turned_off": "off"},
    }.items()
    for name, state in states.items()
} | {
    "switch.turned_on": TargetTrigger(("switch", "input_boolean"), ("on",)),
    "switch.turned_off": TargetTrigger(("switch", "input_boolean"), ("off",)),
    "climate.turned_on": TargetTrigger(("climate",), HEATING, ("off",)),
    "media_player.turned_on": TargetTrigger(("media_player",), (*PLAYING, "idle", "on", "paused"), ("off",)),
    "media_player.turned_off": TargetTrigger(("media_player",), ("off",), (*PLAYING, "idle", "on", "paused")),
    "media_player.started_playing": TargetTrigger(("media_player",), PLAYING, (*SILENT, "paused")),
    "media_player.paused_playing": TargetTrigger(("media_player",), ("paused",), PLAYING),
    "media_player.stopped_playing": TargetTrigger(("media_player",), SILENT, (*PLAYING, "paused")),
}
CHANGE_KEYS = ("to", "from", "not_to", "not_from")
CONDITIONS = {
    "state": ("entity_id", "state", "attribute", "for", "match"),
    "numeric_state": ("entity_id", "above", "below", "attribute", "value_template"),
    "time": ("after", "before", "weekday"),
    "sun": ("after", "before", "after_offset", "before_offset"),
    "template": ("value_template",),
    "trigger": ("id",),
    "zone": ("entity_id", "zone"),
    "device": (*ACTED, "for", "device_id", "hvac_mode", "preset_mode", "option"),
}
JOINING = ("and", "or", "not")  # kinds of conditions that are made of others

ACTIONS = ("then", "else", "default", "sequence", "parallel")  # keys under which an action holds others
BRANCHES = ("choose", "repeat")  # and those under which it holds parts with a sequence of others
NESTING = (*ACTIONS, *BRANCHES)
NESTED = "triggers"  # the key under which a trigger holds others
DATA = ("data", "data_template", "service_data")  # keys under which an action gives data to a service

TELLING = frozenset(  # domains whose services only tell or keep something
    "notify persistent_notification logbook system_log logger recorder frontend browser_mod tts telegram_bot html5 backup "
    "chime_tts influxdb".split()
)
BEYOND = frozenset("mqtt rest_command shell_command hassio".split())  # and those whose services reach beyond the home
SENDING = frozenset("remote.send_command remote.learn_command remote.delete_command".split())
QUIET = frozenset("homeassistant.update_entity camera.snapshot camera.record image.snapshot mobile_app.notify".split())
BESIDE = frozenset("script.turn_on script.turn_off script.toggle script.reload".split())  # services that are no scripts

PLAIN = re.compile(r"[\w .:%+\-]{0,60}")  # a text in a template that names something, or is a state
SAID = (  # what a template may consist of
    nodes.Template, nodes.Output, nodes.TemplateData, nodes.Assign, nodes.If, nodes.Const, nodes.Name, nodes.List,
    nodes.Tuple, nodes.Not, nodes.And, nodes.Or, nodes.Compare, nodes.Operand, nodes.CondExpr, nodes.Neg, nodes.BinExpr,
    nodes.Call, nodes.Filter, nodes.Getattr, nodes.Getitem, nodes.Keyword, nodes.Test,
)  # fmt: skip
OFF_SENSES = frozenset("locked turned_off stopped_moving unoccupied not_occupied".split())  # that begin with no `no`
NAMED_BY_TYPE = frozenset(  # domains whose types of triggers and conditions are the states that are reached
    "cover lock alarm_control_panel vacuum media_player lawn_mower device_tracker person".split()
)
DEVICE_ATTRIBUTES = {  # by domain and type: the attribute whose number is compared
    ("cover", "position"): "current_position",
    ("cover", "tilt_position"): "current_tilt_position",
    ("climate", "current_temperature_changed"): "current_temperature",
    ("climate", "current_humidity_changed"): "current_humidity",
    ("humidifier", "target_humidity_changed"): "humidity",
    ("humidifier", "current_humidity_changed"): "current_humidity",
}
DEVICE_SERVICES = {  # by domain and type, where the service has another name
    "cover": {
        "open": "open_cover",
        "close": "close_cover",
        "stop": "stop_cover",
        "set_position": "set_cover_position",
        "open_tilt": "open_cover_tilt",
        "close_tilt": "close_cover_tilt",
        "set_tilt_position": "set_cover_tilt_position",
    },
    "vacuum": {"clean": "start", "dock": "return_to_base"},
    "lawn_mower": {"mow": "start_mowing", "dock": "dock", "pause": "pause"},
    "alarm_control_panel": {
        one: f"alarm_{one}" for one in ("arm_away", "arm_home", "arm_night", "arm_vacation", "disarm", "trigger")
    },
    "light": {"brightness_increase": "turn_on", "brightness_decrease": "turn_on", "flash": "turn_on"},
}
BRIGHTNESS_STEPS = {"brightness_increase": {"brightness_step_pct": 10}, "brightness_decrease": {"brightness_step_pct": -10}}
SEVERAL_STATES = {("vacuum", "cleaning"): ["cleaning", "returning"]}  # by domain and type, conditions on several states
NO_DATA = frozenset(
    "device_id domain type entity_id subtype platform trigger condition id for".split()
)  # no data of a service

Keep = Callable[[Any], Any]


class UnreadableAutomation(Exception):
    """A part of an automation that has no counterpart here."""


def is_effectless_service(service: str) -> bool:
    """Whether a service changes nothing in the home."""
    return entity_domain(service) in TELLING | BEYOND or service in QUIET | SENDING


def keep_readable_parts(
    text: Any, forms: Forms, codes: Collection[str], sealed: Collection[str] = (), refers: AutomationReferences = NOTHING
) -> Any:
    """The text of an automation as far as it is read. Arguments of services named in `codes` are left out.

    Nobody reads what is written into entities of the `sealed` domains, some of which are passwords.
    """
    keeper = _Keeper(forms, codes, frozenset(sealed), refers)
    known: dict[str, Keep] = {
        "alias": keeper.keep_value,
        "mode": keeper.keep_name,
        "max": keeper.keep_value,
        "variables": keeper.keep_variables,
        "trigger_variables": keeper.keep_variables,
        "sun": keeper.keep_value,
    }
    known["sequence"] = _keep_each(keeper.keep_action)  # of a script
    parts = (("trigger", keeper.keep_trigger), ("condition", keeper.keep_condition), ("action", keeper.keep_action))
    for key, keep in parts:
        known[key] = known[f"{key}s"] = _keep_each(keep)
    kept = keeper.keep_part(text, known, IDLE_OF_ALL)
    sunny = refers.sun and isinstance(kept, dict) and "sun" in json.dumps(kept, default=str)
    return {**kept, "sun": dict(refers.sun)} if sunny else kept


def find_hidden_key(part: Any, key: str = "") -> str | None:
    """The key under which something of a part was left out; None if the part is whole."""
    if is_left_out(part):
        return key
    if isinstance(part, Mapping):
        # a variable is read when it is used, and so is what a script is given
        given = DATA if _runs_script(part) else ()
        parts = [
            (name, one)
            for name, one in part.items()
            if name not in ("variables", "trigger_variables") and not (name in given and isinstance(one, Mapping))
        ]
    else:
        parts = [(key, one) for one in part] if isinstance(part, list) else []
    return next((found for name, one in parts if (found := find_hidden_key(one, name)) is not None), None)


def _runs_script(action: Mapping[str, Any]) -> bool:
    """Whether an action calls a script."""
    return entity_domain(str(action.get("action") or action.get("service") or "")) == "script"


def _keep_each(keep: Keep) -> Keep:
    """Keeps the enabled ones of several parts, of which a single one needs no list."""

    def kept(parts: Any) -> Any:
        listed = parts if isinstance(parts, list) else [parts]
        return [keep(part) for part in listed if not (isinstance(part, Mapping) and part.get("enabled") is False)]

    return kept


def _kind_of_part(text: Any, *keys: str) -> str:
    """The kind of a part, under the first of several keys that is there."""
    found = next((text[key] for key in keys if text.get(key)), "") if isinstance(text, Mapping) else ""
    return found if isinstance(found, str) else ""


def _list_entity_ids(action: Mapping[str, Any]) -> Iterator[str]:
    """The entities that the call of a service names by their ids, whatever the service means by them."""
    for place in (action, *(action.get(key) for key in ("target", *DATA))):
        for key, value in place.items() if isinstance(place, Mapping) else ():
            if str(key).endswith("entity_id"):
                yield from (one for one in (value if isinstance(value, list) else [value]) if is_entity_id(one))


def is_plain_template(text: str) -> bool:
    """Whether a template is of the common kind, and holds no text but names and states."""
    try:
        tree = ENVIRONMENT.parse(text)
    except (TemplateError, RecursionError):
        return False
    found = list(list_nodes(tree))
    texts = [
        one.data if isinstance(one, nodes.TemplateData) else one.value
        for one in found
        if isinstance(one, (nodes.TemplateData, nodes.Const))
    ]
    return all(isinstance(one, SAID) for one in found) and all(
        PLAIN.fullmatch(one.strip()) for one in texts if isinstance(one, str)
    )


class _Keeper:
    """Keeps the parts of one text."""

    def __init__(self, forms: Forms, codes: Collection[str], sealed: frozenset[str], refers: AutomationReferences) -> None:
        self.forms, self.codes, self.sealed, self.refers = forms, codes, sealed, refers

    def keep_part(self, text: Any, known: Mapping[str, Keep], idle: Collection[str] = IDLE) -> Any:
        """A part with its known keys. What is null says nothing, but for a state, and so does `enabled: true`."""
        if not isinstance(text, Mapping):
            return self.refers.leave_out(text)
        said = {key: value for key, value in text.items() if (value is not None or key in CHANGE_KEYS) and key not in idle}
        if said.get("enabled") is True:
            del said["enabled"]
        return {key: known[key](value) if key in known else self.leave_out(key, value) for key, value in said.items()}

    def leave_out(self, key: str, value: Any) -> str:
        """What stands for what is under a key that is not read."""
        return str(value) if is_left_out(value) else self.refers.leave_out({key: value})

    def keep_value(self, value: Any) -> Any:
        """A value, in which no text is private."""
        if isinstance(value, str):
            private = PRIVATE.search(value) and not ("://" not in value and is_plain_template(value))
            return self.refers.leave_out(value) if private else value
        if isinstance(value, Mapping):
            return {key: self.keep_value(one) for key, one in value.items()}
        return [self.keep_value(one) for one in value] if isinstance(value, list) else value

    def keep_variables(self, value: Any) -> Any:
        """Variables that are no secrets by their names."""
        if not isinstance(value, Mapping):
            return self.refers.leave_out(value)
        return {
            str(name): self.refers.leave_out(one) if SECRET.search(str(name)) else self.keep_value(one)
            for name, one in value.items()
        }

    def keep_given(self, value: Any) -> Any:
        """What a script is given, but for sentences, which may be what somebody is told."""
        return self._leave_out_sentences(self.keep_variables(value))

    def _leave_out_sentences(self, value: Any) -> Any:
        """A value without texts of several words that are no template."""
        if isinstance(value, Mapping):
            return {key: self._leave_out_sentences(one) for key, one in value.items()}
        if isinstance(value, list):
            return [self._leave_out_sentences(one) for one in value]
        is_sentence = isinstance(value, str) and "{" not in value and " " in value.strip()
        return self.refers.leave_out(value) if is_sentence else value

    def keep_template(self, value: Any) -> Any:
        """A template that says nothing private."""
        is_one = isinstance(value, str) and "{" in value
        return self.keep_value(value) if is_one else self.refers.leave_out(value)

    def keep_home_zone(self, value: Any) -> Any:
        """The zone of the home alone."""
        return value if value in ("zone.home", ["zone.home"]) else self.refers.leave_out(value)

    def keep_name(self, value: Any) -> Any:
        """The name of a kind, or of a service."""
        return value if isinstance(value, str) and NAME.fullmatch(value) else self.refers.leave_out(value)

    def keep_ids(self, value: Any) -> Any:
        """Ids of entities as Home Assistant reads them: in small letters, and several with commas in one text."""
        kept = self.keep_value(value)
        if isinstance(kept, list):
            return [self.keep_ids(one) for one in kept]
        if not isinstance(kept, str) or is_left_out(kept) or "{" in kept:
            return kept
        first, *others = (self.refers.entities.get(id := one.strip().lower(), id) for one in kept.split(","))
        return [first, *others] if others else first

    def keep_entities(self, value: Any) -> Any:
        """Ids of entities alone, where another text may stand: a device trigger may have an id of the registry."""
        kept = self.keep_ids(value)
        listed = kept if isinstance(kept, list) else [kept]
        return kept if all(map(is_entity_id, listed)) else self.refers.leave_out(value)

    def keys_to_keep(self, read: Collection[str]) -> dict[str, Keep]:
        """What is kept under the keys of a trigger or a condition."""
        own: dict[str, Keep] = {
            "entity_id": self.keep_ids,
            "value_template": self.keep_template,
            "zone": self.keep_home_zone,
        }
        return {key: own.get(key, self.keep_value) for key in read}

    def keep_trigger(self, text: Any) -> Any:
        """A trigger, or a list of others within it.

        Of one from outside only its kind is kept. One of a kind that is not read keeps the entities that it names: what it
        waits for is not known, but of whom is.
        """
        kind = _kind_of_part(text, "trigger", "platform")
        read = TRIGGERS.get(kind)
        named: dict[str, Keep] = self.keys_to_keep(read or ())
        if kind in TARGET_TRIGGERS:
            domains = TARGET_TRIGGERS[kind].domains
            named = {"target": lambda told: self.keep_target(told, domains), "options": self.keep_value}
        elif read is None:
            named = {"target": self.keep_target, "entity_id": self.keep_entities, NESTED: _keep_each(self.keep_trigger)}
        if isinstance(text, Mapping) and kind in OUTER | {"event"} and text.get("enabled") is not False:
            named = {**named, "event_type": self.keep_value}
            said = ("trigger", "platform", "id", *named, *(("event_data",) if kind == "event" else ()))
            text = {key: value for key, value in text.items() if key in said}
        return self.keep_part(
            text,
            {
                "trigger": self.keep_name,
                "platform": self.keep_name,
                "id": self.keep_value,
                "variables": self.keep_variables,
                **named,
            },
        )

    def keep_condition(self, text: Any) -> Any:
        """A condition, which may be the text of a template."""
        if isinstance(text, str):
            return self.keep_value(text)
        kind = _kind_of_part(text, "condition")
        if not kind and isinstance(text, Mapping) and (short := next((one for one in JOINING if one in text), None)):
            rest = {key: value for key, value in text.items() if key != short}
            kind, text = short, {"condition": short, "conditions": text[short], **rest}
        if kind in JOINING:
            return self.keep_part(
                text, {"condition": self.keep_name, "conditions": _keep_each(self.keep_condition)}, IDLE | {"id"}
            )
        idle = IDLE if kind == "trigger" else IDLE | {"id"}
        return self.keep_part(text, {"condition": self.keep_name, **self.keys_to_keep(CONDITIONS.get(kind, ()))}, idle)

    def keep_action(self, text: Any) -> Any:
        """An action, or the text of a condition among them."""
        if isinstance(text, str):
            return self.keep_value(text)
        if isinstance(text, Mapping) and text.keys() & {"condition", *JOINING} and not text.keys() & {"action", "service"}:
            return self.keep_condition(text)
        service = _kind_of_part(text, "action", "service").lower()
        if isinstance(text, Mapping) and text.get("domain") == "mobile_app" and not service:
            text = {"action": (service := "mobile_app.notify")}
        if is_effectless_service(service) or (isinstance(text, Mapping) and "event" in text and not service):
            told = dict.fromkeys(_list_entity_ids(text))  # such as what speaks
            text = {key: value for key, value in text.items() if key in ("action", "service", "event", "enabled")}
            text |= {"entity_id": [*told]} if told else {}
        known = {
            "action": self.keep_name,
            "service": self.keep_name,
            "domain": self.keep_name,
            "entity_id": self.keep_ids,
            "event": lambda told: told if isinstance(told, str) and told in self.refers.heard else True,
        }
        domain = entity_domain(service)
        known["target"] = lambda told: self.keep_target(told, None if domain in ("", "homeassistant") else (domain,))
        known["scene"] = self.keep_ids  # short for `scene.turn_on`
        known |= dict.fromkeys(DATA, lambda told: self.keep_service_data(told, service))
        conditions, actions = _keep_each(self.keep_condition), _keep_each(self.keep_action)
        known["continue_on_error"] = self.keep_value
        known |= {"if": conditions, "delay": self.keep_value, "stop": lambda told: True, "variables": self.keep_variables}
        known |= {"wait_template": self.keep_value, "timeout": self.keep_value, "continue_on_timeout": self.keep_value}
        known["wait_for_trigger"] = _keep_each(self.keep_trigger)
        known |= dict.fromkeys(ACTIONS, actions)
        known["parallel"] = _keep_each(lambda one: self.keep_action({"sequence": one} if isinstance(one, list) else one))
        branch: dict[str, Keep] = {"sequence": actions, "count": self.keep_value, "for_each": self.keep_value}
        branch |= dict.fromkeys(("conditions", "while", "until"), conditions)
        known |= dict.fromkeys(BRANCHES, _keep_each(lambda one: self.keep_part(one, branch, IDLE | {"id"})))
        if not service and isinstance(text, Mapping) and "device_id" in text:
            known |= {key: self.keep_value for key in text if key not in known and key not in self.codes}
        kept = self.keep_part(text, known, IDLE | {"id"})
        if isinstance(kept, dict) and isinstance(kept.get("repeat"), list):
            kept["repeat"] = kept["repeat"][0] if kept["repeat"] else {}
        return kept

    def keep_service_data(self, told: Any, service: str) -> Any:
        """The data of a service's call: what its form names."""
        domain, _, name = service.partition(".")
        if domain == "script" and service not in BESIDE:
            return self.keep_given(told)
        domains = self.forms.keys() if domain == "homeassistant" else {domain}  # which hands on what it is given
        forms = (self.forms.get(one, {}).get(name, {}) for one in domains if one not in self.sealed)
        fields: dict[str, Keep] = {field: self.keep_value for form in forms for field, _ in all_service_fields(form)}
        fields |= {"variables": self.keep_given} if service == "script.turn_on" else {}
        return self.keep_part(told, fields | {"entity_id": self.keep_ids}, self.codes)

    def keep_target(self, told: Any, domains: Collection[str] | None = None) -> Any:
        """The entities that a target names, by themselves or by their place: there those of some domains, or of any."""
        if not isinstance(told, Mapping):
            return self.refers.leave_out(told)
        kept = self.keep_part(told, {"entity_id": self.keep_ids})
        for key in PLACES:
            found = told.get(key)
            ids = [one for one in (found if isinstance(found, list) else [found]) if one]
            places = [self.refers.places.get((key, one)) if isinstance(one, str) else None for one in ids]
            if key in kept and None not in places:
                held = (one for place in places for one in place or ())
                named = kept.get("entity_id", [])
                del kept[key]
                kept["entity_id"] = [
                    *(named if isinstance(named, list) else [named]),
                    *(one for one in held if domains is None or entity_domain(one) in domains),
                ]
        return kept


COARSE = 300  # seconds to which the times of the sun are rounded
SUN = {"sunrise": "next_rising", "sunset": "next_setting"}


def collect_references(listing: Listing) -> AutomationReferences:
    """What a whole listing knows."""
    sources = listing.sources
    rows = [row for row in sources[REGISTERED] if isinstance(row, Mapping) and isinstance(row.get("id"), str)]
    places: dict[tuple[str, str], list[str]] = defaultdict(list)
    areas: dict[Any, Mapping[str, Any]] = {area["area_id"]: area for area in sources[AREAS]}
    devices: dict[Any, Mapping[str, Any]] = {device["id"]: device for device in sources[DEVICES]}
    for entity, entry in sources[ENTRIES].items():
        if not isinstance(entry, Mapping) or entry.get("entity_category") or entry.get("hidden_by"):
            continue  # Home Assistant does not mean these by a place
        place, device = listing.area_of_entity(entity), entry.get("device_id")
        area, holders = areas.get(place, {}), (entry, devices.get(device, {}), areas.get(place, {}))
        named = [("area_id", place), ("floor_id", area.get("floor_id")), ("device_id", device)]
        named += [("label_id", label) for holder in holders for label in holder.get("labels") or ()]
        for key, id in dict.fromkeys(named):
            if id is not None:
                places[key, id].append(entity)
    told = {place: tuple(sorted(found)) for place, found in places.items()}
    empty = {("device_id", device): () for device in devices} | {("area_id", area): () for area in areas}
    known = {row["entity_id"] for row in (*sources[STATES], *rows)}
    ids = {row["id"]: row["entity_id"] for row in rows}
    heard = frozenset(list_heard_events(list(sources.get(AUTOMATIONS, {}).values())))
    return AutomationReferences(ids, empty | told, _read_sun_times(sources), frozenset(known), heard)


def _read_sun_times(sources: Mapping[str, Any]) -> dict[str, int]:
    """When the sun rises and sets next, in seconds since midnight; nothing if that is not told."""
    attributes: Mapping[str, Any] = next((row["attributes"] for row in sources[STATES] if row["entity_id"] == "sun.sun"), {})
    zone = time_zone_of(sources[CONFIG].get("time_zone"))
    found = {}
    for event, name in SUN.items():
        try:
            at = datetime.fromisoformat(attributes[name]).astimezone(zone)
        except (KeyError, TypeError, ValueError):
            return {}
        found[event] = round((at.hour * 3600 + at.minute * 60 + at.second) / COARSE) * COARSE % 86400
    return found


def is_outside_trigger(text: Mapping[str, Any]) -> bool:
    """Whether a device trigger is of no entity."""
    return not isinstance(text.get("entity_id"), str)


def rewrite_device_trigger(text: Mapping[str, Any]) -> dict[str, Any]:
    """A device trigger as one by state or by number. Raises `UnreadableAutomation`."""
    domain, kind = str(text.get("domain")), str(text.get("type"))
    held = {key: text[key] for key in ("entity_id", "for", "id") if key in text}
    if bounds := _read_bounds(text, domain, kind):
        return {"trigger": "numeric_state", **held, **bounds}
    if kind == "changed_states":
        return {"trigger": "state", "to": None, **held}
    if kind == "hvac_mode_changed" and "to" in text:
        return {"trigger": "state", "to": text["to"], **held}
    if kind in ("current_option_changed", "state") and {"from", "to"} & text.keys():
        return {"trigger": "state", **held, **{key: text[key] for key in ("from", "to") if key in text}}
    return {"trigger": "state", "to": _state_of_type(domain, kind), **held}


def rewrite_target_trigger(text: Mapping[str, Any]) -> dict[str, Any]:
    """A trigger of what its target names, as one by state. Raises `UnreadableAutomation`."""
    known, options = TARGET_TRIGGERS[str(text.get("trigger") or text.get("platform"))], text.get("options") or {}
    target = text.get("target")
    named = target.get("entity_id", []) if isinstance(target, Mapping) else []
    entities = [one for one in (named if isinstance(named, list) else [named]) if entity_domain(str(one)) in known.domains]
    if not isinstance(options, Mapping) or not options.keys() <= {"behavior", "for"}:
        raise UnreadableAutomation(f"a trigger has the options {options}, of which some are not known here")
    if len(entities) > 1 and options.get("behavior", "each") not in ("each", "any"):
        raise UnreadableAutomation("a trigger waits for the first or for all of several entities")
    if len(known.to) > 1 and options.get("for") is not None:  # it may go from one to another meanwhile
        raise UnreadableAutomation("a trigger waits until something was in one of several states for some time")
    begins = {"from": [*known.origins]} if known.origins else {"not_from": [*DEAD, *known.to]}
    held = {"for": options["for"]} if options.get("for") is not None else {}
    return {"trigger": "state", "entity_id": entities, "to": [*known.to], **begins, **held}


def _read_bounds(text: Mapping[str, Any], domain: str, kind: str) -> dict[str, Any]:
    """The bounds of a number, with the attribute that is compared if it is not the state."""
    bounds = {key: text[key] for key in ("above", "below") if key in text}
    attribute = DEVICE_ATTRIBUTES.get((domain, kind))
    return bounds | {"attribute": attribute} if bounds and attribute else bounds


def _state_of_type(domain: str, kind: str) -> str:
    """The state of an entity of a domain for what a type of a device trigger or condition tells."""
    if kind in ("turned_on", "turned_off", "on", "off"):
        return kind.removeprefix("turned_")
    if domain in NAMED_BY_TYPE:
        return "open" if kind == "opened" else kind
    if domain == "binary_sensor":
        off = kind in OFF_SENSES or (kind.startswith(("no_", "not_")) and kind != "not_locked")
        return "off" if off else "on"
    raise UnreadableAutomation(f"a device trigger or condition of the type '{kind}' of {domain} is not known here")


def rewrite_device_condition(text: Mapping[str, Any]) -> dict[str, Any]:
    """A device condition as one by state or by number. Raises `UnreadableAutomation`."""
    domain, kind = str(text.get("domain")), str(text.get("type")).removeprefix("is_")
    if is_outside_trigger(text):
        raise UnreadableAutomation("a condition is on a device, which names no entity")
    named = {"entity_id": text["entity_id"]}
    if bounds := _read_bounds(text, domain, kind):
        return {"condition": "numeric_state", **named, **bounds}
    held = {"for": text["for"]} if text.get("for") is not None else {}
    if kind in ("hvac_mode", "preset_mode") and kind in text:
        attribute = {"attribute": kind} if kind == "preset_mode" else {}
        return {"condition": "state", **named, "state": text[kind], **attribute}
    if kind == "selected_option" and "option" in text:
        return {"condition": "state", **named, "state": text["option"]}
    return {
        "condition": "state",
        **named,
        "state": SEVERAL_STATES.get((domain, kind)) or _state_of_type(domain, kind),
        **held,
    }


def rewrite_device_action(text: Mapping[str, Any]) -> dict[str, Any]:
    """A device action as the call of a service. Raises `UnreadableAutomation`."""
    domain, kind = str(text.get("domain")), str(text.get("type"))
    if is_outside_trigger(text):
        raise UnreadableAutomation("an action is on a device, and names no entity")
    data = {key: value for key, value in text.items() if key not in NO_DATA} | BRIGHTNESS_STEPS.get(kind, {})
    service = DEVICE_SERVICES.get(domain, {}).get(kind, kind)
    return {"action": f"{domain}.{service}", "target": {"entity_id": text["entity_id"]}, "data": data}
