"""What a program that homerl did not write asks of the model, captured with its tokens.

A program sends its whole dialogue with each request, as OpenAI's API has it. `CapturedDialogues` finds what is new of it.

Invariants:
- A request that begins with a dialogue so far, the model's last message included, goes on in it: only what is new is
  tokenised, as `PolicyAgent` does it. So what was sampled is never tokenised again.
- Any other request (a dialogue that was rewritten or cut short, a second one beside the first, the same request again)
  begins a ledger of its own. Its context is masked, what the model once wrote of it included.
- Calls count as the same if their names and arguments are; their ids and the order of keys do not matter.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from homerl.envs.core.messages import Message
from homerl.models.policy.policy_agent import Engine, PolicyAgent, PromptTooLong, Thoughts, TokenLedger
from homerl.play.faults import AgentFault
from homerl.play.situation import Observation, Reply
from homerl.play.tool_call_parser import read_tool_calls

Said = tuple[str, str, str]  # a message as it is compared: role, words, calls
Tools = Sequence[Mapping[str, Any]]


class CapturedReply(NamedTuple):
    """A sampled message, and whether it was `cut` at the limit of tokens."""

    reply: Reply
    cut: bool


@dataclass
class CapturedDialogue:
    """One dialogue with the model: the messages up to the model's last one, and the agent that has them as tokens."""

    agent: PolicyAgent
    tools: Tools
    said: list[Said] = field(default_factory=list)

    def goes_on_in(self, said: Sequence[Said], tools: Tools) -> bool:
        """Whether a request has all messages of this dialogue, and one more at least."""
        return len(said) > len(self.said) and [*said[: len(self.said)]] == self.said and tools == self.tools


@dataclass
class CapturedDialogues:
    """The dialogues of one episode. Its requests are answered one after the other."""

    engine: Engine
    tokenizer: Any
    max_tokens: int
    thoughts: Thoughts = "kept"
    dialogues: list[CapturedDialogue] = field(default_factory=list)
    broken: list[TokenLedger] = field(default_factory=list)  # whose last sample was not finished

    async def sample_message(self, messages: Sequence[Message], tools: Tools, step: int) -> CapturedReply:
        """Sample the model's next message in a dialogue, for a step of the episode.

        Raises `AgentFault` if the dialogue has no room for it; for the first prompt of all that is an `InfraError`.
        """
        said = [_as_compared(message) for message in messages]
        going_on = [one for one in self.dialogues if one.goes_on_in(said, tools)]
        if going_on:
            dialogue = max(going_on, key=lambda one: len(one.said))
        else:
            agent = PolicyAgent(self.engine, self.tokenizer, self.max_tokens, thoughts=self.thoughts)
            dialogue = CapturedDialogue(agent, tools)
            self.dialogues.append(dialogue)
        first = not any(ledger.spans for ledger in (*self.broken, *(one.agent.ledger for one in self.dialogues)))
        try:
            (reply,) = await dialogue.agent.propose(Observation("request", tuple(messages), tuple(tools)))
        except BaseException as error:  # also a client that has gone: its tokens are not known
            self.dialogues.remove(dialogue)
            self.broken.append(dialogue.agent.ledger)
            if isinstance(error, PromptTooLong) and not first:
                raise AgentFault(str(error)) from error
            raise
        ledger = dialogue.agent.ledger
        ledger.steps.append(step)
        dialogue.said = [*said, _as_compared(reply.message)]
        sampled = replace(reply, prompt_tokens=ledger.spans[-1][0])
        return CapturedReply(sampled, cut=ledger.spans[-1] in ledger.truncated[-1:])

    def finish_ledgers(self, mask_truncated: bool = False) -> tuple[TokenLedger, ...]:
        """The ledgers of the dialogues, each with a prompt and a completion; one, all masked, if nothing was sampled."""
        ledgers = [*self.broken, *(one.agent.ledger for one in self.dialogues)]
        sampled = [ledger for ledger in ledgers if ledger.spans] or [TokenLedger()]
        for ledger in sampled:
            ledger.mask_if_unsampled(self.tokenizer.eos_token_id)
            if mask_truncated:
                ledger.mask_truncated()
        return tuple(sampled)


def _as_compared(message: Message) -> Said:
    calls = [[call.name, call.arguments, call.malformed and call.text] for call in read_tool_calls(message)]
    return message["role"], (message.get("content") or "").strip(), json.dumps(calls, sort_keys=True)
