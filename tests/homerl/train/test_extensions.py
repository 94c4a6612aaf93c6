"""A credit mode, a loss and an engine of one's own: one file each, in a folder that the environment names. The files are
those of docs/training.md. At the end, each kind of extension is tried as CONTRIBUTING.md says."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from forked import homerl, python

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.train.credit.contract import CreditMode, list_credit_modes
from homerl.train.engines.contract import list_engines
from homerl.train.losses.contract import list_losses
from homerl.train.recipe import LossSettings, RolloutSettings, combine_plugin_keys

ROOT = Path(__file__).parents[3]


def python_of(page: str, mark: str) -> str:
    """The Python block of a page that contains the mark."""
    found = re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    return next(text for text in found if mark in text)


def added_in(page: str, file: str) -> str:
    """The file that a diff of a page adds."""
    found = re.search(rf"\+\+\+ b/\S*{file}\n(.*?)```", (ROOT / page).read_text(encoding="utf-8"), re.S)
    assert found
    return "".join(line.removeprefix("+") + "\n" for line in found[1].splitlines())


DOCS = (ROOT / "docs/training.md").read_text(encoding="utf-8")
REFERENCE = (ROOT / "docs/reference.md").read_text(encoding="utf-8")
RANK, SOFT, UNPADDED = re.findall(r"```python\n(.*?)```", DOCS, re.S)
EXAMPLES = {  # file: the example of a page
    "intents/leaving.py": python_of("docs/language.md", "SUBCATEGORIES"),
    "toolsets/switch.py": python_of("docs/homes.md", "TOOLSET ="),
    "rewards/brevity.py": added_in("CONTRIBUTING.md", "brevity.py"),
    "credit/rank.py": RANK,
    "losses/soft.py": SOFT,
    "engines/unpadded.py": UNPADDED,
}
RULE = """
import json
from homerl.train.credit.contract import CreditInput
from homerl.train.data.rollout_batches import credit_group
from homerl.train.recipe import RLVESettings
group = [CreditInput([1.0, 1.0]), CreditInput([0.0]), CreditInput([2.0]), CreditInput([4.0])]
print(json.dumps(credit_group(group, RLVESettings(credit="rank", rank_scale=2))))
"""


@pytest.fixture(scope="module")
def extended(tmp_path_factory) -> dict[str, str]:
    """The environment, with a mode, a loss and an engine of one's own."""
    own = tmp_path_factory.mktemp("own")
    for folder, file, text in (("credit", "rank", RANK), ("losses", "soft", SOFT), ("engines", "unpadded", UNPADDED)):
        (own / folder).mkdir()
        (own / folder / f"{file}.py").write_text(text, encoding="utf-8")
    return os.environ | {f"HOMERL_{kind.upper()}": str(own / kind) for kind in ("credit", "losses", "engines")}


@pytest.fixture
def recipe(tiny, task, tmp_path) -> Path:
    settings = {
        "credit": "rank",
        "rank_scale": 2,
        "loss": "soft",
        "steepness": 2,
        "iterations": 2,
        "engine": {"kind": "unpadded", "prompts": 4},
        "updates": 1,
        "group": 4,
        "blueprints_per_update": 2,
        "max_tokens": 16,
        "max_episode_tokens": 512,
    }
    data = {
        "homerl": 1,
        "run": "rlve",
        "cpu": True,
        "out": str(tmp_path / "run"),
        "wandb": {"mode": "disabled"},
        "model": {"name": str(tiny), "dtype": "float32"},
        "limits": {"turns": 2, "steps": 3},
        "rlve": settings,
        "blueprints": {"recipe": task.model_dump(mode="json"), "count": 4},
    }
    path = tmp_path / "mine.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


@pytest.mark.long
def test_a_recipe_with_a_mode_and_an_engine_of_ones_own_is_checked(extended, recipe):
    done = homerl("check", recipe, "--full", cwd=ROOT, env=extended, often=True)
    assert done.returncode == 0, done.stderr
    said = yaml.safe_load(done.stdout)["rlve"]
    assert (said["credit"], said["rank_scale"], said["baseline"]) == ("rank", 2.0, "index")
    assert (said["loss"], said["steepness"], said["cispo_cap"]) == ("soft", 2.0, 5.0)
    assert (said["engine"]["kind"], said["engine"]["prompts"]) == ("unpadded", 4)
    assert "while sampling: cache" in done.stdout


@pytest.mark.parametrize(
    ("override", "said"),
    [
        ("--rlve.group=2", "a group of 2 is too small to rank"),
        pytest.param("--rlve.rank_scale=-1", "rlve.rank_scale is -1", marks=pytest.mark.long),
        pytest.param(
            "--rlve.credit=rnk",
            f"did you mean rank? (known: {', '.join([*list_credit_modes(), 'rank'])})",
            marks=pytest.mark.long,
        ),
        pytest.param("--rlve.rank_scal=1", "did you mean rank_scale?", marks=pytest.mark.long),
        ("--rlve.loss=sof", f"did you mean soft? (known: {', '.join([*list_losses(), 'soft'])})"),
        pytest.param("--rlve.steepness=0", "rlve.steepness is 0", marks=pytest.mark.long),
        pytest.param("--rlve.engine.kind=unpaded", "did you mean unpadded?", marks=pytest.mark.long),
        pytest.param("--rlve.async_rollouts=1", "engine unpadded shares the trainer's GPU", marks=pytest.mark.long),
        ("--parallel=zero3", "engine unpadded needs whole weights, and zero3 shards them"),
    ],
)
def test_what_they_refuse_is_refused(extended, recipe, override, said):
    done = homerl("check", recipe, override, cwd=ROOT, env=extended, often=True)
    assert done.returncode == 2 and said in done.stderr


def test_the_rule_of_a_mode_of_ones_own_gives_the_credit(extended):
    done = python(RULE, often=True, **extended)
    assert json.loads(done.stdout) == [[0.0, 0.0], [-2.0], [0.0], [2.0]], done.stderr


def test_without_the_folder_there_is_no_such_mode(recipe):
    plain = {name: value for name, value in os.environ.items() if not name.startswith("HOMERL_")}
    data = yaml.safe_load(recipe.read_text(encoding="utf-8"))
    recipe.write_text(yaml.safe_dump(data | {"rlve": {"credit": "rank"}}), encoding="utf-8")
    done = homerl("check", recipe, cwd=ROOT, env=plain)
    assert done.returncode == 2 and "rlve.credit is 'rank', which is not allowed" in done.stderr


def checked_with(text: str, file: Path, extended: dict[str, str], recipe: Path) -> subprocess.CompletedProcess:
    """What a check says if one more file lies beside the mode."""
    shutil.copytree(extended["HOMERL_CREDIT"], file.parent)
    file.write_text(text, encoding="utf-8")
    return homerl("check", recipe, cwd=ROOT, env=extended, HOMERL_CREDIT=str(file.parent))


def test_a_file_that_says_no_mode_is_named(extended, recipe, tmp_path):
    done = checked_with("", tmp_path / "credit/empty.py", extended, recipe)
    assert done.returncode == 2 and "empty.py: the file defines no MODE" in done.stderr


@pytest.mark.long
def test_a_name_that_is_not_its_files_is_refused(extended, recipe, tmp_path):
    done = checked_with(RANK, tmp_path / "credit/again.py", extended, recipe)
    assert done.returncode == 2 and "again.py: the MODE of 'again' is named 'rank'" in done.stderr


@pytest.mark.long
@pytest.mark.timeout(600)
def test_each_kind_of_extension_is_tried_as_the_page_says(tmp_path):
    """The recipes and commands of CONTRIBUTING.md, with the examples of the pages."""
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split("## How to try it")[1].split("\n## ")[0]
    fenced = re.findall(r"^```(\w*)\n(.*?)^```$", page, re.S | re.M)
    for text in (text for language, text in fenced if language == "yaml"):
        (tmp_path / text.split(":")[0].removeprefix("# ")).write_text(text, encoding="utf-8")
    for file, text in EXAMPLES.items():
        (tmp_path / file).parent.mkdir()
        (tmp_path / file).write_text(text, encoding="utf-8")
    shutil.copytree(ROOT / "tests/worlds/lamp", tmp_path / "worlds/lamp")
    own = f'homerl() {{ "{sys.executable}" -m homerl "$@"; }}\n'
    for commands in (text for language, text in fenced if not language):
        plain = {name: value for name, value in os.environ.items() if not name.startswith("HOMERL_")}
        here = plain | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(["bash", "-ec", own + commands], env=here, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, commands + done.stdout + done.stderr
    runs = tmp_path / "runs"
    for name, said in (("intent", '"family": "leaving"'), ("toolset", '"name": "switch"'), ("world", '"name": "set_level"')):
        rows = [json.loads(line) for line in (runs / name / "trajectories.jsonl").read_text("utf-8").splitlines()]
        assert rows and all(said in json.dumps([row["messages"], json.loads(row["blueprint"])]) for row in rows)
    assert "rewards/brevity/mean" in (runs / "reward/metrics.jsonl").read_text("utf-8")
    recipes = {
        name: yaml.safe_load((runs / name / "recipe.yaml").read_text("utf-8"))["rlve"]
        for name in ("credit", "loss", "engine")
    }
    assert recipes["loss"]["loss"] == "soft"
    assert recipes["credit"]["credit"] == "rank" and recipes["engine"]["engine"]["kind"] == "unpadded"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_run_trains_with_both(extended, recipe, tmp_path):
    done = homerl("run", recipe, cwd=ROOT, env=extended, often=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/model/model.safetensors").is_file()


def mode(**fields: Any) -> CreditMode:
    """A mode with keys of its own, by their defaults."""
    annotations = {name: type(default) for name, default in fields.items()}
    keys = type("Keys", (Model,), fields | {"__annotations__": annotations, "__module__": __name__})
    return type("Mode", (CreditMode,), {"name": "mine", "keys": keys, "rule": lambda *_: []})()


@pytest.mark.parametrize("key", ["kl", "group", "learning_rate", "baseline"])
def test_a_key_that_is_taken_is_refused(key):
    with pytest.raises(InputError, match=f"the key '{key}' is .* already"):
        combine_plugin_keys([*list_credit_modes().values(), mode(**{key: 1.0})], RolloutSettings, LossSettings)


def test_a_key_of_its_own_is_not():
    assert len(combine_plugin_keys([*list_credit_modes().values(), mode(mine=1.0)], RolloutSettings, LossSettings)) == 2


@pytest.mark.parametrize(
    "one", [*list_credit_modes().values(), *list_losses().values(), *list_engines().values()], ids=lambda one: one.name
)
def test_what_is_there_is_documented(one):
    assert f"\n- `{one.name}`: {one.sentence}\n" in REFERENCE and one.sentence[-1] not in " ,;"


@pytest.mark.parametrize(
    ("heading", "known"), [("Credit", list_credit_modes()), ("Losses", list_losses()), ("Engines", list_engines())]
)
def test_the_prose_is_about_modes_and_engines_that_there_are(heading, known):
    """The page need not have a row for each: the reference has."""
    table = DOCS.split(f"\n## {heading}\n")[1].split("\n|", 1)[1].split("\n\n")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.M)) <= known.keys()
