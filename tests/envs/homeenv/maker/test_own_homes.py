"""Homes from people's files: the home stays as it is, its state is drawn, and what cannot be used is refused at once."""

import json
from functools import cache
from pathlib import Path

import pytest
from draws import few
from forked import python
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.initial_state import NEEDS, RUNNING
from homerl.envs.homeenv.maker.make import HomeRecipe, drawn_paths, load_own_homes, make_home
from homerl.envs.homeenv.sim.automation import make_rule
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_to_json, load_home, save_home

ENTAILED = {"power", "sleep_state", "countdown", "mode", *RUNNING, *(name for name, _ in NEEDS.values())}


def saved(folder: Path, name: str = "home.json", seed: int = 3, devices: int = 20) -> str:
    save_home(make_home(seed, HomeRecipe(devices=(devices, devices))), folder / name)
    return str(folder / name)


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> str:
    return saved(tmp_path_factory.mktemp("homes"))


@cache
def of(file: str, keep: str, seed: int) -> Home:
    return make_home(seed, HomeRecipe(files=(file,), keep=keep))


def identity(home: Home) -> tuple:
    return home.plan.rooms, home.plan.devices, home.plan.entrance


@few(20, 40)
@given(seed=st.integers(0, 10**6), keep=st.sampled_from(["nothing", "weather", "state"]))
def test_rooms_devices_and_names_never_change(file: str, seed: int, keep: str) -> None:
    assert identity(of(file, keep, seed)) == identity(load_home(file))


@few(20, 40)
@given(seed=st.integers(0, 10**6))
def test_only_what_services_write_is_drawn_and_the_rest_follows(file: str, seed: int) -> None:
    before, drawn = load_home(file), of(file, "nothing", seed)
    assert drawn.plan.time_wiring.compute_air_bias(drawn.values) == drawn.plan.bias, "the air is a state that lasts"
    for reading in drawn.plan.time_wiring.readings:
        assert reading.value_of_quantity(
            drawn.values[drawn.plan.time_wiring.rooms[reading.room].slot + reading.quantity]
        ) == pytest.approx(drawn.values[reading.slot], abs=1)
    for device in drawn.plan.devices:
        now, then = drawn.state_of(device.did), before.state_of(device.did)
        free = drawn_paths(device.spec) | {path for path, (_, a) in device.spec.attribute_index.items() if a.counts}
        changed = {path.rpartition(".")[2] for path in now if now[path] != then[path] and path not in free}
        assert changed <= ENTAILED, "what no service writes stays, or follows from what was drawn"


def test_a_file_gives_many_states_by_seed(file: str) -> None:
    states = {of(file, "nothing", seed).state_key() for seed in range(30)}
    assert len(states) == 30 and len({of(file, "nothing", seed).clock for seed in range(30)}) == 30


def test_weather_and_state_can_stay_as_in_the_file(file: str) -> None:
    before = load_home(file)
    for seed in range(5):
        kept, weather = of(file, "state", seed), of(file, "weather", seed)
        assert kept.state_key() == before.state_key()
        assert (weather.clock, weather.state_of(OUTDOORS)) == (before.clock, before.state_of(OUTDOORS))
        assert weather.plan.forecast == before.plan.forecast and weather.values != before.values


def test_the_same_seed_gives_the_same_bytes_in_every_process(file: str) -> None:
    code = (
        "import json, sys; from homerl.envs.homeenv.maker.make import *; "
        "from homerl.envs.homeenv.sim.home_file import home_to_json; "
        "print(json.dumps([home_to_json(make_home(s, HomeRecipe(files=(sys.argv[1],)))) for s in range(3)]))"
    )
    here = [home_to_json(of(file, "nothing", seed)) for seed in range(3)]
    assert json.loads(python(code, file).stdout) == json.loads(json.dumps(here))


def test_a_folder_is_all_of_its_files(tmp_path: Path) -> None:
    for name, seed in (("b.json", 1), ("a.json", 2)):
        saved(tmp_path, name, seed, devices=4)
    recipe = HomeRecipe(files=(str(tmp_path),))
    drawn = {make_home(seed, recipe).plan.rooms for seed in range(20)}
    assert drawn == {load_home(tmp_path / name).plan.rooms for name in ("a.json", "b.json")}


def test_the_report_of_an_import_is_no_home(tmp_path: Path) -> None:
    saved(tmp_path, devices=4)
    (tmp_path / "home.import.json").write_text('{"homeassistant": "2026.11.0"}')
    assert make_home(1, HomeRecipe(files=(str(tmp_path),))).plan.rooms == load_home(tmp_path / "home.json").plan.rooms


def test_automations_stay_and_begin_anew(tmp_path: Path) -> None:
    home = make_home(3, HomeRecipe(devices=(20, 20)))
    did, service = next(
        (d.did, path) for d in home.plan.devices for path in d.spec.service_index if path.endswith("turn_on")
    )
    action = [{"did": did, "locator": service}]
    home.rules += (make_rule(home, ["time_cron = 0 0 22 ? * 2-6 *"], action),)
    home.rules += (make_rule(home, [], action, delay=900),)
    home.rules += (make_rule(home, [f'room("{home.plan.rooms[0].id}").temperature > -40'], action),)
    save_home(home, tmp_path / "home.json")
    drawn = make_home(1, HomeRecipe(files=(str(tmp_path / "home.json"),)))
    cron, once, condition = drawn.rules
    assert drawn.clock != home.clock and once.progress.due == once.definition.at == drawn.clock + 900
    due = cron.progress.due
    assert due is not None and 0 < due - drawn.clock <= 4 * 86400
    assert condition.progress.held, "what already holds does not trigger"
    assert {fired.rule for fired in drawn.advance(901)} >= {once.id}


# Refusals


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda home: home["rooms"][0].update(name=" "), "home.files: rooms.0.name"),
        (lambda home: home["devices"][1].update(name="?!"), "home.files: devices.1.name"),
        (lambda home: home["devices"].clear(), "home.files: devices: none has a service"),
        (lambda home: home.pop("rooms"), "home.files: rooms is missing"),
        (lambda home: home["devices"][0]["userdata"].update(room="attic"), "home.files: device"),
    ],
)
def test_a_file_that_cannot_be_used_is_named_with_its_key(tmp_path: Path, change, what: str) -> None:
    bad = json.loads(Path(saved(tmp_path, devices=3)).read_text())
    bad.pop("entrance", None)
    change(bad)
    (tmp_path / "bad.json").write_text(json.dumps(bad))
    for seed in range(4):  # whichever home is drawn
        with pytest.raises(InputError) as refused:
            make_home(seed, HomeRecipe(files=(str(tmp_path / "home.json"), str(tmp_path / "bad.json"))))
        assert what in refused.value.what and refused.value.where.startswith(str(tmp_path / "bad.json"))


def test_files_that_are_missing_are_named(tmp_path: Path) -> None:
    for path, what in ((tmp_path, "no home file"), (tmp_path / "home.json", "no such file")):
        with pytest.raises(InputError, match=what) as refused:
            load_own_homes((str(path),))
        assert refused.value.where == str(path) and "homerl make-home --out" in refused.value.remedy


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        *(({key: value}, key) for key, value in {
            "scale": "simple", "devices": (3, 4), "rooms": (2, 3), "entrance": True, "lexicon": "heldout",
            "categories": ("light",), "products": ("100001",), "did_range": (1, 50), "ids": "slug", "catalogue": ("mine",),
        }.items()),
        ({"keep": "state", "forecast": 0}, "forecast"),
        ({"keep": "weather", "hemisphere": "north"}, "hemisphere"),
    ],
)  # fmt: skip
def test_keys_that_make_homes_do_not_go_with_files(keys: dict, named: str) -> None:
    with pytest.raises(ValidationError, match=named):
        HomeRecipe(files=("home.json",), **keys)


def test_a_recipe_that_was_written_loads_again() -> None:
    recipe = HomeRecipe(files=("home.json",), keep="weather", language="zh")
    assert HomeRecipe(**recipe.model_dump(mode="json")) == recipe
    with pytest.raises(ValidationError, match="keep is for homes from `files`"):
        HomeRecipe(keep="state")
