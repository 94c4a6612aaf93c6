"""Makes a GPU machine without network ready, measures, and gathers what came out. It needs nothing but Python until then.

Invariants: nothing is written outside the folders named on the command line; nothing is measured before all checks passed;
each check that fails says what to do.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tarfile
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpu.pack import unpack

ROOT = Path(__file__).resolve().parents[2]
DRIVER = ("/usr/local/nvidia/lib64", "/usr/local/nvidia/lib", "/usr/lib64-nvidia")  # where containers mount it
OFFLINE = {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1", "WANDB_MODE": "disabled"}
VLLM = {  # the bundle has neither FlashInfer nor DeepGEMM
    "VLLM_USE_FLASHINFER_SAMPLER": "0",
    "VLLM_USE_DEEP_GEMM": "0",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_DO_NOT_TRACK": "1",
}


@dataclass(frozen=True)
class Check:
    """Code that fails if something is missing, what it shows, and what to do if it fails."""

    shows: str
    code: str
    remedy: str


SANDBOX = """from pydantic_monty import Monty
with Monty(max_processes=1) as pool, pool.checkout() as session:
    assert session.feed_run("1 + 1") == 2"""
KERNEL = """import torch, vllm._C_stable_libtorch, vllm.vllm_flash_attn._vllm_fa3_C, vllm._custom_ops as ops
x, weight = torch.randn(4, 256, device="cuda", dtype=torch.bfloat16), torch.ones(256, device="cuda", dtype=torch.bfloat16)
ops.rms_norm(out := torch.empty_like(x), x, weight, 1e-6)
assert torch.allclose(out.float(), torch.nn.functional.rms_norm(x.float(), (256,), eps=1e-6), atol=0.05)"""
ENGINE = """import torch
if torch.version.cuda:  # its libraries load with no other torch
    from vllm import LLM"""
PYTHON = "import sys; assert '%d.%d' % sys.version_info[:2] == '{python}', sys.version"
CHECKS = {
    "python": Check("this Python fits the bundle", PYTHON, "run it with Python {python}, or make the bundle with --python"),
    "torch": Check(
        "torch sees the GPU",
        "import torch; assert torch.cuda.is_available(), 'no GPU is visible'; print(torch.cuda.get_device_name())",
        "look at nvidia-smi; torch must be a build for CUDA, and libcuda.so.1 must be on LD_LIBRARY_PATH",
    ),
    "monty": Check(
        "monty, the sandbox, starts",
        SANDBOX,
        "MONTY_BIN must name the program bin/monty of the unpacked bundle: delete the folder, and unpack it again",
    ),
    "homerl": Check(
        "homerl and its trainers can be imported",
        "import homerl.app.cli.app, homerl.train.update.sft, homerl.train.update.rlve",
        "the machine lacks a package that scripts/gpu/homerl.txt does not list: add it there, and make the bundle again",
    ),
    "engine": Check(
        "vLLM can be imported",
        ENGINE,
        "the machine lacks a package that scripts/gpu/vllm.txt does not list: add it there, and make the bundle again",
    ),
    "vllm": Check(
        "vLLM's kernels run",
        KERNEL,
        "the bundle is for torch 2.11 and CUDA 13: scripts/gpu/vllm.txt says which vLLM; or leave it out: --without-vllm",
    ),
}


def main() -> None:
    """Read the command line; unpack, check, measure, gather."""
    parser = argparse.ArgumentParser(description="Measures homerl on a GPU machine without network.")
    parser.add_argument("bundle", type=Path, help="folder that scripts/gpu_bundle wrote")
    parser.add_argument("parts", nargs="*", help="parts of scripts/gpu_report; all of them if left out")
    parser.add_argument("--site", type=Path, default=Path.home() / "homerl_site", help="folder to unpack the bundle into")
    parser.add_argument("--out", type=Path, default=Path(os.environ.get("OUT", "runs/gpu")), help="folder of the results")
    parser.add_argument("--tiny", action="store_true", help="tiny models on the CPU: tries all but the GPU")
    parser.add_argument("--quick", action="store_true", help="SFT and RLVE of Qwen3-8B, SFT of 4B, within 9 minutes; no TRL")
    parser.add_argument("--trace", action="store_true", help="keep each profiled update as a trace for ui.perfetto.dev")
    parser.add_argument("--check", action="store_true", help="check, and measure nothing")
    asked, overrides = parser.parse_known_intermixed_args()
    try:
        about = unpack(asked.bundle, asked.site)
    except ValueError as error:
        sys.exit(f"homerl: {error}")
    variables = environment(asked.site.absolute(), os.environ)
    if failed := failing(about, asked.tiny, variables):
        sys.exit(f"homerl: nothing was measured. Failed: {', '.join(failed)}")
    if not asked.check:
        sys.exit(measure(asked, overrides, variables))


def environment(site: Path, given: Mapping[str, str]) -> dict[str, str]:
    """The environment in which the unpacked packages and their programs are found."""

    def before(name: str, *paths: object) -> str:
        return os.pathsep.join([*map(str, paths), *filter(None, [given.get(name)])])

    folders = [folder for folder in DRIVER if (Path(folder) / "libcuda.so.1").exists()]
    drivers = {"LD_LIBRARY_PATH": before("LD_LIBRARY_PATH", *folders)} if folders else {}
    return {
        **given,
        **OFFLINE,
        **VLLM,
        **drivers,
        "PYTHONPATH": before("PYTHONPATH", ROOT, site),
        "PATH": before("PATH", site / "bin"),
        "MONTY_BIN": str(site / "bin" / "monty"),
    }


def failing(about: Mapping[str, Any], tiny: bool, variables: Mapping[str, str]) -> list[str]:
    """The names of the checks that fail. vLLM is checked only if it is in the bundle, and GPUs only if one is asked for.

    With another Python than the bundle's all others would fail too, so they are left out.
    """
    if not passes("python", about, variables):
        return ["python"]
    left_out = {"torch", "vllm"} if tiny else set()
    left_out |= {"python"} if "vllm" in about["lists"] else {"python", "engine", "vllm"}
    names = [name for name in CHECKS if name not in left_out]
    with ThreadPoolExecutor(len(names)) as pool:  # a fresh machine reads its packages slowly
        passed = pool.map(lambda name: passes(name, about, variables), names)
        return [name for name, passed in zip(names, passed, strict=True) if not passed]


def passes(name: str, about: Mapping[str, Any], variables: Mapping[str, str]) -> bool:
    """Run a check and say what came out; if it failed, with the last lines of why and what to do."""
    check = CHECKS[name]
    code = check.code.replace("{python}", about["python"])
    quiet = dict(variables) | {"VLLM_LOGGING_LEVEL": "ERROR"}
    done = subprocess.run([sys.executable, "-c", code], env=quiet, capture_output=True, text=True)
    if done.returncode == 0:
        print(f"homerl: {check.shows}{': ' if done.stdout else ''}{done.stdout[-200:].strip()}", flush=True)
        return True
    why = "\n".join(done.stderr.strip().splitlines()[-3:])
    print(f"homerl: not so: {check.shows}\n{why}\nhomerl: {check.remedy.replace('{python}', about['python'])}", flush=True)
    return False


def measure(asked: argparse.Namespace, overrides: list[str], variables: Mapping[str, str]) -> int:
    """Run the report and leave its JSON, the logs and traces in the folder of results; return its exit status."""
    work = asked.out.absolute()
    work.mkdir(parents=True, exist_ok=True)
    report = asked.site.absolute() / "report" / "gpu_report.json"
    report.parent.mkdir(exist_ok=True)
    command = [sys.executable, ROOT / "scripts/gpu_report", *asked.parts, "--out", report]
    command += [f"--{name}" for name in ("tiny", "quick", "trace") if getattr(asked, name)]
    command += overrides
    done = subprocess.run(command, env=dict(variables))
    traces = report.parent.rglob("*.trace.json.gz") if asked.trace else ()
    for path in filter(Path.exists, (report, *traces)):
        if path.parent != work:
            shutil.copy(path, work / path.name)
    with tarfile.open(work / "logs.tar.gz", "w:gz") as archive:
        for log in sorted(report.parent.rglob("*.log")):
            archive.add(log, log.name)
    print(f"homerl: the results are in {work}: {', '.join(sorted(path.name for path in work.iterdir()))}")
    return done.returncode
