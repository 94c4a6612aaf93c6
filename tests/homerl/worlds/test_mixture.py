"""One agent for several worlds: mixtures of blueprints, groups where something is learnt, a flywheel over three worlds."""

import json
import os
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path
from statistics import fmean

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from homerl.app.runs.recipe import FlywheelRecipe, load_recipe
from homerl.app.runs.rehearsal import rehearse_recipe
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.play.trajectory import read_rows
from homerl.report.cards.dataset_card import render_dataset_card
from homerl.synth.recipe import SynthesisConfig
from homerl.train.data.curriculum import LEAST, Curriculum, MixtureBalance
from homerl.train.data.rollout_batches import world_metrics
from homerl.train.recipe import BlueprintSource, CurriculumSettings, RLVERecipe
from homerl.worlds.registry import (
    blueprint_with_behaviours,
    make_blueprint_of_seed,
    source_for_seed,
    source_worlds,
    world_of,
)

HOME = {"families": {"atomic": 1}, "home": {"devices": [3, 4]}, "intents": [1, 1]}
MIXED = {
    "worlds": {
        "home": {"weight": 2, "recipe": HOME},
        "chinese": {"recipe": HOME | {"home": {"devices": [3, 4], "language": "zh"}}},
        "simuhome": {"recipe": {"world": "simuhome", "types": {"qt1/feasible": 1}, "devices": [10, 12], "goals": [1, 1]}},
    }
}


def source(**more) -> BlueprintSource:
    return BlueprintSource.model_validate({"recipe": MIXED, "count": 400, "first_seed": 0} | more)


def test_the_seed_draws_the_part_by_weight():
    mixture = source().recipe
    drawn = Counter(map(mixture.part_of, range(4000)))
    assert drawn["home"] / 4000 == pytest.approx(0.5, abs=0.03) and drawn["chinese"] / 4000 == pytest.approx(0.25, abs=0.03)
    assert [mixture.part_of(seed) for seed in range(50)] == [source().recipe.part_of(seed) for seed in range(50)]


def test_a_blueprint_of_a_mixture_is_that_of_its_part():
    mixture = source().recipe
    for seed in range(8):
        part = mixture.worlds[mixture.part_of(seed)].recipe
        assert make_blueprint_of_seed(mixture, "train", seed) == make_blueprint_of_seed(part, "train", seed)
        assert source_for_seed(mixture, seed) is part and source_for_seed(part, seed) is part
    assert {world.name for world in source_worlds(mixture)} == {"homeenv", "simuhome"}


def test_the_people_of_a_mixture_behave_where_their_world_lets_them():
    mixture, behaviours = source().recipe, Behaviours(disclosure=1.0)
    made = [make_blueprint_of_seed(mixture, "train", seed) for seed in range(30)]
    changed = {world_of(b).name for b in made if blueprint_with_behaviours(b, behaviours, mixture) != b}
    assert changed == {"homeenv"} and any(world_of(b).name == "simuhome" for b in made)


def rlve(**more) -> dict:
    return {"homerl": 1, "run": "rlve", "model": {"name": "m"}, "blueprints": {"recipe": MIXED}} | more


@pytest.mark.parametrize(
    ("recipe", "why"),
    [
        ({"worlds": {}}, "at least 1"),
        ({"worlds": {"a": {"weight": 0, "recipe": HOME}}}, "greater than 0"),
        ({"worlds": {"a": {"recipe": {"world": "moon"}}}}, "`world:` set to one of"),
        ({"worlds": {"a": {"recipe": MIXED}}}, "`world:` set to one of|no_such_world|does not match"),
    ],
)
def test_a_mixture_that_cannot_be_drawn_is_refused(recipe, why):
    with pytest.raises(ValidationError, match=why):
        BlueprintSource.model_validate({"recipe": recipe})
    with pytest.raises(ValidationError, match=why):
        SynthesisConfig.model_validate({"recipe": recipe})


def test_what_a_world_of_the_mixture_cannot_do_is_refused():
    user = {"kind": "llm", "url": ["http://127.0.0.1:9/v1"], "model": "m"}
    with pytest.raises(ValidationError, match="in the world 'simuhome' no such user can speak"):
        RLVERecipe.model_validate(rlve(user=user))
    with pytest.raises(ValidationError, match="`rlve.curriculum.temperature` is for blueprints of several worlds"):
        RLVERecipe.model_validate(rlve(blueprints={"recipe": HOME}, rlve={"curriculum": {"temperature": 1.0}}))
    assert RLVERecipe.model_validate(rlve(rlve={"curriculum": {"temperature": 1.0}})).rlve.curriculum.temperature == 1


# where groups go


RATES = st.dictionaries(st.sampled_from("abcd"), st.floats(0, 1), min_size=1)


@given(rates=RATES, temperature=st.floats(0.1, 100), part=st.sampled_from("abcd"))
def test_chances_are_probabilities_and_the_part_with_most_signal_is_always_played(rates, temperature, part):
    balance = MixtureBalance(lambda seed: "abcd"[seed % 4], temperature)
    balance.rates = dict(rates)
    chances = {"abcd"[seed]: balance.play_probability(seed) for seed in range(4)}
    signal = {name: max(LEAST, 4 * rate * (1 - rate)) for name, rate in rates.items()}
    assert all(0 <= chance <= 1 for chance in chances.values())
    assert chances[max(signal, key=signal.__getitem__)] == 1 and all(chances[n] == 1 for n in "abcd" if n not in rates)
    assert all(chances[a] <= chances[b] for a in signal for b in signal if signal[a] < signal[b])


def test_a_high_temperature_leaves_the_weights_and_a_low_one_goes_where_something_is_learnt():
    shares = {}
    for temperature in (0.5, 1000):
        known = Curriculum(CurriculumSettings(temperature=temperature), source(), 0)
        part_of = source().recipe.part_of
        for _ in range(30):
            known.update_success_rates((seed, part_of(seed) == "home" or seed % 2 == 0) for seed in range(64))
        drawn = Counter(part_of(draw.seeds[0]) for draw in known.draw_groups(1200))
        shares[temperature] = drawn["home"] / 1200
    assert shares[1000] == pytest.approx(0.5, abs=0.05) and shares[0.5] < 0.1


def test_a_resumed_run_draws_what_the_unbroken_one_draws():
    settings, part_of = CurriculumSettings(temperature=0.5), source().recipe.part_of
    known, again = (Curriculum(settings, source(), 0) for _ in range(2))
    known.draw_groups(16)
    known.update_success_rates((seed, part_of(seed) == "home") for seed in range(64))
    known.mark_trained(dict.fromkeys(range(16), 0))
    again.restore_state(json.loads(json.dumps(known.checkpoint_state())))
    assert [d.seeds for d in again.draw_groups(50)] == [d.seeds for d in known.draw_groups(50)]


def test_metrics_tell_the_parts_apart():
    mixture = source().recipe
    rows = [
        {"seed": s, "success": mixture.part_of(s) == "home", "progress": 0.5, "outcome": "agent_failure"} for s in range(40)
    ]
    found = world_metrics(rows, mixture)
    assert (
        found["world/home/success"] == 1 and found["world/simuhome/success"] == 0 and found["world/chinese/progress"] == 0.5
    )
    assert world_metrics(rows, mixture.worlds["home"].recipe) == {}


# the whole way


PERSONAL = {
    "world": "personalhome",
    "tasks": {"grounding": 1},
    "difficulties": {"simple": 1},
    "families": ["pet_age"],
    "tools": ["get_household_profile"],
    "counterfactuals": False,
    "personal": 1,
    "household": {"memories": [1, 2]},
}
THREE = {"worlds": MIXED["worlds"] | {"personal": {"recipe": PERSONAL}}}
LIMITS = {"turns": None, "steps": 6, "steps_per_turn": 6}
RECIPE = {
    "homerl": 1, "run": "flywheel", "cpu": True, "parallel": "none", "wandb": {"mode": "disabled"}, "processes": 1,
    "model": {"dtype": "float32", "from_scratch": {
        "hidden_size": 32, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 16, "intermediate_size": 64}},
    "synth": {"blueprints": 48, "shard": 12, "recipe": THREE, "limits": LIMITS},
    "sft": {"dialogues_per_update": 4, "max_steps": 2, "save_steps": None, "log_steps": 1, "learning_rate": 1e-3},
    "blueprints": {"recipe": THREE, "count": 40},
    "rlve": {"updates": 2, "blueprints_per_update": 4, "group": 2, "max_tokens": 24, "save_steps": None, "log_steps": 1,
             "max_episode_tokens": 4096, "curriculum": {"temperature": 1.0}},
    "limits": LIMITS,
    "bench": {"max_tokens": 16, "limits": LIMITS, "suites": [
        {"name": name, "count": 3, "recipe": part["recipe"]} for name, part in THREE["worlds"].items()]},
}  # fmt: skip


def test_rehearsal_plays_every_part():
    lines = rehearse_recipe(FlywheelRecipe.model_validate(RECIPE | {"out": "runs/x"}))
    assert all(
        any(f"{key}.worlds.{name}:" in line for line in lines)
        for name in THREE["worlds"]
        for key in ("synth.recipe", "blueprints.recipe")
    )


def parts_of(metrics: dict) -> dict[str, float]:
    """The progress by part that an update logged."""
    found = {key.split("/")[1]: value for key, value in metrics.items() if key.startswith("world/") and "progress" in key}
    return {name: pytest.approx(value) for name, value in found.items()}


def parts_played(rollouts: Path) -> dict[str, float]:
    """The same from an update's rollouts, told apart by their blueprints."""
    progress = defaultdict(list)
    for row in read_rows(rollouts):
        blueprint = json.loads(row["blueprint"])
        language = "chinese" if blueprint["language"] == "zh" else "home"
        name = {"simuhome": "simuhome", "personalhome": "personal"}.get(blueprint.get("world"), language)
        progress[name].append(row["progress"])
    return {name: fmean(values) for name, values in progress.items()}


@pytest.mark.long
def test_one_model_goes_through_three_worlds(tmp_path):
    recipe, out = tmp_path / "one.yaml", tmp_path / "run"
    recipe.write_text(yaml.safe_dump(RECIPE | {"out": str(out)}))

    def homerl(*arguments: object) -> None:
        command = [sys.executable, "-m", "homerl", *map(str, arguments)]
        done = subprocess.run(
            command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=280
        )
        assert done.returncode == 0, done.stdout + done.stderr

    homerl("run", recipe)
    kinds = Counter(
        json.loads(row["blueprint"]).get("world", "homeenv") for row in read_rows(out / "synth/trajectories.jsonl")
    )
    assert set(kinds) == {"homeenv", "simuhome", "personalhome"}
    updates = [row for row in read_rows(out / "rlve/metrics.jsonl") if "success" in row]
    assert len(updates) == RECIPE["rlve"]["updates"]
    for update, row in enumerate(updates, 1):
        assert parts_of(row) == parts_played(out / f"rlve/rollouts/update_{update:06d}.jsonl")
    logged = [key for row in updates for key in row if key.startswith("world/")]
    assert {key.split("/")[1] for key in logged} >= {"home"} and len(set(logged)) >= 4
    for name in THREE["worlds"]:
        assert json.loads((out / "rlve/bench" / name / "score.json").read_text())["outcomes"]
    homerl("reverify", out / "synth/trajectories.jsonl")
    homerl("export", out, "--to", tmp_path / "agent")
    assert "tools" in (tmp_path / "agent/README.md").read_text()
    stats, facts = (json.loads(Path(out / "synth" / name).read_text()) for name in ("stats.json", "dataset.json"))
    assert set(yaml.safe_load(render_dataset_card(facts, stats).split("---")[1])["language"]) == {"en", "zh"}


def test_an_override_changes_one_part_and_a_mixture_replaces_another_source(tmp_path):
    base = {"homerl": 1, "run": "rlve", "model": {"name": "m"}, "blueprints": {"recipe": HOME}}
    (tmp_path / "base.yaml").write_text(yaml.safe_dump(base))
    (tmp_path / "mixed.yaml").write_text(
        yaml.safe_dump({"homerl": 1, "extends": "base.yaml", "blueprints": {"recipe": MIXED}})
    )
    (tmp_path / "one.yaml").write_text(
        yaml.safe_dump({"homerl": 1, "extends": "mixed.yaml", "blueprints": {"recipe": {"world": "simuhome"}}})
    )
    mixed = load_recipe(str(tmp_path / "mixed.yaml"), ["--blueprints.recipe.worlds.chinese.weight", "5"]).blueprints.recipe
    assert {name: part.weight for name, part in mixed.worlds.items()} == {"home": 2, "chinese": 5, "simuhome": 1}
    assert load_recipe(str(tmp_path / "one.yaml")).blueprints.recipe.world == "simuhome"
