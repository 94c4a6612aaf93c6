"""The audit of a user: figures by hand, breaches, and the command's exit code."""

import io
import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from forked import homerl
from person import content, obedient, wishes
from rich.console import Console
from scripted_server import ScriptedServer

from homerl.app.runs.recipe import load_recipe
from homerl.app.user_audit import (
    AuditedEpisode,
    UserAudit,
    add_breaches,
    compute_audit,
    count_words,
    length_histogram,
    length_statistics,
    read_audit_setup,
    run_user_audit,
)
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.host.progress_bar import progress_bar
from homerl.models.endpoint.endpoint_settings import AuditSettings
from homerl.play.situation import BEHAVIOURS
from homerl.play.trajectory import Outcome
from homerl.synth.recipe import SynthRecipe
from homerl.train.recipe import RLVERecipe
from homerl.worlds.behaviour_rates import behaviour_rates

GOOD = AuditSettings()
PEOPLE = Path(__file__).parent / "dialogues.jsonl"
NUMBERS = itertools.count()


def row(outcome=Outcome.SUCCESS, reason=None, *said: str, topics=(True,)) -> AuditedEpisode:
    return AuditedEpisode("b", outcome, reason, said or (f"turn on lamp {next(NUMBERS)}",), topics)


def test_shares_are_of_blueprints_and_by_reason():
    ends = [(Outcome.SUCCESS, None)] * 6 + [(Outcome.USER_ERROR, "leak")] * 2
    rows = [row(*end) for end in (*ends, (Outcome.USER_ERROR, "gave_up"), (Outcome.TURN_LIMIT, None))]
    found = compute_audit(rows, {"requests": 3})
    assert found.success == 0.6 and found.user_errors == pytest.approx(0.3)
    assert found.reasons["leak"] == 0.2 and found.reasons["gave_up"] == 0.1 and found.reasons["repetition"] == 0
    assert len(add_breaches(found, GOOD).breaches) == 3  # errors, leaks, success


def test_a_good_user_breaches_nothing_and_a_talkative_one_does():
    assert not add_breaches(compute_audit([row() for _ in range(5)], {}), GOOD).breaches
    talks = compute_audit([row(Outcome.SUCCESS, None, "word " * 69 + str(n)) for n in range(5)], {})
    assert add_breaches(talks, GOOD).breaches == ("words: nine in ten up to 70, over 60",)


def test_lengths_count_words_and_chinese_characters():
    assert count_words("turn it on, please") == 4 and count_words("把灯调到50") == 5
    assert length_statistics(list(range(1, 11))) == {"mean": 5.5, "median": 5.5, "p90": 9, "max": 10}
    assert length_statistics([]) == {} and length_histogram([3, 7, 100])["over 80"] == 1


def test_wishes_opened_by_other_words_and_words_that_are_always_the_same_are_breaches():
    off = compute_audit([row(topics=(n == 0, False)) for n in range(5)] + [row(topics=())], {})
    assert off.on_topic == 0.1 and add_breaches(off, GOOD).breaches == ("wishes opened on topic: 10.0%, under 50.0%",)
    alike = compute_audit([row(Outcome.SUCCESS, None, "Turn it on!")] * 3 + [row(Outcome.SUCCESS, None, "turn it on")], {})
    assert alike.distinct == 0.25 and add_breaches(alike, GOOD).breaches == ("distinct utterances: 25.0%, under 50.0%",)
    silent = compute_audit([AuditedEpisode("b", Outcome.SUCCESS, None, ())], {})
    assert silent.on_topic is silent.distinct is None and not add_breaches(silent, GOOD).breaches and silent.to_table()


def indifferent(request):
    return content(say="Done.", about=wishes(request)[0][0])


def bad(request):
    number, _ = wishes(request)[0]
    return content(say="please call set_brightness for me", about=number)


def rlve(task) -> dict:
    return {"run": "rlve", "model": {"name": "runs/none"}, "blueprints": {"recipe": task.model_dump(mode="json")}}


def synth(task) -> dict:
    return {"run": "synth", "synth": {"recipe": task.model_dump(mode="json")}}


def written(tmp_path, recipe: dict, server: ScriptedServer) -> str:
    """The recipe's file, with a user at the server."""
    recipe.get("synth", recipe)["user"] = {"kind": "llm", "url": [server.url], "model": "scripted"}
    (tmp_path / "recipe.yaml").write_text(yaml.safe_dump({"homerl": 1, "out": str(tmp_path / "run")} | recipe))
    return str(tmp_path / "recipe.yaml")


def audited(tmp_path, recipe: dict, answer) -> UserAudit:
    with ScriptedServer(answer=answer) as server:
        path = written(tmp_path, recipe, server)
        return run_user_audit(load_recipe(path), path, 8, 8, tmp_path / "out.json")


@pytest.mark.parametrize(("answer", "code"), [pytest.param(obedient, 0, marks=pytest.mark.long), (bad, 1)])
def test_the_command_is_a_gate(tmp_path, task, answer, code):
    with ScriptedServer(answer=answer) as server:
        arguments = ["audit-user", written(tmp_path, rlve(task), server), "--blueprints", "3"]
        done = homerl(*arguments)
    assert done.returncode == code, done.stderr
    found = json.loads((tmp_path / "run" / "audit_user.json").read_text())
    assert found["blueprints"] == len(found["played"]) == 3 and found["usage"]["requests"] > 0
    assert found["success"] == 1 - code and found["reasons"]["leak"] == code and bool(found["breaches"]) == bool(code)


def test_one_who_says_done_whatever_it_wants_does_not_pass_though_all_ends_well(tmp_path, task):
    found = audited(tmp_path, rlve(task), indifferent)
    assert found.success == 1 and found.user_errors == found.on_topic == 0 and len(found.breaches) == 2


def test_the_user_of_a_synthesis_can_be_audited(tmp_path, task):
    found = audited(tmp_path, synth(task), obedient)
    assert found.on_topic == found.distinct == found.success == 1 and not found.breaches


def test_a_recipe_without_a_user_is_refused(task):
    config = {"strategy": "m1", "agent": {"url": "http://127.0.0.1:9/v1", "model": "m"}}
    with pytest.raises(InputError, match="plays with no user"):
        read_audit_setup(SynthRecipe.model_validate({"homerl": 1, "run": "synth", "synth": config}), "r.yaml")


def test_blueprints_of_a_file_are_of_the_world_that_they_say(tmp_path, task):
    """A user that a model plays is for HomeEnv's; SimuHome's speaks once."""
    file = tmp_path / "mine.jsonl"
    blueprints = {"recipe": {"file": str(file)}, "count": 1, "first_seed": 0}
    user = {"kind": "llm", "url": ["http://127.0.0.1:9/v1"], "model": "m"}
    recipe = rlve(task) | {"homerl": 1, "blueprints": blueprints, "user": user}
    file.write_text(make_home_blueprint(task, "train", 1).model_dump_json() + "\n")
    assert read_audit_setup(RLVERecipe.model_validate(recipe), "r.yaml").recipe.file == file
    file.write_text('{"world": "simuhome", "split": "train"}\n')
    with pytest.raises(ValueError, match="in the world 'simuhome' no such user can speak"):
        RLVERecipe.model_validate(recipe)
    with pytest.raises(InputError, match="speaks once, from the blueprint"):
        read_audit_setup(RLVERecipe.model_validate(recipe | {"user": {"kind": "scripted"}}), "r.yaml")


def test_a_user_that_behaves_unlike_the_people_of_the_dataset_is_a_breach():
    plain = compute_audit([replace(row(), behaviours=(frozenset(),)) for _ in range(40)], {})
    people = behaviour_rates([frozenset({"disclosure"})] * 3 + [frozenset({"change_of_mind"})] + [frozenset()] * 36)
    assert add_breaches(replace(plain, people=people), GOOD).breaches == ()
    assert add_breaches(replace(plain, people=people), GOOD.model_copy(update={"behaviour_gap": 0.05})).breaches == (
        "disclosure: 0.0% of utterances, 7.5% in the dataset, further apart than 5.0%",
    )


def test_the_audit_shows_rates_beside_those_of_the_recipes_dataset(tmp_path, task):
    assert set(audited(tmp_path, rlve(task), obedient).behaviours) == set(BEHAVIOURS)
    with ScriptedServer(answer=obedient) as server:
        path = Path(written(tmp_path, rlve(task), server))
        path.write_text(path.read_text().replace("user:\n", f"user:\n  audit: {{dataset: {PEOPLE}, behaviour_gap: 0.01}}\n"))
        found = run_user_audit(load_recipe(str(path)), str(path), 8, 8, tmp_path / "out.json")
    assert any("in the dataset" in breach for breach in found.breaches)
    stored = json.loads((tmp_path / "out.json").read_text())
    assert stored["people"]["disclosure"]["share"] > 0.1 and stored["played"][0]["behaviours"][0] == []


def test_a_dataset_that_cannot_be_read_is_refused_before_the_user_is_asked(tmp_path, task):
    asked = []
    with ScriptedServer(answer=asked.append) as server:
        path = Path(written(tmp_path, rlve(task), server))
        path.write_text(path.read_text().replace("user:\n", f"user:\n  audit: {{dataset: {server.url}/people.json}}\n"))
        with pytest.raises(InputError, match="cannot be downloaded"):
            run_user_audit(load_recipe(str(path)), str(path), 8, 8, tmp_path / "out.json")
    assert not asked and not (tmp_path / "out.json").exists()


def test_what_is_piped_holds_no_markup():
    console = Console(file=io.StringIO(), markup=False, width=100)
    console.print(replace(compute_audit([row()], {}), breaches=("a [b] breach",)).to_table())
    with progress_bar(console) as bar:
        bar.add_task("a [b] task", total=1, note="runs/[red]x")
    text = console.file.getvalue()
    assert "too bad" in text and "[red]too" not in text and "[/" not in text
    assert all(kept in text for kept in ("a [b] breach", "a [b] task", "runs/[red]x"))
