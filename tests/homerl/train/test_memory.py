"""Memory estimates: sizes by hand and against real models, and which of the shipped recipes fit where they say."""

import json
import re
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from forked import homerl

from homerl.app.runs.recipe import load_recipe
from homerl.train.memory_estimate import (
    count_free_bytes,
    count_recipe_model,
    estimate_all_stages,
    estimate_training_memory,
    find_process_memory,
    longest_sequence,
)
from homerl.train.model_settings import KNOWN, DecoderSizes, LoraSettings, ModelSettings, estimate_decoder_sizes
from homerl.train.packing.pass_budget import TokenBudget

ROOT = Path(__file__).parents[3]
SIZES = {
    "Qwen3-0.6B": 0.60,
    "Qwen3-1.7B": 1.72,
    "Qwen3-4B": 4.02,
    "Qwen3-8B": 8.19,
    "Qwen3-14B": 14.77,
    "Qwen3-32B": 32.76,
    "SmolLM2-135M-Instruct": 0.13,
    "Qwen2.5-Coder-0.5B-Instruct": 0.49,
}


def recipe(name: str, *overrides: str):
    return load_recipe(ROOT / f"recipes/{name}.yaml", overrides)


@pytest.mark.parametrize("name", SIZES)
def test_known_sizes_are_the_models_own(name):
    assert KNOWN[name].parameters / 1e9 == pytest.approx(SIZES[name], abs=0.01)


def test_a_real_models_parameters_and_adapter_are_counted_right(model, tiny):
    import copy

    from peft import LoraConfig, get_peft_model

    shape = estimate_decoder_sizes(ModelSettings(name=str(tiny)))
    norms = sum(p.numel() for n, p in model.named_parameters() if "norm" in n)
    assert shape.parameters == model.num_parameters() - norms
    lora = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM")
    adapted = get_peft_model(copy.deepcopy(model), lora)
    trained = sum(p.numel() for p in adapted.parameters() if p.requires_grad)
    own = {"name": str(tiny), "dtype": "float32"}
    whole, few = (
        count_recipe_model(recipe("sft_8b").model_copy(update={"model": ModelSettings(**own, lora=lora)}), 512)
        for lora in (None, LoraSettings(r=4))
    )
    assert (whole.parameters, whole.trained) == (model.num_parameters(), model.num_parameters())
    assert (few.parameters, few.trained) == (model.num_parameters(), trained)


def test_shapes_are_found_by_files_then_name_then_size(tmp_path, tiny):
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "Qwen/Qwen3-4B"}))
    assert estimate_decoder_sizes(ModelSettings(name=str(tmp_path))) == KNOWN["Qwen3-4B"]
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": str(tiny)}))
    assert estimate_decoder_sizes(ModelSettings(name=str(tmp_path))).hidden == 64
    assert estimate_decoder_sizes(ModelSettings(name="someone/Qwen3-14B")) == KNOWN["Qwen3-14B"]
    assert estimate_decoder_sizes(ModelSettings(name="runs/mine", parameters=1.5)) == KNOWN["Qwen3-1.7B"]
    assert estimate_decoder_sizes(ModelSettings(name="runs/of/mine", parameters=1.5)) == KNOWN["Qwen3-1.7B"], (
        "no name of a repository"
    )


def test_a_hub_model_has_the_sizes_of_its_cached_configuration(tmp_path, monkeypatch):
    """Also what its file says by null, and as the base of an adapter."""
    sizes = {"hidden_size": 2048, "num_hidden_layers": 24, "num_attention_heads": 32, "intermediate_size": 8192}
    config = sizes | {"vocab_size": 49152, "tie_word_embeddings": True, "head_dim": None, "num_key_value_heads": None}
    cached = tmp_path / "models--someone--Small-2B"
    (cached / "snapshots/1").mkdir(parents=True)
    (cached / "refs").mkdir()
    (cached / "refs/main").write_text("1")
    (cached / "snapshots/1/config.json").write_text(json.dumps(config))
    (tmp_path / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": "someone/Small-2B"}))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    expected = DecoderSizes(2048, 24, 32, 32, 8192, 64, 49152, True)
    assert (
        estimate_decoder_sizes(ModelSettings(name="someone/Small-2B"))
        == expected
        == estimate_decoder_sizes(ModelSettings(name=str(tmp_path)))
    )


def test_check_says_that_a_models_layers_are_not_all_attention(tmp_path):
    """Of a model that also sees, whose decoder is described within its configuration."""
    sizes = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4, "intermediate_size": 128, "vocab_size": 99}
    text = sizes | {"model_type": "qwen3_5_text", "layer_types": ["linear_attention", "full_attention"]}
    config = {"model_type": "qwen3_5", "text_config": text, "tie_word_embeddings": True}
    (tmp_path / "config.json").write_text(json.dumps(config))
    lines = estimate_training_memory(recipe("sft_8b", "--model.name", str(tmp_path))).report_lines(80)
    assert "no prompt is shared: its layers are not all attention (linear_attention)" in lines[-1]
    assert "shared" not in estimate_training_memory(recipe("sft_8b")).report_lines(80)[-1]


PARTS = ("weights", "gradients", "optimizer")


def test_states_by_hand():
    whole = 8.19073536  # with its norms
    full = estimate_training_memory(recipe("sft_8b", "--parallel", "ddp"), gpus=1).always
    assert full["weights"] == pytest.approx(2 * whole) and full["optimizer"] == pytest.approx(10 * whole)
    two = estimate_training_memory(recipe("sft_8b", "--parallel", "zero2"), gpus=4).always
    assert two["weights"] == pytest.approx(2 * whole) and two["optimizer"] == pytest.approx(3 * whole)
    three = estimate_training_memory(recipe("sft_8b"), gpus=4).always
    assert three["weights"] == pytest.approx(whole / 2) and three["optimizer"] == pytest.approx(3 * whole)
    assert (
        estimate_training_memory(recipe("sft_8b"), gpus=8).peak_memory
        < estimate_training_memory(recipe("sft_8b"), gpus=4).peak_memory
    )


def test_a_stage_of_deepspeed_that_accelerate_names_is_counted_as_what_it_shards(monkeypatch):
    monkeypatch.setenv("ACCELERATE_USE_DEEPSPEED", "true")
    found = {}
    for stage in range(4):
        monkeypatch.setenv("ACCELERATE_DEEPSPEED_ZERO_STAGE", str(stage))
        always = estimate_training_memory(recipe("sft_8b"), gpus=4).always
        found[stage] = [round(always[part] / (KNOWN["Qwen3-8B"].parameters / 1e9), 3) for part in PARTS]
    assert found == {0: [2, 2, 12], 1: [2, 2, 3], 2: [2, 0.5, 3], 3: [0.5, 0.5, 3]}


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_the_optimizers_bytes_are_those_of_its_state(dtype, model):
    import copy

    import torch

    from homerl.train.memory_estimate import ADAM
    from homerl.train.parallel.adamw import AdamW

    trained = copy.deepcopy(model).to(getattr(torch, dtype))
    optimizer = AdamW(trained.parameters(), lr=1e-3, betas=(0.9, 0.999))
    for weight in trained.parameters():
        weight.grad = torch.ones_like(weight)
    optimizer.step()
    held = sum(value.nbytes for state in optimizer.state.values() for name, value in state.items() if name != "step")
    assert held == ADAM[dtype] * trained.num_parameters()


def test_a_sleeping_sampler_and_the_trainers_activations_are_not_added_up():
    asleep, awake = (
        estimate_training_memory(recipe("rlve_8b_lora", "--rlve.engine.sleep", value)) for value in ("true", "false")
    )
    assert "vLLM" in awake.always and not any("vLLM" in part for part in asleep.always)
    assert asleep.pass_budget.plain > 1.5 * awake.pass_budget.plain, "it leaves its memory to the trainer"
    assert asleep.peak_memory == pytest.approx(sum(asleep.always.values()) + sum(asleep.training.values()))
    assert "reference" not in asleep.always and "reference" in estimate_training_memory(recipe("rlve_full")).always


FITS = ["sft_4b", "sft_8b", "sft_8b_lora", "rlve_full", "rlve_full_4b", "rlve_st", "rlve_8b_lora", "rlve_async"]


@pytest.mark.long  # of each, the test of headers below asks the same
@pytest.mark.parametrize("name", FITS)
def test_the_shipped_recipes_fit_gpus_of_80_gb(name):
    found = estimate_training_memory(recipe(name))
    assert found.describe_fit(80).startswith("fits in 80 GB"), found.report_lines(80)


DEAR = ("qwen_home", "rlve_32b", "smollm2_home")  # their models take seconds to be laid out
RECIPES = [
    pytest.param(path, id=path.stem, marks=[pytest.mark.long] if path.stem in DEAR else [])
    for path in sorted((ROOT / "recipes").glob("*.yaml"))
]


@pytest.mark.parametrize("path", RECIPES)
def test_a_recipe_fits_the_machine_that_its_header_names(path):
    """A line `# Machine: 4 GPUs of 80 GB`, or one that says `no GPU`."""
    (machine,) = re.findall(r"^# Machine: (.+)$", path.read_text(), re.M)
    found = load_recipe(path)
    if "no GPU" in machine:
        assert found.run == "synth" or found.cpu
        memory = float((re.search(r"(\d+) GB", machine) or ["", "4"])[1])
        assert all(one.gpus * one.peak_memory <= memory for one in estimate_all_stages(found).values())
        return
    count, memory = map(int, re.match(r"(\d+) GPUs? of (\d+) GB", machine).groups())
    for stage, one in estimate_all_stages(found, gpus=count).items():
        assert one.describe_fit(memory).startswith(f"fits in {memory} GB"), (stage, one.report_lines(memory))


def test_adapters_fit_one_gpu_and_leave_room_for_whole_rows():
    for name in ("sft_8b_lora", "rlve_8b_lora"):
        found = estimate_training_memory(recipe(name), gpus=1)
        assert (
            found.describe_fit(80).startswith("fits") and found.pass_budget.plain > 7000 and found.pass_budget.most >= 16384
        )


@pytest.mark.parametrize("name", [*FITS, "scratch_100m", "simuhome_8b"])
def test_the_longest_sequence_of_a_shipped_recipe_fits_one_pass(name):
    for stage, found in estimate_all_stages(recipe(name)).items():
        assert found.pass_budget.most >= longest_sequence(getattr(recipe(name), stage)) and not found.lacks


def test_a_budget_fills_the_memory_that_is_left():
    for memory in (40.0, 80.0, 140.0):
        for checkpointing in ("auto", "true", "false"):
            found = estimate_training_memory(
                recipe("sft_8b_lora", "--sft.gradient_checkpointing", checkpointing), gpus=1, memory=memory
            )
            assert found.peak_memory <= memory and found.pass_budget.plain <= found.pass_budget.most <= 32768
            assert (found.pass_budget.plain == 0) == (checkpointing == "true")
            assert found.pass_budget.plain in (0, found.pass_budget.most) or checkpointing == "auto"


def test_tokens_that_a_recipe_names_are_the_budget():
    for checkpointing, plain in (("auto", 5000), ("true", 0), ("false", 5000)):
        allowed = checkpointing != "false"
        given = ("--sft.tokens_per_step", "5000", "--sft.gradient_checkpointing", checkpointing)
        found = estimate_training_memory(recipe("sft_8b_lora", *given), gpus=1).pass_budget
        assert replace(found, scored=0) == TokenBudget(plain, 5000, allowed)


def test_passes_without_gradients_are_larger_and_fit_too():
    """Whatever the recipe says of passes with gradients. On a CPU, where larger ones leave the caches, they are not."""
    for memory in (40.0, 140.0):
        for asked in ("auto", "4096"):
            found = estimate_training_memory(recipe("rlve_8b_lora", "--rlve.tokens_per_step", asked), gpus=1, memory=memory)
            budget, larger = found.pass_budget, found.pass_budget.without_gradients().most
            assert budget.most <= larger <= 65536 and larger * found.headroom.token.scoring_peak < found.headroom.free
            assert larger > budget.most or memory < 100
    small = estimate_training_memory(recipe("quickstart"), stage="rlve").pass_budget
    assert small.without_gradients().most == small.most


def test_a_sequence_that_no_pass_can_hold_is_told():
    said = estimate_training_memory(recipe("sft_8b_lora", "--sft.max_length", "400000"), gpus=1).describe_fit(80)
    assert said.startswith("does not fit in 80 GB: the longest sequence (400000 tokens) needs ")


def test_a_flywheel_has_an_estimate_of_each_stage_that_trains():
    found = estimate_all_stages(recipe("scratch_100m"), gpus=1)
    assert list(found) == ["sft", "rlve"] and all(one.unit == "GPU" for one in found.values())
    assert 80e6 < estimate_decoder_sizes(recipe("scratch_100m").model).parameters < 120e6, "about 100M, as its name says"
    assert found["rlve"].sampling["cache"] > 0 and not found["sft"].sampling
    small = estimate_all_stages(recipe("quickstart"))
    assert {(one.unit, one.gpus) for one in small.values()} == {("process", 2)} and max(
        e.peak_memory for e in small.values()
    ) < 2
    assert estimate_all_stages(recipe("synth")) == {}


def test_an_estimate_is_of_the_machine_that_the_recipe_asks_for():
    assert estimate_training_memory(recipe("scratch_100m"), stage="sft").gpus == 1, "`parallel: none` trains on one GPU"
    assert find_process_memory(recipe("sft_8b"), 40.0) == 40.0
    own = psutil.virtual_memory().total / 1e9
    assert find_process_memory(recipe("quickstart"), 80.0) == pytest.approx(own / 2, abs=0.1), (
        "its two processes share this machine"
    )


@pytest.mark.long
def test_a_catalogue_that_is_not_there_is_said_by_check():
    done = homerl("check", "recipes/smoke.yaml", "--synth.recipe.home.catalogue", "[nowhere]", cwd=ROOT)
    assert done.returncode == 2 and "nowhere: there is no such folder" in done.stderr


def test_a_whole_copy_to_sample_from_is_counted():
    sharded = ("--parallel", "fsdp2", "--rlve.engine", "{kind: transformers}")
    whole = count_recipe_model(recipe("rlve_full"), 512).parameters * 2 / 1e9
    assert estimate_training_memory(recipe("rlve_full", *sharded), gpus=4).always["the sampler's copy"] == pytest.approx(
        whole
    )
    assert "the sampler's copy" not in estimate_training_memory(recipe("rlve_full")).always


def test_vllm_without_room_for_the_whole_model_does_not_fit():
    found = estimate_training_memory(recipe("rlve_full", "--rlve.engine", "{gpu_memory: 0.2, sleep: false}"))
    said = found.describe_fit(80)
    lacks = "vLLM's 16.0 GB (rlve.engine.gpu_memory) hold no model of 16.4 GB with its cache: raise it, "
    assert said.startswith(f"does not fit in 80 GB: {lacks}")
    assert "gpu_memory" not in found.brief_lines(80)[1], "less of it would not help"
    assert (found.too_small, replace(found, too_small=None).brief_lines(80)[1].count("gpu_memory")) == ("vLLM", 1)


def test_no_way_is_named_that_the_recipe_takes_already_or_that_makes_it_worse():
    said = estimate_training_memory(recipe("rlve_8b_lora"), gpus=1, memory=24).brief_lines(24)[1]
    assert "a smaller model" in said and "model.lora" not in said and "gpu_memory" not in said


def test_check_says_so_and_what_does_not_fit():
    done = homerl("check", "recipes/sft_8b.yaml", "--gpus", "2", "--gpu-memory", "40", cwd=ROOT)
    said = done.stdout
    assert "memory of each training GPU (2 in all), estimated:" in said and "does not fit in 40 GB" in said
    assert "to need less, the largest part first: more GPUs" in said and "--full" in said.splitlines()[-1]
    assert done.returncode == 2 and "sft does not fit the machine that you plan for" in done.stderr
    assert done.stderr.startswith("recipes/sft_8b.yaml: reading the recipe ...\n"), "a log says at once what begins"


def gigabytes(name: str, *overrides: str, gpus: int = 1) -> list[float]:
    return [round(size, 2) for size in estimate_training_memory(recipe(name, *overrides), gpus=gpus).disk.parts.values()]


def test_the_disk_of_checkpoints_by_hand(tmp_path):
    """Of adapters with 0.0873 and of models with 8.19 billion weights; shards are those of all ranks together."""
    assert gigabytes("sft_8b_lora") == [round(3 * 12 * 0.0873, 2), round(2 * 0.0873, 2)]
    assert gigabytes("sft_8b_lora", "--sft.save_steps", "null") == [round(2 * 0.0873, 2)]
    whole = 8.19073536
    for parallel, each in (("ddp", 12), ("zero2", 16), ("zero3", 14), ("fsdp2", 12)):
        found = gigabytes("sft_8b", "--parallel", parallel, "--sft.keep_checkpoints", "4", gpus=4)
        assert found == [round(5 * each * whole, 2), round(2 * whole, 2)], parallel
    evaluated = gigabytes("rlve_8b_lora", "--evaluation.every", "10")
    assert evaluated[1:] == [round(2 * 0.0873, 2)] * 2, "the last and the best model"


def test_check_says_when_the_disk_is_too_small(tmp_path):
    found = estimate_training_memory(recipe("sft_8b", "--out", str(tmp_path / "run/one")), gpus=8).disk
    assert found.free == pytest.approx(psutil.disk_usage(str(tmp_path)).free / 1e9, rel=0.01), (
        "of a folder that is yet to be"
    )
    assert (
        str(found).startswith("360.4 GB: 344.0 for 3 checkpoints (one while it is written), 16.4 for the model")
        and replace(found, free=1000.0).describe_shortage() is None
    )
    short = f"{tmp_path / 'run/one'} has 300.0 GB free, and 360.4 GB are written: lower keep_checkpoints"
    assert short in str(replace(found, free=300.0).describe_shortage())
    assert f"  disk: {found}" in estimate_training_memory(
        recipe("sft_8b", "--out", str(tmp_path / "run/one")), gpus=8
    ).report_lines(80)


def test_what_a_run_has_written_is_free_for_it(tmp_path):
    before = count_free_bytes(tmp_path)
    written = tmp_path / "checkpoints/checkpoint-1/model.safetensors"
    written.parent.mkdir(parents=True)
    with written.open("wb") as file:
        file.truncate(10**12)  # of holes
    assert count_free_bytes(tmp_path) - 10**12 == pytest.approx(before, abs=2e10)
