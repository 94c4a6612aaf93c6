"""The flywheel as a newcomer starts it, and what it says where it cannot start."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from command import homerl as inside
from forked import homerl

from homerl.play.trajectory import read_rows, trajectory_from_row

ROOT = Path(__file__).parents[3]
HOMERL = [sys.executable, "-m", "homerl"]
LAUNCH = [sys.executable, "-m", "accelerate.commands.launch"]
LOGGED_OUT = {  # of Weights & Biases, without a GPU and a network
    "CUDA_VISIBLE_DEVICES": "",
    "HF_HUB_OFFLINE": "1",
    "NETRC": os.devnull,
    "WANDB_API_KEY": "",
}


def call(*command: str | Path, cwd: Path = ROOT) -> subprocess.CompletedProcess:
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)} | LOGGED_OUT
    if command[:3] == (*HOMERL,):
        return homerl(*command[3:], cwd=cwd, env=environment)
    return subprocess.run(list(map(str, command)), cwd=cwd, capture_output=True, text=True, env=environment, timeout=900)


# Where it cannot start: one message, code 2


def message(done: subprocess.CompletedProcess) -> str:
    """What was said on stderr, which has to be one message of at most three lines."""
    assert done.returncode == 2, done.stderr
    said = done.stderr[done.stderr.index("homerl: ") :].partition("Traceback")[0].strip()
    assert done.stderr.count("homerl: ") == 1 and len(said.splitlines()) <= 3
    return said


def test_a_recipe_for_gpus_says_what_is_missing_here():
    done = call(*HOMERL, "check", "recipes/rlve_full.yaml")
    said = message(done)
    assert said.startswith("homerl: recipes/rlve_full.yaml: this machine cannot run the recipe: no GPU is visible to torch")
    assert "runs/sft_8b/model" in said and "quickstart" in said and "Traceback" not in done.stderr
    assert "nobody is logged in to Weights & Biases" in said and "--wandb.mode offline" in said
    assert "rlve in runs/rlve_full\n" in done.stdout, "the summary is printed all the same"


def test_metrics_that_stay_here_need_no_login(monkeypatch):
    monkeypatch.chdir(ROOT)
    for name, value in LOGGED_OUT.items():
        monkeypatch.setenv(name, value)
    for elsewhere in (("--wandb.mode", "offline"), ("--report_to", "[tensorboard]")):
        done = inside("check", "recipes/rlve_full.yaml", *elsewhere)
        assert done.code == 2 and "no GPU is visible" in done.err and "Weights" not in done.err


@pytest.mark.parametrize("command", [[*HOMERL, "check"], pytest.param([sys.executable], marks=pytest.mark.long)])
def test_a_misspelt_key_is_named_with_file_line_and_what_was_meant(tmp_path, command):
    text = (ROOT / "recipes/smoke.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(
        text.replace("quickstart.yaml", str(ROOT / "recipes/quickstart.yaml")) + "sfft: {epochs: 1}\n"
    )
    line = len((tmp_path / "mine.yaml").read_text().splitlines())
    done = call(*command, "mine.yaml", cwd=tmp_path)
    said = message(done)
    assert f"mine.yaml:{line}: " in said and "sfft" in said and "sft" in said and "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "mine.yaml"], "nothing was begun"


def test_a_misspelt_override_is_named_as_typed():
    said = message(call(*HOMERL, "run", "recipes/smoke.yaml", "--rlve.lerning_rate", "1e-3"))
    assert "lerning_rate" in said and "learning_rate" in said and "command line" in said


@pytest.mark.parametrize("text", ['{"id": "x"}\n', "not json\n", ""])
def test_reverify_refuses_what_is_no_trajectory(tmp_path, text):
    (tmp_path / "rows.jsonl").write_text(text)
    done = call(*HOMERL, "reverify", "rows.jsonl", cwd=tmp_path)
    if text:
        assert "rows.jsonl:1: not a" in message(done)
    else:
        assert done.returncode == 0 and "0 trajectories" in done.stdout


# Where it can

MODELS = ("untrained", "sft", "rlve")
PLAYERS = ("expert", *MODELS)


@pytest.fixture(scope="module")
def smoke(tmp_path_factory) -> tuple[Path, subprocess.CompletedProcess]:
    """`accelerate launch recipes/smoke.yaml`, from another folder."""
    folder = tmp_path_factory.mktemp("smoke")
    done = call(*LAUNCH, ROOT / "recipes/smoke.yaml", "--out", "run", cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "run", done


@pytest.mark.long
def test_the_flywheel_turns(smoke):
    out, done = smoke
    assert "homerl export" in done.stdout and "report:" in done.stdout and "Traceback" not in done.stderr
    for model in PLAYERS:
        score = json.loads((out / model / "bench/heldout/score.json").read_text())
        assert score["n"] == 12 and 0 <= score["success"] <= 1
    for stage, updates in (("sft", 6), ("rlve", 2)):
        lines = [json.loads(line) for line in (out / stage / "metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines if "loss" in line] == list(range(1, updates + 1))
        assert all(line["sentinel/logp_gap"] < 1e-5 for line in lines if "sentinel/logp_gap" in line)
    seeds = [
        {row["id"] for row in read_rows(out / path)}
        for path in ("synth/trajectories.jsonl", "sft/bench/heldout/trajectories.jsonl")
    ]
    assert seeds[0] and seeds[1] and not seeds[0] & seeds[1]


@pytest.mark.long
def test_everything_it_stored_can_be_verified(smoke):
    out, _ = smoke
    files = [
        out / "synth/trajectories.jsonl",
        *sorted(out.glob("rlve/rollouts/*.jsonl")),
        *sorted(out.glob("*/bench/*/trajectories.jsonl")),
    ]
    assert len(files) == 1 + 2 + len(PLAYERS)
    for file in files:
        done = call(*HOMERL, "reverify", file)
        assert done.returncode == 0 and "all as recorded" in done.stdout.replace("\n", " "), done.stderr


@pytest.mark.long
def test_the_same_command_again_does_nothing_more(smoke):
    out, _ = smoke
    products = [out / "synth/trajectories.jsonl", out / "sft/model", out / "rlve/model", *out.glob("*/bench/*/score.json")]
    before = [product.stat().st_mtime_ns for product in products]
    assert call(*LAUNCH, ROOT / "recipes/smoke.yaml", "--out", "run", cwd=out.parent).returncode == 0
    assert before == [product.stat().st_mtime_ns for product in products]


@pytest.mark.long
def test_a_fresh_process_scores_the_same(smoke):
    out, _ = smoke
    done = call(sys.executable, out / "rlve/bench.yaml", "--out", out / "again", cwd=out.parent)
    assert done.returncode == 0, done.stderr[-3000:]
    for name in ("score.json", "trajectories.jsonl"):
        assert (out / "again/bench/heldout" / name).read_bytes() == (out / "rlve/bench/heldout" / name).read_bytes()


@pytest.mark.long
@pytest.mark.timeout(900)
def test_the_recipe_for_simuhome_turns_with_a_tiny_model(tiny, tmp_path):
    """`recipes/simuhome_8b.yaml` as typed, but for its size."""
    small = {
        "cpu": "true", "parallel": "ddp", "processes": 1, "wandb.mode": "disabled",
        "model.name": tiny, "model.dtype": "float32", "model.parameters": "null",
        "synth.blueprints": 24, "synth.shard": 12, "sft.max_steps": 3, "sft.log_steps": 1,
        "rlve.updates": 2, "rlve.blueprints_per_update": 2, "rlve.group": 2, "rlve.max_tokens": 24,
        "rlve.log_steps": 1, "bench.max_tokens": 24,
        "bench.suites": "[{name: heldout, count: 12, recipe: {world: simuhome, phrasings: 1, prompt: full}}]",
    }  # fmt: skip
    overrides = [text for key, value in small.items() for text in (f"--{key}", value)]
    done = call(*LAUNCH, ROOT / "recipes/simuhome_8b.yaml", "--out", "run", *overrides, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    out = tmp_path / "run"
    found = [
        trajectory_from_row(row).blueprint["intents"][0]["family"] for row in read_rows(out / "synth/trajectories.jsonl")
    ]
    assert len(set(found)) > 3
    for stage, updates in (("sft", 3), ("rlve", 2)):
        lines = [json.loads(line) for line in (out / stage / "metrics.jsonl").read_text().splitlines()]
        assert [line["step"] for line in lines if "loss" in line] == list(range(1, updates + 1))
    for model in PLAYERS:
        score = json.loads((out / model / "bench/heldout/score.json").read_text())
        assert score["n"] == 12 and sum(part["n"] for part in score["by_category"].values()) == 12
    assert "QT3 IF" in done.stdout


@pytest.mark.long
def test_a_second_credit_mode_starts_at_the_first_runs_sft_and_they_are_compared(smoke, tmp_path):
    out, _ = smoke
    other = ("--out", "other", "--from", out, "--rlve.credit", "trajectory")
    done = call(*LAUNCH, ROOT / "recipes/smoke.yaml", *other, cwd=tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]
    assert f"taken from {out}: synth, sft, untrained, expert" in done.stdout.replace("\n", " ")
    for name in ("synth/trajectories.jsonl", "sft/model/model.safetensors", "sft/bench/heldout/results.jsonl"):
        assert (tmp_path / "other" / name).samefile(out / name)
    compared = call(*HOMERL, "compare", out, "other", cwd=tmp_path)
    said = " ".join(compared.stdout.split())
    assert compared.returncode == 0 and "rlve.credit step trajectory" in said and "On heldout, other succeeds in" in said


@pytest.mark.long
def test_a_moved_run_is_whole(smoke, tmp_path):
    out, _ = smoke
    moved = Path(shutil.copytree(out, tmp_path / "moved"))
    shutil.rmtree(moved / "rlve/bench")
    done = call(sys.executable, moved / "recipe.yaml", cwd="/")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "kept from an earlier start: synth, sft, rlve," in done.stdout.replace("\n", " ")
    assert (moved / "rlve/bench/heldout/score.json").read_bytes() == (out / "rlve/bench/heldout/score.json").read_bytes()
