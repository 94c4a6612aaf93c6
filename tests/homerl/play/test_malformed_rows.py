"""Rows of a stranger: each command that reads trajectories ends with one message and code 2, or with a page."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command import homerl

from homerl.play.trajectory import trajectory_to_row
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import known_worlds

DEEP = "[" * 100_000
JUNK: list[Any] = [
    None,
    True,
    -1,
    1.5,
    float("nan"),
    10**30,
    "",
    "x",
    "null",
    "[1e999]",
    "[NaN]",
    "[[]]",
    DEEP,
    '{"a":' * 9999,
]
JUNK += [
    [],
    {},
    [None],
    [[]],
    {"id": 5},
    "\ud800",
    '["\\ud800"]',
    "9" * 5000,
    "1e400",
    '{"world":["a"]}',
    '{"id":"x"}',
    "{}",
]
JUNK += [[{"role": "user", "content": None}], [{"role": "tool", "content": 5}], ["success"]]


@pytest.fixture(scope="module")
def row() -> dict[str, Any]:
    import asyncio

    from homerl.play.loop import play
    from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, world_of
    from homerl.worlds.users import ScriptedUser

    blueprint = make_blueprint_of_seed(known_worlds()["homeenv"].recipe(), "train", 3)
    agent = world_of(blueprint).expert(ExpertConfig(), 0)
    return trajectory_to_row(asyncio.run(play(begin_episode(blueprint), agent, ScriptedUser())))


def paths(data: Any, above: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    pairs = data.items() if isinstance(data, dict) else enumerate(data[:3]) if isinstance(data, list) else ()
    for key, value in pairs:
        yield (*above, key)
        yield from paths(value, (*above, key))


def spoilt(row: dict[str, Any], rng: random.Random) -> str:
    """The line of a row with junk in the place of a value, at the top or within, or with a part cut out."""
    how, key = rng.choice(("top", "within", "gone", "cut")), rng.choice(sorted(row))
    if how == "top":
        return json.dumps({**row, key: rng.choice(JUNK)})
    if how == "gone":
        return json.dumps({name: value for name, value in row.items() if name != key})
    if how == "cut":
        text, at = json.dumps(row), rng.randrange(len(json.dumps(row)))
        return text[:at] + text[at + rng.randrange(1, 50) :] if rng.random() < 0.5 else text[:at]
    key = rng.choice(["steps", "blueprint", "tools", "limits", "messages"])
    data = copy.deepcopy(row[key]) if key == "messages" else json.loads(row[key])
    *above, last = rng.choice(list(paths(data)))
    here = data
    for part in above:
        here = here[part]
    here[last] = rng.choice(JUNK)
    return json.dumps({**row, key: data if key == "messages" else json.dumps(data)})


@pytest.mark.parametrize("seed", range(8))
def test_a_spoilt_row_ends_with_one_message_or_a_page(tmp_path: Path, row: dict[str, Any], seed: int) -> None:
    file, rng = tmp_path / "rows.jsonl", random.Random(seed)
    for _ in range(5):
        file.write_text(spoilt(row, rng) + "\n")
        for command in (("view", "episode", file, "--out", tmp_path / "x.html"), ("reverify", file)):
            done = homerl(*command)
            assert done.code in (0, 2) and "Traceback" not in done.err and len(done.err.splitlines()) <= 3
            assert done.code == 0 or f"{file}:1" in done.err


@pytest.mark.parametrize(
    "change", [{"steps": DEEP}, {"rewards": "[1e999]"}, {"blueprint": "{}"}, {"blueprint": '{"id":"x","world":["a"]}'}]
)
def test_what_is_nested_or_of_a_wrong_type_is_named_by_its_line(tmp_path: Path, row: dict[str, Any], change: dict) -> None:
    file = tmp_path / "rows.jsonl"
    file.write_text(json.dumps(row | change) + "\n")
    done = homerl("view", "episode", file)
    assert done.code == 2 and done.err.startswith(f"homerl: {file}:1: not a trajectory") and len(done.err.splitlines()) == 2
