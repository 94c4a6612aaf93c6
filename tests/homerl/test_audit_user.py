"""The audit of a user: figures by hand, breaches, and the command's exit code."""

import json
import subprocess
import sys

import pytest
import yaml
from person import content, obedient, wishes
from scripted_server import ScriptedServer

from homerl.settings import AuditSettings
from homerl.trajectory import Outcome
from homerl.users.audit import Played, histogram, judged, spread, summary, words_in

GOOD = AuditSettings()


def row(outcome=Outcome.SUCCESS, reason=None, *said: str) -> Played:
    return Played("b", outcome, reason, said or ("turn on the lamp",))


def test_shares_are_of_blueprints_and_by_reason():
    rows = (
        [row()] * 6 + [row(Outcome.USER_ERROR, "leak")] * 2 + [row(Outcome.USER_ERROR, "gave_up"), row(Outcome.TURN_LIMIT)]
    )
    found = summary(rows, {"requests": 3})
    assert found.success == 0.6 and found.user_errors == pytest.approx(0.3)
    assert found.reasons["leak"] == 0.2 and found.reasons["gave_up"] == 0.1 and found.reasons["repetition"] == 0
    assert len(judged(found, GOOD).breaches) == 3  # errors, leaks, success


def test_a_good_user_breaches_nothing_and_a_talkative_one_does():
    assert not judged(summary([row()] * 5, {}), GOOD).breaches
    talks = summary([row(Outcome.SUCCESS, None, "word " * 70)] * 5, {})
    assert judged(talks, GOOD).breaches == ("words: nine in ten up to 70, over 60",)


def test_lengths_count_words_and_chinese_characters():
    assert words_in("turn it on, please") == 4 and words_in("把灯调到50") == 5
    assert spread(list(range(1, 11))) == {"mean": 5.5, "median": 5.5, "p90": 9, "max": 10}
    assert spread([]) == {} and histogram([3, 7, 100])["over 80"] == 1


def bad(request):
    number, _ = wishes(request)[0]
    return content(say="please call set_brightness for me", about=number)


@pytest.mark.parametrize(("answer", "code"), [(obedient, 0), (bad, 1)])
def test_the_command_is_a_gate(tmp_path, task, answer, code):
    with ScriptedServer(answer=answer) as server:
        recipe = {
            "homerl": 1, "run": "rlve", "out": str(tmp_path / "run"), "model": {"name": "runs/none"},
            "blueprints": {"recipe": task.model_dump(mode="json")},
            "user": {"kind": "llm", "url": [server.url], "model": "scripted"},
        }  # fmt: skip
        (tmp_path / "recipe.yaml").write_text(yaml.safe_dump(recipe))
        arguments = ["audit-user", str(tmp_path / "recipe.yaml"), "--blueprints", "8"]
        done = subprocess.run([sys.executable, "-m", "homerl.cli", *arguments], capture_output=True, text=True, timeout=120)
    assert done.returncode == code, done.stderr
    found = json.loads((tmp_path / "run" / "audit_user.json").read_text())
    assert found["blueprints"] == len(found["played"]) == 8 and found["usage"]["requests"] > 0
    assert found["success"] == 1 - code and found["reasons"]["leak"] == code and bool(found["breaches"]) == bool(code)
