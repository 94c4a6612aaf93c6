"""Distillation on the policy's own tokens (`rlve.distill`): a teacher says how likely it finds what the policy sampled.

For each token that the policy π sampled, the gap

    d = log π_teacher(token | what comes before it) - log π(token | what comes before it)

is added to the token's advantage: A = v A_credit + w d, with v `reward` and w `weight`. The gap is a constant to the
gradient. So the expectation of d ∇ log π over the policy's samples is the negative gradient of KL(π ‖ π_teacher), the
reverse divergence, at each place that the policy itself comes to. Nothing is sampled from the teacher. This is on-policy
distillation (GKD, arXiv 2306.13649; MiniLLM, arXiv 2306.08543). Difference: a token is judged by its own gap alone.

A token that the teacher finds impossible has a gap of -15 nats or so, and few such tokens make most of the gradient's noise.
`bound` cuts gaps, in advantages alone: less noise, for a bias.

Invariants: teacher and policy read the same ids, so another tokenizer is refused by name; the teacher is never trained; a
rollout that does not count is not taught; a gap that cannot be told (NaN) is 0.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from transformers import PreTrainedTokenizerBase

from homerl.envs.core.documents import InputError
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.play.faults import InfraError, RequestRefused
from homerl.train.memory_estimate import count_recipe_model, longest_sequence, teacher_model_settings
from homerl.train.packing.packed_updates import PackedUpdates, TokenSequence
from homerl.train.recipe import DistillSettings, RLVERecipe
from homerl.train.training_setup import load_trainable_model, make_packed_updates
from homerl.train.update.objective import SampledTokens
from homerl.train.update.policy_and_reference import add_scoring_head, place_frozen_model
from homerl.train.watch.phase_deadlines import RunStalled

if TYPE_CHECKING:
    from openai.types.completion_choice import Logprobs

AT_ONCE = 64  # requests of a rank
PATIENCE = Patience(timeout=300.0, deadline=900.0, tries=4)
PROBED = 256  # ids whose words a server is asked for, besides the special ones
SAME_FAMILY = "choose a teacher of the policy's own family, with the same tokenizer"


def make_teacher(
    recipe: RLVERecipe, tokenizer: PreTrainedTokenizerBase, updates: PackedUpdates
) -> LocalTeacher | ServedTeacher | None:
    """The teacher of a recipe; None without `distill`. `tokenizer` and `updates` are the policy's.

    Its `score_targets` gives the log-probabilities of all targets, in the order of the sequences, of shape (targets,); NaN
    if unknown. All ranks ask together, each for its own, since a teacher's weights may be in shards.

    Raises `InputError` if the teacher has another tokenizer.
    """
    settings = recipe.rlve.distill
    if settings is None:
        return None
    if settings.url is not None:
        return ServedTeacher(settings.url, str(settings.model), tokenizer)
    return LocalTeacher(str(settings.model), recipe, tokenizer, updates)


class LocalTeacher:
    """A frozen model beside the policy, in the policy's number format and at the temperature of its samples."""

    def __init__(self, name: str, recipe: RLVERecipe, tokenizer: PreTrainedTokenizerBase, updates: PackedUpdates) -> None:
        refuse_other_tokenizer(name, tokenizer)
        model = load_trainable_model(recipe, name)
        model.eval().requires_grad_(False)
        add_scoring_head(model, recipe.rlve)
        larger = teacher_model_settings(recipe.model, name)  # than the policy, perhaps
        token = count_recipe_model(recipe, longest_sequence(recipe.rlve), larger).token
        assert updates.profiler is not None, "the policy's have one"
        budget = replace(updates.profiler.headroom, token=token).make_budget()
        self.passes = make_packed_updates(model, recipe, updates.accelerator, budget)
        self.model = place_frozen_model(model, updates.accelerator)

    def score_targets(self, sequences: Sequence[TokenSequence]) -> np.ndarray:
        """One pass without gradients over the sequences, packed as those of the policy."""
        return np.asarray(self.passes.score_sequences(self.model, sequences).cpu())


class ServedTeacher:
    """A model behind `/v1/completions`, asked with `echo` and `logprobs` for prompts of token ids, as vLLM answers them."""

    def __init__(self, url: str, model: str, tokenizer: PreTrainedTokenizerBase, patience: Patience = PATIENCE) -> None:
        self.url, self.endpoint = url, Endpoint([url], model, patience)
        asyncio.run(self._refuse_other_tokenizer(tokenizer))

    def score_targets(self, sequences: Sequence[TokenSequence]) -> np.ndarray:
        """One request for each sequence that has targets."""
        free = asyncio.Semaphore(AT_ONCE)

        async def score_sequence(sequence: TokenSequence) -> np.ndarray:
            if not len(sequence.targets):
                return np.zeros(0)
            async with free:
                found = (await self._echo_prompt(sequence.ids.tolist())).token_logprobs
            # the server answers with one token more, and has nothing to say of the first
            known = [math.nan if p is None else p for p in found[: len(sequence.ids)]]
            return np.array([known[target] for target in sequence.targets])

        async def score_concurrently() -> list[np.ndarray]:
            return await asyncio.gather(*map(score_sequence, sequences))

        return np.concatenate([np.zeros(0), *asyncio.run(score_concurrently())])

    async def _echo_prompt(self, ids: list[int]) -> Logprobs:
        """What the server says of each id of a prompt, and of one more token: `tokens` and `token_logprobs`."""
        more = {"return_token_ids": True, "return_tokens_as_token_ids": False}  # vLLM echoes ids only if it returns them
        try:
            answer = await self.endpoint.complete_tokens(
                ids, echo=True, logprobs=0, max_tokens=1, temperature=1.0, extra_body=more
            )
        except RequestRefused as error:
            remedy = "serve it with vLLM, as long a context as `max_episode_tokens`, and the policy's tokenizer"
            raise InputError(f"the teacher refuses what it is asked: {error}", "rlve.distill.url", remedy) from error
        except InfraError as error:
            raise RunStalled(f"the teacher at {self.url} gave no answer: {error}") from error
        found = answer.choices[0].logprobs
        if found is None or len(found.token_logprobs or ()) < len(ids) or len(found.tokens or ()) < len(ids):
            what, remedy = f"{self.url} gives no log-probabilities of a prompt", "serve the teacher with vLLM"
            raise InputError(what, "rlve.distill.url", remedy)
        return found

    async def _refuse_other_tokenizer(self, tokenizer: PreTrainedTokenizerBase) -> None:
        """Ask for the words of ids from all over the vocabulary, which must be the policy's."""
        known = sorted(tokenizer.get_vocab().values())
        ids = sorted({*known[:: max(1, len(known) // PROBED)], known[-1], *tokenizer.get_added_vocab().values()})
        for number, said in zip(ids, (await self._echo_prompt(ids)).tokens, strict=False):
            own = tokenizer.decode([number])
            if "\ufffd" not in own and said.strip() != own.strip():  # part of a character has no words
                what = f"{self.url} has another tokenizer than the policy: token {number} is {said!r}, not {own!r}"
                raise InputError(what, "rlve.distill.url", SAME_FAMILY)


def refuse_other_tokenizer(name: str, tokenizer: PreTrainedTokenizerBase) -> None:
    """Raise `InputError` if the tokenizer of a model does not give each token the id that the policy's does."""
    from transformers import AutoTokenizer

    own, other = tokenizer.get_vocab(), AutoTokenizer.from_pretrained(name).get_vocab()
    if differing := [word for word in sorted({*own, *other}) if own.get(word) != other.get(word)]:
        what = f"{name} has another tokenizer than the policy: {len(differing)} tokens differ, such as {differing[0]!r}"
        raise InputError(what, "rlve.distill.model", SAME_FAMILY)


def add_teacher_advantages(
    tokens: SampledTokens, valid: Sequence[bool], teacher: np.ndarray, policy: np.ndarray, settings: DistillSettings
) -> tuple[SampledTokens, np.ndarray]:
    """The tokens with the advantages that the teacher makes of them; and the sum of gaps and the number of tokens, (2,).

    `teacher` and `policy` are log-probabilities of the sampled tokens, (tokens,). `valid` tells which rollouts count.
    """
    taught = np.repeat(np.asarray(valid, dtype=bool), tokens.rollout_lengths) & np.isfinite(teacher) & np.isfinite(policy)
    gaps = np.where(taught, teacher - policy, 0.0)
    bound = settings.bound or math.inf
    # A = v A_credit + w d, as above
    advantages = settings.reward * tokens.advantages + settings.weight * np.clip(gaps, -bound, bound)
    return replace(tokens, advantages=advantages), np.array([gaps.sum(), taught.sum()])
