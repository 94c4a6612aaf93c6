"""The report: its figures are the files', its page escapes everything and asks nothing of the network."""

from __future__ import annotations

import io
import itertools
import json
import random
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
import yaml
from rich.console import Console

from homerl.bench.recipe import SuiteSettings
from homerl.bench.runner import HeldoutSuite, ParticipantFactories, run_suite
from homerl.bench.scores import paired_difference
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.play.episode import EpisodeLimits
from homerl.play.situation import Reply
from homerl.play.trajectory import read_rows, trajectory_from_row, trajectory_to_row, write_rows
from homerl.report import figures as charts
from homerl.report.pages.episode_pages import MODELS, PLAYERS
from homerl.report.pages.flywheel_report import (
    FlywheelReport,
    read_flywheel_run,
    success_cell,
    write_flywheel_report,
)
from homerl.rewards.composite import RewardWeights, step_rewards
from homerl.synth.shards import SynthesisStatistics
from homerl.worlds.contract import TreeStats

NASTY = """</pre><script>alert("x")</script><img src=x onerror=alert(1)> ]]> & "quoted" 'too' {{ 7 * 7 }}"""
SUITES = ("heldout", "new-names")
TASKS = 12  # of each suite
LIMITS = EpisodeLimits(turns=2, steps=4, steps_per_turn=2)


class Clueless:
    """An agent that greets."""

    name = "clueless"

    async def propose(self, observation, n=1):
        return [Reply({"role": "assistant", "content": "Hello!"}, tokens=2)]


# A run, made of real episodes where that is cheap and of curves of the usual shapes elsewhere


def make_run(out: Path, tasks: int) -> Path:
    out.mkdir(parents=True, exist_ok=True)
    (out / "recipe.yaml").write_text(
        yaml.safe_dump({
            "homerl": 1, "seed": 7, "run": "flywheel", "out": str(out),
            "model": {"name": None, "from_scratch": {"hidden_size": 128, "layers": 4, "words": []}},
            "rlve": {"credit": "step"},
            "bench": {"suites": [{"name": name} for name in SUITES]},
        }, sort_keys=False)
    )  # fmt: skip
    record = {
        "homerl": "0.1.0", "seed": 7, "python": "3.11.9", "commit": "93ac818" + "0" * 33,
        "packages": {"torch": "2.13.0", "transformers": "5.17.0", "trl": "1.16.0"},
        "command": ["accelerate-launch", "recipes/quickstart.yaml", "--note", "a b"],
    }  # fmt: skip
    (out / "run.json").write_text(json.dumps(record))
    _synthesis(out / "synth", random.Random(1))
    _lines(out / "sft/metrics.jsonl", _sft(random.Random(2)))
    _lines(out / "rlve/metrics.jsonl", _rlve(random.Random(3)))
    (out / "rlve/model").mkdir()
    agents = {"untrained": Clueless, "sft": lambda: Expert(1, 0.75), "rlve": lambda: Expert(2, 0.6)}
    agents["expert"] = lambda: Expert(0, 0.0)
    for model, agent in agents.items():
        for i, suite in enumerate(SUITES):
            settings = SuiteSettings(name=suite, recipe=BlueprintRecipe(), count=tasks, first_seed=1000 * i)
            run_suite(HeldoutSuite(settings, LIMITS), ParticipantFactories(agent), out / model / "bench" / suite)
    _rollouts(out)
    return out


def _synthesis(folder: Path, rng: random.Random) -> None:
    rows = []
    for i in range(600):
        rollouts = rng.randint(4, 6)
        successes = sum(rng.random() < 0.55 for _ in range(rollouts))
        stats = TreeStats(rollouts, successes, nodes=10, steps_run=8, steps_linear=10)
        rows.append({"id": f"train-{i}", "outcome": "success" if successes else "agent_failure"} | stats.to_row())
    dropped = Counter({"author: home offers too little": 41, "consistent: two conditions contradict": 12})
    _lines(folder / "blueprints.jsonl", rows)
    report = SynthesisStatistics()
    report.add_shard_stats({"blueprints": rows, "dropped": dropped})
    report.kept = 877
    (folder / "stats.json").write_text(json.dumps(report.summarise_synthesis()))


def _sft(rng: random.Random) -> Iterator[dict]:
    for step in range(1, 600, 5):
        left = 0.985**step
        yield {
            "step": step, "loss": 0.35 + 6.5 * left + rng.gauss(0, 0.04), "num_tokens": 3900.0 * step,
            "learning_rate": 1.5e-3 * (1 - step / 600),
            "mean_token_accuracy": min(1.0, 0.9 - 0.88 * left + rng.gauss(0, 0.01)),
        }  # fmt: skip
    yield {"step": 596, "train_runtime": 372.5, "train_loss": 0.8}


def _rlve(rng: random.Random) -> Iterator[dict]:
    for step in range(1, 121):
        success = min(1.0, max(0.0, 0.55 + 0.25 * (1 - 0.97**step) + rng.gauss(0, 0.05)))
        lost = 1 - success
        row = {
            "step": step, "num_tokens": 9e3 * step, "success": success,
            "reward": 2 * success - 0.3 + rng.gauss(0, 0.05),
            "entropy": 0.1 + 0.25 * 0.98**step + rng.gauss(0, 0.01),
            "kl": 0.02 * (1 - 0.98**step) + abs(rng.gauss(0, 0.001)),
            "sentinel/zero_advantage": 0.3 + 0.2 * success,
            "outcome/success": success, "outcome/agent_failure": 0.5 * lost, "outcome/step_limit": 0.3 * lost,
        }  # fmt: skip
        if step % 2:  # an outcome that not every update sees
            row["outcome/turn_limit"] = 0.2 * lost
        else:
            row["outcome/step_limit"] = 0.5 * lost
        for i in range(6):
            row[f"credit_by_step/mass/{i}"] = max(0.0, 0.6**i * (0.5 + rng.gauss(0, 0.05)))
            row[f"reward_by_step/progress/{i}"] = 0.7 * 0.5**i + rng.gauss(0, 0.02)
            row[f"reward_by_step/audit/{i}"] = -0.05 * i * 0.985**step
        yield row
    yield {"step": 120, "train_runtime": 512.0}


def _rollouts(out: Path) -> None:
    """An update's rollouts: episodes with the rewards of their steps."""
    played = (trajectory_from_row(row) for row in read_rows(out / "rlve/bench/heldout/trajectories.jsonl"))
    weights = RewardWeights(collateral=0.2)
    rows = [
        trajectory_to_row(replace(t, rewards=tuple(step_rewards(step.facts, weights) for step in t.steps))) for t in played
    ]
    for update in (110, 120):
        write_rows(out / f"rlve/rollouts/update_{update:06d}.jsonl", rows[:16])


def _lines(path: Path, rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return make_run(tmp_path_factory.mktemp("runs") / "quickstart", tasks=TASKS)


@pytest.fixture
def run(made, tmp_path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "run"))


def score_of(out: Path, model: str, suite: str) -> dict:
    return json.loads((out / model / "bench" / suite / "score.json").read_text())


def printed(report: FlywheelReport, width: int = 100) -> str:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    console.print(report.table)
    return console.file.getvalue()


class Page(HTMLParser):
    """Which elements a page has, what they link to, and their text; unclosed ones are an error."""

    VOID = ("meta", "link", "br", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: Counter[str] = Counter()
        self.links: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        assert not self.open, f"not closed: {self.open}"
        self.text = " ".join("".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.links += [value for name, value in attributes if name in ("src", "href", "xlink:href", "action")]
        assert not [name for name, _ in attributes if name.startswith("on")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


def page_of(report: FlywheelReport) -> Page:
    return Page(report.page.read_text(encoding="utf-8"))


# The table


def test_a_cell_of_fewer_tasks_says_so():
    score = {"n": 60, "success": 0.0, "interval": (0.0, 0.06)}
    assert "n=60" in success_cell(score, 600).plain and "n=" not in success_cell(score, 60).plain + success_cell(score).plain


def test_table_says_the_figures_of_score_json(run):
    text = printed(write_flywheel_report(run))
    for model, name in MODELS.items():
        line = next(line for line in text.splitlines() if line.strip().startswith(name))
        said = [float(number) for number in re.findall(r"\d+\.\d+", line)]
        expected = []
        for suite in SUITES:
            score = score_of(run, model, suite)
            expected += [round(100 * share, 1) for share in (score["success"], *score["interval"])]
        first = score_of(run, model, SUITES[0])
        assert said == [
            *expected,
            round(100 * first["phi"], 1),
            round(first["tool_calls"], 2),
            *([round(first["tokens"], 1)] if first["tokens"] else []),  # scripted agents count none
        ]


def test_the_expert_stands_below_as_the_upper_bound_and_is_no_model_of_the_run(run):
    report = write_flywheel_report(run)
    lines = [line.strip() for line in printed(report).splitlines()]
    models = [line.split("  ")[0] for line in lines if line.split("  ")[0] in {*MODELS.values(), "expert"}]
    assert models == [*MODELS.values(), "expert"] and "(upper bound)" in lines
    score = score_of(run, "expert", SUITES[0])
    assert f"expert (upper bound) {100 * score['success']:.1f} %" in page_of(report).text
    assert read_flywheel_run(run).shown_model == "rlve" and "no model is told that" in page_of(report).text
    shutil.rmtree(run / "expert")
    report = write_flywheel_report(run)
    assert "upper bound" not in printed(report) + page_of(report).text


def test_success_by_category_stands_below_so_that_a_mean_hides_nothing(run):
    assert "QT3 IF" not in printed(write_flywheel_report(run))
    parts = {"QT3 F": (30, 0.2, (0.1, 0.373)), "QT3 IF": (10, 0.9, (0.596, 0.982))}
    by = {name: dict(zip(("n", "success", "interval"), part)) for name, part in parts.items()}
    path = run / "sft/bench/heldout/score.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"by_category": by}))
    report = write_flywheel_report(run)
    (line,) = (line for line in printed(report).splitlines() if "QT3 IF" in line)
    assert line.split() == ["QT3", "IF", "10", "90.0", "%", "59.6–98.2"]
    assert "QT3 F, n=30" in page_of(report).text and "20.0 % 10.0 to 37.3" in page_of(report).text


def test_table_says_the_paired_gain_of_each_suite_in_100_columns(run):
    text = printed(write_flywheel_report(run))
    assert max(map(len, text.splitlines())) <= 100
    assert "…" not in text
    for suite in SUITES:
        before, after = (list(read_rows(run / m / "bench" / suite / "results.jsonl")) for m in ("sft", "rlve"))
        gain = paired_difference(before, after)
        low, high = (f"{100 * bound:+.1f}".replace("-", "−") for bound in gain["interval"])
        points = f"{100 * gain['gain']:+.1f}".replace("-", "−")
        assert f"RLVE − SFT on {suite}: {points} points (95 % {low} to {high})" in text


def test_gain_leaves_out_episodes_that_do_not_count(run):
    path = run / "rlve/bench/heldout/results.jsonl"
    rows = list(read_rows(path))
    rows[0] |= {"outcome": "infra_error", "success": False}
    write_rows(path, rows)
    assert read_flywheel_run(run).gains["heldout"]["n"] == len(rows) - 1


# The page


def test_page_says_the_figures_and_what_the_run_was(run):
    page = page_of(write_flywheel_report(run))
    for model in MODELS:
        for suite in SUITES:
            score = score_of(run, model, suite)
            low, high = score["interval"]
            assert f"{100 * score['success']:.1f} % {100 * low:.1f} to {100 * high:.1f}" in page.text
    stats = json.loads((run / "synth/stats.json").read_text())
    for said in (
        f"Rollouts{stats['rollouts']:,}", "Trajectories kept877", f"{100 * stats['generation_success']:.1f} %",
        "home offers too little", "93ac818",
        "torch 2.13.0", "accelerate-launch recipes/quickstart.yaml --note 'a b'", f"homerl export {run} --to",
        "120 updates", "step limit", "Credit mass", "KL to the SFT model", "the task: ",
        "from scratch (hidden_size 128, layers 4)",
    ):  # fmt: skip
        assert said in page.text, said
    assert page.tags["svg"] == len(PLAYERS) * len(SUITES) + 2 + 8 + 1


def test_page_shows_three_successes_and_three_failures_and_rewards_of_training(run):
    shown = read_flywheel_run(run)
    assert [t.success for t in shown.examples] == [True] * 3 + [False] * 3
    page = page_of(write_flywheel_report(run))
    for trajectory in shown.examples:
        assert trajectory.blueprint["id"] in page.text
        for step in trajectory.steps:
            for text in (step.facts.code, *step.observations):
                assert not text or " ".join(text.split()) in page.text
    assert [t.success for t in shown.rollouts] == [True, False]
    assert "progress +" in page.text


def test_page_needs_no_network_and_leads_to_its_own_pages_alone(run):
    report = write_flywheel_report(run)
    page, text = page_of(report), report.page.read_text(encoding="utf-8")
    assert page.tags["script"] == 1
    assert all(link == "data:," or link.startswith("dialogues/") for link in page.links)
    assert "url(" not in text and "@import" not in text
    assert len(text) < 400_000


def test_everything_of_the_run_is_escaped(run):
    row = next(read_rows(run / "rlve/bench/heldout/trajectories.jsonl"))
    t = trajectory_from_row(row)
    call = {"type": "function", "function": {"name": NASTY, "arguments": NASTY}}
    message = {"role": "assistant", "content": NASTY, "tool_calls": [call]}
    facts = replace(t.steps[0].facts, code=NASTY, blocked=(NASTY,), turn=1)
    steps = (replace(t.steps[0], message=message, observations=(NASTY,), facts=facts),)
    blueprint = t.blueprint | {"id": NASTY, "scene": NASTY}
    messages = ({"role": "system", "content": NASTY}, {"role": "user", "content": NASTY})
    bad = replace(t, steps=steps, blueprint=blueprint, messages=messages, rewards=({NASTY: 1.0},))
    write_rows(run / "rlve/bench/heldout/trajectories.jsonl", [trajectory_to_row(bad)])
    record = json.loads((run / "run.json").read_text())
    record |= {"command": [NASTY], "commit": NASTY, "packages": {NASTY: NASTY}}
    (run / "run.json").write_text(json.dumps(record))
    stats = json.loads((run / "synth/stats.json").read_text())
    (run / "synth/stats.json").write_text(json.dumps(stats | {"dropped": {f"{NASTY}: {NASTY}": 1}}))
    page = page_of(write_flywheel_report(run))
    assert page.tags["script"] == 1 and not page.tags["img"]
    dialogues = Page((run / "dialogues/rlve-heldout.html").read_text(encoding="utf-8"))
    assert dialogues.tags["script"] == 1 and not dialogues.tags["img"] and NASTY in "".join(dialogues.words)
    assert page.text.count(" ".join(NASTY.split())) >= 8
    assert "49" not in re.findall(r"too' (\d+)", page.text)


def test_text_that_is_no_unicode_is_told_with_its_line(run):
    """homerl writes none: the file was edited."""
    path = run / "rlve/bench/heldout/trajectories.jsonl"
    rows = list(read_rows(path))
    rows[0]["messages"][1]["content"] = "half \ud800 a pair"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InputError, match=r"trajectories\.jsonl:1: holds half a character"):
        write_flywheel_report(run)


def test_all_tasks_are_in_a_table_that_leads_to_their_dialogues(run):
    """Each row has the task's kind and, for each model, its outcome and reward; each link leads to the dialogue."""
    report = write_flywheel_report(run)
    page = page_of(report)
    report_rows = re.findall(r'<tr class="entry".*?</tr>', report.page.read_text(), re.DOTALL)
    assert len(report_rows) == 2 * TASKS
    for suite in SUITES:
        for number, result in enumerate(read_rows(run / "rlve/bench" / suite / "results.jsonl")):
            row = report_rows[number + TASKS * SUITES.index(suite)]
            assert f'data-suite="{suite}" data-kind="{"|".join(dict.fromkeys(result["families"]))}"' in row
            assert f'data-rlve="{result["outcome"]}"' in row
            link = f"dialogues/rlve-{suite}.html#{result['id']}"
            assert link in page.links and f'id="{result["id"]}"' in (run / link.partition("#")[0]).read_text()
    trajectory = next(map(trajectory_from_row, read_rows(run / "expert/bench/heldout/trajectories.jsonl")))
    earned = sum(sum(step_rewards(step.facts, RewardWeights()).values()) for step in trajectory.steps)
    assert f"{earned:+.2f}" in report_rows[0]


# Partial runs


WITHIN = (  # folders that are tried too
    "synth/blueprints.jsonl", "sft/metrics.jsonl", "rlve/rollouts", "rlve/bench/heldout", "rlve/bench/heldout/results.jsonl",
)  # fmt: skip


@pytest.mark.parametrize(
    "lost",
    [
        "recipe.yaml", "run.json", "synth", "synth/stats.json", "sft", "rlve", "rlve/metrics.jsonl", "untrained",
        "rlve/bench", "rlve/bench/heldout/trajectories.jsonl", "rlve/bench/heldout/score.json",
        *(pytest.param(lost, marks=pytest.mark.long) for lost in WITHIN),
    ],
)  # fmt: skip
def test_a_missing_part_is_left_out(run, lost):
    path = run / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    report = write_flywheel_report(run)
    page_of(report)
    assert "after" in printed(report)


def test_an_empty_folder_makes_a_report(tmp_path):
    report = write_flywheel_report(tmp_path)
    assert "nothing was benchmarked yet" in printed(report)
    assert page_of(report).tags["section"] == 1


def test_a_run_that_is_called_a_dot_has_the_name_of_its_folder(run, monkeypatch):
    monkeypatch.chdir(run)
    report = write_flywheel_report(Path())
    assert f"<h1>{run.name}</h1>" in (run / "report.html").read_text()
    assert dict(report.next)["The same with another seed"].endswith(f" --out {run.name}-seed8")


def test_stages_that_have_just_begun(run):
    """One line of metrics, a line cut by a kill, no number at all, a suite of which no episode counted."""
    for stage in ("sft", "rlve"):
        path = run / stage / "metrics.jsonl"
        first = path.read_text().splitlines()[0]
        path.write_text(f'{first}\n{{"step": 2, "loss": NaN, "reward": NaN, "success": NaN}}\n{{"step": 3, "lo')
    (run / "untrained/bench/heldout/score.json").write_text(json.dumps({"n": 0, "outcomes": {"infra_error": TASKS}}))
    report = write_flywheel_report(run)
    assert "no episode counted" in page_of(report).text
    assert "nan" not in report.page.read_text().lower().replace("nance", "")


def test_prefixed_rollouts_have_a_curve_where_there_are_any(run):
    assert "Prefixed rollouts" not in page_of(write_flywheel_report(run)).text
    path = run / "rlve/metrics.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    for shares, shown in (([0.0] * len(rows), False), ([0.5 - row["step"] / 240 for row in rows], True)):
        given = (row | {"curriculum/prefixed": share} for row, share in zip(rows, shares, strict=True))
        path.write_text("".join(json.dumps(row) + "\n" for row in given))
        assert ("Prefixed rollouts" in page_of(write_flywheel_report(run)).text) is shown


def test_without_rlve_the_page_shows_sft_and_how_to_go_on(run):
    shutil.rmtree(run / "rlve")
    report = write_flywheel_report(run)
    assert read_flywheel_run(run).shown_model == "sft"
    text = page_of(report).text
    assert "The model after SFT on the first" in text
    assert "Go on where this run stopped" in text
    assert "RLVE − SFT" not in printed(report)


# Charts


@pytest.mark.parametrize(
    ("low", "high"),
    [(0.0, 1.0), (0.0, 0.037), (-0.3, 1.7), (2.0, 2.0), (0.0, 7345.0), (-5.0, -1.0), (0.0, 0.0)],
)
def test_ticks_enclose_and_are_few(low, high):
    ticks = charts.nice_ticks(low, high)
    assert ticks[0] <= low and ticks[-1] >= high - 1e-9 and 2 <= len(ticks) <= 7
    assert len({round(b - a, 9) for a, b in itertools.pairwise(ticks)}) == 1


def test_long_curves_are_thinned_and_keep_their_ends_and_mean():
    points = [(i, float(i % 7)) for i in range(5001)]
    thin = charts.thin_points(points)
    assert len(thin) <= charts.MOST and thin[0] == points[0] and thin[-1][0] == 5000
    assert sum(y for _, y in thin) / len(thin) == pytest.approx(3, abs=0.05)
    assert charts.thin_points(points[: charts.MOST]) == points[: charts.MOST]


def test_a_trend_of_a_line_is_the_line():
    assert charts.local_trend([2.0 * i for i in range(20)], 5) == pytest.approx([2.0 * i for i in range(20)])
    assert charts.local_trend([1.0, 3.0], 1) == pytest.approx([2.0, 2.0])
    assert charts.local_trend([1.0, 3.0], 0) == [1.0, 3.0]


def test_histogram_counts_every_value_once():
    chart = charts.histogram_chart("h", [0.0, 0.05, 0.3, 0.6, 1 - 2 / 5, 1.0])
    assert [int(n) for n in re.findall(r": (\d+)</title>", chart)] == [2, 0, 0, 1, 0, 0, 2, 0, 0, 1]


def test_shares_are_in_percent_and_a_heat_map_says_what_its_colours_mean():
    assert "75 %</text>" in charts.histogram_chart("h", [0.5])
    chart = charts.heat_map("h", {0: [(1, 0.25), (2, -0.5)]})
    assert "full colour: 0.5</text>" in chart
    height = float(re.search(r'viewBox="0 0 360 ([\d.]+)"', chart)[1])
    assert max(float(y) for y in re.findall(r'<text[^>]* y="([\d.]+)"', chart)) < height
    assert "\N{MINUS SIGN}0.5</text>" in charts.line_chart("l", [(1, 0.0), (2, -1.0)])


def test_charts_of_too_little_are_empty_and_labels_are_escaped():
    assert not charts.line_chart("x", [(1, 2.0)]) and not charts.heat_map("x", {}) and not charts.histogram_chart("x", [])
    assert not charts.stacked_area("x", [1], {"a": [1.0]})
    assert "<b>" not in charts.line_chart('"<b>', [(0, 1.0), (1, 2.0)])


# The browser


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_page_in_a_real_browser(made, browser, width, scheme):
    """No error, no request, no sideways scrolling, nothing sticks out of the page, in both modes."""
    report = write_flywheel_report(made)
    context = browser.new_context(viewport={"width": width, "height": 844}, color_scheme=scheme)
    page, said, asked = context.new_page(), [], []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.page.as_uri())
    page.evaluate("document.querySelectorAll('details').forEach(d => d.open = true)")
    assert not said
    assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate(STICKING_OUT) == []
    if width == 390:
        assert page.evaluate("[...document.querySelectorAll('pre')].filter(e => e.scrollWidth > e.clientWidth).length") == 0
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(255, 255, 255)" if scheme == "light" else "rgb(15, 19, 24)"
    )
    context.close()


STICKING_OUT = """
[...document.querySelectorAll('main *, header *')]
  .filter(e => !e.closest('.scroll, svg') && e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 120))
"""


@pytest.mark.long
def test_the_table_of_tasks_is_filtered_by_kind_outcome_and_words(run, browser):
    report = write_flywheel_report(run)
    page = browser.new_page()
    page.goto(f"file://{report.page}")
    shown = page.locator("tr.entry:visible")
    assert shown.count() == 80
    page.select_option("select[name=suite]", SUITES[1])
    page.select_option("select[name=rlve]", "success")
    row = shown.first
    words = " ".join(row.locator("td").first.inner_text().split()[:2])
    assert 0 < shown.count() < TASKS and {one.get_attribute("data-rlve") for one in shown.all()} == {"success"}
    page.fill("input[name=words]", words.upper())
    said = [one.inner_text().lower() for one in shown.all()]
    assert said and all(word.lower() in text for text in said for word in words.split())
    row.locator("a").last.click()
    assert "/dialogues/" in page.url and page.locator(".entry:target details[open]").count() == 1
    page.close()
