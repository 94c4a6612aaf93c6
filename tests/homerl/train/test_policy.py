"""The policy's head in float32, its adapter and the reference of the KL divergence."""

import copy
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator

from homerl.envs.core.documents import InputError
from homerl.train.model_settings import ModelSettings
from homerl.train.recipe import RLVESettings
from homerl.train.update.policy_and_reference import ReferenceModel, add_scoring_head, prepare_policy

IDS = torch.arange(3, 23)[None]


def recipe(lora: dict[str, Any] | None = None, **rlve: Any) -> Any:
    """As much of a recipe as is read."""
    model = ModelSettings.model_validate({"name": "m", "dtype": "bfloat16", "lora": lora})
    return SimpleNamespace(rlve=RLVESettings.model_validate(rlve), model=model, seed=0, parallel="none")


@pytest.fixture
def half(model) -> Any:
    """A fresh copy of the tiny model in half precision."""
    policy = copy.deepcopy(model).to(torch.bfloat16)
    for module in policy.modules():
        vars(module).pop("forward", None)  # another test's head
    return policy


def scored(policy: Any, tokens: int = 19) -> torch.Tensor:
    with torch.no_grad():
        found = policy(
            input_ids=IDS,
            shift_labels=IDS[:, 1:].new_full((1, 20), -100).index_copy(1, torch.arange(tokens), IDS[:, 1 : tokens + 1]),
            fused_lm_head=True,
        )
    return found.log_probs[0, :tokens].float()


def in_float32(policy: Any) -> torch.Tensor:
    """The logits of the model's last hidden states by its own weights, of shape (tokens, vocabulary)."""
    with torch.no_grad():
        hidden = policy.get_decoder()(input_ids=IDS).last_hidden_state[0]
    return hidden.float() @ policy.get_output_embeddings().weight.float().T


@pytest.mark.parametrize("head", ["model", "float32"])
def test_the_head_computes_in_the_number_format_that_the_recipe_names(half, tokenizer, head):
    """For training and for sampling alike; the weights stay as they are."""
    asked = recipe(head=head)
    policy = prepare_policy(half, asked, tokenizer)
    logits = in_float32(policy)
    expected = logits.log_softmax(-1)[:-1].gather(1, IDS[0, 1:, None])[:, 0]
    with torch.no_grad():
        sampling = copy.deepcopy(policy)(input_ids=IDS).logits[0]
    add_scoring_head(policy, asked.rlve, "entropy")
    exact = head == "float32"
    assert (sampling.dtype == torch.float32) == exact and torch.equal(sampling.float(), logits) == exact
    apart = (scored(policy) - expected).abs().max()
    assert apart < 1e-5 if exact else apart > 1e-3
    assert policy.get_output_embeddings().weight.dtype == torch.bfloat16


def test_a_copy_of_the_policy_has_a_head_of_its_own(half, tokenizer):
    policy = prepare_policy(half, recipe(head="float32"), tokenizer)
    twin = copy.deepcopy(policy)
    with torch.no_grad():
        before = twin(input_ids=IDS).logits
        policy.get_output_embeddings().weight.zero_()
        assert torch.equal(twin(input_ids=IDS).logits, before) and not policy(input_ids=IDS).logits.any()


@pytest.mark.parametrize("lora", [None, {"r": 4}])
def test_the_reference_stays_what_training_starts_from(half, tokenizer, lora):
    """A copy, or the policy without its adapter."""
    asked, accelerator = recipe(lora, kl=0.1), Accelerator(cpu=True)
    reference = ReferenceModel(asked, half)
    policy = prepare_policy(half, asked, tokenizer)
    add_scoring_head(policy, asked.rlve)
    reference.place_on_device(accelerator)
    start = scored(policy)
    with torch.no_grad():
        for weight in policy.parameters():
            weight.add_(0.05 * weight.requires_grad)
    assert not torch.equal(scored(policy), start)
    with reference.use_reference(policy, accelerator) as model:
        assert (model is policy) == (lora is not None) and torch.equal(scored(model), start)
    assert not torch.equal(scored(policy), start)
    assert ReferenceModel(recipe(lora, kl=0.0), half).model is None


def test_an_adapter_of_the_head_is_refused(half, tokenizer):
    """The fused head reads the head's own weights alone."""
    with pytest.raises(InputError, match=r"head would not be trained\nleave the head out"):
        prepare_policy(half, recipe({"target_modules": ["q_proj", "lm_head"]}), tokenizer)
