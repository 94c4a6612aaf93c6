"""What a policy is handed: plain data, by every caller. An oracle is handed the episode."""

import asyncio
import gc
import types
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import pytest
from tree_search import search_tree

from homerl.bench.runner import EpisodeSpec, ParticipantFactories, run_suite
from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.agents.baselines import DoNothingAgent, RandomActionAgent
from homerl.envs.homeenv.tasks.role_play import role_play
from homerl.envs.simuhome.tasks.blueprint import SimuHomeRecipe
from homerl.models.endpoint.structured_answers import RequestsSpent
from homerl.models.policy.policy_agent import PolicyAgent, Sample
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import Agent, Oracle, Policy, play, replies_from
from homerl.play.replay import first_difference
from homerl.play.situation import Observation, Reply
from homerl.rewards.composite import RewardWeights
from homerl.synth.mcts import SearchConfig
from homerl.train.data.rollout import RolloutPlayer
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, restore_situation, world_of
from homerl.worlds.users import ScriptedUser

SECRET = ("homerl.envs.", "homerl.worlds.", "homerl.play.episode", "homerl.play.situation", "homerl.synth.")
ASKS = {"role": "assistant", "content": "Which one do you mean?"}
LIMITS = EpisodeLimits(turns=3, steps=4, steps_per_turn=2)


def reachable(*roots: Any) -> Iterator[Any]:
    """Every object that can be reached from some, but through classes, modules and the globals of functions."""
    seen, todo = set[int](), list(roots)
    while todo:
        one = todo.pop()
        if id(one) in seen or isinstance(one, (type, types.ModuleType)):
            continue
        seen.add(id(one))
        yield one
        if isinstance(one, types.FunctionType):
            todo += one.__closure__ or (), one.__defaults__, one.__kwdefaults__, vars(one)
        else:
            todo += gc.get_referents(one)


def secrets(*roots: Any) -> set[str]:
    """The types of what can be reached and belongs to an episode, its world or its blueprint."""
    found = {type(one) for one in reachable(*roots)} - {Observation}
    return {kind.__qualname__ for kind in found if f"{kind.__module__}.".startswith(SECRET)}


class Spy:
    """A policy that keeps what it is handed."""

    name = "spy"

    def __init__(self) -> None:
        self.handed: list[tuple[Any, ...]] = []

    async def propose(self, *handed: Any) -> Sequence[Reply]:
        self.handed.append(handed)
        return [Reply(ASKS)]


class Greedy(Spy):
    """A policy that would like to be an oracle too."""

    consult = Spy.propose


def innocent(agent: Spy, least: int = 1) -> None:
    """What a policy was handed is an observation (and how many messages are wanted), from which nothing can be reached."""
    assert len(agent.handed) >= least
    for observation, *rest in agent.handed:
        assert type(observation) is Observation and all(type(n) is int for n in rest)
        assert secrets(observation) == set() == secrets(agent)


@pytest.fixture(params=["homeflow", "direct", "simuhome"])
def blueprint(request, task):
    if request.param == "simuhome":
        return make_blueprint_of_seed(SimuHomeRecipe(world="simuhome"), "train", 3)
    return make_blueprint_of_seed(task, "train", 3).model_copy(update={"toolset": request.param})


def test_the_walk_finds_an_episode_wherever_it_hides(blueprint):
    episode = begin_episode(blueprint)
    hidden = {
        "closure": [lambda: episode],
        "method": episode.apply_reply,
        "default": lambda e=episode: e,
        "blueprint": blueprint,
    }
    for name, holder in hidden.items():
        assert secrets(holder), name
    assert {"Episode", type(blueprint).__name__, type(episode.situation).__name__} <= secrets(hidden["closure"])


@pytest.mark.parametrize("kind", [Spy, Greedy])
def test_the_play_loop_hands_a_policy_its_observation(blueprint, kind):
    agent = kind()
    asyncio.run(play(begin_episode(blueprint, LIMITS), agent, ScriptedUser()))
    innocent(agent)
    assert agent.handed[0][0].blueprint_id == blueprint.id
    assert agent.handed[0][0].one_answer == (blueprint.toolset == "direct")


def test_a_search_hands_a_policy_its_observation(blueprint):
    agent = Spy()
    asyncio.run(
        search_tree(blueprint, agent, [ScriptedUser(0), ScriptedUser(1)], SearchConfig(k_user=2, rollouts=3), LIMITS)
    )
    innocent(agent)


def test_the_bench_runner_hands_a_policy_its_observation(blueprint, tmp_path):
    class Tasks(list):
        identity = "spied on"

    agent = Spy()
    run_suite(Tasks([EpisodeSpec(blueprint, LIMITS)] * 2), ParticipantFactories(lambda: agent), tmp_path)
    innocent(agent, least=2)


def test_a_role_play_hands_a_policy_its_observation(task):
    household, agent = make_blueprint_of_seed(task, "train", 3), Spy()

    class Model:
        tally = RequestsSpent()

        async def ask(self, system, text, shape, seed, temperature=None):
            said = {"say": "Turn it on.", "stop": "Which" in text, "keep": False, "fault": "none"}
            return shape(**{name: said[name] for name in shape.model_fields})

    asyncio.run(role_play(household, agent, Model(), LIMITS))
    innocent(agent)


class Engine:
    """Samples a question, token by token of the tokenizer's own."""

    def __init__(self, tokenizer: Any) -> None:
        self.ids = (*tokenizer.encode("Which one?", add_special_tokens=False), tokenizer.eos_token_id)

    async def sample(self, prompt: Sequence[int]) -> Sample:
        return Sample(self.ids, tuple(-0.5 for _ in self.ids))


def test_a_rollout_hands_the_policy_its_observation(task, tokenizer, monkeypatch):
    spy, propose = Spy(), PolicyAgent.propose

    async def spied(self, *handed):
        spy.handed.append(handed)
        assert secrets(self) == set(), "nor does what the agent holds lead to an episode"
        return await propose(self, *handed)

    monkeypatch.setattr(PolicyAgent, "propose", spied)
    player = RolloutPlayer(Engine(tokenizer), tokenizer, ScriptedUser, LIMITS, RewardWeights(), 4096)
    rollouts = player.play_blueprints([make_blueprint_of_seed(task, "train", 3)] * 8, list(range(8)))
    assert all(rollout.trajectory.fault is None for rollout in rollouts)
    innocent(spy, least=4)


class Vandal(Spy):
    """A policy that destroys all that it is handed, and later its own messages."""

    def __init__(self) -> None:
        super().__init__()
        self.said: list[dict[str, Any]] = []

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        for data in (*observation.messages, *observation.tools, *self.said):
            destroy(data)
        self.said.append({"role": "assistant", "content": "", "tool_calls": [tool_call("query_spec", {"did": "1"})]})
        return [Reply(self.said[-1])]


def destroy(data: Any) -> None:
    for inner in (*data.values(),) if isinstance(data, dict) else (*data,) if isinstance(data, list) else ():
        destroy(inner)
    if isinstance(data, (dict, list)):
        data.clear()


def test_a_policy_that_changes_what_it_is_handed_changes_no_episode(blueprint):
    class Calls(Spy):
        async def propose(self, *handed: Any) -> Sequence[Reply]:
            return [Reply({"role": "assistant", "content": "", "tool_calls": [tool_call("query_spec", {"did": "1"})]})]

    kept, spoilt = (
        asyncio.run(play(begin_episode(blueprint, LIMITS), agent, ScriptedUser())) for agent in (Calls(), Vandal())
    )
    assert replace(spoilt, agent="spy") == kept and len(kept.steps) > 1 and kept.tools
    assert first_difference(spoilt, restore_situation) is None


def test_an_oracle_is_handed_the_episode(blueprint):
    episode, seen = begin_episode(blueprint), []

    class Sees:
        name = "sees"

        async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
            seen.append((episode, n))
            return [Reply(ASKS)] * n

    assert len(asyncio.run(replies_from(Sees(), episode, 2))) == 2 and seen == [(episode, 2)]


def test_who_reads_the_home_is_an_oracle_and_who_only_speaks_is_a_policy(blueprint):
    def kinds(agent: Agent) -> tuple[bool, bool]:
        return isinstance(agent, Policy), isinstance(agent, Oracle)

    world = world_of(blueprint)
    assert kinds(world.expert(ExpertConfig(), 0)) == (False, True)
    assert kinds(DoNothingAgent()) == (True, False) and kinds(RandomActionAgent()) == (False, True)
    for name in world.baselines.keys() - {"hassil"}:
        assert sum(kinds(world.baselines[name]())) == 1, name
