"""`homerl bench validate`: right graders pass, and planted faults are found; results say which grader judged them."""

import json
import shutil
from pathlib import Path

import forked
import pytest

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.bench.grader_validation import validate_instance, validate_suite
from homerl.bench.stored_scores import rescore_run
from homerl.bench.suites import is_shipped_suite, parse_instance, read_suite, read_suite_lines, spread_evenly, write_suite
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.bench.suite import HomeSuite
from homerl.envs.homeenv.tasks.goals import HeardReplies
from homerl.envs.homeenv.tasks.situation import HomeSituation
from homerl.play.bench_results import read_bench_results
from homerl.play.trajectory import write_rows
from homerl.worlds.registry import begin_episode, known_suites

SHIPPED = [name for name, (_, suite) in known_suites().items() if is_shipped_suite(suite)]
HOMES = "smh-bench"
LAMPS = Path(__file__).parents[2] / "worlds/lamp"
RIGHT = "self.world.level == self.world.wanted,"


@pytest.fixture(scope="module")
def few(tmp_path_factory) -> str:
    """A file of three instances, which is read sooner than the suite."""
    path = tmp_path_factory.mktemp("few") / "few.jsonl"
    write_suite(iter(spread_evenly(read_suite(HOMES), 3)), path)
    return str(path)


def instances():
    return map(parse_instance, read_suite_lines(HOMES)[1])


@pytest.mark.parametrize("name", [name if name == HOMES else pytest.param(name, marks=pytest.mark.long) for name in SHIPPED])
def test_the_graders_of_shipped_suites_are_right(name):
    for setting in known_suites()[name][1].settings:
        found = validate_suite(name, setting, 2)
        assert not found.flawed and len(found.instances) == 2 and found.without_near_miss == 0, found.describe()


def test_a_grader_that_overlooks_a_goal_passes_a_near_miss(monkeypatch):
    suite = known_suites()[HOMES][1]
    several = (one for one in instances() if len(begin_episode(one.blueprint).situation.met()) > 1)
    instance = next(one for one in several if len({call.did for call in one.blueprint.intents[-1].plan}) > 1)
    right = HomeSituation.met
    monkeypatch.setattr(HomeSituation, "met", lambda self: right(self)[:1])
    assert "a near miss (without one device) passes" in validate_instance(suite, instance, "eia").flaws


def test_each_goal_that_an_instance_of_a_file_lacks_is_missed():
    """Whichever device is not checked, gold without its act passes, though the expert makes all calls in one code."""
    name = "smarthome-bench"
    line = json.loads(next(line for line in read_suite_lines(name)[1] if "-qt2-explicit-simple-" in line))
    goals = [intent["conditions"] for intent in line["blueprint"]["intents"]]
    places = [(goal, at) for goal in goals for at in range(len(goal))]
    assert len(places) > 1
    for goal, at in places:
        right, goal[at] = goal[at], f"{goal[at]} or {goal[at].replace('==', '!=')}"
        flaws = validate_instance(known_suites()[name][1], parse_instance(json.dumps(line)), "eia").flaws
        goal[at] = right
        assert any(flaw.startswith("a near miss (") and flaw.endswith(" passes") for flaw in flaws), (right, flaws)


def test_a_later_wish_that_holds_from_the_start_is_found():
    """Nothing fails there all the same, since the first wish is open."""
    line = next(one for one in map(json.loads, read_suite_lines(HOMES)[1]) if len(one["blueprint"]["intents"]) == 2)
    suite, (first, later) = known_suites()[HOMES][1], line["blueprint"]["intents"]
    assert first["conditions"] and not validate_instance(suite, parse_instance(json.dumps(line)), "eia").flaws
    later["conditions"] = [f"{one} or not ({one})" for one in later["conditions"]]
    flaws = validate_instance(suite, parse_instance(json.dumps(line)), "eia").flaws
    assert "nothing passes wish 2 of it" in flaws and "nothing passes" not in flaws


def fail(situation):
    raise ZeroDivisionError("no lamps")


CHANGED, HEARD = (lambda home: (home.home.state_key() != home.start.state_key(),)), (lambda home: (bool(home.heard.asked),))


@pytest.mark.parametrize(
    ("planted", "told"),
    [
        (HEARD, "nothing passes"),  # any words are enough
        (CHANGED, "a near miss ("),  # any change is enough
        (lambda home: (False,), "gold does not pass: it ended as step_limit, with 0 % of the goals met"),
        (fail, "the world or its expert fails: ZeroDivisionError: no lamps"),
    ],
)
def test_a_planted_fault_of_a_grader_is_named(few, monkeypatch, planted, told):
    monkeypatch.setattr(HomeSituation, "met", planted)
    monkeypatch.setattr(HomeSituation, "side_effects", lambda home: 0)
    if planted is HEARD:
        heard = HeardReplies(asked=frozenset({1}))
        monkeypatch.setattr(HomeSituation, "note_reply", lambda home, *args: setattr(home, "heard", heard))
    flaws = [flaw for one in validate_suite(few).flawed for flaw in one.flaws]
    assert any(flaw.startswith(told) for flaw in flaws), flaws


class ActsLeftOut(HomeSuite):
    """A suite that says nothing of near misses."""

    def near_misses(self, instance, setting):
        return None


def test_without_near_misses_of_its_own_acts_of_the_expert_are_left_out(monkeypatch):
    suite = ActsLeftOut(**vars(known_suites()[HOMES][1]))
    instance, other = (next(one for one in instances() if f"-{kind}-" in one.id) for kind in ("tc1", "tc7"))
    for one in (instance, other):
        found = validate_instance(suite, one, "eia")
        assert found.near_misses and not found.flaws
    monkeypatch.setattr(HomeSituation, "met", CHANGED)
    monkeypatch.setattr(HomeSituation, "side_effects", lambda self: 0)
    flaws = validate_instance(suite, instance, "eia").flaws
    assert any(flaw.startswith("a near miss (gold without ") for flaw in flaws), flaws


@pytest.mark.long  # two processes that load all
def test_the_command_fails_for_a_wrong_grader_of_a_strangers_suite(tmp_path):
    shutil.copytree(LAMPS, tmp_path / "worlds/lamp")
    situation = tmp_path / "worlds/lamp/situation.py"
    text = situation.read_text()
    assert RIGHT in text
    situation.write_text(text.replace(RIGHT, "False,"))
    worlds = {"HOMERL_WORLDS": str(tmp_path / "worlds"), "OMP_NUM_THREADS": "1"}
    assert forked.homerl("bench", "build", "lamp-bench", "--out", tmp_path, **worlds).returncode == 0
    done = forked.homerl("bench", "validate", tmp_path / "lamp-bench.jsonl", "--out", tmp_path / "found.jsonl", **worlds)
    said = " ".join((done.stdout + done.stderr).split())
    assert done.returncode == 1 and "the grader judges 12 of 12 instances wrongly" in said, said
    assert "lamp-bench, wall, grader version 1: 12 instances" in said and "lamp-bench-0: gold does not pass" in said
    rows = [json.loads(line) for line in (tmp_path / "found.jsonl").read_text().splitlines()]
    assert len(rows) == 12 and rows[0]["id"] == "lamp-bench-0" and rows[0]["flaws"]


def test_results_say_which_grader_judged_them(few, tmp_path):
    run_benchmark(BenchRun(few, "expert", tmp_path, limit=2))
    rows = read_bench_results(tmp_path)
    assert [row["grader"] for row in rows] == [1, 1] and "the same results" in rescore_run(tmp_path)
    older = [{key: value for key, value in row.items() if key != "grader"} for row in rows]
    write_rows(tmp_path / "results.jsonl", older)
    assert "the same results" in rescore_run(tmp_path)
    write_rows(tmp_path / "results.jsonl", [row | {"grader": 7} for row in rows])
    with pytest.raises(InputError, match="version 7 of the grader judged it, and this is version 1"):
        rescore_run(tmp_path)
