"""The model in training (or under test) as an agent, with its token ledger.

Invariants: ids go in and ids come out, nothing sampled is ever tokenised again; every sampled token keeps its
id, log-probability and policy version; everything else in a ledger is masked; a ledger ends with the end-of-turn
id (added and masked where a sample was cut at its limit). One `PolicyAgent` plays one episode; they share an engine.
Importing this brings no torch: recipes are read with engines that build on it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from envs.messages import Message
from homerl.play.faults import AgentFault
from homerl.play.messages import IM_END, IM_START, parse_reply
from homerl.play.observation import Observation
from homerl.play.situation import Reply

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Sample:
    """Sampled ids and the log-probability of each under the sampler."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int = 0


class Engine(Protocol):
    """Samples one continuation of token ids."""

    async def sample(self, prompt: Sequence[int]) -> Sample: ...


@dataclass
class TokenLedger:
    """One episode as tokens. `spans` are the sampled ranges of `ids`, one a step; the first `shared` of them are
    another episode's, from which this one was forked, and part of the prompt."""

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    prompt_length: int = 0
    shared: int = 0

    def fork(self) -> TokenLedger:
        """A ledger that goes on from here; what is in it so far is masked, since it is trained on where it was sampled."""
        size = len(self.ids)
        return TokenLedger(self.ids.copy(), [0.0] * size, [0] * size, [-1] * size, self.spans.copy(), size, len(self.spans))

    def read(self, ids: Sequence[int]) -> None:
        """Add context: environment and user tokens, masked."""
        self._extend(ids, [0.0] * len(ids), 0, -1)
        if len(self.spans) == self.shared:
            self.prompt_length = len(self.ids)

    def wrote(self, sample: Sample, end: int) -> None:
        """Add a sample; one that was cut gets a masked end-of-turn id."""
        start = len(self.ids)
        self._extend(sample.ids, sample.logprobs, 1, sample.version)
        self.spans.append((start, len(self.ids)))
        if not sample.ids or sample.ids[-1] != end:
            self._extend([end], [0.0], 0, -1)

    def settle(self, end: int) -> None:
        """An episode that ended before anything was sampled still has a prompt and a completion, all masked."""
        if len(self.spans) == self.shared:
            self.read([end])
            self._extend([end], [0.0], 0, -1)

    def _extend(self, ids: Sequence[int], logprobs: Sequence[float], mask: int, version: int) -> None:
        self.ids += ids
        self.logprobs += logprobs
        self.mask += [mask] * len(ids)
        self.versions += [version] * len(ids)


class PolicyAgent:
    """Plays one episode through an engine, token in, token out."""

    name = "policy"

    def __init__(self, engine: Engine, tokenizer: Any, max_tokens: int = 1 << 20) -> None:
        self.engine, self.tokenizer, self.max_tokens = engine, tokenizer, max_tokens
        self.ledger = TokenLedger()
        self._read = 0

    def fork(self, engine: Engine) -> PolicyAgent:
        """An agent that knows the dialogue up to here."""
        twin = PolicyAgent(engine, self.tokenizer, self.max_tokens)
        twin.ledger, twin._read = self.ledger.fork(), self._read
        return twin

    async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
        if n != 1:
            raise ValueError("a policy agent plays one line; use one agent a branch")
        new = observation.messages[self._read :]
        text = render_new(self.tokenizer, new, observation.tools, first=self._read == 0)
        ids = self.tokenizer.encode(text, add_special_tokens=False)
        if self.ledger.spans and len(self.ledger.ids) + len(ids) >= self.max_tokens:
            raise AgentFault(f"the dialogue has reached {self.max_tokens} tokens")
        self.ledger.read(ids)
        sample = await self.engine.sample(self.ledger.ids)
        self.ledger.wrote(sample, self.tokenizer.eos_token_id)
        self._read = len(observation.messages) + 1  # what follows includes the reply itself, which the ledger has
        ids = [token for token in sample.ids if token != self.tokenizer.eos_token_id]
        message, malformed = parse_reply(self.tokenizer.decode(ids, skip_special_tokens=False))
        return [Reply(message, malformed, len(sample.ids), self._count)]

    def _count(self, code: str) -> int:
        return len(self.tokenizer.encode(code, add_special_tokens=False))


def render_new(tokenizer: Any, new: Sequence[Message], tools: Sequence[Any], first: bool) -> str:
    """The text that messages add to a dialogue, up to where the assistant is to write.

    Later than the first time it begins right after the assistant's `<|im_end|>`: the template renders every
    message from itself and its neighbours alone, so a stand-in for the assistant's last message will do.
    """
    if first:
        return tokenizer.apply_chat_template(list(new), tools=list(tools), tokenize=False, add_generation_prompt=True)
    stand_in = [{"role": "assistant", "content": ""}, *new]
    text = tokenizer.apply_chat_template(stand_in, tokenize=False, add_generation_prompt=True)
    head = f"{IM_START}assistant\n{IM_END}"
    if not text.startswith(head):
        raise ValueError("the chat template is not homerl's training template; load the tokenizer with load_tokenizer")
    return text[len(head) :]


class TransformersEngine:
    """Samples with transformers' `generate`, batching whatever is waiting.

    Requests that become ready in the same turn of the event loop share a batch; nobody waits for a slow user.
    """

    def __init__(
        self, model: Any, tokenizer: Any, max_tokens: int, temperature: float = 1.0, batch: int = 64, version: int = 0
    ) -> None:
        self.model, self.tokenizer = model, tokenizer
        self.max_tokens, self.temperature, self.batch, self.version = max_tokens, temperature, batch, version
        self._waiting: list[tuple[Sequence[int], asyncio.Future]] = []

    async def sample(self, prompt: Sequence[int]) -> Sample:
        loop = asyncio.get_running_loop()
        future: asyncio.Future = loop.create_future()
        self._waiting.append((tuple(prompt), future))
        if len(self._waiting) == 1:
            loop.call_soon(self._flush)
        return await future

    def _flush(self) -> None:
        waiting, self._waiting = self._waiting, []
        waiting.sort(key=lambda pair: len(pair[0]))
        for start in range(0, len(waiting), self.batch):
            part = waiting[start : start + self.batch]
            try:
                samples = self._generate([prompt for prompt, _ in part])
            except Exception as error:  # handed to those who wait, or they would wait for ever
                for _, future in part:
                    if not future.cancelled():
                        future.set_exception(error)
                continue
            for (_, future), sample in zip(part, samples, strict=True):
                if not future.cancelled():
                    future.set_result(sample)

    def _generate(self, prompts: list[Sequence[int]]) -> list[Sample]:
        import torch

        ids, attention = left_pad(prompts, self.tokenizer.pad_token_id, self.model.device)
        scores = _TokenScores(self.temperature or 1.0)
        sampling = {"do_sample": True, "temperature": self.temperature, "top_p": 1.0, "top_k": 0}
        with torch.no_grad(), plain_sampling(self.model):
            output = self.model.generate(
                input_ids=ids,
                attention_mask=attention,
                max_new_tokens=self.max_tokens,
                eos_token_id=self.tokenizer.eos_token_id,
                pad_token_id=self.tokenizer.pad_token_id,
                logits_processor=[scores],
                use_cache=True,
                synced_gpus=False,  # the model is whole, and each rank samples as much as it needs; ZeRO-3 implies otherwise
                **(sampling if self.temperature > 0 else {"do_sample": False}),
            )
        new = output[:, ids.shape[1] :]
        logprobs = scores.of(output, new.shape[1])
        return [self._sample(row, row_logprobs) for row, row_logprobs in zip(new.tolist(), logprobs.tolist(), strict=True)]

    def _sample(self, ids: list[int], logprobs: list[float]) -> Sample:
        end = self.tokenizer.eos_token_id
        length = ids.index(end) + 1 if end in ids else len(ids)
        return Sample(tuple(ids[:length]), tuple(logprobs[:length]), self.version)


@contextmanager
def plain_sampling(model: Any) -> Iterator[None]:
    """Evaluation mode, and nothing of the model's own generation config (penalties, cut-offs), which no loss knows."""
    from transformers import GenerationConfig

    was_training, own = model.training, model.generation_config
    model.eval()
    model.generation_config = GenerationConfig()
    try:
        yield
    finally:
        model.train(was_training)
        model.generation_config = own


class _TokenScores:
    """A logits processor that keeps each sampled token's log-probability, and one step of logits at most.

    Its turn comes before temperature is applied, so it applies it too.
    """

    def __init__(self, temperature: float) -> None:
        self.temperature = temperature
        self.last: torch.Tensor | None = None
        self.kept: list[torch.Tensor] = []

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        import torch

        self._settle(input_ids)
        self.last = torch.log_softmax(scores.float() / self.temperature, dim=-1)
        return scores

    def _settle(self, input_ids: torch.Tensor) -> None:
        if self.last is not None:
            self.kept.append(self.last.gather(1, input_ids[:, -1:]))

    def of(self, output: torch.Tensor, length: int) -> torch.Tensor:
        """(batch, length) log-probabilities of the new tokens."""
        import torch

        self._settle(output)
        return torch.cat(self.kept, dim=1)[:, :length]


def left_pad(rows: Sequence[Sequence[int]], pad: int, device: Any) -> tuple[torch.Tensor, torch.Tensor]:
    """(ids, attention) of shape (batch, longest), padded on the left."""
    import torch

    longest = max(map(len, rows))
    ids = torch.tensor([[pad] * (longest - len(row)) + list(row) for row in rows], device=device)
    attention = torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows], device=device)
    return ids, attention
