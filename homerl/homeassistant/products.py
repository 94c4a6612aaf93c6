"""The product of an entity: one of its domain narrowed to what the entity has, and what else it shows beside that.

Invariants:
- Each service of the entity's domain that it supports is a service of the product, or is noted; so is each attribute.
- Names are Home Assistant's wherever code can use them; the link has the others.
- Entities that are alike share one product.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from envs.homeenv.origin import Link
from envs.homeenv.spec import Catalogue, DeviceSpec, spec_from_json
from homerl.homeassistant.capabilities import Typed, limited
from homerl.homeassistant.forms import Forms, every_field, fields
from homerl.homeassistant.generic import Note, named, readings, service, state_of
from homerl.homeassistant.listing import Entity
from homerl.homeassistant.narrowing import Spec, narrowed

FOLDER = Path(__file__).parents[2] / "envs" / "homeenv" / "homeassistant"
SENSORS = ("binary_sensor", "sensor")
HIDDEN = frozenset("reload delete browse_media search_media".split())  # for the owner of the home at a screen, not for a speaker
BOUNDS = ("type", "options", "range", "precision", "unit")
HIDING = {"media_player": ("off", "unknown")}  # states in which Home Assistant does not show all attributes
PLAIN = (*SENSORS, "air_quality", "sun", "zone", "event", "device_tracker", "calendar")  # domains whose state nobody sets


@cache
def bases() -> tuple[DeviceSpec, ...]:
    """The products of Home Assistant's shape."""
    return tuple(Catalogue.load(FOLDER).values())


def base_of(entity: Entity) -> DeviceSpec | None:
    """The product of the entity's domain that has most of what the entity has, and least beside that."""
    offered = {full.partition(".")[2] for full in entity.services if full.startswith(f"{entity.domain}.")}
    has, kind = offered | set(entity.attributes), entity.attributes.get("device_class")

    def fit(spec: DeviceSpec) -> tuple[bool, int, int]:
        own = {one.name for one in spec.attributes if not one.internal} | {one.name for one in spec.services}
        return spec.userdata.subcategory == kind, len(own & has), -len(own - has)

    return max((spec for spec in bases() if spec.category == entity.domain), key=fit, default=None)


def product_of(entity: Entity, forms: Forms) -> tuple[DeviceSpec, Link, list[Note]]:
    """The product of an entity, what its names are there, and what was not understood."""
    notes: list[Note] = []
    base = base_of(entity)
    spec = _narrow(base, entity, forms) if base else _empty(entity)
    attributes = {attribute["name"]: attribute for attribute in spec.get("attributes", ())}
    theirs: dict[str, str] = {}
    if "state" not in attributes:
        attributes["state"] = state_of(entity)
    for name, reading in readings(entity, frozenset(attributes), notes):
        reading["name"] = _unused(reading["name"], attributes)
        attributes[reading["name"]] = reading
        theirs |= {reading["name"]: name} if reading["name"] != name else {}
    services = {made["name"]: made for made in spec.get("services", ())}
    for full in sorted(entity.services):
        domain, _, name = full.partition(".")
        if domain == entity.domain and name not in HIDDEN and name not in services:
            if made := service(entity, full, forms, attributes, notes):
                services[made["name"]] = made
    spec["attributes"], spec["services"] = list(attributes.values()), list(services.values())
    return spec_from_json(_numbered(spec)), _link(entity, theirs, services), notes


def _narrow(base: DeviceSpec, entity: Entity, forms: Forms) -> Spec:
    """The product of the domain with what the entity has."""
    spec = base.model_dump(mode="json", exclude_defaults=True)
    hides = entity.state == "unavailable" or (entity.domain in HIDING and entity.state in HIDING[entity.domain])
    shown = {one["name"] for one in spec["attributes"] if hides or one.get("internal")} | {"state", *entity.attributes}
    offered = {full.partition(".")[2] for full in entity.services if full.startswith(f"{entity.domain}.")}
    services = {
        one["name"]: _arguments(one, forms.get(entity.domain, {}).get(one["name"], {}), entity)
        for one in spec.get("services", ())
        if one["name"] in offered
    }
    spec = narrowed(spec, shown, services)
    spec["attributes"] = _limited(spec["attributes"], entity)
    for one in spec["services"]:
        if "arguments" in one:
            one["arguments"] = [limited(argument, argument["name"], entity) for argument in one["arguments"]]
    return spec


def _limited(attributes: list[Typed], entity: Entity) -> list[Typed]:
    """The attributes with the entity's own limits. The memory of an attribute has the limits of that attribute."""
    made = {one["name"]: limited(one, one["name"], entity) for one in attributes}
    for one in attributes:
        if one.get("internal") and "starts" in one:
            for other in (other for other in attributes if f"self.{other['name']}" in one["starts"]):
                if _bounds(one) == _bounds(other):
                    mine = {key: value for key, value in made[one["name"]].items() if key not in BOUNDS}
                    made[one["name"]] = mine | {key: made[other["name"]][key] for key in BOUNDS if key in made[other["name"]]}
    return list(made.values())


def _bounds(typed: Typed) -> list[Any]:
    return [typed.get(key) for key in BOUNDS]


def _arguments(declared: Mapping[str, Any], form: Mapping[str, Any], entity: Entity) -> set[str]:
    """The arguments of a product's service that make sense for the entity. One that the form does not have makes sense."""
    every = {name for name, _ in every_field(form)}
    fitting = {name for name, _ in fields(form, entity.attributes)}
    return {one["name"] for one in declared.get("arguments", ()) if one["name"] in fitting or one["name"] not in every}


def _empty(entity: Entity) -> Spec:
    """A product without any services, for a domain that has none."""
    kind = entity.attributes.get("device_class")
    tags = ["sensor"] if entity.domain in PLAIN else []
    named_after = {"subcategory": kind} if isinstance(kind, str) else {}
    return {"name": entity.domain, "userdata": {"category": entity.domain, "spid": "", "tags": tags, **named_after}}


def _unused(name: str, taken: Mapping[str, Typed]) -> str:
    return name if name not in taken else next(f"{name}_{i}" for i in range(2, len(taken) + 3) if f"{name}_{i}" not in taken)


def _link(entity: Entity, attributes: dict[str, str], services: Mapping[str, Any]) -> Link:
    """The names there that differ from ours. Names of services and arguments of Home Assistant are those of code."""
    offered = {named(full.partition(".")[2]): full for full in entity.services if full.startswith(f"{entity.domain}.")}
    differing = {ours: full for ours, full in offered.items() if ours in services and full != f"{entity.domain}.{ours}"}
    return Link(aliases=entity.aliases, attributes=attributes, services=differing)


def _numbered(spec: Spec) -> Spec:
    """The specification with an id that is the same for the same specification."""
    plain = spec | {"userdata": spec["userdata"] | {"spid": ""}}
    digest = hashlib.blake2b(json.dumps(plain, sort_keys=True).encode(), digest_size=4).hexdigest()
    return spec | {"userdata": spec["userdata"] | {"spid": f"{spec['userdata']['category']}-{digest}"}}
