"""A loaded model as an agent: the one in training with a ledger of its tokens, or one that homerl did not train.

Invariants:
- Token ids go in and token ids come out. Sampled tokens are never tokenised again.
- Every sampled token keeps its id, its log-probability and the version of the policy. All other tokens are masked, and
  sampled ones that are not to be learnt.
- A ledger ends with the end-of-turn id; it is added, and masked, if a sample was truncated at its limit.
- One `PolicyAgent` plays one episode. Agents share an engine.
- A model in training is always asked by homerl's template. Only benchmarks and evaluations ask a model by its own one.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, Literal, Protocol

from homerl.models.policy.chat_template import (
    encode_messages,
    encode_shielded,
    is_homerl_template,
    render_new_messages,
    render_shielded,
    with_argument_objects,
)
from homerl.play.faults import AgentFault, DialogueTooLong, InfraError
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import find_thoughts, parse_observed_reply

Thoughts = Literal["kept", "masked", "refused"]  # what becomes of a policy's thoughts in training
REFUSED = "thoughts are not allowed"
STRIDE = 64  # ids of a text that are decoded together


@dataclass(frozen=True)
class Sample:
    """Sampled token ids, the log-probability of each under the sampler, and the version of the sampler's weights."""

    ids: tuple[int, ...]
    logprobs: tuple[float, ...]
    version: int = 0


class Engine(Protocol):
    """Samples one continuation of token ids."""

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample until the end of turn, or the limit of tokens."""


@dataclass
class TokenLedger:
    """One episode as tokens.

    `spans` are the ranges of `ids` that were sampled, one for each step. The first `shared` of them are another
    agent's (the expert's prefix), or belong to the episode that this one was forked from, and are part of the prompt.
    `truncated` are those of the other spans that ended at the limit of tokens, without an end of turn, and `thoughts` is the
    number of the tokens sampled here that are thoughts.

    `steps` has the step of each span where a program samples several times for a step, or never. It is empty where spans and
    steps go together.
    """

    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    mask: list[int] = field(default_factory=list)
    versions: list[int] = field(default_factory=list)
    spans: list[tuple[int, int]] = field(default_factory=list)
    prompt_length: int = 0
    shared: int = 0
    truncated: list[tuple[int, int]] = field(default_factory=list)
    thoughts: int = 0
    steps: list[int] = field(default_factory=list)

    @property
    def span_steps(self) -> Sequence[int]:
        """The index of the step that each span belongs to."""
        return self.steps or range(len(self.spans))

    def fork(self) -> TokenLedger:
        """A ledger that continues from here. Its tokens so far are masked, since they are trained on in the original."""
        size = len(self.ids)
        return TokenLedger(self.ids.copy(), [0.0] * size, [0] * size, [-1] * size, self.spans.copy(), size, len(self.spans))

    def add_context(self, ids: Sequence[int]) -> None:
        """Add context tokens of the environment or the user, masked."""
        self._extend(ids, [0.0] * len(ids), 0, -1)
        if len(self.spans) == self.shared:
            self.prompt_length = len(self.ids)

    def add_sample(self, sample: Sample, end: int, unlearnt: Sequence[range] = ()) -> None:
        """Add a sample, masked at its places `unlearnt`. If it was truncated, a masked end-of-turn id follows."""
        start = len(self.ids)
        self._extend(sample.ids, sample.logprobs, 1, sample.version)
        for at in chain.from_iterable(unlearnt):
            self.mask[start + at] = 0
        self.spans.append((start, len(self.ids)))
        if not sample.ids or sample.ids[-1] != end:
            self.truncated.append(self.spans[-1])
            self._extend([end], [0.0], 0, -1)

    def mask_truncated(self) -> None:
        """Mask the samples that were truncated."""
        for start, stop in self.truncated:
            self.mask[start:stop] = [0] * (stop - start)

    def mask_if_unsampled(self, end: int) -> None:
        """Give an episode without any sample a prompt and a completion, all masked."""
        if len(self.spans) == self.shared:
            self.add_context([end])
            self._extend([end], [0.0], 0, -1)

    def _extend(self, ids: Sequence[int], logprobs: Sequence[float], mask: int, version: int) -> None:
        self.ids += ids
        self.logprobs += logprobs
        self.mask += [mask] * len(ids)
        self.versions += [version] * len(ids)


class PromptTooLong(InfraError):
    """The first prompt of an episode leaves no room for a message, whatever the agent does."""


class PolicyAgent:
    """Plays one episode with an engine, with token ids in and out."""

    name = "policy"

    def __init__(
        self,
        engine: Engine,
        tokenizer: Any,
        max_tokens: int = 1 << 20,
        prefix_steps: int = 0,
        longest: int | None = None,
        thoughts: Thoughts = "kept",
    ) -> None:
        """The first `prefix_steps` of the episode are another agent's; `longest` is the most tokens that the model takes."""
        self.engine, self.tokenizer, self.max_tokens, self.longest = engine, tokenizer, max_tokens, longest
        self.thoughts: Thoughts = thoughts
        self.ledger = TokenLedger(spans=[(0, 0)] * prefix_steps, shared=prefix_steps)
        self._read = 0

    def fork(self, engine: Engine) -> PolicyAgent:
        """An agent that has the dialogue so far, and samples with `engine`."""
        twin = copy(self)
        twin.engine, twin.ledger = engine, self.ledger.fork()
        return twin

    async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
        """Sample the next message. Raises `AgentFault` if the dialogue has grown to `max_tokens` tokens, and
        `PromptTooLong` if it has as many before the agent has said anything, which is not the agent's fault.
        """
        if n != 1:
            raise ValueError("a policy agent plays one line; use one agent a branch")
        first = self._read == 0
        new = observation.messages if first else observation.messages[self._read - 1 :]  # from the reply on
        text = render_new_messages(self.tokenizer, new, observation.tools, first)
        ids = encode_messages(self.tokenizer, text, first)
        count = len(self.ledger.ids) + len(ids)
        if count >= self.max_tokens and len(self.ledger.spans) == self.ledger.shared:
            raise PromptTooLong(f"the first prompt has {count} tokens, and an episode may have {self.max_tokens}")
        if count >= self.max_tokens:
            raise AgentFault(f"the dialogue has reached {self.max_tokens} tokens")
        refuse_too_long(count, self.longest)
        self.ledger.add_context(ids)
        sample = await self.engine.sample(self.ledger.ids)
        end = self.tokenizer.eos_token_id  # read once: transformers looks it up anew each time
        ids = [token for token in sample.ids if token != end]
        text = self.tokenizer.decode(ids, skip_special_tokens=False)
        thoughts = locate_thought_tokens(self.tokenizer, ids, text)
        self.ledger.add_sample(sample, end, thoughts if self.thoughts == "masked" else ())
        self.ledger.thoughts += sum(map(len, thoughts))
        self._read = len(observation.messages) + 1  # skip the reply itself, which the ledger has
        reply = parse_observed_reply(text, observation)
        if thoughts and self.thoughts == "refused":
            message = {key: value for key, value in reply.message.items() if key != "tool_calls"}
            reply = Reply(message, REFUSED, calls=())
        return [replace(reply, tokens=len(sample.ids), code_tokens=self._count_code_tokens)]

    def _count_code_tokens(self, code: str) -> int:
        return len(self.tokenizer.encode(code, add_special_tokens=False))


def locate_thought_tokens(tokenizer: Any, ids: Sequence[int], text: str) -> list[range]:
    """The places of the thoughts among the ids of a text. A token that is a part of a thought belongs to it."""
    thoughts = find_thoughts(text)
    if not thoughts:
        return []

    def decoded(count: int, after: int) -> tuple[str, int]:  # from a little before, since some tokens need their neighbours
        begin = max(0, after - STRIDE)
        before, both = (tokenizer.decode(ids[begin:end], skip_special_tokens=False) for end in (after, count))
        return both, len(before)

    def length(count: int) -> int:
        both, before = decoded(count, after := count // STRIDE * STRIDE)
        return lengths[after // STRIDE] - before + len(both.rstrip("\ufffd"))  # but half a character

    lengths = [0]  # of the text of the first 0, 64, 128, ... ids
    for after in range(0, len(ids), STRIDE):
        both, before = decoded(min(after + STRIDE, len(ids)), after)
        lengths.append(lengths[-1] - before + len(both))
    counts = range(len(ids) + 1)
    return [
        range(bisect_right(counts, start, key=length) - 1, min(bisect_left(counts, end, key=length), len(ids)))
        for start, end in thoughts
    ]


def refuse_too_long(count: int, longest: int | None) -> None:
    """Raise `DialogueTooLong` for a dialogue that is longer than the model takes: to sample it would take long, in vain."""
    if longest is not None and count >= longest:
        raise DialogueTooLong(f"it has {count} tokens, and the model takes {longest}")


class GuestAgent:
    """Plays one episode with a model that homerl did not train, as the model's own chat template asks it.

    Such a template may write a message otherwise once others follow, so the whole dialogue is rendered for each message.
    Thinking is switched off where the template can, and what a model thinks nevertheless is not told to it again.
    """

    name = "guest"

    def __init__(self, engine: Engine, tokenizer: Any, longest: int | None = None) -> None:
        self.engine, self.tokenizer, self.longest = engine, tokenizer, longest

    async def propose(self, observation: Observation, n: int = 1) -> list[Reply]:
        """Sample the next message. Raises `AgentFault` if the dialogue is longer than the model takes."""
        if n != 1:
            raise ValueError("a guest agent plays one line; use one agent a branch")
        prompt = encode_guest_prompt(self.tokenizer, observation)
        refuse_too_long(len(prompt), self.longest)
        sample = await self.engine.sample(prompt)
        ids = [token for token in sample.ids if token != self.tokenizer.eos_token_id]
        reply = parse_observed_reply(self.tokenizer.decode(ids, skip_special_tokens=False), observation)
        return [replace(reply, tokens=len(sample.ids), prompt_tokens=len(prompt))]


def encode_guest_prompt(tokenizer: Any, observation: Observation) -> list[int]:
    """The tokens of a whole dialogue in the model's own template, up to where it writes next.

    A model that gives one JSON answer is told of no tools, since it calls none.
    """
    tools = None if observation.one_answer else list(observation.tools)
    messages = [*map(with_argument_objects, observation.messages)]
    return encode_shielded(
        tokenizer, render_shielded(tokenizer, messages, tools, add_generation_prompt=True, enable_thinking=False)
    )


def agent_factory_for(engine: Engine, tokenizer: Any, longest: int | None = None) -> Callable[[], PolicyAgent | GuestAgent]:
    """A factory of agents for a loaded model: as it was trained by homerl, or else as its own template asks it.

    `longest` is the most tokens that the model takes.
    """
    if is_homerl_template(tokenizer.chat_template or ""):
        return lambda: PolicyAgent(engine, tokenizer, longest=longest)
    return lambda: GuestAgent(engine, tokenizer, longest)
