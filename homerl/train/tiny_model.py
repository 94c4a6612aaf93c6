"""Makes a tiny Qwen3 and its tokenizer from the training data, for laptops, tests and smoke runs.

Invariants: the same data, configuration and seed give the same bytes; a frequent word is one token, and any other text can
still be encoded and decoded (byte-level BPE); the start and the end of a tool call are one
token.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, model_validator

from homerl.envs.core.model import Model
from homerl.models.policy.chat_template import IM_END, IM_START, build_chat_template

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast, Qwen3ForCausalLM

PAD = "<|endoftext|>"
WORDS = r"[ _]?[a-zA-Z]+=?|\d+|[^\sa-zA-Z\d]+|\s+"
APART = r"[a-zA-Z]+|\d+|_|[^\sa-zA-Z\d_]+|\s+"


class TinyConfig(Model):
    """A Qwen3 and a tokenizer made from the training data."""

    hidden_size: int = Field(128, ge=1, description="Width of the hidden states.")
    layers: int = Field(4, ge=1, description="Transformer layers.")
    heads: int = Field(4, ge=1, description="Attention heads of a layer.")
    kv_heads: int = Field(4, ge=1, description="Key and value heads of a layer; it divides `heads`.")
    head_dim: int = Field(32, ge=2, multiple_of=2, description="Width of a head, even; narrow heads cannot attend sharply.")
    intermediate_size: int = Field(384, ge=1, description="Width of the feed-forward layers.")
    vocab_size: int = Field(4096, description="Most tokens of the vocabulary.")
    max_positions: int = Field(2048, ge=1, description="Longest sequence, in tokens.")
    phrases: tuple[str, ...] = Field((), description="Texts that become one token each.")
    words: tuple[str, ...] = Field((), description="Regular expressions of texts that may become one token each.")
    split: Literal["words", "apart", "gpt2"] = Field(
        "words",
        description="How text is split: `words` with the space or underscore before them, `apart` from these,"
        " or by the rules of `gpt2`, which `--gguf` needs.",
    )

    @model_validator(mode="after")
    def _heads_are_shared_evenly(self) -> TinyConfig:
        if self.heads % self.kv_heads:
            raise ValueError(
                f"{self.heads} `heads` cannot share {self.kv_heads} `kv_heads` evenly: take one that divides them"
            )
        return self

    @model_validator(mode="after")
    def _words_are_ours(self) -> TinyConfig:
        if self.words and self.split == "gpt2":
            raise ValueError("`words` are parts of our own split: leave them out, or set `split: words`")
        return self


def make_tokenizer(
    texts: Iterable[str], tools: Sequence[dict[str, Any]], config: TinyConfig = TinyConfig()
) -> PreTrainedTokenizerFast:
    """A tokenizer with homerl's chat template, which leaves tool schemas out of the prompt."""
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    tokenizer = Tokenizer(models.BPE())
    split = pre_tokenizers.Split(Regex("|".join((*config.words, APART if config.split == "apart" else WORDS))), "isolated")
    own = pre_tokenizers.Sequence([split, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.pre_tokenizer = own if config.split != "gpt2" else pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    special = [PAD, IM_START, IM_END]
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=config.vocab_size, special_tokens=special, initial_alphabet=alphabet, show_progress=False
        ),
    )
    frames = list_call_frames(tools)
    if config.split == "gpt2":  # overlapping frames are found in another order by llama.cpp
        frames = list(dict.fromkeys(frame.removeprefix("\n") for frame in frames))
    tokenizer.add_tokens([AddedToken(text, normalized=False) for text in (*frames, *config.phrases)])
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer, eos_token=IM_END, pad_token=PAD, clean_up_tokenization_spaces=False
    )
    fast.chat_template = build_chat_template(show_tools=False)
    return fast


def list_call_frames(tools: Sequence[dict[str, Any]]) -> list[str]:
    """The constant text around messages, tool calls and observations. Each becomes one token."""
    frames = ['"}}\n</tool_call>', "\n<tool_response>\n", "<tool_response>\n", "\n</tool_response>"]
    frames += [f"{IM_START}{role}\n" for role in ("system", "user", "assistant")]
    for tool in tools:
        function = tool["function"]
        for name in (function.get("parameters") or {}).get("properties") or ():
            frames.append(f'<tool_call>\n{{"name": "{function["name"]}", "arguments": {{"{name}": "')
    return frames


def collect_row_tools(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The tools of all rows, each once, in the order of the rows: worlds and toolsets may be mixed."""
    listings = dict.fromkeys(row["tools"] for row in rows)
    tools = {json.dumps(tool): tool for listing in listings for tool in json.loads(listing)}
    return [*tools.values()]


def make_row_tokenizer(rows: Sequence[dict[str, Any]], config: TinyConfig) -> PreTrainedTokenizerFast:
    """The tokenizer that is made from dialogue rows and their tools."""
    return make_tokenizer(_list_texts(rows), collect_row_tools(rows), config)


def make_random_model(config: TinyConfig, vocab_size: int, seed: int) -> Qwen3ForCausalLM:
    """A model in float32, with weights initialised from `seed`."""
    from transformers import Qwen3Config, Qwen3ForCausalLM, set_seed

    set_seed(seed)
    return Qwen3ForCausalLM(
        Qwen3Config(
            vocab_size=vocab_size,
            hidden_size=config.hidden_size,
            intermediate_size=config.intermediate_size,
            num_hidden_layers=config.layers,
            num_attention_heads=config.heads,
            num_key_value_heads=config.kv_heads,
            head_dim=config.head_dim,
            max_position_embeddings=config.max_positions,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
            tie_word_embeddings=True,
            bos_token_id=None,
            eos_token_id=2,
            pad_token_id=0,
        )
    )


def make_tiny_model(
    rows: Iterable[dict[str, Any]], tools: Sequence[dict[str, Any]], config: TinyConfig, seed: int, out: Path
) -> Path:
    """Make an untrained model and its tokenizer from dialogue rows, and write both to `out`."""
    from transformers import GenerationConfig

    tokenizer = make_tokenizer(_list_texts(rows), tools, config)
    model = make_random_model(config, len(tokenizer), seed)
    model.generation_config = GenerationConfig(
        do_sample=True, temperature=1.0, top_p=1.0, top_k=0, eos_token_id=model.config.eos_token_id, pad_token_id=0
    )
    model.save_pretrained(out)
    tokenizer.save_pretrained(out)
    return out


def _list_texts(rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    """The text of each message, and the arguments of each of its calls if it has none."""
    for row in rows:
        for message in row["messages"]:
            for call in message.get("tool_calls") or [{"function": {"arguments": ""}}]:
                yield message.get("content") or call["function"]["arguments"]
