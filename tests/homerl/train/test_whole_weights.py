"""A model or an adapter whose weights do not fit is refused with their names, wherever weights are loaded."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from transformers import Qwen3Config, Qwen3ForCausalLM

from homerl.envs.core.documents import InputError
from homerl.report.cards.export import load_adapter, load_model
from homerl.train.model_settings import ModelSettings
from homerl.train.training_setup import load_policy

Weights = dict[str, torch.Tensor]
LOADERS: dict[str, Callable[[str], object]] = {
    "training, benchmarks and served models": lambda path: load_policy(ModelSettings(name=path, dtype="float32"), path),
    "export": lambda path: load_model(Path(path)),
}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    config = Qwen3Config(
        vocab_size=64, hidden_size=16, num_hidden_layers=2, num_attention_heads=1, num_key_value_heads=1, head_dim=16,
        intermediate_size=32,
    )  # fmt: skip
    path = tmp_path_factory.mktemp("base")
    Qwen3ForCausalLM(config).save_pretrained(path)
    return path


def edit_weights(file: Path, edit: Callable[[Weights], Weights]) -> None:
    save_file(edit(load_file(file)), file, metadata={"format": "pt"})


@pytest.fixture
def adapter(base: Path, tmp_path: Path) -> Path:
    settings = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    get_peft_model(Qwen3ForCausalLM.from_pretrained(base), settings).save_pretrained(tmp_path / "adapter")
    return tmp_path / "adapter"


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda weights: {f"_orig_mod.{name}": weight for name, weight in weights.items()}, "_orig_mod.lm_head.weight"),
        (lambda weights: {name: weight for name, weight in weights.items() if ".layers.1." not in name}, "model.layers.1."),
    ],
    ids=["names of a compiled model", "a missing layer"],
)
def test_a_model_whose_names_do_not_fit_is_refused(loader, edit, said, base, tmp_path):
    model = Qwen3ForCausalLM.from_pretrained(base)
    model.save_pretrained(tmp_path / "model")
    LOADERS[loader](str(tmp_path / "model"))
    edit_weights(tmp_path / "model" / "model.safetensors", edit)
    with pytest.raises(InputError, match="lack weights") as refused:
        LOADERS[loader](str(tmp_path / "model"))
    assert said in refused.value.what and refused.value.where == str(tmp_path / "model")


@pytest.mark.parametrize("loader", LOADERS)
@pytest.mark.parametrize(
    ("edit", "said"),
    [
        (lambda weights: {name.replace(".model.model.", ".model.model.language_model."): w for name, w in weights.items()},
         "without a place in the base: .*language_model"),
        (lambda weights: {name: weight for name, weight in weights.items() if ".layers.0." in name},
         "lacks weights: .*layers.1."),
    ],
    ids=["trained in a wrapper", "half"],
)  # fmt: skip
def test_an_adapter_that_does_not_fit_is_refused(loader, edit, said, adapter):
    LOADERS[loader](str(adapter))
    edit_weights(adapter / "adapter_model.safetensors", edit)
    with pytest.raises(InputError, match=said):
        LOADERS[loader](str(adapter))


def test_an_adapter_on_an_adapter_is_refused_by_the_one_that_does_not_fit(adapter, base, tmp_path):
    upper = tmp_path / "upper"
    settings = LoraConfig(r=2, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(Qwen3ForCausalLM.from_pretrained(base), settings)
    model.peft_config["default"].base_model_name_or_path = str(adapter)
    model.save_pretrained(upper)
    load_adapter(upper, None, push=False)
    edit_weights(upper / "adapter_model.safetensors", lambda weights: dict(list(weights.items())[:3]))
    with pytest.raises(InputError, match="lacks weights") as refused:
        load_adapter(upper, None, push=False)
    assert refused.value.where == str(upper)
