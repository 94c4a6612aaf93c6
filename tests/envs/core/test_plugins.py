"""Plug-ins: files that are used because they are in a folder, and the refusal of those that cannot be used."""

import os
import sys
from abc import ABC, abstractmethod
from importlib import import_module
from pathlib import Path

import pytest
from forked import homerl

from homerl.envs.core.documents import InputError
from homerl.envs.core.plugins import VARIABLES, added_plugin_folders, discover, late, plugin_folder_variables

ROOT = Path(__file__).parents[3]
CONTRACT = """
class Shape:
    name: str
    corners: int = 0
"""
SQUARE = """
from shapes_under_test.contract import Shape
class Square(Shape):
    name = "square"
    corners = 4
SHAPE = Square()
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A package with the part `contract`, the plug-in `square`, and an added folder `more`."""
    own, more = tmp_path / "shapes_under_test", tmp_path / "more"
    own.mkdir()
    more.mkdir()
    (own / "__init__.py").write_text(f"__path__ += [{str(more)!r}]\n")
    (own / "contract.py").write_text(CONTRACT)
    (own / "square.py").write_text(SQUARE)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setitem(VARIABLES, "shapes_under_test", "HOMERL_SHAPES")
    yield import_module("shapes_under_test")
    for name in [name for name in sys.modules if name.startswith("shapes_under_test")]:
        del sys.modules[name]


def shapes(package) -> dict:
    return discover(package, "SHAPE", import_module("shapes_under_test.contract").Shape, ["contract"])


def test_a_file_and_a_folder_are_plug_ins_and_helpers_are_not(package, tmp_path):
    (tmp_path / "more/circle.py").write_text(SQUARE.replace("square", "circle"))
    (tmp_path / "more/star").mkdir()
    (tmp_path / "more/star/__init__.py").write_text(SQUARE.replace("square", "star"))
    (tmp_path / "more/_helper.py").write_text("x = 1")
    assert list(shapes(package)) == ["square", "circle", "star"]


def test_a_file_may_define_several_under_their_own_names(package, tmp_path):
    several = SQUARE.replace("square", "circle").replace("SHAPE = Square()", "class Oval(Square):\n    name = 'oval'\n")
    (tmp_path / "more/round.py").write_text(f"{several}SHAPE = Square(), Oval()")
    assert list(shapes(package)) == ["square", "circle", "oval"]
    (tmp_path / "more/oval.py").write_text(SQUARE.replace("square", "oval"))
    with pytest.raises(InputError, match="more/round.py: there is a 'oval' already: .*more/oval.py"):
        shapes(package)


def test_a_plug_in_without_a_name_has_that_of_its_file(tmp_path, monkeypatch):
    (tmp_path / "sizes_under_test").mkdir()
    (tmp_path / "sizes_under_test/__init__.py").write_text("")
    (tmp_path / "sizes_under_test/large.py").write_text("SIZE = 3")
    monkeypatch.syspath_prepend(tmp_path)
    assert discover(import_module("sizes_under_test"), "SIZE", int) == {"large": 3}


@pytest.mark.parametrize(
    ("file", "text", "refusal"),
    [
        ("none", "x = 1", "more/none.py: the file defines no SHAPE"),
        ("square", SQUARE, "more/square.py: there is a 'square' already: .*shapes_under_test/square.py"),
        ("contract", SQUARE, "more/contract.py: there is a 'contract' already"),
        ("again", SQUARE, "more/again.py: the SHAPE of 'again' is named 'square'\ngive both the same name"),
        ("numbered", SQUARE.replace('"square"', "7"), "more/numbered.py: the SHAPE of 'numbered' is named 7"),
        ("odd-name", SQUARE, "more/odd-name.py: 'odd-name' is no name for a plug-in"),
        ("kind", SQUARE.replace("Square()", "Square"), "more/kind.py: SHAPE is a class\nwrite `SHAPE = Square\\(\\)`"),
        ("type", "SHAPE = [4]", "more/type.py: SHAPE is a list\nit must be a Shape"),
        ("empty", "SHAPE = ()", "more/empty.py: SHAPE is a tuple\nit must be a Shape"),
        ("nameless", SQUARE.replace('name = "square"', "x = 1"), "more/nameless.py: SHAPE lacks `name`"),
        ("syntax", "SHAPE = (", "more/syntax.py:1: the file cannot be imported: SyntaxError: '\\(' was never closed"),
        ("slip", "\nimport math\nSHAPE = math.sqr(2)", "more/slip.py:3: the file cannot be imported: AttributeError: "),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_by_its_path(package, tmp_path, file, text, refusal):
    (tmp_path / f"more/{file}.py").write_text(text)
    with pytest.raises(InputError, match=refusal):
        shapes(package)


def test_a_folder_that_does_not_exist_is_refused_with_the_variable(package, tmp_path):
    (tmp_path / "more").rmdir()
    with pytest.raises(InputError, match="more: there is no such folder\ncorrect HOMERL_SHAPES"):
        shapes(package)


def test_folders_are_absolute_for_processes_elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOMERL_CREDIT", os.pathsep.join(["mine", "", "/theirs"]))
    assert added_plugin_folders("credit") == [str(tmp_path / "mine"), "/theirs"]
    assert plugin_folder_variables()["HOMERL_CREDIT"] == f"{tmp_path / 'mine'}{os.pathsep}/theirs"


COMMANDS = dict.fromkeys(VARIABLES.values(), ("check", "recipes/smoke.yaml")) | {"HOMERL_WORLDS": ("--help",)}
del COMMANDS["HOMERL_LANGUAGES"]  # a language is no Python file: tests/envs/core/test_languages.py
QUICK = ("HOMERL_COMMANDS", "HOMERL_REWARDS")  # under --all all


@pytest.mark.parametrize(
    ("variable", "command"),
    [pytest.param(*one, marks=() if one[0] in QUICK else pytest.mark.long) for one in COMMANDS.items()],
)
def test_a_broken_file_of_each_kind_ends_in_one_message(variable, command, tmp_path):
    (tmp_path / "broken.py").write_text("import no_such_package")
    done = homerl(*command, cwd=ROOT, **{variable: str(tmp_path)})
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert f"{tmp_path}/broken.py:1: the file cannot be imported: ModuleNotFoundError" in " ".join(done.stderr.split())


def test_a_late_member_is_imported_when_it_is_asked_for_and_not_before():
    class Shelf(ABC):
        @abstractmethod
        def weigh(self, text):
            """Needed."""

    class Scale(Shelf):
        weigh = late("json", "loads")
        lost = late("no.such.module", "thing")
        kind = late("decimal", "Decimal.from_float")

    assert Scale().weigh("[1]") == [1] and Scale().kind(0.5) == 0.5
    with pytest.raises(ModuleNotFoundError):
        _ = Scale().lost
