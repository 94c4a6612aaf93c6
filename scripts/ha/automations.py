"""Which automations of people are taken: `python -m ha.automations FOLDER`, with their YAML files, each a person's.

People publish their automations, and not their homes. So each file is read in a home that has all that its automations name,
each entity as its integration would show it, exposed, and with the states that the automations speak of. It prints the share
of automations that were taken as a whole; how many of these something in the twin can set off at all, since what a remote, a
tag or a message alone sets off never acts there; and the causes of the others by count. Those of blueprints are passed over.
"""

from __future__ import annotations

import re
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from homerl.envs.assistant.automations.automation_actions import define_variables
from homerl.envs.assistant.automations.automation_text import keep_readable_parts
from homerl.envs.assistant.automations.home_facts import HomeFacts
from homerl.envs.assistant.automations.triggers_and_conditions import AutomationScope, entries_under_key, read_triggers
from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.entity_capabilities import shipped_service_forms, supported_services
from homerl.envs.assistant.listing.home_listing import (
    AREAS,
    AUTOMATIONS,
    CONFIG,
    DEVICES,
    ENTRIES,
    EXPOSED,
    FLOORS,
    FORMS,
    LABELS,
    REGISTERED,
    SERVICES,
    STATES,
    Listing,
)
from homerl.envs.assistant.privacy import CODES

NAMED = re.compile(r"(?<![\w.])([a-z_]+\.[a-z0-9_]+)(?![\w.(])")
BARE = re.compile(r"[0-9a-f]{32}")  # an id of the registry
OURS = re.compile(r"automation\.a\d+")  # the names that automations get here
WHAT = re.compile(r"'[^']*'|\b[a-z_]+\.[a-z0-9_]+\b|\b\d[\d.:/-]*")
HELPERS = {"input_number": {"min": -10000.0, "max": 10000.0, "step": 0.1, "mode": "box"}, "input_text": {"mode": "text"}}
SHOWN: dict[str, tuple[str, dict[str, Any]]] = {  # by domain: a state, and what an ordinary entity of it tells
    "light": ("on", {
        "supported_color_modes": ["color_temp", "hs"], "color_mode": "hs", "brightness": 200, "hs_color": [30.0, 50.0],
        "min_color_temp_kelvin": 2000, "max_color_temp_kelvin": 6500, "color_temp_kelvin": None, "supported_features": 44,
        "effect_list": ["None", "colorloop"], "effect": "None",
    }),
    "climate": ("heat", {
        "hvac_modes": ["off", "heat", "cool", "auto", "dry", "fan_only", "heat_cool"], "min_temp": 5, "max_temp": 35,
        "temperature": 20.0, "current_temperature": 21.0, "fan_modes": ["auto", "low", "high"], "fan_mode": "auto",
        "preset_modes": ["none", "away", "eco"], "preset_mode": "none", "supported_features": 413,
    }),
    "cover": ("open", {"current_position": 100, "supported_features": 15}),
    "fan": ("on", {"percentage": 50, "percentage_step": 1.0, "preset_modes": ["auto"], "supported_features": 57}),
    "media_player": ("playing", {
        "volume_level": 0.5, "is_volume_muted": False, "source_list": ["TV"], "source": "TV", "supported_features": 4194303,
    }),
    "vacuum": ("docked", {"supported_features": 16383}), "lock": ("locked", {"supported_features": 1}),
    "alarm_control_panel": ("disarmed", {"supported_features": 63, "code_arm_required": False}),
    "timer": ("idle", {"duration": "0:05:00"}), "counter": ("0", {"step": 1}), "valve": ("open", {"supported_features": 3}),
    "humidifier": ("on", {"humidity": 45, "min_humidity": 0, "max_humidity": 100}),
    "input_datetime": ("06:30:00", {"has_time": True, "has_date": False}), "sun": ("below_horizon", {
        "next_rising": "2026-11-28T07:45:00+00:00", "next_setting": "2026-11-28T16:00:00+00:00", "elevation": -20.0,
    }),
    "remote": ("on", {"supported_features": 4, "activity_list": ["TV"]}), "person": ("home", {}),
    "device_tracker": ("home", {}), "water_heater": ("eco", {"operation_list": ["eco"], "supported_features": 3}),
    "scene": ("2026-01-01T00:00:00+00:00", {}), "button": ("2026-01-01T00:00:00+00:00", {}),
    "input_button": ("2026-01-01T00:00:00+00:00", {}), "number": ("5", {"min": 0, "max": 10000, "step": 0.1}),
}  # fmt: skip
NUMERIC = ("numeric_state", "device")
UNIT = {"unit_of_measurement": "W", "state_class": "measurement"}
DOMAINS = frozenset(
    "alarm_control_panel automation binary_sensor button calendar camera climate counter cover device_tracker event fan "
    "group humidifier input_boolean input_button input_datetime input_number input_select input_text lawn_mower light lock "
    "media_player number person remote scene schedule script select sensor siren sun switch text timer update vacuum valve "
    "water_heater weather zone".split()
)


class Loader(yaml.SafeLoader):
    """Reads the tags of Home Assistant, such as `!secret`, as texts."""


Loader.add_multi_constructor("!", lambda loader, tag, node: f"{tag} of a file")


def automations(path: Path) -> list[dict[str, Any]]:
    """The automations of a file that are not of blueprints."""
    data = yaml.load(path.read_text("utf-8", "replace"), Loader)
    rows = data if isinstance(data, list) else [data]
    return [row for row in rows if isinstance(row, dict) and row.keys() & {"trigger", "triggers"}]


def texts(part: Any) -> Iterator[str]:
    """All texts of a part."""
    if isinstance(part, str):
        yield part
    for one in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from texts(one)


def parts(part: Any) -> Iterator[Mapping[str, Any]]:
    """All mappings in a part."""
    if isinstance(part, Mapping):
        yield part
    for one in part.values() if isinstance(part, Mapping) else part if isinstance(part, list) else ():
        yield from parts(one)


def listed(value: Any) -> list[Any]:
    """The values of one or several."""
    return value if isinstance(value, list) else [] if value is None else [value]


def home(rows: list[dict[str, Any]]) -> Listing:
    """What a Home Assistant would tell that has all that the automations name."""
    rows = [_with_ids(row) for row in rows]
    names = {name for row in rows for text in texts(row) for name in NAMED.findall(text.lower())}
    names |= {f"automation.a{number}" for number in range(len(rows))} | {"sun.sun"}
    services = {f"{domain}.{name}" for domain, forms in shipped_service_forms().items() for name in forms}
    names = {name for name in names if name.partition(".")[0] in DOMAINS and name not in services}
    names -= {name for name in names if name.startswith("automation.") and not OURS.fullmatch(name)}
    said: dict[str, set[str]] = {name: set() for name in names}
    numbers: set[str] = set()
    for row in rows:
        for part in parts(row):
            _tell(part, said, numbers)
        for text in texts(row):
            _tell_template(text, said, numbers)
    states = [_state(name, said[name], name in numbers, rows) for name in sorted(names)]
    places = {id for row in rows for part in parts(row) for id in listed(part.get("device_id")) if isinstance(id, str)}
    states += [_state(f"switch.d{id[:8]}", set(), False, []) for id in sorted(places)]
    return Listing(
        version="people",
        sources=_sources(states)
        | {
            DEVICES: [{"id": id} for id in sorted(places)],
            ENTRIES: {f"switch.d{id[:8]}": {"entity_id": f"switch.d{id[:8]}", "device_id": id} for id in sorted(places)},
            AUTOMATIONS: {f"automation.a{number}": row for number, row in enumerate(rows)},
        },
    )


def _with_ids(row: Any) -> Any:
    """The same with ids of entities in the place of those of the registry, which nobody published."""
    if isinstance(row, Mapping):
        ours = {key: _with_ids(value) for key, value in row.items()}
        if isinstance(id := ours.get("entity_id"), str) and BARE.fullmatch(id) and isinstance(ours.get("domain"), str):
            ours["entity_id"] = f"{ours['domain']}.r{id[:8]}"
        return ours
    return [_with_ids(one) for one in row] if isinstance(row, list) else row


def _tell(part: Mapping[str, Any], said: dict[str, set[str]], numbers: set[str]) -> None:
    """Note which states of its entities a part speaks of, and whether they are numbers."""
    ids = [one.strip().lower() for told in listed(part.get("entity_id")) if isinstance(told, str) for one in told.split(",")]
    ids = [id for id in ids if id in said]
    if part.get("attribute") is None and part.keys() & {"above", "below"}:
        numbers.update(ids)
        numbers.update(bound for key in ("above", "below") if isinstance(bound := part.get(key), str) and bound in said)
    values = [one for key in ("to", "from", "state", "not_to", "not_from") for one in listed(part.get(key))]
    for id in ids if part.get("attribute") is None else ():
        said[id].update(str(one) for one in values if isinstance(one, (str, int, float)) and "{" not in str(one))
    data = part.get("data") if isinstance(part.get("data"), Mapping) else {}
    target = part.get("target") if isinstance(part.get("target"), Mapping) else {}
    named = [
        one.strip() for place in (data, target) for told in listed(place.get("entity_id")) for one in str(told).split(",")
    ]
    for id in {*ids, *named} & said.keys():
        said[id].update(str(one) for key in ("option", "effect") for one in listed(data.get(key)) if "{" not in str(one))


def _tell_template(text: str, said: dict[str, set[str]], numbers: set[str]) -> None:
    for id, state in re.findall(r"is_state\(\s*['\"]([\w.]+)['\"]\s*,\s*['\"]([^'\"]*)['\"]", text):
        said.get(id, set()).add(state)
    for id, state in re.findall(r"states\(\s*['\"]([\w.]+)['\"]\s*\)\s*[=!]=\s*['\"]([^'\"]*)['\"]", text):
        said.get(id, set()).add(state)
    for id in re.findall(r"states\(\s*['\"]([\w.]+)['\"]\s*\)\s*\)?\s*\|\s*(?:int|float)", text):
        numbers.add(id)
    for id in re.findall(r"states\.([\w]+\.[\w]+)\.state\s*\)?\s*\|\s*(?:int|float)", text):
        numbers.add(id)


def _state(name: str, said: set[str], number: bool, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """An entity as it may be."""
    domain = name.partition(".")[0]
    state, told = SHOWN.get(domain, ("off", {}))
    words = sorted({one for one in said if one not in ("unknown", "unavailable")})
    if domain in ("input_number", "sensor") and (number or domain == "input_number"):
        state, told = "5.0", HELPERS.get(domain, UNIT)
    elif domain in ("input_select", "select", "sensor", "input_text", "text"):
        options = words or ["one", "two"]
        select = domain in ("input_select", "select")
        state, told = options[0], {"options": options} if select else HELPERS.get(domain, {})
        told = told | ({"device_class": "enum", "options": options} if domain == "sensor" and words else {})
    elif domain == "group":
        found = {
            service.partition(".")[0]
            for row in rows
            for part in parts(row)
            if name in str(part)
            if isinstance(service := part.get("service") or part.get("action"), str)
        }
        told = {
            "entity_id": [f"{kind}.member" for kind in sorted((found & DOMAINS) - {"group", "automation", "script"})]
            or ["light.member"]
        }
        state = words[0] if words else "off"
    elif domain == "event":
        state, told = "2026-01-01T00:00:00+00:00", {"event_types": ["press", "repeat"], "event_type": "press"}
    elif domain == "light":
        told = told | {"effect_list": [*told["effect_list"], *sorted(one for one in said if one not in ("on", "off"))]}
    return {
        "entity_id": name,
        "state": state,
        "attributes": {"friendly_name": name, **told},
        "last_updated": "2026-11-27T12:00:00+00:00",
    }


def _sources(states: list[dict[str, Any]]) -> dict[str, Any]:
    known = {row["entity_id"]: row["attributes"] for row in states}
    members = {one for row in states for one in listed(row["attributes"].get("entity_id"))}
    for name in sorted(members - known.keys()):
        states.append(_state(name, set(), False, []))
        known[name] = states[-1]["attributes"]
    forms = shipped_service_forms()
    return {
        CONFIG: {"time_zone": "Europe/Berlin", "unit_system": {"temperature": "°C"}},
        FLOORS: [],
        AREAS: [],
        LABELS: [],
        DEVICES: [],
        REGISTERED: [],
        ENTRIES: {},
        STATES: states,
        FORMS: forms,
        EXPOSED: {"exposed_entities": {name: {"conversation": True} for name in known}},
        SERVICES: {name: supported_services(forms, name, told) for name, told in known.items()},
    }


def can_be_set_off(imported: ImportedHome, text: Mapping[str, Any]) -> bool:
    """Whether something in the twin can set off an automation that was taken."""
    kept = keep_readable_parts(text, imported.listing.sources[FORMS], CODES)
    scope = AutomationScope(HomeFacts(imported.home, kept.get("sun") or {}, {}))
    define_variables(scope, kept.get("variables"))
    return bool(read_triggers(scope, entries_under_key(kept, "triggers", "trigger")))


def main(folder: Path) -> None:
    """Print the shares, and the causes of what was left out."""
    causes: Counter[str] = Counter()
    examples: dict[str, str] = {}
    total = left = live = 0
    for path in sorted(folder.glob("*.y*ml")):
        rows = automations(path)
        if not rows:
            continue
        imported = import_home(home(rows), everything=True)
        notes = {note.entity: note.why for note in imported.notes if note.part == "automation"}
        total, left = total + len(rows), left + len(notes)
        texts_taken = [one for name, one in imported.listing.sources[AUTOMATIONS].items() if name not in notes]
        live += (able := sum(can_be_set_off(imported, one) for one in texts_taken))
        print(f"{path.stem}: {len(rows) - len(notes)} of {len(rows)}, of which {able} can act in the twin")
        for entity, why in notes.items():
            cause = WHAT.sub("..", why)
            causes[cause] += 1
            examples.setdefault(cause, f"{path.stem} {entity}: {why}")
    print(f"\n{total - left} of {total} automations are taken whole ({(total - left) / max(total, 1):.1%})")
    print(f"{live} of these {total - left} can be set off in the twin ({live / max(total, 1):.1%} of all)\n")
    for cause, count in causes.most_common():
        print(f"{count:5} {cause}\n      such as {examples[cause][:200]}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
