"""People check the judge by hand (PersonalHomeBench Appendix J): what they are shown, and the CSV files that they fill in.

A person marks each verdict twice: its overall scores, and the views of members and home. 2 is correct, 1 partial, 0
incorrect. The paper reports more than 65 % agreement between people, and no full disagreement.

Invariants: a file is one person's, and its name is the person's; a judgement without a mark is left out, never counted as
0; what cannot be read raises `InputError` with file and line.
"""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from pathlib import Path
from typing import Any, Literal

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.tasks import metrics

COLUMNS = ("item_id", "overall", "persona", "note")
KINDS = ("overall", "persona")
MARKS = ("0", "1", "2")


@dataclass(frozen=True)
class Item:
    """A verdict to check, and what it is about.

    `household` is of the paper's schema; `scene` and `events` say what goes on, events in the order of time; `verdict` is
    that of abs mode on `programs`.
    """

    item_id: str
    household: Mapping[str, Any]
    scene: str
    events: tuple[str, ...]
    programs: Sequence[Mapping[str, Any]]
    verdict: Mapping[str, Any]
    modality: Literal["text", "video"] = "text"


@dataclass(frozen=True)
class Marks:
    """A person's marks of one verdict; None where there is none."""

    overall: int | None
    persona: int | None
    note: str = ""


def csv_template(items: Sequence[Item]) -> str:
    """An empty CSV file for these items."""
    out = io.StringIO()
    writer = csv.writer(out)
    writer.writerow(COLUMNS)
    writer.writerows([item.item_id, "", "", ""] for item in items)
    return out.getvalue()


def read_marks(path: Path, known: Collection[str]) -> dict[str, Marks]:
    """The marks of a filled CSV file by item, which must be `known`. Commas or semicolons separate its columns."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # spreadsheets begin a file with a mark
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the marks cannot be read: {error}", str(path), "save them as CSV in UTF-8") from None
    first = text.partition("\n")[0]
    rows = csv.DictReader(io.StringIO(text, newline=""), delimiter=";" if ";" in first else ",")
    if missing := [name for name in COLUMNS[:3] if name not in (rows.fieldnames or ())]:
        raise InputError(f"there is no column '{missing[0]}'", f"{path}:1", f"keep the first line: {','.join(COLUMNS)}")
    found: dict[str, Marks] = {}
    for row in rows:
        where = f"{path}:{rows.line_num}"
        item = (row["item_id"] or "").strip()
        if item not in known or item in found:
            what = f"'{item}' is marked twice" if item in found else f"there is no item '{item}'"
            raise InputError(what, where, "keep one line for each item of the page")
        overall, persona = (_mark(row[kind], where) for kind in KINDS)
        found[item] = Marks(overall, persona, row.get("note") or "")
    return found


def _mark(said: str | None, where: str) -> int | None:
    said = (said or "").strip()
    if said and said not in MARKS:
        raise InputError(f"'{said}' is no mark", where, f"write one of {', '.join(MARKS)}, or nothing")
    return int(said) if said else None


def checked(people: Mapping[str, Mapping[str, Marks]]) -> dict[str, Any]:
    """What people's marks say, for `overall` and `persona` as plain data.

    `shares` has the shares of marks 0, 1 and 2 by person; `pairs` the agreement of each two people who marked the same
    items, and `all` that of all such pairs together (`metrics.agreement`).
    """
    return {kind: _checked(people, kind) for kind in KINDS}


def _checked(people: Mapping[str, Mapping[str, Marks]], kind: str) -> dict[str, Any]:
    given = {
        person: {item: mark for item, row in marks.items() if (mark := getattr(row, kind)) is not None}
        for person, marks in people.items()
    }
    pairs = {
        f"{one}, {other}": [(given[one][item], given[other][item]) for item in given[one] if item in given[other]]
        for one, other in combinations(sorted(given), 2)
    }
    shared = [pair for found in pairs.values() for pair in found]
    return {
        "shares": {person: _shares(marks) for person, marks in sorted(given.items()) if marks},
        "pairs": {names: metrics.mark_agreement(found) for names, found in pairs.items() if found},
        **({"all": metrics.mark_agreement(shared)} if shared else {}),
    }


def _shares(marks: Mapping[str, int]) -> dict[str, float]:
    counts = Counter(map(str, marks.values()))
    return {mark: counts[mark] / len(marks) for mark in MARKS}
