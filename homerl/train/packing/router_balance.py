"""The auxiliary loss of a mixture of experts, which keeps the load of its experts even.

Invariant: only a pass's own forward counts. What checkpointing computes again in the backward pass is taken by nobody.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.nn import Module
from transformers import PreTrainedModel
from transformers.models.mixtral.modeling_mixtral import load_balancing_loss_func
from transformers.utils.output_capturing import OutputRecorder

from homerl.envs.core.documents import InputError
from homerl.train.tensor_shapes import ScalarLoss

KEY = "sft.router_aux_loss"


class RouterBalance:
    """Hears what the routers of a model score, and computes the auxiliary loss of a pass from it.

    Args:
        model: a mixture of experts, also within an adapter.
        weight: the factor of the loss, as `router_aux_loss_coef` in the model's configuration.

    Raises:
        InputError: if transformers does not say which modules are the model's routers.
    """

    def __init__(self, model: Module, weight: float) -> None:
        self.weight, self._scores = weight, list[torch.Tensor]()
        inner = next((part for part in model.modules() if _find_recorder(part)), None)
        recorder = _find_recorder(inner)
        routers = [part for part in model.modules() if recorder and isinstance(part, recorder.target_class)]
        if not routers:
            what = "transformers does not say which layers of this model are routers of experts"
            raise InputError(what, KEY, "leave it out")
        self.experts_per_token = int(inner.config.get_text_config().num_experts_per_tok)  # type: ignore[union-attr]
        self._place = recorder.index if recorder else 0
        for router in routers:
            router.register_forward_hook(self._hear)

    def _hear(self, _: Module, given: Any, output: Any) -> None:
        if torch.is_grad_enabled():
            self._scores.append(output[self._place] if isinstance(output, tuple) else output)

    def forget(self) -> None:
        """Begin a pass."""
        self._scores.clear()

    def compute_loss(self) -> ScalarLoss:
        """The loss of the pass whose forward has just ended, times its weight. Without the weight it is `experts_per_token`
        where all experts have the same load, and more where not (Switch Transformer, eq. 4 to 6)."""
        scores = tuple(part.flatten(0, -2).float() for part in self._scores)
        return self.weight * load_balancing_loss_func(scores, scores[0].shape[-1], self.experts_per_token)


def _find_recorder(part: Module | None) -> OutputRecorder | None:
    """How transformers records the scores of the routers in this part of a model, if it is one that does."""
    known = getattr(part, "_can_record_outputs", None) if isinstance(part, PreTrainedModel) else None
    found = (known or {}).get("router_logits")
    return found if isinstance(found, OutputRecorder) else None  # JetMoE has two kinds of routers
