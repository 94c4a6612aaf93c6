"""The page of an episode: everything on one axis, everything escaped, nothing wider than a phone."""

from __future__ import annotations

import json
import re
from collections import Counter
from functools import cache
from html import escape
from html.parser import HTMLParser

import pytest

from homerl.bench.suites import read_suite
from homerl.envs.simuhome.bench.suite import SimuHomeInstance, play_simuhome_instance
from homerl.envs.simuhome.pages.episode import SimuHomePage, device_names, plain_goal_texts, render_simuhome_page
from homerl.envs.simuhome.tasks.expert import BASELINES, FixedAnswerAgent
from homerl.envs.simuhome.tasks.situation import exact_goal_texts as exact_goals
from homerl.worlds.registry import begin_episode

NASTY = "</style><script>alert(1)</script><img src=x onerror=alert(1)> & \"two\" 'three' {{ 7 * 7 }}"
PLACES = (75, 120, 420, 520)


@cache
def suite() -> list[SimuHomeInstance]:
    return read_suite("simuhome")


@cache
def played_by_expert(line):
    return play_simuhome_instance(suite()[line], BASELINES["expert"]())


def played(line, agent=None):
    return play_simuhome_instance(suite()[line], agent) if agent else played_by_expert(line)


@pytest.mark.parametrize("line", PLACES)
def test_what_is_drawn_is_what_happened(line):
    trajectory = played(line)
    drawn = SimuHomePage(trajectory)
    assert {room.name for room in drawn.rooms} == set(trajectory.blueprint["home"]["rooms"])
    assert all(len(room.plots) == 4 for room in drawn.rooms)
    assert [mark.number for mark in drawn.calls] == list(range(1, trajectory.tool_calls + 1))
    assert all(met for *_, met in drawn.goals) and drawn.replay.situation.final_answer
    assert all(window.tone == "met" and window.left >= 0 and window.left + window.width <= 100 for window in drawn.windows)
    assert all(flow.tone == "completed" for flow in drawn.flows)
    goals = trajectory.blueprint["task"]["eval"]["goals"]
    if trajectory.blueprint["intents"][0]["subcategory"] == "feasible" and goals[0].get("targets"):
        moving = {id for room in drawn.rooms for id, _ in room.moving}
        assert drawn.flows and {t["device_id"] for goal in goals for t in goal["targets"]} <= moving
    for room in drawn.rooms:
        for _, spans in room.moving:
            assert spans[0].left == 0 and abs(spans[-1].left + spans[-1].width - 100) < 1e-6
            assert all(
                abs(a.left + a.width - b.left) < 1e-6 and (a.text, a.level) != (b.text, b.level)
                for a, b in zip(spans, spans[1:])
            )


def test_who_does_nothing_leaves_curves_as_they_were():
    drawn = SimuHomePage(played(120, BASELINES["nothing"]()))
    assert all(plot.curve == plot.untouched for room in drawn.rooms for plot in room.plots)
    assert not all(met for *_, met in drawn.goals)
    moved = SimuHomePage(played(120))
    assert any(plot.wanted and plot.curve != plot.untouched for room in moved.rooms for plot in room.plots)


def test_the_key_names_the_colours_that_are_drawn():
    held, missed = (render_simuhome_page(played(420, agent)) for agent in (None, BASELINES["nothing"]()))
    assert "must hold, and did</span>" in held and "must hold, and did not" not in held and "paused" not in held
    assert "must hold, and did not</span>" in missed and "must hold, and did</span>" not in missed


def test_beside_a_device_that_changes_stands_how_it_ends():
    drawn = SimuHomePage(played(420))
    ends = [spans[-1].text for room in drawn.rooms if room.concerned for _, spans in room.moving]
    page = render_simuhome_page(played(420))
    assert ends and all(f"<small>→ {text}</small>" in page for text in ends)


def test_a_goal_names_a_place_once():
    assert all(exact.count("living_room") <= 1 for _, exact, _ in SimuHomePage(played(2)).goals)


def test_goals_are_in_peoples_words_with_units_and_keep_the_exact_path_as_a_title():
    tasks = [json.dumps(one.blueprint.model_dump(mode="json")["task"]) for one in suite()]
    line = next(at for at, task in enumerate(tasks) if '100ths", "value":' in task)
    drawn = SimuHomePage(played(line))
    said, exact = (" ".join(column) for column in list(zip(*drawn.goals))[:2])
    assert "100ths" in exact and "1.WindowCovering" in exact
    assert "blinds" in said and " % closed" in said and "100ths" not in said and "1." not in said
    page = render_simuhome_page(played(line))
    assert all(f'title="{escape(text)}"' in page for _, text, _ in drawn.goals)
    assert not re.search(r"WindowCovering|_controller", re.sub(r'title="[^"]*"|<ol class="steps">.*', "", page, flags=re.S))


def test_every_episode_of_the_suite_is_said_without_identifiers():
    for instance in suite()[::3]:
        blueprint = instance.blueprint.model_dump(mode="json")
        devices = begin_episode(instance.blueprint, instance.limits_for("eia")).situation.home.plan.devices
        said = list(plain_goal_texts(blueprint["task"], devices))
        assert len(said) == len(exact_goals(blueprint))
        assert not [text for text in said if re.search(r"[a-z]_[a-z]|[a-z][A-Z]|100ths", re.sub(r"get_\w+", "", text))]


def test_a_device_has_a_number_only_beside_another_of_its_kind():
    plan = begin_episode(suite()[420].blueprint, suite()[420].limits_for("eia")).situation.home.plan
    names = device_names(plan.devices.values())
    for room, devices in plan.devices_by_room.items():
        kinds = Counter(device.type.name for device in devices)
        assert all(names[d.id][-1].isdigit() == (kinds[d.type.name] > 1) for d in devices), room


class Parser(HTMLParser):
    """Every element closed, nothing from elsewhere."""

    VOID = ("meta", "link", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags = [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        assert not any(name.startswith("on") or str(value).startswith("http") for name, value in attributes)
        self.open += [] if tag in self.VOID else [tag]

    def handle_startendtag(self, tag, attributes):
        self.tags.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def test_all_text_is_escaped():
    text = render_simuhome_page(played(310, FixedAnswerAgent(NASTY, NASTY)))
    tags = Parser(text).tags
    assert tags.count("script") == 1 and "img" not in tags, "the only script is the page's own"
    assert "49" not in re.findall(r"answer</b>(.*?)</p>", text)[0]
    assert text == render_simuhome_page(played(310, FixedAnswerAgent(NASTY, NASTY)))


@pytest.fixture(scope="module")
def pages() -> list[str]:
    """Drawn before there is a browser, which has an event loop of its own."""
    return [render_simuhome_page(played(line)) for line in PLACES]


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_its_window(pages, browser, tmp_path, width, scheme):
    path = tmp_path / "page.html"
    for text in pages:
        path.write_text(text)
        context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
        tab = context.new_page()
        tab.goto(path.as_uri())
        assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
        context.close()


@pytest.mark.long
def test_what_came_after_a_call_is_veiled(pages, browser, tmp_path):
    (tmp_path / "page.html").write_text(pages[1])
    tab = browser.new_page()
    tab.goto((tmp_path / "page.html").as_uri())
    lane, veil = tab.locator(".room .lane").first, tab.locator(".room .ahead").first
    assert veil.bounding_box()["width"] <= 2  # at first, all of it is shown
    start, back, _, forward = tab.locator("#replay button").all()
    assert forward.is_disabled()
    back.click()
    some = veil.bounding_box()["width"]
    assert 2 < some <= lane.bounding_box()["width"]
    start.click()
    assert veil.bounding_box()["width"] >= some and back.is_disabled()
    tab.keyboard.press("ArrowRight")
    assert tab.locator("input[name=at]:checked").get_attribute("id") == "at-1"
    tab.close()
