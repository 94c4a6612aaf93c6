"""Measures the first prompts of a recipe's blueprints, before a model would be trained on dialogues that it cannot take.

The scripted expert plays some blueprints of each source. What the agent has read before its first message is the first
prompt: instructions, tools, the list of devices, and the user's first words.

Invariants: no model is loaded, and nothing is written; the first process of a run measures; the tokenizer of a model from
scratch is made from these dialogues alone, so its figures are approximate, and rather low.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from homerl.app.runs.checks.rehearsal import RehearsalSource, find_blueprint_sources
from homerl.envs.core.documents import InputError
from homerl.host.recipe_keys import BaseRecipe
from homerl.host.terminal import count_with_noun
from homerl.models.policy.chat_template import chat_format_of, encode_shielded, is_homerl_template, render_new_messages
from homerl.models.policy.policy_agent import encode_guest_prompt
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import let_user_speak, play
from homerl.play.situation import Observation
from homerl.play.trajectory import Trajectory, trajectory_to_row
from homerl.train.model_settings import ModelSettings
from homerl.train.model_sources import read_max_positions
from homerl.train.tiny_model import make_row_tokenizer
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

BLUEPRINTS, LEAST = 64, 4  # that are measured of all sources together, and of each at least
CLOSE = 0.9  # of a limit, above which other dialogues may exceed it


@dataclass(frozen=True)
class OpenedEpisode:
    """What an agent sees at its first message, the number of devices, and the expert's whole episode, if it could play."""

    seen: Observation
    devices: int | None
    played: Trajectory | None


@dataclass(frozen=True)
class PromptSize:
    """Tokens of a first prompt, of its `tools`, of what was `told` before the user spoke, and of the expert's dialogue."""

    prompt: int
    tools: int
    told: int
    whole: int
    devices: int | None


@dataclass(frozen=True)
class PromptFinding:
    """A line about a source, and whether it warns."""

    line: str
    warns: bool = False


def measure_prompts(recipe: BaseRecipe, path: str) -> list[PromptFinding]:
    """What each source's prompts take of the model's limits; nothing for recipes without a model that plays.

    Raises `InputError` for a first prompt that exceeds a limit in training, and for dialogues that SFT would refuse.
    """
    model: ModelSettings | None = getattr(recipe, "model", None)
    found = [*find_blueprint_sources(recipe)] if model else []
    if model is None or not found:
        return []
    count = max(LEAST, BLUEPRINTS // len(found))
    opened = {source.key: [*_open_episodes(source, count)] for source in found}
    try:
        tokenizer = _load_tokenizer(recipe, model, [one for some in opened.values() for one in some])
        positions = _find_max_positions(model)
    except InputError:
        raise
    except (OSError, ValueError) as error:
        return [PromptFinding(f"not measured, since there is no tokenizer: {str(error).splitlines()[0]}")]
    about = "about " if model.from_scratch else ""
    described = []
    for source in found:
        if sizes := [_measure_prompt(tokenizer, one) for one in opened[source.key]]:
            limits = _limits_of_source(recipe, source, positions)
            described.append(_describe_source(source, sizes, limits, about, path))
    return described


def _open_episodes(source: RehearsalSource, count: int) -> Iterator[OpenedEpisode]:
    """Some episodes of a source, from seeds that are spread evenly. Seeds without a blueprint are left out."""
    count = min(count, source.count)
    for number in range(count):
        try:
            blueprint = make_blueprint_of_seed(source.recipe, source.split, source.first + number * source.count // count)
        except InputError:  # the world drew too many candidates that it had to drop
            continue
        episode = begin_episode(blueprint_with_behaviours(blueprint, source.behaviours, source.recipe), source.limits)
        world, user = world_of(blueprint), ScriptedUser(0)
        devices = world.count_devices(blueprint.model_dump(mode="json"))
        if user.name not in world.users:
            seen = episode.observation
            yield OpenedEpisode(replace(seen, messages=(*seen.messages, {"role": "user", "content": "."})), devices, None)
            continue
        try:
            asyncio.run(let_user_speak(episode, user))
            seen = episode.observation
            played = asyncio.run(play(episode, world.expert(source.expert, 0), user))
        except EPISODE_ERRORS:
            continue
        yield OpenedEpisode(seen, devices, played)


def _load_tokenizer(recipe: BaseRecipe, model: ModelSettings, opened: Sequence[OpenedEpisode]) -> Any:
    """The recipe's tokenizer. That of a model from scratch is made from the expert's dialogues."""
    if model.from_scratch is None:
        from homerl.train.training_setup import load_chat_tokenizer

        return load_chat_tokenizer(model.name or "", own=recipe.run == "bench", named=model.shows_tool_names_only)
    rows = [trajectory_to_row(one.played) for one in opened if one.played]
    if not rows:
        raise ValueError("the expert has played nothing that it could be made from")
    return make_row_tokenizer(rows, model.from_scratch)


def _find_max_positions(model: ModelSettings) -> dict[str, int]:
    """The most tokens that the model takes, by the key that it is of; empty if the model does not say so."""
    if model.from_scratch is not None:
        return {"model.from_scratch.max_positions": model.from_scratch.max_positions}
    most = read_max_positions(model.name or "")
    return {"model.name": most} if most else {}


def _measure_prompt(tokenizer: Any, one: OpenedEpisode) -> PromptSize:
    seen = one.seen
    prompt, bare = (len(_encode_prompt(tokenizer, shown)) for shown in (seen, replace(seen, tools=())))
    before = (message["content"] for message in seen.messages if message["role"] != "user")
    told = sum(len(encode_shielded(tokenizer, text)) for text in before)
    whole = prompt
    if one.played and is_homerl_template(tokenizer.chat_template or ""):
        dialogue = chat_format_of(tokenizer).render_dialogue(tokenizer, one.played.messages, one.played.tools)
        whole = len(encode_shielded(tokenizer, dialogue))
    return PromptSize(prompt, prompt - bare, told, whole, one.devices)


def _encode_prompt(tokenizer: Any, seen: Observation) -> list[int]:
    """The first prompt as the agent of a run gives it to the model."""
    if not is_homerl_template(tokenizer.chat_template or ""):
        return encode_guest_prompt(tokenizer, seen)
    return encode_shielded(tokenizer, render_new_messages(tokenizer, seen.messages, seen.tools, first=True))


def _limits_of_source(recipe: Any, source: RehearsalSource, positions: dict[str, int]) -> dict[str, int]:
    """The limits on a dialogue of a source, by key."""
    if source.recipe_section == "bench":
        return positions
    if source.recipe_section == "synth":
        return {"sft.max_length": recipe.sft.max_length, **positions}
    return {"rlve.max_episode_tokens": recipe.rlve.max_episode_tokens, **positions}


def _describe_source(
    source: RehearsalSource, sizes: Sequence[PromptSize], limits: Mapping[str, int], about: str, path: str
) -> PromptFinding:
    """The line of a source. Raises `InputError` if its prompts or dialogues cannot be trained on."""
    longest, whole = max(sizes, key=lambda size: size.prompt), max(size.whole for size in sizes)
    extra, each = max(size.whole - size.prompt for size in sizes), tokens_per_device(sizes)
    parts = [f"{longest.tools:,} of tools"] * (longest.tools > 0)
    parts += [f"{round(each * (longest.devices or 0)):,} of {longest.devices} devices"] * (each > 0)
    line = f"{source.key}: the first prompts of {count_with_noun(len(sizes), 'blueprint')} have up to {about}"
    line += f"{longest.prompt:,} tokens"
    line += f" ({', '.join(parts)})" * bool(parts)
    if not limits:
        return PromptFinding(line)
    key, limit = min(limits.items(), key=lambda item: item[1])
    spare = (limit - longest.prompt - extra) / each if each else 0
    fits = f"about {max(0, int((longest.devices or 0) + spare)):,} devices fit" * (each > 0)
    refuse = partial(length_error, fits, f"{path}: {source.key}")
    if longest.prompt >= limit and source.recipe_section != "bench":
        raise refuse(key, limit, f"a first prompt has {about}{longest.prompt:,} tokens")
    if source.own_dialogues and whole > (most := limits["sft.max_length"]):
        raise refuse("sft.max_length", most, f"a dialogue of the expert has {about}{whole:,} tokens")
    left = f"{key} {limit:,} leaves {max(0, limit - longest.prompt):,}, of which the expert's dialogues take up to {extra:,}"
    typical = median(size.whole for size in sizes)
    warning = f"a typical dialogue of the expert has {typical:,.0f}" * (typical > limit)
    if source.own_dialogues and not warning and whole > CLOSE * limit:
        warning = f"other dialogues may be longer than these, and {key} is close"
    return PromptFinding("; ".join(filter(None, (line, left, fits, warning))), bool(warning))


def length_error(fits: str, where: str, key: str, limit: int, what: str) -> InputError:
    """The error for a length that exceeds the limit of a key; `fits` says how many devices fit, if that is known."""
    more = "take a model with a longer context" if key == "model.name" else f"raise {key}"
    fewer = f"fewer devices ({fits})" if fits else "blueprints with shorter prompts"
    return InputError(f"{what}, and {key} is {limit:,}", where, f"{more}, or take {fewer}")


def tokens_per_device(sizes: Sequence[PromptSize]) -> float:
    """The tokens that a device adds to a first prompt; 0 if devices are not listed there.

    Where homes are of like size, the instructions are counted with the devices, so that rather too few devices fit.
    """
    devices, told = np.array([size.devices or 0 for size in sizes]), np.array([size.told for size in sizes])
    if not devices.all():
        return 0.0
    at_most = float(np.mean(told / devices))
    if devices.min() == devices.max():
        return at_most
    each = float(np.polyfit(devices, told, 1)[0])
    if each < 1:
        return 0.0
    return min(each, at_most) if devices.max() >= 2 * devices.min() else at_most
