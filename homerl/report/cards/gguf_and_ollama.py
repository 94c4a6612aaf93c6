"""A model's folder as one GGUF file for llama.cpp and Ollama, and the Modelfile with which Ollama runs it.

Invariants:
- Llama.cpp reads the weights, the vocabulary and the splitting of text exactly as transformers does, or the model is
  refused.
- The weights are converted one tensor at a time. The `gguf` package writes the file. (Llama.cpp's own converter is in no
  package, and refuses tokenizers that it does not know by name.) What it cannot quantize, a compiled llama.cpp does.
- The template of the Modelfile, in Go's syntax, writes the dialogue that our Jinja template writes, except that Go's JSON
  has no spaces, and escapes `<`, `>` and `&`. Ollama's parser of tool calls begins at the first text behind
  `if .ToolCalls`, so that text is the opening tag.
"""

from __future__ import annotations

import ctypes
import json
import math
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import safe_open

from homerl.envs.core.documents import InputError
from homerl.models.policy.chat_template import (
    IM_END,
    NAMED,
    has_empty_thought,
    shows_tool_names,
    shows_tools,
    without_generation_tags,
)

KINDS = ("f32", "f16", "bf16", "q8_0", "q4_k_m")
ARCHITECTURES = ("qwen3", "qwen2", "llama")  # `model_type` of transformers, and llama.cpp's own names
WORDS, DIGITS, OTHER = "ByteLevel", "Digits", "?"  # tokenizers' own splits, and one that llama.cpp has not
SPLITS = {  # the splits before BPE, one after another, by the name that llama.cpp has for them
    "gpt-2": (WORDS,),
    "smollm": (DIGITS, WORDS),
    "qwen2": (
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    ),
}
MERGED = "export it without --gguf"
QUANTIZER = 'pip install "homerl[gguf]" for it, or export with --gguf q8_0'


def require_gguf() -> Any:
    """The `gguf` package; `InputError` if it is not installed."""
    try:
        import gguf
    except ImportError:
        raise InputError("the package `gguf` is not installed", remedy='pip install "homerl[gguf]"') from None
    return gguf


def write_gguf(folder: Path, path: Path, kind: str, config: Any, tokenizer: Any) -> None:
    """Write the model whose safetensors are in `folder`, which `check_convertible` has passed.

    `kind` is how its matrices are stored; vectors stay f32.
    """
    gguf = require_gguf()
    writer = gguf.GGUFWriter(path, config.model_type)
    try:
        _add_model_metadata(writer, config, kind, path.stem)
        _add_vocabulary(writer, config, tokenizer)
        _add_tensors(writer, folder, config, kind)
    finally:
        writer.close()


def check_convertible(config: Any, tokenizer: Any, where: str) -> None:
    """Raise `InputError` if llama.cpp would compute anything else than transformers does."""
    if config.model_type not in ARCHITECTURES:
        what = f"GGUF is written of {', '.join(ARCHITECTURES)} models, this is {config.model_type}"
        raise InputError(what, where, MERGED)
    rope = config.rope_parameters
    attention = set(getattr(config, "layer_types", None) or ["full_attention"])  # a family with one kind does not name it
    if rope.get("rope_type", "default") not in ("default", "yarn") or attention != {"full_attention"}:
        what = "GGUF is written of models with full attention and default or yarn positions"
        raise InputError(what, where, MERGED)
    if tokenizer.eos_token != IM_END:
        raise InputError(f"GGUF is written of models that speak ChatML, and this one has no {IM_END}", where, MERGED)
    pre_tokenizer_name(tokenizer, where)
    _check_added_tokens(_tokenizer_parts(tokenizer)["added_tokens"], where)


def _add_model_metadata(writer: Any, config: Any, kind: str, name: str) -> None:
    gguf, rope = require_gguf(), config.rope_parameters
    file_type = "ALL_F32" if kind == "f32" else f"MOSTLY_{kind.upper()}"
    head_size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads  # Qwen2 names none
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name(name)
    writer.add_file_type(gguf.LlamaFileType[file_type])
    writer.add_quantization_version(gguf.GGML_QUANT_VERSION)
    writer.add_block_count(config.num_hidden_layers)
    writer.add_context_length(config.max_position_embeddings)
    writer.add_embedding_length(config.hidden_size)
    writer.add_feed_forward_length(config.intermediate_size)
    writer.add_head_count(config.num_attention_heads)
    writer.add_head_count_kv(config.num_key_value_heads)
    writer.add_key_length(head_size)
    writer.add_value_length(head_size)
    writer.add_layer_norm_rms_eps(config.rms_norm_eps)
    writer.add_rope_freq_base(rope["rope_theta"])
    if rope.get("rope_type") == "yarn":
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])


# The vocabulary


def _tokenizer_parts(tokenizer: Any) -> dict[str, Any]:
    """The tokenizer as `tokenizer.json` has it."""
    parts: dict[str, Any] = json.loads(tokenizer.backend_tokenizer.to_str())
    return parts


def pre_tokenizer_name(tokenizer: Any, where: str) -> str:
    """llama.cpp's name for how this tokenizer splits text; `InputError` if it has none."""
    parts = _tokenizer_parts(tokenizer)
    model, steps = parts["model"], parts["pre_tokenizer"] or {}
    steps = steps.get("pretokenizers", [steps])
    splits = tuple(split for step in steps if (split := _name_split(step)))
    sound = steps[-1].get("type") == WORDS and model["type"] == "BPE" and not model.get("ignore_merges")
    sound = sound and not (model.get("byte_fallback") and "<0x00>" in model["vocab"])  # else it has nothing to fall back on
    sound = sound and _list_normalizers(parts["normalizer"]) <= {"NFC"}  # people and programs type NFC
    sound = sound and tokenizer("a")["input_ids"] == tokenizer("a", add_special_tokens=False)["input_ids"]
    found = next((name for name, known in SPLITS.items() if splits == known), None)
    if not sound or found is None:
        remedy = "train from a Qwen3 or SmolLM2 model, or a `from_scratch` one with `split: gpt2`; or export without --gguf"
        raise InputError("llama.cpp cannot split text as this tokenizer does", where, remedy)
    return found


def _name_split(step: Mapping[str, Any]) -> str | None:
    """How one step of a tokenizer splits text; None if it does not."""
    match step:
        case {"type": "ByteLevel", "add_prefix_space": False, "use_regex": splits}:
            return WORDS if splits else None
        case {"type": "Digits", "individual_digits": True}:
            return DIGITS
        case {"type": "Split", "pattern": {"Regex": str(regex)}, "behavior": "Isolated", "invert": False}:
            return regex
    return OTHER


def _list_normalizers(step: Mapping[str, Any] | None) -> set[str]:
    """What a tokenizer does to text before it splits it."""
    if step is None:
        return set()
    return set().union(*map(_list_normalizers, step["normalizers"])) if step["type"] == "Sequence" else {step["type"]}


def _check_added_tokens(added: Iterable[Mapping[str, Any]], where: str) -> None:
    """Refuse added tokens that llama.cpp would find elsewhere: it takes the longest first, transformers the leftmost."""
    texts = [token["content"] for token in added]
    if odd := [token["content"] for token in added if token["single_word"] or token["lstrip"] or token["rstrip"]]:
        raise InputError(f"llama.cpp cannot find the token {odd[0]!r} by its rules", where, MERGED)
    for first in texts:  # in "abcd", transformers finds "ab" where llama.cpp finds "bcd"
        for later in texts:
            overlaps = any(later.startswith(first[start:]) for start in range(1, len(first)))
            if first != later and len(later) >= len(first) and overlaps:
                what = f"llama.cpp finds the token {later!r} before {first!r}, which it overlaps"
                raise InputError(what, where, "train with `split: gpt2` and without such phrases, or export without --gguf")


def gguf_vocabulary(tokenizer: Any, size: int) -> list[tuple[str, int]]:
    """(text, type) of each id. Ids without a token, which pad the embeddings, get a name that no text can have."""
    kinds, parts = require_gguf().TokenType, _tokenizer_parts(tokenizer)
    rows = [(f"[PAD{number}]", kinds.UNUSED) for number in range(size)]
    for text, number in parts["model"]["vocab"].items():
        rows[number] = (text, kinds.NORMAL)
    for token in parts["added_tokens"]:
        rows[token["id"]] = (token["content"], kinds.CONTROL if token["special"] else kinds.USER_DEFINED)
    return [(text, int(kind)) for text, kind in rows]


def _add_vocabulary(writer: Any, config: Any, tokenizer: Any) -> None:
    texts, kinds = zip(*gguf_vocabulary(tokenizer, config.vocab_size), strict=True)
    merges = _tokenizer_parts(tokenizer)["model"]["merges"]
    writer.add_tokenizer_model("gpt2")  # its name of all byte-level BPE
    writer.add_tokenizer_pre(pre_tokenizer_name(tokenizer, "the tokenizer"))
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_eos_token_id(tokenizer.eos_token_id)
    if tokenizer.pad_token_id is not None:
        writer.add_pad_token_id(tokenizer.pad_token_id)
    writer.add_add_bos_token(False)
    writer.add_chat_template(without_generation_tags(tokenizer.chat_template))


# The weights


def _add_tensors(writer: Any, folder: Path, config: Any, kind: str) -> None:
    """Announce every tensor, then convert and write one after another."""
    gguf = require_gguf()
    names = gguf.get_tensor_name_map(gguf.MODEL_ARCH[config.model_type.upper()], config.num_hidden_layers)
    found = []
    for path, name, shape in _list_weight_shapes(folder):
        to = names.get_name(name, try_suffixes=(".weight", ".bias"))
        if to is None:
            raise InputError(f"GGUF has no place for the weight {name}", path.name, MERGED)
        stored = gguf.GGMLQuantizationType[_choose_tensor_type(kind, to, shape, config)]
        per_block, size = gguf.GGML_QUANT_SIZES[stored]
        writer.add_tensor_info(to, shape, np.dtype(np.float32), math.prod(shape) // per_block * size, stored)
        found.append((path, name, stored))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    for path, name, stored in found:
        weight = _reorder_rotary_rows(_read_weight(path, name, stored.name), name, config)
        by_k = stored.name.endswith("_K")  # which the package reads and does not write
        writer.write_tensor_data(_quantize_by_llama_cpp(weight, stored) if by_k else gguf.quants.quantize(weight, stored))


def _list_weight_shapes(folder: Path) -> Iterator[tuple[Path, str, tuple[int, ...]]]:
    """(file, name, shape) of each weight; tied ones are stored once."""
    for path in sorted(folder.glob("*.safetensors")):
        with safe_open(path, "pt") as file:
            for name in sorted(file.keys()):
                yield path, name, tuple(file.get_slice(name).get_shape())


def _choose_tensor_type(kind: str, name: str, shape: tuple[int, ...], config: Any) -> str:
    """The type of one tensor, by GGUF's name for it: vectors are f32, as llama.cpp wants them; rows that q8_0 cannot divide
    are f16. `q4_k_m` is llama.cpp's mixture: what most depends on has 6 bits, and rows that blocks of 256 cannot divide
    have a bit or two more in blocks of 32."""
    if len(shape) == 1:
        return "F32"
    if shape[-1] % 32 and kind in ("q8_0", "q4_k_m"):
        return "F16"
    if kind != "q4_k_m":
        return kind.upper()
    stored = "Q4_K"
    if name == ("token_embd.weight" if config.tie_word_embeddings else "output.weight"):
        stored = "Q6_K"
    elif name.endswith(("attn_v.weight", "ffn_down.weight")):
        layer, eighth = int(name.split(".")[1]), config.num_hidden_layers // 8
        inner = eighth <= layer < 7 * config.num_hidden_layers // 8
        stored = "Q4_K" if inner and (layer - eighth) % 3 != 2 else "Q6_K"
    return stored if shape[-1] % 256 == 0 else {"Q4_K": "Q5_0", "Q6_K": "Q8_0"}[stored]


def _quantize_by_llama_cpp(weight: np.ndarray, stored: Any) -> np.ndarray:
    """The bytes of a matrix in one of llama.cpp's types of 256 numbers a block, a row of bytes for each row of the matrix.

    Raises `InputError` if the package that has llama.cpp is not installed.
    """
    try:
        from xllamacpp import xllamacpp as library
    except ImportError:
        what = "the package `xllamacpp`, which has llama.cpp's own quantization, is not installed"
        raise InputError(what, "--gguf", QUANTIZER) from None
    quantize = ctypes.CDLL(library.__file__).ggml_quantize_chunk
    counts = [ctypes.c_int64] * 3
    quantize.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, *counts, ctypes.c_void_p]
    quantize.restype = ctypes.c_size_t
    rows, columns = weight.shape
    per_block, size = require_gguf().GGML_QUANT_SIZES[stored]
    made = np.empty((rows, columns // per_block * size), np.uint8)
    numbers = np.ascontiguousarray(weight, np.float32)
    written = quantize(int(stored), numbers.ctypes.data, made.ctypes.data, 0, rows, columns, None)
    if written != made.nbytes:
        raise RuntimeError(f"llama.cpp wrote {written} bytes for {made.nbytes}")
    return made


def _read_weight(path: Path, name: str, stored: str) -> np.ndarray:
    """One weight in float32, which holds every dtype of a checkpoint; `InputError` if it would overflow."""
    with safe_open(path, "pt") as file:
        weight: np.ndarray = file.get_tensor(name).float().numpy()
    if stored == "F16" and np.abs(weight).max() > np.finfo(np.float16).max:
        raise InputError(f"the weight {name} is too large for f16", path.name, "export it with --gguf bf16")
    return weight


def _reorder_rotary_rows(weight: np.ndarray, name: str, config: Any) -> np.ndarray:
    """The weight with rows as llama.cpp has them. In queries and keys of its `llama`, positions turn neighbours, and in
    transformers the halves of a head."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
    if config.model_type != "llama" or heads is None:
        return weight
    return weight.reshape(heads, 2, -1, *weight.shape[1:]).swapaxes(1, 2).reshape(weight.shape)


MOST_CONTEXT = 16_384  # tokens; Ollama's own default cuts a home's prompt off without a word
TOOLS = """

# Tools

You may call the functions below. Their signatures, as JSON, one a line:
<tools>
{{- range $.Tools }}
{{ . }}
{{- end }}
</tools>

To call one, answer with:
<tool_call>
{"name": <function-name>, "arguments": <arguments as JSON object>}
</tool_call>"""
TEMPLATE = """{{- $previous := "" }}
{{- range $at, $message := .Messages }}
{{- $rest := slice $.Messages $at }}
{{- if eq .Role "system" }}<|im_start|>system
{{ .Content }}{{ if $.Tools }}SHOWN{{ end }}<|im_end|>
{{ else if eq .Role "user" }}<|im_start|>user
{{ .Content }}<|im_end|>
{{ else if eq .Role "assistant" }}<|im_start|>assistant
{{ .Content }}{{ if and .Content (len $message.ToolCalls) }}{{ "\\n" }}{{ end }}
{{- if .ToolCalls }}{{ range $place, $call := .ToolCalls }}<tool_call>
{"name": "{{ .Function.Name }}", "arguments": {{ .Function.Arguments }}}
</tool_call>{{ if gt (len (slice $message.ToolCalls $place)) 1 }}{{ "\\n" }}{{ end }}{{ end }}{{ end }}<|im_end|>
{{ else if eq .Role "tool" }}{{ if ne $previous "tool" }}<|im_start|>user{{ end }}
<tool_response>
{{ .Content }}
</tool_response>
{{- if eq (len $rest) 1 }}<|im_end|>
{{ else if ne (index $rest 1).Role "tool" }}<|im_end|>
{{ end }}{{ end }}
{{- $previous = .Role }}
{{- end }}<|im_start|>assistant
"""


def render_modelfile(gguf: str, template: str, context: int) -> str:
    """The Modelfile beside a GGUF file, for a model with homerl's chat template and this context length."""
    return "\n".join(
        [
            f"FROM ./{gguf}",
            f'TEMPLATE """{go_chat_template(template)}"""',
            f'PARAMETER stop "{IM_END}"',
            f"PARAMETER num_ctx {min(context, MOST_CONTEXT)}",
            "",
        ]
    )


def go_chat_template(template: str) -> str:
    """homerl's chat template in Go's syntax; `template` tells whether it shows the tools."""
    shown = TOOLS if shows_tools(template) else ""
    if shows_tool_names(template):
        signatures, names = next(iter(NAMED.items()))
        shown = shown.replace(signatures, names).replace("{{ . }}", "{{ .Function.Name }}")
    text = TEMPLATE.replace("SHOWN", shown)
    opening = "<|im_start|>assistant\n"
    return text.replace(opening, f"{opening}<think>\n\n</think>\n\n") if has_empty_thought(template) else text
