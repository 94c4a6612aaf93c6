"""The environment folder `recipes/openenv`: `openenv validate`, at every level that is coded, and tests of ours for those
checks that its policy only names."""

import json
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytest.importorskip("openenv", reason="scripts/check_interop runs these tests: openenv needs mcp 1, and homerl[mcp] mcp 2")

import httpx
from openenv.validation import Verdict, run_validation
from openenv.validation.providers import ExecResult
from openenv.validation.types import ProviderCapability
from openenv_serving import PATIENT, ask, expert_messages, open_socket, openenv_server, step_message

import homerl
from homerl.app.recipe_reference import write_recipes
from homerl.tasks.openenv.client import TaskClient

web = httpx.Client(timeout=240)

FOLDER = Path(__file__).parents[4] / "recipes" / "openenv"
CODED = {
    "static.manifest",
    "runtime.startup",
    "runtime.reward_well_formed",
    "runtime.observation_schema",
    "runtime.state_contract",
}
SUITE = "smarthome-bench"
PLACES = (3, 200, 900)


class Subject:
    """The folder's own server, in a process of its own."""

    def __init__(self, folder: Path) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.base_url = f"http://127.0.0.1:{port}"
        self._process = subprocess.Popen(
            [sys.executable, "-m", "server.app", str(port)], cwd=folder, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 200
        while time.monotonic() < deadline:
            try:
                if web.get(f"{self.base_url}/health").status_code == 200:
                    return
            except httpx.TransportError:
                assert self._process.poll() is None
                time.sleep(0.2)
        raise TimeoutError("the server of the folder does not answer")

    def inspect(self) -> dict:
        return {}

    def logs(self, max_bytes: int = 65536) -> str:
        return ""

    def exec(self, argv: list[str], timeout_s: float) -> ExecResult:
        raise NotImplementedError("no check that is coded asks for it")

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class ProcessProvider:
    """Starts the folder's server without a container, for machines that have none: the check of the network is left out."""

    name = "process"
    capabilities = frozenset({ProviderCapability.IMAGE_BUILD})
    supported_network_modes = frozenset({"public", "no-network"})

    def build(self, root, execution) -> str:
        assert (root / execution.dockerfile).is_file()
        self._root = root
        return "sha256:" + "0" * 64

    def start(self, spec) -> Subject:
        return Subject(self._root)


@pytest.fixture(scope="module")
def url():
    with openenv_server(SUITE) as (_, address):
        yield address


@pytest.fixture(scope="module")
def suite():
    return homerl.load_suite(SUITE)


def test_openenv_validate_passes_at_every_level_that_is_coded(tmp_path):
    """The folder as `homerl init` writes it."""
    write_recipes(tmp_path)
    folder = tmp_path / "openenv"
    assert {path.name for path in folder.iterdir()} >= {"openenv.yaml", "Dockerfile", "client.py", "README.md", "server"}
    report = run_validation(folder, provider=ProcessProvider())
    found = {result.check_id: result.status.value for result in report.results}
    assert {name for name, status in found.items() if status == "pass"} == CODED, report.results
    assert set(found.values()) == {"pass", "skip"} and report.verdict is not Verdict.FAIL
    command = [sys.executable, "-m", "openenv.cli", "validate", str(folder), "--level", "static"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0 and "Verdict: PASS" in done.stdout


def test_openenv_validate_passes_on_the_running_server(url):
    done = subprocess.run([sys.executable, "-m", "openenv.cli", "validate", "--url", url], capture_output=True, text=True)
    assert done.returncode == 0 and "FAIL" not in done.stdout, done.stdout


def returns(url: str, index: int, replies, seed: int = 0) -> tuple[float, str | None]:
    """What is earned by these replies, and how it ended. The last reply is said until the episode is over."""
    with TaskClient(url, **PATIENT) as client:
        result, earned, said = client.reset(index=index, seed=seed), 0.0, list(replies)
        while not result.done:
            result = client.step(said.pop(0) if len(said) > 1 else said[0])
            earned += result.reward
        return earned, result.metadata["outcome"]


def test_the_oracle_earns_most_the_floor_nothing_and_games_less(url, suite):
    """semantic.oracle_max, floor_gap, canary_floor; statistical.gameability_gap: the expert, nobody, and four cheats."""
    declared = json.loads((FOLDER / "validation" / "runtime.json").read_text())
    assert declared["reset"]["options"]["index"] == PLACES[0]
    for index in PLACES:
        task = suite[index]
        best, outcome = returns(url, index, expert_messages(task))
        assert outcome == "success" and best == pytest.approx(2.0)
        cheats = {
            "nothing": [""],
            "claims": ["I have done all that you asked for.", "It is done."],
            "quotes": [task.sentence],
            "loops": ['<tool_call>{"name": "query_spec", "arguments": {"did": "1"}}</tool_call>'],
            "breaks out": ['<tool_call>{"name": "pyexec", "arguments": {"code": "import os; os._exit(0)"}}</tool_call>'],
        }
        for name, replies in cheats.items():
            earned, outcome = returns(url, index, replies)
            assert outcome != "success" and earned <= best - 1.0, (name, index, earned)


def test_a_seed_says_all_and_a_stored_episode_replays_to_the_byte(url, suite):
    """runtime.seed_control, episode_determinism and episode_isolation; semantic.verifier_determinism and replayability."""
    sent = [step_message(message) for message in expert_messages(suite[PLACES[0]], 5)]
    reset = {"type": "reset", "data": {"index": PLACES[0], "seed": 5}}
    with open_socket(url) as one, open_socket(url) as two:
        first = [ask(one, message) for message in (reset, *sent)]
        stored = json.loads(json.dumps([reset, *sent]))
        ask(two, {"type": "reset", "data": {"index": PLACES[1], "seed": 1}})  # another episode, before and between
        second = []
        for message in stored:
            second.append(ask(two, message))
            ask(one, {"type": "reset", "data": {"index": PLACES[2]}})
        assert second == first
        prompts = {ask(two, {"type": "reset", "data": {"index": PLACES[0], "seed": seed}}) for seed in range(6)}
        assert len(prompts) > 1, "the seed has its effect"


def test_what_the_folder_declares_is_what_the_server_has(url, suite):
    """runtime.task_declaration_accuracy, tool_declaration_accuracy and trajectory_record."""
    import yaml

    declared = yaml.safe_load((FOLDER / "openenv.yaml").read_text(encoding="utf-8"))["validation"]
    counted = web.post(f"{url}/homerl/num_tasks", json={"split": "test"}).json()["num_tasks"]
    assert declared["capabilities"]["declared_task_count"] == {"test": counted} == {"test": len(suite)}
    low, high = declared["reward"]["range"]
    with TaskClient(url, **PATIENT) as client:
        client.reset(index=PLACES[0])
        for message in expert_messages(suite[PLACES[0]]):
            assert low <= client.step(message).reward <= high
        record = client.state().model_dump()
        assert record["step_count"] == len(record["steps"]) and record["outcome"] == "success"
        assert sum(step["reward"] for step in record["steps"]) == pytest.approx(2.0)
