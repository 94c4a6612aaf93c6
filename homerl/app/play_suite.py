"""`homerl bench run` and `homerl bench build`: plays a suite with a model in a setting, and builds suites.

Invariants:
- A folder belongs to one run (suite, setting, model, user, sampling), and one process at a time works in it.
- A run in a folder with results continues only if asked to.
- Everything that a run depends on is written beside its results.
- Options that do not fit are refused before a suite is built.
- A file of a suite is complete, or it is not there. The next build removes what a killed one left.
- The estimate of the playing time changes nothing that is played: it samples a few tokens without random numbers.
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict, dataclass, fields, replace
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any

from homerl import __version__
from homerl.app.runs.run_folder import find_source_commit
from homerl.app.served.model_agents import find_served_model, is_model_url, load_local_engine, refuse_missing_model
from homerl.bench.judge import JudgeSettings, judge_bench_run
from homerl.bench.leaderboard import name_without_folders
from homerl.bench.runner import EpisodePace, EpisodeSpecs, ParticipantFactories, SuiteInstances, run_suite
from homerl.bench.suites import (
    SEED,
    digest_of_instances,
    find_suite,
    is_shipped_suite,
    read_suite,
    refuse_text_setting,
    resolve_setting,
    resolve_suite,
    spread_evenly,
    write_suite,
)
from homerl.envs.core.documents import InputError, remove_unfinished_writes, write_atomic
from homerl.host.processes import folder_lock
from homerl.host.progress_bar import progress_bar, progress_updater
from homerl.host.terminal import check_option_value, console, count_with_noun
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.endpoint_settings import refuse_secret
from homerl.models.endpoint.llm_agent import Clips
from homerl.models.policy.policy_agent import encode_guest_prompt
from homerl.play.bench_results import read_bench_results, read_run_facts
from homerl.play.loop import Policy, User
from homerl.report.cards.model_lineage import trained_blueprint_recipes
from homerl.train.model_sources import hash_model_weights, is_adapter, resolve_model_source
from homerl.worlds.contract import FirstAgentTally, Suite, WorldAdapter
from homerl.worlds.registry import begin_episode, first_agents, known_suites
from homerl.worlds.users import ScriptedUser


def build_suite(suite: Suite, folder: Path, seed: int = SEED, language: str = "en") -> Path:
    """Make a suite in a folder, and print what came of it. Returns its file."""
    dropped: Counter[str] = Counter()
    path = folder / f"{suite.name}.jsonl"
    remove_unfinished_writes(path)
    with progress_bar() as bar:
        task = bar.add_task(f"build {suite.name}", total=None, note=str(path))
        update = progress_updater(bar, task)
        count, instances = suite.build(seed, language, dropped, update)
        digest = write_suite(instances, path, lambda done: update(done, count))
    console.print(f"{path}: {count_with_noun(count, 'instance')}, sha256 {digest}")
    for reason, number in dropped.most_common():
        console.print(f"  dropped {number}: {reason}", highlight=False)
    return path


def find_or_build_suite(suite: str, folder: Path) -> str:
    """What to read a suite from: its file, its name if it is shipped, else what is built in a folder, unless it is there."""
    if Path(suite).is_file() or is_shipped_suite(find_suite(suite)):
        return suite
    path = folder / f"{find_suite(suite).name}.jsonl"
    return str(path if path.exists() else build_suite(find_suite(suite), folder))


LOOKED_AT = 20  # tasks whose prompts are measured
MESSAGES = 2  # of the model in a task: a call, and the answer to the user
TRIED = 8  # tokens that are timed


def estimate_playing_time(tasks: EpisodeSpecs, agent: Any, model: str, at_once: int) -> str:
    """A line that says how long the tasks may take. Raises `InputError` if the model takes the prompt of none of them."""

    def first_prompt(index: int) -> list[int]:
        """What an agent reads of a task when the user has said a word."""
        seen = begin_episode(tasks[index].blueprint, tasks[index].limits).observation
        return encode_guest_prompt(
            agent.tokenizer, replace(seen, messages=(*seen.messages, {"role": "user", "content": "."}))
        )

    prompts = sorted(map(first_prompt, spread_evenly(range(len(tasks)), LOOKED_AT)), key=len)
    longest = agent.longest
    if longest is not None and len(prompts[0]) >= longest:
        what = f"the model takes {longest:,} tokens, and the prompts of the tasks have {len(prompts[0]):,} or more"
        remedy = "take a model with a longer context, or a setting or suite with shorter prompts"
        raise InputError(what, model, remedy)
    # One prompt is timed alone: how long it is read, and how long each token after it takes.
    spent = []
    for tokens in (1, 1, 1 + TRIED):  # the first one loads what sampling needs
        trial = type(agent.engine)(agent.engine.model, agent.engine.tokenizer, tokens, 0.0, 1)
        before = time.monotonic()
        asyncio.run(trial.sample(prompts[len(prompts) // 2]))
        spent.append(time.monotonic() - before)
    reading, token = spent[1], max(0.0, spent[2] - spent[1]) / TRIED
    messages = MESSAGES * len(tasks)
    seconds = messages * (reading + token * agent.engine.max_tokens / min(at_once, len(tasks)))
    most = timedelta(seconds=60 * round(seconds / 60 + 0.5))
    each = f"{count_with_noun(len(tasks), 'task')} of about {MESSAGES} messages each"
    return f"{each}: up to {most} on this machine (--limit plays fewer)"


def describe_other_prompts(tasks: SuiteInstances, model: str) -> str:
    """A line on tasks that ask with another toolset or prompt than a model was trained with, as far as both are known."""
    trained = {(recipe.get("toolset"), recipe.get("prompt")) for recipe in trained_blueprint_recipes(model)}
    blueprints = (tasks[at].blueprint for at in range(len(tasks.found)))
    asked = {(getattr(one, "toolset", None), getattr(one, "prompt", None)) for one in blueprints}
    if not trained or not (others := asked - trained):
        return ""
    those, learnt = (" or ".join(sorted(f"{toolset}, {prompt}" for toolset, prompt in ways)) for ways in (others, trained))
    return f"toolset and prompt: the tasks have {those}; {model} was trained with {learnt}"


# options that one folder's results share; the others change no answer, or may be added to what is there
SAME = tuple("suite setting episodes videos limit model first served user temperature max_tokens seed".split())
OF_SERVER, OF_CALL = 2048, 512  # tokens of a message: with thoughts, and of a tool call alone


@dataclass(frozen=True)
class BenchRun:
    """The options of a run.

    `model` is a URL, a folder, a hub id, or the name of a baseline. `setting` is one of the suite's, None its first.
    `max_tokens` is the most of a message; None is what a server may think in, or what a model that is loaded here needs
    for a call. `prices` are for a million tokens, input and output. `first` names who takes what it understands before the
    model.
    """

    suite: str
    model: str
    out: Path
    setting: str | None = None
    episodes: Path | None = None
    served: str | None = None
    user: str | None = None
    at_once: int = 16
    runs: int = 1
    limit: int | None = None
    temperature: float = 0.0
    max_tokens: int | None = None
    prices: tuple[float, float] | None = None
    resume: bool = False
    seed: int = 0
    cpu: bool = False
    judge: JudgeSettings | None = None
    videos: Path | None = None
    first: str | None = None

    @property
    def is_served(self) -> bool:
        """Whether the model answers at a URL."""
        return is_model_url(self.model)


def run_benchmark(settings: BenchRun) -> dict[str, Any]:
    """Play the suite; return the score, which is also in `score.json`. Raises `InputError` for options that do not fit."""
    made = {"command": command_of_run(settings), "homerl": __version__, "commit": find_source_commit()}
    settings, world, suite, setting = prepare_run(settings)
    found: list[Any] | None
    if settings.episodes is None:
        found = read_suite(find_or_build_suite(settings.suite, settings.out))
    else:
        found = find_suite(settings.suite).read_files(settings.episodes)  # a paper's released files
    if found is None:
        raise InputError(f"{settings.suite} has no episode files", "--episodes", "leave it out, or name another suite")
    chosen = found if settings.limit is None else spread_evenly(found, settings.limit)
    suite_instances, clips = attach_clips(settings, suite, setting, chosen)
    instances = SuiteInstances(suite_instances, setting, settings.runs)
    if settings.judge:
        settings = replace(settings, judge=replace(settings.judge, votes=settings.judge.votes or suite.judge_votes))
    said = asdict(settings) | {"of": len(found), "suite_sha256": digest_of_instances(found)} | made
    if is_adapter(source := resolve_model_source(settings.model)):
        said["weights"] = hash_model_weights(source)
    if clips:
        console.print(f"clips of {clips.found}", highlight=False)
        said["clips"] = clips.found
    factories, pace = make_factories(settings, world, setting, clips)
    if not settings.is_served and settings.model not in world.baselines:
        if line := describe_other_prompts(instances, settings.model):
            console.print(line, highlight=False)
        loaded: Any = factories.agent()
        said["parameters"] = loaded.engine.model.num_parameters()
        console.print(estimate_playing_time(instances, loaded, settings.model, settings.at_once), highlight=False)
    tally = FirstAgentTally()
    if settings.first is not None:
        agent = first_agents(world.name)[settings.first].before(factories.agent, tally)
        factories = replace(factories, agent=agent, identity=f"{settings.first} first {factories.identity}")
    with folder_lock(settings.out):
        refuse_existing_results(settings)  # another run may have ended meanwhile
        refuse_other_run(settings)
        write_atomic(settings.out / "run.json", json.dumps(said, default=str, indent=1) + "\n")
        with progress_bar() as bar:
            task = bar.add_task(f"{Path(settings.suite).name} {setting}", total=len(instances), note=settings.model)
            scored = run_suite(instances, factories, settings.out, pace, progress_updater(bar, task))
            if settings.judge:  # it decides what no rule does
                task = bar.add_task("judge", total=None, note=settings.judge.model)
                scored = judge_bench_run(settings.out, settings.judge, progress_updater(bar, task))
    if settings.first is not None:
        success = {row["id"]: row["success"] for row in read_bench_results(settings.out)}
        console.print(tally.describe_tally(settings.first, success), highlight=False)
    return scored


OTHERWISE_SAID = ("suite", "model", "judge", "user")  # `command_of_run` writes them in a way of their own
ANSWERLESS = ("out", "at_once", "prices", "resume", "cpu")  # no answer depends on them


def command_of_run(settings: BenchRun) -> str:
    """The command by which others play the same, as far as its options decide on answers.

    It may be published, so it has no addresses, and of files and folders the names alone.
    """
    words = ["homerl", "bench", "run", Path(settings.suite).name]
    words += ["--model", "URL" if settings.is_served else name_without_folders(settings.model)]
    for option in fields(settings):
        value = getattr(settings, option.name)
        if option.name not in (*OTHERWISE_SAID, *ANSWERLESS) and value != option.default:
            said = name_without_folders(value) if isinstance(value, str | Path) else str(value)
            words += [f"--{option.name.replace('_', '-')}", said]
    words += [word for name in ("user", "judge") if getattr(settings, name) for word in (f"--{name}", "URL")]
    return shlex.join(words)


def refuse_existing_results(settings: BenchRun) -> None:
    """Raise `InputError` for a folder with results, unless the run goes on from them."""
    if (settings.out / "run.json").exists() and not settings.resume:
        raise InputError("there are results already", str(settings.out), "add --resume to go on, or choose another --out")


def refuse_other_run(settings: BenchRun) -> None:
    """Raise `InputError` for a folder with the results of other options, of which `settings` are resolved.

    A served model is known by its name, since a server may have moved.
    """
    if not (settings.out / "run.json").exists():
        return
    stored, asked = read_run_facts(settings.out, "run.json"), json.loads(json.dumps(asdict(settings), default=str))
    was = {key: stored.get(key, getattr(BenchRun, key, None)) for key in SAME}
    moved = {"model"} if was["served"] and settings.served else set()
    if differing := [f"{key} {was[key]} (now {asked[key]})" for key in SAME if was[key] != asked[key] and key not in moved]:
        what = f"the results here are of another run: {', '.join(differing)}"
        raise InputError(what, str(settings.out), "give the options of that run, or choose another --out")


def prepare_run(settings: BenchRun) -> tuple[BenchRun, WorldAdapter, Suite, str]:
    """(the run with all names resolved, its world, its suite, its setting).

    Raises `InputError` for options that do not fit, and for a folder with results, unless these are of the same options and
    the run goes on from them.
    """
    refuse_existing_results(settings)
    refuse_secret("--model", settings.model if settings.is_served else None)
    refuse_secret("--user", settings.user)
    if settings.served is None and settings.is_served:
        settings = replace(settings, served=find_served_model(settings.model))
    source = settings.suite
    world, suite = resolve_suite(source) if Path(source).is_file() else known_suites()[find_suite(source).name]
    setting = resolve_setting(suite, settings.setting, "--setting")
    refuse_unfit_options(settings, world, suite, setting)
    local = not (settings.is_served or settings.model in world.baselines)
    tokens = settings.max_tokens or (OF_CALL if local else OF_SERVER)
    settings = replace(settings, max_tokens=tokens, setting=setting)
    refuse_other_run(settings)
    return settings, world, suite, setting


def refuse_unfit_options(settings: BenchRun, world: WorldAdapter, suite: Suite, setting: str) -> None:
    """Raise `InputError` for a user, clips or a model that the run cannot have."""
    if settings.user and "llm" not in world.users:
        raise InputError(f"in the world '{world.name}' the user speaks by itself", "--user", "leave it out")
    if settings.user:
        find_served_model(settings.user)
    attach_clips(settings, suite, setting, [])
    if settings.first is not None:
        check_option_value("--first", settings.first, first_agents(world.name))
    if baseline := world.baselines.get(settings.model):
        baseline()  # which may lack a package
        return
    if settings.is_served:
        return
    refuse_text_setting(world, suite, setting, f"--setting {setting}")
    refuse_missing_model(settings.model, world.baselines)


def attach_clips(settings: BenchRun, suite: Suite, setting: str, instances: list[Any]) -> tuple[list[Any], Clips | None]:
    """The instances with the clips of `--videos`, and these clips; without the option, the instances as they are."""
    if settings.videos is None:
        return instances, None
    if not settings.is_served:
        remedy = "serve a model that sees (--model http://...), or leave it out: tools then tell what frames show"
        raise InputError("only a served model is shown frames", "--videos", remedy)
    found = suite.with_clips(instances, settings.videos, setting)
    if found is None:
        raise InputError(f"the tasks of {suite.name} have no videos", "--videos", "leave it out, or name another suite")
    return found


def make_factories(
    settings: BenchRun, world: WorldAdapter, setting: str, clips: Clips | None = None
) -> tuple[ParticipantFactories, EpisodePace]:
    """The factories of agent and user, and the number of concurrent episodes. `clips` are shown to an endpoint."""
    user, spoken = make_user_factory(settings)
    sampling = f"{settings.temperature} {settings.max_tokens} {settings.seed} {spoken}"
    pace = EpisodePace(settings.at_once, waves=False)
    if (baseline := world.baselines.get(settings.model)) is not None:
        return ParticipantFactories(baseline, user, f"{settings.model} {sampling}"), pace
    own = world.endpoint_agent(setting)
    if settings.is_served:
        from homerl.models.endpoint.llm_agent import LLMAgent

        name = settings.served or ""
        endpoint = Endpoint(settings.model.split(","), name, seed=settings.seed)
        kind = own or partial(LLMAgent, clips=clips)
        seed = settings.seed if settings.temperature > 0 else None  # nothing is drawn at 0, and some servers take none
        agent: Callable[[], Policy] = lambda: kind(endpoint, settings.temperature, settings.max_tokens, seed)  # noqa: E731
        return ParticipantFactories(agent, user, f"{name} {sampling}"), pace
    return make_local_factories(settings, user, sampling)


def make_user_factory(settings: BenchRun) -> tuple[Callable[[int], User], str]:
    """The factory of users (scripted, or an LLM at a URL), and its name for the run's identity."""
    if settings.user is None:
        return ScriptedUser, "scripted"
    from homerl.models.endpoint.endpoint_settings import UserSettings
    from homerl.worlds.users import make_llm_users

    name, urls = find_served_model(settings.user), tuple(settings.user.split(","))
    return make_llm_users(UserSettings(kind="llm", url=urls, model=name)), name


def make_local_factories(
    settings: BenchRun, user: Callable[[int], User], sampling: str
) -> tuple[ParticipantFactories, EpisodePace]:
    """The factories for a model that this process loads."""
    import torch

    from homerl.bench.stored_scores import model_file_stamps
    from homerl.models.policy.policy_agent import agent_factory_for

    engine = load_local_engine(
        settings.model, settings.cpu, settings.max_tokens or OF_CALL, settings.temperature, settings.at_once
    )
    identity = f"{settings.model} {model_file_stamps(settings.model)} {sampling}"
    seeded = lambda first: torch.manual_seed(settings.seed + first)  # noqa: E731
    pace = EpisodePace(settings.at_once, alike=settings.temperature > 0, begin=seeded)
    return ParticipantFactories(agent_factory_for(engine, engine.tokenizer, engine.context_length), user, identity), pace


def make_judge_settings(url: str | None, model: str | None, votes: int | None, sample: int) -> JudgeSettings | None:
    """The judge at a URL, or None. Raises `InputError` for an even number of votes, since these can tie."""
    if votes is not None and (votes < 1 or votes % 2 == 0):
        raise InputError(f"{votes} votes may be a tie", "--judge-votes", "take an odd number")
    refuse_secret("--judge", url)
    return JudgeSettings(url, model or find_served_model(url), votes, sample) if url else None
