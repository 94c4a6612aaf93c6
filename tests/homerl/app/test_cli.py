"""The command line as a person meets it: processes of their own, one message, code 2 for bad input."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from forked import homerl

from homerl import __version__

ROOT = Path(__file__).parents[3]


def test_a_home_is_made_and_checked(tmp_path: Path) -> None:
    path = tmp_path / "home.json"
    assert homerl("make-home", "--out", str(path), "--seed", "3", "--devices", "4-4").returncode == 0
    done = homerl("check-home", str(path))
    assert done.returncode == 0 and "4 devices" in " ".join(done.stdout.split())


def started(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `homerl` in a Python that begins in this environment."""
    command = [sys.executable, "-m", "homerl", *arguments]
    return subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=False)


def test_the_version_is_told() -> None:
    done = started("--version")
    assert (done.returncode, done.stdout) == (0, f"homerl {__version__}\n")


BAD = [
    (["check-devices", "nowhere"], "nowhere"),
    (["make-home", "--devices", "many"], "2-6"),
]
TRIED = [  # test_bad_input.py tries their like in this process
    (["check-home", "missing.json"], "missing.json"),
    (["check", "recipes/quickstrat.yaml"], "did you mean quickstart?"),
    (["check", "recipes/smoke.yaml", "--sft.lerning_rate", "1"], "learning_rate"),
    (["make-home", "--scale", "huge"], "complex"),
    (["check", "recipes/smoke.yaml", "--gpus", "0"], "--gpus"),
    (["export", "no/such/run", "--to", "x"], "no/such/run"),
]


@pytest.mark.parametrize(("arguments", "says"), [*BAD, *(pytest.param(*one, marks=pytest.mark.long) for one in TRIED)])
def test_bad_input_is_one_message_and_code_2(arguments: list[str], says: str) -> None:
    done = homerl(*arguments)
    assert done.returncode == 2
    assert says in done.stderr.replace("\n", " ") and "Traceback" not in done.stderr


def test_a_file_that_cannot_be_written_is_one_message_and_code_2(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path, tmp_path / "file" / "home.json"):
        done = homerl("make-home", "--out", str(out), "--devices", "2-2")
        assert done.returncode == 2 and "cannot be read or written" in done.stderr.replace("\n", " ")
        assert str(tmp_path) in done.stderr.replace("\n", "") and "Traceback" not in done.stderr


def test_a_terminal_of_another_encoding_gets_escapes() -> None:
    done = started("glossary", PYTHONIOENCODING="ascii")
    assert done.returncode == 0 and "\\u03a6" in done.stdout


def test_a_terminal_breaks_a_message_between_words() -> None:
    plain = homerl("check", "missing.yaml").stderr
    lines = started("check", "missing.yaml", FORCE_COLOR="1", COLUMNS="50").stderr.splitlines()
    assert len(lines) > plain.count("\n") and max(map(len, lines)) <= 50
    assert " ".join(lines).split() == plain.split()


def test_devices_are_checked_with_every_line(tmp_path: Path) -> None:
    lamp = '- name: lamp\n  userdata: {category: light, spid: "900100"}\n  attributes: [{name: state, type: bool}]\n'
    (tmp_path / "lamp.yaml").write_text(lamp)
    done = homerl("check-devices", str(tmp_path))
    assert (
        done.returncode == 0
        and f"{tmp_path}/lamp.yaml:3: warning" in done.stdout
        and "errors: 0, warnings: 1" in done.stdout
    )
    (tmp_path / "twin.yaml").write_text(lamp.replace("bool", "bol"))
    done = homerl("check-devices", str(tmp_path))
    assert (
        done.returncode == 2 and f"{tmp_path}/twin.yaml:3: error" in done.stdout and "errors: 1, warnings: 1" in done.stdout
    )


def test_check_prints_a_summary_and_all_keys_only_if_asked() -> None:
    brief = homerl("check", "recipes/smoke.yaml", "--rlve.kl", "0.5")
    assert brief.returncode == 0 and "kl: 0.5" not in brief.stdout
    lines = brief.stdout.splitlines()
    assert len(lines) < 25 and lines[0] == "recipes/smoke.yaml: flywheel in runs/smoke" and "--full" in lines[-1]
    assert {line.partition(":")[0] for line in lines[1:-1]} == {"sft", "rlve", "rehearsal", "prompts", "the recipe"}
    full = homerl("check", "recipes/smoke.yaml", "--rlve.kl", "0.5", "--full").stdout
    assert yaml.safe_load(full)["rlve"]["kl"] == 0.5 and "# sft:   while training" in full
    assert all(f"# {line}" in full for line in lines[:-1] if "free for" not in line)


@pytest.mark.long
def test_the_reference_is_printed_or_written(tmp_path: Path) -> None:
    printed = homerl("reference")
    assert printed.returncode == 0 and printed.stdout == (ROOT / "docs/reference.md").read_text()
    assert homerl("reference", "--out", str(tmp_path / "keys.md")).returncode == 0
    assert (tmp_path / "keys.md").read_text() == printed.stdout


@pytest.mark.long
def test_init_writes_the_recipes_and_never_over_something(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    assert homerl("init", "--out", str(folder)).returncode == 0
    head, *rest = (folder / "quickstart.yaml").read_text().splitlines()
    assert rest == (ROOT / "recipes/quickstart.yaml").read_text().splitlines()[1:]
    assert (folder / head.partition("$schema=")[2]).read_text() == (ROOT / "docs/schemas/recipe.v1.json").read_text()
    assert homerl("init", "--out", str(folder)).returncode == 2


def test_compare_gives_the_paired_gain(tmp_path: Path) -> None:
    for name, wins in (("a", [0, 0, 1, 1]), ("b", [1, 1, 1, 0])):
        rows = [{"id": str(i), "success": bool(w), "outcome": "success" if w else "step_limit"} for i, w in enumerate(wins)]
        (tmp_path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    done = homerl("compare", str(tmp_path / "a"), str(tmp_path / "b"), "--out", str(tmp_path / "c.html"))
    assert "b succeeds in 75.0 % of the tasks, and a in 50.0 %: +25.0 points" in " ".join(done.stdout.split())
    assert "<span>4 tasks</span>" in (tmp_path / "c.html").read_text()


HEAVY = (
    "accelerate", "datasets", "gymnasium", "httpx", "huggingface_hub", "jsonschema", "numpy", "openai", "pandas", "pvlib",
    "pydantic_monty", "scipy", "torch", "transformers", "uvicorn", "websockets",
)  # fmt: skip


def test_the_command_begins_without_the_libraries_that_only_some_commands_need() -> None:
    code = f"import sys, homerl.app.cli.app; print([name for name in {HEAVY} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_work_without_models_and_servers_loads_no_library_for_them() -> None:
    modules = "homerl.app.chat.session, homerl.synth.shards, homerl.app.runs.flywheel"
    modules += ", homerl.app.user_audit, homerl.app.play_suite"
    heavy = (
        "accelerate",
        "datasets",
        "httpx",
        "huggingface_hub",
        "openai",
        "pandas",
        "scipy",
        "torch",
        "transformers",
        "trl",
    )
    code = f"import sys, {modules}; print([name for name in {heavy} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
