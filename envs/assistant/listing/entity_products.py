"""The product of an entity: one of its domain narrowed to what the entity has, and what else it shows beside that.

Invariants:
- Each service of the entity's domain that it supports is a service of the product, or is noted; so is each attribute.
- Names are Home Assistant's wherever code can use them; the link has the others.
- Entities that are alike share one product.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections.abc import Iterator, Mapping
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

from homerl.envs.assistant.listing import product_narrowing as narrowing
from homerl.envs.assistant.listing.capabilities import STATES, Typed, apply_entity_limits, moment_format, switched_on_state
from homerl.envs.assistant.listing.generic_products import (
    SWITCHED,
    ImportNote,
    generic_attributes,
    generic_service,
    generic_state,
    to_identifier,
)
from homerl.envs.assistant.listing.home_listing import WHITE, ListedEntity, light_colour_modes, limit_light_modes
from homerl.envs.assistant.listing.homeassistant_client import ROAMING, is_moved_at_once
from homerl.envs.assistant.listing.product_narrowing import Spec
from homerl.envs.assistant.listing.service_forms import (
    Forms,
    all_service_fields,
    applicable_fields,
    shipped_service_forms,
    supported_feature_bits,
)
from homerl.envs.assistant.listing.unit_conversion import convert_to_entity_units
from homerl.envs.homeenv.sim.devices.attributes_and_services import Attribute
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, DeviceSpec, spec_from_json
from homerl.envs.homeenv.sim.home_plan import AVAILABLE, Link
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS, canonical_moment

FOLDER = Path(__file__).parents[2] / "homeenv" / "sim" / "homeassistant"
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


GROUPED = [  # its services, which are those of no domain there
    {"name": "turn_on", "description": "Turn it on", "code": 'self.state = "on"'},
    {"name": "turn_off", "description": "Turn it off", "code": 'self.state = "off"'},
    {"name": "toggle", "description": "Switch it over", "code": 'self.state = "off" if self.state == "on" else "on"'},
]

Product = tuple[DeviceSpec, Link, list[ImportNote]]  # with its names there, and what was not understood


@cache
def load_base_products() -> tuple[DeviceSpec, ...]:
    """The products of Home Assistant's shape."""
    return tuple(Catalogue.load_folders(FOLDER).values())


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

    return max((spec for spec in load_base_products() if spec.category == entity.domain), key=fit, default=None)


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


def product_of_entity(entity: ListedEntity, forms: Forms, measures: bool = False) -> Product:
    """The product of an entity, what its names are there, and what was not understood.

    `measures`: it is the sensor that tells the air of its room. Any other sensor keeps what it shows.
    """
    return _make_product(choose_base_product(entity), entity, forms, measures)


def generic_product(entity: ListedEntity, forms: Forms, measures: bool = False) -> Product:
    """The product of an entity as if its domain had none: its attributes, and its services by their forms."""
    return _make_product(None, entity, forms, measures)


def bare_product(entity: ListedEntity) -> Product:
    """The product of an entity of which nothing but the state, as a text, can be told."""
    state = {"name": "state", "type": "str", "nullable": True, "read_only": True}
    note = ImportNote(entity.entity_id, "attributes and services", "only its state is told here")
    spec = _refuse_out_of_reach(_make_empty_product(entity) | {"attributes": [state]})
    return spec_from_json(_with_own_id(spec)), Link(aliases=entity.aliases), [note]


def _make_product(base: DeviceSpec | None, entity: ListedEntity, forms: Forms, measures: bool) -> Product:
    notes: list[ImportNote] = []
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
        spec = limit_light_modes(spec, entity.attributes)
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
    return spec_from_json(_with_own_id(_refuse_out_of_reach(spec))), _link_names(entity, theirs, services), notes


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
    spec = convert_to_entity_units(entity, base.model_dump(mode="json", exclude_defaults=True))
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


def _with_own_id(spec: Spec) -> Spec:
    """The specification with an id that is the same for the same specification."""
    plain = spec | {"userdata": spec["userdata"] | {"spid": ""}}
    digest = hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=4).hexdigest()
    return spec | {"userdata": spec["userdata"] | {"spid": f"ha_{spec['userdata']['category']}-{digest}"}}
