"""Settings of chat models in recipes: where they answer, how they are asked, and which role they play.

Invariants: settings hold the name of the variable with a key, never the key; `asked` holds all that answers depend on, so
it
is the same whether a model runs at `url` or is served by the run.
"""

from __future__ import annotations

from typing import Any, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from envs.model import Model

NO_KEY = "OPENAI_API_KEY"  # may be unset: local servers need no key
TRANSPORT = {"url", "serve", "key", "timeout", "deadline", "retries", "audit"}
SERVED = {"model", "max_length", "seed", "arguments"}  # the part of `serve` that answers depend on


class ServeSettings(Model):
    """A vLLM server that rank 0 starts and stops."""

    model: str
    gpus: tuple[int, ...] = Field(min_length=1)
    port: int = Field(8400, ge=1, le=65535)
    tensor_parallel: int | None = Field(None, ge=1, description="GPUs a copy of the model is spread over; all if left out")
    max_length: int = Field(16384, ge=1, description="tokens of prompt and answer together")
    gpu_memory: float = Field(0.9, gt=0, le=1, description="share of each GPU's memory")
    seed: int = 0
    start_seconds: float = Field(1800, gt=0, description="how long it may take until it answers")
    arguments: tuple[str, ...] = Field((), description="whatever else `vllm serve` is to be told")

    @model_validator(mode="after")
    def _fits(self) -> ServeSettings:
        if len(self.gpus) % (self.tensor_parallel or 1):
            raise ValueError(f"{len(self.gpus)} GPUs do not divide into copies on {self.tensor_parallel}")
        return self


class EndpointSettings(Model):
    """A running endpoint (`url`, one or several replicas) or a model to `serve`, and how it is asked."""

    model: str | None = None
    url: str | tuple[str, ...] | None = None
    serve: ServeSettings | None = None
    key: str = Field(NO_KEY, pattern="^[A-Z_][A-Z0-9_]*$", description="environment variable with the key")
    temperature: float = Field(0.7, ge=0)
    max_tokens: int = Field(300, ge=1)
    extra: dict[str, Any] = Field({}, description="further fields of each request, such as chat_template_kwargs")
    timeout: float = Field(60.0, gt=0, description="seconds for one request")
    deadline: float = Field(300.0, gt=0, description="seconds for all of its tries")
    retries: int = Field(4, ge=0, description="further tries after the first")

    @field_validator("url")
    @classmethod
    def _keyless(cls, url: str | tuple[str, ...] | None) -> str | tuple[str, ...] | None:
        for one in (url,) if isinstance(url, str) else url or ():
            if urlsplit(one).username is not None:
                raise ValueError("no user and password in it: export a key, and name its variable in `key`")
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
    def served_name(self) -> str | None:
        """The name of the model in requests."""
        return self.model or (self.serve.model if self.serve else None)

    @property
    def asked(self) -> dict[str, Any]:
        """The settings that answers depend on, as plain data."""
        asked = self.model_dump(mode="json", exclude=TRANSPORT) | {"model": self.served_name}
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


class AuditSettings(Model):
    """The limits of `homerl audit-user`, as shares of the blueprints played."""

    user_errors: float = Field(0.05, ge=0, le=1, description="users that left their role, whatever the reason")
    leaks: float = Field(0.01, ge=0, le=1)
    contradictions: float = Field(0.02, ge=0, le=1)
    infra_errors: float = Field(0.02, ge=0, le=1)
    success: float = Field(0.9, ge=0, le=1, description="at least so many end well")
    on_topic: float = Field(0.5, ge=0, le=1, description="at least so many wishes are opened by words about them")
    distinct: float = Field(0.5, ge=0, le=1, description="at least so many utterances differ")
    words: int = Field(60, ge=1, description="nine utterances in ten are no longer")


class UserSettings(EndpointSettings):
    """The user: scripted or a chat model, and how it behaves."""

    kind: Literal["scripted", "llm"] = "scripted"
    structured: bool = Field(True, description="ask for JSON by schema; servers that cannot are asked without")
    patience: int = Field(3, ge=1, description="claims in a row that changed nothing, after which the user gives up")
    verbosity: Literal["terse", "normal", "chatty"] = "normal"
    noise: float = Field(0.0, ge=0, le=1, description="share of utterances with the slips of speech")
    cooperation: Literal["open", "guarded", "reluctant"] = "open"
    audit: AuditSettings = AuditSettings()

    @property
    def is_llm(self) -> bool:
        """Whether a chat model speaks, in place of the scripted user."""
        return self.kind == "llm"


class AgentSettings(EndpointSettings):
    """A chat model as the agent of a synthesis; its candidates differ by sampling temperature."""

    temperature: float = Field(1.0, ge=0)
    max_tokens: int = Field(1024, ge=1)


class AuthorSettings(EndpointSettings):
    """A chat model that writes people, scenes and tasks; another request to it judges the tasks."""

    temperature: float = Field(1.0, ge=0)
    max_tokens: int = Field(4096, ge=1)
    attempts: int = Field(5, ge=1, description="candidates for one blueprint, after which its seed is given up")


class ParaphraseSettings(EndpointSettings):
    """A chat model that rewords queries, and interprets each paraphrase without seeing the original."""

    temperature: float = Field(1.0, ge=0)
    max_tokens: int = Field(400, ge=1)
