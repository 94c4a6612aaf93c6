"""The files around the protocol, which need no package of OpenEnv."""

from pathlib import Path

import pytest
import yaml

from homerl import __version__
from homerl.app.recipe_reference import write_recipes

ROOT = Path(__file__).parents[4]
FOLDER = ROOT / "recipes" / "openenv"


@pytest.mark.parametrize("name", ["fork_search", "fork_credit"])
def test_a_client_is_short(name):
    assert len((FOLDER / f"{name}.py").read_text(encoding="utf-8").splitlines()) < 100


def test_init_writes_the_folder_whole(tmp_path):
    write_recipes(tmp_path)
    files = {path.relative_to(FOLDER) for path in FOLDER.rglob("*") if path.is_file() and path.suffix != ".pyc"}
    assert {path.relative_to(tmp_path / "openenv") for path in (tmp_path / "openenv").rglob("*") if path.is_file()} == files
    assert (tmp_path / "openenv/Dockerfile").read_bytes() == (FOLDER / "Dockerfile").read_bytes()
    assert (tmp_path / "quickstart.yaml").exists()


def test_the_folder_has_the_version_of_homerl():
    assert yaml.safe_load((FOLDER / "openenv.yaml").read_text(encoding="utf-8"))["version"] == __version__
