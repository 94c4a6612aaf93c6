"""A token that no training saw is written in ordinary tokens, since an adapter on the layers cannot learn to write it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from fake_hub import TOKEN
from peft import LoraConfig, get_peft_model
from safetensors.torch import load_file, save_file
from tokenizers import AddedToken
from transformers import AutoModelForCausalLM, AutoTokenizer

from homerl.app.runs.preflight import describe_chat_template
from homerl.report.cards.export import export_model
from homerl.train.model_sources import load_model_tokenizer
from homerl.train.tiny_model import TinyConfig, make_random_model, make_tokenizer
from homerl.train.training_setup import load_chat_tokenizer

CALL = '<tool_call>\n{"name": "x"}\n</tool_call>'


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Path:
    """A model with two marks that are no control tokens, whose first has the embedding of an id that no token has."""
    folder = tmp_path_factory.mktemp("base")
    tokenizer = make_tokenizer([CALL], [])
    tokenizer.add_tokens([AddedToken(mark, special=False) for mark in ("<tool_call>", "</tool_call>")])
    make_random_model(TinyConfig(hidden_size=32, layers=1), len(tokenizer) + 7, seed=0).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    weights = load_file(folder / "model.safetensors")
    for name, rows in weights.items():
        if name.endswith(("embed_tokens.weight", "lm_head.weight")):
            rows[tokenizer.convert_tokens_to_ids("<tool_call>")] = rows[len(tokenizer)] * 1.02
    save_file(weights, folder / "model.safetensors", {"format": "pt"})
    return folder


def test_an_untrained_token_is_written_in_ordinary_ones_and_a_trained_one_stays(base, tmp_path):
    tokenizer = load_model_tokenizer(str(base))
    tokens, before = tokenizer.tokenize(CALL), AutoTokenizer.from_pretrained(base)
    assert "<tool_call>" not in tokens and "</tool_call>" in tokens
    assert "; 1 tokens that no training of it has seen" in (describe_chat_template(str(base)) or "")
    assert tokenizer.convert_tokens_to_ids("</tool_call>") == before.convert_tokens_to_ids("</tool_call>")
    assert tokenizer.decode(tokenizer(CALL)["input_ids"]) == CALL
    tokenizer.save_pretrained(tmp_path)  # beside an adapter, whose folder has no such weights
    assert load_model_tokenizer(str(tmp_path))(CALL)["input_ids"] == tokenizer(CALL)["input_ids"]


def test_without_rows_that_no_token_has_nothing_is_known(base, tmp_path):
    weights = load_file(base / "model.safetensors")
    tokenizer = load_model_tokenizer(str(base))
    count = 1 + max(tokenizer.get_vocab().values())
    for file in base.glob("*.json"):
        (tmp_path / file.name).write_bytes(file.read_bytes())
    cut = {name: rows[:count].clone() if rows.shape[0] == count + 7 else rows for name, rows in weights.items()}
    save_file(cut, tmp_path / "model.safetensors", {"format": "pt"})
    assert "<tool_call>" in load_model_tokenizer(str(tmp_path)).tokenize(CALL)


def test_a_model_of_the_hub_is_trained_in_the_same_tokens_from_the_first_start_on(base, hub, tmp_path):
    files = {path.name: path.read_bytes() for path in base.iterdir()}
    hub["repos"]["acme/base"] = {"visibility": "public", "files": {**files, "consolidated.safetensors": b"?"}, "tags": []}
    script = (
        "from homerl.train.model_sources import download_hub_weights, load_model_tokenizer\n"
        "download_hub_weights('acme/base')\n"
        f"print(load_model_tokenizer('acme/base')({CALL!r})['input_ids'])"
    )
    cache = {**os.environ, "HF_HOME": str(tmp_path), "HF_ENDPOINT": hub["url"], "HF_TOKEN": TOKEN, "HF_HUB_OFFLINE": "0"}
    told = subprocess.run([sys.executable, "-c", script], env=cache, stdout=subprocess.PIPE, text=True, check=True).stdout
    assert json.loads(told) == load_model_tokenizer(str(base))(CALL)["input_ids"]
    assert not any("consolidated" in call for call in hub["calls"])  # a second copy, which some models have


def test_an_adapter_brings_the_tokenizer_by_which_others_write_as_in_training(base, tmp_path):
    """Theirs reads the base's own, in which the mark is the token that nobody has trained."""
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), LoraConfig(r=2, target_modules="all-linear"))
    model.peft_config["default"].base_model_name_or_path = str(base)
    model.save_pretrained(tmp_path / "stage/model")
    load_chat_tokenizer(str(base)).save_pretrained(tmp_path / "stage/model")
    export = export_model(tmp_path / "stage", str(tmp_path / "agent"), adapter=True)
    plain = AutoTokenizer.from_pretrained(export)
    ours, theirs = load_model_tokenizer(str(base)), AutoTokenizer.from_pretrained(base)
    assert plain(CALL)["input_ids"] == ours(CALL)["input_ids"] != theirs(CALL)["input_ids"]
    card = (export / "README.md").read_text()
    assert "active_peft_config" not in card and "--tokenizer agent \\" in card
