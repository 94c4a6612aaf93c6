"""Every part of scripts/gpu_report runs start to end, in tiny on a CPU; what it says is what it found."""

import json
import os
import subprocess
import sys
import time
from argparse import Namespace
from contextlib import nullcontext
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Thread

import psutil
import pytest
import torch
from forked import script
from rich.console import Console
from transformers import (
    AutoModelForCausalLM,
    Qwen3Config,
    Qwen3ForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)

from gpu import report as reporting
from gpu.breakdown import (
    ATTENTION,
    BACKWARD,
    FACTORS,
    GROUPS,
    IDLE,
    INSIDE,
    LAYER,
    LINEAR,
    LOGITS,
    OPTIMIZER,
    REST,
    Breakdown,
    Event,
    annotated,
    breakdown,
    events,
    needed_operations,
)
from gpu.machine import QUICK as QUICK_SECONDS
from gpu.machine import STARTED, Machine
from gpu.parts import PARTS as MEASURED
from gpu.predicted import TRAINING
from gpu.report import begun, beside, in_order, run_side
from gpu.sft import operations
from gpu.tables import show
from gpu.watch import RESERVE, Watch, as_figures, watching
from homerl.train.model_settings import KNOWN
from homerl.train.packing.compiled_layers import CompiledLayers

ROOT = Path(__file__).parents[3]
TRAINED = ("seconds_per_update", "by_group", "predicted_gb", "ratio", "trl")
PARTS = {
    "sft_8b_lora": ("tokens_per_second", *TRAINED),
    "sft_4b": ("tokens_per_second", *TRAINED),
    "rlve_8b_lora": ("training_seconds", "by_share", "engine", *TRAINED),
    "generate_transformers": ("tokens_per_second", "tokens"),
    "scratch_100m": ("untrained", "sft", "rlve", "rlve - sft", "trajectories", "parameters"),
    "long_100m": ("sft", "rlve", "rlve_trajectory", "rlve - sft", "rlve_trajectory - sft", "rlve - rlve_trajectory"),
}


def report(folder: Path, *parts: str) -> dict:
    script(ROOT / "scripts/gpu_report", "--tiny", "--out", folder / "report.json", *parts, cwd=folder)
    return json.loads((folder / "report.json").read_text())


QUICK = "generate_transformers"  # by which every run of the tests knows that the script still fits what it calls


@pytest.mark.long
def test_a_part_turns_and_is_in_the_report(monkeypatch, tmp_path):
    """In a process that begins with training loaded; under --all each part is started as the script starts it."""

    def side(part: str, side: str, asked: Namespace, machine: Machine) -> dict:
        script(ROOT / "scripts/gpu_report", "--only", part, "--side", side, "--tiny", "--out", asked.out, cwd=tmp_path)
        return json.loads((machine.folder / f"{part}.json").read_text())

    monkeypatch.setattr(reporting, "run_side", side)
    monkeypatch.setattr(sys, "argv", ["gpu_report", "--tiny", "--out", str(tmp_path / "report.json"), QUICK])
    reporting.main()
    assert set(PARTS[QUICK]) <= set(json.loads((tmp_path / "report.json").read_text())[QUICK])


@pytest.mark.long
@pytest.mark.timeout(700)
@pytest.mark.parametrize("part", PARTS)
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
    subprocess.run(command, check=True)
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
    whole = breakdown([*host, *kernels], 50.0, vocabulary=999)
    assert whole.kernels[:3] == (
        (INSIDE, "elementwise", 9.0, 2), (LOGITS, "gemm", 9.0, 2), ("communication", "ncclAllReduce", 8.0, 1)
    )  # fmt: skip
    spent = whole.groups
    assert spent == {
        ATTENTION: 2 + 1 + 1, LINEAR: 1 + 1, INSIDE: 3 + 6, LOGITS: 4 + 5, OPTIMIZER: 7, "communication": 8, REST: 1,
        IDLE: 50 - 4 - 2 - 9 - 9 - 7 - 8 - 1,
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
    spent = breakdown([*host, *kernels], 3.0, vocabulary=999).groups
    assert (spent[INSIDE], spent[LOGITS], spent[REST]) == (1, 2, 0)


def test_on_a_cpu_each_operator_counts_without_those_inside_it():
    host = [
        Event("aten::linear", 0, 3 * 10**9, 1, id=1),
        Event("aten::t", 10**9, 10**9, 1, id=2),
        Event("aten::add", 4 * 10**9, 10**9, 1, id=3),
    ]
    groups = dict.fromkeys(GROUPS, 0.0) | {LINEAR: 3.0, REST: 1.0, IDLE: 2.0}
    assert breakdown(host, 6.0, vocabulary=999) == Breakdown(groups, None, 0)


TOKENS, VOCABULARY = 64, 777


def profiled(adapters: bool, checkpointing: bool = False, compiled: bool = False) -> tuple[int, list[Event]]:
    """A model's operations of linear a token, and the events of its forward and its backward pass, which has a thread of its
    own as on a GPU.
    """
    from peft import LoraConfig, get_peft_model
    from torch._C._profiler import _ExperimentalConfig

    model: torch.nn.Module = Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=96,
            num_hidden_layers=6,
            num_attention_heads=2,
            num_key_value_heads=1,
            head_dim=16,
        )
    )
    if adapters:
        model = get_peft_model(model, LoraConfig(r=1, target_modules="all-linear", task_type="CAUSAL_LM"))
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    ids = torch.arange(TOKENS)[None]
    layers = CompiledLayers(model, "aot_eager_decomp_partition") if compiled else None
    if layers:
        with layers.run_compiled():
            model(ids, labels=ids).loss.backward()  # compiles
    settings = _ExperimentalConfig(profile_all_threads=True)
    cpu = [torch.profiler.ProfilerActivity.CPU]
    with (
        layers.run_compiled() if layers else nullcontext(),
        annotated(model),
        torch.profiler.profile(activities=cpu, record_shapes=True, experimental_config=settings) as profiler,
    ):
        loss = model(ids, labels=ids).loss
        backward = Thread(target=loss.backward)
        backward.start()
        backward.join()
    return needed_operations(model), list(events(profiler))


def on_a_gpu(host: list[Event], linked: str) -> list[Event]:
    """The events as if each operator without others inside had called the CUDA runtime once, and so started a kernel.

    The runtime numbers its calls itself, so they have numbers of operators too. A product takes as many nanoseconds as it
    has operations, other kernels take one. `linked` says what links to the operator: `both`, `kernels` or `neither`.
    """
    inner: dict[int, Event] = {}
    stacks: dict[int, list[Event]] = {}
    for event in sorted(host, key=lambda event: (event.start, -event.duration)):
        stack = stacks.setdefault(event.resource, [])
        while stack and stack[-1].start + stack[-1].duration <= event.start:
            stack.pop()
        within = bool(stack) and stack[-1].name in FACTORS  # a product starts its kernel itself
        if stack and not within:
            inner.pop(stack[-1].id, None)
        if not within:
            stack.append(event)
        if not (within or event.annotation):
            inner[event.id] = event
    found, clock = list(host), 0
    for number, event in enumerate(inner.values(), 1):
        link, called = (event.id if linked in told else 0 for told in (("both", "kernels"), ("both",)))
        took = breakdown([event], 0.0, VOCABULARY).operations or 1
        name = "nvjet_tst_128x256" if event.name in FACTORS else "elementwise_kernel"
        found.append(replace(event, name="cudaLaunchKernel", id=number, link=called, thread=0, sequence=-1, forward=0))
        found.append(Event(name, clock, took, id=number, link=link, device=True))
        clock += took
    return found


@pytest.mark.parametrize(
    ("linked", "compiled"),
    [
        pytest.param("both", False, marks=pytest.mark.long),
        ("kernels", False),
        pytest.param("neither", False, marks=pytest.mark.long),
        pytest.param("kernels", True, marks=pytest.mark.long),
    ],
)
@pytest.mark.parametrize(("adapters", "checkpointing", "passes"), [(False, False, 3), (True, False, 2), (True, True, 3)])
def test_products_of_the_backward_pass_count_to_linear(adapters, checkpointing, passes, compiled, linked):
    """A backward pass has twice the products of a forward pass, and as many if only adapters are trained."""
    needed, host = profiled(adapters, checkpointing, compiled)
    backward = min(event.start for event in host if event.name.startswith(BACKWARD))
    whole = breakdown(host, 1.0, VOCABULARY)
    forward = breakdown([event for event in host if event.start < backward], 1.0, VOCABULARY)
    assert whole.operations / forward.operations == pytest.approx(passes, rel=0.07)
    assert whole.operations >= 0.95 * needed * TOKENS and not whole.doubts(None, needed * TOKENS)
    assert forward.doubts(None, needed * TOKENS), "half of it is no update"
    device = breakdown(on_a_gpu(host, linked), 1.0, VOCABULARY)
    assert device.operations == whole.operations
    assert device.groups[LINEAR] == pytest.approx(whole.operations / 1e9, rel=0.01)
    assert device.busy == pytest.approx(sum(spent for group, spent in device.groups.items() if group != IDLE))


def test_a_product_that_a_compiler_looks_at_has_no_operations():
    host = [Event("aten::mm", 0, 10, 1, id=1, shapes=shapes) for shapes in (([], []), ())]
    assert breakdown(host, 1.0, VOCABULARY).operations == 0


def test_kernels_that_torch_compile_wrote_are_told_by_their_names():
    host = [
        Event("autograd::engine::evaluate_function: CompiledFunctionBackward", 0, 100, 2, id=1, sequence=7, forward=1),
        Event("triton_red_fused__to_copy_mul_sum_3", 10, 10, 2, id=2),
        Event("cuLaunchKernel", 12, 2, 2, id=9),
    ]
    kernels = [
        Event("triton_red_fused__to_copy_mul_sum_3", 0, 10**9, id=9, link=2, device=True),
        Event("triton_poi_fused_add_silu_0", 0, 2 * 10**9, link=1, device=True),
        Event("triton_per_fused_mean_1", 0, 4 * 10**9, device=True),
        Event("triton_tem_fused_mm_2", 0, 8 * 10**9, device=True),
    ]
    groups = breakdown([*host, *kernels], 15.0, VOCABULARY).groups
    assert groups[INSIDE] == 7.0 and groups[LINEAR] == 8.0 and groups[REST] == 0.0


def test_a_division_of_time_that_is_impossible_is_doubted():
    groups = dict.fromkeys(GROUPS, 0.0) | {LINEAR: 0.174, INSIDE: 0.1, IDLE: 0.5}
    assert Breakdown(groups, 0.274, int(1e14)).doubts(989e12, 1.1e14) == []
    (doubt,) = Breakdown(groups, 0.274, int(2.1e14)).doubts(989e12, 2.1e14)
    assert doubt == "linear would run at 1,207 TFLOP/s, and 989 are rated: kernels are missing"
    (doubt,) = Breakdown(groups, 0.274, int(1e14)).doubts(989e12, 2e14)
    assert doubt == "of the 2e+14 operations of linear 1e+14 were seen: a pass is missing"
    (doubt,) = Breakdown(groups, 0.2, int(1e14)).doubts(None, 0.0)
    assert doubt == "kernels took 0.274 s, and the GPU was busy for 0.200 s: some ran side by side"


# The clock


def test_the_last_update_is_profiled_and_not_timed(tiny, tmp_path):
    model = AutoModelForCausalLM.from_pretrained(tiny)
    ids = torch.arange(20) + 5
    arguments = TrainingArguments(
        str(tmp_path), max_steps=4, use_cpu=True, report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True
    )
    rows = [{"input_ids": ids, "labels": ids}] * 8
    kept = []
    with watching(FOREVER(tmp_path), 1, 4, lambda watch: kept.append(as_figures(watch))) as watch:
        Trainer(model, arguments, train_dataset=rows).train()
    figures = as_figures(watch)
    assert [one["updates"] for one in kept] == [1, 2, 3, 4] and kept[3] == figures
    assert kept[0]["seconds_per_update"] == watch.seconds[0], "a run that is cut has the update that it made"
    assert kept[1]["seconds_per_update"] == watch.seconds[1] and "by_group" not in kept[2]
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


# The report

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
}  # fmt: skip


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


FOREVER = partial(Machine, tiny=True, seconds=1e9)  # the tests may have run for long


def test_the_last_update_that_there_is_time_for_is_profiled(tiny, tmp_path):
    model, ids = AutoModelForCausalLM.from_pretrained(tiny), torch.arange(20) + 5
    arguments = TrainingArguments(
        str(tmp_path), max_steps=9, use_cpu=True, report_to=[], logging_steps=1, save_strategy="no", disable_tqdm=True
    )
    machine = Machine(tmp_path, True, time.monotonic() - STARTED + RESERVE + 60)
    with watching(machine, 1, 9) as watch:
        trainer = Trainer(model, arguments, train_dataset=[{"input_ids": ids, "labels": ids}] * 72)
        trainer.add_callback(Slow(watch, [100.0, 25.0, 25.0]))
        trainer.train()
    assert len(watch.seconds) == 3 and "by_group" in as_figures(watch), "the first one compiles, which tells nothing"


class Slow(TrainerCallback):
    """Makes each update look as if it took its `seconds`."""

    def __init__(self, watch: Watch, seconds: list[float]) -> None:
        self.watch, self.seconds = watch, seconds

    def on_step_begin(self, *args: object, **kwargs: object) -> None:
        self.watch._since -= self.seconds.pop(0)


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
    found = beside("sft_4b", {"tokens_per_second": 8.0}, Namespace(), Machine(tmp_path, tiny=True))
    assert sides == asked[1:] and found["ratio"] == ratio


def test_homerl_comes_first_and_trl_only_if_there_is_time():
    trained = ["sft_8b_lora", "rlve_8b_lora", "sft_4b"]
    assert list(QUICK_SECONDS) == trained and sum(QUICK_SECONDS.values()) <= 480
    ours, trl = ([(part, side) for part in trained] for side in ("ours", "trl"))
    others = [(part, "ours") for part in MEASURED if part not in trained]
    assert in_order(MEASURED, quick=False) == [*ours, *trl, *others]
    assert in_order(QUICK_SECONDS, quick=True) == ours


@pytest.mark.long
def test_a_part_that_is_cut_keeps_its_figures_and_ends_all_that_it_started(monkeypatch, tmp_path):
    script = """import json, subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
with open("FOLDER/rlve_8b_lora.json", "w") as file:
    json.dump({"updates": 2, "training_seconds": 3.5, "child": child.pid}, file)
time.sleep(600)""".replace("FOLDER", str(tmp_path))
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts/gpu_report").write_text(script)
    monkeypatch.setattr(reporting, "ROOT", tmp_path)
    monkeypatch.setattr(reporting, "QUICK", {"rlve_8b_lora": 4})
    asked = Namespace(out=tmp_path / "report.json", quick=True, tiny=False, trace=False)
    found = run_side("rlve_8b_lora", "ours", asked, Machine(tmp_path))
    assert found["cut"].startswith("its 4 s were over") and "failed" not in found
    for _ in range(100):
        if not psutil.pid_exists(found["child"]) or psutil.Process(found["child"]).status() == psutil.STATUS_ZOMBIE:
            break
        time.sleep(0.1)
    else:
        raise AssertionError("what the part started goes on")
