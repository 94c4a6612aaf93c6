"""PersonalHomeBench on an endpoint, by the command line: both settings, a kill and `--resume`, and the same digits again.

The endpoint is a real server, which answers as the expert does.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from forked import homerl
from scripted_server import ScriptedServer

from homerl.bench.suites import write_suite
from homerl.envs.personalhome.bench.suite import build_household_instances
from homerl.envs.personalhome.tasks.expert import evidence_calls, right_answer

RESULTS = ("results.jsonl", "trajectories.jsonl", "score.json")
PROFILE = ("get_household_profile", {})  # tells which household it is
WAIT = 60  # seconds


@pytest.fixture(scope="module")
def instances():
    return list(build_household_instances(2026, "en", Counter(), households=3))


@pytest.fixture(scope="module")
def suite(instances, tmp_path_factory):
    path = tmp_path_factory.mktemp("suite") / "small.jsonl"
    write_suite(iter(instances), path)
    return path


class Expert(ScriptedServer):
    """A server that reads what a task needs, and answers rightly. After `patience` answers it is silent until `go`."""

    def __init__(self, instances, patience=10**9):
        super().__init__(answer=self.reply)
        blueprints = [one.blueprint for one in instances]
        self.known = {(one.household.household_id, one.intents[0].queries[0]): one for one in blueprints}
        self.patience, self.answered, self.go = patience, 0, threading.Event()

    def reply(self, request):
        system, asked, *rest = request["messages"]
        if "tools" in request and not rest:
            return called(*PROFILE)
        told = rest[1]["content"] if rest else system["content"][system["content"].index("\n{") :]
        household, _ = json.JSONDecoder().raw_decode(told.strip())
        blueprint = self.known[household["household_id"], asked["content"]]
        calls = [call for call in evidence_calls(blueprint) if call != PROFILE] if rest else []
        done = sum(message["role"] == "assistant" for message in rest)
        return called(*calls[done - 1]) if done and done <= len(calls) else self.answer_to(blueprint)

    def answer_to(self, blueprint):
        self.answered += 1
        if self.answered > self.patience:
            self.go.wait(WAIT)
        return {"content": right_answer(blueprint)}


def called(name, arguments):
    return {"tool_calls": [{"type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}]}


def said(*words):
    """What a command prints, which ends well."""
    done = homerl(*words)
    assert done.returncode == 0, done.stdout + done.stderr
    return " ".join(done.stdout.split())


def run(suite, server, out, setting):
    return "bench", "run", suite, "--model", server.url, "--setting", setting, "--out", out, "--at-once", 2


def digits(folder):
    return {name: (folder / name).read_bytes() for name in RESULTS}


def rows(folder):
    """The number of episodes in a run's journal."""
    return sum(file.read_bytes().count(b"\n") for file in Path(folder).glob("journal/*.jsonl"))


@pytest.mark.long
@pytest.mark.parametrize("setting", ["sole", "agentic"])
def test_a_model_that_answers_as_the_expert_is_right_and_its_run_can_be_scored_again(suite, instances, tmp_path, setting):
    with Expert(instances) as server:
        assert f"personalhome-bench, {setting}" in said(*run(suite, server, tmp_path / "out", setting))
        assert all(("tools" in request) == (setting == "agentic") for request in server.requests)
    score = json.loads((tmp_path / "out/score.json").read_text())
    assert (score["n"], score["success"]) == (len(instances), 1.0)
    before = digits(tmp_path / "out")
    assert "12 trajectories replayed, the same results" in said("bench", "rescore", tmp_path / "out")  # nobody is asked
    assert digits(tmp_path / "out") == before


@pytest.mark.long
@pytest.mark.parametrize("setting", ["sole", "agentic"])
def test_a_killed_run_that_goes_on_has_the_digits_of_one_that_was_not(suite, instances, tmp_path, setting):
    with Expert(instances) as server:
        said(*run(suite, server, tmp_path / "whole", setting))
        asked = len(server.requests)
    with Expert(instances, patience=5) as server:
        command = run(suite, server, tmp_path / "killed", setting)
        process = subprocess.Popen([sys.executable, "-m", "homerl", *map(str, command)])
        end = time.monotonic() + WAIT
        while rows(tmp_path / "killed") < 4 and time.monotonic() < end:
            time.sleep(0.05)
        process.kill()
        process.wait()
        server.go.set()
        played = rows(tmp_path / "killed")
        assert 4 <= played < len(instances) and not (tmp_path / "killed/results.jsonl").exists()
        before = len(server.requests)
        said(*run(suite, server, tmp_path / "killed", setting), "--resume")
        assert len(server.requests) - before < asked
    assert digits(tmp_path / "killed") == digits(tmp_path / "whole")
    assert "the same results" in said("bench", "rescore", tmp_path / "killed")
