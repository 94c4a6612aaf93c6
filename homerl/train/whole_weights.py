"""Weights that are loaded whole or refused: what a file lacks would be random, and an adapter without a place does nothing.

Invariant: each weight of a model, and of an adapter, has come from its files. All that loads weights here asks this module.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from homerl.envs.core.documents import InputError

if TYPE_CHECKING:
    from peft import PeftModel
    from transformers import PreTrainedModel

TOLD = 3  # names in a message
OTHER_NAMES = "take another checkpoint, or save it with the names that the model has (a wrapper may have added `_orig_mod.`)"
OTHER_BASE = "train it again or give the base that it was trained on; a wrapper may have changed its names"


def load_whole_model(source: str, remedy: str = OTHER_NAMES, **options: Any) -> PreTrainedModel:
    """A causal language model of a folder or of the hub. `options` are those of `from_pretrained`.

    Raises `InputError`, with their names, if its files lack weights.
    """
    from transformers import AutoModelForCausalLM

    model, info = AutoModelForCausalLM.from_pretrained(source, output_loading_info=True, **options)
    if info["missing_keys"]:
        what = f"the model's files lack weights, which would be random: {name_few(info['missing_keys'])}"
        if info["unexpected_keys"]:
            what += f"; they have others, which the model does not know: {name_few(info['unexpected_keys'])}"
        raise InputError(what, source, remedy)
    loaded: PreTrainedModel = model
    return loaded


def load_adapter_on(base: PreTrainedModel, source: str, name: str = "default", **options: Any) -> PeftModel:
    """The model with an adapter, of which every weight has a place. `options` are those of `PeftModel.from_pretrained`.

    Raises `InputError`, with the names, if it does not fit.
    """
    from peft import PeftModel

    with warnings.catch_warnings():  # peft warns of missing weights, which are refused below
        warnings.filterwarnings("ignore", message="Found missing adapter keys")
        model = PeftModel.from_pretrained(base, source, name, **options)
    refuse_partial_adapter(model, source, name)
    return model


def refuse_partial_adapter(model: PeftModel, source: str, name: str) -> None:
    """Raise `InputError`, with the names, if weights of a loaded adapter have no place in the model, or places no weight."""
    found = model.load_adapter(source, name, autocast_adapter_dtype=False)  # once more: only this tells what it found
    told = (
        ("it has weights without a place in the base", found.unexpected_keys),
        ("it lacks weights", found.missing_keys),
    )
    if problems := [f"{what}: {name_few(names)}" for what, names in told if names]:
        raise InputError(f"the adapter does not fit its base: {'; '.join(problems)}", source, OTHER_BASE)


def name_few(names: Iterable[str]) -> str:
    """The first names, and how many there are more."""
    listed = sorted(names)
    more = f" and {len(listed) - TOLD} more" if len(listed) > TOLD else ""
    return ", ".join(listed[:TOLD]) + more
