"""Several policy servers: episodes stay with theirs, go on elsewhere when it is lost, and never meet old weights."""

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from launches import LAUNCHERS, ROOT, figures, lines, start, wait_for, written
from scripted_server import ScriptedServer

from homerl.envs.core.documents import InputError
from homerl.host.processes import free_port
from homerl.models.endpoint.vllm_server import describe_server_trouble
from homerl.models.policy.policy_agent import Sample
from homerl.train.engines.server import ServerKeys, ServerPool
from homerl.train.recipe import EngineSettings
from homerl.train.watch.phase_deadlines import PhaseTimer, RunStalled

STAND_IN = ROOT / "tests/helpers/stand_in_vllm.py"


class Answers(ScriptedServer):
    """A policy server, as far as it is asked whether it is there, and our side of it."""

    def __init__(self) -> None:
        super().__init__()
        self.version, self.connected, self.asked, self.leaves = -1, 0, [], False
        self.settings = ServerKeys()
        self.up = self.start() is None

    def attach(self, trainer, phases):
        self.connected += 1

    def sync(self, version):
        if self.leaves:
            self.leaves = self.goes()
            raise RunStalled("takes no weights")
        self.version = version

    async def sample(self, prompt):
        await asyncio.sleep(0)
        if not self.up:
            raise RunStalled("no answer")
        self.asked.append(prompt)
        return Sample((1,), (0.0,), self.version)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def goes(self) -> None:
        self.up = self.die() is not None

    def comes(self) -> None:
        self.up = self.start() is None


@pytest.fixture
def two(tmp_path):
    """Two servers, and what asks them."""
    servers = [Answers(), Answers()]
    engine = ServerPool(servers)
    engine.attach(SimpleNamespace(accelerator=SimpleNamespace(is_main_process=True, process_index=0)), PhaseTimer(tmp_path))
    engine.sync(0)
    yield engine, *servers
    for server in servers:
        if server.up:
            server.goes()


def played(engine: ServerPool, episodes: str, then=lambda: None) -> list[int]:
    """Play episodes of two samples each, and do something between the two; the versions of the second samples."""

    async def one(name: str, half: asyncio.Barrier) -> int:
        await engine.sample(name)
        await half.wait()
        return (await engine.sample(name)).version

    async def every() -> list[int]:
        half = asyncio.Barrier(len(episodes) + 1)
        running = [asyncio.create_task(one(name, half)) for name in episodes]
        await half.wait()
        then()
        return await asyncio.gather(*running)

    return asyncio.run(every())


def test_episodes_take_turns_and_stay_with_their_server(two):
    engine, first, second = two
    played(engine, "abcd")
    assert sorted(first.asked) == [*"aacc"] and sorted(second.asked) == [*"bbdd"]


def test_episodes_of_a_lost_server_go_on_and_it_is_asked_again_when_it_has_the_weights(two):
    engine, first, second = two
    assert played(engine, "ab", first.goes) == [0, 0] and second.asked.count("a") == 1 and engine.lost == {0}
    first.comes()
    played(engine, "cd")
    assert not {*first.asked} & {*"cd"}, "it has come back with other weights"
    engine.sync(1)
    assert (first.connected, second.connected) == (2, 1) and first.version == second.version == engine.version == 1
    played(engine, "ef")
    assert len({*first.asked} & {*"ef"}) == 1


def test_a_server_that_is_down_at_a_sync_gets_the_weights_at_a_later_one(two):
    engine, first, second = two
    second.goes()
    engine.sync(1)
    assert played(engine, "abc") == [1, 1, 1] and engine.lost == {1} and (first.version, second.version) == (1, 0)
    second.comes()
    engine.sync(2)
    assert second.version == 2 and second.connected == 2 and engine.lost == set()


def test_a_server_that_is_lost_in_a_sync_gets_the_weights_when_it_is_back(two):
    engine, first, second = two
    second.leaves = True  # once it has said that it is there
    engine.sync(1)
    assert engine.lost == {1} and engine.version == 1 and played(engine, "abc") == [1, 1, 1]
    engine.sync(2)
    assert (first.version, second.version) == (2, 0)
    second.comes()
    engine.sync(3)
    assert second.version == 3 and second.connected == 2 and engine.lost == set()
    played(engine, "de")
    assert {*second.asked} & {*"de"}


def test_a_server_that_rollouts_ahead_lose_during_a_sync_is_not_forgotten(two, monkeypatch):
    engine, first, second = two

    def lost_meanwhile(version):
        first.version = version
        engine.lost.add(1)

    monkeypatch.setattr(first, "sync", lost_meanwhile)
    engine.sync(1)
    assert engine.lost == {1}
    monkeypatch.undo()
    engine.sync(2)
    assert (second.version, second.connected, engine.lost) == (2, 2, set())


def test_a_run_whose_servers_all_take_no_weights_ends(two):
    engine, first, second = two
    first.leaves = second.leaves = True
    with pytest.raises(RunStalled, match="none of the policy servers answers"):
        engine.sync(1)


def test_a_run_without_any_server_ends(two):
    engine, *servers = two
    with pytest.raises(RunStalled):
        played(engine, "ab", lambda: [server.goes() for server in servers])
    with pytest.raises(RunStalled, match="none of the policy servers answers"):
        engine.sync(1)


def test_addresses_are_checked_one_by_one():
    urls = ("http://a:1", "http://b:1")
    assert EngineSettings(kind="server", url=urls).url == urls
    for wrong in ((), ("http://a:1", "b:1"), "http://a:1/"):
        with pytest.raises((ValueError, InputError)):
            EngineSettings(kind="server", url=wrong)


# Two ranks train with two servers


def served(folder: str, port: int, log: Path) -> subprocess.Popen:
    """A server with the model of a folder."""
    with log.open("a") as out:
        command = [sys.executable, STAND_IN, "serve", folder, port]
        environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen([*map(str, command)], stdout=out, stderr=out, env=environment)
    wait_for(lambda: not describe_server_trouble(f"http://127.0.0.1:{port}/v1"), process)
    return process


@pytest.mark.long
@pytest.mark.timeout(3000)
def test_two_ranks_train_while_one_of_two_servers_is_killed_and_comes_back(model, tokenizer, task, tmp_path):
    """All samples have the weights of now: a server with those of the folder would show in the gap of log-probabilities.

    Before it is killed, one is lost as it gets weights.
    """
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    ports = [free_port(), free_port()]
    recipe = {
        "homerl": 1, "run": "rlve", "cpu": True, "out": str(tmp_path / "run"), "wandb": {"mode": "disabled"},
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"}, "limits": {"turns": 3, "steps": 4},
        "blueprints": {"recipe": task.model_dump(mode="json"), "count": 6},
        "rlve": {
            "updates": 12, "learning_rate": 1e-2, "warmup": 0.0, "blueprints_per_update": 2, "group": 4, "max_tokens": 24,
            "max_episode_tokens": 512, "log_steps": 1,
            "engine": {"kind": "server", "url": [f"http://127.0.0.1:{port}" for port in ports], "retries": 1},
        },
    }  # fmt: skip
    servers = [served(recipe["model"]["name"], port, tmp_path / "servers.txt") for port in ports]
    run = start(*LAUNCHERS["two ranks"], STAND_IN, "train", written(recipe, tmp_path))
    try:
        wait_for(lambda: len(lines(tmp_path / "run")) >= 3, run)
        servers[0].kill(), servers[0].wait()
        wait_for(lambda: any(row["policy/servers"] == 1 for row in lines(tmp_path / "run")[3:]), run)
        servers[0] = served(recipe["model"]["name"], ports[0], tmp_path / "servers.txt")
        assert run.wait(400) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    finally:
        for process in (*servers, run):
            process.kill()
    found = figures(tmp_path / "run")
    answering = [row["policy/servers"] for row in found]
    assert len(found) == 12 and answering[:3] == [2, 1, 2] and answering[-1] == 2 and 1 in answering[3:]
    assert max(row["sentinel/logp_gap"] for row in found) < 1e-4
    said = (tmp_path / "log.txt").read_text()
    assert "takes no weights: reset by peer; the others go on" in said and "is back, and gets the weights" in said
