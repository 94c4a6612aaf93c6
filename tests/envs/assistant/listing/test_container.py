"""The containers of the agent and of the app: built, started, healthy, and asked. `scripts/check_container` runs this."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.request import Request, urlopen

import container
import pytest
from agent_served import answers
from scripted_server import ScriptedServer

from tests.envs.assistant.listing.replay import TOKEN, Replay
from tests.envs.assistant.listing.test_app import APP, CONFIG, FOLDER, Supervisor

ROOT, BASE = FOLDER.parents[2], os.environ.get("HOMERL_CONTAINER_BASE", "")
URL = "http://127.0.0.1:8124"
NOTHING_DONE = "I switched nothing just now."  # in place of the "Done." of a model that called nothing
HAS_DOCKER = shutil.which("docker") is not None and not subprocess.run(["docker", "info"], capture_output=True).returncode
chrooted = pytest.mark.skipif(not BASE, reason="no HOMERL_CONTAINER_BASE: scripts/check_container makes one")


def reply(key: str) -> str:
    """What the agent answers."""
    head = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    body = json.dumps({"messages": [{"role": "user", "content": "Hum a song, please."}]}).encode()
    with urlopen(Request(f"{URL}/v1/chat/completions", body, head), timeout=1000) as answer:
        return str(json.load(answer)["choices"][0]["message"]["content"])


@pytest.mark.parametrize("file", [FOLDER / "Dockerfile", APP / "Dockerfile"], ids=["agent", "app"])
def test_a_dockerfile_copies_what_there_is_in_two_stages(file: Path) -> None:
    steps = list(container.instructions(file))
    context = APP if file.parent == APP else ROOT
    copied = [words.split()[:-1] for name, words in steps if name == "COPY" and not words.startswith("--from")]
    assert all((context / one).exists() for words in copied for one in words)
    assert [name for name, _ in steps].count("FROM") == 2


def test_the_agent_is_nobody_in_particular_and_tells_whether_it_is_well() -> None:
    steps = dict(container.instructions(FOLDER / "Dockerfile"))
    assert steps["USER"] == "agent" and "/health" in steps["HEALTHCHECK"] and "--key-env" in steps["ENTRYPOINT"]


@pytest.mark.long
@pytest.mark.timeout(6000)
@chrooted
def test_the_steps_make_an_agent_that_answers(tmp_path: Path) -> None:
    image = container.build(FOLDER / "Dockerfile", ROOT, Path(BASE), tmp_path)
    with Replay() as home, ScriptedServer() as model:
        named = ("--ha", home.url, "--model", model.url)
        with container.running(image, *named, HA_TOKEN=TOKEN, AGENT_KEY="secret") as agent:
            answers(f"{URL}/health", agent)
            subprocess.run(image.chroot(*image.health), check=True)
            assert reply("secret") == NOTHING_DONE
            assert Path(f"/proc/{agent.pid}").stat().st_uid == 10001
            assert (image.root / "data/agent.jsonl").exists()


@pytest.mark.long
@pytest.mark.timeout(6000)
@chrooted
def test_the_steps_make_an_app_that_answers(tmp_path: Path) -> None:
    context = tmp_path / "app"
    shutil.copytree(APP, context)
    pip = [sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "-w", str(context), str(ROOT)]
    subprocess.run(pip, check=True, capture_output=True)
    image = container.build(context / "Dockerfile", context, Path(BASE), tmp_path)
    with Supervisor() as supervisor, ScriptedServer() as model:
        (image.root / "data").mkdir()
        (image.root / "data/options.json").write_text(json.dumps(CONFIG["options"] | {"model": model.url}))
        with container.running(image, SUPERVISOR_TOKEN=TOKEN, SUPERVISOR=supervisor.url) as app:
            answers(f"{URL}/health", app)
            (told,) = supervisor.told
            assert reply(told["config"]["api_key"]) == NOTHING_DONE
            assert Path(f"/proc/{app.pid}").stat().st_uid == 10001


@pytest.mark.long
@pytest.mark.timeout(6000)
@pytest.mark.skipif(not HAS_DOCKER, reason="no Docker runs here")
def test_docker_builds_and_runs_the_agent() -> None:
    subprocess.run(["docker", "build", "-f", str(FOLDER / "Dockerfile"), "-t", "homerl-agent-test", str(ROOT)], check=True)
    with Replay() as home, ScriptedServer() as model:
        run = ["docker", "run", "--rm", "--network", "host", "-e", f"HA_TOKEN={TOKEN}", "-e", "AGENT_KEY=secret"]
        command = [*run, "homerl-agent-test", "--ha", home.url, "--model", model.url]
        with subprocess.Popen(command) as agent:
            try:
                answers(f"{URL}/health", agent)
                assert reply("secret") == NOTHING_DONE
            finally:
                agent.terminate()
