"""Synthesis against an endpoint that answers at once, in a process of its own: what is left is our own cost.

The endpoint says of every request for an assistant one fixed call and then words; dialogues end where limits say so, and
fail, so every blueprint costs all of its rollouts. A second measurement asks it through the client library alone.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from openai import AsyncOpenAI

from homerl.models.endpoint.endpoint import Endpoint
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import synthesise_dataset

READ = {"name": "pyexec", "arguments": json.dumps({"code": "print(1)"})}
CALL = {"id": "call_0", "type": "function", "function": READ}
WISH = json.dumps({"say": "something else, please", "about": None, "stop": False})


def completion(n: int, **said: Any) -> bytes:
    message = {"role": "assistant", "content": None} | said
    choices = [{"index": i, "finish_reason": "stop", "message": message} for i in range(n)]
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
    body = {"id": "1", "object": "chat.completion", "created": 0, "model": "instant", "choices": choices, "usage": usage}
    return json.dumps(body).encode()


CALLS, WORDS = {n: completion(n, tool_calls=[CALL]) for n in (1, 3)}, {n: completion(n, content="Done.") for n in (1, 3)}


class Instant(asyncio.Protocol):
    """HTTP in the fewest steps: what it says depends on who spoke last, and is ready before it is asked."""

    def connection_made(self, transport: Any) -> None:
        self.transport, self.data = transport, b""

    def data_received(self, data: bytes) -> None:
        self.data += data
        head, gap, body = self.data.partition(b"\r\n\r\n")
        length = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0] or 0)
        if gap and len(body) >= length:
            self.data = b""
            answer = self.answer(body)
            self.transport.write(
                b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(answer) + answer
            )

    def answer(self, body: bytes) -> bytes:
        n = 3 if b'"n":3' in body else 1
        return (WORDS if body.rfind(b'"role":"tool"') > body.rfind(b'"role":"user"') else CALLS)[n]


def serve(port: multiprocessing.Queue) -> None:
    async def run() -> None:
        server = await asyncio.get_running_loop().create_server(Instant, "127.0.0.1", 0)
        port.put(server.sockets[0].getsockname()[1])
        await server.serve_forever()

    asyncio.run(run())


async def timed(ask: Any, requests: int, at_once: int) -> float:
    """Seconds of our own processor a request."""
    gate = asyncio.Semaphore(at_once)

    async def one() -> None:
        async with gate:
            await ask()

    await asyncio.gather(*(one() for _ in range(at_once)))  # connections are made
    begin = time.process_time()
    await asyncio.gather(*(one() for _ in range(requests)))
    return (time.process_time() - begin) / requests


async def overhead(url: str, requests: int, at_once: int) -> tuple[float, float]:
    """Seconds a request through the client library alone, and through `Endpoint`."""
    messages = [{"role": "system", "content": "x" * 4000}, {"role": "user", "content": "turn on the light"}]
    client, endpoint = AsyncOpenAI(base_url=url, api_key="none", max_retries=0), Endpoint([url], "instant")
    alone = await timed(lambda: client.chat.completions.create(model="instant", messages=messages, n=3), requests, at_once)
    ours = await timed(lambda: endpoint.chat(messages, n=3), requests, at_once)
    await client.close()
    await endpoint.close()
    return alone, ours


def synthesis(url: str, blueprints: int, processes: int, in_flight: int) -> tuple[int, float, float]:
    """Requests made, seconds, and seconds of the workers' processors."""
    recipe = {"home": {"devices": [3, 40]}}
    config = SynthesisConfig.model_validate(
        {"blueprints": blueprints, "agent": {"url": url, "model": "instant"}, "in_flight": in_flight, "recipe": recipe}
    )
    with tempfile.TemporaryDirectory() as folder:
        begin, before = time.monotonic(), spent()
        synthesise_dataset(config, Path(folder), processes, lambda *_: None)
        stats = json.loads((Path(folder) / "stats.json").read_text())
        return stats["calls"], time.monotonic() - begin, spent() - before


def spent() -> float:
    """Seconds of processor of workers that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def main(blueprints: int = 400, processes: int = 2, in_flight: int = 32) -> None:
    port: multiprocessing.Queue = multiprocessing.Queue()
    server = multiprocessing.Process(target=serve, args=(port,), daemon=True)
    server.start()
    url = f"http://127.0.0.1:{port.get()}/v1"
    alone, ours = asyncio.run(overhead(url, 2000, in_flight))
    print(f"a request, {in_flight} in flight: client library {1000 * alone:.2f} ms, Endpoint {1000 * ours:.2f} ms of CPU")
    few, many = (synthesis(url, count, processes, in_flight) for count in (blueprints // 4, blueprints))
    print(f"{blueprints} blueprints, whole: {many[0]} requests, {many[1] / 60:.1f} minutes, {many[2] / 60:.1f} of CPU")
    requests, wall, cpu = (b - a for a, b in zip(few, many))  # so that starting costs nothing
    made = blueprints - blueprints // 4
    memory = [resource.getrusage(who).ru_maxrss / 1e6 for who in (resource.RUSAGE_CHILDREN, resource.RUSAGE_SELF)]
    print(f"{made} blueprints more, {requests} requests, {processes} processes: {wall:.0f} s, {cpu:.0f} s of CPU")
    print(
        f"{1000 * cpu / requests:.2f} ms of CPU a request, everything included; memory at most: "
        f"a worker {memory[0]:.2f} GB, the run itself {memory[1]:.2f} GB"
    )
    print(
        f"20,000 blueprints: {20000 / made * wall / 60:.0f} minutes here and now, "
        f"{20000 / made * cpu / processes / 60:.0f} on {processes} cores of its own"
    )
    server.terminate()


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
