"""The product of an entity: one of its domain narrowed to what the entity has, and what else it shows beside that.

What no product of its domain has is made of what the entity shows: its attributes, and the forms of its services.

Invariants:
- Each service of the entity's domain that it supports is a service of the product, or is noted with the reason; so is each
  attribute. A service whose effect its form does not tell changes nothing, and is noted too.
- Names are Home Assistant's wherever code can use them; the link has the others.
- Entities that are alike share one product.
"""

from __future__ import annotations

import ast
import hashlib
import json
import keyword
import re
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from homerl.envs.assistant.listing import product_narrowing as narrowing
from homerl.envs.assistant.listing.entity_capabilities import (
    CAPABILITIES,
    STATES,
    Forms,
    Typed,
    all_service_fields,
    applicable_fields,
    apply_entity_limits,
    moment_format,
    shipped_service_forms,
    supported_feature_bits,
    switched_on_state,
)
from homerl.envs.assistant.listing.home_listing import WHITE, ImportNote, ListedEntity, is_number, light_colour_modes
from homerl.envs.assistant.listing.homeassistant_client import ROAMING, is_moved_at_once
from homerl.envs.assistant.listing.product_narrowing import Spec
from homerl.envs.assistant.privacy import is_secret_attribute
from homerl.envs.homeenv.sim.devices.attributes_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, DeviceSpec, spec_from_json
from homerl.envs.homeenv.sim.home_plan import AVAILABLE, Link
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, canonical_moment

FOLDER = Path(__file__).parents[2] / "homeenv" / "sim" / "homeassistant"
IMPORTED = Path(__file__).with_name("products")
SENSORS = ("binary_sensor", "sensor")
HIDDEN = frozenset("reload delete browse_media".split())  # for the owner of the home at a screen, not for a speaker
UNSAID = {  # features that no form tells
    "vacuum": {"clean_spot": 1024, "send_command": 256, "set_fan_speed": 32},
    "water_heater": {"set_temperature": 1, "set_operation_mode": 2, "set_away_mode": 4, "turn_on": 8, "turn_off": 8},
}
BOUNDS = ("type", "options", "range", "precision", "format")
REPEATED = {  # what the state, or another attribute, tells too
    "input_datetime": frozenset("year month day hour minute second timestamp".split()),
    "light": frozenset("xy_color rgbw_color rgbww_color".split()),  # a colour is told by hue and saturation
}
STEPS = ("percentage_step",)  # arguments that are no value of the attribute of this name
HIDING = {"media_player": ("off", "unknown")}  # states in which Home Assistant does not show all attributes
PLAIN = (*SENSORS, "air_quality", "sun", "zone", "event", "device_tracker", "calendar")  # domains whose state nobody sets
SWITCHING = {  # what services do that switch
    "turn_on": 'self.state = "on"',
    "turn_off": 'self.state = "off"',
    "toggle": 'self.state = "off" if self.state == "on" else "on"',
}
SAID = {"turn_on": "Turn it on", "turn_off": "Turn it off", "toggle": "Switch it over"}
# the services of a group, which are those of no domain there
GROUPED = [{"name": name, "description": SAID[name], "code": code} for name, code in SWITCHING.items()]
WRITTEN = frozenset(  # kinds of selectors whose values are texts
    "text select state time date datetime duration entity area device template icon".split()
)
SWITCHED = ("on", "off")  # states of what can only be switched

Product = tuple[DeviceSpec, Link, list[ImportNote]]  # with its names there, and what was not understood


@cache
def load_base_products() -> tuple[DeviceSpec, ...]:
    """The products of Home Assistant's shape; first those that only an import makes."""
    return tuple(Catalogue.load_folders(IMPORTED, FOLDER).values())


def choose_base_product(entity: ListedEntity) -> DeviceSpec | None:
    """The product of the entity's domain that does and has most of what the entity does and has, and least beside that."""
    kind = entity.attributes.get("device_class")
    if entity.domain in SENSORS:
        unit = "_fahrenheit" if entity.attributes.get("unit_of_measurement") == "°F" else ""
        return next((spec for spec in load_base_products() if _is_sensor(spec, entity, f"{kind}{unit}")), None)
    forms = shipped_service_forms().get(entity.domain, {})
    offered = {
        one: {name for name, _ in applicable_fields(forms.get(one, {}), entity.attributes)}
        for one in _offered_services(entity)
    }
    told = {name for names in offered.values() for name in names}
    has = offered.keys() | (told if _hides_attributes(entity) else set(entity.attributes))
    shown = {name for name, value in entity.attributes.items() if value is not None}
    states = set(apply_entity_limits({"type": "str"}, "state", entity).get("options", ()))

    def fit(spec: DeviceSpec) -> tuple[int, bool, int, int, int]:
        made = {one.name: {argument.name for argument in one.arguments} for one in spec.services}
        lost = 0  # fields that services do not set; a service that the product lacks may be made of its form alone
        for service, names in offered.items():
            arguments = made.get(service)
            lost += not names or not names <= shown if arguments is None else len((names & shown) - arguments)
        own = {one.name for one in spec.attributes if not one.internal} | {one.name for one in spec.services}
        own = own & (told | offered.keys()) if _hides_attributes(entity) else own
        modes = {mode for one in spec.attributes if one.name == "state" for mode in one.options or ()}
        alike = kind is not None and spec.userdata.subcategory == kind
        return -lost, alike, len(own & has), len(modes & states), -len(own - has)

    usual = (spec for spec in load_base_products() if spec.category == entity.domain and not _is_converted(spec))
    return max(usual, key=fit, default=None)


def _is_converted(spec: DeviceSpec) -> bool:
    """Whether a product is written in a unit to which others are converted, as Fahrenheit: the entity's may be another."""
    return not {one.unit for one in spec.attributes}.isdisjoint(narrowing.CONVERTED_UNITS)


def _hides_attributes(entity: ListedEntity) -> bool:
    """Whether Home Assistant does not show all attributes of an entity in its present state."""
    return entity.state == "unavailable" or entity.state in HIDING.get(entity.domain, ())


def _offered_services(entity: ListedEntity) -> set[str]:
    """The services of its own domain that an entity supports."""
    needs = UNSAID.get(entity.domain, {})
    has = supported_feature_bits(entity.attributes)
    named = {full.partition(".")[2] for full in entity.services if full.startswith(f"{entity.domain}.")}
    return {name for name in named if has & needs.get(name, 0) == needs.get(name, 0)}


def _is_sensor(spec: DeviceSpec, entity: ListedEntity, kind: str) -> bool:
    """Whether a sensor's product is of this kind, and can show what the entity shows."""
    if (spec.category, spec.userdata.subcategory) != (entity.domain, kind):
        return False
    (state,) = (one for one in spec.attributes if one.name == "state")
    try:
        state.check_value(float(entity.state) if state.type in NUMBERS else entity.state)
    except (Refused, ValueError):
        return False
    return True


def bare_product(entity: ListedEntity) -> Product:
    """The product of an entity of which nothing but the state, as a text, can be told."""
    state = {"name": "state", "type": "str", "nullable": True, "read_only": True}
    note = ImportNote(entity.entity_id, "attributes and services", "only its state is told here")
    spec = _refuse_out_of_reach(_make_empty_product(entity) | {"attributes": [state]})
    return spec_from_json(with_own_id(spec)), Link(aliases=entity.aliases), [note]


def product_of_entity(entity: ListedEntity, forms: Forms, measures: bool = False, generic: bool = False) -> Product:
    """The product of an entity, what its names are there, and what was not understood.

    `measures`: it is the sensor that tells the air of its room. Any other sensor keeps what it shows. `generic`: as if its
    domain had no product: of its attributes, and of its services by their forms.
    """
    notes: list[ImportNote] = []
    base = None if generic else choose_base_product(entity)
    kind = entity.attributes.get("device_class")
    own_class = {"subcategory": kind} if isinstance(kind, str) else {}
    if base is None:
        spec = _make_empty_product(entity)
    else:  # of the entity's own class: a window is no garage door because that product fits it best
        spec = _narrow_to_entity(base, entity, forms)
        told = {key: value for key, value in spec["userdata"].items() if key not in ("subcategory", "rooms")}
        spec = spec | {"name": entity.domain, "userdata": told | own_class}
    if entity.domain in SENSORS and not measures:
        spec["attributes"] = [_without_key(one, "measures") for one in spec.get("attributes", ())]
    if base is not None and entity.domain == "script":
        spec = narrowing.set_script_duration(spec, entity.lasts)
    elif base is not None and entity.domain == "fan":
        spec = narrowing.set_fan_speeds(spec, entity.attributes.get("percentage_step"))
    elif base is not None and entity.domain == "light":
        spec = narrowing.limit_light_modes(spec, entity.attributes)
    if is_moved_at_once(entity.domain, entity.past, entity.attributes.get("assumed_state") is True):
        spec = narrowing.remove_docking_time(spec) if entity.domain in ROAMING else narrowing.remove_travel_time(spec)
    attributes = {attribute["name"]: attribute for attribute in spec.get("attributes", ())}
    theirs: dict[str, str] = {}
    if "state" not in attributes:
        attributes["state"] = generic_state(entity)
    for name, reading in generic_attributes(entity, frozenset(attributes) | REPEATED.get(entity.domain, frozenset()), notes):
        own = reading["name"]
        free = (own if number == 1 else f"{own}_{number}" for number in count(1))
        reading["name"] = own = next(one for one in free if one != AVAILABLE and one not in attributes)
        attributes[own] = reading
        theirs |= {own: name} if own != name else {}
    services = {made["name"]: made for made in spec.get("services", ()) if made["code"] or "returns" in made}
    for name in sorted(_offered_services(entity) - HIDDEN - services.keys()):
        if made := generic_service(entity, f"{entity.domain}.{name}", forms, attributes, notes):
            services[made["name"]] = made
    if entity.domain == "group" and entity.state in SWITCHED:
        services |= {made["name"]: made for made in GROUPED}
    notes += _note_lost_fields(entity, forms, services)
    spec["attributes"], spec["services"] = list(attributes.values()), list(services.values())
    return spec_from_json(with_own_id(_refuse_out_of_reach(spec))), _link_names(entity, theirs, services), notes


def _note_lost_fields(entity: ListedEntity, forms: Forms, services: Mapping[str, Any]) -> Iterator[ImportNote]:
    """What the entity shows, or is, and no service of ours sets, though one of its own does."""
    if entity.domain == "light":
        for mode in sorted(light_colour_modes(entity.attributes).intersection(WHITE)):
            why = f"the white of its mode {mode} cannot be set here"
            yield ImportNote(entity.entity_id, "attribute supported_color_modes", why)
        return  # a colour can be told in one way here, and in several there
    for full in entity.services:
        domain, _, name = full.partition(".")
        known = {argument["name"] for argument in services.get(to_identifier(name), {}).get("arguments", ())}
        told = [field for field, _ in applicable_fields(forms.get(domain, {}).get(name, {}), entity.attributes)]
        if lost := [field for field in told if field in entity.attributes and to_identifier(field) not in known]:
            yield ImportNote(entity.entity_id, f"service {full}", f"it does not set {', '.join(lost)} here")


def _refuse_out_of_reach(spec: Spec) -> Spec:
    """The specification of a device that takes no call while it is out of reach: its state says so, else a flag does."""
    (state,) = (one for one in spec["attributes"] if one["name"] == "state")
    flags: list[Typed] = []
    reached = 'self.state != "unavailable"'
    try:
        Attribute.model_validate(state).check_value("unavailable")
    except Refused:
        flags = [
            {"name": AVAILABLE, "type": "bool", "read_only": True, "starts": "True", "description": "Whether it is in reach"}
        ]
        reached = f"self.{AVAILABLE}"
    known = spec.get("available")
    if known is None or flags:
        spec = spec | {"available": reached if known is None else f"({known}) and {reached}"}
    return spec | {"attributes": [*spec["attributes"], *flags]}


def _narrow_to_entity(base: DeviceSpec, entity: ListedEntity, forms: Forms) -> Spec:
    """The product of the domain with what the entity has."""
    spec = narrowing.convert_to_entity_units(entity, base.model_dump(mode="json", exclude_defaults=True))
    shown = {"state", *entity.attributes}
    shown |= {one["name"] for one in spec["attributes"] if _hides_attributes(entity) or one.get("internal")}
    offered = _offered_services(entity)
    written = {a.name for c in base.compile_services() if c.service.name in offered for _, a, _ in c.writes}
    shown |= {one["name"] for one in spec["attributes"] if one["name"] in written and "starts" in one}  # it shows them never
    services = {
        one["name"]: _fitting_arguments(one, forms.get(entity.domain, {}).get(one["name"], {}), entity)
        for one in spec.get("services", ())
        if one["name"] in offered
    }
    spec = narrowing.require_alarm_code(narrowing.narrow_product(spec, shown, services), entity)
    before = {one["name"]: one for one in spec["attributes"]}
    spec["attributes"] = _limit_attributes(spec["attributes"], entity)
    pairs = [(before[one["name"]].get("range"), one) for one in spec["attributes"]]
    ranges = {one["name"]: (was, one["range"]) for was, one in pairs if was and one.get("range") not in (None, was)}
    for one in spec["services"]:
        one["code"] = narrowing.replace_bounds(one["code"], ranges)
        for attribute in spec["attributes"]:
            if attribute["name"] == "state" and entity.domain in STATES and "options" in attribute:
                own = ("off",) if entity.domain == "climate" else attribute["options"]
                one["code"] = narrowing.replace_disallowed_values(
                    one["code"], "state", own, switched_on_state(entity, attribute["options"])
                )
        if "arguments" in one:
            one["arguments"] = [
                argument if argument["name"] in STEPS else apply_entity_limits(argument, argument["name"], entity)
                for argument in one["arguments"]
            ]
    return spec


def _limit_attributes(attributes: list[Typed], entity: ListedEntity) -> list[Typed]:
    """The attributes with the entity's own limits. The memory of an attribute has the limits of that attribute."""
    made = {one["name"]: apply_entity_limits(one, one["name"], entity) for one in attributes}
    for name, one in made.items():  # what is the same for all of its product is what the entity shows
        given = entity.attributes.get(name)
        if "derived" in one and "self." not in one["derived"] and isinstance(given, list):
            one["derived"] = repr(tuple(map(str, given)))
    for one in attributes:
        if one.get("internal") and "starts" in one:
            for other in attributes:
                if f"self.{other['name']}" in one["starts"] and _limits_of(one) == _limits_of(other):
                    mine = {key: value for key, value in made[one["name"]].items() if key not in BOUNDS}
                    made[one["name"]] = mine | {
                        key: made[other["name"]][key] for key in BOUNDS if key in made[other["name"]]
                    }
    return [_limit_start(one, made[one["name"]]) for one in attributes]


def _limit_start(was: Typed, now: Typed) -> Typed:
    """The attribute with a start that its own limits allow."""
    if "starts" not in now or _limits_of(was) == _limits_of(now):
        return now
    if "format" in now:
        return now if canonical_moment(now["format"], ast.literal_eval(now["starts"])) else _without_key(now, "starts")
    if now.get("internal"):
        return now | {"starts": narrowing.limit_start_value(now["starts"], was, now)}
    return now if "self." in now["starts"] else _without_key(now, "starts")  # then it begins as it is shown


def _without_key(typed: Typed, key: str) -> Typed:
    return {name: one for name, one in typed.items() if name != key}


def _limits_of(typed: Typed) -> list[Any]:
    return [typed.get(key) for key in BOUNDS]


def _fitting_arguments(declared: Mapping[str, Any], form: Mapping[str, Any], entity: ListedEntity) -> set[str]:
    """The arguments of a product's service that make sense for the entity. One that the form does not have makes sense."""
    every = {name for name, _ in all_service_fields(form)}
    fitting = {name for name, _ in applicable_fields(form, entity.attributes)}
    if entity.domain == "input_datetime" and (moment := moment_format(entity)):
        return {moment}  # in which the others are told, see `homeassistant_mapping.py`
    return {one["name"] for one in declared.get("arguments", ()) if one["name"] in fitting or one["name"] not in every}


def _make_empty_product(entity: ListedEntity) -> Spec:
    """A product without any services, for a domain that has none."""
    kind = entity.attributes.get("device_class")
    tags = ["sensor"] if entity.domain in PLAIN else []
    named_after = {"subcategory": kind} if isinstance(kind, str) else {}
    return {"name": entity.domain, "userdata": {"category": entity.domain, "spid": "", "tags": tags, **named_after}}


def _link_names(entity: ListedEntity, attributes: dict[str, str], services: Mapping[str, Any]) -> Link:
    """The names there that differ from ours. Names of services and arguments of Home Assistant are those of code."""
    offered = {
        to_identifier(full.partition(".")[2]): full for full in entity.services if full.startswith(f"{entity.domain}.")
    }
    if entity.domain == "group":
        offered |= {name: f"homeassistant.{name}" for name in services}
    differing = {ours: full for ours, full in offered.items() if ours in services and full != f"{entity.domain}.{ours}"}
    return Link(aliases=entity.aliases, attributes=attributes, services=differing)


def with_own_id(spec: Spec) -> Spec:
    """The specification with an id that is the same for the same specification."""
    plain = spec | {"userdata": spec["userdata"] | {"spid": ""}}
    digest = hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=4).hexdigest()
    return spec | {"userdata": spec["userdata"] | {"spid": f"ha_{spec['userdata']['category']}-{digest}"}}


def to_identifier(theirs: str) -> str:
    """A name that code can use."""
    name = re.sub(r"\W", "_", theirs, flags=re.ASCII).strip("_") or "x"
    name = f"x_{name}" if name[0].isdigit() or keyword.iskeyword(name) else name
    return name if name.isidentifier() else "x"


def generic_state(entity: ListedEntity) -> Typed:
    """The state as an attribute: a number if it has a unit, one of the entity's own options, or a text."""
    state: Typed = {"name": "state", "type": "str"}
    if "unit_of_measurement" in entity.attributes or "state_class" in entity.attributes:
        state |= {"type": "float", "nullable": True}
    return apply_entity_limits(state, "state", entity)


def generic_attributes(entity: ListedEntity, known: frozenset[str], notes: list[ImportNote]) -> Iterator[tuple[str, Typed]]:
    """The attributes that nothing else explains, as (Home Assistant's name, attribute)."""
    for name, value in sorted(entity.attributes.items()):
        if name in known or name in CAPABILITIES or is_secret_attribute(name):
            continue
        typed = _type_of_value(value)
        if typed is None:
            why = "it has no value now, so its type is not known" if value is None else "its value is nested"
            notes.append(ImportNote(entity.entity_id, f"attribute {name}", why, minor=value is None))
        else:
            yield name, {"name": to_identifier(name), **typed, "nullable": True, "read_only": True}


def _type_of_value(value: Any) -> Typed | None:
    if isinstance(value, bool):
        return {"type": "bool"}
    if isinstance(value, (int, float)):
        return {"type": "float"}
    if isinstance(value, str):
        return {"type": "str"}
    if isinstance(value, list) and all(isinstance(one, str) for one in value):
        return {"type": "list", "items": [{"type": "str"}]}
    if isinstance(value, list) and all(map(is_number, value)):
        return {"type": "list", "items": [{"type": "float"}]}
    return None


def generic_service(
    entity: ListedEntity, full: str, forms: Forms, attributes: Mapping[str, Typed], notes: list[ImportNote]
) -> dict[str, Any] | None:
    """A service by its form. It sets the attributes that its arguments name, and the state if its name says so."""
    domain, _, name = full.partition(".")
    form = forms.get(domain, {}).get(name)
    if form is None:
        notes.append(ImportNote(entity.entity_id, f"service {full}", "Home Assistant does not list its fields"))
        return None
    arguments: list[Typed] = []
    for field, said in applicable_fields(form, entity.attributes):
        typed = _type_of_selector(said.get("selector") or {})
        if typed is None:
            (kind,) = [*(said.get("selector") or {}), "?"][:1]
            why = f"its field {field} is of the kind '{kind}', which cannot be simulated"
            notes.append(ImportNote(entity.entity_id, f"service {full}", why))
            if said.get("required"):
                return None
            continue
        made = {"name": to_identifier(field), **apply_entity_limits(typed, field, entity)}
        arguments.append(made if said.get("required") else made | {"required": False})
    code = list(_write_code(name, arguments, attributes))
    if not code:
        reads = not (form.get("response") or {}).get("optional", True)  # what must answer
        why = "what it changes is not known, so here it changes nothing"
        notes.append(ImportNote(entity.entity_id, f"service {full}", why, minor=reads or domain == "script"))
    made = {
        "name": to_identifier(name),
        "description": form.get("description") or name.replace("_", " ").capitalize(),
        "code": "\n".join(code),
    }
    return made | ({"arguments": arguments} if arguments else {})


def _write_code(name: str, arguments: list[Typed], attributes: Mapping[str, Typed]) -> Iterator[str]:
    state = attributes.get("state", {})
    switched = state.get("type") == "str" and set(SWITCHED) <= set(state.get("options", SWITCHED))
    if switched and name in SWITCHING:
        yield SWITCHING[name]
    for argument in arguments:
        target = argument["name"]
        if name in ("set_value", "select_option") and target in ("value", "option"):
            target = "state"
        if "derived" in attributes.get(target, {}):
            continue
        if (target in attributes and target != "state") or (target == "state" and state.get("type") == argument["type"]):
            given, was = argument["name"], f"self.{target}"
            yield f"{was} = {given}" if argument.get("required", True) else f"{was} = {given} if {given} != None else {was}"


def _type_of_selector(selector: Mapping[str, Any]) -> Typed | None:
    """The type of what a selector lets people choose; None for what is no plain value."""
    kind, said = next(iter(selector.items()), ("text", None))
    said = said or {}
    if kind == "number":
        low, high, step = said.get("min"), said.get("max"), said.get("step", 1)
        whole = isinstance(step, (int, float)) and step % 1 == 0
        whole = whole and not any(isinstance(bound, float) and bound % 1 for bound in (low, high))
        typed: Typed = {"type": "int" if whole else "float"}
        return typed | ({"range": [low, high]} if low is not None and high is not None and low < high else {})
    if kind == "boolean":
        return {"type": "bool"}
    if kind == "select" and said.get("options") and not said.get("custom_value"):
        options = [option["value"] if isinstance(option, dict) else option for option in said["options"]]
        return _type_of_several(said, {"type": "str", "options": list(map(str, options))})
    if kind == "color_rgb":
        return {"type": "tuple", "items": [{"type": "int", "range": [0, 255]}] * 3}
    if kind == "color_temp":
        return {"type": "int", "unit": "kelvin"}
    if kind in WRITTEN:
        return _type_of_several(said, {"type": "str"})
    return None


def _type_of_several(said: Mapping[str, Any], one: Typed) -> Typed:
    return {"type": "list", "items": [one]} if said.get("multiple") else one
