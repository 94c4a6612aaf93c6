"""homerl against a real vLLM with a tiny model, by HTTP. `scripts/check_vllm` installs one and runs this."""

import asyncio
import json
import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest
from tiny_agent import DIALOGUE, TOOLS, make_agent, prompts

from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.endpoint.endpoint import Endpoint, Patience
from homerl.models.endpoint.endpoint_settings import ServeSettings
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.models.endpoint.vllm_server import run_vllm_server, server_url
from homerl.play.trajectory import Outcome
from homerl.report.cards.export import export_model
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import synthesise_shards
from homerl.worlds.registry import begin_episode

BIN = os.environ.get("HOMERL_VLLM_BIN")
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(not BIN, reason="no real vLLM: scripts/check_vllm brings one"),
    pytest.mark.timeout(900),
]
ARGUMENTS = (
    "--dtype",
    "float32",
    "--enforce-eager",
    "--max-num-seqs",
    "16",
    "--enable-auto-tool-choice",
    "--tool-call-parser",
    "hermes",
    "--structured-outputs-config",
    '{"backend": "xgrammar", "disable_any_whitespace": true}',
)
ASK = [{"role": "user", "content": "turn on the light"}]
PATIENCE = Patience(timeout=120, deadline=400, tries=60)


@pytest.fixture(scope="module")
def settings(tiny: Path) -> ServeSettings:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    return ServeSettings(
        model=str(tiny), gpus=(0,), port=port, max_length=2048, gpu_memory=0.3, start_seconds=600, arguments=ARGUMENTS
    )


@contextmanager
def started(settings: ServeSettings, log: Path):
    """The server as `serve-user` starts it."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{BIN}:{os.environ['PATH']}")
        patch.setenv("VLLM_CPU_KVCACHE_SPACE", "1")
        patch.setenv("HF_HUB_OFFLINE", "1")
        with run_vllm_server(settings, "tiny", log) as server:
            yield server


@pytest.fixture(scope="module")
def url(settings, tmp_path_factory):
    log = tmp_path_factory.mktemp("vllm") / "log"
    begin = time.monotonic()
    with started(settings, log):
        print(f"\nvLLM answers after {time.monotonic() - begin:.0f} s")
        yield server_url(settings)


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def ask(url: str, *requests: dict, patience: Patience = PATIENCE):
    """The answers to requests that are made at once, and how long they took."""

    async def talk():
        endpoint = Endpoint([url], "tiny", patience)
        begin = time.monotonic()
        found = await asyncio.gather(*(endpoint.chat(request.pop("messages", ASK), **request) for request in requests))
        await endpoint.close()
        return found, endpoint.usage, time.monotonic() - begin

    return asyncio.run(talk())


def test_chat(url):
    (answer,), usage, seconds = ask(url, {"max_tokens": 16, "seed": 1})
    (again,), _, _ = ask(url, {"max_tokens": 16, "seed": 1})
    assert usage.prompt_tokens > 5 and 1 <= usage.completion_tokens <= 16
    assert answer.choices[0].message.content == again.choices[0].message.content, "a seed decides"
    print(f"chat: {usage.completion_tokens} tokens in {seconds:.2f} s")


def test_structured_output(url):
    shape = {
        "type": "object",
        "properties": {"room": {"enum": ["kitchen", "attic"]}, "on": {"type": "boolean"}},
        "required": ["room", "on"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "wish", "strict": True, "schema": shape}}
    answers, _, _ = ask(url, *({"max_tokens": 64, "response_format": form, "seed": seed} for seed in range(8)))
    said = [json.loads(answer.choices[0].message.content) for answer in answers]
    assert all(one["room"] in ("kitchen", "attic") and isinstance(one["on"], bool) for one in said)
    print(f"structured output: {said[0]}, 8 of 8 by the schema")


def test_n_candidates_in_one_request(url):
    (answer,), usage, _ = ask(url, {"max_tokens": 12, "n": 3, "temperature": 1.0})
    texts = [choice.message.content for choice in answer.choices]
    assert len(texts) == 3 and len(set(texts)) == 3 and usage.requests == 1
    print(f"n candidates: 3 different ones of one request, the prompt counted once ({usage.prompt_tokens} tokens)")


def test_tool_calls(url):
    parameters = {
        "type": "object",
        "properties": {"on": {"type": "boolean"}},
        "required": ["on"],
        "additionalProperties": False,
    }
    function = {"name": "switch", "description": "a lamp", "parameters": parameters, "strict": True}
    named = {"type": "function", "function": {"name": "switch"}}
    (answer,), _, _ = ask(
        url, {"tools": [{"type": "function", "function": function}], "tool_choice": named, "max_tokens": 128}
    )
    (call,) = answer.choices[0].message.tool_calls
    assert call.function.name == "switch" and isinstance(json.loads(call.function.arguments)["on"], bool)
    print(f"tool calls: {call.function.name}({call.function.arguments})")


def test_our_tools_and_dialogues_are_taken(url, task):
    """The assistant of a synthesis: our tool schemas, n candidates, a seed."""
    blueprint = make_home_blueprint(task, "train", 1)

    async def talk():
        endpoint = Endpoint([url], "tiny", PATIENCE)
        episode = begin_episode(blueprint)
        episode.add_utterance(blueprint.intents[0].queries[0], 1)
        agent = LLMAgent(endpoint, 1.0, 24, seed=3)
        replies = await agent.propose(episode.observation, 3)
        episode.apply_reply(replies[0])
        await endpoint.close()
        return replies

    replies = asyncio.run(talk())
    assert len(replies) == 3 and all(reply.prompt_tokens > 20 for reply in replies)
    print(f"an assistant's turn with our tools: {replies[0].prompt_tokens} prompt tokens, 3 candidates")


def sent(dialogue: list[dict]) -> list[dict]:
    """The dialogue as a client sends it: a call has an id, and its result names it."""
    messages, waiting = [], []
    for at, message in enumerate(dialogue):
        if message["role"] == "tool":
            messages.append(message | {"tool_call_id": waiting.pop(0)})
        elif calls := [call | {"id": f"call_{at}_{n}"} for n, call in enumerate(message.get("tool_calls", ()))]:
            messages.append(message | {"tool_calls": calls})
            waiting = [call["id"] for call in calls]
        else:
            messages.append({"role": message["role"], "content": message["content"]})
    return messages


def test_the_calls_of_an_exported_agent_are_read(tmp_path):
    """Its template shows the tools and the dialogue as in training, so it says what it learnt by heart."""
    run, folder = make_agent(tmp_path / "run", steps=150, show_tools=True), tmp_path / "agent"
    export_model(run, str(folder))
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    serve = ServeSettings(
        model=str(folder), gpus=(0,), port=port, max_length=2048, gpu_memory=0.3, start_seconds=600, arguments=ARGUMENTS
    )
    with started(serve, tmp_path / "log"):
        requests = ({"messages": sent(said), "tools": TOOLS, "max_tokens": 200, "temperature": 0.0} for said in prompts())
        answers, _, _ = ask(server_url(serve), *requests)
    learnt = [message for message in DIALOGUE if message["role"] == "assistant"]
    for answer, wanted in zip(answers, learnt, strict=True):
        said = answer.choices[0].message
        calls = [(call.function.name, json.loads(call.function.arguments)) for call in said.tool_calls or ()]
        asked = (call["function"] for call in wanted["tool_calls"])
        assert calls == [(call["name"], json.loads(call["arguments"])) for call in asked]
        assert (said.content or "").strip() == wanted["content"]


def test_sixteen_in_flight(url):
    _, _, one = ask(url, {"max_tokens": 64, "temperature": 1.0, "extra_body": {"ignore_eos": True}})
    requests = [{"max_tokens": 64, "temperature": 1.0, "extra_body": {"ignore_eos": True}} for _ in range(16)]
    answers, usage, seconds = ask(url, *requests)
    assert len(answers) == 16 and usage.retries == 0 and usage.completion_tokens == 16 * 64
    print(f"16 in flight: {seconds:.2f} s, one alone {one:.2f} s: {usage.completion_tokens / seconds:.0f} tokens/s")


def test_a_synthesis_runs_on_it(url, task):
    """An untrained model solves nothing; every blueprint still ends in a typed outcome, and no server is blamed."""
    model = {"url": url, "model": "tiny", "max_tokens": 24}
    config = SynthesisConfig.model_validate(
        {"blueprints": 8, "shard": 4, "recipe": task, "agent": model, "search": {"rollouts": 2}, "in_flight": 8}
    )
    made = list(synthesise_shards(config, [range(4), range(4, 8)], 8))
    lines = [line for shard in made for line in shard.stats["blueprints"]]
    assert len(lines) == 8 and {line["outcome"] for line in lines} <= {Outcome.AGENT_FAILURE, Outcome.SUCCESS}
    assert sum(line["calls"] for line in lines) > 8
    print(f"synthesis: 8 blueprints, {sum(line['calls'] for line in lines)} requests, all outcomes typed")


def test_killed_and_recovered(settings, tmp_path):
    """Killed under 16 requests, started again: all of them are answered."""
    settings = settings.model_copy(update={"port": settings.port + 1})
    requests = [{"max_tokens": 400, "temperature": 1.0, "extra_body": {"ignore_eos": True}} for _ in range(16)]
    with ThreadPoolExecutor(1) as pool:
        with started(settings, tmp_path / "first") as server:
            asked = pool.submit(ask, server_url(settings), *requests)
            time.sleep(1.0)
            os.killpg(server.pid, signal.SIGKILL)
        while listens(settings.port):
            time.sleep(0.1)
        with started(settings, tmp_path / "second"):
            answers, usage, seconds = asked.result(400)
    assert len(answers) == 16 and usage.retries >= 16
    print(f"kill and recover: 16 of 16 answered after {seconds:.0f} s, {usage.retries} tries failed meanwhile")
