"""What is shown of a household: the schema of the paper's Appendix H, and nothing that is typed."""

from __future__ import annotations

import json

import pytest

from envs.personalhome.generate import HouseholdRecipe, make_household
from envs.personalhome.shown import member_shown, shown

KEYS = {
    "household_id", "household_size", "occupancy_type", "layout", "pets", "members", "appliances", "sensors", "memories",
    "context",
}  # fmt: skip
MEMBER = {
    "member_id", "name", "role", "age", "gender", "occupation", "persona", "hobbies", "lifestyle", "preference",
    "major_events",
}  # fmt: skip


@pytest.mark.parametrize("language", ["en", "zh"])
@pytest.mark.parametrize("seed", range(8))
def test_the_schema_of_the_paper_is_shown(language: str, seed: int) -> None:
    home = make_household(seed, HouseholdRecipe(language=language))
    plain = shown(home)
    assert json.loads(json.dumps(plain)) == plain
    assert plain.keys() == KEYS and plain["household_size"] == len(home.members)
    for member, known in zip(plain["members"], home.members, strict=True):
        assert member.keys() == MEMBER
        assert member["age"] == known.age(home.now.date())
        assert member == member_shown(known, home)
    rooms = {room["name"] for room in home.home["rooms"]}
    devices = [
        *((a["appliance"], a["location"]) for a in plain["appliances"]),
        *((s["sensor"], s["location"]) for s in plain["sensors"]),
    ]
    assert len(devices) == len(home.home["devices"])
    assert all(device.keys() == {"name", "kind", "state"} and room in rooms for device, room in devices)
    assert [m["memory"] for m in plain["memories"]] == [m.memory for m in home.memories]
    assert plain["context"]["weather"]["outdoor"].keys() == {"rain", "snow", "sunny", "temperature", "wind"}
    assert plain["context"]["weather"]["indoor"].keys() == {"dust", "humidity", "odor", "temperature"}


def test_nothing_typed_is_shown() -> None:
    for seed in range(20):
        text = json.dumps(shown(make_household(seed)))
        for key in (
            '"fact"',
            '"habits"',
            '"tastes"',
            '"traits"',
            '"situations"',
            '"birthday"',
            "software_engineer",
            "brewing_coffee",
        ):
            assert key not in text


def test_chinese_is_shown_in_chinese() -> None:
    plain = shown(make_household(3, HouseholdRecipe(language="zh")))
    for member in plain["members"]:
        assert not any(member[key].isascii() for key in ("name", "role", "gender", "occupation", "persona"))
    assert not plain["occupancy_type"].isascii()
