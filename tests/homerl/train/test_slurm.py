"""The templates of Slurm, with this machine as all nodes: `srun` starts a process a task, and a node is an address of the
loopback. What Slurm itself does is Slurm's: to send signals, and to start a job again that asks for it. Most tests have
light programs in place of those that train and serve; the long one has homerl's own, and a person behind HTTP."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from launches import ROOT, checkpoints, figures, kill, killed_on_error, wait_for, written

from homerl.host.processes import free_port

SRUN = """#!/usr/bin/env bash
trap 'kill $(jobs -p)' TERM
tasks=1
while [[ $1 == --* ]]; do
    [[ $1 == --ntasks=* ]] && tasks=${1#*=}
    [[ $1 == --nodelist=* ]] && export NODE=${1#*=}
    shift
done
for ((i = 0; i < tasks; i++)); do SLURM_PROCID=$i "$@" & done
code=0
for job in $(jobs -p); do wait "$job" || code=$?; done
wait
exit "$code"
"""
SCONTROL = """#!/usr/bin/env bash
if [[ $1 == requeue ]]; then echo "$2" >>"$HOMERL_VENV/queued"; else printf '%s\\n' $NODES; fi
"""
SERVER = f"""#!{sys.executable}
import importlib, os, re, sys, uvicorn
from pathlib import Path

async def answer(scope, receive, send):
    await send({{"type": "http.response.start", "status": 200, "headers": []}})
    await send({{"type": "http.response.body", "body": b""}})

Path(os.environ["HOMERL_VENV"], "server.pid").write_text(str(os.getpid()))
said = " ".join(sys.argv)
[(module, guard)] = re.findall(r'--middleware\\W+([\\w.]+)\\.(\\w+)', said)
guarded = getattr(importlib.import_module(module), guard)(answer)
port = int(re.findall(r"port (\\d+)", said)[0])
uvicorn.run(guarded, host=os.environ["NODE"], port=port, lifespan="off", log_level="critical")
"""
PERSON = f"""#!{sys.executable}
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
time.sleep(9000)
"""
NODES = [f"127.{os.getpid() >> 8 & 255}.{os.getpid() & 255}.{number}" for number in (1, 2, 3)]  # of this process alone


@pytest.fixture
def job(tmp_path):
    """`sbatch` of a template, as Slurm would start it on the first node. `programs` come before this environment's."""
    bin = tmp_path / "venv/bin"
    bin.mkdir(parents=True)
    begun = []

    def begin(template: str, *overrides: str, programs: dict[str, str], **variables: str) -> subprocess.Popen:
        for name, text in ({"srun": SRUN, "scontrol": SCONTROL} | programs).items():
            (bin / name).write_text(text if text.startswith("#!") else f"#!/usr/bin/env bash\n{text}\n")
            (bin / name).chmod(0o755)
        environment = os.environ | {
            "PATH": f"{bin}:{Path(sys.executable).parent}:{os.environ['PATH']}",
            "HOMERL_VENV": str(tmp_path / "venv"),
            "SLURM_JOB_NODELIST": "all",
            "SLURM_JOB_ID": "7",
            "MASTER_PORT": str(free_port()),
            "SLURM_SUBMIT_DIR": str(ROOT),
            "NODES": " ".join(NODES),
            "GPUS_PER_NODE": "1",
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": str(ROOT),
        }
        with (tmp_path / "log.txt").open("w") as log:
            command = ["bash", ROOT / "scripts/slurm" / template, *overrides]
            begun.append(subprocess.Popen(command, env=environment | variables, stdout=log, stderr=log, cwd=ROOT))
        return begun[-1]

    yield begin
    for process in begun:
        if process.poll() is None:
            kill(process)


def said_by(job: subprocess.Popen, folder: Path, code: int = 0) -> str:
    """What a job printed. It must end with this code; the test's time limit is the only one."""
    with killed_on_error(job):
        ended = job.wait()
    said = (folder / "log.txt").read_text()
    assert ended == code, said[-3000:]
    return said


def test_the_servers_of_an_asynchronous_run_answer_its_trainer_and_nobody_else(job, tmp_path):
    """Each of the two has a key of its own, which no command line shows."""
    asks = """
        said=$* user=${said##*--user.url }
        while [[ $1 != --rlve.engine.url ]]; do shift; done
        status() { curl --silent --output /dev/null --write-out '%{http_code} ' "$@"; }
        {
            status -X POST -H "Authorization: Bearer $HOMERL_POLICY_KEY" "$2/update_weights"
            status -X POST "$2/update_weights"; status -X POST -H "Authorization: Bearer $HOMERL_USER_KEY" "$2/pause"
            status -H "Authorization: Bearer $HOMERL_USER_KEY" "$user/models"; status "$user/models"
            echo "$HOMERL_POLICY_KEY $HOMERL_USER_KEY $VLLM_API_KEY"; tr '\\0' ' ' <"/proc/$PPID/cmdline"
        } >>"$HOMERL_VENV/asked"
    """
    programs = {"accelerate": asks, "vllm": SERVER, "homerl": SERVER}
    said_by(job("rlve_async.sbatch", programs=programs, POLICY="start"), tmp_path)
    asked = (tmp_path / "venv/asked").read_text()
    *statuses, policy_key, user_key = asked.splitlines()[0].split()
    assert statuses == ["200", "401", "401", "200", "401"]
    assert len(policy_key) == len(user_key) == 32 and policy_key != user_key
    assert asked.count(policy_key) == asked.count(user_key) == 1


def test_the_job_ends_with_the_server_and_says_so(job, tmp_path):
    programs = {"accelerate": 'kill -9 "$(cat "$HOMERL_VENV/server.pid")"; exec sleep 60', "homerl": SERVER}
    said = said_by(job("rlve.sbatch", programs=programs), tmp_path, 1)
    assert "ended with code 137, and so does the run" in said


@pytest.mark.parametrize(("sent", "code", "queued"), [(signal.SIGUSR1, 0, "7\n"), (signal.SIGTERM, 143, None)])
def test_a_job_that_loses_its_nodes_stops_its_trainer_and_asks_for_another_start(job, tmp_path, sent, code, queued):
    """USR1 comes before the time is over, and the job asks for another start; after TERM Slurm decides."""
    told = tmp_path / "venv/told"
    trainer = f"trap 'echo stopped >>{told}; exit 1' TERM; echo begun >>{told}; sleep 60 & wait"
    begun = job("train.sbatch", programs={"accelerate": trainer}, NODES=NODES[0])
    wait_for(told.exists, begun)
    begun.send_signal(sent)
    said_by(begun, tmp_path, code)
    assert told.read_text() == "begun\nstopped\n"
    asked = tmp_path / "venv/queued"
    assert (asked.read_text() if asked.exists() else None) == queued


@pytest.mark.long
@pytest.mark.timeout(9000)
def test_synthesis_sft_that_is_preempted_and_rlve_on_three_nodes(job, tmp_path, task):
    """One node plays the user of RLVE, and the others train."""
    made, quiet = task.model_dump(mode="json"), {"cpu": True, "wandb": {"mode": "disabled"}}

    def run(template: str, recipe: dict[str, Any], *overrides: str, **variables: str) -> subprocess.Popen:
        path = written({"homerl": 1, "out": str(tmp_path / recipe["run"]), **recipe}, tmp_path)
        return job(template, *overrides, programs={"vllm": PERSON}, RECIPE=str(path), **variables)

    data = {"run": "synth", "synth": {"blueprints": 4, "recipe": made, "curriculum": []}}
    said_by(run("synth.sbatch", data, NODES="one", SLURM_CPUS_PER_TASK="1"), tmp_path)

    sizes = {"hidden_size": 32, "layers": 1, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 32}
    sft = quiet | {"run": "sft", "model": {"dtype": "float32", "from_scratch": sizes}, "data": str(tmp_path / "synth")}
    sft |= {"sft": {"max_steps": 400, "dialogues_per_update": 2, "max_length": 2048, "save_steps": 2, "log_steps": 1}}
    begun = run("train.sbatch", sft, NODES="127.0.0.1")
    wait_for(lambda: bool(checkpoints(tmp_path / "sft")), begun)
    begun.send_signal(signal.SIGUSR1)
    said_by(begun, tmp_path)
    assert not (tmp_path / "sft/model").exists(), "it was over before the signal"
    last = max(checkpoints(tmp_path / "sft"))
    said_by(run("train.sbatch", sft, "--sft.max_steps", str(last + 1), NODES="127.0.0.1"), tmp_path)
    assert (tmp_path / "sft/model/model.safetensors").is_file() and figures(tmp_path / "sft")[-1]["step"] == last + 1

    rlve = quiet | {"run": "rlve", "model": {"name": str(tmp_path / "sft/model"), "dtype": "float32"}}
    rlve |= {"blueprints": {"recipe": made, "count": 2}, "limits": {"turns": 2, "steps": 2}}
    rlve |= {"rlve": {"updates": 1, "blueprints_per_update": 2, "group": 2, "max_tokens": 8, "save_steps": None}}
    nodes = "127.0.0.1 127.0.0.2 127.0.0.3"
    said_by(run("rlve.sbatch", rlve, NODES=nodes, USER_MODEL="scripted"), tmp_path)
    [row] = figures(tmp_path / "rlve")
    assert row["user/requests"] > 0
    assert len(list((tmp_path / "rlve/ranks").iterdir())) == 2, "a process a node"


def with_programs(folder: Path, **programs: str) -> dict[str, str]:
    """An environment in which these come first."""
    folder.mkdir()
    for name, text in programs.items():
        (folder / name).write_text(f"#!/usr/bin/env bash\n{text}\n")
        (folder / name).chmod(0o755)
    return os.environ | {"PATH": f"{folder}:{os.environ['PATH']}", "SLURM_SUBMIT_DIR": str(ROOT), "SLURM_JOB_NODELIST": "a"}


@pytest.mark.parametrize(
    ("nodes", "recipe", "template"), [("5", "recipes/rlve_full.yaml", "rlve"), ("1", "recipes/rlve_8gpu.yaml", "train")]
)
def test_each_job_of_a_chain_waits_for_the_one_before_it(tmp_path, nodes, recipe, template):
    sbatch = (
        'n=$(($(cat "$0.n" 2>/dev/null || echo 6) + 1)); echo $n >"$0.n"; echo "$RECIPE $*" >>"$0.log"; echo "$n;cluster"'
    )
    environment = with_programs(tmp_path / "bin", sbatch=sbatch) | {"SFT": "mine.yaml"}
    command = ["bash", ROOT / "scripts/slurm/chain", nodes]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "synthesis is job 7, SFT 8, RLVE 9\n"
    here = ROOT / "scripts/slurm"
    assert (tmp_path / "bin/sbatch.log").read_text().splitlines() == [
        f"recipes/synth.yaml --parsable {here}/synth.sbatch",
        f"mine.yaml --parsable --dependency=afterok:7 {here}/train.sbatch",
        f"{recipe} --parsable --dependency=afterok:8 --nodes={nodes} {here}/{template}.sbatch",
    ]


def test_a_server_that_never_answers_ends_the_job_in_time_and_a_container_is_told_to_srun(tmp_path):
    programs = {"scontrol": "echo one; echo two", "srun": f'echo "$HOMERL_USER_KEY $*" >>{tmp_path}/srun.log; exec sleep 60'}
    environment = with_programs(tmp_path / "bin", **programs) | {"WAIT": "1", "CONTAINER": "homerl.sqsh"}
    command = ["bash", ROOT / "scripts/slurm/rlve.sbatch"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert (done.returncode, done.stderr) == (1, "the server at http://one:8400 did not answer within 1 s (WAIT)\n")
    key, *words = (tmp_path / "srun.log").read_text().split()
    assert len(key) == 32 and words[:3] == ["--nodes=1", "--ntasks=1", "--nodelist=one"]
    assert "--container-image=homerl.sqsh" in words and f"--container-mounts={ROOT}:{ROOT}" in words
    assert " ".join(words).endswith(
        'homerl serve-user recipes/rlve_full.yaml --user.key HOMERL_USER_KEY --user.serve.gpus [0,1,2,3,4,5,6,7] '
        '--user.serve.port 8400 --user.serve.arguments ["--host", "0.0.0.0", "--middleware", '
        '"homerl.models.endpoint.key_guard.KeyGuard"]'
    )  # fmt: skip
