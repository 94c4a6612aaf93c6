"""Agents from the name of a model: one that a server has, or one that this process loads.

Invariant: a model that is nowhere is refused before anything is loaded.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any

from envs.documents import InputError
from homerl.llm.endpoint import Endpoint
from homerl.play.loop import Policy
from homerl.run.preflight import on_hub
from homerl.train.sizes import holds_model

if TYPE_CHECKING:
    from homerl.agents.policy import Engine, Sample


def is_url(model: str) -> bool:
    """Whether a model answers at a URL."""
    return model.startswith(("http://", "https://"))


def agents_of(
    model: str, served: str | None = None, cpu: bool = False, max_tokens: int = 512
) -> tuple[str, Callable[[], Policy]]:
    """The name of a model, and a factory of agents that answer with it at temperature 0; each agent plays one dialogue.

    Raises `InputError` if there is no such model.
    """
    if is_url(model):
        from homerl.agents.llm import LLMAgent

        name = served or served_model(model)
        endpoint = Endpoint(model.split(","), name)
        return name, lambda: LLMAgent(endpoint, 0.0, max_tokens)
    refuse_missing(model)
    engine, tokenizer = local_engine(model, cpu, max_tokens)

    from homerl.agents.guest import agents_with

    return Path(model).name, agents_with(InThread(engine), tokenizer, engine.longest)


class InThread:
    """An engine that samples in a thread of its own, so that whoever serves it stays awake.

    One sample is made at a time. One that nobody waits for any more is still made to its end.
    """

    def __init__(self, engine: Engine) -> None:
        self.engine, self._thread = engine, ThreadPoolExecutor(1, "sampling")

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample once the thread is free."""
        return await asyncio.get_running_loop().run_in_executor(self._thread, self._sample, tuple(prompt))

    def _sample(self, prompt: Sequence[int]) -> Sample:
        return asyncio.run(self.engine.sample(prompt))  # type: ignore[arg-type]


def refuse_missing(model: str, baselines: Iterable[str] = ()) -> None:
    """Raise `InputError` if a model is neither here nor on the hub, or if a folder holds none."""
    if Path(model).exists():
        if not holds_model(Path(model)):
            raise InputError(f"{model} holds no model", "--model", _models_in(Path(model)))
    elif not on_hub(model):
        near = get_close_matches(model, baselines, n=1)
        known = ", ".join(baselines)
        remedy = f"name a URL, a folder, a hub id such as org/name{known and f', or one of {known}'}"
        what = f"there is no model '{model}', neither here nor on the hub"
        raise InputError(what, "--model", f"did you mean {near[0]}? {remedy}" if near else remedy)


def _models_in(folder: Path) -> str:
    """The remedy for a folder without a model of its own: a flywheel's has several inside."""
    inside = [path for path in sorted(folder.glob("*/model"), key=_newest_last) if holds_model(path)]
    return f"did you mean {inside[-1]}?" if inside else "name a folder that holds a config.json and weights"


def _newest_last(folder: Path) -> float:
    return folder.stat().st_mtime


def local_engine(model: str, cpu: bool, max_tokens: int, temperature: float = 0.0, batch: int = 1) -> tuple[Any, Any]:
    """(engine, tokenizer) of a model that this process loads: in float32 on the CPU, in bfloat16 on a GPU."""
    from homerl.agents.policy import TransformersEngine
    from homerl.train.common import load_policy, load_tokenizer
    from homerl.train.recipe import ModelSettings

    tokenizer = load_tokenizer(model, own=True)
    loaded = load_policy(ModelSettings(name=model, dtype="float32" if cpu else "bfloat16"), model)
    loaded = loaded.to("cpu" if cpu else "cuda").eval()
    return TransformersEngine(loaded, tokenizer, max_tokens, temperature, batch), tokenizer


def served_model(url: str) -> str:
    """The name of a server's only model. `InputError` if the server has several, or does not say."""
    from openai import APIStatusError, OpenAI, OpenAIError

    from homerl.llm.endpoint import secret

    try:
        names = [model.id for model in OpenAI(base_url=url.split(",")[0], api_key=secret(), timeout=30).models.list()]
    except APIStatusError as error:
        keyed = error.status_code in (401, 403)
        what = f"the server refuses the key (status {error.status_code})" if keyed else f"the server says: {error.message}"
        remedy = "export OPENAI_API_KEY=..., the key that it wants" if keyed else "the address ends in /v1"
        raise InputError(what, url, remedy) from None
    except OpenAIError as error:
        raise InputError(f"the server does not answer ({error})", url, "is it running? the address ends in /v1") from None
    if len(names) != 1:
        raise InputError(f"the server has {len(names)} models", url, f"name one with --served: {', '.join(names) or 'none'}")
    return names[0]
