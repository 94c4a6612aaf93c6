"""Which entities the text of an automation names, also in its templates, and what stands for a part that is left out.

A part that is left out becomes `(left out)`, with the entities that it named: `(left out: light.hall lock.door)`. `*` among
these says that a template may look up others: those of an area, a kind, a macro of a file, an id that it puts together.

Invariants: what stands for a part that is left out is left out as it is; of any other text nothing but known ids is kept.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment, TemplateError, nodes

from homerl.envs.assistant.listing.home_listing import is_entity_id

HIDDEN = "(left out)"  # stands for what is not read, and names nothing
MARK = re.compile(r"\(left out(?:: ([a-z0-9_.* ]+))?\)")
OTHERS = "*"  # entities that a template may look up
NAMED = re.compile(r"(?=\b([A-Za-z_]\w*\.\w+))")  # what may be the id of an entity; `states.light.hall` holds one
FIRED = "event:"  # begins an event among what is acted on
SCANNED = "tag_scanned"  # the event by which a tag is read, which an automation may fire too
CLOCK_SENSORS = frozenset(  # of the integration that shows the time
    f"sensor.{one}" for one in "time date date_time time_date time_utc date_time_utc date_time_iso".split()
)
OUTER = frozenset(  # kinds of triggers by what comes from outside of the home
    "mqtt webhook tag homeassistant conversation calendar geo_location persistent_notification".split()
)
PLACES = ("area_id", "device_id", "floor_id", "label_id")  # keys under which a target names entities by where they are

ENVIRONMENT = Environment(extensions=["jinja2.ext.do", "jinja2.ext.loopcontrols"])  # nothing is rendered
READERS = frozenset("states is_state state_attr is_state_attr has_value expand".split())  # functions of an entity by its id
FROM_FILES = (nodes.Import, nodes.FromImport, nodes.Include, nodes.Extends)


@dataclass(frozen=True)
class AutomationReferences:
    """What the texts of a home refer to: entities by their ids in the registry, and those of areas, devices, labels and
    floors, by key and id. `known` are the ids of all entities, and `heard` the events for which automations wait. `sun` has
    the seconds since midnight at which it rises and sets."""

    entities: Mapping[str, str] = field(default_factory=dict)
    places: Mapping[tuple[str, str], tuple[str, ...]] = field(default_factory=dict)
    sun: Mapping[str, int] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    heard: frozenset[str] = frozenset()

    def leave_out(self, part: Any) -> str:
        """What stands for a part that is left out: the known entities that it names, and those of the places in it."""
        if is_left_out(part):
            return str(part)
        names = list_names(part, self.places, self.entities)
        named = dict.fromkeys(one for one in names if one in self.known or one == OTHERS)
        return f"{HIDDEN[:-1]}: {' '.join(named)})" if named else HIDDEN


NOTHING = AutomationReferences()


def is_left_out(part: Any) -> bool:
    """Whether a part stands for one that was left out."""
    return isinstance(part, str) and MARK.fullmatch(part) is not None


def list_names(
    part: Any,
    places: Mapping[tuple[str, str], Collection[str]] = NOTHING.places,
    entities: Mapping[str, str] = NOTHING.entities,
    key: str = "",
) -> Iterator[str]:
    """What a part names, in small letters: ids of entities, or what looks like one, and `*` for those that it looks up."""
    if isinstance(part, Mapping):
        for inner, one in part.items():
            yield from list_names(one, places, entities, str(inner))
    elif isinstance(part, list):
        for one in part:
            yield from list_names(one, places, entities, key)
    elif isinstance(part, str):
        if (mark := MARK.fullmatch(part)) is not None:
            yield from (mark[1] or "").split()
        elif "{" in part:
            yield from _list_names_of_template(part)
        else:
            yield from (found.lower() for found in NAMED.findall(part))
            yield from places.get((key, part), ())
            yield from (entities[part],) if part in entities else ()


def _list_names_of_template(text: str) -> Iterator[str]:
    try:
        found = list(list_nodes(ENVIRONMENT.parse(text)))
    except (TemplateError, RecursionError):
        yield from (*(one.lower() for one in NAMED.findall(text)), OTHERS)
        return
    named = set[int]()  # the nodes `states` whose entity is named
    own = {node.name for node in found if isinstance(node, nodes.Macro)}
    own |= {node.name for node in found if isinstance(node, nodes.Name) and node.ctx != "load"}
    for node in found:
        match node:
            case nodes.Const(value=str() as value) | nodes.TemplateData(data=value):
                yield from (one.lower() for one in NAMED.findall(value))
            case nodes.Getattr(node=nodes.Getattr(node=nodes.Name(name="states") as states, attr=domain), attr=name):
                named.add(id(states))
                yield f"{domain}.{name}".lower()
            case nodes.Getitem(node=nodes.Name(name="states") as states, arg=nodes.Const()):
                named.add(id(states))
            case nodes.Call(node=nodes.Name() as called):
                named.add(id(called))
    if any(_looks_up_others(node, own) and id(node) not in named for node in found):
        yield OTHERS


def _looks_up_others(node: nodes.Node, own: Collection[str]) -> bool:
    """Whether a node may tell of entities that the template does not name by their ids.

    `own` are the template's macros and the names that it sets. Any other name may hold the id of any entity.
    """
    match node:
        case nodes.Name(name="states"):
            return True
        case nodes.Call(node=nodes.Name(name=name), args=[nodes.Name(name=told), *_]) if name in READERS:
            return told not in own
        case nodes.Filter(node=nodes.Name(name=told), name=name) if name in READERS:
            return told not in own
        case nodes.Call(node=nodes.Name(name=name), args=[told, *_]):
            return name not in own and _is_no_entity(told)
        case nodes.Filter(node=told, name=name) if told is not None:
            return name not in ENVIRONMENT.filters and _is_no_entity(told)
    return isinstance(node, FROM_FILES)


def _is_no_entity(node: nodes.Node) -> bool:
    """Whether a node is a text that names no entity, such as an area, or puts one together."""
    if isinstance(node, nodes.List | nodes.Tuple):
        return any(map(_is_no_entity, node.items))
    if isinstance(node, nodes.Const):
        text = node.value
        return isinstance(text, str) and any(map(str.isalpha, text)) and not is_entity_id(text.strip().lower())
    return isinstance(node, nodes.Concat | nodes.Add | nodes.Mod)


def fired_event(kind: str) -> str:
    """An event that an automation fires, as one of the things that it acts on."""
    return f"{FIRED}{kind}"


def list_heard_events(part: Any) -> Iterator[str]:
    """The kinds of events that a part of an automation waits for.

    Among these is the kind of a trigger from outside, such as `calendar`: the services of this domain cause such an event.
    """
    if isinstance(part, Mapping):
        kinds = part.get("event_type")
        yield from (one for one in (kinds if isinstance(kinds, list) else [kinds]) if isinstance(one, str))
        kind = part.get("trigger") or part.get("platform")
        if isinstance(kind, str) and kind in OUTER:
            yield from (kind, SCANNED) if kind == "tag" else (kind,)
    inner = part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ()
    yield from (found for one in inner for found in list_heard_events(one))


def list_nodes(tree: nodes.Node) -> Iterator[nodes.Node]:
    """A node of a template, and all within it."""
    yield tree
    for child in tree.iter_child_nodes():
        yield from list_nodes(child)
