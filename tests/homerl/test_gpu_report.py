"""Every part of scripts/gpu_report runs start to end, in tiny on a CPU; what it says is what it found, as does its page."""

import json
import os
import subprocess
import sys
from argparse import Namespace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments

from gpu import report as reporting
from gpu.breakdown import ATTENTION, GROUPS, INSIDE, LAYER, LINEAR, LOGITS, OPTIMIZER, REST, Event, breakdown
from gpu.machine import Machine
from gpu.page import BEGIN, END, text_of, write_page
from gpu.predicted import TRAINING
from gpu.report import begun, run_part
from gpu.sft import operations
from gpu.tables import show
from gpu.watch import as_figures, watching
from homerl.train.sizes import KNOWN

ROOT = Path(__file__).parents[2]
TRAINED = ("seconds_per_update", "by_group", "predicted_gb", "ratio", "trl")
PARTS = {
    "sft_8b_lora": ("tokens_per_second", *TRAINED),
    "sft_4b": ("tokens_per_second", *TRAINED),
    "rlve_8b_lora": ("training_seconds", "by_share", "engine", *TRAINED),
    "generate_transformers": ("tokens_per_second", "tokens"),
    "generate_continuous": ("tokens_per_second", "tokens"),
    "scratch_100m": ("untrained", "sft", "rlve", "rlve - sft", "trajectories", "parameters"),
    "long_100m": ("sft", "rlve", "rlve_trajectory", "rlve - sft", "rlve_trajectory - sft", "rlve - rlve_trajectory"),
}


def report(folder: Path, *parts: str) -> dict:
    command = [sys.executable, ROOT / "scripts/gpu_report", "--tiny", "--out", folder / "report.json", *parts]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": "", "CUDA_VISIBLE_DEVICES": ""}
    subprocess.run(command, cwd=folder, env=environment, check=True)
    return json.loads((folder / "report.json").read_text())


QUICK = "generate_transformers"  # by which every run of the tests knows that the script still fits what it calls


@pytest.mark.timeout(700)
@pytest.mark.parametrize("part", [part if part == QUICK else pytest.param(part, marks=pytest.mark.long) for part in PARTS])
def test_every_part_turns(part, tmp_path):
    found = report(tmp_path, part)[part]
    assert "failed" not in found, found["failed"]
    assert set(PARTS[part]) <= set(found)
    if part.endswith("_100m"):
        assert all(
            found[name]["n"] == 6 and len(found[name]["interval"]) == 2
            for name in ("untrained", "sft", "rlve")
            if name in PARTS[part]
        )
        assert found["sft updates"] == 4 and found["rlve updates"] == 1
    if "trl" in PARTS[part]:
        assert "failed" not in found["trl"], found["trl"]["failed"]
        for side in (found, found["trl"]):
            assert set(side["by_group"]) == set(GROUPS)
            assert all(side["by_group"][group] > 0 for group in (ATTENTION, LINEAR, INSIDE, LOGITS, OPTIMIZER))
        assert found["ratio"] > 0 and found["predicted_gb"][TRAINING] > 0


def test_a_part_that_does_not_exist_is_named(tmp_path):
    done = subprocess.run(
        [sys.executable, ROOT / "scripts/gpu_report", "--tiny", "nothing"], cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and "nothing is no part of this report: sft_8b_lora" in done.stderr


@pytest.mark.long
@pytest.mark.timeout(1300)
@pytest.mark.skipif(not torch.cuda.is_available(), reason="it needs a GPU with 80 GB")
def test_measured_memory_is_what_was_predicted(tmp_path):
    command = [sys.executable, ROOT / "scripts/gpu_report", "--out", tmp_path / "report.json", "sft_8b_lora"]
    page = tmp_path / "gpu.md"
    page.write_text(f"{BEGIN}\n{END}\n")
    subprocess.run([*command, "--page", page], check=True)
    found = json.loads((tmp_path / "report.json").read_text())["sft_8b_lora"]
    assert "failed" not in found, found["failed"]
    assert found["peak_gb"][TRAINING] == pytest.approx(found["predicted_gb"][TRAINING], rel=0.15)


# Where the time of an update goes


def test_kernels_count_to_what_started_them():
    """A layer (product, attention, norm) and a head, forward on thread 1 and backward on thread 2; then the optimizer."""
    host = [
        Event(LAYER, 0, 100, 1, annotation=True),
        Event("aten::mm", 10, 10, 1, id=1, sequence=0, shapes=([8, 64], [64, 64])),
        Event("aten::scaled_dot_product_attention", 20, 20, 1, id=2, sequence=1),
        Event("aten::bmm", 22, 5, 1, id=3),
        Event("aten::mul", 50, 10, 1, id=4, sequence=2),
        Event("cudaLaunchKernel", 52, 2, 1, id=1, link=4),
        Event("aten::mm", 120, 10, 1, id=5, sequence=3, shapes=([8, 64], [64, 999])),
        Event("autograd::engine::evaluate_function: MmBackward0", 200, 20, 2, id=6, sequence=3, forward=1),
        Event("aten::mm", 205, 5, 2, id=7),
        Event("autograd::engine::evaluate_function: MulBackward0", 220, 20, 2, id=8, sequence=2, forward=1),
        Event("aten::mul", 225, 5, 2, id=9),
        Event("Optimizer.step#AdamW.step", 300, 50, 1, annotation=True),
        Event("aten::mul_", 310, 5, 1, id=10, shapes=([999, 64],)),
        Event("aten::sum", 400, 5, 1, id=11),
    ]
    kernels = [
        Event("gemm", 0, 10**9, link=1, device=True), Event("softmax", 0, 2 * 10**9, link=2, device=True),
        Event("gemm", 0, 10**9, link=3, device=True), Event("elementwise", 0, 3 * 10**9, link=4, device=True),
        Event("gemm", 0, 4 * 10**9, link=5, device=True), Event("gemm", 0, 5 * 10**9, link=7, device=True),
        Event("elementwise", 0, 6 * 10**9, link=9, device=True), Event("adam", 0, 7 * 10**9, link=10, device=True),
        Event("reduce", 0, 10**9, link=11, device=True), Event("ncclAllReduce", 0, 8 * 10**9, link=11, device=True),
        Event("flash_fwd", 0, 10**9, link=0, device=True), Event("nvjet_gemm", 0, 10**9, link=0, device=True),
    ]  # fmt: skip
    spent = breakdown([*host, *kernels], 50.0, vocabulary=999)
    assert spent == {
        ATTENTION: 2 + 1 + 1, LINEAR: 1 + 1, INSIDE: 3 + 6, LOGITS: 4 + 5, OPTIMIZER: 7, "communication": 8,
        REST: 50 - 4 - 2 - 9 - 9 - 7 - 8,
    }  # fmt: skip


def test_a_layer_that_is_computed_again_in_the_backward_pass_counts_as_a_layer():
    host = [
        Event("aten::log_softmax", 0, 10, 1, id=1, sequence=5),
        Event("autograd::engine::evaluate_function: LogSoftmaxBackward0", 100, 100, 2, id=2, sequence=5, forward=1),
        Event(LAYER, 110, 50, 2, annotation=True),
        Event("aten::mul", 120, 10, 2, id=3, sequence=1),
        Event("aten::div", 170, 10, 2, id=4),
    ]
    kernels = [Event("k", 0, 10**9, link=3, device=True), Event("k", 0, 2 * 10**9, link=4, device=True)]
    spent = breakdown([*host, *kernels], 3.0, vocabulary=999)
    assert (spent[INSIDE], spent[LOGITS], spent[REST]) == (1, 2, 0)


def test_on_a_cpu_each_operator_counts_without_those_inside_it():
    host = [
        Event("aten::linear", 0, 3 * 10**9, 1, id=1),
        Event("aten::t", 10**9, 10**9, 1, id=2),
        Event("aten::add", 4 * 10**9, 10**9, 1, id=3),
    ]
    assert breakdown(host, 6.0, vocabulary=999) == dict.fromkeys(GROUPS, 0.0) | {LINEAR: 3.0, REST: 3.0}


# The clock


def test_the_last_update_is_profiled_and_not_timed(tiny, tmp_path, monkeypatch):
    monkeypatch.setattr("gpu.watch.seconds_left", lambda: 3600.0)  # the tests may have run for long
    model = AutoModelForCausalLM.from_pretrained(tiny)
    ids = torch.arange(20) + 5
    arguments = TrainingArguments(
        str(tmp_path), max_steps=4, use_cpu=True, report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True
    )
    rows = [{"input_ids": ids, "labels": ids}] * 8
    with watching(Machine(tmp_path, tiny=True), warm=1, total=4) as watch:
        Trainer(model, arguments, train_dataset=rows).train()
    figures = as_figures(watch)
    assert len(watch.seconds) == figures["updates"] == 4
    assert figures["seconds_per_update"] == sum(watch.seconds[1:3]) / 2
    assert all(figures["by_group"][group] > 0 for group in (ATTENTION, LINEAR, INSIDE, LOGITS, OPTIMIZER))
    steps = [event for event in watch._profiler.events() if event.name.startswith("Optimizer.step#")]
    assert len(steps) == 1, "the profile holds one update of the four"
    assert len([line for line in watch.logs if "loss" in line]) == 4
    before = len(watch.seconds)
    Trainer(model, arguments, train_dataset=rows).train()
    assert len(watch.seconds) == before, "a trainer outside of the context is not watched"


def test_a_token_costs_what_is_multiplied_for_it():
    shape = KNOWN["Qwen3-8B"]
    assert operations(shape, 4, 0) == 4 * (shape.parameters - shape.vocab * shape.hidden)
    assert operations(shape, 4, 8192) - operations(shape, 4, 0) == 6 * 36 * 32 * 128 * 8192
    tied = KNOWN["Qwen3-4B"]
    assert operations(tied, 6, 0) == 6 * tied.parameters


# The report and its page

ABOUT = {"device": "Some GPU", "cores": 16, "date": "2026-11-24", "commit": "abc1234", "packages": {"torch": "2.11.0"}}
GROUPED = dict.fromkeys(GROUPS, 0.0) | {LINEAR: 0.45, REST: 0.15}
FOUND = ABOUT | {
    "sft_8b_lora": {
        "tokens_per_second": 13607.2, "mfu": 0.424, "mfu_whole_rows": 0.468, "unique_share": 0.97, "by_group": GROUPED,
        "peak_gb": {"training": 61.9}, "predicted_gb": {"training": 60.0}, "ratio": 4.955,
        "trl": {"tokens_per_second": 2746.0, "mfu": 0.09, "peak_gb": {"training": 22.8}},
    },
    "sft_4b": {"tokens_per_second": 9.0, "ratio": None, "trl": {"failed": "killed\nOutOfMemoryError: 12 GiB | more"}},
    "rlve_8b_lora": {"failed": "TimeoutExpired: it took 570 s", "trl": {"training_seconds": 117.6}, "ratio": None},
    "generate_vllm": {"tokens_per_second": 8251.4},
    "scratch_100m": {
        "untrained": {"n": 400, "success": 0.0}, "sft": {"n": 400, "success": 0.71, "interval": [0.66, 0.76]},
        "rlve - sft": {"gain": 0.04, "interval": [0.01, 0.07]}, "sft updates": 900, "seconds": {"sft": 150.2},
    },
}  # fmt: skip


def test_the_page_has_the_ratio_first_and_names_what_failed(tmp_path):
    page = tmp_path / "gpu.md"
    page.write_text(f"# GPUs\n\n{BEGIN}\nold\n{END}\n\nkept\n")
    write_page(page, FOUND)
    text = page.read_text()
    assert text.startswith("# GPUs\n") and text.endswith(f"{END}\n\nkept\n") and "old" not in text
    assert "Some GPU, 16 CPU cores, 2026-11-24, commit abc1234; torch 2.11.0." in text
    assert "| `sft_8b_lora` | **4.96** | 13,607 tokens/s | 2,746 tokens/s | 42.4 % | 46.8 % | 9.0 % | 97.0 % |" in text
    assert "| `rlve_8b_lora` | – | failed | 118 s an update |" in text
    assert "| `sft_8b_lora` | training | 60.0 | 61.9 | 22.8 |" in text
    assert "| linear | 0.450 s (75.0 %) |" in text and "| rest | 0.150 s (25.0 %) |" in text
    assert "| vllm | 8,251 |" in text and "| SFT | 71.0 (66.0 to 76.0) | 400 | 900 | 150 |" in text
    assert "- RLVE − SFT: +4.0 (+1.0 to +7.0) points" in text
    assert "`sft_4b` of TRL failed: OutOfMemoryError: 12 GiB" in text and "`rlve_8b_lora` failed: TimeoutExpired" in text
    write_page(page, FOUND)
    assert page.read_text() == text


def test_a_page_without_a_place_for_results_is_refused(tmp_path):
    page = tmp_path / "gpu.md"
    page.write_text("# GPUs\n")
    with pytest.raises(ValueError, match=r"gpu\.md has no lines <!-- measured"):
        write_page(page, FOUND)


def test_the_page_of_this_repository_has_a_place_for_results():
    text = (ROOT / "docs/gpu.md").read_text("utf-8")
    assert text.index(BEGIN) < text.index(END) < text.index("## The baseline")
    assert text_of(ABOUT).count("|") == 0, "a report without figures has no empty tables"


def test_the_terminal_shows_the_table_of_the_update():
    console = Console(width=120, record=True, file=Path(os.devnull).open("w"))  # noqa: SIM115
    show("sft_8b_lora", FOUND["sft_8b_lora"], console)
    show("sft_4b", FOUND["sft_4b"], console)
    text = console.export_text()
    assert "75.0 %" in text and "█" * 15 in text and "1.03" in text
    assert "TRL failed: killed" in text


def test_parts_of_one_commit_are_gathered_and_others_are_not(tmp_path):
    out = tmp_path / "report.json"
    assert begun(out, ABOUT) == ABOUT
    out.write_text(json.dumps(FOUND))
    assert begun(out, ABOUT | {"date": "2026-11-25"}) == FOUND | {"date": "2026-11-25"}
    assert begun(out, ABOUT | {"commit": "fff"}) == ABOUT | {"commit": "fff"}


@pytest.mark.parametrize(
    ("failure", "asked", "ratio"),
    [
        (None, ["ours", "trl"], 2.0),
        ("torch.OutOfMemoryError: CUDA out of memory", ["ours", "trl", "trl_checkpointing"], 2.0),
        ("KeyError: 'x'", ["ours", "trl"], None),
    ],
)
def test_trl_runs_again_with_checkpointing_if_memory_runs_out(monkeypatch, tmp_path, failure, asked, ratio):
    sides = []

    def side(part: str, name: str, *_: object) -> dict:
        sides.append(name)
        failed = {"failed": failure} if failure and name == "trl" else {}
        return {"tokens_per_second": 8.0 if name == "ours" else 4.0} | failed

    monkeypatch.setattr(reporting, "run_side", side)
    found = run_part("sft_4b", Namespace(), Machine(tmp_path, tiny=True))
    assert sides == asked and found["ratio"] == ratio
