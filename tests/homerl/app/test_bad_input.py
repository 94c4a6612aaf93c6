"""Every command with every kind of bad input: one message, exit code 2, never a traceback.

`WRITES` and `READS` list the commands with a place for what goes wrong: `{out}` is what a command writes, `{in}` what it
reads. A command that is in no table fails a test here.
"""

from __future__ import annotations

import errno
import gzip
import json
import lzma
import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import numpy as np
import pytest
import typer
from command import full_disk, homerl
from crossed import crossed
from huggingface_hub.utils import validate_repo_id
from safetensors.numpy import save_file
from scripted_server import Faults, ScriptedServer

from homerl.app.cli.app import app
from homerl.bench.suites import write_suite
from homerl.envs.core.documents import InputError, find_near_path, os_error_to_input_error
from homerl.envs.core.documents.validation import did_you_mean
from homerl.envs.homeenv.bench.suite import SUITES, make_home_instance, suite_slots
from homerl.host.exit_codes import ending_for_error, run_to_end
from homerl.play.trajectory import read_rows

ROOT = Path(__file__).parents[3]
NEEDS_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
SMALL = "--synth.blueprints 2 --synth.curriculum [] --synth.recipe.home.devices [3,6] --processes 0"
WRITES = {
    "make-home": "--out {out}.json --devices 2-2",
    "init": "--out {out}",
    "schemas": "--out {out}",
    "reference": "--out {out}.md",
    "glossary": "--out {out}.md",
    "diversity": "--homes 1 --each 2 --out {out}.json",
    "import-ha": "recorded --out {out}.json",
    "run": f"{ROOT}/recipes/synth.yaml {SMALL} --out {{out}}",
    "audit-user": f"{ROOT}/recipes/smoke.yaml --blueprints 1 --out {{out}}.json",
    "bench build": "simuhome --out {out}",
    "bench run": "few.jsonl --model nothing --limit 1 --out {out}",
    "serve-agent": "--model nowhere --home home.json --log {out}.jsonl",
    "export-data": "played --to {out}",
    "view home": "home.json --out {out}.html",
    "view episode": "played --out {out}.html",
    "view agent": "log.jsonl --out {out}.html",
    "view personalhome": "--seed 3 --out {out}.html",
}
READS = {
    "chat": "{in}",
    "serve": "{in}",
    "check-home": "{in}",
    "check-devices": "{in}",
    "check": "{in}",
    "run": "{in}",
    "diversity": "{in}",
    "serve-user": "{in}",
    "audit-user": "{in}",
    "export": "{in} --to elsewhere",
    "make-base": "SmolLM2-135M-Instruct --from {in} --out elsewhere",
    "push-data": "{in} --to org/data",
    "export-data": "{in} --to elsewhere",
    "reverify": "{in}",
    "compare": "{in} {in}",
    "seeds": "{in}",
    "import-ha": "{in}",
    "serve-env": "--mcp --home {in}",
    "serve-agent": "--model nothing --home {in}",
    "bench run": "{in} --model nothing --out elsewhere",
    "bench build": "own-home --home {in} --out elsewhere",
    "bench rescore": "{in}",
    "bench publish": "{in} --out elsewhere.md",
    "bench validate": "{in} --limit 1",
    "check-plugin": "{in}",
    "view home": "{in}",
    "view episode": "{in}",
    "view agent": "{in}",
    "personalhome scores": "{in}",
    "personalhome judge": "{in} --judge-url http://127.0.0.1:9/v1 --judge-model x",
    "personalhome reflect": "{in} --url http://127.0.0.1:9/v1 --model x --judge-url http://127.0.0.1:9/v1 --judge-model x",
}
ALONE = {  # what a command reads beside this, by the command: a kind of bad input that is none for it
    ("view agent", "empty"): "a log of a day on which nothing was said",
    ("reverify", "empty"): "no trajectory is wrong",
}
NAMED = [  # a wrong name, and what is suggested
    ("make-home --scale complx", "did you mean complex?"),
    ("check quickstrat.yaml", "did you mean quickstart?"),
    (f"check {ROOT}/recipes/smoke.yaml --sft.lerning_rate 1", "did you mean learning_rate?"),
    ("check-home hoem.json", "did you mean home.json?"),
    ("compare fw.jsonl few.jsonl", "did you mean few.jsonl?"),
    ("bench run few.jsonl --model keyword --out x", "did you mean keywords?"),
    ("bench run smh-banch --model keywords --out x", "did you mean smh-bench?"),
    ("bench run few.jsonl --model flywheel --out x", "did you mean flywheel/rlve/model?"),
    ("bench run few.jsonl --model flywheel/rlve --out x", "did you mean flywheel/rlve/model?"),
    ("bench run few.jsonl --model flywheel/rlv --out x", "did you mean flywheel/rlve?"),
    ("bench build own-hone --out x", "did you mean own-home?"),
    ("serve-env --mcp --toolset homeflo", "did you mean homeflow?"),
    ("chat flywheel/rlv", "did you mean flywheel/rlve?"),
    ("serve-agent --model x --home home.json --mode shadwo", "did you mean shadow?"),
]
UNFIT = [  # options that do not fit, and what is said of them
    ("bench build smh-bench --language fr --out x", "'fr' is no known language"),
    ("bench build own-home --home home.json --language fr --out x", "'fr' is no known language"),
    ("bench build simuhome --language fr --out x", "'fr' is no known language"),
    ("compare played/trajectories.jsonl played/results.jsonl", "played/trajectories.jsonl:1: the line is no result"),
    ("check untrained.yaml", "give `model.name`"),
    (f"check {ROOT}/recipes/smoke.yaml --sft.lr_scheduler cosin", "cosine_with_restarts"),
    (f"check {ROOT}/recipes/smoke.yaml --sft.learning_rate -1e-3", "greater than 0"),
    (f"check {ROOT}/recipes/rlve_full.yaml --rlve.learning_rate 0", "greater than 0"),
    (f"check {ROOT}/recipes/rlve_full.yaml --rlve.epsilon -0.2", "greater than 0"),
    (f"check {ROOT}/recipes/smoke.yaml --sft.adam_beta2 1", "less than 1"),
    (f"check {ROOT}/recipes/rlve_full.yaml --rlve.learning_rate 1e-7", "`min_lr` 5e-07 is above `learning_rate` 1e-07"),
    (f"check {ROOT}/recipes/smoke.yaml --sft.max_steps 0", "sft.max_steps is 0"),
    (f"check {ROOT}/recipes/quickstart.yaml --model.from_scratch.kv_heads 3", "cannot share 3 `kv_heads` evenly"),
    (f"check {ROOT}/recipes/smoke.yaml --sft.min_lr 1e-6", "`min_lr` is of `lr_scheduler: cosine_with_min_lr`"),
    (f"check {ROOT}/recipes/rlve_full.yaml --rlve.lr_scheduler constant", "or leave `min_lr` null"),
    (f"check {ROOT}/recipes/smoke.yaml --rlve.lr_scheduler cosine_with_min_lr", "ends at `min_lr`: give both"),
]


@cache
def commands() -> frozenset[str]:
    """The names of all commands."""

    def leaves(command: object, name: str) -> Iterator[str]:
        inner = getattr(command, "commands", None)
        if inner is None:
            yield name.strip()
        for key, below in (inner or {}).items():
            yield from leaves(below, f"{name} {key}")

    return frozenset(leaves(typer.main.get_command(app), ""))


def make_good(folder: Path) -> None:
    """Put a good file of each kind into a folder; `scripts/new_user` does so too."""
    assert homerl("make-home", "--out", folder / "home.json", "--devices", "3-3").code == 0
    made = SUITES["smh-bench"]
    write_suite(iter([make_home_instance(made, next(iter(suite_slots(made))), 7)]), folder / "few.jsonl")
    assert homerl("bench", "run", folder / "few.jsonl", "--model", "nothing", "--out", folder / "played").code == 0
    (folder / "log.jsonl").touch()
    (folder / "untrained.yaml").write_text("homerl: 1\nrun: bench\nmodel: {from_scratch: {}}\n")
    (folder / "flywheel/rlve/model").mkdir(parents=True, exist_ok=True)
    (folder / "flywheel/rlve/model/config.json").write_text("{}")
    (folder / "recorded").mkdir(exist_ok=True)
    listing = ROOT / "tests/envs/assistant/listing/recorded/listing.json.gz"
    (folder / "recorded/listing.json").write_bytes(gzip.decompress(listing.read_bytes()))


def bad_file(folder: Path, wrong: str) -> None:
    """Put what cannot be read, named by what is wrong with it, into a folder with good files; `missing` is nothing."""
    text = (folder / "home.json").read_bytes()
    content = {"empty": b"", "cut": text[: len(text) // 2], "bytes": b"\xff\xfe\x00\x80" * 20 + b"\n"}
    if wrong in content:
        (folder / wrong).write_bytes(content[wrong])
    if wrong == "folder":
        (folder / wrong).mkdir(exist_ok=True)


@pytest.fixture(scope="module")
def good(tmp_path_factory) -> Path:
    """A folder with a good file of each kind."""
    folder = tmp_path_factory.mktemp("good")
    make_good(folder)
    return folder


@pytest.fixture
def here(good, tmp_path, monkeypatch) -> Path:
    """The present folder has links to good files. A `wall` is a file where a folder should be."""
    for path in good.iterdir():
        (tmp_path / path.name).symlink_to(path)
    (tmp_path / "wall").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    return tmp_path


def without_beginnings(said: str) -> str:
    """What was said on stderr, without the lines that tell a log what begins."""
    return "".join(line for line in said.splitlines(keepends=True) if not line.endswith(" ...\n"))


def refused(command: str, arguments: str) -> str:
    """What is said of a command, which has to be one message with code 2."""
    done = homerl(*command.split(), *arguments.split())
    said = without_beginnings(done.err).strip()
    assert done.code == 2, f"{command} {arguments}: code {done.code}\n{done.out[-500:]}{said}"
    assert said.startswith("homerl: ") and "\nhomerl: " not in said and len(said.splitlines()) <= 3, said
    assert "Traceback" not in done.out
    return said


def test_every_command_is_tried():
    assert commands() == WRITES.keys() | READS.keys()


@pytest.mark.parametrize("out", ["wall/made", pytest.param("/sys/made", marks=pytest.mark.long)])
@pytest.mark.parametrize("command", WRITES)
def test_what_cannot_be_written_is_said(here, command, out):
    said = refused(command, WRITES[command].format(out=out))
    assert out.split("/")[-2] in said or "model 'nowhere'" in said


@pytest.mark.parametrize("command", [name for name in WRITES if name != "serve-agent"])
def test_a_full_disk_is_said_with_what_to_do(here, command):
    with full_disk():
        said = refused(command, WRITES[command].format(out="made"))
    assert "made" in said and "File too large" in said and "make room" in said


@crossed(command=list(READS), wrong=["missing", "empty", "cut", "bytes", "folder"])
def test_what_cannot_be_read_is_said(here, command, wrong):
    bad_file(here, wrong)
    if command == "check-devices" and wrong in ("empty", "cut", "bytes"):  # it lists what is wrong with a file
        done = homerl(command, wrong)
        assert done.code == 2 and "error: " in done.out and not done.err
    elif (command, wrong) in ALONE:
        assert homerl(*command.split(), *READS[command].format(**{"in": wrong}).split()).code == 0
    else:
        refused(command, READS[command].format(**{"in": wrong}))


@pytest.mark.parametrize(("typed", "meant"), NAMED)
def test_a_wrong_name_is_answered_with_the_right_one(here, typed, meant):
    assert meant in refused(typed, "")


@pytest.mark.parametrize(("typed", "said"), UNFIT)
def test_options_that_do_not_fit_are_refused_before_any_work(here, typed, said):
    assert said in refused(typed, "") and not Path("x").exists()


@pytest.mark.parametrize("option", ["--judge-sample -1", "--runs 0", "--limit 0", "--at-once 0"])
def test_a_number_out_of_range_is_refused_before_a_suite_is_played(here, option):
    done = homerl(*f"bench run few.jsonl --model nothing --out x {option}".split())
    assert done.code == 2 and option.split()[0] in done.err and not Path("x").exists()


def test_a_results_folder_that_was_cut_is_said_by_file_and_line(here):
    assert homerl("bench", "run", "few.jsonl", "--model", "nothing", "--out", "run").code == 0
    for name in ("score.json", "results.jsonl", "trajectories.jsonl"):
        shutil.copytree("run", f"cut-{name}")
        path = Path(f"cut-{name}", name)
        path.write_bytes(path.read_bytes()[:-20])
        assert f"{path}:" in refused("bench rescore", str(path.parent))
        path.write_text("{}\n")
        assert str(path) in refused("bench rescore", str(path.parent))
        path.unlink()
        refused("bench rescore", str(path.parent))


def test_a_file_that_is_of_no_results_is_named_not_its_folder(here):
    assert refused("bench rescore", "home.json").startswith("homerl: home.json: no score stands beside this file")


@pytest.mark.parametrize("asked", ["--model hassil", "--model nothing --first hassil"])
def test_a_baseline_without_its_package_is_said_before_anything_is_written(here, monkeypatch, asked):
    monkeypatch.setitem(sys.modules, "home_assistant_intents", None)
    for module in ("agents.matcher_agent", "tasks.sentences.matching"):
        monkeypatch.delitem(sys.modules, f"homerl.envs.homeenv.{module}", raising=False)
    said = refused("bench run", f"few.jsonl {asked} --out made")
    assert "home_assistant_intents is not installed" in said and "homerl[serve]" in said and not Path("made").exists()


@pytest.mark.parametrize(
    "command", ["diversity --homes 1000000", f"audit-user {ROOT}/recipes/people.yaml --blueprints 1000000"]
)
@pytest.mark.parametrize(
    ("place", "why"), [(".", "it is a folder"), ("home.json/figures.json", "a file stands where a folder should be")]
)
def test_what_cannot_be_written_is_said_before_the_work(here, command, place, why):
    assert why in refused(command, f"--out {place}")


@NEEDS_FULL
def test_a_device_is_written_to_and_never_replaced(here):
    assert "No space left" in refused("reference", "--out /dev/full") and Path("/dev/full").is_char_device()


@NEEDS_FULL
def test_standard_output_that_is_full_is_said():
    with Path("/dev/full").open("w") as full:
        command = [sys.executable, "-m", "homerl", "reference"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2 and "No space left" in done.stderr and len(done.stderr.splitlines()) == 2


@pytest.mark.long
@pytest.mark.parametrize("room", [20_000, 400_000, 900_000])
def test_a_disk_that_fills_during_training_is_said(dialogues, tmp_path, room):
    sizes = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
    recipe = {
        "homerl": 1, "run": "sft", "cpu": True, "out": str(tmp_path / "sft"), "data": str(dialogues),
        "model": {"dtype": "float32", "from_scratch": sizes}, "wandb": {"mode": "disabled"},
        "sft": {"max_steps": 3, "save_steps": 2, "log_steps": 1, "dialogues_per_update": 4},
    }  # fmt: skip
    (tmp_path / "sft.yaml").write_text(json.dumps(recipe))
    with full_disk(room):
        command = [sys.executable, "-m", "homerl", "run", str(tmp_path / "sft.yaml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    checking, *error = done.stderr.splitlines()
    assert done.returncode == 2 and "checking the recipe" in checking and "make room" in error[-1] and len(error) == 2


@pytest.mark.long
@pytest.mark.parametrize(
    "recipe",
    [
        "synth.yaml --synth.blueprints 200 --synth.shard 2 --processes 2 --synth.curriculum []",
        "smoke.yaml",
    ],
)
def test_ctrl_c_is_one_line(tmp_path, recipe):
    """As a terminal sends it: to the run, its workers and its stages."""
    command = [sys.executable, "-m", "homerl", "run", *f"{ROOT}/recipes/{recipe} --out {tmp_path}".split()]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    run = subprocess.Popen(command, text=True, start_new_session=True, **pipes)
    for _ in range(1200):
        if list(tmp_path.glob("**/shards/*/*.stats.json")):
            break
        assert run.poll() is None, run.communicate()
        time.sleep(0.1)
    time.sleep(3 if "smoke" in recipe else 0)  # a later stage, with processes of its own
    os.killpg(run.pid, signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert (run.returncode, without_beginnings(said)) == (130, "homerl: stopped; start the same command again to go on\n")


def test_a_folder_that_takes_nothing_is_named_and_no_temporary_file_in_it(here):
    for command in ("make-home --out /sys/made.json", f"run {ROOT}/recipes/synth.yaml {SMALL} --out /sys/made"):
        assert refused(command, "").startswith("homerl: /sys: nothing can be written in this folder")
    lock = os_error_to_input_error(PermissionError(errno.EACCES, "Permission denied", str(here / "runs.lock")))
    assert lock.where == str(here) and "Permission denied" in lock.what
    assert os_error_to_input_error(
        PermissionError(errno.EACCES, "Permission denied", str(here / "home.json"))
    ).where.endswith("home.json")


def test_rescore_says_what_a_full_disk_left(here):
    assert homerl("bench", "run", "few.jsonl", "--model", "nothing", "--out", "run").code == 0
    for name in ("score.json", "results.jsonl", "trajectories.jsonl"):
        Path("run", name).unlink()
    said = refused("bench rescore", "run")
    assert said.startswith("homerl: run: score.json is not there, but 1 played episode\n") and "--resume" in said


@pytest.mark.parametrize(
    ("typed", "known", "meant"),
    [("lr", ["kl", "group"], None), ("epochs", ["steps", "seed"], None), ("grup", ["kl", "group"], "group")],
)
def test_only_what_is_near_is_suggested(tmp_path, typed, known, meant):
    said = did_you_mean(typed, known)
    assert said.startswith(f"did you mean {meant}?" if meant else "known: ")
    for name in known:
        (tmp_path / name).touch()
    assert find_near_path(tmp_path / typed) == (tmp_path / meant if meant else None)
    assert find_near_path(tmp_path / known[0]) != tmp_path / known[0]  # it is there: the trouble is another


def test_an_interrupt_has_a_line_of_its_own_at_a_terminal(monkeypatch):
    """The terminal itself writes `^C` where the cursor stands."""

    def interrupted() -> None:
        raise KeyboardInterrupt

    ours, theirs = pty.openpty()
    with os.fdopen(ours, "rb", buffering=0) as seen, os.fdopen(theirs, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        assert run_to_end(interrupted) == 130
        said = ""
        while not said.endswith("go on\r\n"):  # a terminal gives line by line
            said += seen.read(4096).decode()
    assert said.splitlines() == ["", "homerl: stopped; start the same command again to go on"]


@pytest.mark.long
def test_ctrl_c_at_a_terminal_ends_a_run(tmp_path):
    pid, terminal = pty.fork()
    if pid == 0:
        arguments = f"run {ROOT}/recipes/synth.yaml {SMALL} --synth.blueprints 400 --synth.shard 5 --out {tmp_path}".split()
        os.execv(sys.executable, [sys.executable, "-m", "homerl", *arguments])
    said = b""
    while not re.search(rb"[1-9]\d*/80", said):  # before, pydantic writes recipes, and may lose an interrupt
        said += os.read(terminal, 4096)
    os.write(terminal, b"\x03")
    with suppress(OSError):  # the end of a terminal's output
        while more := os.read(terminal, 4096):
            said += more
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 130
    assert "homerl: stopped" in [line.strip()[:15] for line in said.decode().splitlines()]


# The one place


def raised(work) -> Exception:
    try:
        work()
    except Exception as error:
        return error
    raise AssertionError("it was to fail")


def from_disk() -> None:
    try:
        raise OSError(errno.ENOSPC, "No space left on device")
    except OSError as error:
        raise RuntimeError("the library gave up") from error


def from_rust() -> None:
    with full_disk():
        save_file({"a": np.zeros(1000)}, "weights.safetensors")


def packed() -> None:
    lzma.decompress(b"no such thing")


def unreachable() -> None:
    httpx.get("http://127.0.0.1:9")


def no_name_of_the_hub() -> None:
    validate_repo_id("a/b/c")


@pytest.mark.parametrize(
    ("work", "says"),
    [
        (from_disk, "No space left"),
        (from_rust, "File too large"),
        (packed, "a packed file cannot be read"),
        (unreachable, "the server did not answer"),
        (no_name_of_the_hub, "the name is none of the hub"),
    ],
)
def test_what_libraries_raise_is_said_and_a_group_as_its_first(here, work, says):
    error = raised(work)
    for one in (error, ExceptionGroup("tasks", [error, InputError("later")])):
        assert says in ending_for_error(one).message and ending_for_error(one).code == 2


def test_a_mistake_in_the_code_keeps_its_traceback(monkeypatch):
    assert (
        ending_for_error(KeyError("x")) is None
        and ending_for_error(ExceptionGroup("", [InputError("a"), KeyError("x")])) is None
    )

    def wrong() -> None:
        raise InputError("a")

    assert run_to_end(wrong) == 2
    monkeypatch.setenv("HOMERL_TRACEBACK", "1")
    with pytest.raises(InputError):
        run_to_end(wrong)


# Servers that fail


@pytest.fixture
def impatient(monkeypatch):
    for name, seconds in (("FIRST_WAIT", 0.01), ("REST", 0.01), ("LONGEST_REST", 0.05)):
        monkeypatch.setattr(f"homerl.models.endpoint.endpoint.{name}", seconds)


def test_a_server_that_always_fails_stops_the_benchmark_with_its_reason_and_no_score(here, impatient):
    instance = Path("few.jsonl").read_text().replace("\n", "")
    ids = (instance.replace('"smh-bench-', f'"smh-bench-{n}-', 1) for n in range(40))
    Path("many.jsonl").write_text("".join(f"{line}\n" for line in ids))
    with ScriptedServer(faults=Faults(errors=1.0)) as server:
        done = homerl("bench", "run", "many.jsonl", "--model", server.url, "--out", "run", "--at-once", "2")
    assert done.code == 4 and done.err.startswith("homerl: server: scripted did not answer (status 500: out of order): ")
    assert "there is no score" in done.err and "overall" not in done.out and "success" not in done.out
    assert len(list(read_rows("run/results.jsonl"))) < 5, "it stops long before all tasks were tried"


def test_an_author_that_cannot_be_read_ends_a_synthesis_with_its_reason(here, impatient):
    with ScriptedServer(answer=lambda request: {"content": "Well..."}) as server:
        model = f"{{url: {server.url}, model: scripted, attempts: 1}}"
        heads = "homerl: 1\nrun: synth\nout: made\nprocesses: 0\n"
        Path("synth.yaml").write_text(f"{heads}synth: {{blueprints: 2, author: {model}}}\n")
        done = homerl("run", "synth.yaml")
    assert (
        done.code == 4 and "unreadable" in without_beginnings(done.err).splitlines()[0] and "gave no trajectory" in done.err
    )


@pytest.mark.parametrize(("status", "says"), [(401, ["refuses the key", "OPENAI_API_KEY"]), (500, [])])
def test_a_server_that_answers_with_an_error_is_not_called_silent(here, status, says):
    class Refusing(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_error(status)

        def log_message(self, *said: object) -> None:
            """Says nothing."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}/v1"
    asked = f"few.jsonl --model {url} --out run"
    recipe = f"{ROOT}/recipes/synth.yaml --synth.user {{kind: llm, url: '{url}', model: x}}".split(maxsplit=2)
    try:
        for said in (refused("bench run", asked), homerl("check", *recipe).err):
            assert str(status) in said and "does not answer" not in said and all(word in said for word in says), said
    finally:
        server.shutdown()
        server.server_close()
