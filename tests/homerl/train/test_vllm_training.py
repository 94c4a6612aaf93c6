"""RLVE on a real vLLM, in the trainer's processes and as a server: it samples with the weights that the trainer has now.

`scripts/check_vllm` installs one for the CPU and runs this; `vllm_on_cpu` says what differs there from GPUs.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType, SimpleNamespace
from typing import Any

import pytest
import torch
from launches import LAUNCHERS, ROOT, checkpoints, figures, kill_at, lines, start, wait_for, written
from person import obedient
from scripted_server import ScriptedServer
from transformers import AutoModelForCausalLM

from homerl.host.processes import free_port
from homerl.models.endpoint.vllm_server import describe_server_trouble
from homerl.models.policy.policy_agent import Sample
from homerl.report.cards.export import export_model
from homerl.train.engines import weight_sync as synced
from homerl.train.engines.server import ServerEngine, can_freeze_requests
from homerl.train.recipe import EngineSettings
from homerl.train.watch.phase_deadlines import PhaseTimer

HELPERS = ROOT / "tests/helpers"
TRAINER = HELPERS / "vllm_on_cpu.py"
ONE, TWO = [sys.executable, TRAINER], [*LAUNCHERS["two ranks"], TRAINER]
SERVER = [sys.executable, "-m", "vllm.entrypoints.openai.api_server"]
pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif("HOMERL_VLLM_BIN" not in os.environ, reason="no real vLLM: scripts/check_vllm brings one"),
    pytest.mark.timeout(900),
]
deepspeed = pytest.mark.skipif(find_spec("deepspeed") is None, reason="DeepSpeed is not installed")
HALF = 0.05  # vLLM samples a float32 model in half precision where it is not told otherwise, as in the trainer's process
WHOLE = 1e-4  # and so a server is told


@pytest.fixture(autouse=True)
def environment(monkeypatch):
    """vLLM on a CPU: little memory, no hub, and no other host."""
    known = {"VLLM_CPU_KVCACHE_SPACE": "1", "HF_HUB_OFFLINE": "1", "VLLM_HOST_IP": "127.0.0.1"}
    for name, value in known.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def recipe(model, tokenizer, task, tmp_path) -> dict[str, Any]:
    """Updates so large that a sampler without them would be far from the trainer."""
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    return {
        "homerl": 1, "run": "rlve", "cpu": True, "out": str(tmp_path / "run"), "wandb": {"mode": "disabled"},
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"}, "limits": {"turns": 3, "steps": 4},
        "blueprints": {"recipe": task.model_dump(mode="json"), "count": 6},
        "evaluation": {"every": 3, "count": 4},
        "rlve": {
            "updates": 6, "save_steps": 1, "learning_rate": 1e-2, "warmup": 0.0, "blueprints_per_update": 4, "group": 4,
            "max_tokens": 24, "max_episode_tokens": 512, "log_steps": 1,
            "engine": {"kind": "vllm", "sleep": False},
        },
    }  # fmt: skip


def changed(recipe: dict[str, Any], **rlve: Any) -> dict[str, Any]:
    return recipe | {"rlve": recipe["rlve"] | rlve}


def train(*command: str | Path) -> None:
    process = start(*command)
    assert process.wait(600) == 0, (Path(command[-1]).parent / "log.txt").read_text()[-3000:]


def gaps(out: Path) -> list[float]:
    """Mean |log-probability of the sampler - of the trainer| of the sampled tokens, by update."""
    return [row["sentinel/logp_gap"] for row in figures(out)]


# In the trainer's processes

LORA = {"r": 4, "alpha": 64}
WAYS = {
    "one rank": (ONE, "ddp", None),
    "two ranks": (TWO, "ddp", None),
    "lora": (ONE, "ddp", LORA),
    "fsdp2": (TWO, "fsdp2", None),
    "zero2": (TWO, "zero2", None),
    "zero3": (TWO, "zero3", None),
    "zero2, lora": (TWO, "zero2", LORA),
    "zero3, lora": (TWO, "zero3", LORA),
}
EACH = pytest.mark.parametrize("way", [pytest.param(way, marks=deepspeed if "zero" in way else ()) for way in WAYS])


def spread(way: str, recipe: dict[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """A launcher, and the recipe as it is to be launched."""
    command, how, lora = WAYS[way]
    return command, recipe | {"parallel": how, "model": recipe["model"] | {"lora": lora}}


@EACH
def test_colocated_samples_with_the_weights_of_now(way, recipe, tmp_path):
    command, recipe = spread(way, recipe)
    train(*command, written(recipe, tmp_path))
    found = figures(tmp_path / "run")
    assert len(found) == 6 and max(gaps(tmp_path / "run")) < HALF
    assert all(row["policy/ratio"] == pytest.approx(1, abs=HALF) and row["policy/staleness"] == 0 for row in found)
    assert (tmp_path / "run/model/config.json").exists() or (tmp_path / "run/model/adapter_config.json").exists()
    print(f"colocated, {way}: gaps {[round(gap, 4) for gap in gaps(tmp_path / 'run')]}")


# As a server


@contextmanager
def serving(model: str, port: int, log: Path, dtype: str = "float32"):
    """A server as docs/training.md starts it."""
    arguments = ["--model", model, "--port", str(port), "--dtype", dtype, "--max-model-len", "1024",
                 "--enforce-eager", "--gpu-memory-utilization", "0.3", "--worker-extension-cls", "vllm_on_cpu.Worker",
                 "--weight-transfer-config", '{"backend": "nccl"}', "--logprobs-mode", "processed_logprobs",
                 "--max-logprobs", "-1"]  # fmt: skip
    environment = os.environ | {"VLLM_SERVER_DEV_MODE": "1", "PYTHONPATH": f"{ROOT}:{HELPERS}", "OMP_NUM_THREADS": "1"}
    with log.open("a") as out:
        process = subprocess.Popen([*SERVER, *arguments], env=environment, stdout=out, stderr=out, start_new_session=True)
    try:
        wait_for(lambda: not describe_server_trouble(f"http://127.0.0.1:{port}/v1"), process)
        yield process
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


@pytest.fixture
def server(recipe, tmp_path):
    """(recipe with an engine that asks it, start it)."""
    port = free_port()
    engine = {"kind": "server", "url": f"http://127.0.0.1:{port}", "retries": 1}
    return changed(recipe, engine=engine), lambda: serving(recipe["model"]["name"], port, tmp_path / "server.txt")


@EACH
def test_a_server_samples_with_the_weights_of_now(way, server, tmp_path):
    recipe, served = server
    command, recipe = spread(way, recipe)
    with served():
        train(*command, written(recipe, tmp_path))
    found = figures(tmp_path / "run")
    assert len(found) == 6 and max(gaps(tmp_path / "run")) < WHOLE
    assert all(row["policy/ratio"] == pytest.approx(1, abs=WHOLE) for row in found)
    print(f"server, {way}: gaps at most {max(gaps(tmp_path / 'run')):.1e}")


def test_a_server_with_rollouts_ahead_is_one_update_behind_and_no_more(server, tmp_path):
    recipe, served = server
    with served():
        train(*ONE, written(changed(recipe, async_rollouts=1), tmp_path))
    found = figures(tmp_path / "run")
    assert found[0]["policy/staleness"] == 0 and all(row["policy/too_old"] == 0 for row in found)
    assert all(0.5 < row["policy/staleness"] <= 1 for row in found[1:]), "less, where a sync came into an episode"
    apart = [abs(row["policy/ratio"] - 1) for row in found[1:]]  # about 0 after an update in which no group had a signal
    assert max(apart) > WHOLE, f"older weights sampled: {apart}"


def test_a_server_takes_weights_while_its_requests_wait(server, tmp_path):
    """Three updates ahead, so that requests may run at a sync. An update at which nothing was asked has no share."""
    recipe, served = server
    with served():
        assert can_freeze_requests(recipe["rlve"]["engine"]["url"])
        train(*ONE, written(changed(recipe, async_rollouts=3, updates=10, max_tokens=200), tmp_path))
    found = figures(tmp_path / "run")
    assert len(found) == 10 and all(row["policy/too_old"] == 0 and row["policy/staleness"] <= 3 for row in found)
    hits = [row["policy/prefix_hits"] for row in found if "policy/prefix_hits" in row]
    assert len(hits) > 3 and all(0 < share < 1 for share in hits)
    said = (tmp_path / "server.txt").read_text()
    assert said.count("POST /pause?mode=keep") == said.count("POST /resume") > 9
    print(f"frozen: staleness {[round(row['policy/staleness'], 2) for row in found]}")
    print(f"frozen: prefix hits {[round(share, 2) for share in hits]}")


def test_frozen_requests_go_on_where_they_were(server, model, tokenizer, tmp_path, monkeypatch):
    """Frozen in the middle, with their caches dropped: every log-probability is that of one plain pass."""
    recipe, served = server
    accelerator = SimpleNamespace(wait_for_everyone=lambda: None, is_main_process=True)
    sends = SimpleNamespace(sync_weights=lambda: None)
    monkeypatch.setattr(synced, "make_vllm_generation", lambda trainer, **options: sends)
    prompts, across = [[5, 6, 7 + i] for i in range(8)], 0
    with served():
        engine = ServerEngine(tokenizer, 400, 1.0, EngineSettings.model_validate(recipe["rlve"]["engine"]))
        engine.attach(SimpleNamespace(accelerator=accelerator), PhaseTimer(tmp_path))

        async def sample() -> list[Sample]:
            nonlocal across
            tasks = [asyncio.create_task(engine.sample(prompt)) for prompt in prompts]
            for _ in range(4):
                await asyncio.sleep(0.1)
                await asyncio.to_thread(engine.sync, 1)
                across += not all(task.done() for task in tasks)
            return await asyncio.gather(*tasks)

        found = asyncio.run(sample())
    assert across, "nothing ran while the server was frozen: the test proves nothing"
    for prompt, one in zip(prompts, found, strict=True):
        with torch.no_grad():
            logits = model(torch.tensor([[*prompt, *one.ids]])).logits[0, len(prompt) - 1 : -1].float()
        expected = torch.log_softmax(logits, -1)[torch.arange(len(one.ids)), torch.tensor(one.ids)]
        torch.testing.assert_close(torch.tensor(one.logprobs), expected, atol=WHOLE, rtol=0)
    print(f"frozen: {across} times in the middle of {sum(len(one.ids) for one in found)} tokens")


def test_a_server_that_dies_ends_the_run_and_a_new_one_takes_it_up(server, tmp_path):
    """Killed trainer, killed server: the same command goes on, with weights that no server has from a file."""
    recipe, served = server
    path = written(recipe, tmp_path)
    with served() as process:
        kill_at(2, tmp_path / "run", *ONE, path)
    with served() as process:
        trainer = start(*ONE, path)
        wait_for(lambda: len(lines(tmp_path / "run")) >= 4, trainer)
        os.killpg(process.pid, signal.SIGKILL)
        assert trainer.wait(200) == 4, "it is asked for a minute"
    assert "the watchdog stopped the run: the policy server at" in (tmp_path / "log.txt").read_text()[
        -3000:
    ] and checkpoints(tmp_path / "run")
    with served():
        train(*ONE, path)
    assert [row["step"] for row in figures(tmp_path / "run")] == [1, 2, 3, 4, 5, 6]
    assert max(gaps(tmp_path / "run")) < WHOLE


# The recipes that are shipped, with the engines, the spreading and the user that they name


@pytest.fixture
def half(recipe, tokenizer, tmp_path) -> str:
    """The folder of the same model in half precision, as those are that the recipes name."""
    AutoModelForCausalLM.from_pretrained(recipe["model"]["name"], dtype=torch.bfloat16).save_pretrained(tmp_path / "half")
    tokenizer.save_pretrained(tmp_path / "half")
    return str(tmp_path / "half")


@pytest.fixture
def shrunk(recipe, half, dialogues, tmp_path) -> Callable[..., Path]:
    """A shipped recipe for a CPU: other weights, small homes, short dialogues."""

    def make(name: str, engine: Mapping[str, Any] = MappingProxyType({"sleep": False}), **more: Any) -> Path:
        model = {"name": half, "attention": "sdpa"}
        own = {"extends": str(ROOT / f"recipes/{name}.yaml"), "model": model}
        if name.startswith("sft"):
            small = {"data": str(dialogues), "sft": {"max_steps": 2, "max_length": 1024}}
        else:
            rlve = {name: recipe["rlve"][name] for name in ("group", "max_tokens", "max_episode_tokens")}
            small = {key: recipe[key] for key in ("limits", "blueprints")}
            small["rlve"] = rlve | {"updates": 2, "blueprints_per_update": 2, "engine": dict(engine), "log_steps": 1}
        shared = {key: recipe[key] for key in ("cpu", "out", "wandb")}
        return written(shared | own | small | more, tmp_path)

    return make


def small_user(model: str) -> dict[str, Any]:
    """An untrained model is no user: its words are asked for, judged and counted."""
    arguments = ["--dtype", "float32", "--enforce-eager", "--no-enable-chunked-prefill"]  # which no CPU can do by seed
    serve = {"model": model, "gpus": [0], "port": free_port(), "max_length": 2048, "gpu_memory": 0.3, "arguments": arguments}
    return {"model": "tiny", "serve": serve, "max_tokens": 24}


def exports(out: Path) -> None:
    model = AutoModelForCausalLM.from_pretrained(export_model(out, str(out / "exported")), dtype="auto")
    assert model.dtype == torch.bfloat16, "as its recipe says"


SFT = {"sft_8b": TWO, "sft_4b": TWO, "sft_8b_lora": ONE}
RLVE = {"rlve_full": TWO, "rlve_full_4b": TWO, "rlve_st": TWO, "rlve_8b_lora": ONE}


@deepspeed
@pytest.mark.parametrize("name", SFT)
def test_a_shipped_recipe_of_sft_runs_whole(name, shrunk, tmp_path):
    train(*SFT[name], shrunk(name))
    assert json.loads((tmp_path / "run/metrics.jsonl").read_text().splitlines()[-1])["step"] == 2
    exports(tmp_path / "run")


@deepspeed
@pytest.mark.parametrize("name", RLVE)
def test_a_shipped_recipe_of_rlve_runs_whole(name, shrunk, half, tmp_path, monkeypatch):
    """vLLM samples beside the trainer, and another plays the user, who goes with the run."""
    monkeypatch.setenv("PATH", f"{os.environ['HOMERL_VLLM_BIN']}:{os.environ['PATH']}")
    user = small_user(half)
    train(*RLVE[name], shrunk(name, **({} if name == "rlve_8b_lora" else {"user": user})))
    found = figures(tmp_path / "run")
    assert len(found) == 2 and max(gaps(tmp_path / "run")) < HALF
    if name != "rlve_8b_lora":
        assert all(row["user/requests"] > 0 for row in found)
        assert describe_server_trouble(f"http://127.0.0.1:{user['serve']['port']}/v1"), "it went with the run"
    exports(tmp_path / "run")


@deepspeed
def test_a_shipped_recipe_talks_with_a_user_who_can(shrunk, tmp_path):
    """The same with a person behind the endpoint, so that there are dialogues to sample and to learn from."""
    with ScriptedServer(answer=obedient) as server:
        user = {"url": [server.url], "model": "scripted", "serve": None}
        train(*TWO, shrunk("rlve_full", user=user))
    found = figures(tmp_path / "run")
    assert len(found) == 2 and all(0 < gap < HALF for gap in gaps(tmp_path / "run"))
    assert all(row["user/requests"] > 0 and row["episode/sampled_tokens"] > 0 for row in found)
    exports(tmp_path / "run")


@deepspeed
def test_the_shipped_recipe_with_a_policy_server_runs_whole(shrunk, half, tmp_path, monkeypatch):
    monkeypatch.setenv("PATH", f"{os.environ['HOMERL_VLLM_BIN']}:{os.environ['PATH']}")
    port = free_port()
    engine = {"url": f"http://127.0.0.1:{port}"}
    path = shrunk("rlve_async", engine, user=small_user(half), evaluation={"every": 2, "count": 4})
    with serving(half, port, tmp_path / "server.txt", "bfloat16"):
        train(*TWO, path)
    found = figures(tmp_path / "run")
    assert len(found) == 2 and max(gaps(tmp_path / "run")) < HALF
    rows = [json.loads(line) for line in (tmp_path / "run/metrics.jsonl").read_text().splitlines()]
    assert any("eval/counted" in row for row in rows)
    exports(tmp_path / "run")


def test_the_report_of_a_gpu_measures_generation(tmp_path):
    command = [sys.executable, ROOT / "scripts/gpu_report", "--tiny", "--out", tmp_path / "report.json", "generate_vllm"]
    subprocess.run(command, cwd=tmp_path, check=True)
    found = json.loads((tmp_path / "report.json").read_text())["generate_vllm"]
    assert found["tokens_per_second"] > 0, found
