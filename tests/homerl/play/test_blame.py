"""Who is to blame for what a world raises: the agent for calls that its schemas do not allow, else the world."""

import asyncio
import json

import pytest

from homerl.envs.core.world import WorldError
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import Boundary
from homerl.play.loop import play
from homerl.play.replay import first_difference
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome, trajectory_from_row, trajectory_to_row
from homerl.worlds.registry import begin_episode, make_blueprint_of_seed, restore_situation
from homerl.worlds.users import ScriptedUser

READ = ("query_device", {"what": "candidates"})
ACTIONS = [{"did": "1", "locator": "turn_on"}]
WRONG = [
    ("query_device", {"what": 5}),
    ("query_device", {"what": True}),
    ("query_device", {"what": None}),
    ("query_device", {"what": "all"}),
    ("query_device", {}),
    ("query_device", {"what": "spec", "other": 1}),
    ("query_device", {"what": "spec", "tags": [[1]]}),
    ("query_device", {"what": "spec", "tags": {}}),
    ("no_tool", {}),
    ("create_automation", {"actions": []}),
    ("create_automation", {"actions": ACTIONS, "delay_seconds": 0}),
    ("create_automation", {"actions": ACTIONS, "delay_seconds": float("nan")}),
]
WRITTEN = [json.dumps(call) for call in WRONG]


class Raising(HomeEnv):
    """A home whose tools raise whatever `raises` is, after the first call of a message has changed something."""

    raises: Exception = TypeError("'bool' object is not iterable")

    def step(self, action):
        self.engine.home.advance(60)
        if action["name"] == "list_automations":
            return super().step(action)
        raise self.raises


class Calls:
    """An agent that makes these calls in its first message."""

    name = "agent"

    def __init__(self, *calls):
        called = [{"type": "function", "function": {"name": name, "arguments": json.dumps(given)}} for name, given in calls]
        self.reply = Reply({"role": "assistant", "content": "", "tool_calls": called})

    async def propose(self, observation, n=1):
        return [self.reply]


def raising(error: Exception = Raising.raises) -> Episode:
    kind = type("Raising", (Raising,), {"raises": error})
    episode = begin_episode(
        make_blueprint_of_seed(BlueprintRecipe(home={"devices": (2, 3)}, toolset="smh"), "train", 1), EpisodeLimits()
    )
    episode.situation.world.__class__ = kind
    return episode


def played(episode: Episode, *calls):
    return asyncio.run(play(episode, Calls(*calls), ScriptedUser()))


@pytest.mark.parametrize("call", WRONG, ids=WRITTEN)
def test_a_call_that_no_schema_allows_counts_against_the_agent(call):
    episode = raising()
    key = episode.situation.state_key()
    trajectory = played(episode, ("list_automations", {}), call)
    assert trajectory.outcome is Outcome.AGENT_FAILURE and trajectory.outcome.is_counted
    assert trajectory.fault.boundary is Boundary.AGENT
    reason = trajectory.fault.reason
    assert call[0] in reason and "TypeError: 'bool' object is not iterable (test_blame.py:" in reason
    (step,) = trajectory.steps
    assert step.facts.blocked == ("wrong_type",) and step.facts.last and not step.facts.closes, "so that a loss counts it"
    assert step.state_key == key == episode.situation.state_key() and not step.facts.changed, "the whole message is undone"
    assert trajectory.messages[-2] == Calls(("list_automations", {}), call).reply.message


@pytest.mark.parametrize("error", [ValueError("no"), WorldError("the sandbox is gone"), KeyError("x")])
def test_a_call_that_the_schema_allows_counts_against_the_world(error):
    trajectory = played(raising(error), ("list_automations", {}), READ)
    assert trajectory.outcome is Outcome.WORLD_ERROR and not trajectory.outcome.is_counted and not trajectory.steps
    assert trajectory.fault.boundary is Boundary.WORLD and str(error) in trajectory.fault.reason


@pytest.mark.parametrize("error", [MemoryError(), RecursionError("too deep"), WorldError("the sandbox is gone")])
def test_who_writes_too_much_or_what_is_not_allowed_cannot_blame_the_world(error):
    call = WRONG[0] if isinstance(error, WorldError) else READ
    assert played(raising(error), call).fault.boundary is Boundary.AGENT


def test_such_a_failure_is_replayed_as_it_was(monkeypatch):
    def broken(blueprint):
        situation = restore_situation(blueprint)
        situation.world.__class__ = Raising
        return situation

    stored = trajectory_from_row(trajectory_to_row(played(raising(), WRONG[0])))
    assert first_difference(stored, broken) is None
    assert "outcome" in first_difference(stored, restore_situation) or "observed" in first_difference(
        stored, restore_situation
    )


def test_a_domain_that_is_no_text_is_refused():
    episode = begin_episode(make_blueprint_of_seed(BlueprintRecipe(toolset="assist"), "train", 3), EpisodeLimits())
    episode.add_utterance("go on", 1)
    for domain in (True, 5, {}, {"light": 1}, [["light"]], [None], 0.5):
        step = episode.fork().apply_reply(Calls(("homeassistant__GetLiveContext", {"domain": domain})).reply)
        assert step.facts.blocked == ("wrong_type",), domain
    step = episode.fork().apply_reply(Calls(("homeassistant__GetLiveContext", {"domain": None})).reply)
    assert not step.facts.blocked
