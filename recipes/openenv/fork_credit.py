"""Exact credit by step over a server of tasks: what a reply was worth, against what else the policy would have done there.

    homerl serve-env --openenv smarthome-bench --fork
    python fork_credit.py http://127.0.0.1:8000 3 http://127.0.0.1:8001/v1 my-model

The state before each reply of an episode is kept. From that very state the policy then plays on a few times. The mean of
these returns is the value of the state, without a critic. The reply's advantage is by how much its own return is larger.
"""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from fork_search import ask_model

from homerl.tasks.openenv.client import TaskClient

Reply = Any  # what `TaskClient.step` takes
Policy = Callable[[list[dict], list[dict]], Reply]  # the next reply to a dialogue, with these tools


@dataclass(frozen=True)
class Credited:
    """A reply with what it earned, all that was earned from it on, and its advantage."""

    reply: Reply
    reward: float
    return_to_go: float
    advantage: float


def play_on(client: TaskClient, policy: Policy, state: Any, tools: list[dict], keep: bool) -> list[tuple[Reply, float, str]]:
    """Play to the end. For each step: the reply, its reward, and the fork of the state before it, if they are kept."""
    played, dialogue = [], state.observation.messages
    while not state.done:
        fork, reply = client.fork() if keep else "", policy(dialogue, tools)
        state = client.step(reply)
        dialogue = [*dialogue, *state.observation.messages]
        played.append((reply, state.reward, fork))
    return played


def credit_episode(client: TaskClient, policy: Policy, index: int, seed: int = 0, others: int = 4) -> list[Credited]:
    """Play an episode, and give each of its replies its advantage over `others` ways in which the policy goes on."""
    state = client.reset(index=index, seed=seed)
    tools, credited, to_go = state.observation.tool_schemas, [], 0.0
    for reply, reward, fork in reversed(play_on(client, policy, state, tools, keep=True)):
        to_go += reward
        again = [play_on(client, policy, client.restore(fork), tools, keep=False) for _ in range(others)]
        value = fmean(sum(earned for _, earned, _ in one) for one in again)
        credited.append(Credited(reply, reward, to_go, to_go - value))
    return credited[::-1]


if __name__ == "__main__":
    home, task, endpoint, name = sys.argv[1:]
    propose = ask_model(endpoint, name)
    with TaskClient(home) as session:
        for one in credit_episode(session, lambda dialogue, tools: propose(dialogue, tools, 1)[0], int(task)):
            print(f"{one.advantage:+.3f}  {one.reply}")
