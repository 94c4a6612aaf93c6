"""A vLLM server, or several: token ids are sent to `/v1/completions` and ids are returned, many requests concurrently.

TRL sends it the weights. docs/training.md says how to start it. While it takes weights it freezes its running requests,
which then continue with the new ones: their cache is computed anew, and their samples name the older version. A server that
cannot freeze requests gets weights when no rank has a running sample. Requests have the deadlines, retries and circuit
breaker of endpoints. If the only server is lost, or if one refuses requests, the run ends with the reason, since no episode
could continue. Whatever is asked of a server brings the key in the recipe's variable.

Invariants of several servers (`ServerPool`), each with all weights and with every option of vLLM's own:
- An episode stays with one server, which has its dialogue in the cache.
- A server that gives no answer or takes no weights is lost: its episodes go on at the others, from the ids so far. It may
  have been started anew, with other weights, so it is asked again only when it has been sent those of now.
- All ranks send to the same servers. If all are lost, the run ends, and the same command goes on.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any
from urllib.error import HTTPError

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.host.processes import free_port, is_main_process
from homerl.host.terminal import print_error
from homerl.models.endpoint.endpoint_settings import KEY_VARIABLE
from homerl.models.policy.policy_agent import Sample
from homerl.play.faults import InfraError, RequestRefused
from homerl.train.engines.contract import EngineRecipe, PolicyTrainer, Refusal, SamplerSettings, TrainedEngine
from homerl.train.engines.weight_sync import UNCUT, PrefixHits, SyncedEngine, SyncedEngineKind
from homerl.train.watch.phase_deadlines import PhaseTimer, RunStalled
from homerl.train.workarounds import send_key_to_vllm

if TYPE_CHECKING:
    from openai.types import CompletionChoice
    from transformers import PreTrainedTokenizerBase as Tokenizer


HOME: ContextVar[int] = ContextVar("HOME")  # the server of an episode, which has a context of its own


class ServerPool:
    """Samples from several servers. `lost` are the indices of those that this rank cannot ask; to `attach` one that was lost
    connects anew with it.
    """

    def __init__(self, servers: Sequence[ServerEngine]) -> None:
        self.servers, self.lost = servers, set[int]()
        self.version, self.begun = -1, 0

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Receive what is trained, and connect with each server."""
        self.trainer, self.phases = trainer, phases
        for server in self.servers:
            server.attach(trainer, phases)

    def sample_as_served(self, policy: PolicyTrainer) -> None:
        """Sample from the weights that the servers have."""
        self.trainer = policy
        for server in self.servers:
            server.sample_as_served(policy)

    def sync(self, version: int) -> None:
        """Send the weights to each server that answers; connect anew with those that are back."""
        from accelerate.utils import broadcast_object_list, gather_object

        from homerl.models.endpoint.vllm_server import describe_server_trouble

        before, first = {*self.lost}, self.trainer.accelerator.is_main_process
        with self.phases.enter_phase("collective", "idle", waits=True):  # all ranks agree on which are lost and down
            lost = {number for some in gather_object([sorted(self.lost)]) for number in some}
            asked = enumerate(self.servers if first else ())
            down = {i for i, one in asked if describe_server_trouble(f"{one.url}/v1", one.settings.key)}
            [down] = broadcast_object_list([down])
        for number in sorted(lost | down):
            said = "does not answer; the others go on" if number in down else "is back, and gets the weights"
            self._print_once(f"the policy server at {self.servers[number].url} {said}")
        for number, server in enumerate(self.servers):
            if number in down:
                continue
            try:
                if number in lost:
                    server.attach(self.trainer, self.phases)
                server.sync(version)
            except RunStalled as error:  # on all ranks
                self._print_once(f"{error}; the others go on")
                down.add(number)
        if len(down) == len(self.servers):
            raise RunStalled("none of the policy servers answers")
        self.version, self.lost = version, down | (self.lost - before)  # rollouts ahead may lose one meanwhile

    def _print_once(self, what: str) -> None:
        """Print a line, on the first rank alone."""
        if self.trainer.accelerator.is_main_process:
            print_error(what)

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample one continuation from the episode's server; from another one if that is lost."""
        while True:
            home = HOME.get(None)
            if home is None or home in self.lost:  # those that work take turns: the ranks begin with different ones
                works = [number for number in range(len(self.servers)) if number not in self.lost]
                home = works[(self.trainer.accelerator.process_index + self.begun) % len(works)]
                self.begun += 1
                HOME.set(home)
            try:
                return await self.servers[home].sample(prompt)
            except RunStalled:
                self.lost.add(home)
                if len(self.lost) == len(self.servers):
                    raise

    def awake(self) -> AbstractContextManager[object]:
        """The context of all sampling."""
        return nullcontext()

    def metrics(self) -> Mapping[str, float]:
        """The means of the servers' metrics, and the number of those that answer."""
        by_name: dict[str, list[float]] = {}
        for number, server in enumerate(self.servers):
            if number in self.lost:
                continue
            for name, value in server.metrics().items():
                by_name.setdefault(name, []).append(value)
        means = {name: sum(values) / len(values) for name, values in by_name.items()}
        return means | {"policy/servers": float(len(self.servers) - len(self.lost))}


TOKEN = "token_id:"  # prefix of a token that vLLM writes as an id
METRICS = 5.0  # seconds to wait for vLLM's metrics, or for its list of paths
PREFIXES = re.compile(r"^vllm:prefix_cache_(hits|queries)_total(?:\{[^}]*\})? (\S+)", re.MULTILINE)
POLICY_KEY = "HOMERL_POLICY_KEY"
LOOKS = 60.0  # seconds to wait for vLLM's report of its settings: it inspects its machine first


Address = Annotated[str, Field(pattern=r"^https?://[^?#@]*[^/?#@]$")]


class ServerKeys(Model):
    """The recipe keys of engine `server`."""

    url: Address | tuple[Address, ...] | None = Field(
        None, description="Of `server`: its address, as http://host:8000, or several."
    )
    key: str = Field(
        POLICY_KEY,
        pattern=KEY_VARIABLE,
        description="Of `server`: environment variable with its key, never the key itself; it may be unset.",
    )
    timeout: float = Field(300.0, gt=0, description="Of `server`: seconds for a request.")
    deadline: float = Field(900.0, gt=0, description="Of `server`: seconds for a request with its retries.")
    retries: int = Field(3, ge=0, description="Of `server`: tries after the first.")


class ServerEngine(SyncedEngine):
    """Samples by HTTP. If `model` is not given, the server is asked for its name.

    A server that cannot be reached is waited for within the deadline, unless it is one of several (`alone`).
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        max_tokens: int,
        temperature: float,
        settings: ServerKeys,
        model: str | None = None,
        alone: bool = True,
    ) -> None:
        from homerl.models.endpoint.endpoint import Endpoint, Patience
        from homerl.models.endpoint.vllm_server import describe_server_trouble, list_served_models

        self.url = url = list_server_urls(settings.url)[0]
        own = {"mode": "server", "server_base_url": url, "server_timeout": settings.deadline}
        super().__init__(tokenizer, max_tokens, temperature, own)
        self.settings, self._freezes, self._counted = settings, False, (0.0, 0.0)
        patience = Patience(settings.timeout, settings.deadline, settings.retries + 1, alone)
        if not (names := [model] if model else list_served_models(f"{url}/v1", settings.key)):
            trouble = describe_server_trouble(f"{url}/v1", settings.key) or "does not answer"
            raise RunStalled(f"the policy server at {url} {trouble}")
        self.endpoint = Endpoint([f"{url}/v1"], names[0], patience, settings.key)
        self.options = {
            "max_tokens": max_tokens,
            "temperature": temperature,
            "logprobs": 0,
            "extra_body": {
                **UNCUT,
                "stop_token_ids": [tokenizer.eos_token_id],
                "return_token_ids": True,
                "return_tokens_as_token_ids": True,
            },
        }

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Receive what is trained, and ask the server whether it can freeze its requests. Again for one started anew.

        Raises `RunStalled` on all ranks if the server cannot be reached, as `sync` does.
        """
        from accelerate.utils import broadcast_object_list

        from homerl.models.endpoint.endpoint import read_api_key

        if client := getattr(self.generation, "vllm_client", None):
            client.close_communicator()
        self.transfer = {**self.transfer, "group_port": free_port()}  # each server and each connection has its own
        with send_key_to_vllm(read_api_key(self.settings.key)):
            self._ask_from_first_rank(partial(super().attach, trainer, phases))
        freezes = can_freeze_requests(self.url, self.settings.key)
        [self._freezes] = broadcast_object_list([freezes])  # all ranks must agree

    def sample_as_served(self, policy: PolicyTrainer) -> None:
        """Sample from the weights that the server has, in place of `attach` and `sync`. The version stays -1."""
        self.trainer = policy

    def sync(self, version: int) -> None:
        """Send the weights while the server samples nothing. One rank sends; all ranks wait."""
        import torch

        with nullcontext() if self._freezes else self.lock.hold_exclusively():
            with self._wait_for_ranks():
                self.trainer.accelerator.wait_for_everyone()
            if torch.cuda.is_available():
                torch.cuda.synchronize()  # vLLM reads on streams of its own, which do not wait for the optimizer's
            # two steps: all ranks know of a server that cannot be frozen before they gather weights together
            self._ask_from_first_rank(self._freeze_requests)
            self._ask_from_first_rank(self._send_weights)
            self.version = version

    def _ask_from_first_rank(self, step: Callable[[], None]) -> None:
        """Take a step in which the first rank alone asks the server. If that fails, all ranks raise `RunStalled`."""
        from accelerate.utils import broadcast_object_list

        failed = None
        try:
            step()
        except OSError as error:
            failed = f"the policy server at {self.url} takes no weights: {error}"
        with self._wait_for_ranks():
            [failed] = broadcast_object_list([failed])
        if failed:
            raise RunStalled(failed)

    def _freeze_requests(self) -> None:
        """Freeze the server's requests, and drop the caches of the old weights."""
        self._post_command("pause?mode=keep")
        try:
            self._post_command("reset_prefix_cache?reset_running_requests=true")
        except OSError:
            self._post_command("resume")
            raise

    def _send_weights(self) -> None:
        try:
            self.generation.sync_weights()
        finally:
            self._post_command("resume")

    def _post_command(self, path: str) -> None:
        if not (self._freezes and self.trainer.accelerator.is_main_process):
            return
        from homerl.models.endpoint.vllm_server import fetch_body

        said = fetch_body(f"{self.url}/{path}", self.settings.key, self.settings.timeout, method="POST")
        if said and json.loads(said).get("success") is False:
            raise OSError(f"{path} failed")

    def metrics(self) -> Mapping[str, float]:
        """The share of prompt tokens that the server had in its cache, since the last call. The first process asks."""
        from homerl.models.endpoint.vllm_server import SILENT, fetch_body

        if not self.trainer.accelerator.is_main_process:
            return {}
        try:
            text = fetch_body(f"{self.url}/metrics", self.settings.key, METRICS)
        except SILENT:
            return {}
        sums = {"hits": 0.0, "queries": 0.0}  # tokens found in the prefix cache, and looked up, over vLLM's engines
        for name, value in PREFIXES.findall(text if isinstance(text, str) else text.decode()):
            sums[name] += float(value)
        (hits, asked), self._counted = self._counted, (sums["hits"], sums["queries"])
        found = PrefixHits()
        if sums["queries"] >= asked:  # less if the server was started anew
            found.count_prompt(sums["hits"] - hits, sums["queries"] - asked)
        return found.take_hit_rate()

    def _wait_for_ranks(self) -> AbstractContextManager[None]:
        return self.phases.enter_phase("collective", "idle", waits=True)

    async def _sample(self, prompt: Sequence[int]) -> Sample:
        version = self.version
        try:
            answer = await self.endpoint.complete_tokens(prompt, **self.options)
        except RequestRefused as error:
            raise RuntimeError(f"the policy server refuses what it is asked: {error}") from error
        except InfraError as error:
            tries = f"in {self.settings.retries + 1} tries or {self.settings.deadline:g} s"
            raise RunStalled(f"the policy server at {self.url} gave no answer {tries}: {error}") from error
        ids, logprobs = read_choice(answer.choices[0], prompt)
        return Sample(ids, logprobs, version)


def can_freeze_requests(url: str | None, key: str | None = None) -> bool:
    """Whether a server can freeze its requests, and drop their caches, by its own list of what can be asked of it."""
    from homerl.models.endpoint.vllm_server import SILENT, fetch_body

    try:
        paths = json.loads(fetch_body(f"{url}/openapi.json", key, METRICS))["paths"]
        asked = [{p["name"] for p in paths[path]["post"]["parameters"]} for path in ("/pause", "/reset_prefix_cache")]
    except SILENT:
        return False
    return "/resume" in paths and "mode" in asked[0] and "reset_running_requests" in asked[1]


def read_choice(choice: CompletionChoice, prompt: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """The ids and log-probabilities of a completion.

    Raises `RuntimeError` if the server answers in text, omits log-probabilities, or read other prompt ids.
    """
    said = choice.model_extra or {}
    read = said.get("prompt_token_ids")
    if read is not None and list(read) != list(prompt):
        raise RuntimeError("the policy server did not read the ids that it was sent: does it serve another tokenizer?")
    ids = said.get("token_ids")
    if choice.logprobs is None or choice.logprobs.token_logprobs is None:
        raise RuntimeError("the policy server gives no log-probabilities: start it with `--max-logprobs -1`")
    if ids is None:
        tokens = choice.logprobs.tokens
        if not all(token.startswith(TOKEN) for token in tokens):
            raise RuntimeError("the policy server answers in text, not in ids: it needs vLLM's `return_tokens_as_token_ids`")
        ids = [int(token.removeprefix(TOKEN)) for token in tokens]
    logprobs = tuple(math.nan if value is None else value for value in choice.logprobs.token_logprobs)
    if len(ids) != len(logprobs):
        raise RuntimeError(f"the policy server gave {len(ids)} ids and {len(logprobs)} log-probabilities")
    return tuple(ids), logprobs


def list_server_urls(url: str | tuple[str, ...] | None) -> tuple[str, ...]:
    """The addresses of a recipe's servers (`rlve.engine.url`)."""
    return (url,) if isinstance(url, str) else url or ()


class PolicyServerKind(SyncedEngineKind):
    """The engine `server`."""

    name, order, keys = "server", 2, ServerKeys
    sentence = "a vLLM server on other GPUs, over HTTP in token ids"
    shares_gpu, has_own_weights = False, True

    def refuse(self, recipe: EngineRecipe, parallel: str) -> Iterable[Refusal]:
        """Nothing, if the server keeps its weights; else what no server can be sent."""
        return () if recipe.rlve.play_only else super().refuse(recipe, parallel)

    def make(self, settings: SamplerSettings, tokenizer: Tokenizer, seed: int, in_shards: bool) -> TrainedEngine:
        """An engine on the recipe's server or servers."""
        urls, limits = list_server_urls(settings.engine.url), (settings.max_tokens, settings.temperature)
        each = [settings.engine.model_copy(update={"url": url}) for url in urls]
        servers = [ServerEngine(tokenizer, *limits, one, alone=len(urls) == 1) for one in each]
        return servers[0] if len(servers) == 1 else ServerPool(servers)

    def check(self, engine: Any) -> Iterable[str]:
        """`url` must be given exactly for this engine."""
        if (engine.kind == self.name) != bool(engine.url):
            yield "`url` goes with `kind: server`, and the other way round"

    def lacks(self, settings: SamplerSettings) -> Iterable[str]:
        """Whether each server answers, and was started as training needs it."""
        if is_main_process():  # it asks for all ranks
            for url in list_server_urls(settings.engine.url):
                yield from self._lacks_of_server(url, settings)

    def _lacks_of_server(self, url: str, settings: SamplerSettings) -> Iterator[str]:
        from homerl.models.endpoint.vllm_server import SILENT, describe_server_trouble, fetch_body

        key = settings.engine.key
        if trouble := describe_server_trouble(f"{url}/v1", key):
            yield f"the policy server at {url} {trouble}"
            return
        if settings.play_only:  # it need not be a trainer's server; what it omits is told with the first answer
            return
        try:
            said = json.loads(fetch_body(f"{url}/server_info?config_format=json", key, LOOKS))["vllm_config"]
            lacks = list(_lacking_options(said, settings))
        except SILENT as error:
            if not (isinstance(error, HTTPError) and error.code == 404):
                yield f"the policy server at {url} does not say how it was started: is it vLLM's? ({error})"
                return
            lacks = ["VLLM_SERVER_DEV_MODE=1 in its environment"]
        if lacks:
            start = "start it as docs/training.md says, with"
            yield f"the policy server at {url} cannot be trained with: {start} {', '.join(lacks)}"


def _lacking_options(said: dict[str, Any], settings: SamplerSettings) -> Iterator[str]:
    """Yield the options that a trainer's sampler needs and vLLM was started without, by its own report."""
    model, tokens = said["model_config"], settings.max_episode_tokens + settings.max_tokens
    if said["weight_transfer_config"] is None:
        yield """--weight-transfer-config '{"backend": "nccl"}'"""
    if model["logprobs_mode"] != "processed_logprobs":  # other modes ignore the sampling temperature
        yield "--logprobs-mode processed_logprobs"
    if settings.head == "float32" and (model.get("hf_overrides") or {}).get("head_dtype") != "float32":
        yield """--hf-overrides '{"head_dtype": "float32"}'"""
    if not said.get("cache_config", {}).get("enable_prefix_caching", True):
        yield "--enable-prefix-caching"
    if model["max_model_len"] < tokens:
        yield f"--max-model-len {tokens}"


ENGINE = PolicyServerKind()
