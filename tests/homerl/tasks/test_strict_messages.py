"""What the tasks hand out as a dialogue is what a strict endpoint of OpenAI's form takes; what is stored stays as it was."""

import json

import pytest

import homerl
from homerl.envs.core.messages import to_strict_openai_form

KEYS = {
    "system": {"role", "content"},
    "user": {"role", "content"},
    "assistant": {"role", "content", "tool_calls", "reasoning_content"},
    "tool": {"role", "content", "tool_call_id"},
}


def find_breach(messages) -> str | None:
    """The first rule of OpenAI's that a dialogue breaks."""
    open_ids, seen = set(), set()
    for message in messages:
        role = message["role"]
        if not message.keys() <= KEYS[role]:
            return f"a {role} message has {message.keys() - KEYS[role]}"
        if role == "tool":
            if message.get("tool_call_id") not in open_ids:
                return "a tool message answers no call of the assistant message before it"
            open_ids.remove(message["tool_call_id"])
            continue
        if open_ids:
            return "a call has no answer"
        for call in message.get("tool_calls", ()):
            if call.get("type") != "function" or not call.get("id") or call["id"] in seen:
                return "a call has no id of its own"
            if not isinstance(json.loads(call["function"]["arguments"]), dict):
                return "arguments are no object"
            seen.add(call["id"])
            open_ids.add(call["id"])
    return "a call has no answer" if open_ids else None


@pytest.fixture(scope="module")
def task() -> homerl.Task:
    return homerl.load_tasks({"home": {"devices": [3, 5]}, "intents": [1, 1]}, count=1)[0]


def mixed_replies(call) -> list:
    return [
        f"<tool_call>{json.dumps(call)}</tool_call>",
        "<tool_call>{broken",
        [call, call],
        [call],
        {"content": "", "tool_calls": [{"id": "mine", "function": {"name": call["name"], "arguments": "[1]"}}]},
        "Hm.",
    ]


def test_a_dialogue_of_replies_in_every_form_is_strict_after_each_step(task):
    env = task.start()
    turns = [env.step(reply) for reply in mixed_replies({"name": "pyexec", "arguments": {"code": "1"}})]
    stored, messages = env.observation.messages, env.messages
    assert find_breach(stored) and find_breach(messages) is None
    assert messages == [*task.messages, *(message for turn in turns for message in turn.new_messages)]
    calls = [call["id"] for message in messages for call in message.get("tool_calls", ())]
    assert calls == ["call_1", "call_0", "call_2", "call_3", "mine"]
    assert turns[1].new_messages[1]["role"] == "user" and "refused" in turns[1].new_messages[1]["content"]
    assert [message["content"] for message in stored] == [message["content"] for message in messages]


def test_ids_that_a_server_gave_stay_and_repeated_ones_do_not():
    def said(*ids):
        calls = [{"id": id, "function": {"name": "look", "arguments": "{}"}} for id in ids]
        answers = [{"role": "tool", "content": id, "tool_call_id": id} for id in reversed(ids)]
        return [{"role": "assistant", "content": "", "tool_calls": calls}, *answers]

    dialogue = [*said("a", "call_1"), *said("a")]
    found = [*to_strict_openai_form(dialogue)]
    assert find_breach(dialogue) and find_breach(found) is None
    assert [call["id"] for message in found for call in message.get("tool_calls", ())] == ["a", "call_1", "call_2"]
    assert [message["tool_call_id"] for message in found[1:3]] == ["call_1", "a"], "each answers its own call"
    assert dialogue == [*said("a", "call_1"), *said("a")], "the dialogue itself stays"


def test_the_experts_episode_is_a_dialogue_that_steps_take(task):
    done = task.play_expert()
    assert done.outcome == "success" and find_breach(done.messages) is None
    env = task.start()
    turns = [env.step(message) for message in done.messages if message["role"] == "assistant"]
    assert env.outcome == "success" and env.messages == done.messages
    assert sum(turn.reward for turn in turns) == sum(sum(rewards.values()) for rewards in done.trajectory().rewards) == 2.0


def test_no_reward_is_a_minus_zero(task):
    rewards = task.start().step("Done.").rewards
    assert rewards and not any(str(value) == "-0.0" for value in rewards.values())
