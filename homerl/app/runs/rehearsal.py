"""What is tried with a recipe's tasks before the run begins its work: an episode of each source, and the length of prompts.

A source is a blueprint recipe or a file of blueprints: of the synthesis, the training, the evaluation and each suite. The
scripted expert plays one episode of it (`rehearse_recipe`), and then some more, of which the first prompts are measured
(`measure_prompts`). What the agent has read before its first message is the first prompt: instructions, tools, the list of
devices, and the user's first words.

Invariants:
- A plug-in with a bug (a query type, a toolset, a reward, a world) fails here, and not after a model was loaded. Dialogues
  that the model cannot take are refused here too.
- No model is loaded, and nothing is written. The first process of a run measures.
- The tokenizer of a model from scratch is made from these dialogues alone, so its figures are approximate, and rather low.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import median
from typing import Any

import numpy as np

from homerl.envs.core.documents import InputError
from homerl.host.recipe_files import BaseRecipe
from homerl.host.terminal import count_with_noun
from homerl.models.endpoint.endpoint_settings import AT_ONCE, Behaviours
from homerl.models.policy.chat_template import chat_format_of, encode_shielded, is_homerl_template, render_new_messages
from homerl.models.policy.policy_agent import encode_guest_prompt
from homerl.play.bench_results import METRICS, count_metrics
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import EPISODE_ERRORS
from homerl.play.loop import let_user_speak, play
from homerl.play.situation import Observation
from homerl.play.trajectory import Trajectory, trajectory_to_row
from homerl.play.words.grammar import Split
from homerl.rewards.composite import RewardWeights, step_rewards
from homerl.train.model_settings import ModelSettings
from homerl.train.model_sources import read_max_positions
from homerl.train.tiny_model import make_row_tokenizer
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, make_blueprint_of_seed, world_of
from homerl.worlds.users import ScriptedUser

SEEDS = 5  # seeds of which one must give a blueprint
FLAWLESS = ExpertConfig(mistakes=0.0)


@dataclass(frozen=True)
class RehearsalSource:
    """A source of blueprints under a recipe's `key`: `count` of them, from the seed `first` on, and how they are played.

    `own_dialogues` says that the expert's dialogues are what is trained on.
    """

    key: str
    recipe: Any
    split: Split
    first: int
    count: int
    limits: EpisodeLimits
    behaviours: Behaviours = AT_ONCE
    expert: ExpertConfig = FLAWLESS
    own_dialogues: bool = False

    @property
    def recipe_section(self) -> str:
        """The section of the recipe that names it."""
        return self.key.partition(".")[0]


def rehearse_recipe(recipe: BaseRecipe) -> list[str]:
    """Play the first blueprint of each source with the scripted expert and user; compute its steps' rewards and its metrics.

    Returns a line for each source that says how its episode ended. Raises `InputError` if no seed gives a blueprint, and
    the error of any part that has a bug.
    """
    weights = getattr(recipe, "rewards", RewardWeights())
    lines = []
    for named in find_blueprint_sources(recipe):
        key, source = named.key, named.recipe
        blueprint = _first_blueprint(key, source, named.split, named.first)
        episode = begin_episode(blueprint, EpisodeLimits())
        world = world_of(blueprint)
        if ScriptedUser.name not in world.users:
            lines.append(f"{key}: {blueprint.id} begins, and only an LLM user can play it")
            continue
        if beyond := sorted(set(world.out_of_reach(source))):
            lines.append(f"{key}: the agent's tools do nothing with {', '.join(beyond)}")
        expert = world.expert(FLAWLESS, 0)
        trajectory = asyncio.run(play(episode, expert, ScriptedUser(0)))
        for kind in {type(metric) for metric in METRICS.values()}:
            count_metrics(kind, trajectory, world, {})
        total = sum(sum(step_rewards(step.facts, weights).values()) for step in trajectory.steps)
        ended = f"{count_with_noun(len(trajectory.steps), 'step')}, {trajectory.outcome}, reward {total:.2f}"
        lines.append(f"{key}: the scripted expert played {blueprint.id}: {ended}")
    return lines


def find_blueprint_sources(recipe: BaseRecipe) -> Iterator[RehearsalSource]:
    """The sources of blueprints, each part of a mixture by itself. An LLM author's blueprints cannot be made here."""
    for source in _list_named_sources(recipe):
        mixed = getattr(source.recipe, "worlds", None)
        if mixed is None:
            yield source
        else:
            for name, part in mixed.items():
                yield replace(source, key=f"{source.key}.worlds.{name}", recipe=part.recipe)


def _list_named_sources(recipe: Any) -> Iterator[RehearsalSource]:
    parts: Iterator[Any] = (getattr(recipe, part, None) for part in ("synth", "blueprints", "evaluation", "bench"))
    synth, training, evaluation, bench = parts
    if synth and not synth.author:
        stages = {f"synth.curriculum.{number}": stage for number, stage in enumerate(synth.curriculum)}
        of, expert = (synth.split, synth.first_seed), FLAWLESS if synth.agent else synth.expert
        count, played = -(-synth.blueprints // (len(stages) + 1)), (synth.limits, synth.user.behaviours)
        for key, stage in (stages | {"synth.recipe": synth.recipe}).items():
            yield RehearsalSource(key, stage, *of, count, *played, expert, own_dialogues=synth.agent is None)
    if training:
        played = recipe.limits, recipe.user.behaviours
        yield RehearsalSource("blueprints.recipe", training.recipe, "train", training.first_seed, training.count, *played)
        if evaluation.every:
            held = evaluation.recipe or training.recipe
            yield RehearsalSource("evaluation.recipe", held, "heldout", evaluation.first_seed, evaluation.count, *played)
    for number, suite in enumerate(bench.suites if bench else ()):
        if suite.benchmark is None:
            played, key = (bench.limits, suite.user.behaviours), f"bench.suites.{number}.recipe"
            yield RehearsalSource(key, suite.recipe, "heldout", suite.first_seed, suite.count, *played)


def _first_blueprint(key: str, source: Any, split: Split, first: int) -> Any:
    failures = []
    for seed in range(first, first + SEEDS):
        try:
            return make_blueprint_of_seed(source, split, seed)
        except InputError as error:  # the world drew too many candidates that it had to drop
            failures.append(error)
    if len(set(map(str, failures))) == 1:  # not the seeds' fault: a file that cannot be used, or lacks the split
        raise InputError(failures[0].what, ": ".join(filter(None, (key, failures[0].where))), failures[0].remedy)
    raise InputError(f"none of {SEEDS} seeds gives a blueprint: {failures[0].what}", key, failures[0].remedy)


# The length of prompts

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
    each = float(np.polyfit(devices, told, 1)[0])  # the slope: the instructions are the intercept
    if each < 1:
        return 0.0
    return min(each, at_most) if devices.max() >= 2 * devices.min() else at_most
