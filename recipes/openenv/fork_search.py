"""Tree search over a server of tasks: best first, by forks over the wire.

    homerl serve-env --openenv smarthome-bench --fork
    python fork_search.py http://127.0.0.1:8000 3 http://127.0.0.1:8001/v1 my-model

A state is restored and stepped as often as the search likes: the home, the dialogue and the rewards are exactly those of an
episode that was played straight to it. Two nodes of one home in which the agent has just seen the same are one.
"""

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from typing import Any

from homerl.tasks.openenv.client import TaskClient

Reply = Any  # what `TaskClient.step` takes: a text, or a message in OpenAI's form
Propose = Callable[[list[dict], list[dict], int], Sequence[Reply]]  # n replies to a dialogue, with these tools


@dataclass(order=True)
class Node:
    """A state that was reached. The search goes on where most was earned."""

    loss: float
    number: int
    fork: str = field(compare=False)
    path: tuple[Reply, ...] = field(compare=False)


@dataclass(frozen=True)
class Found:
    """The best that was found: an episode, or the beginning of one."""

    path: tuple[Reply, ...]
    earned: float
    outcome: str | None
    steps: int


def search_episode(
    client: TaskClient, propose: Propose, index: int, seed: int = 0, budget: int = 100, width: int = 4
) -> Found:
    """Search until an episode succeeds, or for as many steps as the budget has."""
    result = client.reset(index=index, seed=seed)
    tools, numbers, steps = result.observation.tool_schemas, count(), 0
    frontier, best = [Node(0.0, next(numbers), client.fork(), ())], Found((), 0.0, None, 0)
    seen = {(client.state_key(), str(result.observation.messages[-1]))}
    while frontier and steps < budget:
        node = heappop(frontier)
        dialogue = client.restore(node.fork).observation.messages
        for reply in propose(dialogue, tools, width):
            client.restore(node.fork)
            result, steps = client.step(reply), steps + 1
            earned, path = result.reward - node.loss, (*node.path, reply)
            found = Found(path, earned, result.metadata["outcome"], steps)
            if found.outcome == "success":
                return found
            best = max(best, found, key=lambda one: one.earned)
            if result.done:
                continue
            state = client.state_key(), str(result.observation.messages[-1])
            if state not in seen:
                seen.add(state)
                heappush(frontier, Node(-earned, next(numbers), client.fork(), path))
    return best


def ask_model(url: str, model: str) -> Propose:
    """Replies of a model behind an endpoint of OpenAI's form."""
    from openai import OpenAI

    server = OpenAI(base_url=url, api_key="none")

    def propose(dialogue: list[dict], tools: list[dict], width: int) -> Sequence[Reply]:
        answer = server.chat.completions.create(model=model, messages=dialogue, tools=tools, n=width, temperature=1.0)
        return [choice.message.model_dump(exclude_none=True) for choice in answer.choices]

    return propose


if __name__ == "__main__":
    home, task, endpoint, name = sys.argv[1:]
    with TaskClient(home) as session:
        print(search_episode(session, ask_model(endpoint, name), int(task)))
