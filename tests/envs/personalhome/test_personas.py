"""Personas that people are seeded from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.generate import people as personas
from homerl.envs.personalhome.sim.generate.people import load_personas

ROWS = [
    {
        "persona": f"Mary Ann Stone, a keeper of {kind}, sings. Mary is calm.",
        "age": age,
        "sex": sex,
        "occupation": "bee_keeper",
        "hobbies_and_interests_list": "['bees', \"singer's circle\"]",
    }
    for kind, sex in (("bees", "Female"), ("wasps", "Male"))
    for age in range(15, 100, 5)
]


def written(path: Path, rows: list[Any]) -> str:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return str(path)


def test_people_take_over_persona_occupation_and_hobbies_but_keep_their_name(tmp_path: Path) -> None:
    source = written(tmp_path / "personas.jsonl", ROWS)
    home = make_household(1, HouseholdRecipe(personas=source))
    plain = make_household(1, HouseholdRecipe())
    for member in home.members:
        kind = "bees" if member.gender == "Female" else "wasps"
        assert member.persona == f"{member.name}, a keeper of {kind}, sings. {member.name} is calm."
        assert member.occupation == "bee keeper"
        assert member.hobbies == ("bees", "singer's circle")
    assert [member.role for member in home.members] == [member.role for member in plain.members]


def test_children_whom_no_persona_fits_keep_their_own(tmp_path: Path) -> None:
    source = written(tmp_path / "old.jsonl", [ROWS[-1] | {"age": 119}])
    home = make_household(1, HouseholdRecipe(personas=source))
    assert all("keeper" not in member.persona for member in home.members)


@pytest.mark.parametrize(
    ("rows", "place"),
    [([], "there are no personas"), ([{"age": 3}], "persona"), (["text"], "no object"), ([ROWS[0] | {"age": -1}], "age")],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, rows: list[Any], place: str) -> None:
    source = written(tmp_path / "wrong.jsonl", rows)
    with pytest.raises(InputError, match=place):
        load_personas(source)


def test_a_missing_file_and_broken_json_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        load_personas(str(tmp_path / "none.jsonl"))
    path = tmp_path / "broken.jsonl"
    path.write_text("{\n")
    with pytest.raises(InputError, match="not JSON"):
        load_personas(str(path))


def test_a_hub_data_set_is_read_by_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, dict[str, Any]]] = []

    def load_dataset(name: str, **how: Any) -> list[dict[str, Any]]:
        asked.append((name, how))
        return ROWS

    import datasets

    monkeypatch.setattr(datasets, "load_dataset", load_dataset)
    assert len(load_personas("somebody/personas")) == len(ROWS)
    assert asked == [("somebody/personas", {"split": "train", "streaming": True})]
    monkeypatch.setattr(datasets, "load_dataset", lambda *_, **__: [][0])
    with pytest.raises(InputError, match="cannot be loaded"):
        personas.load_personas("somebody/nothing")
