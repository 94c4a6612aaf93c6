"""A home over MCP, as clients meet it: the official client, real sandboxes, and real processes once a transport."""

import asyncio
import gc
import http.client
import json
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import anyio
import psutil
import pytest
import uvicorn
from command import homerl
from mcp import Client, MCPError, StdioServerParameters, stdio_client

from homerl.app.cli import main
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.mcp_server import ClientSession, HomeServer
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home_file import save_home

COMMAND = [sys.executable, "-m", "homerl", "serve-env", "--mcp"]
TASK = "device('1001').brightness > 60"
SLOW = "n = 0\nwhile n < 10 ** 9: n += 1"  # until the time limit of a second
DEVICES = [
    {"did": "1001", "name": "ceiling light", "room": "living_room"},
    {"did": "1002", "name": "air conditioner", "room": "living_room"},
    {"did": "1003", "name": "bedside lamp", "room": "bedroom"},
    {"did": "1004", "name": "curtain", "room": "bedroom"},
    {"did": "1005", "name": "climate sensor", "room": "bathroom"},
]


@pytest.fixture
def home_file(tmp_path):
    save_home(HomeSampler.sample_test(), tmp_path / "home.json")
    return str(tmp_path / "home.json")


def in_process(*tasks, mode="auto"):
    """A client of a server in this process."""
    return Client(HomeServer(HomeEnv(HomeSampler.sample_test(), tasks)).build_mcp_server(), mode=mode)


@contextmanager
def process(*arguments):
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    served = subprocess.Popen([*COMMAND, *arguments], text=True, **pipes)
    try:
        yield served
    finally:
        served.kill()
        served.communicate()


@contextmanager
def over_http(home_file, *arguments):
    """(the process, its address), which it names on stderr."""
    with process("--home", home_file, "--transport", "http", "--port", "0", *arguments) as served:
        yield served, served.stderr.readline().split()[-1]


async def said(client, tool, **arguments):
    return (await client.call_tool(tool, arguments)).content[0].text


async def read(client, uri):
    return json.loads((await client.read_resource(uri)).contents[0].text)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_lives_in_a_home(mode):
    async def live():
        async with in_process(TASK, mode=mode) as client:
            tools = (await client.list_tools()).tools
            env = HomeEnv(HomeSampler.sample_test())
            assert [(t.name, t.description, t.input_schema) for t in tools] == [
                tuple(tool["function"][key] for key in ("name", "description", "parameters")) for tool in env.tools
            ]
            hints = {t.name: (t.annotations.read_only_hint, t.annotations.destructive_hint) for t in tools if t.annotations}
            assert hints == {"query_status": (True, False), "query_spec": (True, False), "pyexec": (False, True)}
            done = await client.call_tool("pyexec", {"code": "device('1001').set_brightness(80)\nprint('é', 80)"})
            assert done.content[0].text == "é 80" and not done.is_error
            facts = {"progress": 1.0, "blocked": None, "error": None, "changed": ["1001.brightness"]}
            assert done.structured_content == {"observation": "é 80"} | facts
            assert await said(client, "pyexec", code="print(device('1001').brightness)") == "80", "the home remembers"

    asyncio.run(live())


@pytest.mark.long
def test_the_configuration_in_the_documentation_works():
    document = (Path(__file__).parents[3] / "docs" / "homes.md").read_text(encoding="utf-8")
    configured = json.loads(re.search(r"```json\n(.*?)```", document, re.S)[1])["mcpServers"]["home"]
    assert configured["command"] == "homerl"

    async def live():
        launch = StdioServerParameters(command=sys.executable, args=["-m", "homerl", *configured["args"]])
        async with Client(stdio_client(launch)) as client:
            assert 20 <= len(await read(client, "home://devices")) <= 40

    asyncio.run(live())


def test_what_is_refused_or_fails_is_an_error_that_a_model_can_read():
    async def live():
        async with in_process() as client:
            for tool, arguments, rule in (
                ("pyexec", {"code": "device('9').turn_on()"}, "unknown_device"),
                ("pyexec", {"code": "import os"}, "restricted_code"),
                ("pyexec", {}, "missing_argument"),
                ("pyexec", {"code": 5}, "wrong_type"),
                ("pyexec", {"code": "1", "name": "x", "more": "y"}, "unknown_argument"),
                ("reboot", {}, "unknown_tool"),
            ):
                refused = await client.call_tool(tool, arguments)
                assert refused.is_error and refused.content[0].text.startswith(f"refused: {rule}: ")
                assert refused.structured_content["blocked"]["rule"] == rule
                assert refused.structured_content["changed"] == []
            failed = await client.call_tool("pyexec", {"code": "1 / 0"})
            assert failed.is_error and "ZeroDivisionError" in failed.structured_content["error"]
            with pytest.raises(MCPError, match="home://rooms"):
                await client.read_resource("home://attic")

    asyncio.run(live())


def test_resources_say_what_an_agent_may_know_and_no_more():
    async def live():
        async with in_process(TASK) as client:
            addresses = [resource.uri for resource in (await client.list_resources()).resources]
            assert addresses == ["home://rooms", "home://devices"]
            assert await read(client, "home://devices") == DEVICES
            rooms = await read(client, "home://rooms")
            bathroom = {"id": "bathroom", "type": "bathroom", "name": "ensuite bathroom", "floor": 0, "parent": "bedroom"}
            assert rooms[2] == bathroom and len(rooms) == 3
            assert "living room ceiling light=1001" in client.instructions
            shown = client.instructions + str(rooms) + str(await client.list_tools())
            assert "brightness > 60" not in shown and "> 60" not in await said(client, "query_status", did="1001")
            with pytest.raises(MCPError):
                await client.read_resource("home://tasks")

    asyncio.run(live())


def test_tasks_are_shown_on_demand_as_they_stand():
    async def live():
        served = HomeServer(HomeEnv(HomeSampler.sample_test(), (TASK, "device('1001').state == 'on'")), show_tasks=True)
        async with Client(served.build_mcp_server()) as client:
            tasks = await read(client, "home://tasks")
            assert [(task["id"], task["condition"], task["finished"]) for task in tasks] == [
                (1, TASK, False),
                (2, "device('1001').state == 'on'", True),
            ]
            await said(client, "pyexec", code="device('1001').set_brightness(61)")
            assert all(task["finished"] for task in await read(client, "home://tasks"))

    asyncio.run(live())


def test_sessions_over_http_do_not_see_and_do_not_block_each_other():
    async def live(url):
        async with Client(url) as one, Client(url, mode="legacy") as two:
            assert await said(one, "pyexec", code="device('1001').turn_off()") == "ok"
            look = "print(device('1001').state)"
            assert [await said(client, "pyexec", code=look) for client in (one, two)] == ["off", "on"]
            slow = asyncio.create_task(said(one, "pyexec", code=SLOW))
            await asyncio.sleep(0.1)
            after = asyncio.create_task(said(one, "pyexec", code=look))
            assert await said(two, "pyexec", code=look) == "on"
            assert not slow.done() and not after.done(), "one's code still ran, and its next call waited for it"
            assert (await slow).startswith("refused: time_limit") and await after == "off"
        async with Client(url) as three:
            assert await said(three, "pyexec", code=look) == "on", "a new session begins at the start"
        async with Client(url, mode="2026-07-28") as sessionless:
            with pytest.raises(MCPError, match="a home is kept for a session"):
                await sessionless.call_tool("pyexec", {"code": look})

    async def served():
        async with hosted(HomeServer(HomeEnv(HomeSampler.sample_test())).build_mcp_server()) as url:
            await live(url)

    asyncio.run(served())


def test_many_sessions_at_once_keep_their_own_homes():
    async def live(url, level):
        async with Client(url) as client:
            for step in range(3):
                await said(client, "pyexec", code=f"device('1001').set_brightness({level + step})")
            return await said(client, "pyexec", code="print(device('1001').brightness)")

    async def all_live():
        async with hosted(HomeServer(HomeEnv(HomeSampler.sample_test())).build_mcp_server()) as url:
            return await asyncio.gather(*(live(url, level) for level in range(10, 16)))

    assert asyncio.run(all_live()) == [str(level + 2) for level in range(10, 16)]


@asynccontextmanager
async def hosted(server):
    """The address of a server in this process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        host = uvicorn.Server(uvicorn.Config(server.streamable_http_app(), log_config=None))
        host.capture_signals = contextmanager(lambda: iter([None]))  # the signals are pytest's
        serving = asyncio.create_task(host.serve(sockets=[listener]))
        yield f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        host.should_exit = True
        await serving


async def shrinks_to(size, sessions):
    for _ in range(50):
        await asyncio.sleep(0.1)  # it ends beside this, and what it leaves is collected then
        gc.collect()
        if len(sessions) == size:
            return True
    return False


def test_a_session_that_ends_leaves_nothing_behind():
    async def live():
        served = HomeServer(HomeEnv(HomeSampler.sample_test()))
        async with hosted(served.build_mcp_server()) as url:
            async with Client(url) as one:
                await said(one, "pyexec", code="device('1001').turn_off()")
                async with Client(url) as two:
                    await said(two, "query_status", did="1001")
                    assert len(served.sessions) == 2
                assert await shrinks_to(1, served.sessions)
                assert await said(one, "pyexec", code="print(device('1001').state)") == "off"
            assert await shrinks_to(0, served.sessions)
        assert served.env.engine.home.read_value("1001", "state") == "on", "the home that is served is never lived in"

    asyncio.run(live())


def test_a_call_that_is_cancelled_has_ended_before_the_next_begins():
    async def live():
        session = ClientSession(HomeEnv(HomeSampler.sample_test()))
        await session.run_tool_call("pyexec", {"code": "print('the sandbox is warm')"})
        code = "n = 0\nwhile n < 200000: n += 1\ndevice('1001').turn_off()"
        with anyio.move_on_after(0.01) as scope:
            await session.run_tool_call("pyexec", {"code": code})
        assert scope.cancel_called and session.env.engine.home.read_value("1001", "state") == "off"
        assert (await session.run_tool_call("pyexec", {"code": "print(1)"})).content[0].text == "1"

    anyio.run(live)


HELLO = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
OPENING = [
    {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": HELLO},
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "pyexec", "arguments": {"code": "print(7)"}}},
]


def test_the_end_of_input_ends_the_process_and_stdout_is_protocol(home_file):
    with process("--home", home_file) as served:
        served.stdin.write("".join(json.dumps(message) + "\n" for message in OPENING))
        served.stdin.flush()
        answers = [json.loads(served.stdout.readline()) for _ in range(2)]
        assert answers[1]["result"]["content"][0]["text"] == "7"
        workers = psutil.Process(served.pid).children(recursive=True)
        served.stdin.write("this is no message\n")
        rest, complaints = served.communicate(timeout=20)
        assert served.returncode == 0 and "Traceback" not in complaints
        assert all(json.loads(line)["jsonrpc"] == "2.0" for line in rest.splitlines())
        assert workers and not psutil.wait_procs(workers, timeout=10)[1], "no sandbox outlives it"


@pytest.mark.long
@pytest.mark.parametrize("transport", ["stdio", "http"])
def test_a_request_to_stop_is_followed_at_once(home_file, transport):
    async def stop(served, url):
        async with Client(url, mode="legacy") as client:
            await said(client, "pyexec", code="print(1)")
            served.send_signal(signal.SIGTERM)
            await asyncio.to_thread(served.wait, 20)

    if transport == "http":
        with over_http(home_file) as (served, url):
            asyncio.run(stop(served, url))
            assert served.returncode == 0 and served.stdout.read() == "" and "Traceback" not in served.stderr.read()
        return
    with process("--home", home_file) as served:
        served.stdin.write("".join(json.dumps(message) + "\n" for message in OPENING))
        served.stdin.flush()
        assert json.loads(served.stdout.readline())["id"] == 1 and json.loads(served.stdout.readline())["id"] == 2
        workers = psutil.Process(served.pid).children(recursive=True)
        begun = time.monotonic()
        served.send_signal(signal.SIGTERM)
        assert served.wait(20) == 0 and time.monotonic() - begun < 10
        assert workers and not psutil.wait_procs(workers, timeout=10)[1], "no sandbox outlives it"


def test_a_bad_home_file_is_one_message_and_code_2(tmp_path):
    (tmp_path / "home.json").write_text('{"format": 1, "clock": 0}')
    for path in (tmp_path / "home.json", tmp_path / "missing.json"):
        done = homerl("serve-env", "--mcp", "--home", str(path))
        assert done.code == 2 and done.out == ""
        assert path.name in done.err and "Traceback" not in done.err and len(done.err.splitlines()) <= 3


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--mcp", "--task", "device('1').state == 'on'"], "there is no device '1'"),
        (["--mcp", "--toolset", "homeflaw"], "homeflow"),
        (["--mcp", "--transport", "htp"], "did you mean http"),
        (["--mcp", "--devices", "6-2"], "--devices"),
        (["--mcp", "--home", "x.json", "--seed", "1"], "--seed"),
        (["--mcp", "--transport", "http", "--port", "70000"], "--port"),
        ([], "--mcp"),
        (["--mcp", "--openenv", "smarthome-bench"], "--openenv"),
        (["--mcp", "smarthome-bench"], "SOURCE: it has no meaning with --mcp"),
        (["--mcp", "--fork"], "--fork: it has no meaning with --mcp"),
        (["--openenv"], "homerl serve-env --openenv smarthome-bench"),
        (["--openenv", "smarthome-bench", "--toolset", "homeflow"], "--toolset: it has no meaning with --openenv"),
    ],
)
def test_bad_arguments_are_one_message_and_code_2(arguments, says, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["homerl", "serve-env", *arguments])
    with pytest.raises(SystemExit) as stopped:
        main()
    out, err = capsys.readouterr()
    assert stopped.value.code == 2 and says in err and out == "" and len(err.splitlines()) <= 3


def test_a_port_in_use_is_one_message_and_code_2(monkeypatch, capsys):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        monkeypatch.setattr(sys, "argv", ["homerl", "serve-env", "--mcp", "--transport", "http", "--port", port])
        with pytest.raises(SystemExit) as stopped:
            main()
    assert stopped.value.code == 2 and f"--port: port {port} cannot be opened" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("package", "arguments", "extra"), [("mcp", ["--mcp"], "mcp"), ("openenv", ["--openenv", "smarthome-bench"], "interop")]
)
def test_without_the_package_the_command_says_how_to_get_it(package, arguments, extra):
    blocked = f"import sys; sys.modules['{package}'] = None; from homerl.app.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", blocked, "serve-env", *arguments], capture_output=True, text=True)
    assert done.returncode == 2 and done.stdout == ""
    assert package in done.stderr and "is not installed" in done.stderr and f"pip install 'homerl[{extra}]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_older_package_is_named_too():
    """OpenEnv's package brings version 1 of mcp, which has other names."""
    make = "import sys, types; old = sys.modules['mcp'] = types.ModuleType('mcp'); old.__spec__ = sys.__spec__"
    old = f"{make}; from homerl.app.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", old, "serve-env", "--mcp"], capture_output=True, text=True)
    assert done.returncode == 2 and "older than version 2.3" in done.stderr and "Traceback" not in done.stderr


def test_a_client_that_hangs_up_leaves_no_trace_and_junk_is_refused(home_file):
    with over_http(home_file) as (served, url):
        port = int(re.search(r":(\d+)/", url)[1])
        head = f"POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nContent-Type: application/json\r\nContent-Length: 100\r\n"
        for sent in ("", "POST /mcp HT", head, head + "Accept: application/json, text/event-stream\r\n\r\n{"):
            with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
                connection.sendall(sent.encode())
                time.sleep(0.2)
        accepts = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
        for body in (b"{", b"[]", b"\xff", b"[" * 90_000, b'{"jsonrpc": "2.0", "id": "\\ud800", "method": "tools/list"}'):
            connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
            connection.request("POST", "/mcp", body, accepts)
            assert connection.getresponse().status == 400
        served.send_signal(signal.SIGTERM)
        assert "Traceback" not in served.communicate(timeout=30)[1] and served.returncode == 0
