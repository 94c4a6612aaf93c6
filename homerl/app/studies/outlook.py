"""What is known before a model that is loaded here plays a suite: whether its prompts fit, and how long it may take.

Invariant: nothing here changes what is played; the estimate samples a few tokens without random numbers.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any

from homerl.bench.runner import EpisodeSpec, EpisodeSpecs
from homerl.bench.suites import spread_evenly
from homerl.envs.core.documents import InputError
from homerl.host.terminal.console import count_with_noun
from homerl.models.policy.guest import encode_guest_prompt
from homerl.play.observation import Observation
from homerl.worlds.registry import begin_episode

LOOKED_AT = 20  # tasks whose prompts are measured
MESSAGES = 2  # of the model in a task: a call, and the answer to the user
TRIED = 8  # tokens that are timed


def estimate_playing_time(tasks: EpisodeSpecs, agent: Any, model: str, at_once: int) -> str:
    """A line that says how long the tasks may take. Raises `InputError` if the model takes the prompt of none of them."""
    some = spread_evenly(range(len(tasks)), LOOKED_AT)
    prompts = sorted((encode_guest_prompt(agent.tokenizer, opening_observation(tasks[index])) for index in some), key=len)
    longest = agent.longest
    if longest is not None and len(prompts[0]) >= longest:
        what = f"the model takes {longest:,} tokens, and the prompts of the tasks have {len(prompts[0]):,} or more"
        remedy = "take a model with a longer context, or a setting or suite with shorter prompts"
        raise InputError(what, model, remedy)
    reading, token = time_sampling(agent.engine, prompts[len(prompts) // 2])
    messages = MESSAGES * len(tasks)
    seconds = messages * (reading + token * agent.engine.max_tokens / min(at_once, len(tasks)))
    most = timedelta(seconds=60 * round(seconds / 60 + 0.5))
    each = f"{count_with_noun(len(tasks), 'task')} of about {MESSAGES} messages each"
    return f"{each}: up to {most} on this machine (--limit plays fewer)"


def opening_observation(task: EpisodeSpec) -> Observation:
    """What an agent sees of a task when the user says a word."""
    seen = begin_episode(task.blueprint, task.limits).observation
    return replace(seen, messages=(*seen.messages, {"role": "user", "content": "."}))


def time_sampling(engine: Any, prompt: Sequence[int]) -> tuple[float, float]:
    """(seconds to read the prompt, seconds for each token after it), of one prompt alone."""
    spent = []
    for tokens in (1, 1, 1 + TRIED):  # the first one loads what sampling needs
        trial = type(engine)(engine.model, engine.tokenizer, tokens, 0.0, 1)
        before = time.monotonic()
        asyncio.run(trial.sample(prompt))
        spent.append(time.monotonic() - before)
    return spent[1], max(0.0, spent[2] - spent[1]) / TRIED
