"""What the capture proxy of programs costs: scripts/bench_capture_proxy.

The same agent plays the same episodes twice, by turns: at an endpoint of its own with the tools in its process, and at the
proxy with the tools over MCP. Both models take the same time for a message. Nothing is started for a turn: what a program
takes to begin is its own. The server and the agent are one process, so that their work adds up.
"""

import argparse
import asyncio
import os
import statistics
import time
from collections.abc import Awaitable, Callable
from importlib.metadata import version
from typing import Any, NamedTuple

from mcp import Client
from openai import AsyncOpenAI
from starlette.applications import Starlette
from starlette.routing import Route

from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.host.web_server import ServerAddress, completion_response, open_listening_socket, read_json_body, serve_beside
from homerl.models.policy.policy_agent import Sample
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import let_user_speak
from homerl.play.situation import Reply
from homerl.train.agents.capture_proxy import open_capture_proxy
from homerl.train.agents.captured_dialogues import CapturedDialogues
from homerl.train.agents.program_session import ProgramSession
from homerl.train.tiny_model import make_tokenizer
from homerl.worlds.registry import begin_episode, default_world
from homerl.worlds.users import ScriptedUser

CALL = {"name": "pyexec", "arguments": {"code": "x = 1"}}
TEXT = '<tool_call>\n{"name": "pyexec", "arguments": {"code": "x = 1"}}\n</tool_call>'
LIMITS = EpisodeLimits(turns=1, steps=64, steps_per_turn=64)


class PacedModel:
    """An engine, and an endpoint, that say the same call after the same time."""

    def __init__(self, tokenizer: Any, seconds: float) -> None:
        ids = (*tokenizer.encode(TEXT, add_special_tokens=False), tokenizer.eos_token_id)
        self.seconds, self.said = seconds, Sample(ids, (-0.1,) * len(ids), version=0)

    async def sample(self, prompt: Any) -> Sample:
        """Wait, and say it."""
        await asyncio.sleep(self.seconds)
        return self.said

    async def answer(self, request: Any) -> Any:
        """The same over HTTP."""
        await read_json_body(request)
        await asyncio.sleep(self.seconds)
        call = {"id": "1", "type": "function", "function": {"name": "pyexec", "arguments": '{"code": "x = 1"}'}}
        return completion_response("policy", {"role": "assistant", "content": None, "tool_calls": [call]}, False)


Call = Callable[[], Awaitable[str]]


class Taken(NamedTuple):
    """What one way took: seconds of each message and episode, and the processor's time of each message and call."""

    messages: list[float]
    episodes: list[float]
    message_work: list[float]
    call_work: list[float]


async def play_messages(client: AsyncOpenAI, start: Any, tools: Any, count: int, call: Call, taken: Taken) -> None:
    """Ask for so many messages, and call the tool after each but the last, with which an episode ends."""
    messages, begun = [*start], time.perf_counter()
    for left in reversed(range(count)):
        before, worked = time.perf_counter(), time.process_time()
        said = (await client.chat.completions.create(model="policy", messages=messages, tools=tools)).choices[0].message
        taken.messages.append(time.perf_counter() - before)
        taken.message_work.append((called := time.process_time()) - worked)
        if not left:
            break
        messages.append(said.model_dump(exclude_none=True))
        messages.append({"role": "tool", "tool_call_id": said.tool_calls[0].id, "content": await call()})
        taken.call_work.append(time.process_time() - called)
    taken.episodes.append(time.perf_counter() - begun)


async def measure(options: argparse.Namespace) -> dict[str, Taken]:
    """What both ways took."""
    blueprint = make_home_blueprint(default_world().recipe.model_validate({"toolset": "homeflow"}), "train", 3)
    opening = begin_episode(blueprint, LIMITS)
    await let_user_speak(opening, ScriptedUser(3))
    start, tools = [*opening.observation.messages], [*opening.world.tools]
    tokenizer = make_tokenizer([*(str(message["content"]) for message in start), TEXT], tools)
    model = PacedModel(tokenizer, options.seconds)
    taken = {way: Taken([], [], [], []) for way in ("direct", "proxy")}
    listener = open_listening_socket(ServerAddress(port=0))
    own = Starlette(routes=[Route("/v1/chat/completions", model.answer, methods=["POST"])])
    async with serve_beside(own, listener), open_capture_proxy() as proxy:
        direct = AsyncOpenAI(base_url=f"http://127.0.0.1:{listener.getsockname()[1]}/v1", api_key="x")
        for _ in range(options.episodes):

            async def step(episode: Any = opening.fork()) -> str:
                message = {"role": "assistant", "content": "", "tool_calls": [{"type": "function", "function": CALL}]}
                return (await episode.apply_reply_async(Reply(message))).observations[-1]

            await play_messages(direct, start, tools, options.messages, step, taken["direct"])
            session = ProgramSession(opening.fork(), CapturedDialogues(model, tokenizer, 4096))
            session.begin_turn()
            async with proxy.open_session(session) as url, Client(f"{url}/mcp") as world:
                through = AsyncOpenAI(base_url=f"{url}/v1", api_key="x")

                async def call(world: Any = world) -> str:
                    return (await world.call_tool(CALL["name"], CALL["arguments"])).content[0].text

                await play_messages(through, start, tools, options.messages, call, taken["proxy"])
    return taken


def main() -> None:
    """Print the table as Markdown."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--episodes", type=int, default=10, help="episodes of each way")
    parser.add_argument("--messages", type=int, default=8, help="messages of an episode, each but the last with a call")
    parser.add_argument("--seconds", type=float, default=0.2, help="what the model takes for a message")
    options = parser.parse_args()
    if options.messages < 2:
        parser.error("--messages: 2 at least, of which the last has no call")
    load = os.getloadavg()[0]
    taken = asyncio.run(measure(options))
    print(f"load {load:.1f}, mcp {version('mcp')}, openai {version('openai')}, {options.messages} messages an episode\n")
    print("| | a message: median, p95 (ms) | an episode: median (s) | work of a message, a call (ms) |\n|---|---|---|---|")
    for way, of in taken.items():
        p95 = sorted(of.messages)[int(0.95 * len(of.messages))]
        message = f"{statistics.median(of.messages) * 1000:.1f}, {p95 * 1000:.1f}"
        work = f"{statistics.median(of.message_work) * 1000:.1f}, {statistics.median(of.call_work) * 1000:.1f}"
        print(f"| {way} | {message} | {statistics.median(of.episodes):.3f} | {work} |")
    direct, proxy = (taken[way] for way in ("direct", "proxy"))
    share = statistics.median(proxy.episodes) / statistics.median(direct.episodes) - 1
    message, call = (
        statistics.median(getattr(proxy, name)) - statistics.median(getattr(direct, name))
        for name in ("message_work", "call_work")
    )
    added = (options.messages * message + (options.messages - 1) * call) / statistics.median(direct.episodes)
    print(f"\nthe proxy adds {share:.1%} to an episode; by the processor's time alone it would be {added:.1%}")


if __name__ == "__main__":
    main()
