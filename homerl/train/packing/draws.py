"""What a model draws at random in training beside the recipe's own dropout: its configuration's dropout, and its router.

RLVE switches it off, for its log-probabilities are compared with those that the policy sampled with, where nothing is drawn.
No list of settings could tell what a model draws (PhiMoE's router draws experts whatever its configuration says), so the
model computes as in evaluation.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from torch.nn import Module
from transformers.modeling_layers import GradientCheckpointingLayer

DRAWS = re.compile(r"drop|jitter")  # in a name; for messages alone


def train_without_draws(model: Module) -> None:
    """Switch a model to training in which nothing is drawn at random, but by the dropout of its adapter.

    Its layers compute as in evaluation. transformers asks a layer's `training` also for whether its activations are
    computed again in the backward pass, so it is true until the layer computes.
    """
    from peft.tuners.lora import LoraLayer

    model.eval()
    for part in model.modules():
        if isinstance(part, LoraLayer):
            part.lora_dropout.train()
        if isinstance(part, GradientCheckpointingLayer):
            part.training = True
            if _begin_layer not in part._forward_pre_hooks.values():
                part.register_forward_pre_hook(_begin_layer)
                part.register_forward_hook(_end_layer, always_call=True)


def _begin_layer(layer: Module, inputs: Any) -> None:
    layer.asked_for_training, layer.training = layer.training, False


def _end_layer(layer: Module, inputs: Any, output: Any) -> None:
    layer.training = bool(layer.asked_for_training)


def list_random_settings(config: Mapping[str, Any]) -> list[str]:
    """The settings of a configuration by which a model draws at random in training, such as `attention_dropout: 0.1`."""
    text = config.get("text_config") or config
    return [
        f"{name}: {value:g}" for name, value in text.items() if DRAWS.search(name) and isinstance(value, float) and value > 0
    ]
