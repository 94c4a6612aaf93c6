"""The flywheel's book-keeping: what stands is kept, what another recipe made is refused."""

from __future__ import annotations

import io
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from launches import LAUNCHERS, descendants, wait_for
from rich.console import Console

from homerl.app.runs.flywheel import flywheel_stages, kept_stages_lines, next_commands_lines, stage_lines
from homerl.app.runs.launch import RUNNERS, run_recipe
from homerl.app.runs.recipe import FlywheelRecipe, load_recipe, recipe_data
from homerl.app.runs.resume import (
    is_recipe_of_stage,
    is_stage_done,
    require_stage_product,
    take_finished_stages,
    unfinished_stages,
)
from homerl.app.runs.stages import (
    StageFailed,
    count_played_episodes,
    run_bench,
    run_stage,
    stage_recipe_path,
    suite_episodes,
)
from homerl.bench.runner import BenchInterrupted, EpisodePace, ParticipantFactories, run_suite
from homerl.envs.core.documents import InputError, read_json
from homerl.host.exit_codes import RunStopped, ending_for_error
from homerl.host.processes import folder_lock
from homerl.host.progress_bar import progress_bar, progress_updater
from homerl.play.loop import Agent
from homerl.play.trajectory import read_rows
from homerl.report.pages.flywheel_report import can_visit_homes

ROOT = Path(__file__).parents[3]


SMALL = "[{name: heldout, count: 6, recipe: {intents: [1, 2], home: {devices: [2, 3]}}}]"


def recipe(out: Path, *overrides: str) -> FlywheelRecipe:
    return load_recipe("recipes/smoke.yaml", ["--out", str(out), *overrides])


def make(stage: dict[str, Any], product: Path) -> None:
    """Leave what a stage leaves: its recipe and its product."""
    if stage["run"] == "bench":
        scored(product, stage)
    elif stage["run"] == "synth":
        synthesised(product)
    else:
        product.mkdir(parents=True)
    stage_recipe_path(stage).write_text(yaml.safe_dump(stage))


def synthesised(product: Path, trajectories: int = 20, **outcomes: int) -> None:
    """Write the statistics of a synthesis."""
    product.parent.mkdir(parents=True, exist_ok=True)
    product.write_text(json.dumps({"trajectories": trajectories, "outcomes": {"success": 10} | outcomes}))


def scored(product: Path, stage: dict[str, Any]) -> None:
    """Write the score of a stage that played all its episodes."""
    product.parent.mkdir(parents=True)
    played = stage["bench"]["suites"][-1]["count"]
    product.write_text(json.dumps({"n": played - 1, "outcomes": {"success": played - 1, "infra_error": 1}}))


def test_stages_follow_each_other(tmp_path: Path) -> None:
    found = [
        (stage["run"], product.relative_to(tmp_path).as_posix()) for stage, product in flywheel_stages(recipe(tmp_path))
    ]
    assert found[:3] == [("synth", "synth/stats.json"), ("sft", "sft/model"), ("rlve", "rlve/model")]
    assert [product.split("/")[0] for _, product in found[3:]] == ["expert", "untrained", "sft", "rlve"]


def test_the_expert_plays_the_tasks_of_the_models(tmp_path: Path) -> None:
    stage = next(
        stage for stage, product in flywheel_stages(recipe(tmp_path, "--bench.suites", SMALL)) if "expert" in product.parts
    )
    (tmp_path / "by_hand.yaml").write_text(yaml.safe_dump(stage))
    scores = run_bench(load_recipe(tmp_path / "by_hand.yaml"))
    assert scores["heldout"]["n"] == 6 and scores["heldout"]["success"] == 1.0
    assert count_played_episodes(tmp_path / "expert/bench/heldout") == 6
    played = [row["id"] for row in read_rows(tmp_path / "expert/bench/heldout/results.jsonl")]
    assert played == [f"heldout-{seed}" for seed in range(6)]
    refused = {"there is expert": {"agent": "exprt", "expert": None}, "`expert` is of": {"agent": "nothing"}}
    for says, wrong in (refused | {"name a `model` or an `agent`": {"agent": None}}).items():
        (tmp_path / "wrong.yaml").write_text(yaml.safe_dump(stage | wrong))
        with pytest.raises(InputError, match=says):
            load_recipe(tmp_path / "wrong.yaml")


def test_the_bar_moves_while_a_batch_is_played_and_never_back(tmp_path: Path) -> None:
    """Each message of an agent counts, so that a batch whose episodes end together shows what was done of it."""
    played, shown, said = recipe(tmp_path, "--bench.suites", SMALL), list[float](), io.StringIO()
    (suite,), limits = played.bench.suites, played.bench.limits
    with progress_bar(Console(file=said)) as bar:
        task = bar.add_task("bench", total=6, note="")
        show = progress_updater(bar, task)

        def progress(done: float, total: int) -> None:
            show(done, total)
            shown.append(bar.tasks[0].completed)

        agents = ParticipantFactories(suite.world.baselines["expert"])
        run_suite(suite_episodes(suite, limits), agents, tmp_path / "bench", progress=progress)
    assert shown == sorted(shown) and shown[-1] == 6 and 0 < shown[0] < 1
    assert len({done for done in shown if done < 6}) > 6


def test_a_benchmark_that_was_stopped_is_not_done(tmp_path: Path) -> None:
    """It leaves a score of what was played, from which neither the table nor the card may be made."""
    played = recipe(tmp_path, "--bench.suites", SMALL)
    stage, product = next((stage, product) for stage, product in flywheel_stages(played) if "expert" in product.parts)
    (suite,), limits, begun = played.bench.suites, played.bench.limits, iter(range(4))

    def stopped() -> Agent:
        if next(begun, None) is None:
            raise KeyboardInterrupt
        return suite.world.baselines["expert"]()

    with pytest.raises(BenchInterrupted):
        run_suite(suite_episodes(suite, limits), ParticipantFactories(stopped), product.parent, EpisodePace(1))
    assert read_json(product).data["n"] == 4 and not is_stage_done(stage, product)
    product.write_text(json.dumps({"n": 0, "outcomes": {"infra_error": 6}}))
    assert not is_stage_done(stage, product), "servers failed for every episode"
    (tmp_path / "by_hand.yaml").write_text(yaml.safe_dump(stage))
    run_bench(load_recipe(tmp_path / "by_hand.yaml"))
    assert is_stage_done(stage, product)


INTERRUPTIBLE = """
import sys
from rich.console import Console
from homerl.app.runs.stages import StageFailed, run_stage, stage_recipe_path
from homerl.app.runs.flywheel import benchmark_models, flywheel_stages
from homerl.app.runs.recipe import load_recipe
from homerl.host.exit_codes import run_to_end
recipe = load_recipe("recipes/smoke.yaml", ["--out", sys.argv[1], "--processes", "1", "--bench.suites", sys.argv[2]])
expert = next(stage for stage, product in flywheel_stages(recipe) if "expert" in product.parts)
todo = [expert, expert | {"out": sys.argv[1] + "/later"}]
sys.exit(run_to_end(lambda: benchmark_models(recipe, todo, Console())))
"""


@pytest.mark.long
def test_ctrl_c_ends_the_benchmark_that_runs_and_begins_no_other(tmp_path: Path) -> None:
    """Only the flywheel itself gets it, as from a terminal: its children are in sessions of their own."""
    suites = SMALL.replace("count: 6", "count: 100000")
    command = [sys.executable, "-c", INTERRUPTIBLE, str(tmp_path), suites]
    run = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    wait_for(lambda: any(path.stat().st_size for path in tmp_path.glob("expert/bench/*/journal/*.jsonl")), run)
    children = list(descendants(run.pid))
    run.send_signal(signal.SIGINT)
    _, said = run.communicate(timeout=60)
    assert run.returncode == 130 and "start the same command again" in said
    assert children and not any(psutil.pid_exists(child) for child in children) and not (tmp_path / "later").exists()
    interrupted = recipe(tmp_path, "--bench.suites", suites)
    stage, product = next((stage, product) for stage, product in flywheel_stages(interrupted) if "expert" in product.parts)
    assert 0 < read_json(product).data["n"] < 100000, "what was played is written"
    assert not is_stage_done(stage, product)


def test_the_expert_works_as_it_does_for_training(tmp_path: Path) -> None:
    """The limits are those of the work that the model learnt: who reads more comes to no end."""
    shipped = load_recipe("recipes/simuhome_quickstart.yaml", ["--out", str(tmp_path)])
    stage = next(stage for stage, product in flywheel_stages(shipped) if "expert" in product.parts)
    stage["bench"]["suites"][0]["count"] = 3
    assert stage["expert"] == shipped.synth.expert.model_dump() | {"mistakes": 0.0}
    for name, way, success in (("own", stage["expert"], 1.0), ("usual", None, 0.0)):
        (tmp_path / f"{name}.yaml").write_text(yaml.safe_dump(stage | {"expert": way, "out": str(tmp_path / name)}))
        assert run_bench(load_recipe(tmp_path / f"{name}.yaml"))["heldout"]["success"] == success


def test_nobody_is_sent_to_talk_where_nobody_can() -> None:
    homeenv, simuhome = {"world": "homeenv"}, {"world": "simuhome"}
    mixed = {"worlds": {"a": {"recipe": simuhome}, "b": {"recipe": homeenv}}}
    told = [
        can_visit_homes({"blueprints": {"recipe": tasks}})
        for tasks in (homeenv, simuhome, mixed, {"world": "gone"}, {"intents": [1]})
    ]
    assert told == [True, False, True, False, True] and can_visit_homes({})
    assert not can_visit_homes(
        {"blueprints": {"recipe": mixed}, "bench": {"suites": [{"benchmark": "x"}, {"recipe": simuhome}]}}
    )


def test_an_expert_that_an_earlier_version_played_stays(tmp_path: Path) -> None:
    stage, product = next(
        (stage, product) for stage, product in flywheel_stages(recipe(tmp_path)) if "expert" in product.parts
    )
    path = stage_recipe_path(stage)
    scored(product, stage)
    path.write_text(yaml.safe_dump({key: value for key, value in stage.items() if key != "expert"}))
    assert is_stage_done(stage, product)
    path.write_text(yaml.safe_dump(stage | {"expert": {"mistakes": 0.5}}))
    with pytest.raises(InputError, match="another recipe"):
        is_stage_done(stage, product)


def test_what_to_type_next_begins_with_what_the_shell_lacks() -> None:
    commands = [("Export the model", "homerl export runs/x --to agent")]
    (head, *rest) = next_commands_lines(commands, "")
    assert head == "next:" and rest == ["  homerl export runs/x --to agent   # export the model"]
    assert next(iter([*next_commands_lines(commands, "source .venv/bin/activate")][1:])).startswith(
        "  source .venv/bin/activate   #"
    )


def test_a_script_says_how_homerl_is_found_in_the_shell(tmp_path: Path) -> None:
    """As it is called: in the clone, elsewhere, and with its environment active."""
    clone = tmp_path / "a clone"
    (clone / "scripts").mkdir(parents=True)
    (clone / ".venv/bin").mkdir(parents=True)
    shutil.copy(ROOT / "scripts/_venv.sh", clone / "scripts")
    shutil.copy(ROOT / "scripts/homerl", clone / "scripts")
    told = clone / ".venv/bin/homerl"
    told.write_text('#!/bin/sh\necho "$HOMERL_ACTIVATE|$PWD|$*"\n')
    told.chmod(0o755)

    def said(folder: Path, **variables: str) -> str:
        clean = {key: value for key, value in os.environ.items() if key not in ("HOMERL_VENV", "HOMERL_ACTIVATE")}
        command = [clone / "scripts/homerl", "view", "home x.json"]
        return subprocess.run(command, cwd=folder, env=clean | variables, capture_output=True, text=True).stdout.strip()

    assert said(clone) == f"source .venv/bin/activate|{clone}|view home x.json"
    assert (
        said(tmp_path)
        == f"cd {str(clone).replace(' ', chr(92) + ' ')} && source .venv/bin/activate|{tmp_path}|view home x.json"
    )
    assert said(tmp_path, PATH=f"{clone}/.venv/bin:{os.environ['PATH']}") == f"|{tmp_path}|view home x.json"


@pytest.mark.parametrize("name", ["clone", "a clone"])
def test_a_clone_that_was_moved_says_that_its_environment_was_made_elsewhere(tmp_path: Path, name: str) -> None:
    """A virtual environment's programs name its Python by its path, on the second line if that has spaces."""
    clone = tmp_path / name
    (clone / "scripts").mkdir(parents=True)
    for script in ("_venv.sh", "homerl", "quickstart"):
        shutil.copy(ROOT / "scripts" / script, clone / "scripts")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", clone / ".venv"], check=True)
    python = clone / ".venv/bin/python"
    long = f"#!/bin/sh\n'''exec' \"{python}\" \"$0\" \"$@\"\n' '''\n"
    for program in ("pip", "homerl"):
        (clone / ".venv/bin" / program).write_text((long if " " in name else f"#!{python}\n") + "print('hello')\n")
        (clone / ".venv/bin" / program).chmod(0o755)

    def done(folder: Path, script: str = "homerl") -> subprocess.CompletedProcess[str]:
        clean = {key: value for key, value in os.environ.items() if key != "HOMERL_VENV"}
        return subprocess.run([folder / "scripts" / script], env=clean, capture_output=True, text=True)

    assert done(clone).stdout == "hello\n"
    (tmp_path / "link").symlink_to(clone)
    assert done(tmp_path / "link").stdout == "hello\n"
    shutil.copytree(clone, tmp_path / "copy", symlinks=True)
    moved = clone.rename(tmp_path / "moved")
    for folder in (tmp_path / "copy", moved):
        for script in ("homerl", "quickstart"):
            found = done(folder, script)
            assert found.returncode == 2 and f"from {clone}/.venv/bin" in found.stderr and "rm -r" in found.stderr


def test_every_stage_recipe_is_one_that_can_be_run_by_hand(tmp_path: Path) -> None:
    for stage, _ in flywheel_stages(recipe(tmp_path)):
        path = tmp_path / "by_hand.yaml"
        path.write_text(yaml.safe_dump(stage))
        assert load_recipe(path).run == stage["run"]


def test_a_product_is_kept_for_the_same_recipe_and_refused_for_another(tmp_path: Path) -> None:
    stage, product = next(flywheel_stages(recipe(tmp_path)))
    assert not is_stage_done(stage, product)
    make(stage, product)
    assert is_stage_done(stage, product)
    assert is_stage_done(stage | {"processes": 7}, product)  # how many processes made it says nothing of what was made
    other, _ = next(flywheel_stages(recipe(tmp_path, "--synth.blueprints", "61")))
    with pytest.raises(InputError, match="made by another recipe"):
        is_stage_done(other, product)


def test_a_finished_flywheel_that_is_started_again_keeps_the_record_of_what_made_it(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setitem(RUNNERS, "flywheel", "builtins:id")  # it does nothing
    again = recipe(tmp_path)
    for stage, product in flywheel_stages(again):
        make(stage, product)
    record = tmp_path / "run.json"
    record.write_text("made by an older commit")
    run_recipe(again)
    assert record.read_text() == "made by an older commit"
    shutil.rmtree(tmp_path / "rlve")
    run_recipe(again)
    assert json.loads(record.read_text())["seed"] == again.seed


@pytest.mark.parametrize("name", ["run", "läufe"])
def test_a_flywheel_that_was_moved_goes_on(tmp_path: Path, name: str) -> None:
    """Also from a folder that is called like a key of recipes."""
    before, now = flywheel_stages(recipe(Path(name))), flywheel_stages(recipe(tmp_path))
    assert all(is_recipe_of_stage(stored, stage) for (stored, _), (stage, _) in zip(before, now, strict=True))


def places(stages: Iterable[tuple[dict[str, Any], Path]]) -> list[str]:
    return [f"{stage['run']} {Path(stage['out']).name}" for stage, _ in stages]


def test_what_was_made_from_a_stage_that_is_gone_is_refused(tmp_path: Path) -> None:
    """Otherwise the table compares the models of two different flywheels. Each remedy, followed, is enough."""
    found = [*flywheel_stages(recipe(tmp_path))]
    for stage, product in found:
        make(stage, product)
    assert unfinished_stages(found) == []
    changed = [*flywheel_stages(recipe(tmp_path, "--sft.max_steps", "7"))]
    gone = [tmp_path / "sft", tmp_path / "rlve", tmp_path / "untrained/bench"]
    with pytest.raises(InputError, match=" and ".join(map(str, gone)) + " to make it again"):
        unfinished_stages(changed)
    shutil.rmtree(gone[0])
    with pytest.raises(InputError, match=f"rlve/model was made from .*\n.* delete {gone[1]} and {gone[2]} too"):
        unfinished_stages(found)
    shutil.rmtree(gone[1])
    (gone[1] / "checkpoints").mkdir(parents=True)
    with pytest.raises(InputError, match=f"rlve/checkpoints was made from .*\n.* delete {gone[1]} and {gone[2]} too"):
        unfinished_stages(changed)
    for folder in gone[1:]:
        shutil.rmtree(folder)
    assert places(unfinished_stages(changed)) == ["sft sft", "rlve rlve", "bench untrained", "bench sft", "bench rlve"]


def test_a_synthesis_that_lost_blueprints_is_made_again_before_anything_is_trained_on_it(tmp_path: Path) -> None:
    found = [*flywheel_stages(recipe(tmp_path))]
    (stage, product), (sft, model) = found[:2]
    make(stage, product)
    assert places(unfinished_stages(found))[0] == "sft sft"
    synthesised(product, infra_error=3)
    assert places(unfinished_stages(found))[0] == "synth synth"
    with pytest.raises(RunStopped, match="servers failed for 3 blueprints") as stopped:
        require_stage_product(stage, product)
    assert stopped.value.code == 4
    make(sft, model)  # as an earlier version did
    assert places(unfinished_stages(found))[0] == "rlve rlve"
    shutil.rmtree(model)
    synthesised(product, trajectories=0)
    assert places(unfinished_stages(found))[0] == "synth synth", "nothing was made"


@pytest.mark.parametrize("launcher", ["python", pytest.param("two ranks", marks=pytest.mark.long)])
def test_a_flywheel_ends_with_the_code_of_the_stage_that_failed(tmp_path: Path, launcher: str) -> None:
    """Also if torchrun, which turns every failure into code 1, started the stage."""
    hopeless = ("--synth.blueprints", "2", "--synth.curriculum", "[]", "--synth.recipe.intents", "[3, 3]")
    stage, product = next(flywheel_stages(recipe(tmp_path, *hopeless, "--synth.limits.turns", "1", "--processes", "1")))
    with pytest.raises(StageFailed, match="stage synth ended with code 4\n.*the same command") as failed:
        run_stage(stage, LAUNCHERS.get(launcher, [sys.executable]))
    assert ending_for_error(failed.value).code == 4 and not list(tmp_path.glob("**/*.exit_code"))
    assert product.exists() and not is_stage_done(stage, product), "nothing was made"


def test_a_product_of_a_version_that_lacked_a_key_is_kept(tmp_path: Path) -> None:
    *_, (stage, product) = flywheel_stages(recipe(tmp_path))
    scored(product, stage)
    (suite,) = stage["bench"]["suites"]
    earlier = stage | {"bench": stage["bench"] | {"suites": [{key: suite[key] for key in suite if key != "setting"}]}}
    stage_recipe_path(stage).write_text(yaml.safe_dump(earlier))
    assert is_stage_done(stage, product)
    with pytest.raises(InputError, match=f"delete {product.parents[1]} to"):  # and never the folder of the model
        is_stage_done(stage | {"seed": 7}, product)


def test_the_untrained_model_may_play_fewer_tasks(tmp_path: Path) -> None:
    *_, (untrained, product), (sft, _), (rlve, _) = flywheel_stages(recipe(tmp_path, "--untrained_tasks", "3"))
    counts = [[suite["count"] for suite in stage["bench"]["suites"]] for stage in (untrained, sft, rlve)]
    assert counts[0] == [3] and counts[1] == counts[2] and counts[1][0] > 3
    assert product.parts[-4] == "untrained"
    *_, (whole, _), _, _ = flywheel_stages(recipe(tmp_path, "--untrained_tasks", "10000"))
    assert whole["bench"] == rlve["bench"]


def test_one_flywheel_at_a_time_works_in_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("homerl.host.processes.SECONDS", 0.2)
    with folder_lock(tmp_path), pytest.raises(InputError, match="another run"), folder_lock(tmp_path):
        pass


# Starting at another run


def finished(out: Path, *overrides: str) -> FlywheelRecipe:
    """A run's folder with all stages done, but for RLVE."""
    made = recipe(out, *overrides)
    for stage, product in flywheel_stages(made):
        if not {"rlve"} & set(product.relative_to(out).parts):
            make(stage, product)
    return made


def test_a_flywheel_takes_the_stages_that_it_would_make_alike(tmp_path: Path, capsys) -> None:
    finished(tmp_path / "first")
    second = recipe(tmp_path / "second", "--rlve.credit", "trajectory")
    take_finished_stages(second, [*flywheel_stages(second)], tmp_path / "first")
    assert "synth, sft, untrained, expert" in capsys.readouterr().out
    todo = [
        product.relative_to(tmp_path / "second").as_posix() for _, product in unfinished_stages([*flywheel_stages(second)])
    ]
    assert todo == ["rlve/model", "rlve/bench/heldout/score.json"]


def test_it_takes_no_sft_that_another_recipe_made(tmp_path: Path) -> None:
    finished(tmp_path / "first")
    second = recipe(tmp_path / "second", "--sft.learning_rate", "1e-5")
    take_finished_stages(second, [*flywheel_stages(second)], tmp_path / "first")
    assert {path.name for path in (tmp_path / "second").iterdir()} == {"synth", "expert"}


def test_another_synthesis_is_refused_with_the_keys_that_differ(tmp_path: Path) -> None:
    finished(tmp_path / "first")
    second = recipe(tmp_path / "second", "--synth.blueprints", "61")
    with pytest.raises(InputError, match=r"not that of the recipe: synth\.blueprints\n"):
        take_finished_stages(second, [*flywheel_stages(second)], tmp_path / "first")
    assert not (tmp_path / "second").exists()


def test_rlve_starts_at_the_sft_of_a_run_and_sft_at_its_synthesis(tmp_path: Path) -> None:
    out = tmp_path / "first"
    finished(out)
    (out / "sft/model/config.json").write_text("{}")
    (out / "sft/model/model.safetensors").touch()
    (out / "synth/trajectories.jsonl").touch()
    for kind, key, place in (("rlve", "model", "sft/model"), ("sft", "data", "synth")):
        (tmp_path / "mine.yaml").write_text(f"homerl: 1\nrun: {kind}\nmodel: {{name: org/name}}\n")
        found = recipe_data(load_recipe(tmp_path / "mine.yaml", ["--from", str(out), "--seed", "3"]))
        assert (found["model"]["name"] if kind == "rlve" else found[key]) == str(out / place) and found["seed"] == 3
    (tmp_path / "mine.yaml").write_text("homerl: 1\nrun: synth\n")
    with pytest.raises(InputError, match="starts at nothing"):
        load_recipe(tmp_path / "mine.yaml", ["--from", str(out)])
    with pytest.raises(InputError, match="there is no run nowhere"):
        load_recipe(tmp_path / "mine.yaml", ["--from", "nowhere"])


def test_a_flywheel_that_goes_on_says_what_it_kept(tmp_path: Path) -> None:
    found = [*flywheel_stages(finished(tmp_path))]
    todo = unfinished_stages(found)
    (line,) = kept_stages_lines([stage for stage in found if stage not in todo], todo)
    assert line.startswith("kept from an earlier start: synth, sft, the benchmark of expert")
    assert line.endswith("to do: rlve, the benchmark of rlve")
    assert not [*kept_stages_lines([], todo)] and not [*kept_stages_lines(found, [])]


def test_a_log_says_which_stage_begins_and_which_an_earlier_start_has_begun(tmp_path):
    made = [stage for stage, _ in flywheel_stages(recipe(tmp_path / "mine")) if stage["run"] != "bench"]
    assert stage_lines("mine", made, True) == [
        "mine: 1 of 4: synth", "mine: 2 of 4: sft", "mine: 3 of 4: rlve", "mine: 4 of 4: benchmarks",
    ]  # fmt: skip
    path = stage_recipe_path(made[0])
    path.parent.mkdir(parents=True)
    path.touch()
    assert stage_lines("mine", made[:1], False) == ["mine: 1 of 1: synth, which an earlier start has begun"]
