"""Agents from the name of a model: one that a server has, or one that this process loads.

Invariant: a model that is nowhere is refused before anything is loaded.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path
from threading import Event
from typing import TYPE_CHECKING, Any, TypeVar

from homerl.envs.core.documents import InputError, find_near_path
from homerl.envs.core.messages import Message
from homerl.host.recipe_files import has_bfloat16_cpu
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import refuse_secret
from homerl.play.loop import Policy
from homerl.play.situation import Observation, Reply
from homerl.train.model_sources import (
    download_hub_weights,
    find_adapter_base,
    is_adapter,
    is_model_folder,
    is_on_hub,
    refuse_changed_export,
    resolve_complete_model,
    resolve_model_source,
)

if TYPE_CHECKING:
    from homerl.models.policy.policy_agent import GuestAgent, PolicyAgent
    from homerl.models.policy.transformers_engine import TransformersEngine
    from homerl.train.model_settings import ModelSettings

T = TypeVar("T")
SOON = 0.9  # of the time that a person waits, in which a server must have answered
HELD = 4  # dialogues of which a loaded model keeps keys and values
REMEMBERED = 256  # messages whose tokens a loaded model keeps


def is_model_url(model: str) -> bool:
    """Whether a model answers at a URL."""
    return model.startswith(("http://", "https://"))


def make_model_agents(
    model: str, served: str | None = None, cpu: bool = False, max_tokens: int = 512, seconds: float = 60
) -> tuple[str, Callable[[], Policy]]:
    """The name of a model, and a factory of agents that answer with it at temperature 0; each agent plays one dialogue.

    A server is given up within `seconds`, so that a person who waits for so long still hears why. One that is not there, or
    answers what is no completion, is asked once more at most: the person hears it at once.

    Raises `InputError` if there is no such model.
    """
    if is_model_url(model):
        from homerl.models.endpoint.llm_agent import LLMAgent

        refuse_secret("--model", model)
        name = served or find_served_model(model)
        endpoint = Endpoint(model.split(","), name, Patience(SOON * seconds, SOON * seconds, tries=2, waits=False))
        return name, lambda: LLMAgent(endpoint, 0.0, max_tokens)
    found = load_local_model(model, cpu)
    return found.name, found.make_agents(max_tokens)


@dataclass(frozen=True)
class LoadedModel:
    """A model that this process has loaded. All that samples with it does so in one thread, in turn.

    `made` holds the agents that made the latest messages, by the dialogue up to the message.
    """

    name: str
    engine: ThreadedEngine
    tokenizer: Any
    made: dict[str, PolicyAgent] = field(default_factory=dict)

    def make_agents(self, max_tokens: int, temperature: float = 0.0, seed: int | None = None) -> Callable[[], Policy]:
        """A factory of agents that answer with the model. With a `seed`, each message is sampled with this seed."""
        from homerl.models.policy.policy_agent import agent_factory_for

        engine = self.engine.with_sampling(max_tokens, temperature, seed)
        fresh = agent_factory_for(engine.engine, self.tokenizer, self.engine.engine.context_length)
        return lambda: ContinuingAgent(fresh, engine, self.made)


class ContinuingAgent:
    """Answers in any dialogue, and goes on with the tokens that were sampled for it.

    Text alone is not enough: what a model wrote may be tokenised otherwise than it was sampled, and then the model would
    say other things than in an episode, where one agent keeps its tokens.
    """

    def __init__(
        self, fresh: Callable[[], PolicyAgent | GuestAgent], engine: ThreadedEngine, made: dict[str, PolicyAgent]
    ) -> None:
        self.fresh, self.engine, self.made, self.name = fresh, engine, made, fresh().name

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        """The next message. Raises what the agent raises."""
        return await self.engine.run_in_thread(lambda: self._propose_reply(observation, n))

    async def _propose_reply(self, observation: Observation, n: int) -> Sequence[Reply]:
        from homerl.models.policy.policy_agent import PolicyAgent

        messages = observation.messages
        said = max((at for at, one in enumerate(messages) if one["role"] == "assistant"), default=-1)
        known = self.made.get(_hash_dialogue(messages[: said + 1], observation.tools))
        agent = known.fork(self.engine.engine) if known else self.fresh()
        (reply,) = await agent.propose(observation, n)
        if not isinstance(agent, PolicyAgent):
            return [reply]
        self.made[_hash_dialogue((*messages, reply.message), observation.tools)] = agent
        while len(self.made) > REMEMBERED:  # a dict keeps the order of insertion, so the oldest goes
            del self.made[next(iter(self.made))]
        return [replace(reply, prompt_tokens=agent.ledger.spans[-1][0])]


def _hash_dialogue(messages: Sequence[Message], tools: Sequence[Mapping[str, Any]]) -> str:
    """A hash of a dialogue. The ids of calls do not matter, since no template shows them."""
    calls = [[call["function"] for call in one.get("tool_calls") or ()] for one in messages]
    said = [[one["role"], one.get("content") or "", made] for one, made in zip(messages, calls)]
    return hashlib.blake2b(json.dumps([said, tools]).encode(), digest_size=16).hexdigest()


def load_local_model(model: str, cpu: bool, name: str | None = None) -> LoadedModel:
    """A model of a folder or of the hub, under a name. Raises `InputError` if there is none."""
    refuse_missing_model(model)
    from homerl.models.policy.faster_decoding import DialogueCache

    engine = load_local_engine(model, cpu, 1)
    engine.held = DialogueCache(HELD, forks=True)
    return LoadedModel(name or Path(model).name, ThreadedEngine(engine), engine.tokenizer)


class ThreadedEngine:
    """An engine whose agents work in a thread of its own, so that whoever serves them stays awake.

    One agent works at a time: it writes its prompt, samples and reads. A sample that nobody waits for any more ends with its
    next token.
    """

    def __init__(self, engine: TransformersEngine, seed: int | None = None, thread: Executor | None = None) -> None:
        self.engine, self.seed, self._thread = engine, seed, thread or ThreadPoolExecutor(1, "sampling")

    def with_sampling(self, max_tokens: int, temperature: float, seed: int | None = None) -> ThreadedEngine:
        """The same model in the same thread, sampled otherwise."""
        own = self.engine
        engine = type(own)(own.model, own.tokenizer, max_tokens, temperature, batch=1, held=own.held)
        return ThreadedEngine(engine, seed, self._thread)

    async def run_in_thread(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """What comes of the work of an agent of this engine, once the thread is free for it."""
        gone = Event()
        try:
            return await asyncio.get_running_loop().run_in_executor(self._thread, self._run_seeded, work, gone)
        finally:
            gone.set()

    def _run_seeded(self, work: Callable[[], Coroutine[Any, Any, T]], gone: Event) -> T:
        import torch

        if self.seed is not None:
            torch.manual_seed(self.seed)
        self.engine.stopped = gone.is_set  # looked at after each token
        return asyncio.run(work())


def refuse_missing_model(model: str, baselines: Iterable[str] = (), where: str = "--model") -> None:
    """Raise `InputError` if a model is neither here nor on the hub, if a folder holds none, or if a file of a shipped model
    or of its base is missing. `where` named the model."""
    source = resolve_model_source(model)
    if (folder := Path(source)).exists():
        refuse_changed_export(folder)
        if not is_model_folder(folder):
            inside = _find_models_in(folder)
            remedy = f"did you mean {inside[-1]}?" if inside else "name a folder that holds a config.json and weights"
            raise InputError(f"{model} holds no model", where, remedy)
        if is_adapter(folder):
            find_adapter_base(folder)
    elif not is_on_hub(model):
        beside = find_near_path(Path(model))
        near = [*get_close_matches(model, baselines, n=1), *([beside] if beside and _find_models_in(beside) else [])]
        known = ", ".join(baselines)
        remedy = f"name a URL, a folder, a hub id such as org/name{known and f', or one of {known}'}"
        what = f"there is no model '{model}', neither here nor on the hub"
        raise InputError(what, where, f"did you mean {near[0]}? {remedy}" if near else remedy)


def _find_models_in(folder: Path) -> list[Path]:
    """The models of a folder, the newest last: a stage's has one inside, and a flywheel's has several."""
    places = [folder, folder / "model", *folder.glob("*/model")]
    return sorted(filter(is_model_folder, places), key=lambda path: path.stat().st_mtime)


def load_local_engine(
    model: str, cpu: bool, max_tokens: int, temperature: float = 0.0, batch: int = 1
) -> TransformersEngine:
    """The engine of a model that this process loads: in bfloat16 on a GPU, else in float32 on the CPU.

    On a CPU that multiplies bfloat16, a model whose files are in bfloat16 stays so.
    """
    import torch
    from transformers import AutoConfig

    from homerl.train.model_settings import ModelSettings

    cpu = cpu or not torch.cuda.is_available()
    stored = AutoConfig.from_pretrained(resolve_complete_model(model)).dtype
    half = not cpu or (stored == torch.bfloat16 and has_bfloat16_cpu())
    settings = ModelSettings(name=model, dtype="bfloat16" if half else "float32")
    return load_engine(settings, model, cpu, max_tokens, temperature, batch)


def load_engine(
    settings: ModelSettings, model: str, cpu: bool, max_tokens: int, temperature: float, batch: int
) -> TransformersEngine:
    """The engine of a model with its own chat template, loaded as the settings say, on the CPU or the GPU."""
    from homerl.models.policy.transformers_engine import TransformersEngine
    from homerl.train.training_setup import load_chat_tokenizer, load_policy

    download_hub_weights(model)
    tokenizer = load_chat_tokenizer(model, own=True)
    loaded = load_policy(settings, model).to("cpu" if cpu else "cuda").eval()
    return TransformersEngine(loaded, tokenizer, max_tokens, temperature, batch)


def find_served_model(url: str) -> str:
    """The name of a server's only model. `InputError` if the server has several, or does not say."""
    from openai import APIStatusError, OpenAI, OpenAIError

    from homerl.models.endpoint.endpoint import UNREADABLE, read_api_key
    from homerl.models.endpoint.server_answers import describe_error, read_error_reason

    try:
        listed = OpenAI(base_url=url.split(",")[0], api_key=read_api_key(), timeout=30).models.list()
        names = [model.id for model in listed]
    except APIStatusError as error:
        keyed = error.status_code in (401, 403)
        what = f"the server {'refuses the key' if keyed else 'lists no models'} ({describe_error(error, read_api_key())})"
        remedy = "export OPENAI_API_KEY=..., the key that it wants" if keyed else "the address ends in /v1"
        raise InputError(what, url, remedy) from None
    except (OpenAIError, ValueError, *UNREADABLE) as error:
        what = f"the server does not answer ({describe_error(error, read_api_key())})"
        raise InputError(what, url, "is it running? the address ends in /v1") from None
    if not names and (why := read_error_reason(listed.model_extra, read_api_key())):
        raise InputError(f"the server lists no models: {why}", url, "the address ends in /v1")
    if len(names) != 1:
        raise InputError(f"the server has {len(names)} models", url, f"name one with --served: {', '.join(names) or 'none'}")
    return str(names[0])
