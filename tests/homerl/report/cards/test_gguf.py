"""GGUF: the file holds the weights, the vocabulary and the template of the export, or nothing is written."""

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import jinja2
import numpy as np
import pytest
import torch
from command import full_disk
from crossed import crossed
from gguf import GGUFReader, dequantize
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file
from tiny_agent import DIALOGUE, ROWS, TOOLS, make_agent
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, Qwen2Tokenizer, Qwen3Config
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import tool_call
from homerl.models.policy.chat_template import build_chat_template, with_generation_tags, without_generation_tags
from homerl.report.cards.export import export_model
from homerl.report.cards.gguf_and_ollama import KINDS, check_convertible, gguf_vocabulary, pre_tokenizer_name, write_gguf
from homerl.train.tiny_model import TinyConfig, make_tokenizer
from homerl.train.training_setup import load_chat_tokenizer

NAMES = {  # of the tensors, as llama.cpp's qwen3 has them
    "model.embed_tokens": "token_embd",
    "model.norm": "output_norm",
    "model.layers.N.input_layernorm": "blk.N.attn_norm",
    "model.layers.N.post_attention_layernorm": "blk.N.ffn_norm",
    "model.layers.N.self_attn.q_proj": "blk.N.attn_q",
    "model.layers.N.self_attn.k_proj": "blk.N.attn_k",
    "model.layers.N.self_attn.v_proj": "blk.N.attn_v",
    "model.layers.N.self_attn.o_proj": "blk.N.attn_output",
    "model.layers.N.self_attn.q_norm": "blk.N.attn_q_norm",
    "model.layers.N.self_attn.k_norm": "blk.N.attn_k_norm",
    "model.layers.N.mlp.gate_proj": "blk.N.ffn_gate",
    "model.layers.N.mlp.up_proj": "blk.N.ffn_up",
    "model.layers.N.mlp.down_proj": "blk.N.ffn_down",
}


STEPS = {"Q8_0": 0.57 / 127, "Q5_0": 1.02 / 16}  # the largest error of a weight, as a share of its block's largest


@pytest.fixture(scope="module", autouse=True)
def brief() -> Iterator[None]:
    """An untrained model says nothing that is worth 256 tokens."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("homerl.report.cards.export.MOST", 8)
        yield


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    return make_agent(tmp_path_factory.mktemp("gguf") / "run")


@pytest.fixture(scope="module", params=KINDS)
def exported(request, run: Path) -> tuple[str, Path]:
    return request.param, export_model(run, str(run.parent / f"agent-{request.param}"), gguf=request.param)


def read(folder: Path) -> GGUFReader:
    (path,) = folder.glob("*.gguf")
    return GGUFReader(path)


def value(reader: GGUFReader, key: str):
    return reader.get_field(key).contents()


def gguf_name(name: str) -> str:
    layer = next((part for part in name.split(".") if part.isdigit()), "N")
    stem, _, suffix = name.rpartition(".")
    return NAMES[stem.replace(f".{layer}.", ".N.")].replace("N", layer) + f".{suffix}"


def test_every_weight_is_there_to_the_bit(exported):
    kind, folder = exported
    weights, tensors = load_file(folder / "model.safetensors"), {tensor.name: tensor for tensor in read(folder).tensors}
    assert {gguf_name(name) for name in weights} == set(tensors)
    as_stored = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}
    for name, weight in weights.items():
        found = tensors[gguf_name(name)]
        back = torch.from_numpy(dequantize(found.data, found.tensor_type).copy()).reshape(weight.shape)
        if weight.ndim == 1:
            assert found.tensor_type.name == "F32"
            assert torch.equal(back, weight)
        elif found.tensor_type.name in STEPS:  # half a step, and the scale's own rounding
            most = weight.reshape(-1, 32).abs().amax(1, keepdim=True)
            assert (((back - weight).reshape(-1, 32).abs()) <= most * STEPS[found.tensor_type.name]).all()
        else:
            assert torch.equal(back, weight.to(as_stored.get(kind, torch.float16)).float())


SPLITS = {"llama": "smollm", "qwen2": "qwen2"}


@crossed(kind=["f32", "q8_0"], family=["llama", "qwen2"])
def test_transformers_reads_another_family_back(tmp_path: Path, kind: str, family: str):
    """In queries and keys of GGUF's `llama` the rows have another order, which its reader in transformers undoes; those of
    `qwen2` have biases."""
    folder = export_model(make_agent(tmp_path / "run", family=family), str(tmp_path / "agent"), gguf=kind)
    reader, ours = read(folder), AutoModelForCausalLM.from_pretrained(folder)
    assert (value(reader, "general.architecture"), value(reader, "tokenizer.ggml.pre")) == (family, SPLITS[family])
    back = AutoModelForCausalLM.from_pretrained(folder, gguf_file=f"{folder.name}-{kind}.gguf", dtype=torch.float32)
    ids = torch.arange(3, 60)[None]
    with torch.no_grad():
        apart = (back(ids).logits - ours(ids).logits).abs().max()
    assert apart < (1e-5 if kind == "f32" else 2e-2)


def test_only_rows_that_blocks_divide_are_quantised(run: Path, tmp_path: Path):
    tensors = {
        tensor.name: tensor.tensor_type.name for tensor in read(export_model(run, str(tmp_path / "a"), gguf="q8_0")).tensors
    }
    assert tensors["blk.0.ffn_down.weight"] == "F16"  # rows of 80
    assert {kind for name, kind in tensors.items() if "norm" not in name and "ffn_down" not in name} == {"Q8_0"}


def test_q4_k_m_is_the_mixture_of_llama_cpp(tmp_path: Path):
    wide = {"hidden_size": 256, "intermediate_size": 256, "layers": 8}
    folder = export_model(make_agent(tmp_path / "run", family="qwen2", **wide), str(tmp_path / "a"), gguf="q4_k_m")
    tensors = {tensor.name: tensor for tensor in read(folder).tensors}
    kinds = {name: tensor.tensor_type.name for name, tensor in tensors.items()}
    assert value(read(folder), "general.file_type") == 15  # LLAMA_FTYPE_MOSTLY_Q4_K_M
    finer = {f"blk.{layer}.{part}.weight" for layer in (0, 3, 6, 7) for part in ("attn_v", "ffn_down")}
    assert {name for name, kind in kinds.items() if kind == "Q6_K"} == finer | {"token_embd.weight"}
    assert {kind for name, kind in kinds.items() if name.endswith(("norm.weight", ".bias"))} == {"F32"}
    assert set(kinds.values()) == {"F32", "Q6_K", "Q4_K"}
    weights = load_file(folder / "model.safetensors")
    for name, weight in weights.items():
        found = tensors[gguf_name(name)]
        back = torch.from_numpy(dequantize(found.data, found.tensor_type).copy()).reshape(weight.shape)
        most = {"F32": 0, "Q6_K": 0.02, "Q4_K": 0.09}[found.tensor_type.name]
        assert (back - weight).norm() <= most * weight.norm()


def test_without_llama_cpp_four_bits_are_refused(tmp_path: Path, monkeypatch):
    run = make_agent(tmp_path / "run", hidden_size=256)
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    refused(run, tmp_path / "a", "xllamacpp", "--gguf q8_0", gguf="q4_k_m")


def test_the_shape_of_the_model(exported):
    _, folder = exported
    reader, config = read(folder), AutoConfig.from_pretrained(folder)
    assert value(reader, "general.architecture") == "qwen3"
    for key, known in {
        "block_count": 2,
        "context_length": 2048,
        "embedding_length": 64,
        "feed_forward_length": 80,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.key_length": 32,
        "attention.value_length": 32,
        "rope.freq_base": 10000.0,
    }.items():
        assert value(reader, f"qwen3.{key}") == known
    assert np.isclose(value(reader, "qwen3.attention.layer_norm_rms_epsilon"), config.rms_norm_eps)


def test_every_token_is_there(exported):
    _, folder = exported
    reader, tokenizer = read(folder), AutoTokenizer.from_pretrained(folder)
    tokens, types = value(reader, "tokenizer.ggml.tokens"), value(reader, "tokenizer.ggml.token_type")
    assert tokens == tokenizer.convert_ids_to_tokens(range(len(tokenizer)))
    kinds = dict(zip(tokens, types, strict=True))
    assert {text for text, kind in kinds.items() if kind == 3} == {"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
    assert {text for text, kind in kinds.items() if kind == 4} == set(tokenizer.get_added_vocab()) - set(tokens[:3])
    merges = json.loads((folder / "tokenizer.json").read_text())["model"]["merges"]
    assert value(reader, "tokenizer.ggml.merges") == [" ".join(merge) for merge in merges]
    assert tokens[value(reader, "tokenizer.ggml.eos_token_id")] == "<|im_end|>"
    assert (value(reader, "tokenizer.ggml.pre"), value(reader, "tokenizer.ggml.add_bos_token")) == ("gpt-2", False)
    assert value(reader, "tokenizer.chat_template") == (folder / "chat_template.jinja").read_text()


def test_ids_without_a_token_pad_the_vocabulary(run: Path):
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    rows = gguf_vocabulary(tokenizer, len(tokenizer) + 2)
    assert [kind for _, kind in rows[-3:]] == [4, 5, 5]
    assert len({text for text, _ in rows}) == len(rows)


def test_a_qwen_tokenizer_splits_as_llama_cpp_does():
    found = Qwen2Tokenizer(vocab={"a": 0, "b": 1, "<|endoftext|>": 2}, merges=[])
    assert pre_tokenizer_name(found, "here") == "qwen2"
    assert make_tokenizer(["a b"], TOOLS, TinyConfig(split="gpt2")).decode([]) == ""
    assert pre_tokenizer_name(make_tokenizer(["a b"], TOOLS, TinyConfig(split="gpt2")), "here") == "gpt-2"


# Refusals


def refused(run: Path, to: Path, *words: str, **options) -> None:
    with pytest.raises(InputError) as caught:
        export_model(run, str(to), **options)
    assert all(word in str(caught.value) for word in words), caught.value
    assert list(to.parent.glob(f"*{to.name}*")) == []


def test_a_model_that_llama_cpp_would_read_otherwise_is_refused(tmp_path: Path):
    refused(make_agent(tmp_path / "words", split="words"), tmp_path / "a", "split: gpt2", gguf="f16")
    phrased = make_agent(tmp_path / "phrased", phrases=["light, ple", "please!! x"])
    export_model(phrased, str(tmp_path / "whole"))
    refused(phrased, tmp_path / "b", "'please!! x' before 'light, ple'", gguf="f16")


def test_another_architecture_is_refused(run: Path):
    tokenizer = AutoTokenizer.from_pretrained(run / "model")
    sliding = Qwen3Config(num_hidden_layers=2, use_sliding_window=True, sliding_window=8, max_window_layers=1)
    stretched = Qwen3Config(rope_parameters={"rope_type": "linear", "rope_theta": 1e4, "factor": 2.0})
    for config, word in (
        (AutoConfig.for_model("gemma"), "gemma"),
        (sliding, "full attention"),
        (stretched, "positions"),
    ):
        with pytest.raises(InputError, match=word):
            check_convertible(config, tokenizer, "here")


def test_what_cannot_be_had_is_refused_before_any_work(run: Path, tmp_path: Path, monkeypatch):
    refused(run, tmp_path / "a", "f32, f16, bf16, q8_0, q4_k_m", gguf="q3_k_s")
    refused(run, tmp_path / "a", "without --adapter", gguf="f16", adapter=True)
    monkeypatch.setitem(sys.modules, "gguf", None)
    refused(run, tmp_path / "a", 'pip install "homerl[gguf]"', gguf="f16")


def test_a_weight_that_overflows_leaves_nothing_behind(tmp_path: Path):
    run = make_agent(tmp_path / "run")
    weights = load_file(run / "model/model.safetensors")
    weights["model.layers.1.mlp.up_proj.weight"][0, 0] = 1e6
    save_file(weights, run / "model/model.safetensors", metadata={"format": "pt"})
    refused(run, tmp_path / "a", "mlp.up_proj", "--gguf bf16", gguf="f16")
    assert export_model(run, str(tmp_path / "a"), gguf="bf16").is_dir()


def test_the_command_and_what_the_card_says(run: Path, tmp_path: Path):
    done = CliRunner().invoke(app, ["export", str(run), "--to", str(tmp_path / "My-Agent"), "--gguf", "f16"])
    assert done.exit_code == 0, done.output
    folder = tmp_path / "My-Agent"
    card, modelfile = (folder / "README.md").read_text(), (folder / "Modelfile").read_text()
    assert "llama-server --jinja -m My-Agent-f16.gguf" in card
    assert "ollama create my-agent -f Modelfile" in card
    assert modelfile.startswith("FROM ./My-Agent-f16.gguf\n")
    assert (folder / "My-Agent-f16.gguf").is_file()
    export_model(run, str(folder))  # replaces it
    assert not list(folder.glob("*.gguf"))
    assert "llama-server" not in (folder / "README.md").read_text()


# The chat template


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
ARGUMENTS = st.dictionaries(
    st.text("abc_", min_size=1), st.one_of(TEXT, st.integers(), st.none(), st.lists(TEXT, max_size=2))
)
CALLS = st.lists(st.builds(tool_call, st.sampled_from(["light.turn_on", "query_status"]), ARGUMENTS), max_size=3)
MESSAGES = st.lists(
    st.one_of(
        st.builds(
            lambda role, content: {"role": role, "content": content}, st.sampled_from(["user", "tool", "system"]), TEXT
        ),
        st.builds(lambda content, calls: {"role": "assistant", "content": content, "tool_calls": calls}, TEXT, CALLS),
    ),
    min_size=1,
    max_size=6,
)


def rendered(template: str, **context) -> str:
    """A template in an environment without the tags and filters of transformers, but for its JSON."""
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda item: json.dumps(item, ensure_ascii=False)
    return environment.from_string(template).render(**context)


@pytest.fixture(scope="module")
def tokenizer(run: Path):
    return AutoTokenizer.from_pretrained(run / "model")


@given(messages=MESSAGES, tools=st.booleans(), prompt=st.booleans(), shown=st.booleans())
def test_the_plain_template_writes_the_same_text(tokenizer, messages, tools, prompt, shown):
    given, trained = TOOLS if tools else None, build_chat_template(shown)
    expected = tokenizer.apply_chat_template(
        messages, tools=given, tokenize=False, add_generation_prompt=prompt, chat_template=trained
    )
    plain = without_generation_tags(trained)
    assert rendered(plain, messages=messages, tools=given, add_generation_prompt=prompt) == expected
    assert with_generation_tags(plain) == trained


def test_training_goes_on_from_an_export_with_the_marks_of_training(run: Path, tmp_path: Path):
    folder = export_model(run, str(tmp_path / "agent"))
    assert "{%- generation" not in (folder / "chat_template.jinja").read_text()
    tokenizer = load_chat_tokenizer(str(folder))
    assert tokenizer.chat_template == build_chat_template(show_tools=False)
    found = tokenizer.apply_chat_template(DIALOGUE, tokenize=True, return_dict=True, return_assistant_tokens_mask=True)
    assert 0 < sum(found["assistant_masks"]) < len(found["input_ids"])
    assert ROWS[0]["messages"][1]["content"] in tokenizer.decode(found["input_ids"])


def test_a_full_disk_is_said_and_leaves_the_earlier_export(exported, run: Path, monkeypatch):
    """It fills while the GGUF file is written, after the export's other files."""
    kind, folder = exported
    before = {path: path.read_bytes() for path in folder.iterdir()}

    def on_a_full_disk(*given) -> None:
        with full_disk(50_000):
            write_gguf(*given)

    monkeypatch.setattr("homerl.report.cards.export.write_gguf", on_a_full_disk)
    with pytest.raises(OSError, match="No space left") as refused:
        export_model(run, str(folder), gguf=kind)
    assert refused.value.filename == str(next(folder.glob("*.gguf")))
    assert {path: path.read_bytes() for path in folder.iterdir()} == before, "nothing is half written"
    assert not list(folder.parent.glob(".*"))
