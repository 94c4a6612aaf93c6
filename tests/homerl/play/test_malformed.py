"""Blueprints, trajectories and the command line, given files that went wrong: one message, code 2, nothing else."""

import json
from pathlib import Path

import pytest
from command import homerl
from draws import RANDOM, few
from hypothesis import given
from hypothesis import strategies as st
from mutations import mutated, spoilt
from pydantic import ValidationError
from right_files import DEVICE_FILES, NUMBERS, assert_coherent, right_text

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.replay import reverify_file
from homerl.play.trajectory import JSON_COLUMNS
from homerl.worlds.registry import begin_episode, restore_situation

pytestmark = pytest.mark.timeout(1800)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("malformed")


def written(data: object) -> str:
    """As JSON, as far as it can be said in it."""
    try:
        return json.dumps(data)
    except ValueError:  # an integer of too many digits
        return '{"cut'


@few(20)
@given(RANDOM)
def test_a_wrong_blueprint_is_refused_or_can_be_played(rows, rng):
    told = json.loads(rng.choice(rows)["blueprint"])
    try:
        episode = begin_episode(Blueprint.model_validate(mutated(told, rng)))
    except (InputError, ValidationError):
        return
    assert_coherent(episode.situation.home, rng)
    assert episode.progress <= 1 and episode.fork().open_intents() == episode.open_intents()


@few(40)
@given(RANDOM)
def test_a_wrong_trajectory_is_refused_or_replayed(folder, rows, rng):
    row = json.loads(json.dumps(rng.choice(rows[:10])))
    name = rng.choice((None, "blueprint", *JSON_COLUMNS))
    if name is None:
        row = mutated(row, rng)
    else:
        row[name] = written(mutated(json.loads(row[name]), rng))
    text = written(row).encode()
    (folder / "rows.jsonl").write_bytes((spoilt(text, rng) if rng.random() < 0.25 else text) + b"\n")
    try:
        assert "all as recorded" in reverify_file(folder / "rows.jsonl", restore_situation)
    except InputError as error:
        assert error.where and error.remedy and len(str(error).splitlines()) <= 3


@few(12)
@given(NUMBERS, st.booleans(), RANDOM)
def test_the_command_line_says_in_one_message_what_is_wrong_with_a_home(folder, number, complete, rng):
    path, right = folder / "home.json", right_text(number, complete)
    wrong = spoilt(right.encode(), rng) if rng.random() < 0.5 else written(mutated(json.loads(right), rng)).encode()
    path.write_bytes(wrong)
    for command in (("check-home",), ("view", "home")):
        done = homerl(*command, path)
        code, said = done.code, done.err
        assert code in (0, 2) and (code == 2) == bool(said) and len(said.splitlines()) <= 3
        assert not said or (said.startswith("homerl: ") and "Traceback" not in said)


@few(12, many=500)
@given(st.sampled_from(DEVICE_FILES), RANDOM)
def test_the_command_line_lists_what_is_wrong_with_devices(folder, text, rng):
    (folder / "lamp.yaml").write_bytes(spoilt(text.encode(), rng))
    done = homerl("check-devices", folder)
    assert done.code in (0, 2) and not done.err


def test_paths_may_hold_what_consoles_take_for_markup(tmp_path):
    path = tmp_path / "[" / "b].json"
    for command in (("make-home", "--out"), ("check-home",)):
        done = homerl(*command, path)
        assert (done.code, done.err) == (0, "")


def test_a_row_that_is_none_is_refused_by_its_line(folder):
    for wrong in (b"[1]", b"\xff\xfe", b'{"id": ' + b"9" * 5000 + b"}", b"[" * 100_000, b"{}", b'{"id": "x"'):
        (folder / "rows.jsonl").write_bytes(wrong)
        with pytest.raises(InputError) as refused:
            reverify_file(folder / "rows.jsonl", restore_situation)
        assert refused.value.where.endswith("rows.jsonl:1")
