"""The templates for several nodes, with this machine as all of them: `srun` starts a process a task, and the user's server
is a person behind HTTP. What Slurm itself does is Slurm's: to send signals, and to start a job again that asks for it."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from launches import ROOT, checkpoints, figures, lines, wait_for, written

from homerl.host.processes import free_port

SRUN = """#!/usr/bin/env bash
trap 'kill $(jobs -p)' TERM
tasks=1
while [[ $1 == --* ]]; do [[ $1 == --ntasks=* ]] && tasks=${1#*=}; shift; done
for ((i = 0; i < tasks; i++)); do SLURM_PROCID=$i "$@" & done
code=0
for job in $(jobs -p); do wait "$job" || code=$?; done
exit "$code"
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$2" >>"$HOMERL_VENV/queued"; else printf '127.0.0.%s\\n' $NODES; fi
"""
VLLM = f"""#!{sys.executable}
import sys, time
sys.path.insert(0, {str(ROOT / "tests/helpers")!r})
from person import obedient
from scripted_server import ScriptedServer

class Server(ScriptedServer):
    async def _app(self, scope, receive, send):
        if scope["path"] == "/health":
            await self._send(send, 200, "ok")
        else:
            await super()._app(scope, receive, send)

server = Server(answer=obedient)
server.port = int(sys.argv[sys.argv.index("--port") + 1])
server.start()
time.sleep(600)
"""


def with_all(test):
    """A test in which a whole job runs."""
    return pytest.mark.long(pytest.mark.timeout(3000)(test))


@pytest.fixture
def job(tmp_path, model, tokenizer, task):
    """`sbatch` of a recipe, as Slurm would start it on the first node."""
    model.save_pretrained(tmp_path / "start")
    tokenizer.save_pretrained(tmp_path / "start")
    (tmp_path / "venv/bin").mkdir(parents=True)
    for name, text in {"srun": SRUN, "scontrol": SCONTROL, "vllm": VLLM}.items():
        (tmp_path / "venv/bin" / name).write_text(text)
        (tmp_path / "venv/bin" / name).chmod(0o755)
    recipe = {
        "homerl": 1, "run": "rlve", "cpu": True, "out": str(tmp_path / "run"), "wandb": {"mode": "disabled"},
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"}, "limits": {"turns": 3, "steps": 4},
        "blueprints": {"recipe": task.model_dump(mode="json"), "count": 6},
        "rlve": {"updates": 2, "blueprints_per_update": 2, "group": 4, "max_tokens": 24, "log_steps": 1,
                 "max_episode_tokens": 512},
    }  # fmt: skip
    path = f"{tmp_path}/venv/bin:{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = os.environ | {
        "PATH": path,
        "HOMERL_VENV": str(tmp_path / "venv"),
        "SLURM_JOB_NODELIST": "all",
        "SLURM_JOB_ID": "7",
        "MASTER_PORT": str(free_port()),
        "SLURM_SUBMIT_DIR": str(ROOT),
        "NODES": "1 2 3",
        "USER_MODEL": "scripted",
        "GPUS_PER_NODE": "1",
        "RECIPE": str(written(recipe, tmp_path)),
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": str(ROOT),
    }

    def begin(*overrides: str, template: str = "rlve.sbatch", **variables: str) -> subprocess.Popen:
        with (tmp_path / "log.txt").open("w") as log:
            command = ["bash", ROOT / "scripts/slurm" / template, *overrides]
            return subprocess.Popen(command, env=environment | variables, stdout=log, stderr=log, cwd=ROOT)

    return begin


@with_all
def test_one_node_plays_the_user_and_the_others_train(job, tmp_path):
    assert job().wait(300) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    found = figures(tmp_path / "run")
    assert len(found) == 2 and all(row["user/requests"] > 0 for row in found)
    assert len(list((tmp_path / "run/ranks").iterdir())) == 2, "a process a node"


@with_all
def test_the_job_ends_with_the_server_and_says_so(job, tmp_path):
    process = job("--rlve.updates", "500")
    wait_for(lambda: bool(lines(tmp_path / "run")), process)
    subprocess.run(["pkill", "-9", "-f", f"{tmp_path}/venv/bin/vllm"], check=True)
    assert process.wait(120) == 1
    assert re.search(r"a server \(pid \d+\) ended with code \d+, and so does the run", (tmp_path / "log.txt").read_text())


@with_all
@pytest.mark.parametrize(("sent", "code", "queued"), [(signal.SIGUSR1, 0, ["7"]), (signal.SIGTERM, 143, [])])
def test_a_job_that_loses_its_nodes_goes_on_when_it_is_started_again(job, tmp_path, sent, code, queued):
    """USR1 comes before the time is over, and the job asks for another start; after TERM Slurm decides."""
    more = ("--rlve.updates", "5", "--rlve.save_steps", "1")
    process = job(*more)
    wait_for(lambda: len(checkpoints(tmp_path / "run")) > 1, process)
    process.send_signal(sent)
    assert process.wait(120) == code
    assert not (tmp_path / "run/model").exists(), "it was over before the signal"
    asked = tmp_path / "venv/queued"
    assert (asked.read_text().split() if asked.exists() else []) == queued
    made = (tmp_path / "run/rollouts/update_000001.jsonl").stat().st_mtime_ns
    assert job(*more).wait(300) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    steps = [row["step"] for row in figures(tmp_path / "run")]
    assert steps == [1, 2, 3, 4, 5] and (tmp_path / "run/model").exists()
    assert (tmp_path / "run/rollouts/update_000001.jsonl").stat().st_mtime_ns == made, "it began anew"


@with_all
def test_sft_and_synthesis_run_on_one_node(job, tmp_path, task, tokenizer):
    data = {"homerl": 1, "run": "synth", "out": str(tmp_path / "data"),
            "synth": {"blueprints": 4, "recipe": task.model_dump(mode="json"), "curriculum": []}}  # fmt: skip
    made = job(template="synth.sbatch", NODES="1", SLURM_CPUS_PER_TASK="1", RECIPE=str(written(data, tmp_path)))
    assert made.wait(300) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    recipe = {
        "homerl": 1, "run": "sft", "cpu": True, "out": str(tmp_path / "sft"), "wandb": {"mode": "disabled"},
        "model": {"name": str(tmp_path / "start"), "dtype": "float32"}, "data": str(tmp_path / "data"),
        "sft": {"max_steps": 1, "dialogues_per_update": 2, "max_length": 2048},
    }  # fmt: skip
    trained = job(template="train.sbatch", NODES="1", RECIPE=str(written(recipe, tmp_path)))
    assert trained.wait(300) == 0, (tmp_path / "log.txt").read_text()[-3000:]
    assert (tmp_path / "sft/model/model.safetensors").is_file()


def with_programs(folder: Path, **programs: str) -> dict[str, str]:
    """An environment in which these come first."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_NODELIST": "a"}


def test_each_job_of_a_chain_waits_for_the_one_before_it(tmp_path):
    sbatch = (
        'n=$(($(cat "$0.n" 2>/dev/null || echo 6) + 1)); echo $n >"$0.n"; echo "$RECIPE $*" >>"$0.log"; echo "$n;cluster"'
    )
    environment = with_programs(tmp_path / "bin", sbatch=sbatch) | {"SFT": "mine.yaml"}
    command = ["bash", ROOT / "scripts/slurm/chain", "5"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "synthesis is job 7, SFT 8, RLVE 9\n"
    here = ROOT / "scripts/slurm"
    assert (tmp_path / "bin/sbatch.log").read_text().splitlines() == [
        f"recipes/synth.yaml --parsable {here}/synth.sbatch",
        f"mine.yaml --parsable --dependency=afterok:7 {here}/train.sbatch",
        f"recipes/rlve_full.yaml --parsable --dependency=afterok:8 --nodes=5 {here}/rlve.sbatch",
    ]


def test_a_server_that_never_answers_ends_the_job_in_time_and_a_container_is_told_to_srun(tmp_path):
    programs = {"scontrol": "echo one; echo two", "srun": f'echo "$HOMERL_USER_KEY $*" >>{tmp_path}/srun.log; exec sleep 60'}
    environment = with_programs(tmp_path / "bin", **programs) | {"WAIT": "1", "CONTAINER": "homerl.sqsh"}
    command = ["bash", ROOT / "scripts/slurm/rlve.sbatch"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (1, "the server at http://one:8400 did not answer within 1 s (WAIT)\n")
    key, *words = (tmp_path / "srun.log").read_text().split()
    assert len(key) == 32 and words[:3] == ["--nodes=1", "--ntasks=1", "--nodelist=one"]
    assert "--container-image=homerl.sqsh" in words and f"--container-mounts={ROOT}:{ROOT}" in words
    assert " ".join(words).endswith(
        'homerl serve-user recipes/rlve_full.yaml --user.key HOMERL_USER_KEY --user.serve.gpus [0,1,2,3,4,5,6,7] '
        '--user.serve.port 8400 --user.serve.arguments ["--host", "0.0.0.0"]'
    )  # fmt: skip
