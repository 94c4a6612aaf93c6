"""The page on which people check the judge by hand (PersonalHomeBench Appendix J).

Invariants: one file without network; all texts of data are escaped; equal items give the same bytes; marks that a browser
keeps belong to exactly this page.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from homerl.envs.personalhome.judge.household import HOME
from homerl.envs.personalhome.judge.human import COLUMNS, Item
from homerl.envs.personalhome.judge.words import load_judge_words
from homerl.host.pages.templates import load_template

TRAITS = ("role", "age", "gender", "occupation")
TEXTS = ("persona", "lifestyle", "preference")


def render_check(items: Sequence[Item], language: str = "en") -> str:
    """The page as HTML. Raises `ValueError` if two items have one id."""
    ids = [item.item_id for item in items]
    if len(set(ids)) != len(ids):
        raise ValueError("the items of a page need ids that differ")
    return load_template(Path(__file__).with_name("check_page.html.jinja")).render(
        items=items,
        said=load_judge_words(language).check,
        language=language,
        columns=COLUMNS,
        page=_key(ids),
        called=called,
        traits=traits,
        texts=texts,
        name=_name,
    )


def called(item: Item, home: str) -> dict[str, str]:
    """The names of the parts that the judge played, by id."""
    return {member["member_id"]: member["name"] for member in item.household["members"]} | {HOME: home}


def traits(member: Mapping[str, Any]) -> list[str]:
    """A member's role, age, gender and occupation, as far as they are given."""
    return [str(member[key]).replace("_", " ") for key in TRAITS if member.get(key) is not None]


def texts(member: Mapping[str, Any]) -> list[str]:
    """What is told of a member in sentences, and the hobbies."""
    hobbies = ", ".join(member.get("hobbies") or ())
    events = [event["description"] for event in member.get("major_events") or ()]
    return [text for text in (*(member.get(key) for key in TEXTS), hobbies, *events) if text]


def _name(appliance: Any) -> str:
    """The name of an appliance, which is a text or an object that may stand in its location."""
    while isinstance(appliance, Mapping):
        appliance = appliance.get("name", appliance.get("appliance", ""))
    return str(appliance)


def _key(ids: Sequence[str]) -> str:
    return hashlib.blake2b("\n".join(ids).encode("utf-8", "replace"), digest_size=8).hexdigest()
