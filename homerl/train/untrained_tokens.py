"""Tokens that a vocabulary names and no training ever saw, such as `<tool_call>` of Qwen2.5-Coder.

The embedding of such a token is, but for rounding, that of ids that no token has, and of thousands of rare tokens. So their
logits are alike whatever the layers do, and an adapter on the layers hardly learns to write it: Qwen2.5-Coder-0.5B loses 8
nats at each mark of a call, and any rare token is sampled there. In ordinary tokens (`<`, `tool`, `_call`, `>`) it is learnt
at once.

Invariants: control tokens (`special`) and trained ones stay. A few kB of the weights are read.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import torch
from safetensors import SafetensorError, safe_open
from transformers import PreTrainedTokenizerBase

# The output embedding; or, where input and output are one, the embedding by the names of several families
OUTPUTS = ("lm_head.weight", "embed_tokens.weight", "wte.weight", "embed_in.weight")
RENAMED = "<|untrained_{}|>"  # by their id
EQUAL = 0.999  # cosine; a trained token of Qwen2.5 has at most 0.95 with one that is not


def write_untrained_tokens_as_text(tokenizer: PreTrainedTokenizerBase, weights: Sequence[Path]) -> None:
    """Rename the untrained tokens of a model in its tokenizer, which writes their text in ordinary tokens from then on.

    Args:
        tokenizer: The model's tokenizer, which is changed.
        weights: The model's files of weights. If there are none, nothing is changed.
    """
    from tokenizers import Tokenizer

    added = {token.content: id for id, token in tokenizer.added_tokens_decoder.items() if not token.special}
    if not added or not tokenizer.is_fast:
        return
    unused = 1 + max(tokenizer.get_vocab().values())
    try:
        rows = read_output_rows(weights, [unused, *added.values()])
    except SafetensorError:
        return  # who loads the weights says what is wrong with the file
    if rows is None:
        return
    alike = torch.cosine_similarity(rows[1:], rows[:1]) > EQUAL
    names = {token: RENAMED.format(id) for (token, id), equal in zip(added.items(), alike.tolist()) if equal}
    if not names:
        return
    state = json.loads(tokenizer.backend_tokenizer.to_str())
    for entry in state["added_tokens"]:  # renamed, and not taken out: else later tokens would get other ids
        entry["content"] = names.get(entry["content"], entry["content"])
    vocabulary = state["model"]["vocab"]
    vocabulary |= {names[token]: vocabulary.pop(token) for token in names.keys() & vocabulary.keys()}
    tokenizer._tokenizer = Tokenizer.from_str(json.dumps(state))


def read_output_rows(weights: Sequence[Path], ids: Sequence[int]) -> torch.Tensor | None:
    """Rows of a model's output embedding, of shape (ids, size), in float32. None if no file has it, or it lacks one."""
    for ending in OUTPUTS:
        for file in weights:
            with safe_open(file, "pt") as tensors:
                names: list[str] = tensors.keys()
                name = next((name for name in names if name.endswith(ending)), None)
                if name is None:
                    continue
                rows = tensors.get_slice(name)
                return torch.cat([rows[id : id + 1] for id in ids]).float() if max(ids) < rows.get_shape()[0] else None
    return None
