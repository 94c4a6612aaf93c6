"""`homerl serve-env --openenv`: real processes, OpenEnv's own clients, and plain WebSockets for what none would send."""

import asyncio
import json
import signal
import socket as sockets
import time
from contextlib import ExitStack, suppress
from threading import Thread

import pytest

pytest.importorskip("openenv", reason="scripts/check_interop runs these tests: openenv needs mcp 1, and homerl[mcp] mcp 2")

import httpx
from openenv.core.mcp_client import MCPToolClient
from openenv_serving import (
    PATIENT,
    SIMPLE,
    ask,
    expert_messages,
    open_socket,
    openenv_server,
    secrets_of_task,
    step_message,
    write_recipe,
)
from starlette.testclient import TestClient, WebSocketDisconnect
from websockets.exceptions import ConnectionClosed

import homerl
from homerl.host.web_server import LONGEST, ServerAddress
from homerl.tasks.openenv.client import TaskClient
from homerl.tasks.openenv.server import AdmitClients, build_task_app

web = httpx.Client(timeout=240)

SESSIONS = 6
KINDS = [("train", "train"), ("heldout", "test")]  # of splits
RESET = {"type": "reset", "data": {"index": 1, "seed": 2, "episode_id": "e"}}


@pytest.fixture(scope="module")
def recipe(tmp_path_factory):
    return write_recipe(tmp_path_factory.mktemp("recipe") / "two.yaml", {**SIMPLE, "intents": [2, 2]})


@pytest.fixture(scope="module")
def task(recipe) -> homerl.Task:
    return homerl.load_tasks(recipe)[1]


@pytest.fixture(scope="module")
def url(recipe):
    with openenv_server(recipe, "--sessions", str(SESSIONS)) as (_, address):
        yield address


@pytest.fixture
def bystander(url, task):
    """Another client, whose episode stands as it stood, whatever a test does."""
    with TaskClient(url, **PATIENT) as client:
        first = client.reset(index=1, seed=2)
        yield client
        state = client.state()
        assert (state.index, state.step_count) == (1, 0), "it is the same session"
        said = "I cannot."
        expected, result = task.start(2).step(said), client.step(said)
        assert (result.reward, result.done) == (expected.reward, expected.done)
        assert first.observation.messages == task.start(2).messages


def test_an_episode_over_the_wire_is_the_one_in_the_process(url, task):
    """Messages, rewards by part, and the user's second turn, which is part of a step."""
    env, messages = task.start(3), expert_messages(task, 3)
    with TaskClient(url, **PATIENT) as client:
        result = client.reset(index=1, seed=3, split="train")
        assert result.observation.messages == env.messages and result.observation.tool_schemas == env.tools
        assert result.reward is None and not result.done and result.metadata["task_id"] == task.id
        spoke = 0
        for message in messages:
            turn, result = env.step(message), client.step(message)
            assert result.observation.messages == [*turn.new_messages]
            assert (result.reward, result.done) == (turn.reward, turn.done)
            assert result.metadata["rewards"] == turn.rewards and result.metadata["changed"] == [*turn.changed]
            spoke += any(said["role"] == "user" for said in turn.new_messages)
        assert result.done and result.metadata["outcome"] == "success" == env.outcome and spoke == 1
        state = client.state()
        assert state.step_count == len(messages) and state.outcome == "success" and state.seed == 3
        assert sum(step["reward"] for step in state.steps) == pytest.approx(sum(map(sum_of, env.trajectory().rewards)))
        with pytest.raises(RuntimeError, match=r"the episode is over.*EXECUTION_ERROR"):
            client.step("more")


def sum_of(rewards) -> float:
    return sum(rewards.values())


def test_many_sessions_play_at_once_and_keep_their_own_homes(url, task):
    async def live(seed: int):
        async with TaskClient(url, **PATIENT) as client:
            result = await client.reset(index=1, seed=seed)
            seen = [result.observation.messages]
            for message in expert_messages_of[seed]:
                result = await client.step(message)
                seen.append(result.observation.messages)
            return result.metadata["outcome"], seen

    async def all_live():
        return await asyncio.gather(*map(live, range(SESSIONS)))

    expert_messages_of = {seed: expert_messages(task, seed) for seed in range(SESSIONS)}
    for seed, (outcome, seen) in enumerate(asyncio.run(all_live())):
        env = task.start(seed)
        assert outcome == "success" and seen[0] == env.messages
        assert seen[1:] == [[*env.step(message).new_messages] for message in expert_messages_of[seed]]


def test_an_agents_tools_are_those_of_the_task_and_each_call_is_a_step(url, task):
    """The MCP form: the trainer begins the episode, the agent calls tools, and no reward is lost."""
    (call, *_) = next(message["tool_calls"] for message in expert_messages(task) if message.get("tool_calls"))
    name, arguments = call["function"]["name"], json.loads(call["function"]["arguments"])
    turn = task.start().step([{"name": name, "arguments": arguments}])

    async def live():
        async with MCPToolClient(url, **PATIENT) as client:
            assert [tool.name for tool in await client.list_tools()], "tools can be listed before a task has begun"
            with pytest.raises(RuntimeError, match="call `reset` first"):
                await client.call_tool(name)
            result = await client.reset(index=1)
            assert result.observation.messages == task.messages
            tools = await client.list_tools(use_cache=False)
            wanted = {tool["function"]["name"]: tool["function"]["parameters"] for tool in task.tools}
            assert {tool.name: tool.input_schema for tool in tools} == wanted
            # `call_tool` of OpenEnv's client has no way for an argument that is called `name`.
            said = {"name": name, "arguments": arguments, "session_id": client._production_session_id}
            answer = await client._production_mcp_request("tools/call", said)
            assert answer["result"]["data"] == turn.new_messages[-1]["content"] and not answer["result"]["isError"]
            assert "not found" in await client.call_tool("reboot")
            return (await client._send_and_receive({"type": "state"}))["data"]

    state = asyncio.run(live())
    assert state["step_count"] == 2 and state["steps"][0] == {"reward": turn.reward, "rewards": dict(turn.rewards)}


def test_an_agent_reaches_no_reset_no_progress_no_goal_and_no_plan(url, task):
    """All that MCP offers is tried, and all that an agent gets is searched."""
    messages, secrets, got = expert_messages(task), secrets_of_task(task), []
    assert len(secrets) > 4

    def call(method: str, **params):
        answer = web.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).json()
        got.append(json.dumps(answer))
        return answer

    session = call("openenv/session/create")["result"]["session_id"]
    with open_socket(url, f"/ws?session_id={session}") as trainer:
        got.append(json.dumps(json.loads(ask(trainer, RESET))["data"]["observation"]))
        for method in ("reset", "state", "step", "fork", "restore", "state_key", "openenv/session/fork", "resources/list"):
            answer = call(method, session_id=session, index=0, data={"index": 0})
            assert answer["error"]["message"] == f"Method not found: {method}"
        for name in ("reset", "state", "fork", "restore"):
            result = call("tools/call", session_id=session, name=name, arguments={"index": 0})["result"]
            assert result["isError"] and f'"{name}" not found' in result["data"]
        assert "tools" in call("tools/list", session_id=session)["result"]
        intruder = open_socket(url, f"/ws?session_id={session}")
        assert "SESSION_ERROR" in intruder.recv(), "the agent knows its session, and cannot be its trainer"
        for extra in ({"type": "reset"}, {"reset": {}}, {"data": {"fork_id": "x"}}, {"type": "fork"}):
            error = json.loads(ask(trainer, {"type": "step", "data": {"content": "x", **extra}}))["data"]
            assert error["code"] == "VALIDATION_ERROR", "no key of an action controls the session"
        state = json.loads(ask(trainer, {"type": "state"}))["data"]
        assert (state["episode_id"], state["index"], state["step_count"]) == ("e", 1, 4), "it is the same episode"
        first = json.loads(ask(trainer, {"type": "reset", "data": {"index": 1}}))["data"]
        got.append(json.dumps(first["observation"]))
        for message in messages:
            data = json.loads(ask(trainer, step_message(message)))["data"]
            if "user" not in [said["role"] for said in data["observation"]["messages"]]:
                got.append(json.dumps(data["observation"]))
            assert data["observation"].keys() == {"messages", "tool_schemas"}
            for said in data["observation"]["messages"]:
                assert said.keys() <= {"role", "content", "tool_calls", "tool_call_id", "name"}
    assert call("openenv/session/close", session_id=session)["result"]["closed"]
    for text in got:
        for secret in secrets:
            assert json.dumps(secret)[1:-1] not in text and secret not in text
        assert '"progress"' not in text and '"rewards"' not in text and '"conditions"' not in text


def step_of_arguments(arguments: str, name: str = "intent__HassTurnOn") -> str:
    """A step with a call, whose arguments are this JSON, or none."""
    return json.dumps(step_message({"tool_calls": [{"function": {"name": name, "arguments": "HERE"}}]})).replace(
        '"HERE"', arguments
    )


def test_garbage_has_a_typed_answer_and_touches_nobody(url, bystander):
    goes_on = [
        ("{", "INVALID_JSON"),
        ("[1]", "INVALID_JSON"),
        ("[" * 50_000, "INVALID_JSON"),
        (step_of_arguments("[" * 10_000 + "]" * 10_000), "INVALID_JSON"),
        (step_of_arguments("[" * 100 + "]" * 100), "nested more than"),
        (step_of_arguments("1" * 5_000), "INVALID_JSON"),
        (b"\x00\xff", "INVALID_JSON"),
        (b'{"type": "state"}', "a message is a text"),
        ({"type": "fly"}, "UNKNOWN_TYPE"),
        ({"type": "fork"}, "UNKNOWN_TYPE"),  # forks are off
        ({"type": "step"}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"content": 5}}, "VALIDATION_ERROR"),
        ({"type": "step", "data": {"content": "x", "tool_calls": [{"function": {}}]}}, "EXECUTION_ERROR"),
        ({"type": "reset", "data": {"index": 10**9}}, "EXECUTION_ERROR"),
        ({"type": "reset", "data": {"index": "1"}}, "EXECUTION_ERROR"),
        ({"type": "reset", "data": {"seed": -1}}, "EXECUTION_ERROR"),
        ({"type": "reset", "data": {"split": "tset"}}, "EXECUTION_ERROR"),
        ({"type": "reset", "data": {"task": 1}}, "EXECUTION_ERROR"),
        ({"type": "mcp", "data": {"method": 1}}, "-32600"),
    ]
    with open_socket(url) as client:
        assert "no task has begun" in ask(client, {"type": "step", "data": {"content": "x"}})
        before = ask(client, RESET)
        for sent, code in goes_on:
            answer = ask(client, sent)
            assert code in answer, (sent, answer)
        assert '"type":"observation"' in ask(client, {"type": "step", "data": {"content": "\ud800 \x00"}})
        odd = ("NaN", "-Infinity", "1e999", '{"name": NaN}', json.dumps('{"name": 1e999}'), json.dumps("[" * 10_000))
        names = ("intent__H\u0430ssTurnOn", "intent__HassTurnOn\u200b", "__class__", "reset")
        for sent in (*map(step_of_arguments, odd), *(step_of_arguments("{}", name) for name in names)):
            ask(client, RESET)
            answer = ask(client, sent)
            assert '"type":"observation"' in answer and '"changed":[]' in answer, "it is no call that does anything"
        assert ask(client, RESET) == before, "the session goes on"
    for path, body in (("/reset", {"index": -1}), ("/step", {"action": {"content": "x"}}), ("/step", [])):
        assert web.post(url + path, json=body).status_code == 422
    assert web.post(f"{url}/mcp", content=b"\xff").json()["error"]["code"] == -32700
    named = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": ["x"]}}
    assert web.post(f"{url}/mcp", json=named).status_code == 422
    assert web.post(f"{url}/homerl/num_tasks", json={"split": "tset"}).status_code == 422


def test_a_message_that_is_too_long_has_a_typed_answer_and_its_session_goes_on(url, bystander):
    """One that is longer than a frame may be ends the connection that sent it."""
    too_long = f"a message has at most {LONGEST} bytes"
    with open_socket(url) as client:
        before = ask(client, RESET)
        for message in (step_message({"content": "é" * (LONGEST // 2)}), {"type": "fork" * LONGEST}, "[" * (LONGEST + 1)):
            error = json.loads(ask(client, message))["data"]
            assert (error["code"], error["message"]) == ("VALIDATION_ERROR", too_long)
        assert '"type":"observation"' in ask(client, step_message({"content": "x" * 1000}))
        assert ask(client, RESET) == before
        client.send(" " * (1 << 25))
        with pytest.raises(ConnectionClosed) as ended:
            client.recv(timeout=240)
        assert ended.value.rcvd is not None and ended.value.rcvd.code == 1009
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "x" * LONGEST}}
    for path in ("/mcp", "/step", "/homerl/num_tasks"):
        answer = web.post(url + path, json=body)
        assert answer.status_code == 413 and str(LONGEST) in answer.json()["detail"]


def test_a_fork_ends_with_its_session_and_what_was_restored_from_it_goes_on(recipe):
    with openenv_server(recipe, "--fork", "--sessions", "2") as (_, url), open_socket(url) as other:
        with open_socket(url) as owner:
            ask(owner, RESET)
            fork = json.loads(ask(owner, {"type": "fork"}))["data"]["fork_id"]
            restored = ask(other, {"type": "restore", "data": {"fork_id": fork}})
            assert '"type":"observation"' in restored
            owner.socket.shutdown(sockets.SHUT_RDWR)  # it vanishes
        with ExitStack() as opened:
            begin_sessions(url, 1, opened)  # its place is free
            assert f"there is no fork '{fork}'" in ask(other, {"type": "restore", "data": {"fork_id": fork}})
        assert '"done":false' in ask(other, step_message({"content": "Which one?"}))


@pytest.mark.long  # the server waits 40 seconds for the answer to a ping
def test_clients_that_are_connected_and_dead_give_their_place_back(url, bystander):
    """They answer no ping, as after a cable was cut."""
    host, port = url.removeprefix("http://").split(":")
    key = "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13"
    head = f"GET /ws HTTP/1.1\r\nHost: {host}:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{key}\r\n\r\n"
    with ExitStack() as opened, ExitStack() as later:
        for _ in range(SESSIONS - 1):
            dead = opened.enter_context(sockets.create_connection((host, int(port))))
            dead.sendall(head.encode())
            assert b" 101 " in dead.recv(64)
        time.sleep(1)
        with open_socket(url) as late:
            assert "CAPACITY_REACHED" in late.recv(timeout=240)
        begin_sessions(url, SESSIONS - 1, later, seconds=180)


def send_and_never_read(client) -> None:
    """Ask until the server takes no more, since its answers are not read."""
    with suppress(ConnectionClosed):
        while True:
            client.send(json.dumps(RESET))


def test_clients_that_vanish_or_never_read_give_their_place_back(url, bystander, task):
    """A full server says so; the connections are cut without a word, in the middle of a step too."""
    with ExitStack() as opened:
        clients = begin_sessions(url, SESSIONS - 1, opened)
        with open_socket(url) as late:
            assert "CAPACITY_REACHED" in late.recv(timeout=240)
        slow, *others = clients
        Thread(target=send_and_never_read, args=(slow,), daemon=True).start()
        begun = time.monotonic()
        assert bystander.reset(index=1, seed=2).observation.messages == task.start(2).messages
        assert time.monotonic() - begun < 20
        for client in others:
            client.send(json.dumps({"type": "step", "data": {"content": "I look."}}))
        for client in clients:
            client.socket.shutdown(sockets.SHUT_RDWR)
    with ExitStack() as opened:
        begin_sessions(url, SESSIONS - 1, opened)


def begin_sessions(url: str, count: int, opened: ExitStack, seconds: float = 60) -> list:
    """So many sessions, as soon as there are places for them."""
    clients, deadline = [], time.monotonic() + seconds
    while len(clients) < count:
        assert time.monotonic() < deadline, "the places come back"
        client = open_socket(url, ping_interval=None)
        with suppress(ConnectionClosed):
            if '"type":"observation"' in ask(client, RESET):
                clients.append(opened.enter_context(client))
    return clients


def test_two_clients_of_one_name_are_refused_the_second_and_the_first_goes_on(url):
    session = web.post(f"{url}/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}).json()
    name = session["result"]["session_id"]
    with open_socket(url, f"/ws?session_id={name}") as first:
        before = ask(first, RESET)
        for _ in range(2):
            with open_socket(url, f"/ws?session_id={name}") as second:
                assert "already has an attached WebSocket" in second.recv(timeout=240)
        with open_socket(url, "/ws?session_id=nobody") as third:
            assert "Unknown session_id" in third.recv(timeout=240)
        assert ask(first, RESET) == before
    closed = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close", "params": {"session_id": name}}
    assert web.post(f"{url}/mcp", json=closed).json()["result"]["closed"]


def test_two_processes_give_equal_bytes_and_a_killed_one_ends_its_clients_alone(recipe, url, bystander, task):
    sent = map(step_message, expert_messages(task, 2))
    asked = [RESET, {"type": "state"}, *sent, {"type": "state"}, step_message({"content": "more"})]
    with open_socket(url) as one:
        expected = [ask(one, message) for message in asked]
        assert [ask(one, message) for message in asked] == expected, "the same seed, once more"
    with openenv_server(recipe, PYTHONHASHSEED="7", TZ="Asia/Tokyo") as (process, other), open_socket(other) as two:
        assert [ask(two, message) for message in asked] == expected
        two.send(json.dumps({"type": "reset", "data": {"index": 99}}))
        process.send_signal(signal.SIGKILL)
        with pytest.raises(ConnectionClosed):
            for _ in range(3):
                ask(two, {"type": "state"})


def test_without_a_key_only_programs_of_this_machine_are_answered(recipe):
    app = build_task_app({"train": homerl.load_tasks(recipe)})
    open_app = TestClient(AdmitClients(app, ServerAddress()), base_url="http://127.0.0.1:8000")
    assert open_app.get("/health").status_code == 200
    assert open_app.get("/health", headers={"origin": "https://page.example"}).status_code == 403
    assert open_app.get("/health", headers={"host": "page.example"}).status_code == 403
    with pytest.raises(WebSocketDisconnect), open_app.websocket_connect("/ws", headers={"origin": "https://page.example"}):
        pass
    keyed = TestClient(AdmitClients(app, ServerAddress("0.0.0.0", key="k")))
    assert keyed.get("/health").status_code == 401
    with pytest.raises(WebSocketDisconnect), keyed.websocket_connect("/ws"):
        pass
    with keyed.websocket_connect("/ws", headers={"authorization": "Bearer k"}) as socket:
        socket.send_text(json.dumps(RESET))
        assert json.loads(socket.receive_text())["type"] == "observation"


def test_a_server_with_a_key_asks_for_it_and_tells_its_clients_when_it_is_stopped(recipe):
    with openenv_server(recipe, "--host", "0.0.0.0", "--key-env", "HOME_KEY", HOME_KEY="k") as (process, url):
        key, url = {"Authorization": "Bearer k"}, url.replace("0.0.0.0", "127.0.0.1")
        with TaskClient(url, headers=key, **PATIENT) as client:
            assert not client.reset().done
        with pytest.raises(ConnectionError, match="403"):
            TaskClient(url, **PATIENT).connect()
        with open_socket(url, additional_headers=key) as client:
            ask(client, RESET)
            process.send_signal(signal.SIGTERM)
            with pytest.raises(ConnectionClosed) as ended:
                client.recv(timeout=240)
            assert ended.value.rcvd is not None and ended.value.rcvd.code in (1001, 1012)
        assert process.wait(30) == 0 and "Traceback" not in process.stderr.read()


def test_the_task_api_counts_and_names_tasks_and_says_nothing_of_goals(url, task):
    def post(what: str, **body):
        return web.post(f"{url}/homerl/{what}", json=body).json()

    assert web.get(f"{url}/homerl/splits").json() == [{"name": n, "type": t} for n, t in KINDS]
    assert post("num_tasks", split="heldout") == {"num_tasks": 10_000}
    assert post("task", split="train", index=1)["task"] == {"id": task.id, "index": 1, "split": "train", "labels": {}}
    assert [one["index"] for one in post("task_range", split="train", start=1, stop=3)["tasks"]] == [1, 2]
    assert web.post(f"{url}/homerl/task", json={"split": "train", "index": 10_000}).status_code == 400
