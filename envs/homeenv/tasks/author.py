"""The scripted author: makes a filtered blueprint, with the profile of its user, from a seed; and the filters of blueprints.

Profiles (HomeFlow Table 4) have consistent attributes, in the words of a language (`people.yaml`): health depends on age,
and preferences depend on health.

A blueprint that passes the triple filter (HomeFlow 3.3.1) is executable, within bounds and consistent: its plan runs without
a refusal and meets all conditions, doing nothing meets no goal, and the plan changes only devices that some intent concerns.
A fourth filter asks the agent's tools. Each filter returns the reason why it drops a blueprint, or None.

Invariants: a blueprint is a pure function of (recipe, split, seed); the splits share no home seed, no given name of a
user and no sentence (with `home.files` they share the homes: rooms, devices and their names; with `keep: state` the state
too); dropped candidates are counted by filter and reason; no intent may change one randomly chosen
controllable device, so that an agent that touches everything differs from one that obeys; no question is asked twice.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

from pydantic import Field, field_validator, model_validator

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.core.model import LateShare, Model
from homerl.envs.homeenv.language import language_path, require_complete_language
from homerl.envs.homeenv.language.meaning import Meaning
from homerl.envs.homeenv.language.speaker import Speaker, Wording
from homerl.envs.homeenv.language.utterances import apply_writing_style, write_utterance
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.conditions import compile_condition
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolsets import TOOLSETS, ToolsetName
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, Intent, Past, Profile, PromptName
from homerl.envs.homeenv.tasks.goals import HeardReplies, compile_goals, compile_keeps, find_automation_flaw
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose, intent_families
from homerl.play.words.grammar import AS_IT_IS, NoSentence, Pool, Split, UnclearSentence, Voice, Writing
from homerl.worlds.contract import no_blueprint_error

ILLS = (
    (30, ("healthy", "pollen")),
    (60, ("healthy", "light_sleeper", "migraine")),
    (120, ("healthy", "poor_eyesight", "arthritis", "light_sleeper")),
)
GENDERS = ("female", "male", "other")


class PeopleWords(Model):
    """The words for people in a language: given names by split, the other words by key."""

    given: dict[str, tuple[str, ...]]
    family: tuple[str, ...]
    name: str
    scene: str
    genders: dict[str, str]
    habits: dict[str, str]
    health: dict[str, str]
    likes: dict[str, str]


@lru_cache
def load_people_words(language: str) -> PeopleWords:
    """The words for people in this language."""
    return validate_document(PeopleWords, read_yaml(language_path(language, "people.yaml")))


def sample_profile(rng: random.Random, split: str, language: str = "en") -> Profile:
    """A random profile whose attributes are consistent with each other."""
    words = load_people_words(language)
    age = rng.randint(18, 90)
    gender = rng.choice(GENDERS)
    height = round(rng.gauss(176 if gender == "male" else 165, 7))
    health = rng.choice(next(options for limit, options in ILLS if age < limit))
    needed_light = {"poor_eyesight": "bright", "migraine": "dim"}
    return Profile(
        name=words.name.format(given=rng.choice(words.given[split]), family=rng.choice(words.family)),
        age=age,
        gender=words.genders[gender],
        height_cm=height,
        weight_kg=round(rng.uniform(19, 29) * (height / 100) ** 2),
        health=words.health[health],
        habits=tuple(rng.sample(tuple(words.habits.values()), 2)),
        preferences={
            "temperature": (23 if age > 60 else 21) + rng.randint(-1, 2),
            "lighting": words.likes[needed_light.get(health) or rng.choice(("soft", "bright"))],
            "noise": words.likes["quiet" if health == "light_sleeper" else rng.choice(("quiet", "lively"))],
        },
    )


# Families from before sub-streams. They draw from the blueprint's own stream, since stored suites hold their bytes: a draw
# more in one of them would move every later wish and sentence. A new family is not listed here.
SHARED_STREAM = frozenset(
    "absent adjust ambiguous atomic automation colour compositional everything felt household memory moment multi_turn "
    "query survey weather".split()
)
ATTEMPTS = 300  # candidates of a seed: one of the 150 tasks of long_100m.yaml needs more than 100
TOO_LITTLE, UNSAID = "author: home offers too little", "author: no sentence of this split"
SHARED_NAME = "author: two things share a name"
PEOPLE: Wording = "people"
Key = TypeVar("Key", bound=str)
REMEDIES = {  # for the reasons by which candidates are dropped
    TOO_LITTLE: "ask for fewer `intents`, for larger homes (`home.devices`) or for other `families`; a family of your own "
    "must propose a draft for such homes",
    UNSAID: "raise `temperature`, or add frames to the grammar: each split needs sentences of its own",
    SHARED_NAME: "give each room of the home file a name of its own, and each device a name of its own in its room",
    "": "the query types under `families` propose what this check refuses; correct those of your own, or name others",
}


def _name_families(schema: dict[str, Any]) -> None:
    """Describe `families` in its schema. This runs late, since the file of a query type may import this module."""
    known = ", ".join(f"`{family}`" for family in sorted(intent_families()))
    schema["description"] = f"Weights by family ({known}) or subcategory."


class BlueprintRecipe(Model):
    """What blueprints to make. Weights need not sum to 1."""

    world: Literal["homeenv"] = Field(  # not serialised: bytes that depend on a recipe are older than this key
        "homeenv", exclude=True, description="The world; it may be left out."
    )
    home: HomeRecipe = Field(HomeRecipe(), description="The homes.")
    intents: tuple[int, int] = Field((1, 2), description="Fewest and most wishes of a blueprint.")
    families: dict[str, float] = Field({"atomic": 1.0, "compositional/explicit": 1.0}, json_schema_extra=_name_families)
    devices: tuple[int, int] = Field((2, 3), description="Fewest and most devices of a `compositional/explicit` wish.")
    wordings: dict[Wording, float] = Field(
        {"clear": 1.0, "colloquial": 1.0, "noisy": 1.0},
        description="Weights of manners of speech; `noisy` has slips, and `people` are sentences of Home Assistant's users.",
    )
    people_languages: dict[str, float] = Field(
        {},
        exclude_if=lambda languages: not languages,
        description="Weights of the languages in which `people` say a command that is the only wish, such as `de`; only the "
        "home's if empty. Names, prompt and replies stay in the home's.",
    )
    phrasings: int = Field(3, ge=1, description="Ways in which the user can say each wish.")
    temperature: float = Field(1.0, ge=0, description="How far people stray from the most usual words.")
    frames: Pool = Field("any", description="Frames of the grammar: `heldout` is a quarter, `train` the others, `any` all.")
    writing: Writing = Field(
        AS_IT_IS,
        exclude_if=lambda writing: writing == AS_IT_IS,  # bytes that depend on a recipe are older than this key
        description="How people write.",
    )
    by_alias: LateShare = Field(
        0.0,
        description="Share of what has aliases that the user calls by one, if the toolset tells them (`assist`).",
    )
    by_kind: LateShare = Field(
        0.0,
        description="Share of the devices that the user calls by kind and room where nothing else there is of the kind: "
        "`the light in the kitchen`.",
    )
    whole_sets: bool = Field(
        False,
        exclude_if=lambda whole: not whole,
        description="Whether plans for a set name all of it: for agents that see no states.",
    )
    doors: LateShare = Field(
        0.0,
        description="Share of the `atomic` wishes about what opens, locks or arms, where the home has such: doors, covers.",
    )
    preserve: bool = Field(True, description="Whether success needs that nothing else has changed.")
    toolset: ToolsetName = Field(
        "homeflow",
        description="Tools of the agent: `homeflow` takes code, `smh` calls and automations, `direct` one JSON answer.",
    )
    prompt: PromptName = Field("brief", description="How much the system prompt explains.")

    @model_validator(mode="after")
    def _check_ranges(self) -> BlueprintRecipe:
        for name, (low, high), least in (("intents", self.intents, 1), ("devices", self.devices, 2)):
            if not least <= low <= high:
                raise ValueError(f"{name}: [{low}, {high}] should be two numbers from {least} up, the smaller first")
        return self

    @field_validator("families")
    @classmethod
    def _refuse_unknown_families(cls, weights: dict[str, float]) -> dict[str, float]:
        for name in weights:
            family, _, subcategory = name.partition("/")
            if family not in intent_families():
                raise ValueError(f"there is no family '{family}' (there is {', '.join(intent_families())})")
            if subcategory and subcategory not in intent_families()[family]:
                raise ValueError(f"'{family}' has no '{subcategory}' (it has {', '.join(intent_families()[family])})")
        return weights

    @field_validator("home")
    @classmethod
    def _require_language(cls, home: HomeRecipe) -> HomeRecipe:
        require_complete_language(home.language)
        return home

    @field_validator("wordings")
    @classmethod
    def _refuse_no_wordings(cls, weights: dict[Wording, float]) -> dict[Wording, float]:
        if not any(weight > 0 for weight in weights.values()):
            raise ValueError(f"a manner of speech needs a weight above 0; there is {', '.join(get_args(Wording))}")
        return weights

    @field_validator("people_languages")
    @classmethod
    def _require_sentences_of_languages(cls, weights: dict[str, float]) -> dict[str, float]:
        if weights and not any(weight > 0 for weight in weights.values()):
            raise ValueError("a language needs a weight above 0")
        if weights:
            from homerl.envs.homeenv.tasks.sentences.matching import load_hassil_sentences  # its package is an extra's
        for language in weights:
            load_hassil_sentences(language)
        return weights

    @model_validator(mode="after")
    def _refuse_languages_that_are_unheard(self) -> BlueprintRecipe:
        if self.people_languages and not self.wordings.get(PEOPLE):
            raise ValueError("people_languages: they are of the wording `people`; give it a weight in `wordings`")
        return self

    @model_validator(mode="after")
    def _refuse_automations_without_tools(self) -> BlueprintRecipe:
        if not TOOLSETS[self.toolset].automations and any(name.startswith("automation") for name in self.families):
            able, *others = (name for name, toolset in TOOLSETS.items() if toolset.automations)
            known = " or ".join([f"`toolset: {able}`", *(f"`{name}`" for name in others)])
            raise ValueError(f"families: the toolset '{self.toolset}' has no automations; set {known}")
        return self

    @property
    def one_answer(self) -> bool:
        """Whether the agent answers with one JSON object instead of tool calls."""
        return TOOLSETS[self.toolset].one_answer

    @property
    def user_voice(self) -> Voice:
        """How the user speaks and writes."""
        by_alias = self.by_alias if TOOLSETS[self.toolset].aliases else 0.0
        return Voice(self.home.language, self.temperature, self.frames, self.writing, by_alias, self.by_kind)

    @property
    def agent_voice(self) -> Voice:
        """How the agent speaks: it calls things by their first names."""
        return replace(self.user_voice, by_alias=0.0, by_kind=0.0)


def make_home_blueprint(recipe: BlueprintRecipe, split: Split, seed: int, dropped: Counter[str] | None = None) -> Blueprint:
    """The blueprint of a seed.

    Candidates that fail a filter are counted in `dropped`, and another is drawn. Raises `InputError` after `ATTEMPTS`
    candidates.
    """
    rng = random.Random(f"blueprint {split} {seed}")
    dropped = Counter() if dropped is None else dropped
    before = dropped.copy()
    for _ in range(ATTEMPTS):
        # Training homes have even seeds and held-out ones odd seeds, so the splits share none.
        home = make_home(2 * rng.getrandbits(40) + (split == "heldout"), recipe.home)
        if blueprint := author_candidate(recipe, split, seed, home, rng, dropped):
            return blueprint
    what = f"no blueprint of {', '.join(recipe.families)} in {ATTEMPTS} attempts for seed {seed}"
    raise no_blueprint_error(what, dropped - before, REMEDIES)


def author_candidate(
    recipe: BlueprintRecipe, split: Split, seed: int, home: Home, rng: random.Random, dropped: Counter[str]
) -> Blueprint | None:
    """One candidate for this home if it passes the filters; otherwise None, and the reason is counted in `dropped`."""
    try:
        candidate = _draw_candidate(recipe, split, seed, home, rng)
    except NoSentence as error:
        dropped[SHARED_NAME if isinstance(error, UnclearSentence) else UNSAID] += 1
        return None
    if candidate is None:
        dropped[TOO_LITTLE] += 1
    elif failure := first_filter_failure(candidate):
        dropped["{}: {}".format(*failure)] += 1
    else:
        return candidate
    return None


def _draw_candidate(recipe: BlueprintRecipe, split: Split, seed: int, home: Home, rng: random.Random) -> Blueprint | None:
    language = recipe.home.language
    profile = sample_profile(rng, split, language)
    controllable = [device.did for device in home.plan.devices if device.spec.service_index]
    if not controllable:
        return None
    spared = rng.choice(controllable)
    parts: list[tuple[str, Draft, Wording]] = []
    full = recipe.prompt == "full"  # the agent is told about floors and the user's place
    tools = TOOLSETS[recipe.toolset]
    timed = full or tools.automations
    for number in range(rng.randint(*recipe.intents)):
        taken = frozenset((spared, *(did for _, draft, _ in parts for did in draft.concerned_devices)))
        wording = _draw_weighted(recipe.wordings, rng)
        family, propose = _draw_family(recipe, rng)
        ask = Ask(wording, taken, recipe.devices, number == 0, full, timed, language, recipe.whole_sets)
        ask = replace(ask, later=tools.automations, clock=tools.clock, doors=recipe.doors)
        ask = replace(ask, understood=frozenset(recipe.people_languages))
        draft = propose(home, rng if family in SHARED_STREAM else spawn_stream(rng, family), ask)
        if draft is None or _repeats_question(draft, [earlier for _, earlier, _ in parts]):
            break
        own = wording == PEOPLE  # a family whose wording is its own is said by people too
        parts += [(family, part, wording if own else part.wording or wording) for part in (draft, *draft.then)]
        # Only the first draft has calls before it. Later wishes are of the home after these calls.
        home = home_after_calls(home, draft.before)
    if len(parts) < recipe.intents[0]:
        return None
    placed = full or home.plan.entrance in home.plan.rooms_by_id
    verbaliser = _Verbaliser(recipe, home, split, rng, placed, alone=len(parts) == 1)
    intents = [verbaliser.make_intent(number, *part) for number, part in enumerate(parts, 1)]
    scene = load_people_words(language).scene.format(
        name=profile.name,
        age=profile.age,
        habit=profile.habits[0],
        time=f"{home.clock // 3600 % 24:02d}:{home.clock // 60 % 60:02d}",
        degrees=home.state_of(OUTDOORS)["temperature"],
    )
    memory = tuple(verbaliser.say_plainly(fact) for _, draft, _ in parts for fact in draft.memory)
    history = verbaliser.make_history(parts[0][1])
    return assemble_blueprint(recipe, split, seed, home, profile, scene, intents, memory, history)


def assemble_blueprint(
    recipe: BlueprintRecipe,
    split: Split,
    seed: int,
    home: Home,
    profile: Profile,
    scene: str,
    intents: Sequence[Intent],
    memory: tuple[str, ...] = (),
    history: tuple[Past, ...] = (),
) -> Blueprint:
    """The blueprint of these parts, with the language, the tools and the prompt of the recipe."""
    return Blueprint(
        id=f"{split}-{seed}", seed=seed, split=split, language=recipe.home.language, profile=profile, scene=scene,
        home=home_to_json(home), intents=tuple(intents), memory=memory, history=history, preserve=recipe.preserve,
        toolset=recipe.toolset, prompt=recipe.prompt,
    )  # fmt: skip


def _repeats_question(draft: Draft, earlier: Sequence[Draft]) -> bool:
    # Two wishes for things that the home lacks have the same empty answer, and are different questions.
    if draft.answer is None or not (draft.reads or draft.answer.value != ()):
        return False
    asked = (draft.subcategory, draft.answer, draft.reads)
    return any((one.subcategory, one.answer, one.reads) == asked for one in earlier)


@dataclass(frozen=True)
class _Verbaliser:
    """Puts drafts into words, for the home as it is when the episode begins."""

    recipe: BlueprintRecipe
    home: Home
    split: Split
    rng: random.Random
    placed: bool  # whether the agent knows where the user is
    alone: bool  # whether there is one wish

    def make_intent(self, number: int, family: str, draft: Draft, wording: Wording) -> Intent:
        sentences = self.say_as_people(draft) if wording == PEOPLE else []
        if sentences and draft.wording:  # the family's subcategories are wordings
            draft = replace(draft, subcategory=PEOPLE)
        elif wording == PEOPLE and not sentences:
            wording = draft.wording or _draw_weighted(self.other_wordings(), self.rng)
        sentences = sentences or [self.say_as_user(draft.meaning, wording) for _ in range(self.recipe.phrasings)]
        return Intent(
            id=number,
            family=family,
            factors=draft.factors.model_copy(update={"noise": "noisy"}) if wording == "noisy" else draft.factors,
            queries=tuple(dict.fromkeys(sentences)),
            clarification=self.say_as_user(draft.plainly or draft.meaning, "clear"),
            subcategory=draft.subcategory,
            conditions=draft.conditions,
            automation=draft.automation,
            answer=draft.answer,
            clarify=draft.clarify,
            keeps=draft.keeps,
            reads=draft.reads,
            devices=draft.devices,
            plan=draft.plan,
            reply=self.say_plainly(draft.reply) if draft.reply else None,
            question=self.say_plainly(draft.question) if draft.question else None,
            names=self.list_names(draft),
        )

    def say_as_people(self, draft: Draft) -> list[str]:
        """Sentences of Home Assistant's users for the wish; none if they have none.

        Raises `NoSentence` in that case if the recipe knows no other wording.
        """
        from homerl.envs.homeenv.tasks.people_wording import PeopleSpeaker  # its package comes with an extra

        stream, among = spawn_stream(self.rng, PEOPLE), self.recipe.people_languages
        language = _draw_weighted(among, stream) if among and self.alone else None
        speaker = PeopleSpeaker(self.home, self.recipe.user_voice, self.split, self.placed, language)
        try:
            said = [speaker.say_wish(draft, stream) for _ in range(self.recipe.phrasings)]
        except NoSentence:
            if self.other_wordings():
                return []
            raise
        return [apply_writing_style(text, self.home, self.recipe.user_voice, stream) for text in said]

    def other_wordings(self) -> dict[Wording, float]:
        """The weights of the wordings of our own."""
        return {name: weight for name, weight in self.recipe.wordings.items() if name != PEOPLE and weight > 0}

    def list_names(self, draft: Draft) -> tuple[str, ...]:
        """The words of which a clarifying question has one. They take no random number of the blueprint."""
        speaker = Speaker(self.home, self.recipe.agent_voice, "clear", random.Random(0))
        return tuple(dict.fromkeys(draft.names(speaker))) if draft.names else ()

    def make_history(self, draft: Draft) -> tuple[Past, ...]:
        """The earlier dialogue; the assistant's replies are in the plainest wording."""
        past: list[Past] = []
        for said in draft.past:
            past.append(Past(role="user", content=self.say_as_user(said.meaning, "clear")))
            reply = self.say_plainly(said.reply) if said.reply else self.agent_speaker.say("done")
            past.append(Past(role="assistant", content=reply))
        return tuple(past)

    def say_as_user(self, meaning: Meaning, wording: Wording) -> str:
        """A sentence that the user says.

        Raises `NoSentence` if none of the split can be found.
        """
        return write_utterance(meaning, self.home, self.recipe.user_voice, wording, self.split, self.rng)

    def say_plainly(self, meaning: Meaning) -> str:
        """Text that the user does not say, and that therefore belongs to no split."""
        return meaning.words(self.agent_speaker)

    @property
    def agent_speaker(self) -> Speaker:
        """A speaker with the wording `clear`, who calls things by their names, as agents do."""
        return Speaker(self.home, self.recipe.agent_voice, "clear", self.rng)


def _draw_family(recipe: BlueprintRecipe, rng: random.Random) -> tuple[str, Propose]:
    """A random family with one of its subcategories.

    If the recipe names a whole family, subcategories that are wordings are weighted by the weights of the wordings.
    """
    family, _, subcategory = _draw_weighted(recipe.families, rng).partition("/")
    known = intent_families()[family]
    if not subcategory:
        weights: Mapping[Any, float] = recipe.wordings
        wordings = get_args(Wording)
        found = {name: weights.get(name, 0.0 if name in wordings else 1.0) for name in known}
        subcategory = _draw_weighted(found if any(found.values()) else dict.fromkeys(known, 1.0), rng)
    return family, known[subcategory]


def spawn_stream(rng: random.Random, name: str) -> random.Random:
    """A stream of random numbers for one part of a blueprint. It takes one draw of `rng`, however many the part takes."""
    return random.Random(f"{name} {rng.getrandbits(64)}")


def _draw_weighted(weights: Mapping[Key, float], rng: random.Random) -> Key:
    return rng.choices(list(weights), list(weights.values()))[0]


# The filters


Reason = str | None  # why a filter drops the blueprint; None if it passes


def check_executable(blueprint: Blueprint, home: Home) -> Reason:
    """Check that conditions compile for the home, and that the plan runs in the sandbox without refusal or error."""
    try:
        compile_goals(blueprint, home)
        for text in _all_conditions(blueprint):
            compile_condition(text, home.plan)
    except InputError:
        return "condition does not compile"
    calls: list[Call] = []
    for intent in blueprint.intents:
        calls += (*intent.plan, *(intent.automation.actions if intent.automation else ()))
    result = run_code("\n".join(call.code for call in calls), home.fork())
    if result.refusal:
        return f"plan refused: {result.refusal.rule}"
    return "plan fails" if result.error else None


def check_bounds(blueprint: Blueprint, home: Home) -> Reason:
    """Check that each constant in a condition is a value that the compared attribute can have."""
    for text in _all_conditions(blueprint):
        for slot, value in compile_condition(text, home.plan).comparisons:
            try:
                home.plan.slots[slot].type.check_value(value)
            except Refused as refusal:
                return f"constant {refusal.rule}"
    return None


def check_consistency(blueprint: Blueprint, home: Home) -> Reason:
    """Check that plan, conditions and devices agree.

    No goal is met at the start. All conditions hold after the plan. `keeps` hold before and after it. The plan changes
    no device that no intent concerns. The conditions of an intent read exactly the devices of the intent. Automations
    are checked by `find_automation_flaw`.
    """
    if any(goal.met(home, HeardReplies()) for goal in compile_goals(blueprint, home)):
        return "a condition holds already"
    for wanted in (intent.automation for intent in blueprint.intents if intent.automation):
        if reason := find_automation_flaw(home, wanted):
            return reason
    conditions = [compile_condition(text, home.plan) for text in blueprint.all_conditions]
    kept = compile_keeps(blueprint, home)
    after = home_after_calls(home, [call for intent in blueprint.intents for call in intent.plan])
    if not all(condition.holds_in(after) for condition in conditions):
        return "conditions contradict each other"
    if not all(condition.holds_in(state) for condition in kept for state in (home, after)):
        return "what is to be kept is not, or was not so"
    slots = home.plan.slots
    if {slots[change.slot].owner for change in home.diff(after)} - blueprint.changeable_devices:
        return "plan touches other devices"
    for intent in blueprint.intents:
        owners = {slots[s].owner for text in intent.conditions for s in compile_condition(text, home.plan).slots}
        if intent.conditions and owners != set(intent.devices):
            return "condition and devices disagree"
    return None


def check_expressible(blueprint: Blueprint, home: Home) -> Reason:
    """Check that the agent's tools can make the calls of the plan, and show what must be read before them."""
    writer = TOOLSETS[blueprint.toolset].writer(home.fork(), "", lambda device: device.did)
    for intent in blueprint.intents:
        if reason := writer.unfit(intent.plan, intent.reads):
            return reason
        for call in intent.plan:
            writer.home.call(call.did, call.service, call.args)
    return None


def _all_conditions(blueprint: Blueprint) -> list[str]:
    """The conditions of the intents, those to be kept, and the effects of the automations."""
    effects = [i.automation.effects for i in blueprint.intents if i.automation]
    parts = (blueprint.all_conditions, *(i.keeps for i in blueprint.intents), *effects)
    return [text for part in parts for text in part]


FILTERS: dict[str, Callable[[Blueprint, Home], Reason]] = {
    "executable": check_executable,
    "within_bounds": check_bounds,
    "consistent": check_consistency,
    "expressible": check_expressible,
}


def first_filter_failure(blueprint: Blueprint) -> tuple[str, str] | None:
    """The name of the first filter that drops the blueprint, with its reason; None if all pass."""
    home = home_from_json(blueprint.home, f"home of blueprint {blueprint.id}")
    for name, check in FILTERS.items():
        if reason := check(blueprint, home):
            return name, reason
    return None
