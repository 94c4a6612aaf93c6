"""Settings of chat models in recipes: where they answer, how they are asked, and which role they play; and how users behave.

Invariants: settings hold the name of the variable with a key, never the key; `answer_settings` holds all that answers
depend on, so it is the same whether a model runs at `url` or is served by the run.
"""

from __future__ import annotations

import re
from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model, field_left_out_at_default

NO_KEY = "OPENAI_API_KEY"  # may be unset: local servers need no key
KEY_VARIABLE = "^[A-Z_][A-Z0-9_]*$"
TRANSPORT = {"url", "serve", "key", "timeout", "deadline", "retries", "audit"}  # what answers do not depend on
SERVED = {"model", "max_length", "arguments"}  # the part of `serve` that answers depend on


def url_holds_secret(url: str) -> bool:
    """Whether an address names a user or has a query. Addresses are stored and shown, so no key may stand in them."""
    return re.search(r"[?#]|//[^/]*@", url) is not None


def refuse_secret(option: str, urls: str | None) -> None:
    """Raise `InputError` for an address, or one of several, that an option gives and that may hold a key."""
    if any(map(url_holds_secret, (urls or "").split(","))):
        remedy = "export OPENAI_API_KEY, which is sent to the server"
        raise InputError("no user, password or query in an address", option, remedy)


class ServeSettings(Model):
    """A vLLM server that the run starts and stops."""

    model: str = Field(description="Hub id or folder of the model.")
    gpus: tuple[int, ...] = Field(min_length=1, description="GPUs that serve it; training takes the others.")
    port: int = Field(8400, ge=1, le=65535, description="Port that the server listens on.")
    tensor_parallel: int | None = Field(
        None, ge=1, description="GPUs of one copy of the model; fewer than `gpus` gives several copies."
    )
    max_length: int = Field(16384, ge=1, description="Most tokens of prompt and answer together.")
    gpu_memory: float = Field(0.9, gt=0, le=1, description="Share (0 to 1) of each GPU's memory.")
    start_seconds: float = Field(1800, gt=0, description="Seconds to wait until the server answers.")
    arguments: tuple[str, ...] = Field((), description="Further arguments of `vllm serve`.")

    @model_validator(mode="after")
    def _fits(self) -> ServeSettings:
        if len(self.gpus) % (self.tensor_parallel or 1):
            raise ValueError(f"{len(self.gpus)} GPUs do not divide into copies on {self.tensor_parallel}")
        return self


class EndpointSettings(Model):
    """A running endpoint (`url`, one or several replicas) or a model to `serve`, and how it is asked."""

    model: str | None = Field(None, description="Name of the model in requests; null is that in `serve`.")
    url: str | tuple[str, ...] | None = Field(
        None, description="Address of an endpoint, as http://host:8000/v1, or of replicas."
    )
    serve: ServeSettings | None = Field(None, description="A vLLM server that the run starts, in place of `url`.")
    key: str = Field(
        NO_KEY, pattern=KEY_VARIABLE, description="Environment variable with the API key, never the key itself."
    )
    temperature: float = Field(0.7, ge=0, description="Sampling temperature.")
    max_tokens: int = Field(300, ge=1, description="Most tokens of an answer.")
    extra: dict[str, Any] = Field({}, description="Further fields of requests.")
    timeout: float = Field(60.0, gt=0, description="Seconds for one try of a request.")
    deadline: float = Field(300.0, gt=0, description="Seconds for all tries of a request.")
    retries: int = Field(4, ge=0, description="Tries after the first.")

    @field_validator("url")
    @classmethod
    def _askable(cls, url: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        for one in (url,) if isinstance(url, str) else url or ():
            if url_holds_secret(one):
                raise ValueError("no user, password or query in it: export a key, and name its variable in `key`")
            if urlsplit(one).scheme not in ("http", "https"):
                raise ValueError("an address begins with http:// or https://")
        return url

    @property
    def is_llm(self) -> bool:
        """Whether a chat model plays this role at all; only a user may be scripted instead."""
        return True

    @property
    def urls(self) -> tuple[str, ...]:
        """The addresses of all replicas; empty if the run serves the model."""
        return (self.url,) if isinstance(self.url, str) else self.url or ()

    @property
    def served_name(self) -> str:
        """The name of the model in requests; empty if no chat model plays the role."""
        return self.model or (self.serve.model if self.serve else "")

    @property
    def answer_settings(self) -> dict[str, Any]:
        """The settings that answers depend on, as plain data."""
        asked = self.model_dump(mode="json", exclude=TRANSPORT) | {"model": self.served_name or None}
        if self.serve:
            served = self.serve.model_dump(mode="json", include=SERVED, exclude_defaults=True)
            asked |= {"serve": served} if served != {"model": asked["model"]} else {}
        return asked

    @model_validator(mode="after")
    def _reachable(self) -> EndpointSettings:
        if self.is_llm and bool(self.urls) == bool(self.serve):
            raise ValueError("an llm needs either `url` or `serve`")
        if self.is_llm and not self.served_name:
            raise ValueError("an llm needs `model`")
        return self


class Behaviours(Model):
    """How often people tell a wish other than at once, as shares of wishes."""

    disclosure: float = Field(0.0, ge=0, le=1, description="Share (0 to 1) told in parts, over two utterances.")
    self_correction: float = Field(
        0.0, ge=0, le=1, description="Share (0 to 1) in which the user errs and corrects it at once."
    )
    change_of_mind: float = Field(0.0, ge=0, le=1, description="Share (0 to 1) that a later turn replaces.")
    beside_the_point: float = Field(
        0.0, ge=0, le=1, description="Share (0 to 1) whose question is first answered with something else."
    )

    @model_validator(mode="after")
    def _one_a_wish(self) -> Behaviours:
        if self.disclosure + self.self_correction + self.change_of_mind > 1:
            raise ValueError(
                "disclosure, self_correction and change_of_mind: their sum should be at most 1, for a wish has one of them"
            )
        return self


AT_ONCE = Behaviours()


class AuditSettings(Model):
    """What `homerl audit-user` asks of a user."""

    on_topic: float = Field(
        0.5, ge=0, le=1, description="Smallest share (0 to 1) of wishes whose first utterance names something of theirs."
    )
    dataset: str | None = Field(
        None,
        description="Dialogues of people to compare with: a JSON file, its URL, or a dataset of the hub; null is nobody.",
    )
    behaviour_gap: float = Field(
        0.1, ge=0, le=1, description="Largest difference (0 to 1) from the dataset's rate of a behaviour."
    )


class BenchUser(Model):
    """The user of a suite, who is scripted."""

    behaviours: Behaviours = Field(AT_ONCE, description="How often people tell a wish other than at once.")


class UserSettings(EndpointSettings):
    """The user. All keys but `kind` and `behaviours` are of a chat model."""

    kind: Literal["scripted", "llm"] = Field(
        "scripted", description="Who speaks: the `scripted` user, or a chat model (`llm`)."
    )
    structured: bool = Field(True, description="Whether the model answers as JSON by a schema, where its server can.")
    patience: int = Field(3, ge=1, description="Empty claims of the agent in a row after which the user gives up.")
    noise: float = Field(0.0, ge=0, le=1, description="Share (0 to 1) of utterances with slips of speech.")
    behaviours: Behaviours = field_left_out_at_default("How often people tell a wish other than at once.", AT_ONCE)
    audit: AuditSettings = Field(AuditSettings(), description="What `homerl audit-user` lets pass.")

    @property
    def is_llm(self) -> bool:
        """Whether a chat model speaks, in place of the scripted user."""
        return self.kind == "llm"


class AgentSettings(EndpointSettings):
    """A chat model as the agent of a synthesis."""

    temperature: float = Field(1.0, ge=0, description="Sampling temperature.")
    max_tokens: int = Field(1024, ge=1, description="Most tokens of an answer.")


class AuthorSettings(EndpointSettings):
    """A chat model that writes people, scenes and tasks, and judges the tasks."""

    temperature: float = Field(1.0, ge=0, description="Sampling temperature.")
    max_tokens: int = Field(4096, ge=1, description="Most tokens of an answer.")
    attempts: int = Field(5, ge=1, description="Candidates for a blueprint before its seed is given up.")


class ParaphraseSettings(EndpointSettings):
    """A chat model that rewords queries, and checks each paraphrase."""

    temperature: float = Field(1.0, ge=0, description="Sampling temperature.")
    max_tokens: int = Field(400, ge=1, description="Most tokens of an answer.")
