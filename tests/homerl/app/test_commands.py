"""The commands of `homerl`: found by their files, told in groups, each with an example, and given things in one way."""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Iterator
from pathlib import Path

import click
import forked
import pytest
import typer
from command import homerl

from homerl.app.cli.app import app, find_commands
from homerl.bench.scores import build_result_row
from homerl.host.terminal import GROUPS
from homerl.play.trajectory import trajectory_to_row, write_rows

ROOT = Path(__file__).parents[3]
ROOT_COMMAND = typer.main.get_command(app)
OWN = '''
"""`homerl {words}`: says hello."""

from homerl.host.terminal import Command


def hello(name: str = "you") -> None:
    """Say hello."""
    print("hello", name)


COMMAND = Command("{words}", "{group}", hello, "homerl {words} --name Ann")
'''


def leaves(group: click.Command, words: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    """Every command by what a person types."""
    for name, command in getattr(group, "commands", {}).items():
        yield from leaves(command, (*words, name))
    if not hasattr(group, "commands"):
        yield " ".join(words), group


EVERY = dict(leaves(ROOT_COMMAND))


def run(*words: str, **environment: str) -> str:
    """What a process of the command line prints; it must succeed."""
    done = forked.homerl(*words, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "words",
    [pytest.param("hello", marks=pytest.mark.long), "view hello", pytest.param("greet-people", marks=pytest.mark.long)],
)
def test_a_command_is_one_file_that_nothing_else_names(tmp_path, words):
    (tmp_path / f"{words.replace(' ', '_').replace('-', '_')}.py").write_text(OWN.format(words=words, group="data"))
    assert run(*words.split(), "--name", "Ann", HOMERL_COMMANDS=str(tmp_path)) == "hello Ann\n"
    listed = run("--help", HOMERL_COMMANDS=str(tmp_path)).partition("─ data ─")[2].partition("─ train ─")[0]
    assert words in listed or "hello" in run("view", "--help", HOMERL_COMMANDS=str(tmp_path))


def test_a_command_whose_file_has_another_name_is_refused(tmp_path):
    (tmp_path / "other.py").write_text(OWN.format(words="hello", group="data"))
    done = forked.homerl("--help", HOMERL_COMMANDS=str(tmp_path))
    assert done.returncode == 2 and "COMMAND of 'other' is named 'hello'" in done.stderr


def test_the_help_has_the_groups_in_order():
    said = homerl("--help").out
    places = [said.index(f"─ {group} ─") for group in GROUPS]
    assert places == sorted(places) and {command.group for command in find_commands().values()} == set(GROUPS)


def test_commands_that_share_their_first_word_are_of_one_group():
    groups = {}
    for command in find_commands().values():
        groups.setdefault(command.words.partition(" ")[0], set()).add(command.group)
    assert all(len(found) == 1 for found in groups.values())


@pytest.mark.parametrize("words", EVERY)
def test_every_argument_has_words_and_the_help_an_example(words):
    command = EVERY[words]
    silent = [part.name for part in command.params if part.name != "help" and not getattr(part, "help", None)]
    assert not silent and command.help and f"homerl {words}" in command.epilog


@pytest.mark.parametrize("words", EVERY)
def test_every_example_can_be_typed(words):
    typed = shlex.split(find_commands()[words].example)
    assert typed[: 1 + len(words.split())] == ["homerl", *words.split()]
    EVERY[words].make_context(words, typed[1 + len(words.split()) :])  # raises for an option that there is not


def test_homes_seeds_and_files_are_given_in_one_way():
    """What is written is `--out`, a home is `--home`, a seed is `--seed`."""
    for words, command in EVERY.items():
        for part in command.params:
            option, kind = part.param_type_name == "option", part.name
            told = part.help.split(";")[0]
            if re.search(r"\bseed\b", kind):
                assert option and part.opts == ["--seed"], words
            if kind in ("html", "json", "file_out") or told.startswith(("the HTML file", "the home file")):
                assert part.opts == ["--out"], words
            if option and told.startswith("a home file"):
                assert part.opts == ["--home"], words
    arguments = {part.name for command in EVERY.values() for part in command.params if part.param_type_name == "argument"}
    assert not arguments & {"out", "seed", "folder_out"}


# In an empty folder, one after the other: each makes what the next ones take. The others need hours, a server or a hub.
TYPED = (
    "init", "check", "make-home", "check-home", "view home", "view personalhome", "glossary", "reference", "schemas",
    "view episode", "reverify", "compare", "seeds",
)  # fmt: skip


@pytest.mark.long
def test_examples_run_as_they_stand_where_the_quickstart_has_run(tmp_path, monkeypatch, trajectories):
    monkeypatch.chdir(tmp_path)
    for name in ("synth", *(f"{model}/bench/heldout" for model in ("untrained", "sft", "rlve"))):
        folder = tmp_path / "runs/quickstart" / name
        folder.mkdir(parents=True)
        write_rows(folder / "trajectories.jsonl", map(trajectory_to_row, trajectories[:6]))
        results = [build_result_row(one, 10, 10) for one in trajectories[:6]]
        write_rows(folder / "results.jsonl", results)
    (tmp_path / "runs/quickstart/run.json").write_text("{}")
    shutil.copytree(tmp_path / "runs/quickstart", tmp_path / "runs/seed0")
    for seed in (1, 2):
        shutil.copytree(tmp_path / "runs/quickstart", tmp_path / f"runs/seed{seed}")
    for words in TYPED:
        done = homerl(*shlex.split(find_commands()[words].example)[1:])
        assert done.code == 0, f"{find_commands()[words].example}: {done.err}"


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        ("homerl run quick", ["quickstart"]),
        ("homerl check recipes/qui", ["recipes/quickstart.yaml"]),
        ("homerl chat smol", ["smollm2-home"]),
        ("homerl chat runs/m", ["runs/mine"]),
        ("homerl bench run Hom", []),
        ("homerl bench build home", ["homeenv"]),
        ("homerl view episode runs/mine/", ["runs/mine/run.json/"]),
    ],
)
def test_the_shell_completes_names(tmp_path, monkeypatch, typed, offered):
    (tmp_path / "runs/mine/run.json").mkdir(parents=True)
    (tmp_path / "recipes").mkdir()
    (tmp_path / "recipes/quickstart.yaml").write_text("")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("_HOMERL_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", typed)
    monkeypatch.setenv("COMP_CWORD", str(len(typed.split()) - 1))
    said = homerl().out.split()
    assert [word for word in said if word in offered] == offered and (offered or not said)
