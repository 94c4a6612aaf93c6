"""A model that homerl did not train, as an agent that is asked by the model's own chat template.

Invariant: only benchmarks and evaluations ask so; a model in training is always asked by homerl's template.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from homerl.models.policy.chat_format import with_argument_objects
from homerl.models.policy.controls import encode_shielded, render_shielded
from homerl.models.policy.policy import Engine, PolicyAgent, refuse_too_long
from homerl.play.messages import is_homerl_template, parse_observed_reply
from homerl.play.observation import Observation
from homerl.play.situation import Reply


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
        message, malformed = parse_observed_reply(self.tokenizer.decode(ids, skip_special_tokens=False), observation)
        return [Reply(message, malformed, len(sample.ids), prompt_tokens=len(prompt))]


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
