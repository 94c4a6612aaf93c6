"""`make-home` with one's own devices, and of a recipe's homes."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml
from command import homerl

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.home_file import load_home, save_home

BELL = {
    "attributes": [{"name": "loud", "type": "bool"}],
    "services": [{"name": "ring", "description": "Ring", "code": "self.loud = True"}],
}
READING = {"attributes": [{"name": "level", "type": "int", "range": [0, 9], "read_only": True}]}


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """A folder of devices: of an unknown category, for one room only, and of a shipped category."""
    kinds = {
        "900001": ("bell", {}, BELL),
        "900002": ("mower", {"rooms": ["garage"]}, BELL),
        "900003": ("light", {}, BELL),
        "900004": ("gauge", {}, READING),
    }
    folder = tmp_path / "devices"
    folder.mkdir()
    for spid, (category, more, rest) in kinds.items():
        spec = {"name": f"my_{category}", "userdata": {"category": category, "spid": spid, **more}, **rest}
        (folder / f"{category}.yaml").write_text(yaml.safe_dump([spec]))
    return folder


def made(tmp_path: Path, *arguments: object) -> Counter[str]:
    done = homerl("make-home", "--out", tmp_path / "home.json", *map(str, arguments))
    assert done.code == 0, done.err
    return Counter(device.spec.spid for device in load_home(tmp_path / "home.json").plan.devices)


@pytest.mark.parametrize("seed", [*range(3), *(pytest.param(seed, marks=pytest.mark.long) for seed in range(3, 8))])
def test_each_device_of_ones_own_is_in_the_home(own, tmp_path, seed):
    held = made(tmp_path, "--seed", seed, "--catalogue", own)
    home = load_home(tmp_path / "home.json")
    assert held.keys() >= {"900001", "900002", "900003", "900004"} and held.total() > 4
    assert all(device.room.type == "garage" for device in home.plan.devices if device.spec.spid == "900002")
    assert any(d.spec.service_index for d in home.plan.devices)


def test_one_file_is_enough_and_where_it_stands_is_said(own, tmp_path):
    done = homerl("make-home", "--out", tmp_path / "home.json", "--catalogue", own / "bell.yaml", "--devices", "1-1")
    device = next(d for d in load_home(tmp_path / "home.json").plan.devices if d.spec.spid == "900001")
    assert f"my_bell: {device.did} in the {device.room.name}" in " ".join(done.out.split())


def test_each_home_of_a_recipe_holds_what_it_should():
    kind = HomeRecipe(devices=(5, 8), catalogue=("homeassistant",), holds=("ha_lock", "ha_vacuum"))
    homes = [{device.spec.spid for device in make_home(seed, kind).plan.devices} for seed in range(20)]
    assert all({"ha_lock", "ha_vacuum"} <= held for held in homes) and len(set(map(frozenset, homes))) > 15
    with pytest.raises(InputError, match="HomeRecipe.holds: the catalogue has no 'ha_lok'"):
        make_home(0, kind.model_copy(update={"holds": ("ha_lok",)}))


def test_the_home_is_one_of_the_recipe(own, tmp_path):
    kind = {"devices": [9, 9], "categories": ["light", "bell"], "catalogue": [str(own)], "language": "zh"}
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "out": "x", "synth": {"recipe": {"home": kind}}}))
    made(tmp_path, "--recipe", recipe, "--seed", 3)
    home = load_home(tmp_path / "home.json")
    assert home.state_key() == make_home(3, HomeRecipe(**kind)).state_key() and len(home.plan.devices) == 9
    done = homerl(
        "make-home", "--out", tmp_path / "more.json", "--recipe", recipe, "--catalogue", own
    )  # the same folder again
    assert done.code == 0 and "my_bell: " in done.out and "my_mower: no place in this home" in done.out


def test_the_home_of_a_mixture_is_of_its_first_part_that_has_homes(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    parts = {"matter": {"recipe": {"world": "simuhome"}}, "own": {"recipe": {"home": {"devices": [7, 7]}}}}
    recipe.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "out": "x", "synth": {"recipe": {"worlds": parts}}}))
    made(tmp_path, "--recipe", recipe)
    assert len(load_home(tmp_path / "home.json").plan.devices) == 7


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--recipe", "recipe.yaml", "--devices", "2-3"), "leave out --devices"),
        (("--recipe", "recipe.yaml", "--catalogue", "devices"), "the recipe's homes are files"),
        (("--recipe", "quickstrat.yaml"), "did you mean quickstart?"),
        (("--catalogue", "nowhere"), "nowhere: there is no such folder"),
        (("--catalogue", "empty"), "empty: no device files found"),
    ],
)
def test_what_does_not_go_together_is_said(own, tmp_path, monkeypatch, arguments, says):
    monkeypatch.chdir(tmp_path)
    save_home(make_home(1), "file.json")
    Path("empty").mkdir()
    recipe = {"homerl": 1, "run": "synth", "out": "x", "synth": {"recipe": {"home": {"files": ["file.json"]}}}}
    Path("recipe.yaml").write_text(yaml.safe_dump(recipe))
    done = homerl("make-home", "--out", "home.json", *arguments)
    assert done.code == 2 and says in " ".join(done.err.split()) and not Path("home.json").exists()
