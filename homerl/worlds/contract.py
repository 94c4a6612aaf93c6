"""The contract of a world: everything that homerl needs from one. The world's folder implements it.

Beside it stands what worlds share: how a scripted expert works, the error of an author that made no blueprint, what an
agent took that was asked before another one, and what a search cost.

Invariants:
- No module outside a world's folder names the world.
- Each optional part has a default, which suits a world whose agents make tool calls and whose goals can be checked.
- Importing a world's package is cheap, because it loads its parts on first use.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

from pydantic import AfterValidator, Field

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import LateShare, Model
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.models.endpoint.llm_agent import Clips
from homerl.play.closings import FALSE_CLAIM, find_closing_flaws
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Agent, Oracle, Policy
from homerl.play.situation import Situation
from homerl.play.trajectory import Trajectory
from homerl.play.words.grammar import Split
from homerl.worlds.visit_contract import DrawingStyle as DrawingStyle
from homerl.worlds.visit_contract import HomeChange as HomeChange
from homerl.worlds.visit_contract import Visits as Visits

if TYPE_CHECKING:
    from homerl.worlds.paraphraser import Paraphraser


def _refuse_no_weight(styles: dict[Any, float]) -> dict[Any, float]:
    if not any(styles.values()):
        raise ValueError("one of them needs a weight above 0")
    return styles


Style = Literal["snippet", "stepwise", "query_first", "sweeping"]
Styles = Annotated[dict[Style, Annotated[float, Field(ge=0)]], AfterValidator(_refuse_no_weight)]  # weights


class ExpertConfig(Model):
    """How the scripted expert works and errs."""

    mistakes: float = Field(0.25, ge=0, le=1, description="Share (0 to 1) of messages with a mistake.")
    styles: Styles = Field(
        {"snippet": 1.0},
        description="Weights of styles: `snippet` calls all at once, `stepwise` one by one, `query_first` "
        "reads first, `sweeping` calls all that may help.",
    )
    slips: LateShare = Field(0.0, description="Share of turns that begin with a wrong name, refused and put right.")
    minimal: bool = Field(False, description="Whether it leaves out reads, and calls that would change nothing.")


@dataclass
class FirstAgentTally:
    """How many sentences the first agent was asked, of which tasks it took one, and the seconds of both for each message."""

    asked: int = 0
    took: list[str] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    other: list[float] = field(default_factory=list)

    def describe_tally(self, name: str, success: Mapping[str, bool]) -> str:
        """The tally in words, with how the tasks ended of which the first agent, called `name`, took a sentence."""
        tasks = set(self.took) & success.keys()
        first, other = (f"{1000 * median(times or [0]):.1f} ms" for times in (self.first, self.other))
        failed = sum(not success[task] for task in tasks)
        return (
            f"{name} took {len(self.took)} of {self.asked} sentences; {failed} of {len(tasks)} tasks with one failed. "
            f"It looked at a sentence for {first}, and the model needed {other} for a message (medians)."
        )


def no_blueprint_error(what: str, dropped: Counter[str], remedies: Mapping[str, str]) -> InputError:
    """The error of an author that dropped every candidate: its counted reasons, and the remedy for the most frequent.

    `remedies` holds a remedy by the beginning of the reasons that it is for.
    """
    reasons = ", ".join(f"{reason} ({count:,})" for reason, count in dropped.most_common())
    (most, _), *_ = dropped.most_common(1)
    remedy = next(remedy for reason, remedy in remedies.items() if most.startswith(reason))
    return InputError(f"{what}: {reasons}", remedy=remedy)


EXPERT = "expert"  # the baseline of every world that knows the solution
Progress = Callable[[int, int], None]


@dataclass
class TreeStats:
    """What a search for verified trajectories cost, and what it verified, in the words of HomeFlow 4.3.

    A `call` is one request; several candidates may be `sampled` by it. `*_linear` is what the same rollouts would have
    cost one by one. `merged` counts candidates that had the same effect as another. `grounded` counts successes that a
    home confirms. `first` counts successes of the first rollout of a search (0 or 1). `recovered` counts dialogues that met
    all goals after a refused call.
    """

    rollouts: int = 0
    successes: int = 0
    first: int = 0
    recovered: int = 0
    nodes: int = 0
    steps_run: int = 0
    steps_linear: int = 0
    calls: int = 0
    calls_linear: int = 0
    sampled: int = 0
    tokens: int = 0
    tokens_linear: int = 0
    merged: int = 0
    grounded: int = 0
    user_errors: dict[str, int] = field(default_factory=dict)

    def to_row(self) -> dict[str, float]:
        """All figures as plain data, and the difficulty: 1 minus the verified success rate, in [0, 1]."""
        return asdict(self) | {"difficulty": 1.0 - self.successes / max(1, self.rollouts)}


@dataclass(frozen=True)
class EpisodeFailure:
    """Why an episode failed: a dimension of the world's error taxonomy, and the type of the error in words."""

    dimension: str
    type: str


@dataclass(frozen=True)
class JudgeCase:
    """A statement of an agent that a judge may rate, and the verdict of the rules on it.

    `step` is the index of the agent's step and `intent` the id of the user's intent. `asked` is what the user said,
    `wanted` the right answer in words, and `said` the agent's words. A case that the rules leave "undecided" needs a judge.
    `rubric` are the judge's instructions, and `kind` is a name for them. The judge finds `asked` under the key `asked_as`.
    """

    step: int
    intent: int
    kind: str
    asked: str
    wanted: str
    said: str
    rule: str  # "right", "wrong", "silent" or "undecided"
    rubric: str
    asked_as: str = "user"


@dataclass(frozen=True)
class Card:
    """What the card of a model shows of a world: an example that can be run.

    `system` is the system prompt and `tools` are the tools' JSON Schemas. `told` completes the sentence "The system prompt
    ...", and `answers` completes "The model answers ...". `language` is the language of the system prompt. `one_answer` says
    that the model makes no tool calls.
    """

    tools: Sequence[Mapping[str, Any]]
    system: str
    told: str  # "The system prompt ..."
    utterance: str
    language: str = "en"
    answers: str = "in words or in tool calls;\nrun the calls and append what they return as `tool` messages"
    one_answer: bool = False


@dataclass(frozen=True)
class FileFormat:
    """A kind of file that has a JSON Schema.

    `model` is the type that validates the file. `refs` maps a path of keys in its schema to the kind of file found there,
    for example `("properties", "home")` to "home"; the published schema then refers to that kind's schema.
    """

    version: int
    model: Any
    refs: Mapping[tuple[str, ...], str] = field(default_factory=dict)


@dataclass(frozen=True)
class CommandServices:
    """What a world's command asks of the rooms above it. It is the `obj` of the command's `typer.Context`.

    `load_recipe` is called with a recipe's name and the overrides of its keys. It returns the checked recipe, a pydantic
    model, and raises `InputError` if there is something wrong with it.

    `agents` is called with a model (a URL or a folder), the name of a server's model or None, whether to load it on the CPU,
    the most tokens of a reply, and the seconds that a person waits for one. It returns the model's name and a factory of
    agents, and raises `InputError` if there is no such model.

    `trained_on` returns the recipes of the blueprints that a model was trained on, as plain data, the main one first. It is
    empty for a model of which nothing is known, such as one behind a URL.

    `serve_tasks` is called with a source of tasks, a host, a port, the environment variable of a key or None, the most
    clients at once, and whether they may fork. It serves the tasks by OpenEnv's protocol until the process is stopped.
    """

    load_recipe: Callable[[str, Sequence[str]], Any]
    agents: Callable[[str, str | None, bool, int, float], tuple[str, Callable[[], Agent]]]
    trained_on: Callable[[str], Sequence[Mapping[str, Any]]]
    serve_tasks: Callable[[str, str, int, str | None, int, bool], None]


class NoBlueprint(Exception):
    """Raised by an LLM author if it dropped all of its drafts for a seed."""


@dataclass(frozen=True)
class AuthoredBlueprint:
    """A blueprint and the record of its making: how much was written and kept, by name."""

    blueprint: Any
    record: dict[str, Any]


class UnfitCandidate(Exception):
    """Too little of a candidate is left, or it breaks a rule; the text says which."""


async def write_fit_candidate(
    write: Callable[[int], Awaitable[AuthoredBlueprint]], attempts: int, seed: int, dropped: Counter[str]
) -> AuthoredBlueprint:
    """The first candidate of a seed that is fit.

    Args:
        write: Writes a candidate, given its number from 1. It raises `UnfitCandidate` or `UnreadableAnswer` if it has to be
            dropped.
        attempts: The most candidates that are written.
        seed: The seed of the blueprint, for the message.
        dropped: Counts the candidates that are written, and those that are dropped by reason.

    Raises:
        NoBlueprint: All candidates were dropped.
    """
    from homerl.models.endpoint.structured_answers import UnreadableAnswer

    for number in range(1, attempts + 1):
        dropped["candidates: written"] += 1
        try:
            return await write(number)
        except UnreadableAnswer:
            dropped["candidate: unreadable"] += 1
        except UnfitCandidate as error:
            dropped[f"candidate: {error}"] += 1
    raise NoBlueprint(f"no blueprint in {attempts} candidates for seed {seed}: {dict(dropped)}")


class SuiteInstance(Protocol):
    """One task of a suite: a blueprint, and the settings under which an agent plays it.

    `id` starts with the name of the suite. A suite that declares `labels` has instances with attributes of these names.
    An instance whose file leaves out the blueprint, because it can be made again, has a field `world`.
    """

    id: str
    blueprint: Any

    def blueprint_for(self, setting: Any) -> Any:
        """The blueprint with the tools and the prompt of a setting."""
        ...

    def limits_for(self, setting: Any) -> EpisodeLimits:
        """The limits of an episode of this instance in a setting."""
        ...

    def model_dump(self, *, mode: str) -> dict[str, Any]:
        """The instance as plain data; pydantic models have this method."""
        ...


class Suite(ABC):
    """A benchmark: a list of instances that is made from a seed.

    Override the attributes and `build`; override the other methods where the suite offers more. The base owns the rest:
    running, scoring and reporting use a suite by these methods only.

    Attributes:
        name: The name of the suite.
        settings: The names of the settings in which it can be played, the default first.
        instance: The type of its instances (`SuiteInstance`).
        labels: Those attributes of instances by which results are grouped. Each has a text, and none has the name of another
            column of results.
        shipped: The file with the instances of the default seed, whose checksum is shipped too, or None.
        judge_votes: The default number of votes for each verdict of a judge.

    Example:
        class LampBench(Suite):
            name, settings, instance = "my-lamps", ("plain",), LampInstance

            def build(self, seed, language, dropped, progress):
                return 10, (make_instance(seed, number) for number in range(10))
    """

    name: str
    settings: tuple[str, ...]
    instance: type[Any]
    labels: tuple[str, ...] = ()
    shipped: Path | None = None
    judge_votes: int = 1

    @abstractmethod
    def build(self, seed: int, language: str, dropped: Counter[str], progress: Progress) -> tuple[int, Iterator[Any]]:
        """Make the instances of a seed.

        Args:
            seed: The same seed always makes the same instances.
            language: The language that people speak.
            dropped: Counts the candidates that are not valid, by reason.
            progress: Is called with (done, total).

        Returns:
            The number of instances, and an iterator over them in order.
        """

    def of_homes(self, files: Sequence[str], toolset: str | None = None, prompt: str | None = None) -> Suite | None:
        """The suite with its tasks in given homes.

        Args:
            files: The files of the homes.
            toolset: The agents' tools; None is the suite's usual ones.
            prompt: The agents' prompt; None is the suite's usual one.

        Returns:
            The suite, or None if it has tasks of its own only.
        """
        return None

    def near_misses(self, instance: Any, setting: str) -> Iterable[tuple[str, Agent]] | None:
        """Agents that make one mistake each, with what it is: the grader must fail them (`homerl bench validate`).

        homerl leaves out the acts of the expert in each suite. A suite whose tasks have nearer misses makes them here. None,
        the default, is no other ones.
        """
        return None

    def printed(self) -> Mapping[str, Any]:
        """The results that the suite's paper reports, or an empty mapping.

        `categories` lists the categories; each of `rows` has a model, its success rate by category, and overall, in
        percent, and perhaps the one `setting` in which it stands beside ours.
        """
        return {}

    def easier_half(self, instances: Sequence[Any]) -> list[Any] | None:
        """The easier half of the instances, or None if the suite does not define one."""
        return None

    def read_files(self, folder: Path) -> list[Any] | None:
        """Instances from the files that the suite's paper released, or None if the suite cannot read such files."""
        return None

    def with_clips(self, instances: Sequence[Any], folder: Path, setting: str) -> tuple[list[Any], Clips] | None:
        """The instances with videos: tools then name frames, which the agent is shown.

        Args:
            instances: The instances; without any, only the setting and the folder are checked.
            folder: The folder of the clips.
            setting: The setting in which the suite is played.

        Returns:
            The instances with their clips, and these clips. None if the suite's tasks have no videos.

        Raises:
            InputError: The folder or a clip cannot be used.
        """
        return None


class Persona(Protocol):
    """What an LLM user must know to play the person of an episode.

    `words` are the phrases of the person's language (`play/words/user_manner.py`).
    """

    def role(self, words: Any) -> str:
        """A description of the person."""

    def notices(self, words: Any) -> str:
        """What the person perceives in the home at this moment."""

    def overhears(self, text: str) -> str:
        """An agent's message as the person understands it: ids of devices become their everyday names."""

    def fault(self, text: str, intents: Sequence[Any]) -> tuple[str, str] | None:
        """(reason, explanation) if a person would not say this utterance, else None."""

    def meant(self, text: str, intents: Sequence[Any]) -> Any | None:
        """The one intent that the utterance is about, or None if its words do not single one out."""

    def on_topic(self, text: str, intent: Any) -> bool | None:
        """Whether the utterance is about the intent; None if that cannot be decided."""


@dataclass(frozen=True)
class FirstAgent:
    """An agent that takes what it understands before another one is asked: `FIRST` in a file `first.py` of `envs/*/`.

    `world` is the world whose dialogues it understands, and `before` makes a factory of agents from that of the other one.
    """

    name: str
    world: str
    before: Callable[[Callable[[], Agent], FirstAgentTally], Callable[[], Agent]]


class WorldAdapter(ABC):
    """The interface of a world to the rest of homerl.

    Override the abstract members: `blueprint`, `recipe`, `make_blueprint`, `begin`, `expert` and `card`. Override others
    where the world offers more than their defaults. The base owns the rest: nobody outside the world's folder uses
    anything of the world but these members. `late("module", "name")` imports a part when it is first asked for.

    Attributes:
        name: The name of the world in recipes and blueprints.
        is_default: Whether blueprints and recipes without `world` belong to it.
        users: The kinds of user that can speak in it: `scripted`, `llm`.
        taxonomy: The name of its error taxonomy.
        dimensions: The dimensions of the taxonomy: key to description.
        labels: Attributes of blueprints, texts, by which the results of held-out suites are grouped.
        grader: The version of what decides on success: goals, answers, limits. Results have it. Raise it with each change by
            which an episode may be judged otherwise than before.

    Example:
        class LampWorldAdapter(WorldAdapter):
            name = "lamp"
            blueprint = late("homerl.envs.lamp.blueprint", "LampBlueprint")
            recipe = late("homerl.envs.lamp.blueprint", "LampRecipe")
            make_blueprint = late("homerl.envs.lamp.author", "make_blueprint")
            begin = late("homerl.envs.lamp.situation", "LampSituation")

            def expert(self, config, seed):
                return LampExpert(config, seed)

            def card(self, recipe):
                return Card(tools=(), system="You control a lamp.", told="names the lamp", utterance="Dim it.")

        WORLD = LampWorldAdapter()
    """

    name: str
    is_default: bool = False
    users: tuple[str, ...] = ("scripted",)
    taxonomy: str = "homerl"
    dimensions: Mapping[str, str] = {"outcome": "how the episode ended"}
    labels: tuple[str, ...] = ()
    grader: int = 1

    # Tasks

    @property
    @abstractmethod
    def blueprint(self) -> type[Model]:
        """The pydantic model of the world's blueprints."""

    @property
    @abstractmethod
    def recipe(self) -> type[Model]:
        """The pydantic model of the world's blueprint recipes.

        It has a field `world: Literal[name]`. Only recipes of the default world may leave this field out.
        """

    @abstractmethod
    def make_blueprint(self, recipe: Any, split: Split, seed: int, dropped: Counter[str] | None = None) -> Any:
        """Make the blueprint of a seed.

        Args:
            recipe: A model of the type `recipe`.
            split: The split that its sentences belong to.
            seed: The same recipe, split and seed always make the same blueprint.
            dropped: Counts the drafts that fail a check, by reason.

        Returns:
            A model of the type `blueprint`.

        Raises:
            InputError: No draft passed the checks.
        """

    @abstractmethod
    def begin(self, blueprint: Any) -> Situation:
        """Begin an episode.

        Args:
            blueprint: A model of the type `blueprint`.

        Returns:
            The situation at the start, independent of any other.
        """

    @property
    def tell(self) -> Callable[[Any, Behaviours, Any], Any] | None:
        """`tell(blueprint, behaviours, recipe or None)` gives the blueprint told so; None if all is told at once."""
        return None

    def language_of(self, recipe: Mapping[str, Any]) -> str:
        """The language that people speak in the blueprints of a recipe, which is given as plain data."""
        language: str = recipe.get("language", "en")
        return language

    def out_of_reach(self, recipe: Any) -> Iterable[str]:
        """What the agents of a recipe of this world can do nothing with, by name, for `homerl check`."""
        return ()

    def count_devices(self, blueprint: Mapping[str, Any]) -> int | None:
        """The number of devices in a blueprint, which is given as plain data; None leaves the column out of results."""
        return None

    def goals_in_words(self, blueprint: Mapping[str, Any]) -> Iterable[str]:
        """The goals Φ of a blueprint (given as plain data) in words, one string for each goal, in the order of Φ."""
        return ()

    # Who plays

    @abstractmethod
    def expert(self, config: ExpertConfig, seed: int) -> Oracle:
        """The scripted expert, an oracle that reads the blueprint's plan.

        Args:
            config: How it works and errs.
            seed: The seed of its choices.

        Returns:
            An agent for any episode of this world.
        """

    @property
    def baselines(self) -> Mapping[str, Callable[[], Agent]]:
        """Constructors of the agents that need no model, by name; `expert` must be among them."""
        return {EXPERT: lambda: self.expert(ExpertConfig(mistakes=0.0), 0)}

    def endpoint_agent(self, setting: str) -> Callable[..., Policy] | None:
        """The constructor of the agent that plays over an endpoint in a setting, or None for the standard `LLMAgent`.

        It is called with the endpoint, the temperature, the most tokens of a reply, and the requests' seed or None.
        """
        return None

    def persona(self, episode: Episode) -> Persona:
        """The person of an episode. Only a world that lists `llm` in `users` must implement this.

        Raises `NotImplementedError` in every other world.
        """
        raise NotImplementedError(f"no LLM user can speak in the world '{self.name}'")

    @property
    def visits(self) -> Visits | None:
        """How a person visits the world's homes, to talk with an agent (`homerl chat`), or None if nobody can."""
        return None

    # Synthesis with chat models

    @property
    def paraphraser(self) -> type[Paraphraser] | None:
        """The class that rewords this world's queries with an LLM, or None if it has none."""
        return None

    @property
    def llm_author(self) -> Callable[..., Any] | None:
        """A function that writes a blueprint with an LLM, or None.

        It is called as `await author(recipe, split, seed, client, attempts, dropped)` and raises `NoBlueprint` if all drafts
        fail.
        """
        return None

    @property
    def role_play(self) -> Callable[..., Any] | None:
        """The synthesis strategy m1, a role-play in text alone, or None.

        It is called as `await role_play(blueprint, agent, client, limits)` and returns (trajectories, statistics). The
        recipes of a world that has it must have the fields `toolset` and `one_answer`, because an agent of one answer
        cannot do a role-play.
        """
        return None

    # Plug-ins

    @property
    def plugin_checks(self) -> Mapping[str, Callable[[str], None]]:
        """Checks of plug-ins that only this world takes, by their kind: `toolsets`. They are called with the plug-in's name,
        and raise `ContractError` if it breaks its contract."""
        return {}

    # Benchmarks

    @property
    def suites(self) -> Mapping[str, Suite]:
        """The world's benchmarks by name."""
        return {}

    def failure_of(self, trajectory: Trajectory) -> EpisodeFailure | None:
        """The error that explains why an episode failed; None for a success, and for what the agent did not cause."""
        if trajectory.success or not trajectory.outcome.is_counted:
            return None
        return EpisodeFailure("outcome", str(trajectory.outcome).replace("_", " "))

    def cases(self, trajectory: Trajectory) -> list[JudgeCase]:
        """The agent's statements that a judge may rate, in order."""
        return []

    def holds_with(self, trajectory: Trajectory, right: Mapping[int, int]) -> bool:
        """Whether an episode succeeds with the answers that a judge accepted, by default with one for each intent.

        `right` has their steps by the ids of the intents. A world with other goals beside answers decides itself.
        """
        return all(intent["id"] in right for intent in trajectory.blueprint["intents"])

    def closing_flaws(self, trajectory: Trajectory) -> Sequence[str] | None:
        """What is wrong with the words that end turns (`StepFacts.closing_flaw`), by step; None if no agent acts."""
        return find_closing_flaws(trajectory)

    def false_claims(self, trajectory: Trajectory) -> int | None:
        """The number of turns that end with a claim of success while the home does not show it, or None."""
        return None if (flaws := self.closing_flaws(trajectory)) is None else [*flaws].count(FALSE_CLAIM)

    def dangerous_acts(self, trajectory: Trajectory) -> int | None:
        """The number of dangerous acts (docs/benchmarks.md); None, the default, in a world that has no such things."""
        return None

    def extra_results(self, trajectory: Trajectory) -> dict[str, Any]:
        """Additional columns of a result."""
        return {}

    # Files and pages

    @abstractmethod
    def card(self, recipe: Mapping[str, Any]) -> Card:
        """What the card of a model shows if it was trained on blueprints of a recipe.

        Args:
            recipe: Plain data, which may be empty. If only blueprints are known, it is one of them: what they have in
                common with recipes must have the same keys.

        Returns:
            The parts of the card's example.
        """

    def formats(self) -> Mapping[str, FileFormat]:
        """The world's kinds of files that have a JSON Schema, by name; its blueprints come first."""
        return {f"{self.name}-blueprint": FileFormat(1, self.blueprint)}

    def episode_page(self, trajectory: Trajectory, where: str) -> str | None:
        """A page (HTML, one file) of a played episode, stored at `where`; None if the world draws none."""
        return None
