"""Finds whom a person wants to talk with (a run, a model, an endpoint, an agent without a model), and the terms of the talk.

Invariant: what is not there is refused before anything is loaded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from homerl.app.chat.session import GUEST, ChatPartner, ChatSession, ChatTerms
from homerl.app.play_suite import OF_SERVER
from homerl.app.served.model_agents import (
    LoadedModel,
    find_served_model,
    is_model_url,
    load_local_model,
    refuse_missing_model,
)
from homerl.envs.core.documents import InputError, suggest_near_path
from homerl.envs.core.documents.validation import did_you_mean
from homerl.host.recipe_files import STAGES
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import refuse_secret
from homerl.models.endpoint.vllm_server import describe_server_trouble
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import Agent
from homerl.report.cards.export import find_trained_stage
from homerl.report.cards.model_lineage import mixture_parts, read_talk_terms
from homerl.train.model_sources import is_local_model_name, is_model_folder, refuse_changed_export, resolve_model_source
from homerl.worlds.contract import Visits
from homerl.worlds.registry import known_worlds, world_of

Data = Mapping[str, Any]


def find_model_and_terms(folder: Path) -> tuple[Path, ChatTerms]:
    """The model of a folder, which is a run's, a stage's, an export's or a model's own, and what is known of it.

    Raises `InputError` if there is no model in it.
    """
    model = folder if is_model_folder(folder) else find_trained_stage(folder) / "model"
    told = read_talk_terms(model)
    usual, plain = EpisodeLimits(), ChatTerms()
    return model, ChatTerms(
        recipes=mixture_parts(told.get("recipe") or GUEST),
        temperature=told.get("temperature", plain.temperature),
        max_tokens=told.get("max_tokens", plain.max_tokens),
        steps=told.get("steps", usual.steps_per_turn),
        turns=told.get("turns") or usual.turns or 1,
    )


PATIENCE = Patience(timeout=600, deadline=600, tries=2)  # a model on a processor may take minutes, and ^C stops it


@dataclass(frozen=True)
class ChatRequest:
    """What a person asked for on the command line. None leaves it to the run."""

    what: str
    like: Path | None = None
    home: Path | None = None
    seed: int = 0
    world: str | None = None
    served: str | None = None
    cpu: bool = False
    temperature: float | None = None
    max_tokens: int | None = None
    steps: int | None = None


def open_chat_session(wanted: ChatRequest) -> ChatSession:
    """The session that a person wants. Raises `InputError` for whatever is not there or cannot be visited."""
    # Agents without a model. Those that play tasks whose solution they hold understand no words.
    visits = [world.visits for world in known_worlds().values() if world.visits]
    hearing = {name: agent for visit in visits for name, agent in visit.agents.items()}
    if any(wanted.what in world.baselines for world in known_worlds().values()) and wanted.what not in hearing:
        what = f"'{wanted.what}' plays tasks whose solution it holds, and understands no words"
        raise InputError(what, remedy=f"talk with {', '.join(hearing)}, or with a model")
    model, terms = _choose_partner(wanted, hearing)
    given: dict[str, Any] = {"temperature": wanted.temperature, "max_tokens": wanted.max_tokens, "steps": wanted.steps}
    terms = replace(terms, **{name: value for name, value in given.items() if value is not None})
    visited, recipe = _choose_world(terms, wanted.world)
    blueprint = visited.blueprint(recipe, wanted.home, wanted.seed)
    return ChatSession(visited, blueprint, model(terms), terms, wanted.seed)


def _choose_partner(
    wanted: ChatRequest, made: Mapping[str, Callable[[], Agent]]
) -> tuple[Callable[[ChatTerms], ChatPartner], ChatTerms]:
    """How the partner is made once the terms are settled, and the terms that come with it, or those of `--like`."""
    like = find_model_and_terms(wanted.like)[1] if wanted.like else None
    if wanted.what in made:
        return lambda _: ChatPartner(wanted.what, lambda seed: made[wanted.what]()), like or ChatTerms()
    if is_model_url(wanted.what):
        refuse_secret("", wanted.what)
        urls = wanted.what.split(",")
        if wanted.served and (found := describe_server_trouble(urls[0], "OPENAI_API_KEY")):
            raise InputError(f"the server {found}", urls[0], "is it running? the address ends in /v1")
        name = wanted.served or find_served_model(wanted.what)
        return lambda terms: make_endpoint_partner(wanted.what, name, terms), like or ChatTerms(max_tokens=OF_SERVER)
    folder, terms = _find_model_folder(wanted.what, made)
    return lambda terms: make_local_partner(load_local_model(folder, wanted.cpu, _name_model(folder)), terms), like or terms


def load_named_model(what: str, cpu: bool) -> LoadedModel:
    """The model of a run, of a folder or of the hub, loaded. Raises `InputError` if there is none."""
    folder, _ = _find_model_folder(what)
    return load_local_model(folder, cpu, _name_model(folder))


def _find_model_folder(what: str, known: Iterable[str] = ()) -> tuple[str, ChatTerms]:
    """The folder or hub id of a model, and what is known of it."""
    path = Path(resolve_model_source(what))
    if path.exists():
        refuse_changed_export(path)
        folder, terms = find_model_and_terms(path)
        return str(folder), terms
    if is_local_model_name(what) and what not in known:
        near = get_close_matches(what, known, n=1)
        remedy = f"did you mean {near[0]}?" if near else suggest_near_path(path)
        raise InputError("there is no such run or model", what, remedy)
    refuse_missing_model(what, known, where="")
    return what, ChatTerms()


def _name_model(model: str) -> str:
    """What a model is called: like its run, and like its stage where a run has several."""
    path = Path(model).resolve() if Path(model).exists() else Path(model)
    stage = path.parent if path.name == "model" else path
    return f"{stage.parent.name}-{stage.name}" if stage.name in STAGES else stage.name


def make_endpoint_partner(url: str, name: str, terms: ChatTerms) -> ChatPartner:
    """A model behind an endpoint."""
    from homerl.models.endpoint.llm_agent import LLMAgent

    endpoint = Endpoint(url.split(","), name, PATIENCE)
    drawn = terms.temperature > 0  # at 0 nothing is drawn, and some servers take no seed
    return ChatPartner(name, lambda seed: LLMAgent(endpoint, terms.temperature, terms.max_tokens, seed if drawn else None))


def make_local_partner(model: LoadedModel, terms: ChatTerms) -> ChatPartner:
    """A model that this process has loaded."""
    return ChatPartner(model.name, lambda seed: model.make_agents(terms.max_tokens, terms.temperature, seed)())


def _choose_world(terms: ChatTerms, wanted: str | None) -> tuple[Visits, Mapping[str, Any]]:
    """The world to visit and the recipe of its homes: the first that can be visited, or the wanted one of them.

    A part of a mixture is wanted by its own name or by its world's.
    """
    parts = {name: (world_of(recipe), recipe) for name, recipe in terms.recipes.items()}
    if wanted is not None:
        known = {**{world.name: (world, recipe) for world, recipe in parts.values()}, **parts}
        known.pop("", None)
        if wanted not in known and wanted in known_worlds():
            known[wanted] = (known_worlds()[wanted], {})
        if wanted not in known:
            raise InputError(f"there are no homes of '{wanted}'", "--world", did_you_mean(wanted, [*known]))
        parts = {wanted: known[wanted]}
    for world, recipe in parts.values():
        if world.visits is not None:
            return world.visits, recipe
    names = ", ".join(f"'{name}'" for name in dict.fromkeys(world.name for world, _ in parts.values()))
    what = f"nobody can visit the world {names}: each of its episodes ends with its one request"
    open_worlds = (f"'{world.name}'" for world in known_worlds().values() if world.visits)
    raise InputError(what, "--world", f"visit {', '.join(open_worlds)}")
