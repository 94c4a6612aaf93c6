"""Who words blueprints: the scripted author, and the LLM that paraphrases requests.

The scripted author makes a blueprint of a seed: the episode is tested, and its request is put into words. A paraphrase is
used only if it certainly means the same as the request. It must name the same rooms, kinds of devices, numbers and times,
belong to the same split, and be neither a copy nor garbled. A complaint (QT2) does not name what it wants. There a second
request sees only the paraphrase, and must recover which room variables should change in which direction.

Invariants: a blueprint is a pure function of (recipe, split, seed); the two splits share no home and no sentence.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from typing import Literal

from homerl.envs.core.model import Model
from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.tasks.answer_checks import all_wordings, expert_reply
from homerl.envs.simuhome.tasks.blueprint import SimuHomeBlueprint, SimuHomeIntent, SimuHomeRecipe, blueprint_from_episode
from homerl.envs.simuhome.tasks.episode_generator import FIXED_ROOMS, OTHER_ROOMS, Scale, generate_episode
from homerl.envs.simuhome.tasks.sentences import plain_speaker, request_text, request_wordings
from homerl.play.words.grammar import NoSentence, Voice
from homerl.worlds.contract import no_blueprint_error
from homerl.worlds.paraphraser import Paraphraser, ParaphraseRejected, refuse_bad_paraphrase

MAX_EPISODES = 60
GOALS, UNSAID = "author: another number of goals", "author: no sentence of this split"
REMEDIES = {  # for the reasons by which episodes are not used
    GOALS: "allow other numbers of `goals`, or ask for larger homes (`devices`, `kinds`)",
    UNSAID: "raise `temperature`: each split needs sentences of its own",
}


def make_simuhome_blueprint(
    recipe: SimuHomeRecipe, split: Literal["train", "heldout"], seed: int, dropped: Counter[str] | None = None
) -> SimuHomeBlueprint:
    """The first episode of this seed whose request can be worded in sentences of the split.

    `dropped` counts, by reason, the episodes that were not used. Raises `InputError` after too many of them.
    """
    rng = random.Random(f"simuhome {split} {seed}")
    groups = recipe.group_weights()
    query_type, case = rng.choices(list(groups), list(groups.values()))[0].split("/")
    dropped = Counter() if dropped is None else dropped
    return make_group_blueprint(recipe, split, query_type, case, f"{split}-{seed}", rng, dropped)


def make_group_blueprint(
    recipe: SimuHomeRecipe,
    split: Literal["train", "heldout"],
    query_type: str,
    case: str,
    id: str,
    rng: random.Random,
    dropped: Counter[str],
) -> SimuHomeBlueprint:
    """A blueprint of one group: a query type, and `feasible` or `infeasible`."""
    voice, before = Voice(recipe.language, recipe.temperature, recipe.frames), dropped.copy()
    for _ in range(MAX_EPISODES):
        # Even seeds make the homes of `train`, odd ones those of `heldout`. So the splits share no home.
        number = 2 * rng.getrandbits(40) + (split == "heldout")
        episode = generate_episode(query_type, case, number, Scale(recipe.devices, recipe.kinds))
        if not recipe.goals[0] <= len(episode.eval.goals) <= recipe.goals[1]:
            dropped[GOALS] += 1
            continue
        try:
            said = request_wordings(episode, voice, split, recipe.phrasings, rng)
        except NoSentence:
            dropped[UNSAID] += 1
            continue
        home = load.start_home(episode.initial_home_config, recipe.strict)
        shared = recipe.model_dump(include={"language", "preserve", "strict", "toolset", "prompt"})
        return blueprint_from_episode(
            episode.model_copy(update={"query": said[0]}),
            id,
            queries=said,
            clarification=request_text(episode, plain_speaker(recipe.language)),
            reply=expert_reply(episode, home, recipe.language),
            split=split,
            seed=rng.getrandbits(31),
            **shared,
        )
    what = f"no blueprint of {query_type}/{case} in {MAX_EPISODES} attempts for {id}"
    raise no_blueprint_error(what, dropped - before, REMEDIES)


NUMBER = re.compile(r"\d+(?::\d{2})?")
RECOVER = """You are told what a person says to a smart home. Answer with one JSON object: {"wants": [{"room_id": "...",
"room_state": "...", "direction": "increase" or "decrease"}]}, which room variables (temperature, humidity, illuminance,
pm10) the person would like to go which way, by room."""


# The endpoint is sent these two models as a JSON Schema. So their names and docstrings are a part of the request.


class Wish(Model):
    """A variable of a room that is to go one way."""

    room_id: str
    room_state: Literal["temperature", "humidity", "illuminance", "pm10"]
    direction: Literal["increase", "decrease"]


class Wishes(Model):
    """The second answer."""

    wants: tuple[Wish, ...]


class SimuHomeParaphraser(Paraphraser):
    """Rewords the requests of SimuHome's blueprints."""

    async def paraphrased(self, query: str, intent: SimuHomeIntent, blueprint: SimuHomeBlueprint, home: None) -> str:
        """A paraphrase with the same meaning. Raises `ParaphraseRejected` with the rule that it breaks."""
        paraphrase = await self.asked(query, blueprint)
        refuse_bad_paraphrase(query, paraphrase, blueprint.split)
        if _count_names(query.lower()) != _count_names(paraphrase.lower()):
            raise ParaphraseRejected("other names")
        if Counter(NUMBER.findall(query.lower())) != Counter(NUMBER.findall(paraphrase.lower())):
            raise ParaphraseRejected("other values")
        if intent.family == "qt2":
            told = f"Rooms: {', '.join(sorted(blueprint.home['rooms']))}\n\nThe person says: {paraphrase}"
            recovered = await self.client.ask(RECOVER, told, Wishes, blueprint.seed, temperature=0.0)
            wishes = {(wish.room_id, wish.room_state, wish.direction) for wish in recovered.wants}
            goals = blueprint.task["eval"]["goals"]
            if wishes != {(goal["room_id"], goal["room_state"], goal["direction"]) for goal in goals}:
                raise ParaphraseRejected("another meaning")
        return paraphrase


def _count_names(text: str) -> Counter[str]:
    """How often a text names each room and each kind of device.

    Longer names are counted first and removed, so that a `dimmer light` does not count as a `light`.
    """
    owners = {way.lower(): f"room.{room}" for room in (*FIXED_ROOMS, *OTHER_ROOMS) for way in all_wordings(f"room.{room}")}
    owners |= {way.lower(): f"kind.{kind}" for kind in device_types() for way in all_wordings(f"kind.{kind}")}
    counts: Counter[str] = Counter()
    for way in sorted(owners, key=len, reverse=True):
        pattern = re.compile(rf"(?<![a-z]){re.escape(way)}s?(?![a-z])" if way.isascii() else re.escape(way))
        counts[owners[way]] += len(pattern.findall(text))
        text = pattern.sub(" \x00 ", text)
    return +counts
