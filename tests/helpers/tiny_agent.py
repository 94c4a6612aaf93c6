"""A tiny model that learnt one dialogue by heart, in a run's folder: what several tests of exports share."""

import json
from pathlib import Path

import pytest
import torch
from peft import LoraConfig, get_peft_model
from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaConfig, LlamaForCausalLM

from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.models.policy.chat_template import build_chat_template
from homerl.train.model_sources import resolve_model_source
from homerl.train.offline_bases import SMOLLM2
from homerl.train.tiny_model import TinyConfig, make_tiny_model
from homerl.train.training_setup import load_chat_tokenizer

TOOLS = [tool.function_schema() for tool in TOOLSETS["homeflow"].tools]
SYSTEM = "You run a smart home through tools.\n- kitchen ceiling light=1001\n- büro, 2nd floor=1002"
DIALOGUE = [
    {"role": "system", "content": SYSTEM},
    {"role": "user", "content": "Turn on the kitchen's ceiling light, please!"},
    {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            tool_call("query_status", {"did": "1001"}),
            tool_call("pyexec", {"code": 'device("1001").turn_on()\nif True:\n    print("<ok> & ünïcode 灯")'}),
        ],
    },
    {"role": "tool", "content": '1001 ceiling light: {"state": "off"}'},
    {"role": "tool", "content": "done"},
    {"role": "assistant", "content": "The light is on.", "tool_calls": []},
    {"role": "user", "content": "Is it 21.5 °C or 100123 in there?"},
    {"role": "assistant", "content": "I look.", "tool_calls": [tool_call("query_status", {"did": "1002"})]},
    {"role": "tool", "content": "21.5"},
    {"role": "assistant", "content": "It is 21.5 °C.", "tool_calls": []},
]
ROWS = [{"messages": [{"tool_calls": [], **message} for message in DIALOGUE], "tools": json.dumps(TOOLS)}]
SIZES = {"hidden_size": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 32, "intermediate_size": 80}


def make_agent(run: Path, steps: int = 0, show_tools: bool = False, llama: bool = False, **settings) -> Path:
    """A run's folder with a tiny model that was trained on DIALOGUE for some steps: a Qwen3, or a Llama like SmolLM2, to
    which the names of tools are shown."""
    config = TinyConfig(**SIZES, vocab_size=500, **({"split": "gpt2"} | settings))
    folder = make_tiny_model(ROWS, TOOLS, config, 0, run / "model")
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModelForCausalLM.from_pretrained(folder)
    tokenizer.chat_template = build_chat_template(show_tools, named=llama)
    if llama:
        smollm = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
        tokenizer.backend_tokenizer.pre_tokenizer = smollm
        torch.manual_seed(0)
        model = LlamaForCausalLM(as_llama(model.config))
    ids = torch.tensor([tokenizer.apply_chat_template(DIALOGUE, tools=TOOLS)["input_ids"]])
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for _ in range(steps):
        loss = model(ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return run


def as_llama(config) -> LlamaConfig:
    """The configuration of a Llama of the same sizes, but for heads, whose width transformers reads of no GGUF file."""
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    others = ("vocab_size", "max_position_embeddings", "tie_word_embeddings", "bos_token_id", "eos_token_id", "pad_token_id")
    return LlamaConfig(**{name: getattr(config, name) for name in (*sizes, *others)})


def on_smollm2(run: Path) -> Path:
    """A run's folder with an adapter of small random weights on SmolLM2, whose base scripts/base_model made; else a skip."""
    base = resolve_model_source(SMOLLM2.hub)
    if base == SMOLLM2.hub:
        pytest.skip("scripts/base_model smollm2-home makes the base")
    tokenizer = load_chat_tokenizer(base, named=True)
    torch.manual_seed(0)
    settings = LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM", init_lora_weights=False)
    model = get_peft_model(AutoModelForCausalLM.from_pretrained(base), settings)
    for name, weight in model.named_parameters():
        if "lora_" in name:
            weight.data *= 0.2  # else nothing of the base is left
    model.save_pretrained(run / "model")
    tokenizer.save_pretrained(run / "model")
    return run


def prompts() -> list[list[dict]]:
    """The dialogue up to each message of the assistant."""
    return [DIALOGUE[:place] for place, message in enumerate(DIALOGUE) if message["role"] == "assistant"]
