"""Asks the guard about the names in Home Assistant's own translations: `python -m ha.guard_names WHEEL`, in `scripts`.

WHEEL is that of a Home Assistant (`pip download --no-deps homeassistant`). A name counts if the guard takes its English
text, unless that is a figure of speech: then it has to take the translation. What it takes of the others is a false alarm.
`--names` prints each that fails. Figures compare if they are of as many names, for the English words decide which count.
"""

from __future__ import annotations

import argparse
import json
import re
import zipfile
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from homerl.envs.assistant.listing.guard_words import has_guard_word, has_guard_words

TRANSLATION = re.compile(r"homeassistant/components/(\w+)/translations/([\w-]+)\.json")
TITLED = frozenset("alarm_control_panel lock siren valve water_heater".split())  # the name of the kind is one of devices
CLASSED = frozenset("binary_sensor cover event".split())  # so are those of their classes
NAMED = TITLED | frozenset("button cover switch".split())
FIGURATIVE = re.compile(  # English names whose word means something else, so no translation has to say it
    "auto shut-off|battery lock|buzzer|charg|child lock|evse|false alarm|(fridge|freezer) door|frost lock|gaze|hood|kiosk"
    "|lock (buttons|physical controls)|(dynamic range|range extension)|relock|reset valve diagnostics"
    "|safe ?(browsing|protect|search)|slot|steering wheel|switch lock|unlock socket"
)

Key = tuple[str, ...]


def names_by_language(wheel: Path) -> dict[str, dict[Key, str]]:
    """What a wheel calls kinds, classes and entities, by language and by where it says so."""
    found: dict[str, dict[Key, str]] = defaultdict(dict)
    with zipfile.ZipFile(wheel) as files:
        for file in files.namelist():
            if match := TRANSLATION.fullmatch(file):
                component, language = match.groups()
                found[language].update(_names_of_component(component, json.loads(files.read(file))))
    return found


def _names_of_component(component: str, texts: dict[str, Any]) -> Iterator[tuple[Key, str]]:
    titles = {component: texts.get("title")} if component in TITLED else {}
    classes = texts.get("entity_component", {}) if component in CLASSED else {}
    parts = [("title", titles), ("class", {key: of.get("name") for key, of in classes.items() if key != "_"})]
    parts += [(kind, {key: of.get("name") for key, of in texts.get("entity", {}).get(kind, {}).items()}) for kind in NAMED]
    for part, names in parts:
        for key, name in names.items():
            if name and not re.search(r"[{[]", name):  # filled in by the integration, or taken from another text
                yield (component, part, key), name


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("wheel", type=Path)
    parser.add_argument("--names", action="store_true")
    asked = parser.parse_args()
    found = names_by_language(asked.wheel)
    english = found["en"]
    plain = {key for key, name in english.items() if not FIGURATIVE.search(name.lower())}
    told = {key for key in plain if _is_taken(english[key])}
    print("| language | names | guarded | % | other names | guarded |\n|---|---|---|---|---|---|")
    rows = []
    for language, names in sorted(found.items()):
        if language.startswith("en") or not has_guard_words(language):
            continue
        own = {key: name for key, name in names.items() if name != english.get(key, name)}
        guarded = {name: english[key] for key, name in own.items() if key in told}
        others = {name: english[key] for key, name in own.items() if key in plain - told}
        missed = [name for name in guarded if not _is_taken(name)]
        alarms = [name for name in others if _is_taken(name)]
        if not guarded:
            continue
        rows.append((len(guarded), len(guarded) - len(missed), len(others), len(alarms)))
        print(_row(language, rows[-1]))
        if asked.names:
            print(*(f"missed: {name} ({guarded[name]})" for name in missed), sep="\n")
            print(*(f"false alarm: {name} ({others[name]})" for name in alarms), sep="\n")
    total = [sum(column) for column in zip(*rows, strict=True)]
    print(_row(f"{len(rows)} languages", total))


def _is_taken(name: str) -> bool:
    return has_guard_word([name], "acts", "places", "flows")


def _row(language: str, counts: tuple[int, ...] | list[int]) -> str:
    names, guarded, others, alarms = counts
    share = f"{100 * guarded / names:.0f}" if names else "-"
    return f"| {language} | {names} | {guarded} | {share} | {others} | {alarms} |"


if __name__ == "__main__":
    main()
