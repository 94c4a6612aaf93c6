"""`homerl bench run`: a suite, a model, a setting.

Invariants: a folder belongs to one run (suite, setting, model, user, sampling); one that holds results is gone on with
only when asked to; what a run depends on is written beside its results.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from envs.documents import InputError, write_atomic
from homerl.bench import simuhome
from homerl.bench.baselines import BASELINES
from homerl.bench.instance import Instance
from homerl.bench.judge import JudgeSettings, judge_run
from homerl.bench.runner import Pace, Players, Task, run_suite
from homerl.bench.suites import read_suite, to_line
from homerl.endpoint import Endpoint
from homerl.play import Agent, User
from homerl.progress import progress_bar
from homerl.users.scripted import ScriptedUser
from homerl.worlds.simuhome import agents


@dataclass(frozen=True)
class BenchRun:
    """What to run. `model`: a URL, a folder, a hub id, or a baseline's name. `prices`: per million tokens, in and out."""

    suite: str
    model: str
    out: Path
    setting: str = "eia"
    episodes: Path | None = None
    mended: bool = False
    served: str | None = None
    user: str | None = None
    at_once: int = 16
    runs: int = 1
    limit: int | None = None
    temperature: float = 0.0
    max_tokens: int = 2048
    prices: tuple[float, float] | None = None
    resume: bool = False
    seed: int = 0
    cpu: bool = False
    judge: JudgeSettings | None = None


class Instances:
    """A suite's instances in one setting, each `runs` times."""

    def __init__(self, found: Sequence[Instance | simuhome.SimuHomeInstance], setting: Any, runs: int) -> None:
        self.found, self.setting, self.runs = found, setting, runs
        digest = hashlib.sha256("".join(map(to_line, found)).encode()).hexdigest()
        self.identity = f"{digest} {setting}"

    def __len__(self) -> int:
        return len(self.found) * self.runs

    def __getitem__(self, index: int) -> Task:
        run, at = divmod(index, len(self.found))
        instance = self.found[at]
        labels, blueprint = instance.labels() | {"run": run}, instance.blueprint_for(self.setting)
        return Task(blueprint.model_copy(update={"seed": blueprint.seed + run}), instance.limits_for(self.setting), labels)


def run(settings: BenchRun) -> dict[str, Any]:
    """Play the suite; return the score, which is in `score.json` too."""
    if (settings.out / "results.jsonl").exists() and not settings.resume:
        raise InputError("there are results already", str(settings.out), "add --resume to go on, or choose another --out")
    if settings.served is None and settings.model.startswith(("http://", "https://")):
        settings = replace(settings, served=served_model(settings.model))
    instances = Instances(found_in(settings)[: settings.limit], settings.setting, settings.runs)
    write_atomic(settings.out / "run.json", json.dumps(asdict(settings), default=str, indent=1) + "\n")
    players, pace = players_of(settings)
    with progress_bar() as bar:
        task = bar.add_task(f"{settings.suite} {settings.setting}", total=len(instances), note=settings.model)
        scored = run_suite(
            instances, players, settings.out, pace, lambda done, total: bar.update(task, completed=done, total=total)
        )
        if settings.judge is None:
            return scored
        task = bar.add_task("judge", total=None, note=settings.judge.model)
        return judge_run(settings.out, settings.judge, lambda done, total: bar.update(task, completed=done, total=total))


def found_in(settings: BenchRun) -> list[Any]:
    """The instances that a run is about: a suite's, or released episode files."""
    if settings.episodes is not None:
        if settings.suite != simuhome.NAME:
            raise InputError(f"{settings.suite} has no episode files", "--episodes", f"name the suite {simuhome.NAME}")
        found: list[Any] = simuhome.read_episodes(settings.episodes, settings.mended)
    else:
        found = read_suite(settings.suite)
    ours = isinstance(found[0], simuhome.SimuHomeInstance)
    if ours and settings.user:
        raise InputError("SimuHome's user speaks once, from the episode", "--user", "leave it out")
    known = ("eia", "react") if ours else ("eia", "dr")
    if settings.setting not in known:
        raise InputError(f"{settings.suite} has no setting '{settings.setting}'", "--setting", f"one of {', '.join(known)}")
    return found


def players_of(settings: BenchRun) -> tuple[Players, Pace]:
    """Who plays, and how many episodes at once."""
    user, spoken = user_of(settings)
    sampling = f"{settings.temperature} {settings.max_tokens} {settings.seed} {spoken}"
    if (baseline := baseline_named(settings.model, Path(settings.suite).name.startswith(simuhome.NAME))) is not None:
        return Players(baseline, user, f"{settings.model} {sampling}"), Pace(settings.at_once, waves=False)
    if settings.model.startswith(("http://", "https://")):
        from homerl.agents.llm import LLMAgent
        from homerl.agents.react import ReActAgent

        name = settings.served
        endpoint = Endpoint(settings.model.split(","), name, seed=settings.seed)
        kind = ReActAgent if settings.setting == "react" else LLMAgent
        agent: Callable[[], Agent] = lambda: kind(endpoint, settings.temperature, settings.max_tokens)  # noqa: E731
        return Players(agent, user, f"{name} {sampling}"), Pace(settings.at_once, waves=False)
    if settings.setting == "react":
        remedy = "serve it (vLLM, --model http://...), or take --setting eia"
        raise InputError("a model that is loaded here speaks in calls, not in text", "--setting react", remedy)
    return local_players(settings, user, sampling)


def baseline_named(name: str, of_simuhome: bool = False) -> Callable[[], Agent] | None:
    """A baseline's maker, if that is what a model's name means."""
    if of_simuhome:
        return agents.BASELINES.get(name)
    if name == "hassil":
        from homerl.bench.hassil_agent import HomeAssistant

        return HomeAssistant
    return BASELINES.get(name)


def user_of(settings: BenchRun) -> tuple[Callable[[int], User], str]:
    """The scripted user, or the one behind a URL."""
    if settings.user is None:
        return ScriptedUser, "scripted"
    from homerl.settings import UserSettings
    from homerl.users.make import llm_users

    name, urls = served_model(settings.user), tuple(settings.user.split(","))
    return llm_users(UserSettings(kind="llm", url=urls, model=name), urls, name), name


def local_players(settings: BenchRun, user: Callable[[int], User], sampling: str) -> tuple[Players, Pace]:
    """A model that this process loads."""
    import torch

    from homerl.agents.policy import PolicyAgent, TransformersEngine
    from homerl.bench.models import file_stamps
    from homerl.recipe import ModelSettings
    from homerl.train.common import load_policy, load_tokenizer

    tokenizer = load_tokenizer(settings.model)
    dtype = "float32" if settings.cpu else "bfloat16"
    model = load_policy(ModelSettings(name=settings.model, dtype=dtype), settings.model)
    model = model.to("cpu" if settings.cpu else "cuda").eval()
    engine = TransformersEngine(model, tokenizer, settings.max_tokens, settings.temperature, settings.at_once)
    identity = f"{settings.model} {file_stamps(settings.model)} {sampling}"
    pace = Pace(settings.at_once, begin=lambda first: torch.manual_seed(settings.seed + first))
    return Players(lambda: PolicyAgent(engine, tokenizer), user, identity), pace


def judge_of(url: str | None, model: str | None, votes: int, sample: int) -> JudgeSettings | None:
    """The judge behind a URL, or none; an even number of votes is refused, since it may be a tie."""
    if votes < 1 or votes % 2 == 0:
        raise InputError(f"{votes} votes may be a tie", "--judge-votes", "take an odd number")
    return JudgeSettings(url, model or served_model(url), votes, sample) if url else None


def served_model(url: str) -> str:
    """The name of the one model that a server has."""
    from openai import OpenAI, OpenAIError

    from homerl.endpoint import secret

    try:
        names = [model.id for model in OpenAI(base_url=url.split(",")[0], api_key=secret(), timeout=30).models.list()]
    except OpenAIError as error:
        raise InputError(f"the server does not answer ({error})", url, "is it running? the address ends in /v1") from None
    if len(names) != 1:
        raise InputError(f"the server has {len(names)} models", url, f"name one with --served: {', '.join(names) or 'none'}")
    return names[0]
