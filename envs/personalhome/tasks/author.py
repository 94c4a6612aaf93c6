"""Makes PersonalHome's blueprints: a household from a seed, and a task in it whose answers are computed.

A household may have a video in words (a transcript) of one of its situations.

Invariants:
- A blueprint is a pure function of recipe, split and seed, and a transcript one of household, domain and seed.
- The splits share no name, no frame of a text and no question.
- A draft that breaks a rule is dropped and counted.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.sim.appliance_catalogue import load_features, rank_features
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household import Household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.scene.scene_scripts import situation_domain
from homerl.envs.personalhome.sim.scene.transcript import Domain
from homerl.envs.personalhome.sim.scene.transcript_writer import write_transcript
from homerl.envs.personalhome.sim.situations import load_situations
from homerl.envs.personalhome.tasks import plan_rules
from homerl.envs.personalhome.tasks.blueprint import (
    LETTERS,
    Choice,
    Difficulty,
    Features,
    Grounding,
    Part,
    PersonalHomeBlueprint,
    PersonalHomeIntent,
    PersonalHomeRecipe,
    Plans,
    Task,
)
from homerl.envs.personalhome.tasks.questions import question_maker
from homerl.envs.personalhome.tasks.questions.question_maker import HouseholdQuestion, QuestionWording
from homerl.envs.personalhome.tasks.situation import user_question
from homerl.play.words.grammar import NoSentence, Split, draw_of_split
from homerl.worlds.contract import no_blueprint_error


def film_household(household: Household, seed: int, domain: Domain | None = None) -> Household | None:
    """The household with a video of its most urgent situation that can be played; None if there is none of the domain."""
    for key in household.context.situations:
        if domain not in (None, situation_domain(key)):
            continue
        try:
            transcript = write_transcript(household, key, seed, plan_rules.situation_room(household, load_situations()[key]))
        except InputError:  # the household lacks what the scripts of the situation need
            continue
        return household.model_copy(update={"transcript": transcript})
    return None


def scene_signs(household: Household) -> tuple[str, ...]:
    """The ids of the facts that let one conclude what situation a video shows; none if there is no video."""
    seen = household.transcript.inferred if household.transcript else ()
    return tuple(dict.fromkeys(f"scene:{id}" for one in seen for id in one.because))


TRIES = 60  # households that are tried before a seed is refused
TIERS = (3, 3, 4)  # highly relevant, relevant and less relevant features
MARGIN = 1.0  # by which the needs of two tiers differ at least


def make_personalhome_blueprint(
    recipe: PersonalHomeRecipe, split: Split, seed: int, dropped: Counter[str] | None = None
) -> PersonalHomeBlueprint:
    """The blueprint of a seed. Raises `InputError` if no draft keeps the rules."""
    rng = random.Random(f"personalhome {split} {seed}")
    counts: Counter[str] = Counter()
    kind, level, household_recipe = draw_recipe_choices(recipe, split, rng)
    for _ in range(TRIES):
        # The seed of the household. Its video has the same one.
        number = rng.randrange(1 << 31)
        made = make_household(number, household_recipe, counts)
        household = film_household(made, number) if recipe.scenes else made
        if household is None:
            counts["no situation that can be filmed"] += 1
            continue
        task = draw_task(kind, level, household, recipe, split, rng)
        if task is None:
            counts[f"no task of kind '{kind}' ({level})"] += 1
            continue
        if dropped is not None:
            dropped.update(counts)
        return task_to_blueprint(household, task, f"{split}-{seed}", seed, split, recipe)
    remedies = {"no ": "allow more tasks, difficulties or families", "": "report this recipe, with the seed"}
    raise no_blueprint_error(f"no blueprint of the seed {seed} in {TRIES} households", counts, remedies)


def draw_recipe_choices(
    recipe: PersonalHomeRecipe, split: Split, rng: random.Random
) -> tuple[str, Difficulty, HouseholdRecipe]:
    """What holds for all households that are tried: a kind of task, a difficulty, and the recipe of the households."""
    kind = rng.choices(list(recipe.tasks), list(recipe.tasks.values()))[0]
    level = rng.choices(list(recipe.difficulties), list(recipe.difficulties.values()))[0]
    lexicon = split if recipe.names == "split" else recipe.names
    return kind, level, recipe.household.model_copy(update={"lexicon": lexicon})


def task_to_blueprint(
    household: Household, task: Task, id: str, seed: int, split: Split, recipe: PersonalHomeRecipe
) -> PersonalHomeBlueprint:
    """A task as a blueprint."""
    query = user_question(task, household.language)
    subcategory = task.situations[0] if isinstance(task, Plans) else getattr(task, "difficulty", task.kind)
    intent = PersonalHomeIntent(family=task.kind, subcategory=subcategory, queries=(query,), clarification=query)
    return PersonalHomeBlueprint(
        id=id,
        seed=seed,
        split=split,
        language=household.language,
        setting=recipe.setting,
        tools=recipe.tools,
        household=household,
        task=task,
        intents=(intent,),
    )


def draw_task(
    kind: str, level: Difficulty, household: Household, recipe: PersonalHomeRecipe, split: Split, rng: random.Random
) -> Task | None:
    """A task of a kind; None if the household has none."""
    if kind == "features":
        return make_features_task(household, rng)
    if kind == "plans":
        return make_plans_task(household)
    wording = QuestionWording(household, rng.random() < recipe.personal)
    for question in question_maker.draw_questions(household, rng, recipe.families):
        text = question_in_words(question, wording, split, rng) if question.difficulty == level else None
        task = make_question_task(kind, question, text, wording, recipe, rng) if text is not None else None
        if task is not None:
            return task
    return None


def question_in_words(question: HouseholdQuestion, wording: QuestionWording, split: Split, rng: random.Random) -> str | None:
    """The question in words of a split; None if it has none, or states its answer."""
    texts = wording.question_texts(question.candidate)
    try:
        text = draw_of_split(lambda: rng.choice(texts), split)
    except NoSentence:
        return None
    answers = wording.answer_texts(question.candidate.answer, question.answer)
    return None if question_maker.is_answer_stated(text, answers) else text


def make_question_task(
    kind: str,
    question: HouseholdQuestion,
    text: str,
    wording: QuestionWording,
    recipe: PersonalHomeRecipe,
    rng: random.Random,
) -> Grounding | Choice | None:
    """A task that asks a question: a choice, or a grounding task.

    None if there are not four wrong choices of the right type, or no pair of the counterfactuals that the recipe wants.
    """
    candidate = question.candidate
    about: dict[str, Any] = {"family": candidate.family, "difficulty": question.difficulty}
    about |= {"personal": wording.personal, "question": text}
    right = wording.answer_texts(candidate.answer, question.answer)
    if kind == "choice":
        wrong = question_maker.draw_distractors(question, wording, rng)
        if wrong is None:
            return None
        # A sample of all is a shuffle.
        choices = rng.sample([right[0], *wrong], 5)
        letter = LETTERS[choices.index(right[0])]
        return Choice(**about, choices=tuple(choices), right=letter, evidence=question.evidence)
    parts, evidence = [Part(key="original", variants=right)], {*question.evidence}
    pair = question_maker.draw_counterfactuals(question, wording, rng) if recipe.counterfactuals else ()
    if pair is None:
        return None
    for key, one in zip(("counterfactual_1", "counterfactual_2"), pair):
        variants = wording.answer_texts(candidate.answer, one.answer)
        evidence |= {*one.edit.reads} if one.changed else set()
        parts.append(Part(key=key, condition=one.condition, variants=variants, changed=one.changed))
    return Grounding(**about, parts=tuple(parts), evidence=tuple(sorted(evidence)))


def make_features_task(household: Household, rng: random.Random) -> Features | None:
    """Ten features of owned appliances in three tiers; None if the needs do not tell so many apart.

    The three best differ from each other, so that there is one right ranking of them.
    """
    needs = plan_rules.household_needs(household)
    owned = {device.spec.category for device in HouseholdState(household).devices_of_kind("appliance")}
    rated = rank_features({key: need.weight for key, need in needs.items()})
    ranked = [(feature.name, weight) for feature, weight in rated if feature.kind in owned]
    rng.shuffle(ranked)  # so that features of equal weight are not always chosen in the order of the file
    chosen = _choose_features_in_tiers(ranked)
    if chosen is None:
        return None
    titles = {key: getattr(load_features()[key].title, household.language) for key in rng.sample(chosen, len(chosen))}
    used = {key for feature in chosen for key in load_features()[feature].wanted_when if key in needs}
    # The needs of all ten features count, since the less relevant ones must be told from the best.
    evidence = sorted({*scene_signs(household), *(id for key in used for id in needs[key].evidence)})
    return Features(titles=titles, ranking=tuple(chosen), evidence=tuple(evidence))


def _choose_features_in_tiers(ranked: Sequence[tuple[str, float]]) -> list[str] | None:
    """Ten features, best first; None if the weights do not tell so many apart.

    Each of the best three, and each tier, has more weight than what follows, by `MARGIN`.
    """
    by_weight: dict[float, list[str]] = {}
    for key, weight in ranked:
        by_weight.setdefault(weight, []).append(key)
    weights = sorted(by_weight, reverse=True)
    chosen: list[str] = []
    for size in (1,) * TIERS[0] + TIERS[1:]:  # the best three are a tier each
        tier: list[str] = []
        while weights and len(tier) < size:
            lowest = weights.pop(0)
            tier += by_weight[lowest][: size - len(tier)]
        if len(tier) < size:
            return None
        chosen += tier
        weights = [weight for weight in weights if weight <= lowest - MARGIN]
    return chosen


def make_plans_task(household: Household) -> Plans | None:
    """The household's situations, if its reference plan keeps all rules; otherwise None."""
    keys = household.context.situations[: plan_rules.MOST_PROGRAMS]
    programs = [plan_rules.settling_program(household, key) for key in keys]
    if not keys or not all(plan_rules.judge_plan(household, keys, programs).goals_met()):
        return None
    events = (f"event:{at}" for at in range(len(household.context.events)))
    used = dict.fromkeys(f"features:{step['appliance']}" for program in programs for step in program["steps"])
    return Plans(situations=tuple(keys), evidence=(*scene_signs(household), *events, *used))
