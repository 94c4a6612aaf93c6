"""The LLM user, and a synthesis, against a real model server: `transformers serve` with a tiny model, all by HTTP."""

import asyncio
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.endpoint.endpoint_settings import UserSettings
from homerl.models.endpoint.vllm_server import wait_until_ready
from homerl.play.loop import play
from homerl.play.trajectory import Outcome
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import synthesise_shards
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import open_user_factory

pytest.importorskip("fastapi", reason="`transformers serve` needs it")


@pytest.fixture(scope="module")
def url(tiny: Path, tmp_path_factory):
    """The address of a server of the tiny model."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    folder = tmp_path_factory.mktemp("served")
    (folder / "hub").mkdir()
    program = shutil.which("transformers", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}")
    command = [program, "serve", str(tiny), "--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    offline = {"HF_HOME": str(folder), "HF_HUB_OFFLINE": "1", "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    log = folder / "log"
    with log.open("w") as out:
        server = subprocess.Popen(command, env=os.environ | offline, stdout=out, stderr=subprocess.STDOUT)
    try:
        wait_until_ready(f"http://127.0.0.1:{port}/v1", server, log, 120)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        server.terminate()
        server.wait(200)


@pytest.mark.long
def test_a_real_server_is_asked_and_answers(url, tiny, task):
    settings = UserSettings(kind="llm", url=url, model=str(tiny), max_tokens=24, timeout=60, deadline=120)
    with open_user_factory(settings) as users:
        blueprint = make_home_blueprint(task, "train", 1)
        end = asyncio.run(play(begin_episode(blueprint), Expert(), users(0)))
    usage = users.usage_totals()
    assert end.outcome is not Outcome.INFRA_ERROR and usage["requests"] >= 1 and not usage["faults"]
    assert usage["prompt_tokens"] > 100 and usage["completion_tokens"] > 0  # what an untrained model says is no matter


@pytest.mark.long
def test_a_synthesis_runs_on_it(url, tiny, task):
    """An untrained model solves nothing, and this server gives one candidate however many are wanted."""
    model = {"url": url, "model": str(tiny), "max_tokens": 12, "timeout": 60, "deadline": 120}
    data = {"blueprints": 2, "recipe": task, "agent": model, "search": {"rollouts": 1}, "limits": {"turns": 1, "steps": 2}}
    (shard,) = synthesise_shards(SynthesisConfig.model_validate(data), [range(2)], 2)
    assert {line["outcome"] for line in shard.stats["blueprints"]} <= {"agent_failure", "success"}
    assert shard.stats["transport"]["agent/requests"] >= 2 and not any("faults" in key for key in shard.stats["transport"])
