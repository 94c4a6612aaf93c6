"""What packing saves on a recipe's rollouts: tokens forwarded, padding, and floating-point operations of an update.

The rollouts are the scripted expert's, with mistakes, in groups as the recipe says. The tokenizer is made from them, with
as many words as it finds, so that counts are near those of a real one. Floating-point operations are counted by torch on
the recipe's model without weights (device `meta`), so nothing is computed.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from peft import get_peft_model
from rich.console import Console
from rich.table import Table
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config, Qwen3ForCausalLM

from homerl.app.runs.recipe import load_recipe
from homerl.models.policy.chat_template import build_chat_template
from homerl.play.loop import play
from homerl.play.trajectory import Trajectory, trajectory_to_row
from homerl.train.memory_estimate import estimate_training_memory
from homerl.train.model_settings import DecoderSizes, estimate_decoder_sizes, make_lora_config
from homerl.train.packing.attention import attend_by_segment, use_packed_attention
from homerl.train.packing.packed_updates import TokenSequence, pack_row, split_into_passes
from homerl.train.packing.pass_budget import STEP, TokenBudget
from homerl.train.packing.prefix_tree import merge_sequences
from homerl.train.tiny_model import TinyConfig, make_tokenizer
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

RECIPES = ("rlve_full", "rlve_full_4b", "rlve_st", "rlve_8b_lora", "rlve_async", "simuhome_8b", "scratch_100m", "quickstart")
MISTAKES = 0.3  # so that the rollouts of a group differ
VOCAB = 32_768


def rollouts(recipe: Any, groups: int) -> list[list[Trajectory]]:
    """Groups of trajectories of the first blueprints."""
    source, found = recipe.blueprints.recipe, []
    for seed in range(recipe.blueprints.first_seed, recipe.blueprints.first_seed + groups):
        blueprint = make_blueprint_of_seed(source, "train", seed)
        world = world_of(blueprint)

        async def one(number: int, blueprint: Any = blueprint, world: Any = world) -> Trajectory:
            expert = world.expert(ExpertConfig(mistakes=MISTAKES), number)
            return await play(begin_episode(blueprint, recipe.limits), expert, ScriptedUser(number))

        found.append([asyncio.run(one(number)) for number in range(recipe.rlve.group)])
    return found


def tokenized(groups: Sequence[Sequence[Trajectory]], longest: int) -> list[list[TokenSequence]]:
    """The trajectories as tokens; the assistant's are the targets. Prompts show the tools' schemas."""
    rows = [[trajectory_to_row(one) for one in group] for group in groups]
    first = rows[0][0]
    texts = (message["content"] for group in rows for row in group for message in row["messages"])
    tokenizer = make_tokenizer(texts, json.loads(first["tools"]), TinyConfig(vocab_size=VOCAB))
    tokenizer.chat_template = build_chat_template()

    def tokens(row: dict[str, Any]) -> TokenSequence:
        found = tokenizer.apply_chat_template(
            row["messages"], tools=json.loads(row["tools"]), return_dict=True, return_assistant_tokens_mask=True
        )
        targets = np.flatnonzero(found["assistant_masks"])
        targets = targets[targets < longest] if targets[0] < longest else targets[:1]
        return TokenSequence.from_ids(found["input_ids"][: targets[-1] + 1], targets)

    answered = [[row for row in group if any(said["role"] == "assistant" for said in row["messages"])] for group in rows]
    return [[tokens(row) for row in group] for group in answered]


def counts(groups: Sequence[Sequence[TokenSequence]], budget: TokenBudget) -> dict[str, float]:
    """Tokens of an update: with a row for each rollout, each once, and as they are forwarded."""
    sequences = [one for group in groups for one in group]
    ids = [one.ids for one in sequences]
    rows, longest = sum(len(one) - 1 for one in ids), max(map(len, ids)) - 1
    passes, unique = split_into_passes(ids, budget)
    sizes = [len(merge_sequences([ids[i] for i in batch.members]).ids) for batch in passes]
    filled = sum(-size % STEP for size in sizes)  # as on a GPU
    prompts = [int(one.targets[0]) for one in sequences]
    forwarded = sum(sizes) + filled
    return {
        "prompt": float(np.mean(prompts)),
        "rollout": rows / len(ids),
        "padded": longest * len(ids) / forwarded,
        "rows": rows / forwarded,
        "unique": unique / forwarded,
        "padding": filled / forwarded,
        "passes": len(sizes),
    }


# Floating-point operations


def without_weights(shape: DecoderSizes, recipe: Any) -> Any:
    """The recipe's model on device `meta`, with its adapter."""
    config = Qwen3Config(
        vocab_size=shape.vocab,
        hidden_size=shape.hidden,
        intermediate_size=shape.intermediate,
        num_hidden_layers=shape.layers,
        num_attention_heads=shape.heads,
        num_key_value_heads=shape.kv_heads,
        head_dim=shape.head_dim,
        tie_word_embeddings=shape.tied,
        dtype="bfloat16",
    )
    with torch.device("meta"):
        model = Qwen3ForCausalLM(config).to(torch.bfloat16)
        return get_peft_model(model, make_lora_config(recipe.model, model)) if recipe.model.lora else model


def forward(model: Any, sequences: Sequence[TokenSequence]) -> torch.Tensor:
    """A loss of one row: the layers, then the head for its targets, whose logits are computed again in the backward pass.

    The fused head itself does not run on `meta`.
    """
    row = pack_row(sequences, attend_by_segment, "meta")
    inner = model.get_base_model() if hasattr(model, "get_base_model") else model
    inputs = {key: value for key, value in row.inputs.items() if key not in ("shift_labels", "fused_lm_head")}
    hidden = inner.model(**inputs, use_cache=False).last_hidden_state[0]
    places = merge_sequences([one.ids for one in sequences]).places
    scored = len(np.unique(np.concatenate([place[one.targets - 1] for one, place in zip(sequences, places, strict=True)])))
    return checkpoint(lambda some: inner.lm_head(some).logsumexp(-1), hidden[:scored], use_reentrant=False).sum()


def operations(model: Any, sequences: Sequence[TokenSequence], trains: bool, recomputes: bool = False) -> float:
    """The operations of a forward pass, and of its backward pass if it `trains`."""
    if recomputes:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()
    model.train()
    with FlopCounterMode(display=False) as counter, use_packed_attention(model.config), torch.set_grad_enabled(trains):
        result = forward(model, sequences)
        if trains:
            result.backward()
    return float(counter.get_total_flops())


def update(recipe: Any, groups: Sequence[Sequence[TokenSequence]], budget: TokenBudget) -> dict[str, float]:
    """Operations of an update: before packing, now, and the floor (each unique token forward once, backward twice)."""
    model = without_weights(estimate_decoder_sizes(recipe.model), recipe)
    sequences = [one for group in groups for one in group]
    reference = recipe.rlve.kl > 0
    before = sum(
        operations(model, [one], True, True) + (reference + (not recipe.rlve.exact)) * operations(model, [one], False)
        for one in sequences
    )
    ids, now = [one.ids for one in sequences], 0.0
    for batch in split_into_passes(ids, budget)[0]:
        now += operations(model, [sequences[i] for i in batch.members], True, batch.recomputed)
    for batch in split_into_passes(ids, budget.without_gradients())[0] if reference else ():
        now += operations(model, [sequences[i] for i in batch.members], False)
    floor = 3 * operations(model, sequences, False)
    return {"before": before, "now": now, "floor": floor}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("recipes", nargs="*", default=RECIPES)
    parser.add_argument("--groups", type=int, default=8, help="number of groups whose rollouts are counted")
    parser.add_argument("--operations", default="rlve_8b_lora", help="the recipe whose operations are counted; '' is none")
    parser.add_argument("--memory", type=float, default=80.0, help="GB of a GPU")
    asked = parser.parse_args()
    folder = Path(__file__).parents[2] / "recipes"
    load = partial(load_recipe, overrides=["--model.kernels", "liger"])  # counted with them, if they are installed here
    table = Table("recipe", "prompt", "rollout", "passes", "padded rows", "rows", "unique", "padding")
    flops = {}
    for name in asked.recipes:
        recipe = load(folder / f"{name}.yaml")
        groups = tokenized(rollouts(recipe, asked.groups), recipe.rlve.max_episode_tokens)
        budget = estimate_training_memory(recipe, memory=asked.memory, stage="rlve").pass_budget
        found = counts(groups, budget)
        table.add_row(
            name,
            f"{found['prompt']:.0f}",
            f"{found['rollout']:.0f}",
            f"{found['passes']}",
            f"{found['padded']:.2f}x",
            f"{found['rows']:.2f}x",
            f"{found['unique']:.3f}",
            f"{found['padding']:.2%}",
        )
        if name == asked.operations:
            flops = update(recipe, groups, budget)
    console = Console()
    console.print(table)
    if flops:
        each = ", ".join(f"{name} {value / 1e15:.3f} PFLOP ({value / flops['floor']:.2f}x)" for name, value in flops.items())
        console.print(f"{asked.operations}, an update of {asked.groups} groups: {each}")


if __name__ == "__main__":
    main()
