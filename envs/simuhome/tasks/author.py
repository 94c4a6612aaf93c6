"""The scripted author: it makes a blueprint of a seed. The episode is tested, and its request is put into words.

Invariants: a blueprint is a pure function of (recipe, split, seed); the two splits share no home and no sentence.
"""

from __future__ import annotations

import random
from collections import Counter
from typing import Literal

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim.generate import Scale, generate_episode
from homerl.envs.simuhome.tasks.answer_checks import expert_reply
from homerl.envs.simuhome.tasks.blueprint import SimuHomeBlueprint, SimuHomeRecipe, blueprint_from_episode
from homerl.envs.simuhome.tasks.sentences import plain_speaker, request_text, request_wordings
from homerl.play.words.grammar import NoSentence, Voice
from homerl.worlds.contract import no_blueprint_error

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
