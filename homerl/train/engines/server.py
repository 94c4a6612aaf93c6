"""A vLLM server: ids go to `/v1/completions` and ids come back, many requests at a time; TRL sends it the weights.

Start it where the trainer's environment says (docs/training.md). Requests have the endpoint's deadlines, retries and
breaker; a policy that nobody serves any more, or that refuses what it is asked, ends the run with its reason, since
no episode could go on.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch

from homerl.agents.policy import Sample
from homerl.llm.endpoint import Endpoint, Patience
from homerl.play.faults import InfraError, RequestRefused
from homerl.train.engines.synced import Synced
from homerl.train.phases import Phases
from homerl.train.recipe import EngineSettings
from homerl.train.watchdog import Stalled

TOKEN = "token_id:"  # how vLLM writes a token in place of its text


class Server(Synced):
    """`model` is asked of the server where it is not given."""

    def __init__(
        self, tokenizer: Any, max_tokens: int, temperature: float, settings: EngineSettings, model: str | None = None
    ) -> None:
        super().__init__(tokenizer, max_tokens, temperature)
        self.settings = settings
        patience = Patience(settings.timeout, settings.deadline, settings.retries + 1)
        self.endpoint = Endpoint([f"{settings.url}/v1"], model or served_model(settings.url), patience)
        self.options = {
            "max_tokens": max_tokens, "temperature": temperature, "top_p": 1.0, "logprobs": 0,
            "extra_body": {
                "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0, "stop_token_ids": [tokenizer.eos_token_id],
                "return_token_ids": True, "return_tokens_as_token_ids": True,
            },
        }  # fmt: skip

    def attach(self, trainer: Any, phases: Phases) -> None:
        """Each weight goes as it was when it was named: vLLM packs many at a time, and ZeRO-3 has let go of them by then."""
        super().attach(trainer, phases)
        named = self.generation._iter_named_params
        self.generation._iter_named_params = lambda: ((name, weight.clone()) for name, weight in named())

    def _send(self, send: Callable[[], None]) -> None:
        """One rank sends, and all of them ask: the weights go when none has a sample under way, and none begins before."""
        self._wait_for_everyone()
        if torch.cuda.is_available():
            torch.cuda.synchronize()  # vLLM reads on streams of its own, which do not wait for the optimizer's
        try:
            send()
        except OSError as error:
            raise Stalled(f"the policy server at {self.settings.url} takes no weights: {error}") from error
        self._wait_for_everyone()

    def _wait_for_everyone(self) -> None:
        with self.phases.phase("collective", "idle", waits=True):
            self.trainer.accelerator.wait_for_everyone()

    async def _sample(self, prompt: Sequence[int]) -> Sample:
        version = self.version
        try:
            answer = await self.endpoint.complete(prompt, **self.options)
        except RequestRefused as error:
            raise RuntimeError(f"the policy server refuses what it is asked: {error}") from error
        except InfraError as error:
            tries = f"in {self.settings.retries + 1} tries or {self.settings.deadline:g} s"
            raise Stalled(f"the policy server at {self.settings.url} gave no answer {tries}: {error}") from error
        ids, logprobs = read_choice(answer.choices[0], prompt)
        return Sample(ids, logprobs, version)


def read_choice(choice: Any, prompt: Sequence[int]) -> tuple[tuple[int, ...], tuple[float, ...]]:
    """(ids, log-probabilities) of a completion; a server that does not speak in ids, or read others, is refused."""
    said = choice.model_extra or {}
    read = said.get("prompt_token_ids")
    if read is not None and list(read) != list(prompt):
        raise RuntimeError("the policy server did not read the ids that it was sent: does it serve another tokenizer?")
    ids = said.get("token_ids")
    if choice.logprobs is None or choice.logprobs.token_logprobs is None:
        raise RuntimeError("the policy server gives no log-probabilities: start it with `--max-logprobs -1`")
    if ids is None:
        ids = [_id(token) for token in choice.logprobs.tokens]
    logprobs = tuple(math.nan if value is None else value for value in choice.logprobs.token_logprobs)
    if len(ids) != len(logprobs):
        raise RuntimeError(f"the policy server gave {len(ids)} ids and {len(logprobs)} log-probabilities")
    return tuple(ids), logprobs


def _id(token: str) -> int:
    if not token.startswith(TOKEN):
        raise RuntimeError("the policy server answers in text, not in ids: it needs vLLM's `return_tokens_as_token_ids`")
    return int(token.removeprefix(TOKEN))


def served_model(url: str) -> str:
    """The name of the model that a server has."""
    from homerl.llm.serve import models

    found = models(f"{url}/v1")
    if not found:
        raise Stalled(f"the policy server at {url} does not answer")
    return found[0]
