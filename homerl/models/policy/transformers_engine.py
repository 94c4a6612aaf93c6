"""Sampling with transformers' `generate`: token ids in and out, with the log-probability of each sampled one.

Invariants:
- Equal prompts, weights and random state give equal samples.
- A batch keeps to its limits of prompts and tokens.
- No request is lost if memory runs out.
- Importing this module imports no torch, since recipes are checked with engines that build on it.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from homerl.models.policy.faster_decoding import (
    CachedDialogue,
    DialogueCache,
    can_cache_dialogues,
    count_shared_tokens,
    cut_cache_row,
    grouped_attention,
    join_caches,
    prefill_caches,
)
from homerl.models.policy.policy_agent import Sample
from homerl.play.ordered_async_work import call_when_settled, place_of_task, take_next_place

if TYPE_CHECKING:
    import torch


# Errors of memory that accelerate does not know (`is_out_of_memory`)
UNKNOWN = ("CUDA error: out of memory", "Triton Error [CUDA]: out of memory", "CUBLAS_STATUS_ALLOC_FAILED")


def is_out_of_memory(error: BaseException) -> bool:
    """Whether memory lacks, also while a layer is compiled: torch quotes that error in its own.

    accelerate's `should_reduce_batch_size` does not know the errors of the CUDA driver, of Triton when it loads a kernel,
    and of cuBLAS. Versions: accelerate 1.10 to 1.15. Upstream: no upstream issue known. To reproduce:
    `should_reduce_batch_size(RuntimeError("CUDA error: out of memory"))`.
    """
    from accelerate.utils.memory import should_reduce_batch_size

    unknown = isinstance(error, RuntimeError) and any(said in str(error) for said in UNKNOWN)
    return unknown or should_reduce_batch_size(error)


logger = logging.getLogger(__name__)
CACHE_SHARE = 0.25  # of a device's memory, for the cache of sampling
COLDEST = 1e-4  # temperature; at a lower one, which is as good as greedy, logits leave the range of their numbers
WORTH_A_PASS = 64  # tokens that several prompts begin with: fewer are read with each of them
FEW = 8  # rows of a batch: a pass over so many takes about as long as one over a single row


class TransformersEngine:
    """Samples with transformers' `generate`, in batches of the waiting requests.

    Requests made until the event loop is settled share a batch; none waits for a slow user. It is settled when no code of an
    agent runs beside it, so batches do not depend on the clock. A batch has at most `batch` prompts and, with their samples,
    at most `tokens` tokens (None: what fits into a share of the device's memory). If memory runs out, both
    limits of tokens are halved, and the same prompts are sampled again with the same random numbers.
    On a CPU it holds the keys and values of dialogues until `forget_dialogues` is called. Call that when the weights have
    changed.
    """

    prefill: int = 16_384  # most tokens of one forward pass over prompts

    def __init__(
        self,
        model: Any,
        tokenizer: Any,
        max_tokens: int,
        temperature: float = 1.0,
        batch: int = 64,
        version: int = 0,
        tokens: int | None = None,
        held: DialogueCache | None = None,
    ) -> None:
        """`held` is the cache of another engine that samples from the same model."""
        self.model, self.tokenizer, self.tokens = model, tokenizer, tokens
        self.max_tokens, self.batch, self.version = max_tokens, batch, version
        self.temperature = temperature if temperature >= COLDEST else 0.0
        self.stopped: Callable[[], bool] = lambda: False  # looked at after each token: whether anybody still waits
        self._waiting: list[tuple[tuple[int, int, int], Sequence[int], asyncio.Future[Sample]]] = []
        self.held = DialogueCache(2 * batch) if held is None else held

    def forget_dialogues(self) -> None:
        """Drop the keys and values that are held of dialogues."""
        self.held.clear()

    @property
    def context_length(self) -> int | None:
        """The most tokens that the model takes, as far as its configuration says."""
        found: int | None = getattr(self.model.config.get_text_config(), "max_position_embeddings", None)
        return found

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample in the next batch."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Sample] = loop.create_future()
        self._waiting.append((place_of_task(), tuple(prompt), future))
        if len(self._waiting) == 1:
            call_when_settled(self._sample_waiting)
        sample: Sample = await future
        take_next_place()
        return sample

    def _sample_waiting(self) -> None:
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda one: (len(one[1]), one[0]))
        while waiting:
            if self.tokens is None:
                self.tokens = fitting_tokens(self.model)
            lengths = [len(prompt) for _, prompt, _ in waiting[: self.batch]]  # in ascending order
            fits = [i for i, length in enumerate(lengths, 1) if i * (length + self.max_tokens) <= self.tokens]
            size = fits[-1] if fits else 1
            part = waiting[:size]
            try:
                answers: Sequence[Sample | Exception] | None = self._generate_or_shrink([prompt for _, prompt, _ in part])
            except Exception as error:  # passed to the waiting requests, which would wait for ever otherwise
                answers = [error] * size
            if answers is None:
                continue
            for (*_, future), answer in zip(part, answers, strict=True):
                if future.cancelled():
                    continue
                if isinstance(answer, Exception):
                    future.set_exception(answer)
                else:
                    future.set_result(answer)
            waiting = waiting[size:]

    def _generate_or_shrink(self, prompts: list[Sequence[int]]) -> list[Sample] | None:
        """The samples, or None if memory ran out, and less is to be sampled at a time from now on."""
        from accelerate.utils.memory import clear_device_cache

        count, longest = len(prompts), len(prompts[-1])
        restore = random_state_restorer(self.model.device)
        try:
            return self._generate(prompts)
        except RuntimeError as error:
            if not is_out_of_memory(error) or (count == 1 and self.prefill == 1):
                raise
        restore()  # out of the handler, whose traceback holds what was allocated
        self.forget_dialogues()
        clear_device_cache(garbage_collection=True)
        self.tokens = count * (longest + self.max_tokens) // 2
        self.prefill = max(1, min(self.prefill, count * longest) // 2)
        what = (
            "sampling ran out of memory on %d prompts of up to %d tokens: it goes on with at most %d tokens at a time, "
            "samples included (rlve.engine.tokens), %d of them in one pass over prompts"
        )
        logger.warning(what, count, longest, self.tokens, self.prefill)
        return None

    def _generate(self, prompts: list[Sequence[int]]) -> list[Sample]:
        """Sample a batch, in pieces: where keys and values are held, rows that have ended leave the batch."""
        import torch

        ids, attention = left_pad(prompts, self.tokenizer.pad_token_id, self.model.device)
        going, samples = list(range(len(prompts))), [Sample((), (), self.version)] * len(prompts)
        longest, end = len(prompts[-1]), self.tokenizer.eos_token_id
        with torch.no_grad(), plain_sampling(self.model), grouped_attention(self.model):
            cache, begun = self._read_prompts(prompts)
            while going:
                output, logprobs = self._generate_piece(ids, attention, longest + self.max_tokens - ids.shape[1], cache)
                for row, new, some in zip(going, output[:, ids.shape[1] :].tolist(), logprobs.tolist(), strict=True):
                    length = new.index(end) + 1 if end in new else len(new)
                    longer = (*samples[row].ids, *new[:length]), (*samples[row].logprobs, *some[:length])
                    samples[row] = Sample(*longer, self.version)
                over = cache is None or self.stopped() or output.shape[1] == longest + self.max_tokens
                left = [at for at, row in enumerate(going) if not (over or samples[row].ids[-1] == end)]
                for at, row in enumerate(going):
                    if at not in left and cache is not None:
                        # Of the last token the model has made no keys yet.
                        prompt, made = tuple(prompts[row]), samples[row].ids[:-1]
                        held = cut_cache_row(cache, at, (*prompt, *made), longest + len(made))
                        self.held.keep_dialogue(held, begun[prompt], self._held_tokens)
                going, ids = [going[at] for at in left], output[left]
                # The mask grows with the rows: (rows, columns before) becomes (rows, columns of `ids`).
                attention = torch.nn.functional.pad(attention[left], (0, ids.shape[1] - attention.shape[1]), value=1)
                if going:
                    cache.batch_select_indices(torch.tensor(left))
        return samples

    def _generate_piece(
        self, ids: torch.Tensor, attention: torch.Tensor, room: int, cache: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Sample at most `room` tokens after each row of ids. With a cache, more than `FEW` rows are sampled until half of
        them have ended. Returns the longer rows, and (rows, new) log-probabilities.
        """
        scores = _TokenScores(self.temperature or 1.0)
        sampling = {"do_sample": True, "temperature": self.temperature, "top_p": 1.0, "top_k": 0}
        chunk, end = max(1, self.prefill // len(ids)), self.tokenizer.eos_token_id
        most = len(ids) if cache is None or len(ids) <= FEW else len(ids) // 2
        output = self.model.generate(
            input_ids=ids,
            attention_mask=attention,
            max_new_tokens=room,
            eos_token_id=end,
            pad_token_id=self.tokenizer.pad_token_id,
            logits_processor=[scores],
            stopping_criteria=[_StopCriterion(self.stopped, end, most)],
            use_cache=True,
            past_key_values=cache,
            synced_gpus=False,  # the model is complete, and ranks sample independently
            prefill_chunk_size=chunk if cache is None and chunk < ids.shape[1] else None,
            **(sampling if self.temperature > 0 else {"do_sample": False}),
        )
        return output, scores.logprobs_of(output, output.shape[1] - ids.shape[1])

    def _read_prompts(self, prompts: Sequence[Sequence[int]]) -> tuple[Any, dict[tuple[int, ...], CachedDialogue | None]]:
        """A cache of the prompts but for their last tokens, and what was held of each. None if nothing is held: of some
        models, and of batches that take much of the memory, since to hold them takes up to four times as much.
        """
        if len(prompts) * (len(prompts[-1]) + self.max_tokens) > self._held_tokens or not can_cache_dialogues(self.model):
            return None, {}
        end, pad = self.tokenizer.eos_token_id, self.tokenizer.pad_token_id
        different = list(dict.fromkeys(map(tuple, prompts)))
        begun = self._begin_prompts(different, end, pad)
        rows = dict(zip(different, prefill_caches(self.model, different, list(begun.values()), pad, self.prefill)))
        cache = join_caches(self.model, [rows[tuple(prompt)] for prompt in prompts], len(prompts[-1]) - 1, self.max_tokens)
        return cache, {prompt: one and CachedDialogue(one.ids, ()) for prompt, one in begun.items()}

    def _begin_prompts(
        self, prompts: Sequence[tuple[int, ...]], end: int, pad: int
    ) -> dict[tuple[int, ...], CachedDialogue | None]:
        """What is held of each prompt. With forks, what several of them begin with is read before, once."""
        begun = {prompt: self.held.find_prefix(prompt, end) for prompt in prompts}
        if not self.held.forks:
            return begun
        ordered, last = sorted(prompts), CachedDialogue((), ())  # neighbours share the longest beginnings
        for prompt, following in zip(ordered, [*ordered[1:], ()]):
            of_last = last.first_tokens(count_shared_tokens(last.ids, prompt[:-1]))
            last = max(begun[prompt] or of_last, of_last, key=len)
            shared = count_shared_tokens(prompt[:-1], following[:-1])
            if shared >= len(last) + WORTH_A_PASS:
                (last,) = prefill_caches(self.model, [prompt[: shared + 1]], [last], pad, self.prefill)
            begun[prompt] = last
        return begun

    @property
    def _held_tokens(self) -> int:
        """The most tokens of a batch that is held, and of all that is held."""
        return (self.tokens or fitting_tokens(self.model)) // 4


def fitting_tokens(model: Any) -> int:
    """The number of tokens whose cache takes `CACHE_SHARE` of the memory of the model's device.

    It is a share of all memory, not of what is free now, so that equal runs sample in equal batches.
    """
    import torch

    config = model.config.get_text_config()
    heads = getattr(config, "num_key_value_heads", None) or config.num_attention_heads
    size = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
    token: int = 2 * config.num_hidden_layers * heads * size * next(model.parameters()).element_size()
    if model.device.type == "cuda":
        memory = torch.cuda.get_device_properties(model.device).total_memory
    else:
        memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return int(CACHE_SHARE * memory) // token


def random_state_restorer(device: torch.device) -> Callable[[], None]:
    """A function that sets the random state of torch for a device back to what it is now."""
    import torch

    state, of_gpu = torch.get_rng_state(), torch.cuda.get_rng_state(device) if device.type == "cuda" else None

    def restore() -> None:
        torch.set_rng_state(state)
        if of_gpu is not None:
            torch.cuda.set_rng_state(of_gpu, device)

    return restore


@contextmanager
def plain_sampling(model: Any) -> Iterator[None]:
    """Evaluation mode without the model's own generation config: the loss does not know its penalties and cut-offs."""
    from transformers import GenerationConfig

    was_training, own = model.training, model.generation_config
    model.eval()
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.train(was_training)
        model.generation_config = own


class _StopCriterion:
    """A stopping criterion: of all rows, as soon as `most` of them have ended, or nobody waits any longer."""

    def __init__(self, stopped: Callable[[], bool], end: int, most: int) -> None:
        self.stopped, self.end, self.most = stopped, end, most
        self.ended: torch.Tensor | None = None

    def __call__(self, input_ids: torch.Tensor, scores: Any, **more: Any) -> torch.Tensor:
        import torch

        now = input_ids[:, -1] == self.end
        if self.most < len(now):  # else `generate` itself stops when all have ended
            self.ended = now if self.ended is None else self.ended | now
        enough = self.ended is not None and int(self.ended.sum()) >= self.most
        return torch.full_like(now, self.stopped() or enough)


class _TokenScores:
    """A logits processor that records the log-probability of each sampled token, and keeps the logits of one step at most.

    It runs before the temperature is applied, so it applies the temperature itself.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.last: torch.Tensor | None = None
        self.kept: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        self._keep_logprobs(input_ids)
        self.last = torch.log_softmax(scores.float() / self.temperature, dim=-1)
        return scores

    def _keep_logprobs(self, input_ids: torch.Tensor) -> None:
        if self.last is not None:
            self.kept.append(self.last.gather(1, input_ids[:, -1:]))

    def logprobs_of(self, output: torch.Tensor, length: int) -> torch.Tensor:
        """(batch, length) log-probabilities of the new tokens."""
        import torch

        self._keep_logprobs(output)
        return torch.cat(self.kept, dim=1)[:, :length]


def left_pad(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and attention mask of shape (batch, longest), padded on the left."""
    import torch

    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows], device=device)
    attention = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, attention
