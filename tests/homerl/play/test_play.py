"""Play: every outcome, who is blamed for what, what each participant says and sees."""

import asyncio
import json
import pickle
from collections.abc import Sequence
from dataclasses import replace
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic_monty import Monty
from speaks import Speaks

from homerl.envs.core.messages import Message, tool_call
from homerl.envs.core.world import WorldError
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.sim import sandbox
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Past
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import AgentFault, Boundary, Fault, InfraError, RequestRefused, UserError
from homerl.play.loop import GAVE_UP, has_claimed_done, let_user_speak, play, waits_for_user
from homerl.play.replay import first_difference
from homerl.play.situation import Observation, Reply
from homerl.play.trajectory import Outcome, Trajectory
from homerl.rewards.composite import step_rewards
from homerl.worlds.contract import ExpertConfig
from homerl.worlds.registry import begin_episode, known_worlds, restore_situation
from homerl.worlds.users import ScriptedUser


def world_states(episode: Episode) -> list[tuple[str, Episode]]:
    """(device, fork in which its power is another) of every device that can be switched."""
    found = []
    for did in sorted(device.did for device in episode.situation.home.find_devices()):
        for code in ("turn_on", "turn_off"):
            other = episode.fork()
            other.world.step({"name": "pyexec", "code": f"device('{did}').{code}()"})
            if other.situation.home.state_of(did) != episode.situation.home.state_of(did):
                found.append((did, other))
    return found


@cache
def blueprints() -> tuple[Blueprint, ...]:
    recipes = BlueprintRecipe(), BlueprintRecipe(intents=(2, 2), phrasings=6, prompt="full")
    return tuple(make_home_blueprint(recipe, "train", seed) for recipe in recipes for seed in range(20))


def several() -> Blueprint:
    """Two intents, each with at least two wordings."""
    return next(b for b in blueprints() if len(b.intents) == 2 and all(len(i.queries) > 1 for i in b.intents))


class Says:
    """An agent with a fixed list of messages, the last one repeated."""

    name = "says"

    def __init__(self, *messages: Message | Exception) -> None:
        self.messages, self.spoken = list(messages), 0

    async def propose(self, observation: Observation, n: int = 1) -> Sequence[Reply]:
        message = self.messages[min(self.spoken, len(self.messages) - 1)]
        self.spoken += 1
        if isinstance(message, Exception):
            raise message
        return [Reply(message)]


def say(text: str) -> Message:
    return {"role": "assistant", "content": text}


def played(agent, user=None, blueprint: Blueprint | None = None, limits: EpisodeLimits = EpisodeLimits()) -> Trajectory:
    blueprint = blueprint or several()
    return asyncio.run(play(begin_episode(blueprint, limits), agent, user or ScriptedUser(1), 5))


def plan(blueprint: Blueprint) -> Message:
    return pyexec_message("\n".join(call.code for intent in blueprint.intents for call in intent.plan))


NOTHING = pyexec_message("pass")


@pytest.mark.parametrize("styles", [{"snippet": 1}, {"stepwise": 1}, {"query_first": 1}, {"sweeping": 1}])
def test_the_expert_succeeds_everywhere_without_a_refusal(styles):
    limits = EpisodeLimits(turns=9, steps=40, steps_per_turn=20)
    for blueprint in blueprints():
        trajectory = played(Expert(3, 0.0, styles), ScriptedUser(blueprint.seed), blueprint, limits)
        assert trajectory.outcome is Outcome.SUCCESS and trajectory.is_valid and trajectory.clean
        assert trajectory.progress == 1.0 and trajectory.steps[-1].facts.last
        assert sum(step.facts.last for step in trajectory.steps) == 1


def test_the_expert_errs_also_with_the_right_device():
    """By a service that another product has: its refusal names the device's own, as that of a wrong device cannot."""
    refusals = set()
    for blueprint in blueprints():
        right = [device for intent in blueprint.intents for device in intent.devices]
        for step in played(Expert(blueprint.seed, 1.0), ScriptedUser(blueprint.seed), blueprint).steps:
            refusals |= {(rule, len(right) == 1 and right[0] in json.dumps(step.message)) for rule in step.facts.blocked}
    assert {("syntax", True), ("unknown_service", False), ("unknown_service", True)} <= refusals


def test_a_decision_is_of_the_open_wishes_and_their_devices_whatever_was_said():
    found = set()
    for blueprint in blueprints()[:20]:
        episode, other = begin_episode(blueprint), begin_episode(blueprint)
        episode.add_utterance("one thing", 0)
        other.add_utterance("the same in other words", 0)
        assert episode.decision_key() == other.decision_key()
        concerned = {did for intent in blueprint.intents for did in intent.devices}
        for did, changed in world_states(episode):
            assert (changed.decision_key() != episode.decision_key()) == (did in concerned), did
            found.add(did in concerned)
    assert found == {True, False}


def test_a_home_that_is_as_asked_ends_the_episode_with_the_agents_last_word():
    blueprint = several()
    trajectory = played(Says(plan(blueprint), say("Done."), AssertionError("asked again")), blueprint=blueprint)
    assert trajectory.outcome is Outcome.SUCCESS and len(trajectory.steps) == 2 and len(trajectory.turns()) == 1
    assert trajectory.messages[-1] == say("Done.")
    assert [step.facts.closes for step in trajectory.steps] == [False, True]


def test_the_last_word_has_a_step_of_its_own_beyond_every_limit():
    blueprint = several()
    for limits in ({"steps": 1}, {"steps_per_turn": 1}, {"calls": 1}, {"turns": 1, "steps": 1}):
        limits = EpisodeLimits(**limits)
        polite = played(Says(plan(blueprint), say("Done.")), blueprint=blueprint, limits=limits)
        assert polite.outcome is Outcome.SUCCESS and len(polite.steps) == 2
        silent = played(Says(plan(blueprint), NOTHING), blueprint=blueprint, limits=limits)
        assert silent.outcome is Outcome.STEP_LIMIT and len(silent.steps) == 2 and silent.progress == 1.0
        assert not any(step_rewards(step.facts)["success"] for step in silent.steps)


def test_what_is_spoilt_before_the_last_word_is_no_success():
    blueprint = next(b for b in blueprints() if len(b.changeable_devices) < len(b.home["devices"]))
    other = stray(begin_episode(blueprint))
    spoilt = played(Says(plan(blueprint), pyexec_message(other), say("Done.")), blueprint=blueprint)
    assert spoilt.outcome is Outcome.AGENT_FAILURE and spoilt.progress == 1.0


@given(st.integers(0, 39), st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.data())
def test_a_success_ends_in_words_and_no_episode_is_longer_than_its_limits_and_a_word(which, turns, per_turn, steps, data):
    blueprint = blueprints()[which]
    calls, limits = plan(blueprint), EpisodeLimits(turns=turns, steps=steps, steps_per_turn=per_turn)
    said = data.draw(st.lists(st.sampled_from([calls, NOTHING, say("Done."), say("Which?")]), min_size=1, max_size=6))
    trajectory = played(Says(*said), ScriptedUser(0), blueprint, limits=limits)
    assert len(trajectory.steps) <= limits.steps + 1
    if trajectory.success:
        assert not trajectory.messages[-1].get("tool_calls") and trajectory.messages[-1]["role"] == "assistant"
    if len(trajectory.steps) > limits.steps:
        assert trajectory.steps[-2].facts.progress_after == 1.0


def test_touching_another_device_is_a_failure_where_the_blueprint_preserves():
    blueprint = next(b for b in blueprints() if len(b.changeable_devices) < len(b.home["devices"]))
    for preserve, outcome in ((True, Outcome.AGENT_FAILURE), (False, Outcome.SUCCESS)):
        one = blueprint.model_copy(update={"preserve": preserve})
        episode = begin_episode(one)
        trajectory = played(Says(pyexec_message(stray(episode)), plan(one), say("Done.")), blueprint=one)
        assert trajectory.outcome is outcome and trajectory.progress == 1.0 and not trajectory.clean
        assert trajectory.steps[0].facts.side_effects_after == 1 and trajectory.steps[0].facts.side_effects_before == 0


def stray(episode: Episode) -> str:
    """A call that changes a device which no intent concerns."""
    return next(
        f'device("{d.did}").{path}()'
        for d in episode.situation.home.plan.devices
        if d.did not in episode.blueprint.changeable_devices
        for path, compiled in d.spec.service_index.items()
        if not compiled.service.arguments and not compiled.service.requires and moves(episode, d.did, path)
    )


def moves(episode: Episode, did: str, path: str) -> bool:
    after = episode.situation.home.fork()
    after.call(did, path)
    return bool(after.diff(episode.situation.home))


def test_limits_end_the_episode():
    limits = EpisodeLimits(turns=3, steps=8, steps_per_turn=4)
    words = played(Says(say("Hm.")), limits=limits)
    assert words.fault is None, "a limit reached is no fault"
    assert words.outcome is Outcome.TURN_LIMIT and len(words.turns()) == 3 and words.steps[-1].facts.last
    stalls = played(Says(NOTHING), limits=limits)
    assert stalls.outcome is Outcome.STEP_LIMIT and len(stalls.steps) == 4
    both = played(Says(NOTHING, NOTHING, NOTHING, say("Wait.")), limits=EpisodeLimits(turns=9, steps=8, steps_per_turn=4))
    assert both.outcome is Outcome.STEP_LIMIT and len(both.steps) == 8
    assert [step.facts.turn for step in both.steps] == [1, 1, 1, 1, 2, 3, 4, 5]
    assert [step.facts.opens_turn for step in both.steps] == [True, False, False, False, True, True, True, True]


@pytest.mark.parametrize(
    ("agent", "user", "outcome", "fault"),
    [
        (Says(say("All done.")), Speaks("please"), Outcome.AGENT_FAILURE, None),
        (Says(say("Which one?")), Speaks("please"), Outcome.AGENT_FAILURE, None),
        (Says(NOTHING), Speaks(), Outcome.USER_ERROR, GAVE_UP),
        (Says(NOTHING), Speaks("   "), Outcome.USER_ERROR, GAVE_UP),
        (Says({"role": "assistant", "content": None}), Speaks("please"), Outcome.AGENT_FAILURE, None),
        (Says(say("Hm.")), Speaks("please", UserError("I am a model", "leak")), Outcome.USER_ERROR,
         Fault(Boundary.USER, "leak: I am a model")),
        (Says(say("Hm.")), Speaks(InfraError("no\n server")), Outcome.INFRA_ERROR, Fault(Boundary.SERVER, "no server")),
        (Says(NOTHING, InfraError()), Speaks("please"), Outcome.INFRA_ERROR, Fault(Boundary.SERVER, "InfraError")),
        (Says(NOTHING, RequestRefused("http://a", "half \ud83d")), Speaks("please"), Outcome.INFRA_ERROR,
         Fault(Boundary.SERVER, "http://a refused the request: half \ufffd")),
        (Says(RequestRefused("http://a", "9 tokens", too_long=True)), Speaks("please"), Outcome.AGENT_FAILURE,
         Fault(Boundary.AGENT, "the dialogue is longer than the model takes: 9 tokens")),
        (Says(NOTHING, RequestRefused("http://a", "9 tokens", too_long=True)), Speaks("please"), Outcome.AGENT_FAILURE,
         Fault(Boundary.AGENT, "the dialogue is longer than the model takes: 9 tokens")),
        (Says(NOTHING, AgentFault("flood")), Speaks("please"), Outcome.AGENT_FAILURE, Fault(Boundary.AGENT, "flood")),
        (Says(NOTHING, WorldError("no sandbox")), Speaks("please"), Outcome.WORLD_ERROR,
         Fault(Boundary.WORLD, "no sandbox")),
    ],
)  # fmt: skip
def test_each_fault_is_put_where_it_belongs(agent, user, outcome, fault):
    agent.spoken = 0
    trajectory = played(agent, user)
    assert trajectory.outcome is outcome and trajectory.fault == fault
    assert [step.facts.last for step in trajectory.steps] == [False] * (len(trajectory.steps) - 1) + [True] * bool(
        trajectory.steps
    )
    assert outcome.is_counted == (outcome is Outcome.AGENT_FAILURE)


@pytest.mark.parametrize("family", ["atomic/clear", "multi_turn/correction"])
def test_a_user_who_says_nothing_at_all_is_to_blame_also_after_an_earlier_dialogue(family):
    recipe = BlueprintRecipe.model_validate({"families": {family: 1}, "intents": [1, 1]})
    trajectory = played(Says(NOTHING), Speaks(), make_home_blueprint(recipe, "train", 0))
    assert trajectory.outcome is Outcome.USER_ERROR and trajectory.fault == GAVE_UP and not trajectory.steps


def test_after_an_error_of_the_world_the_episode_is_as_before_the_message():
    episode = begin_episode(several(), EpisodeLimits(steps=1))
    episode.add_utterance("please", 1)
    before = episode.fork()
    episode.situation.changed_since = lambda mark: 1 / 0  # asked for when the message has had its effect
    with pytest.raises(WorldError, match="ZeroDivisionError"):
        episode.apply_reply(Reply(pyexec_message(several().intents[0].plan[0].code)))
    assert (episode.outcome, episode.messages, episode.steps) == (None, before.messages, [])
    assert episode.situation.state_key() == before.situation.state_key()
    assert episode.apply_reply(Reply(NOTHING)).facts.last


def test_a_sandbox_that_is_gone_is_the_worlds_fault(monkeypatch):
    several()  # made through the sandbox, so made before it is gone
    with Monty(max_processes=1, checkout_timeout=0.5) as pool:
        monkeypatch.setattr(sandbox, "_started_pool", lambda: pool)
        with pool.checkout():
            assert played(Says(NOTHING)).outcome is Outcome.WORLD_ERROR, "no worker is free"
        assert played(Says(NOTHING)).outcome is Outcome.STEP_LIMIT
    assert played(Says(NOTHING)).outcome is Outcome.WORLD_ERROR, "the pool is closed"


@pytest.mark.parametrize(
    "arguments", ['{"code": ', "[1]", "5", "null", "[" * 100_000, "9" * 5000, '{"code": 5}', "{}", '{"code": "x", "y": 1}']
)
def test_calls_that_cannot_be_read_are_refused_and_never_raise(arguments):
    call = {"type": "function", "function": {"name": "pyexec", "arguments": arguments}}
    trajectory = played(Says({"role": "assistant", "content": "", "tool_calls": [call]}), limits=EpisodeLimits(steps=1))
    (step,) = trajectory.steps
    assert step.facts.blocked[0] in ("syntax", "wrong_type", "missing_argument", "unknown_argument")
    assert trajectory.messages[-1]["role"] == "tool" and trajectory.messages[-1]["content"].startswith("refused: ")


def test_a_malformed_reply_is_a_refusal_of_syntax():
    episode = begin_episode(several())
    episode.add_utterance("please", 1)
    step = episode.apply_reply(Reply(say("<tool_call>{"), malformed="the tool call has no end"))
    assert step.facts.blocked == ("syntax",) and not step.facts.changed
    assert [m["role"] for m in episode.messages] == ["system", "user", "assistant", "tool"]


def test_a_step_records_what_rewards_need():
    blueprint = several()
    first = blueprint.intents[0]
    code = "\n".join(call.code for call in first.plan) + '\ndevice("0").x()'
    trajectory = played(Says(pyexec_message(code)), blueprint=blueprint, limits=EpisodeLimits(steps=1))
    facts = trajectory.steps[0].facts
    assert facts.code == code and facts.code_tokens > 5 and facts.blocked == ("unknown_device",)
    assert facts.progress_before == 0 and facts.progress_after == pytest.approx(
        len(first.conditions) / len(blueprint.all_conditions)
    )
    assert facts.changed and {slot.split(".")[0] for slot in facts.changed} <= set(first.devices)


def test_several_calls_in_a_message_are_answered_one_by_one():
    blueprint = several()
    calls = [tool_call("query_status", {"did": blueprint.home["devices"][0]["did"]}, "a"), tool_call("nonsense", {}, "b")]
    trajectory = played(
        Says({"role": "assistant", "content": "", "tool_calls": calls}), blueprint=blueprint, limits=EpisodeLimits(steps=1)
    )
    tools = [m for m in trajectory.messages if m["role"] == "tool"]
    assert [m["tool_call_id"] for m in tools] == ["a", "b"] and tools[1]["content"].startswith("refused: unknown_tool")
    assert trajectory.steps[0].facts.blocked == ("unknown_tool",) and trajectory.tool_calls == 2


def test_the_same_call_refused_again_in_a_turn_ends_the_episode_where_a_recipe_says_so():
    limits = EpisodeLimits(turns=3, steps=8, steps_per_turn=6)
    wrong, other = pyexec_message('device("0").x()'), pyexec_message('device("00").x()')
    assert len(played(Says(wrong), limits=limits).steps) == 6
    twice = replace(limits, same_refusals=2)
    again = played(Says(wrong, other, NOTHING, wrong), limits=twice)
    assert (
        again.outcome is Outcome.STEP_LIMIT and len(again.steps) == 4 and first_difference(again, restore_situation) is None
    )
    later = played(Says(wrong, say("Which one?"), wrong, say("Hm.")), limits=twice)
    assert later.outcome is Outcome.TURN_LIMIT, "in another turn it may have become right"
    assert "same_refusals" not in played(Says(wrong), limits=limits).limits, "what did not set it is stored as before"
    episode = begin_episode(several(), twice)
    episode.add_utterance("x")
    episode.apply_reply(Reply(wrong))
    fork = episode.fork()
    fork.apply_reply(Reply(wrong))
    assert fork.outcome is Outcome.STEP_LIMIT and episode.outcome is None and not episode.refused_too_often
    for outcome in (None, Outcome.STEP_LIMIT):
        episode.apply_reply(Reply(say("<tool_call>{"), "no JSON"))
        assert episode.outcome is outcome, "what cannot be read is the same if its text is"


def test_a_fork_of_an_episode_that_a_fault_ended_has_the_fault():
    episode = begin_episode(several())
    episode.end_with_fault(Fault(Boundary.WORLD, "no sandbox"))
    assert episode.fork().fault == episode.fault and episode.fork().outcome is Outcome.WORLD_ERROR


def test_forks_of_an_episode_are_independent():
    episode = begin_episode(several())
    episode.add_utterance("please", 1)
    twin = episode.fork()
    twin.apply_reply(Reply(plan(twin.blueprint)))
    twin.apply_reply(Reply(say("Done.")))
    assert twin.outcome is Outcome.SUCCESS and twin.progress == 1.0
    assert episode.outcome is None and episode.progress == 0.0 and len(episode.messages) == 2 and not episode.steps
    assert episode.situation.home.state_key() == episode.situation.start.state_key() != twin.situation.home.state_key()


def test_the_clock_moves_by_the_recipe_alone():
    blueprint = several()
    for seconds in (0, 30):
        episode = begin_episode(blueprint, EpisodeLimits(seconds_per_step=seconds))
        episode.add_utterance("please", 1)
        episode.apply_reply(Reply(say("Hm?")))
        episode.add_utterance("please", 1)
        episode.apply_reply(Reply(NOTHING))
        assert episode.situation.home.clock - episode.situation.start.clock == 2 * seconds


def test_the_user_rewords_goes_round_and_answers_questions():
    blueprint = several()
    intent = blueprint.intents[0]
    words = played(Says(say("Hm.")), blueprint=blueprint, limits=EpisodeLimits(turns=7, steps=20))
    said = [m["content"] for m in words.messages if m["role"] == "user"]
    assert said[: len(intent.queries)] == [intent.queries[(1 + i) % len(intent.queries)] for i in range(len(intent.queries))]
    assert all(a != b for a, b in zip(said, said[1:], strict=False)), "the same words twice running"
    asks = played(Says(say("Which one do you mean?"), say("Hm.")), blueprint=blueprint)
    assert [m["content"] for m in asks.messages if m["role"] == "user"][1] == intent.clarification


def test_the_user_goes_on_with_what_is_open_and_stops_when_nothing_is():
    blueprint = several()
    first, second = blueprint.intents
    episode = begin_episode(blueprint)
    user = ScriptedUser(0)
    assert asyncio.run(user.speak(episode)).intent_id == first.id
    episode.add_utterance(first.queries[0], first.id)
    episode.apply_reply(Reply(pyexec_message("\n".join(call.code for call in first.plan))))
    episode.apply_reply(Reply(say("Done.")))
    utterance = asyncio.run(user.speak(episode))
    assert utterance.intent_id == second.id and utterance.text in second.queries
    episode.add_utterance(utterance.text, second.id)
    episode.apply_reply(Reply(pyexec_message("\n".join(call.code for call in second.plan))))
    assert episode.outcome is None
    episode.apply_reply(Reply(say("Done.")))
    assert episode.outcome is Outcome.SUCCESS and asyncio.run(user.speak(episode)).text == ""


def test_no_id_or_condition_is_ever_in_a_users_words():
    for blueprint in blueprints():
        for agent in (Expert(1, 0.5), Says(say("Which?")), Says(say("Done."))):
            trajectory = played(agent, ScriptedUser(blueprint.seed), blueprint)
            words = " ".join(m["content"] for m in trajectory.messages if m["role"] == "user")
            assert not {d["did"] for d in blueprint.home["devices"]} & set(words.split())
            assert "device(" not in words and "==" not in words and "_" not in words


def test_an_agent_never_sees_the_conditions_or_the_plan():
    for blueprint in blueprints():
        episode = begin_episode(blueprint)
        episode.add_utterance(blueprint.intents[0].queries[0], blueprint.intents[0].id)
        episode.apply_reply(Reply(pyexec_message("print(1)")))
        seen = json.dumps([episode.observation.messages, episode.observation.tools])
        seen = seen.replace('device(\\"1001\\").turn_on()', "")  # the example in the full prompt
        for intent in blueprint.intents:
            for text in (*intent.conditions, *(call.code for call in intent.plan), blueprint.scene):
                assert text not in seen and json.dumps(text)[1:-1] not in seen
        assert set(vars(episode.observation)) == {"blueprint_id", "messages", "tools", "one_answer", "protocol", "seed"}
        state = [f'"{value}"' for device in blueprint.home["devices"] for value in device["state"].values()]
        assert not any(value in episode.messages[0]["content"] for value in state)


def test_the_same_seeds_play_the_same_bytes():
    blueprint = several()
    one, other = (played(Expert(4, 0.5), ScriptedUser(4), blueprint) for _ in range(2))
    assert one == other


def direct(blueprint: Blueprint) -> Blueprint:
    return blueprint.model_copy(update={"toolset": "direct", "prompt": "full"})


def answered(mode: str, intent, response: str = "Done.") -> Message:
    """What a `direct` agent says to have a plan carried out."""
    actions = [{"did": call.did, "locator": call.service, "arguments": arguments_of(call)} for call in intent.plan]
    return say(json.dumps({"mode": mode, "response": response, "actions": actions}))


def arguments_of(call) -> dict:
    """A plan's arguments by name: the scripted author writes them by place."""
    from homerl.envs.homeenv.sim.devices.device_spec import Catalogue

    names = {
        (path, a.name)
        for spec in Catalogue.load_shipped().values()
        for path, compiled in spec.service_index.items()
        for a in compiled.service.arguments[:1]
        if path == call.service
    }
    return {next(name for _, name in sorted(names)): call.args[0]} if call.args else {}


def test_a_direct_answer_acts_speaks_and_ends_the_turn():
    blueprint = direct(several())
    episode = begin_episode(blueprint)
    first, second = blueprint.intents
    episode.add_utterance(first.queries[0], first.id)
    step = episode.apply_reply(Reply(answered("execute", first)))
    assert step.facts.progress_after > 0 and not step.facts.blocked and waits_for_user(episode)
    assert episode.open_intents() == [second] and has_claimed_done(episode)
    episode.add_utterance(second.queries[0], second.id)
    asked = episode.apply_reply(Reply(answered("clarify", second, "Which one?")))
    assert not asked.facts.changed and not has_claimed_done(episode)
    episode.add_utterance(second.clarification, second.id)
    episode.apply_reply(Reply(say("```json\n" + answered("execute", second)["content"] + "\n```")))
    assert episode.outcome is Outcome.SUCCESS


@pytest.mark.parametrize(
    "text", ["Sure!", "[1]", '{"mode": "dance"}', '{"mode": "execute", "actions": [{"did": "1"}]}', "{" * 9000]
)
def test_an_answer_that_is_none_is_refused_and_ends_the_turn(text):
    episode = begin_episode(direct(several()))
    episode.add_utterance("hello", 1)
    step = episode.apply_reply(Reply(say(text)))
    assert len(step.facts.blocked) == 1 and not step.facts.changed and waits_for_user(episode)


def test_memory_and_history_are_told_and_are_no_turns_of_the_episode():
    past = [Past(role="user", content="Dim the lamp."), Past(role="assistant", content="Done.")]
    known = ("likes 22 degrees in the evening",)
    blueprint = several().model_copy(update={"memory": known, "history": tuple(past)})
    trajectory = played(Expert(1), ScriptedUser(1), blueprint)
    assert known[0] in trajectory.messages[0]["content"] and trajectory.messages[1]["content"] == "Dim the lamp."
    assert trajectory.outcome is Outcome.SUCCESS
    turns = trajectory.turns()
    assert turns[0].utterance != "Dim the lamp." and sum(len(turn.steps) for turn in turns) == len(trajectory.steps)
    assert first_difference(trajectory, restore_situation) is None


@pytest.mark.parametrize("history", [0, 2, 4])
@pytest.mark.parametrize("toolset", ["homeflow", "direct"])
def test_the_opening_is_what_stood_before_the_user_spoke_whatever_keys_a_blueprint_has(toolset, history):
    past = [Past(role=role, content="Dim the lamp.") for role in ("user", "assistant")] * (history // 2)
    blueprint = several().model_copy(update={"history": tuple(past), "toolset": toolset})
    agents = (Says(InfraError("down")), Says(say("Done.")), Says(say("Done."), InfraError("down")), Expert(1))
    silent = played(Says(say("Done.")), Speaks(UserError("left_role", "")), blueprint)
    for trajectory in (silent, *(played(agent, None, blueprint) for agent in agents)):
        unnamed = replace(trajectory, blueprint={"id": "of a world without these keys"})
        assert (
            unnamed.opening_messages == tuple(begin_episode(blueprint).messages)
            and len(unnamed.opening_messages) == 1 + history
        )
        assert len(unnamed.turns()) == sum(message["role"] == "user" for message in trajectory.messages[1 + history :])


@pytest.mark.parametrize("toolset", ["homeflow", "smh", "direct"])
def test_a_full_briefing_tells_hour_rooms_and_entrance(toolset):
    blueprint = several().model_copy(update={"prompt": "full", "toolset": toolset})
    episode = begin_episode(blueprint)
    told = episode.messages[0]["content"]
    assert all(room.name in told for room in episode.situation.home.plan.rooms) and "It is " in told
    entrance = episode.situation.home.plan.entrance
    assert entrance is None or f"speaks to device {entrance}" in told
    assert ("pyexec" in told, "control_device" in told, '"products"' in told) == tuple(
        toolset == t for t in ("homeflow", "smh", "direct")
    )


@pytest.mark.parametrize("name", known_worlds())
def test_an_episode_that_is_pickled_half_way_goes_on_alike(name):
    world = known_worlds()[name]
    episode = begin_episode(world.make_blueprint(world.recipe(world=name), "train", 5))

    def goes_on(episode: Episode) -> Trajectory:
        return asyncio.run(play(episode, world.expert(ExpertConfig(), 1), ScriptedUser(1)))

    for _ in range(3):
        asyncio.run(let_user_speak(episode, ScriptedUser(1))) if waits_for_user(episode) else episode.apply_reply(
            Reply(say("One moment."))
        )
        twin = pickle.loads(pickle.dumps(episode))
        assert twin.situation.state_key() == episode.situation.state_key() and twin.observation == episode.observation
        trajectory = goes_on(episode.fork())
        assert goes_on(twin) == trajectory == pickle.loads(pickle.dumps(trajectory))
