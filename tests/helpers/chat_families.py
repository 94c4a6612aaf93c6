"""Tiny tokenizers of families that do not speak ChatML: their control tokens, and templates written in the style of each."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import PreTrainedTokenizerFast

LLAMA = """{{- bos_token }}{%- set first = messages[0] if messages[0].role == 'system' else none %}
{{- '<|start_header_id|>system<|end_header_id|>\\n\\nCutting date: 2023\\n' }}
{%- if first %}{{- '\\n' + first.content | trim }}{% endif %}{{- '<|eot_id|>' }}
{%- for m in messages if m.role != 'system' %}
{%- if m.tool_calls %}
{%- if m.tool_calls | length != 1 %}{{- raise_exception('one call at a time') }}{% endif %}
{%- set f = m.tool_calls[0].function %}
{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n{"name": "' + f.name + '", "parameters": ' }}
{{- f.arguments | tojson }}{{- '}<|eot_id|>' }}
{%- else %}
{{- '<|start_header_id|>' + ('ipython' if m.role == 'tool' else m.role) + '<|end_header_id|>\\n\\n' }}
{{- m.content | trim + '<|eot_id|>' }}
{%- endif %}{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"""

GEMMA = """{{ bos_token }}{%- if messages[0].role == 'system' %}{%- set prefix = messages[0].content + '\\n\\n' %}
{%- set rest = messages[1:] %}{%- else %}{%- set prefix = '' %}{%- set rest = messages %}{%- endif %}
{%- for m in rest %}
{%- if (m.role == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('user and model take turns') }}{% endif %}
{{- '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role) + '\\n' + (prefix if loop.first else '') }}
{{- m.content | trim + '<end_of_turn>\\n' }}
{%- endfor %}
{%- if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"""

MISTRAL = """{{- bos_token }}{%- set last = messages | selectattr('role', 'equalto', 'user') | list | last %}
{%- for m in messages %}
{%- if m.role == 'user' %}
{%- if tools and m == last %}{{- '[AVAILABLE_TOOLS] ' + tools | tojson + '[/AVAILABLE_TOOLS]' }}{% endif %}
{{- '[INST] ' + m.content + '[/INST]' }}
{%- elif m.tool_calls %}
{{- '[TOOL_CALLS] ' + m.tool_calls | map(attribute='function') | list | tojson + '</s>' }}
{%- elif m.role == 'assistant' %}{{- ' ' + m.content + '</s>' }}
{%- elif m.role == 'tool' %}{{- '[TOOL_RESULTS] ' + m.content + '[/TOOL_RESULTS]' }}
{%- endif %}{%- endfor %}"""

GRANITE = """{%- macro part(role, text) %}
{{- '<|start_of_role|>' + role + '<|end_of_role|>' + text + '<|end_of_text|>\\n' }}{% endmacro %}
{%- if messages[0].role != 'system' %}{{- part('system', 'You help.') }}{% endif %}
{%- for m in messages %}
{%- if m.tool_calls %}
{{- '<|start_of_role|>assistant<|end_of_role|>' + m.content }}
{{- '<|tool_call|>' + m.tool_calls | map(attribute='function') | list | tojson + '<|end_of_text|>\\n' }}
{%- elif m.role == 'tool' %}{{- part('tool_response', m.content) }}
{%- else %}{{- part(m.role, m.content) }}{% endif %}
{%- if loop.first and tools %}{{- part('available_tools', tools | tojson) }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start_of_role|>assistant<|end_of_role|>' }}{% endif %}"""

PHI = """{%- for m in messages %}{{ '<|' + m.role + '|>\\n' + m.content + '<|end|>\\n' }}{% endfor %}
{%- if add_generation_prompt %}{{ '<|assistant|>\\n' }}{% else %}{{ eos_token }}{% endif %}"""

HARMONY = """{{- '<|start|>system<|message|>Reasoning: low<|end|>' }}
{%- for m in messages %}
{%- if m.role == 'assistant' %}{{- '<|start|>assistant<|channel|>final<|message|>' + m.content }}
{{- '<|return|>' if loop.last and not add_generation_prompt else '<|end|>' }}
{%- else %}{{- '<|start|>' + m.role + '<|message|>' + m.content + '<|end|>' }}{% endif %}
{%- endfor %}
{%- if add_generation_prompt %}{{- '<|start|>assistant' }}{% endif %}"""

TOOLS = "[TOOL_CALLS] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
FAMILIES = {  # the template, what ends a text, the other control tokens, and what begins a text
    "llama": (LLAMA, "<|end_of_text|>", "<|eot_id|> <|start_header_id|> <|end_header_id|>", "<|begin_of_text|>"),
    "gemma": (GEMMA, "<eos>", "<start_of_turn> <end_of_turn>", "<bos>"),
    "mistral": (MISTRAL, "</s>", f"[INST] [/INST] {TOOLS}", "<s>"),
    "granite": (GRANITE, "<|end_of_text|>", "<|start_of_role|> <|end_of_role|> <|tool_call|>", None),
    "phi": (PHI, "<|endoftext|>", "<|end|> <|user|> <|assistant|> <|system|> <|tool|>", None),
    "harmony": (HARMONY, "<|return|>", "<|start|> <|message|> <|channel|> <|end|>", None),
    "base": (None, "<|endoftext|>", "", None),
}


def family_tokenizer(name: str, texts: Iterable[str]) -> Any:
    """A tokenizer as a family has it, with a vocabulary of these texts. Mistral's splits text as SentencePiece does."""
    template, end, others, begin = FAMILIES[name]
    tokenizer, alphabet = Tokenizer(models.BPE()), list[str]()
    if name == "mistral":
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        spaces, start = decoders.Replace("▁", " "), decoders.Strip(" ", 1, 0)
        tokenizer.decoder = decoders.Sequence([spaces, decoders.ByteFallback(), decoders.Fuse(), start])
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
        tokenizer.decoder = decoders.ByteLevel()
        alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    special = [end, *others.split(), *([begin] if begin else [])]
    tokenizer.train_from_iterator(
        texts, trainers.BpeTrainer(vocab_size=900, special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    if name == "mistral":
        tokenizer = _with_bytes(tokenizer)
    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        eos_token=end,
        bos_token=begin,
        clean_up_tokenization_spaces=False,
        additional_special_tokens=others.split(),
    )
    fast.chat_template = template
    return fast


def _with_bytes(tokenizer: Tokenizer) -> Tokenizer:
    """The tokenizer with a token for each byte, which no other token has."""
    data = json.loads(tokenizer.to_str())
    vocabulary = data["model"]["vocab"]
    vocabulary |= {f"<0x{byte:02X}>": len(vocabulary) + byte for byte in range(256)}
    data["model"]["byte_fallback"] = True
    return Tokenizer.from_str(json.dumps(data))
