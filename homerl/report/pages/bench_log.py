"""Logs a benchmark run to Weights & Biases: figures, a table of groups, the report and the trajectories.

Invariants: only the content of the run's folder is logged; logging again continues the same W&B run.
"""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from homerl.play.metrics.registry import METRICS
from homerl.report.pages.bench_results import BenchReport, list_score_groups

FILES = ("report.html", "report.csv", "results.jsonl", "trajectories.jsonl", "score.json", "run.json")


def log_bench_to_wandb(folder: Path, project: str) -> str:
    """Log the run in a folder, and return a text with its address; WANDB_MODE=offline writes beside the run."""
    import wandb

    report = BenchReport.read_folder(folder)
    id = hashlib.blake2b(str(folder.resolve()).encode(), digest_size=8).hexdigest()
    with wandb.init(
        project=project,
        id=id,
        resume="allow",
        job_type="bench",
        group=report.suite_name,
        dir=folder,
        config=dict(report.run),
        name=f"{report.suite_name} {report.setting_name} {report.model_name}",
    ) as run:
        table = wandb.Table(columns=["group", "value", "n", "success", "low", "high"])
        for group, value, row in list_score_groups(report.score):
            table.add_data(group, value, row["n"], row["success"], *row["interval"])
        run.log({"bench/groups": table, "bench/report": wandb.Html((folder / "report.html").open(encoding="utf-8"))})
        run.summary.update(flatten_score(report))
        artifact = wandb.Artifact(f"bench-{id}", "bench")
        for name in FILES:
            artifact.add_file(str(folder / name))
        run.log_artifact(artifact)
        return f"wandb: {run.url or run.dir}"


def flatten_score(report: BenchReport) -> dict[str, Any]:
    """The score as flat numbers: `bench/success`, `bench/category/TC1/success` and so on."""
    score = report.score
    found: dict[str, Any] = {f"bench/{name}": score[name] for name in ("n", "undecided") if name in score}
    for metric in METRICS.values():
        found |= {f"bench/{name}": value for name, value in metric.flat_figures(score).items()}
    found |= {f"bench/pass^{k}": share for k, share in score.get("pass_hat", {}).items()}
    found |= {f"bench/pass^{k}/n": count for k, count in score.get("pass_hat_n", {}).items()}
    found |= {f"bench/error/{name}": count for name, count in score.get("errors", {}).items()}
    found |= {f"bench/fault/{name}": count for name, count in score.get("faults", {}).items()}
    for group, value, row in list_score_groups(score):
        name = "bench" if group == "overall" else f"bench/{group}/{value}"
        found |= {f"{name}/success": row["success"], f"{name}/low": row["interval"][0], f"{name}/high": row["interval"][1]}
    return found
