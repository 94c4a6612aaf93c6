"""Sessions a second and the time of a step over OpenEnv's wire, beside the loop without one: scripts/bench_openenv.

The scripted expert's replies are played, so that nothing but the environment takes time. A session is one whole task.
The server is a process of its own, and all clients are coroutines of another one.
"""

import argparse
import asyncio
import json
import os
import statistics
import tempfile
import time
from importlib.metadata import version
from pathlib import Path

from openenv_serving import expert_messages, openenv_server, write_recipe

import homerl
from homerl.tasks.openenv.client import TaskClient

TASKS = {"toolset": "assist", "intents": [1, 2], "home": {"devices": [8, 12]}}


def percentile(values: list[float], share: float) -> float:
    """The value below which a share of the values lies."""
    return sorted(values)[min(len(values) - 1, int(share * len(values)))]


def play_here(tasks: list[homerl.Task], replies: list[list[dict]], sessions: int) -> tuple[float, list[float]]:
    """Seconds of all sessions, and of each step, without a wire."""
    steps, begun = [], time.perf_counter()
    for at in range(sessions):
        env = tasks[at % len(tasks)].start()
        for reply in replies[at % len(tasks)]:
            before = time.perf_counter()
            env.step(reply)
            steps.append(time.perf_counter() - before)
        assert env.outcome == "success"
    return time.perf_counter() - begun, steps


async def play_there(url: str, replies: list[list[dict]], sessions: int, at_once: int) -> tuple[float, list[float]]:
    """The same over the wire, with so many clients at once."""
    steps: list[float] = []

    async def work(first: int) -> None:
        async with TaskClient(url, message_timeout_s=300) as client:
            for at in range(first, sessions, at_once):
                result = await client.reset(index=at % len(replies))
                for reply in replies[at % len(replies)]:
                    before = time.perf_counter()
                    result = await client.step(reply)
                    steps.append(time.perf_counter() - before)
                assert result.metadata["outcome"] == "success"

    begun = time.perf_counter()
    await asyncio.gather(*map(work, range(at_once)))
    return time.perf_counter() - begun, steps


async def time_forks(url: str, count: int) -> dict[str, list[float]]:
    """Seconds of each fork, restore and state key over the wire."""
    taken: dict[str, list[float]] = {"fork": [], "restore": [], "state_key": []}
    async with TaskClient(url) as client:
        await client.reset(index=0)
        fork = await client.fork()
        for _ in range(count):
            for name, call in (
                ("fork", client.fork),
                ("restore", lambda: client.restore(fork)),
                ("state_key", client.state_key),
            ):
                before = time.perf_counter()
                await call()
                taken[name].append(time.perf_counter() - before)
    return taken


def main() -> None:
    """Print the tables as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sessions", type=int, default=192, help="sessions of each line")
    parser.add_argument("--tasks", type=int, default=16, help="different tasks")
    options = parser.parse_args()
    load = os.getloadavg()[0]
    with tempfile.TemporaryDirectory() as folder:
        source = write_recipe(Path(folder) / "tasks.yaml", TASKS)
        tasks = [*homerl.load_tasks(source, count=options.tasks)]
        replies = [expert_messages(task) for task in tasks]
        mean_steps = statistics.fmean(map(len, replies))
        print(f"load {load:.1f}, openenv {version('openenv')}, {mean_steps:.1f} steps a session\n")
        print("| clients at once | sessions/s | p50 of a step (ms) | p95 of a step (ms) |\n|---|---|---|---|")

        def row(name: str, seconds: float, steps: list[float]) -> None:
            p50, p95 = percentile(steps, 0.5) * 1000, percentile(steps, 0.95) * 1000
            print(f"| {name} | {options.sessions / seconds:.1f} | {p50:.2f} | {p95:.2f} |", flush=True)

        play_here(tasks, replies, len(tasks))  # all is loaded then
        row("no wire", *play_here(tasks, replies, options.sessions))
        with openenv_server(source, "--fork") as (_, url):
            asyncio.run(play_there(url, replies, len(tasks), 1))
            for at_once in (1, 8, 64):
                row(str(at_once), *asyncio.run(play_there(url, replies, options.sessions, at_once)))
            taken = asyncio.run(time_forks(url, 300))
        env = tasks[0].start()
        here: dict[str, list[float]] = {"fork": [], "restore": [], "state_key": []}
        for _ in range(300):
            for name, call in (("fork", env.fork), ("restore", lambda: env.restore(env)), ("state_key", env.state_key)):
                before = time.perf_counter()
                call()
                here[name].append(time.perf_counter() - before)
    print("\n| | over the wire: p50, p95 (ms) | without: p50, p95 (ms) |\n|---|---|---|")
    for name in taken:
        cells = (f"{percentile(of[name], 0.5) * 1000:.2f}, {percentile(of[name], 0.95) * 1000:.2f}" for of in (taken, here))
        print(f"| {name} | {' | '.join(cells)} |")
    print(f"\n<!-- {json.dumps({'sessions': options.sessions, 'tasks': options.tasks})} -->")


if __name__ == "__main__":
    main()
