"""The benchmarks SmartHome-Bench and SMH-Bench, and one in a person's own homes, as instances made from a seed.

An instance is a blueprint with its category and limits. Before it enters a suite it is played through the loop that also
scores agents: the reference solution succeeds in both settings, and an agent that does nothing, a nearly right solution,
and the reference solution with an additional change fail.

Invariants:
- A suite is a pure function of its seed and language, byte for byte; that of own homes also of its files, toolset and
  prompt.
- An instance does not depend on the agent or the setting; its limits follow from its blueprint alone.
- Every instance belongs to the held-out split, and has frames that are held out from recipes of `frames: train`.
- Instances of the two benchmarks use held-out names, so they share no home seed, name or sentence with training. They are
  shipped with their checksum, for the default seed.
- In own homes, rooms, devices and names are those of the files, which a policy may have been trained on. No sentence
  occurs twice, and an instance holds its home.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Literal, cast, get_args

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.core.messages import Message
from homerl.envs.core.model import Model
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language import require_complete_language
from homerl.envs.homeenv.maker.make import HomeRecipe, home_files, make_home
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.toolsets import TOOLSETS, ToolsetName
from homerl.envs.homeenv.tasks.actions import actions
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, author_candidate
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call, PromptName, turns_needed
from homerl.envs.homeenv.tasks.intents import intent_families
from homerl.envs.homeenv.tasks.situation import home_situation_of, writer_of
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Oracle, play
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory
from homerl.play.words.answer_rules import Answer
from homerl.worlds import contract
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

Setting = Literal["eia", "dr"]
Size = Literal["simple", "medium", "complex"]
SPARE_CALLS = 10  # tool calls beyond those of the reference (SMH-Bench allows 10 in total)


class HomeInstance(Model):
    """One task of a suite.

    `category` is QT1 to QT5 (SmartHome-Bench) or TC1 to TC7 (SMH-Bench). `toolset` is used in the setting EIA.
    """

    id: str
    category: str
    subcategory: str
    size: Size
    toolset: ToolsetName
    blueprint: Blueprint

    def blueprint_for(self, setting: Setting) -> Blueprint:
        """The blueprint with the toolset of the setting. In DR the prompt is full, since it is all that the agent gets."""
        played = {"toolset": "direct", "prompt": "full"} if setting == "dr" else {"toolset": self.toolset}
        return self.blueprint.model_copy(update=played | {"id": self.id})

    def limits_for(self, setting: Setting) -> EpisodeLimits:
        """The limits of an episode.

        Each intent has one turn, and a second one if a clarifying question is needed or allowed. In EIA, the number of tool
        calls is limited too.
        """
        turns, calls = turns_needed(self.blueprint), SPARE_CALLS
        for intent in self.blueprint.intents:  # one for each service call, automation, and device that is read
            calls += len(intent.plan) + (intent.automation is not None) + len({did for did, _ in intent.reads})
        messages = turns + calls
        return EpisodeLimits(turns, messages, messages, 0, None if setting == "dr" else calls)


def instance_recipe(home: HomeRecipe, family: str, subcategory: str, toolset: ToolsetName) -> BlueprintRecipe:
    """The blueprint recipe of an instance: one wish of a query type, in a held-out frame."""
    return BlueprintRecipe(
        home=home,
        intents=(1, 1),
        families={f"{family}/{subcategory}": 1.0},
        devices=(2, 4),
        phrasings=1,
        frames="heldout",
        toolset=toolset,
        prompt="full",
    )


SETTINGS: tuple[Setting, ...] = ("eia", "dr")
STRAYS = 20  # changes that are tried until the toolset can make one


class ScriptedAgent:
    """An agent whose messages are a function of the episode."""

    name = "scripted"

    def __init__(self, answer: Callable[[Episode], Message]) -> None:
        self.answer = answer

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The one message of the function."""
        return [Reply(self.answer(episode))]


class CallsFirst:
    """An agent that makes these calls in its first message, and is another agent afterwards."""

    name = "scripted"

    def __init__(self, calls: Callable[[Episode], Sequence[Call]], then: Oracle) -> None:
        self.calls, self.then = calls, then

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The calls in the first message, then what the other agent says."""
        if not any(message.get("tool_calls") for message in episode.messages):
            return [Reply(writer_of(episode).write_calls(self.calls(episode)))]
        return await self.then.consult(episode, n)


def _agent_that_replies(words: str) -> ScriptedAgent:
    return ScriptedAgent(lambda episode: writer_of(episode).write_reply(words))


DOES_NOTHING = _agent_that_replies("Done.")  # it always says that all is done


def find_instance_flaws(instance: HomeInstance) -> Iterator[str]:
    """All reasons why an instance is not valid."""
    for setting in SETTINGS:
        reference = _play_once(instance, setting, Expert())
        if not (reference.success and reference.is_valid):
            yield f"the reference fails ({setting})"
    if _play_once(instance, "eia", DOES_NOTHING).success:
        yield "doing nothing succeeds"
    if any(_play_once(instance, "eia", wrong).success for _, wrong in near_miss_agents(instance)):
        yield "a near miss succeeds"

    def play_meddler(calls: Sequence[Call]) -> Trajectory:
        return _play_once(instance, "eia", CallsFirst(lambda episode: calls, Expert()))

    # A toolset may lack a tool for a change, so others are tried until one is made.
    found = actions(home_situation_of(begin_episode(instance.blueprint)).home, random.Random(instance.id))
    strays = (action.plan for action in found if action.device.did not in instance.blueprint.changeable_devices)
    played = map(play_meddler, islice(strays, STRAYS))
    if (meddled := next((one for one in played if one.steps[0].facts.changed), None)) and meddled.success:
        yield "changing something else succeeds"


def _play_once(instance: HomeInstance, setting: Setting, agent: Oracle) -> Trajectory:
    """The trajectory of an agent that plays the instance with a scripted user."""
    episode = begin_episode(instance.blueprint_for(setting), instance.limits_for(setting))
    return asyncio.run(play(episode, agent, ScriptedUser()))


def near_miss_agents(instance: HomeInstance) -> Iterator[tuple[str, Oracle]]:
    """Agents with one mistake, and what it is."""
    (intent,) = instance.blueprint.intents[-1:]
    rng = random.Random(instance.id)
    calls = list(intent.automation.actions if intent.automation else intent.plan)
    if calls:
        yield "another device", CallsFirst(lambda episode: _calls_on_other_device(calls, episode, rng), DOES_NOTHING)
        *first, last = calls
        value = last.args[-1] if last.args else None
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            other = last.model_copy(update={"args": (*last.args[:-1], value + rng.choice((-5, -1, 1, 5)))})
            yield "another value", CallsFirst(lambda episode: [*first, other], DOES_NOTHING)
    if len({call.did for call in calls}) > 1:
        rest = [call for call in calls if call.did != calls[-1].did]
        yield "without one device", CallsFirst(lambda episode: rest, DOES_NOTHING)
    if intent.automation or intent.clarify:
        missing = "no automation" if intent.automation else "no question"
        yield missing, CallsFirst(lambda episode: calls, DOES_NOTHING)
    if intent.answer is not None:
        yield "a wrong answer", _agent_that_replies(_wrong_answer_to(intent.answer))


def _calls_on_other_device(calls: Sequence[Call], episode: Episode, rng: random.Random) -> list[Call]:
    """The same calls on a device that the blueprint does not concern, of the same product if possible."""
    situation = home_situation_of(episode)
    concerned = situation.blueprint.changeable_devices | {call.did for call in calls}
    device = situation.home.plan.devices_by_did[calls[-1].did]
    others = [d for d in situation.home.plan.devices if d.did not in concerned]
    alike = [d for d in others if d.spec.spid == device.spec.spid] or others
    return [call.model_copy(update={"did": rng.choice(alike).did if alike else "0"}) for call in calls]


def _wrong_answer_to(expected: Answer) -> str:
    """A wrong answer of the expected type."""
    match expected.type:
        case "number":
            number: Any = expected.value
            return str(number + 1 + expected.tolerance)
        case "boolean":
            return "No." if expected.value else "Yes."
        case "admission" | "talk":
            return "I have turned it on."
        case _:
            return ", ".join(expected.distractors) or "I do not know."


HERE = Path(__file__).parent
SEED = 2026  # the seed of the shipped suites
TRIES = 400  # candidates for one instance before an error
SIZES: tuple[Size, ...] = ("simple", "medium", "complex")

Shares = dict[Size, float]


@dataclass(frozen=True)
class SuiteCategory:
    """A category of a suite: the intent family, its subcategories, and the number of instances."""

    name: str
    family: str
    subcategories: tuple[str, ...]
    count: int


@dataclass(frozen=True)
class HomeSuite(contract.Suite):
    """The composition of a benchmark.

    `shares` are the fractions of the home sizes. With `shared_complex`, all complex instances use one home.
    """

    name: str
    toolset: ToolsetName
    categories: tuple[SuiteCategory, ...]
    shares: Shares
    shared_complex: bool

    settings = ("eia", "dr")
    instance = HomeInstance
    labels = ("category", "subcategory", "size")

    def near_misses(self, instance: HomeInstance, setting: str) -> Iterator[tuple[str, Oracle]]:
        """The near misses by which each instance was checked."""
        return near_miss_agents(instance)

    @property
    def count(self) -> int:
        """The number of instances."""
        return sum(category.count for category in self.categories)

    @property
    def shipped(self) -> Path:  # type: ignore[override]
        """The file with the instances of the default seed."""
        return HERE / "data" / f"{self.name}.jsonl.xz"

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[HomeInstance]]:
        """Make the instances of a seed, see the contract."""
        require_complete_language(language)
        return self.count, (make_home_instance(self, slot, seed, language, dropped) for slot in suite_slots(self))

    def printed(self) -> Mapping[str, Any]:
        """The figures of the suite's paper."""
        figures: Mapping[str, Any] = read_yaml(HERE / "printed.yaml").data[self.name]
        return figures

    def easier_half(self, instances: Sequence[HomeInstance]) -> list[HomeInstance]:
        """The instances in simple homes. By the suite's composition, these are half of each subcategory."""
        return [instance for instance in instances if instance.size == "simple"]


WORDINGS = ("clear", "colloquial", "noisy")
SETS = ("explicit", "batch", "state_dependent", "room_dependent", "top_n")
VAGUE = ("state_level", "scene_level", "slot_missing")
TURNS = ("continuation", "topic_shift", "coreference", "correction")
MEMORIES = ("short_term", "long_term")
SUITES = {
    # HomeFlow 4.1, E: 1,678 instances over QT1 to QT5; backtracking (named in 4.1) is QT4's fifth subcategory.
    "smarthome-bench": HomeSuite("smarthome-bench", "homeflow", (
        SuiteCategory("QT1", "atomic", WORDINGS, 379),
        SuiteCategory("QT2", "compositional", SETS, 540),
        SuiteCategory("QT3", "ambiguous", VAGUE, 279),
        SuiteCategory("QT4", "multi_turn", (*TURNS, "backtracking"), 385),
        SuiteCategory("QT5", "memory", MEMORIES, 95),
    ), {"simple": 0.5, "medium": 0.3, "complex": 0.2}, False),
    # SMH-Bench Appendix C: 22 subcategories of 50, each 25 simple, 15 medium, 10 complex.
    "smh-bench": HomeSuite("smh-bench", "smh", (
        SuiteCategory("TC1", "atomic", WORDINGS, 150),
        SuiteCategory("TC2", "compositional", SETS, 250),
        SuiteCategory("TC3", "ambiguous", VAGUE, 150),
        SuiteCategory("TC4", "automation", ("time_specific", "state_driven", "time_and_state"), 150),
        SuiteCategory("TC5", "multi_turn", TURNS, 200),
        SuiteCategory("TC6", "memory", MEMORIES, 100),
        SuiteCategory("TC7", "query", ("status", "quantity"), 100),
    ), {"simple": 0.5, "medium": 0.3, "complex": 0.2}, True),
}  # fmt: skip


@dataclass(frozen=True)
class SuiteSlot:
    """The position of an instance in its suite: the `number`-th of its subcategory and size."""

    category: SuiteCategory
    subcategory: str
    size: Size
    number: int

    def instance_id(self, suite: HomeSuite) -> str:
        """The instance's id, such as `smh-bench-tc1-clear-simple-000`."""
        return f"{suite.name}-{self.category.name.lower()}-{self.subcategory}-{self.size}-{self.number:03d}"


def suite_slots(suite: HomeSuite) -> Iterator[SuiteSlot]:
    """Every slot of a suite, ordered by category, subcategory and size."""
    for category in suite.categories:
        each, more = divmod(category.count, len(category.subcategories))
        for index, subcategory in enumerate(category.subcategories):
            counts = apportion_counts(each + (index < more), suite.shares)
            yield from (SuiteSlot(category, subcategory, size, n) for size in SIZES for n in range(counts[size]))


def apportion_counts(count: int, shares: Shares) -> dict[Size, int]:
    """Divide `count` by shares into whole numbers, by the method of the largest remainder."""
    exact = {size: count * share for size, share in shares.items()}
    counts = {size: int(value) for size, value in exact.items()}
    rest = sorted(exact, key=lambda size: counts[size] - exact[size])
    for size in rest[: count - sum(counts.values())]:
        counts[size] += 1
    return counts


def make_home_instance(
    suite: HomeSuite, slot: SuiteSlot, seed: int, language: str = "en", dropped: Counter[str] | None = None
) -> HomeInstance:
    """The instance of a slot: the first candidate that passes the validity checks.

    Raises `RuntimeError` if none of `TRIES` candidates is valid. Candidates that fail are counted in `dropped`.
    """
    dropped, id = Counter() if dropped is None else dropped, slot.instance_id(suite)
    rng = random.Random(f"{suite.name} {seed} {language} {id}")
    homes = HomeRecipe(scale=slot.size, entrance=True, lexicon="heldout", language=language)
    recipe = instance_recipe(homes, slot.category.family, slot.subcategory, suite.toolset)
    shared = _shared_home(seed, language) if suite.shared_complex and slot.size == "complex" else None
    about = {"id": id, "category": slot.category.name, "subcategory": slot.subcategory, "size": slot.size}
    for _ in range(TRIES):
        if instance := _make_candidate(recipe, about, rng, dropped, shared):
            return instance
    raise RuntimeError(f"no valid instance for {id} in {TRIES} candidates: {dict(dropped)}")


def _make_candidate(
    recipe: BlueprintRecipe, about: Mapping[str, Any], rng: random.Random, dropped: Counter[str], home: Home | None = None
) -> HomeInstance | None:
    """An instance with the fields `about`, in a home of the recipe if none is given.

    It is None if the instance fails a check, and the reason is counted in `dropped`.
    """
    number = rng.getrandbits(40)  # odd seeds make held-out homes
    home = make_home(2 * number + 1, recipe.home) if home is None else home
    if (blueprint := author_candidate(recipe, "heldout", number, home, rng, dropped)) is None:
        return None
    size = next((size for size, most in MOST.items() if len(home.plan.devices) <= most), "complex")
    own = {"category": blueprint.intents[-1].family, "size": size, "toolset": recipe.toolset}
    # The published suites keep their bytes: in them, any question counts.
    intents = tuple(intent.model_copy(update={"names": ()}) for intent in blueprint.intents)
    blueprint = blueprint.model_copy(update={"id": about["id"], "intents": intents})
    instance = HomeInstance.model_validate({**own, **about, "blueprint": blueprint})
    if (flaw := next(find_instance_flaws(instance), None)) is not None:
        dropped[f"validity: {flaw}"] += 1
        return None
    return instance


@lru_cache(maxsize=4)
def _shared_home(seed: int, language: str) -> Home:
    """SMH-Bench's one dense home, with 31 rooms and 135 devices."""
    dense = HomeRecipe(devices=(135, 135), rooms=(31, 31), entrance=True, lexicon="heldout", language=language)
    return make_home(2 * random.Random(f"shared home {seed}").getrandbits(40) + 1, dense)


EACH = 10  # most instances of a query type
OWN_TRIES = 60  # candidates for one instance before the homes are taken not to offer it
MOST: dict[Size, int] = {"simple": 17, "medium": 81}  # devices, midway between the sizes of SMH-Bench; above is complex


@dataclass(frozen=True)
class OwnHome(contract.Suite):
    """The benchmark of some home files; without files it cannot be built."""

    name: str = "own-home"
    files: tuple[str, ...] = ()
    toolset: ToolsetName = "smh"
    prompt: PromptName = "full"

    settings = ("eia", "dr")
    instance = HomeInstance
    labels = ("category", "subcategory", "size")

    def near_misses(self, instance: HomeInstance, setting: str) -> Iterator[tuple[str, Oracle]]:
        """The near misses by which each instance was checked."""
        return near_miss_agents(instance)

    def of_homes(self, files: Sequence[str], toolset: str | None = None, prompt: str | None = None) -> OwnHome:
        """The suite of these files, with `toolset` and `prompt` in the setting EIA."""
        if toolset is not None and toolset not in TOOLSETS:
            raise InputError(f"there is no toolset '{toolset}'", "--toolset", f"one of {', '.join(TOOLSETS)}")
        if prompt is not None and prompt not in get_args(PromptName):
            raise InputError(f"there is no prompt '{prompt}'", "--prompt", f"one of {', '.join(get_args(PromptName))}")
        own = self if prompt is None else replace(self, prompt=cast(PromptName, prompt))
        return replace(own, files=tuple(files), toolset=toolset or self.toolset)

    def build(
        self, seed: int, language: str, dropped: Counter[str], progress: contract.Progress
    ) -> tuple[int, Iterator[HomeInstance]]:
        """Make the instances of a seed, see the contract. How many the homes offer is known only at the end."""
        if not self.files:
            raise InputError(f"{self.name} has no homes", "bench build", "name home files: --home home.json")
        require_complete_language(language)
        made, kinds = list[HomeInstance](), self.query_types()
        for done, (family, subcategory) in enumerate(kinds, 1):
            rng = random.Random(f"{self.name} {seed} {language} {family} {subcategory}")
            said = {_first_sentence(instance) for instance in made}
            made += self._make_instances(family, subcategory, language, rng, said, dropped)
            progress(done, len(kinds))
        if not made:
            raise InputError("the homes offer no task", ", ".join(self.files), "name homes with more devices")
        return len(made), iter(made)

    def query_types(self) -> list[tuple[str, str]]:
        """Every (family, subcategory) that the toolset can do."""
        families = {family: sorted(known) for family, known in sorted(intent_families().items())}
        if not TOOLSETS[self.toolset].automations:
            families.pop("automation", None)
        return [(family, subcategory) for family, known in families.items() for subcategory in known]

    def _make_instances(
        self, family: str, subcategory: str, language: str, rng: random.Random, said: set[str], dropped: Counter[str]
    ) -> Iterator[HomeInstance]:
        """Up to `EACH` instances of a query type, in the homes by turns, none with a sentence of `said`."""
        homes = [str(path) for name in self.files for path in home_files(name)]
        for number in range(EACH):
            id = f"{self.name}-{family}-{subcategory}-{number:03d}"
            for attempt in range(OWN_TRIES):
                home = HomeRecipe(files=(homes[(number + attempt) % len(homes)],), language=language)
                recipe = instance_recipe(home, family, subcategory, self.toolset)
                recipe = recipe.model_copy(update={"prompt": self.prompt})
                instance = _make_candidate(recipe, {"id": id, "subcategory": subcategory}, rng, dropped)
                if instance and _first_sentence(instance) not in said:
                    said.add(_first_sentence(instance))
                    yield instance
                    break
            else:
                dropped[f"{family}/{subcategory}: the homes offer {number} of {EACH}"] += 1
                return


def _first_sentence(instance: HomeInstance) -> str:
    return instance.blueprint.intents[-1].queries[0].lower()


OWN_HOME = OwnHome()
