"""Serving a user model: a stand-in for vLLM that starts late, crashes or will not go, and nothing left behind."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import psutil
import pytest
import yaml
from command import homerl
from scripted_server import ScriptedServer

from homerl.app.runs.preflight import check_machine
from homerl.app.runs.recipe import SERVED_ROLES, role_settings
from homerl.envs.core.documents import InputError
from homerl.models.endpoint.endpoint_settings import ServeSettings, UserSettings
from homerl.models.endpoint.vllm_server import (
    ServerFailed,
    describe_server_trouble,
    list_served_models,
    serve_endpoint,
    vllm_command,
    wait_until_ready,
)
from homerl.synth.recipe import SynthRecipe
from homerl.train.recipe import RLVERecipe

HELPERS = Path(__file__).parents[2] / "helpers"
STAND_IN = f"""#!{sys.executable}
import os, signal, subprocess, sys, time
sys.path.insert(0, {str(HELPERS)!r})
print("loading the weights of", sys.argv[2], "on", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
if os.environ.get("CRASH"):
    sys.exit("out of memory")
if os.environ.get("STUBBORN"):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
port = sys.argv[sys.argv.index("--port") + 1]
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", port])
time.sleep(float(os.environ.get("SLOW", "0")))
from scripted_server import ScriptedServer
server = ScriptedServer()
server.port = int(port)
server.start()
time.sleep(600)
"""
RECIPE = {"homerl": 1, "run": "rlve", "model": {"name": "runs/none"}, "wandb": {"mode": "disabled"}}


@pytest.fixture(autouse=True)
def stand_in(tmp_path, monkeypatch) -> None:
    """`vllm` on the PATH; short grace."""
    program = tmp_path / "bin" / "vllm"
    program.parent.mkdir()
    program.write_text(STAND_IN)
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.setattr("homerl.models.endpoint.vllm_server.GRACE", 2.0)


@pytest.fixture
def port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def settings(port: int, **more) -> UserSettings:
    serve = {"model": "some/model", "gpus": (2, 3), "port": port, "start_seconds": 60} | more
    return UserSettings(kind="llm", serve=serve, model="scripted")


def left(port: int) -> list[list[str]]:
    """Processes of the server at this port: guard, server, and the server's child."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        if str(port) in (process.info["cmdline"] or ()) and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(process.info["cmdline"])
    return found


def wait_for(what, seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if what():
            return True
        time.sleep(0.1)
    return False


def test_the_command_is_what_the_recipe_says():
    serve = ServeSettings(model="a/b", gpus=(0, 1, 2, 3), tensor_parallel=2, max_length=99, gpu_memory=0.5)
    text = " ".join(vllm_command(serve, "name"))
    for part in (
        "serve a/b",
        "--tensor-parallel-size 2",
        "--data-parallel-size 2",
        "--max-model-len 99",
        "--seed 0",
        "--gpu-memory-utilization 0.5",
        "--served-model-name name",
        "--host 127.0.0.1",
    ):
        assert part in text


def test_a_slow_start_is_waited_for_and_all_is_stopped_at_the_end(tmp_path, port, monkeypatch):
    monkeypatch.setenv("SLOW", "1")
    with serve_endpoint(settings(port), tmp_path / "log") as running:
        assert len(left(port)) == 3
        assert list_served_models(running.url) == ["scripted"] and running.served_name == "scripted"
    assert wait_for(lambda: not left(port), 5) and "on 2,3" in (tmp_path / "log").read_text()


def test_a_crash_at_the_start_is_told_with_the_end_of_the_log(tmp_path, port, monkeypatch):
    monkeypatch.setenv("CRASH", "1")
    with pytest.raises(ServerFailed) as found, serve_endpoint(settings(port), tmp_path / "log"):
        pass
    assert "code 1" in str(found.value) and str(found.value).endswith("\n  out of memory")


@pytest.mark.long
def test_a_start_that_takes_too_long_is_an_error_and_leaves_nothing(tmp_path, port, monkeypatch):
    monkeypatch.setenv("SLOW", "60")
    with (
        pytest.raises(ServerFailed, match="did not answer within 3 s"),
        serve_endpoint(settings(port, start_seconds=3), tmp_path / "log"),
    ):
        pass
    assert wait_for(lambda: not left(port), 5)


@pytest.mark.long
def test_one_that_ignores_sigterm_is_killed_with_its_children(tmp_path, port, monkeypatch):
    monkeypatch.setenv("STUBBORN", "1")
    with serve_endpoint(settings(port), tmp_path / "log"):
        assert len(left(port)) == 3
    assert wait_for(lambda: not left(port), 5)


@pytest.mark.long
def test_one_that_dies_ends_what_needs_it_with_the_end_of_its_log(tmp_path, port):
    begin = time.monotonic()
    with pytest.raises(ServerFailed, match="ended with code") as found, serve_endpoint(settings(port), tmp_path / "log"):
        [server] = [
            p
            for p in psutil.process_iter(["cmdline"])
            if "serve" in (p.info["cmdline"] or ())
            and str(port) in p.info["cmdline"]
            and "homerl.host.child_server" not in p.info["cmdline"]
        ]
        server.kill()
        asyncio.run(asyncio.sleep(60))
    assert time.monotonic() - begin < 40 and "loading the weights" in str(found.value)
    assert wait_for(lambda: not left(port), 5)


def test_one_that_runs_already_is_used_and_left_alone(tmp_path):
    with ScriptedServer() as server:
        with serve_endpoint(settings(server.port), tmp_path / "log") as running:
            assert running.urls == (server.url,) and running.serve is None
        assert list_served_models(server.url) and not (tmp_path / "log").exists()


def test_a_port_that_is_taken_is_refused(tmp_path):
    with ScriptedServer() as server:
        other = settings(server.port).model_copy(update={"model": "another"})
        with pytest.raises(InputError, match="is taken"), serve_endpoint(other, tmp_path / "log"):
            pass


def test_without_vllm_it_says_what_to_install(tmp_path, port, monkeypatch):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("sys.executable", str(tmp_path / "python"))
    with pytest.raises(InputError, match=r"homerl\[gpu\]"), serve_endpoint(settings(port), tmp_path / "log"):
        pass


def test_a_run_whose_user_does_not_answer_is_refused_before_any_work(tmp_path, port):
    user = {"kind": "llm", "model": "m", "url": [f"http://127.0.0.1:{port}/v1"]}
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").touch()
    recipe = RLVERecipe.model_validate(RECIPE | {"cpu": True, "model": {"name": str(tmp_path / "model")}, "user": user})
    with pytest.raises(InputError, match=f"{port}/v1 does not answer"):
        check_machine(recipe, "r.yaml")
    with ScriptedServer() as server:
        check_machine(
            recipe.model_copy(update={"user": settings(port).model_copy(update={"url": server.url, "serve": None})}), "r"
        )


def command(tmp_path: Path, port: int, part: str = "user") -> subprocess.Popen:
    """`homerl serve-user`, in a folder of its own: the user of RLVE, or another part of a synthesis."""
    model = {"model": "scripted", "serve": {"model": "some/model", "gpus": [0], "port": port}}
    synthesis = {"homerl": 1, "run": "synth", "synth": {part: model}}
    recipe = RECIPE | {"user": {"kind": "llm"} | model} if part == "user" else synthesis
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(recipe | {"out": str(tmp_path / "run")}))
    return subprocess.Popen(
        [sys.executable, "-m", "homerl", "serve-user", str(path), "--part", part],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # which tests run in the background would lack
    )


@pytest.mark.parametrize(
    ("sent", "part"), [pytest.param(signal.SIGINT, "user", marks=pytest.mark.long), (signal.SIGTERM, "agent")]
)
def test_the_command_serves_until_it_is_told_to_stop(tmp_path, port, sent, part):
    process = command(tmp_path, port, part)
    assert wait_for(lambda: list_served_models(f"http://127.0.0.1:{port}/v1"))
    assert len(left(port)) == 3
    time.sleep(1)  # until it has printed
    process.send_signal(sent)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and f"scripted answers at http://127.0.0.1:{port}/v1" in out and "stopped" in out
    assert wait_for(lambda: not left(port), 5)


@pytest.mark.long
def test_nothing_outlives_an_owner_that_was_killed(tmp_path, port):
    process = command(tmp_path, port)
    assert wait_for(lambda: list_served_models(f"http://127.0.0.1:{port}/v1"))
    assert len(left(port)) == 3
    process.kill()
    process.communicate(timeout=30)
    assert wait_for(lambda: not left(port), 20)


def test_the_command_tells_why_there_is_nothing_to_serve(tmp_path):
    path = tmp_path / "recipe.yaml"
    path.write_text(yaml.safe_dump(RECIPE))
    done = homerl("serve-user", path)
    assert done.code == 2 and "serves no user" in done.err


class Keyed(BaseHTTPRequestHandler):
    """Lists models to those with the key, or byte by byte without an end."""

    def do_GET(self) -> None:
        trickles, known = self.path.startswith("/trickle"), self.headers["authorization"] == "Bearer right"
        self.send_response(200 if trickles or known else 401)
        self.end_headers()
        with suppress(OSError):
            while trickles:
                self.wfile.write(b" ")
                time.sleep(0.1)
            self.wfile.write(b'{"data": [{"id": "m"}]}')

    def log_message(self, *words: object) -> None:
        pass


@pytest.fixture
def keyed():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Keyed)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()


def test_a_server_that_wants_a_key_is_waited_for_with_it_and_with_no_other(keyed, tmp_path, monkeypatch):
    monkeypatch.setenv("MY_KEY", "right")
    wait_until_ready(keyed, None, tmp_path / "log", 5, "MY_KEY")
    monkeypatch.setenv("MY_KEY", "wrong")
    with pytest.raises(InputError, match=r"wants another key than \$MY_KEY"):
        wait_until_ready(keyed, None, tmp_path / "log", 60, "MY_KEY")
    assert list_served_models(keyed) is None and not describe_server_trouble(keyed)


def test_a_list_that_comes_byte_by_byte_is_not_waited_for(keyed, monkeypatch):
    monkeypatch.setattr("homerl.models.endpoint.vllm_server.LIMIT", 0.5)
    begin = time.monotonic()
    assert list_served_models(f"{keyed}/trickle") is None and time.monotonic() - begin < 10


@pytest.mark.parametrize("part", SERVED_ROLES)
def test_each_part_of_a_synthesis_can_be_served(part):
    serve = {"model": "some/model", "gpus": [0]}
    parts = {name: {"model": f"the {name}", "serve": serve} for name in SERVED_ROLES}
    parts["user"]["kind"] = "llm"
    key, found = role_settings(SynthRecipe.model_validate({"homerl": 1, "run": "synth", "synth": parts}), part, "r.yaml")
    assert key == f"synth.{part}" and found.model == f"the {part}"


def test_a_part_that_has_no_model_is_named():
    with pytest.raises(InputError, match="without a model as its author"):
        role_settings(SynthRecipe.model_validate({"homerl": 1, "run": "synth"}), "author", "r.yaml")
    with pytest.raises(InputError, match="without a model as its agent"):
        role_settings(RLVERecipe.model_validate(RECIPE), "agent", "r.yaml")
