"""The page of a household: every fact has a place and the right mark, all is escaped, and it works in a real browser."""

from __future__ import annotations

import asyncio
import json
from functools import lru_cache
from html.parser import HTMLParser
from pathlib import Path

import pytest
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import call_message, text_message, tool_call
from homerl.envs.personalhome.pages import household_page
from homerl.envs.personalhome.pages.household_page import (
    EpisodeMarks,
    EpisodeReplay,
    EpisodeView,
    HouseholdPage,
    render_household,
    replay_episode,
)
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.tasks.author import make_personalhome_blueprint
from homerl.envs.personalhome.tasks.blueprint import KINDS, PersonalHomeRecipe
from homerl.envs.personalhome.tasks.expert import BASELINES
from homerl.envs.personalhome.tasks.plan_rules import reference_plan
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import Trajectory, trajectory_to_row, write_rows
from homerl.report.pages.episode_pages import find_episodes
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.pages.test_view_home import CONTRAST

NASTY = "</style><script>alert(1)</script><img src=x onerror=alert(1)> & \"two\" 'three' {{ 7 * 7 }}"
LIMITS = EpisodeLimits(1, 40, 40)


class Curious:
    """Makes each call of a list, then says something."""

    name = "curious"

    def __init__(self, calls, words):
        self.messages = [*(call_message(tool_call(name, given)) for name, given in calls), text_message(words)]

    async def consult(self, episode, n=1):
        return [Reply(self.messages[len(episode.steps)])]


@lru_cache
def blueprint(kind, seed=15, language="en", scenes=False, setting="agentic"):
    household = {"language": language}
    recipe = PersonalHomeRecipe(world="personalhome", tasks={kind: 1}, scenes=scenes, setting=setting, household=household)
    return make_personalhome_blueprint(recipe, "heldout", seed)


def played(blueprint, agent="expert") -> Trajectory:
    agent = BASELINES[agent]() if isinstance(agent, str) else agent
    return asyncio.run(play(begin_episode(blueprint, LIMITS), agent, ScriptedUser()))


def replay_of(blueprint, agent="expert") -> EpisodeReplay:
    return replay_episode(played(blueprint, agent), "here")


def page_of(replay: EpisodeReplay) -> HouseholdPage:
    return HouseholdPage(replay.blueprint.household, EpisodeView(replay))


def rendered(replay: EpisodeReplay) -> str:
    return render_household(replay.blueprint.household, replay)


class Page(HTMLParser):
    """Rows by fact, ids, links and words of a page; every element closed, nothing from elsewhere."""

    VOID = ("meta", "link", "input", "br")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open, self.tags, self.ids, self.links, self.words, self.rows = [], [], [], [], [], {}
        self.feed(text)
        self.close()
        assert not self.open
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        self.tags.append(tag)
        self.ids += [given["id"]] if "id" in given else []
        self.links += [given[name] for name in ("href", "src") if name in given]
        assert not any(name.startswith("on") for name in given)
        self.rows |= dict.fromkeys((given.get("data-facts") or "").split(), given)
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


# What is on the page


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_household_has_all_that_agents_may_see_and_the_situations(language):
    household = make_household(32, HouseholdRecipe(language=language))
    page, view = Page(render_household(household)), HouseholdPage(household)
    told = [household.layout, *view.situation_names, *(view.member_names.values()), *(pet.name for pet in household.pets)]
    told += [one.memory for one in household.memories] + [one.description for one in household.context.events]
    told += [text for one in household.members for text in (one.persona, one.lifestyle, one.preference) if text]
    told += [event.description for one in household.members for event in one.major_events]
    for text in told:
        assert " ".join(text.split()) in page.text
    assert {f"state:{device['did']}" for device in household.home["devices"]} <= page.rows.keys()
    assert not any(row["data-tags"].strip().startswith(("read", "needed")) for row in page.rows.values())
    assert "What the agent did" not in page.text and len(page.ids) == len(set(page.ids))


@pytest.mark.parametrize("scenes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_every_fact_has_a_place_and_a_mark(kind, scenes):
    replay = replay_of(blueprint(kind, scenes=scenes))
    page, needed = Page(rendered(replay)), {*replay.blueprint.task.evidence}
    assert {*replay.first, *needed} <= page.rows.keys()
    for id, step in replay.first.items():
        assert str(step) in page.rows[id]["data-steps"].split() and "read" in page.rows[id]["data-tags"].split()
    for id in needed:
        assert "needed" in page.rows[id]["data-tags"].split() and "missed" not in page.rows[id]["data-tags"].split()


def test_who_calls_every_tool_sees_nothing_that_has_no_place():
    one = blueprint("plans", scenes=True)
    household = one.household
    member, devices = household.members[0].member_id, [device["did"] for device in household.home["devices"]]
    rooms = [room["id"] for room in household.home["rooms"]]
    calls = [
        ("get_household_profile", {}),
        ("get_household_member_info", {"member_ids": [member]}),
        ("get_household_member_major_events", {"member_id": member}),
        ("get_weather", {}),
        ("get_household_memories", {"search_string": "", "num_memories": 50}),
        ("get_owned_sensors", {}),
        ("get_appliances_by_location", {"locations": rooms}),
        ("get_sensors_by_location", {"locations": rooms}),
        ("get_appliance_and_sensor_events", {"names": devices}),
        ("extract_captions", {}),
        ("get_layout_zones", {}),
        ("run_appliance_feature", {"appliance_name": "lock", "feature_method": "get_access_logs"}),
    ]
    replay = replay_of(one, Curious(calls, "[]"))
    page = Page(rendered(replay))
    assert replay.first.keys() <= page.rows.keys()
    assert {id.partition(":")[0] for id in replay.first} >= {
        "profile", "member", "life", "pet", "memory", "weather", "sensor", "state", "appliance", "scene", "result",
    }  # fmt: skip


def test_what_was_needed_and_never_read_is_marked_and_only_then():
    page = Page(rendered(replay_of(blueprint("grounding"), "nothing")))
    marks = [row["data-tags"].split() for row in page.rows.values()]
    assert any("missed" in tags for tags in marks) and not any("read" in tags for tags in marks)
    assert "needed, never read" in page.text and "showed nothing new" in page.text
    told = Page(rendered(replay_of(blueprint("grounding", setting="sole"))))
    assert not any("missed" in row["data-tags"].split() for row in told.rows.values())
    assert "the agent was told the whole household" in told.text


def test_of_several_facts_the_one_that_was_missed_decides():
    marks = EpisodeMarks({"state:tv": 2, "features:tv": 1}, frozenset({"features:tv", "appliance:tv"}))
    assert (marks.mark_of("features:tv").tone, marks.mark_of("state:tv").tone, marks.mark_of("appliance:tv").tone) == (
        "both",
        "read",
        "missed",
    )
    both = marks.mark_of("state:tv", "features:tv", "appliance:tv")
    assert (both.tone, both.steps, both.tags) == ("missed", (1, 2), "read needed missed")
    assert marks.mark_of("features:tv").text == "needed, read in step 1" and marks.mark_of("weather").text == ""


def test_a_mark_holds_from_the_step_that_earned_it():
    first, needed = {"state:tv": 1, "features:tv": 3, "name:tv": 5}, frozenset({"features:tv"})
    marks = EpisodeMarks(first, needed)
    assert marks.mark_of("state:tv", "features:tv", "name:tv").since == 3, "what was needed is read"
    assert marks.mark_of("state:tv", "name:tv").since == 1
    assert marks.mark_of("features:fan").since == "end" == EpisodeMarks({}, needed).mark_of("features:tv").since
    assert EpisodeMarks({}, needed, told=True).mark_of("features:tv").since == 0


def test_every_memory_has_a_dot_in_its_month_for_each_of_its_people():
    page = HouseholdPage(make_household(32, HouseholdRecipe()))
    months = page.memory_timeline
    for lane in months.lanes:
        for column, cell in zip(months.columns, lane.cells, strict=True):
            assert all(f"{entry.time:%b %Y}" == f"{column.label} {column.group}" for entry in cell)
    dots = {entry.id for lane in months.lanes for cell in lane.cells for entry in cell}
    assert dots == {entry.id for entry in page.memory_entries} and [lane.name for lane in months.lanes][:5] == [
        *page.member_names.values()
    ]
    assert sum(width for _, width in months.column_groups) == len(months.columns)
    for lane in page.event_timeline.lanes:
        for column, cell in zip(page.event_timeline.columns, lane.cells, strict=True):
            assert all(f"{entry.time:%m-%d %H}" == f"{column.group} {column.label}" for entry in cell)


# The task


def test_the_answers_and_the_choices_are_those_of_the_task():
    replay = replay_of(blueprint("grounding"))
    rows = EpisodeView(replay).answer_views
    assert [row.label for row in rows] == ["Question", "Counterfactual 1", "Counterfactual 2"] and all(
        row.ok for row in rows
    )
    assert {row.changed for row in rows} == {None, True, False}
    replay = replay_of(blueprint("choice"), "first")
    options = EpisodeView(replay).option_views
    assert [one.letter for one in options if one.chosen] == ["A"]
    assert [one.letter for one in options if one.right] == [replay.blueprint.task.right]


def test_the_ranking_says_where_the_agent_put_each_feature():
    replay = replay_of(blueprint("features"), "first")
    task, rows = replay.blueprint.task, EpisodeView(replay).ranked_features
    assert [row.feature for row in rows] == list(task.ranking)
    assert [row.given for row in rows] == [list(task.titles).index(key) + 1 for key in task.ranking]
    assert rows[0].wanted_for and [row.tier for row in rows].count("less relevant") == 4


def test_a_plan_shows_what_each_step_changes_and_the_devices_how_they_end():
    replay = replay_of(blueprint("plans"))
    page = page_of(replay)
    made = page.episode.plan_views["The agent's plan"]
    assert made.changes and not made.broken and all(step.refusal is None for _, steps in made.programs for step in steps)
    assert [change for _, steps in made.programs for step in steps for change in step.changes] == list(made.changes)
    planned = {
        (view.device.did, path): after
        for _, views in page.room_devices
        for view in views
        for path, _, after in view.state
        if after
    }
    assert planned == {(change.device, change.path): change.after for change in made.changes}
    assert all(met for _, met in page.episode.goal_results)


def test_a_step_that_is_refused_says_why_and_what_is_written_down_changes_nothing():
    one = blueprint("plans")
    (program, *_) = reference_plan(one)
    broken = {**program["steps"][0], "feature": "fly"}
    writes = {**broken, "appliance": "toolbox", "feature": "update_appliance_status", "args": {}}
    plan = [{"program_id": "p", "steps": [broken, writes, *program["steps"]]}]
    view, right = (household_page.view_of_programs(one.household, programs) for programs in (plan, reference_plan(one)))
    (_, steps), *_ = view.programs
    assert "fly" in steps[0].refusal and steps[1].refusal and not steps[0].changes and not steps[1].changes
    assert view.changes == tuple(change for step in right.programs[0][1] for change in step.changes)


def test_all_text_is_escaped_and_equal_episodes_give_equal_bytes():
    one = blueprint("grounding")
    member = one.household.members[0].model_copy(update={"persona": NASTY, "name": NASTY})
    memory = one.household.memories[0].model_copy(update={"memory": NASTY})
    changed = {"members": (member, *one.household.members[1:]), "memories": (memory, *one.household.memories[1:])}
    one = one.model_copy(update={"household": one.household.model_copy(update=changed)})
    agent = Curious([("get_household_member_info", {"member_ids": [NASTY]})], NASTY)
    trajectory = played(one, agent)
    text = rendered(replay_episode(trajectory, "here"))
    page = Page(text)
    assert page.tags.count("script") == 1 and "img" not in page.tags and page.text.count("{{ 7 * 7 }}") >= 4
    assert text == rendered(replay_episode(trajectory, "here")) and "url(" not in text and "http" not in text
    assert all(link.startswith(("#", "data:")) for link in page.links)
    assert {link[1:] for link in page.links if link.startswith("#")} <= {*page.ids}


# The command


def view(*arguments):
    return CliRunner().invoke(app, ["view", "personalhome", *map(str, arguments)], env={"COLUMNS": "200"})


def test_the_command_draws_a_seed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert view("--seed", 7).exit_code == 0 and "Julian" in (tmp_path / "household_7.html").read_text("utf-8")
    assert view("--seed", 7, "--language", "zh", "--heldout", "--out", "zh.html").exit_code == 0
    assert 'lang="zh"' in (tmp_path / "zh.html").read_text("utf-8")
    assert "--language" in str(view("--seed", 7, "--language", "tlh").exception)


def test_other_households_are_refused_by_their_line(tmp_path):
    path = tmp_path / "t.jsonl"
    row = trajectory_to_row(played(blueprint("grounding")))

    def refused(change) -> str:
        stored = json.loads(row["blueprint"])
        change(stored)
        write_rows(path, [row | {"blueprint": json.dumps(stored)}])
        with pytest.raises(InputError) as caught:
            [(where, trajectory)] = find_episodes(path, ["1"])
            replay_episode(trajectory, where)
        assert str(caught.value).startswith(f"{path}:1: ")
        return str(caught.value)

    assert "cannot be made again" in refused(lambda stored: stored["household"].pop("members"))
    other = [
        {**one, "memory": "Nothing happened."}
        for one in blueprint("grounding").model_dump(mode="json")["household"]["memories"]
    ]
    assert "came out differently: step 1" in refused(lambda stored: stored["household"].update(memories=other))


# The browser


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> list[Path]:
    """Drawn before there is a browser, which has an event loop of its own."""
    folder = tmp_path_factory.mktemp("pages")
    texts = {
        "large": render_household(make_household(32, HouseholdRecipe(memories=(40, 40)))),
        "small": render_household(make_household(7, HouseholdRecipe(memories=(1, 1)))),
        "zh": rendered(replay_of(blueprint("features", language="zh"), "first")),
        "choice": rendered(replay_of(blueprint("choice"), "nothing")),
        "grounding": rendered(replay_of(blueprint("grounding"))),
        "plans": rendered(replay_of(blueprint("plans", scenes=True))),
    }
    for name, text in texts.items():
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return sorted(folder.iterdir())


WIDE = """
[...document.querySelectorAll('main *, aside *, .top *')]
  .filter(e => e.checkVisibility() && !e.closest('.scroll'))
  .filter(e => e.getBoundingClientRect().right > innerWidth + 1)
  .map(e => e.outerHTML.slice(0, 120))
"""
OVERLAPS = """
[...document.querySelectorAll('.dot, .tick, .group, .lane > b')].filter(e => e.checkVisibility({visibilityProperty: true}))
  .map(e => e.getBoundingClientRect()).flatMap((a, i, all) => all.slice(i + 1).filter(b =>
    a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1))
  .map(box => JSON.stringify(box)).slice(0, 5)
"""


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_it_fits_its_window(drawn, browser, width, scheme):
    for path in drawn:
        context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
        page, said, asked = context.new_page(), [], []
        page.on("console", lambda message, said=said: said.append(message.text))
        page.on("pageerror", lambda error, said=said: said.append(str(error)))
        page.on("request", lambda request, asked=asked: asked.append(request.url))
        page.goto(path.as_uri())
        page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
        assert not said and all(url.startswith(("file:", "data:")) for url in asked)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.evaluate(WIDE) == [] and page.evaluate(OVERLAPS) == [] and page.evaluate(CONTRAST) == []
        context.close()


@pytest.mark.long
def test_words_are_whole_and_a_step_lights_what_it_showed_and_veils_what_came_later(drawn, browser):
    (plans,) = (path for path in drawn if path.stem == "plans")
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.goto(plans.as_uri())
    shown, everything = page.locator(".row:visible"), page.locator(".row").count()
    page.fill("#find", "son")  # a part of "person" and "Nelson" only
    assert shown.count() == 0 and page.locator("#none").is_visible()
    page.fill("#find", "kitchen appliance")
    page.fill("#find", "ROBOT vacuum")
    assert 0 < shown.count() < everything
    assert page.locator("#found").inner_text() == f"{shown.count()} of {everything}"
    assert page.locator("a.dot.out").count() > 0
    needed, said = page.locator(".mark.both").first, "mark => getComputedStyle(mark, '::before').content"
    assert needed.evaluate(said) == "none"
    page.click(".when label[for=at-0]")
    assert needed.evaluate(said) == '"needed, not read yet"'
    page.click(".step[for=at-2]")
    assert shown.count() == everything and page.input_value("#find") == ""
    step, verdict = page.locator(".row[data-steps~='2']"), page.locator(".pill")
    assert page.locator("#found").inner_text() == f"step 2: {step.count()} rows"
    outlined = "rows => rows.filter(row => getComputedStyle(row).outlineStyle == 'solid').length"
    assert page.locator(".row").evaluate_all(outlined) == step.count() > 0
    opacity = "one => getComputedStyle(one).opacity"
    assert verdict.evaluate(opacity) != "1" != page.locator("#step-3").evaluate(opacity)
    for _ in range(page.locator(".steps > li").count() - 2):
        page.keyboard.press("ArrowRight")
    assert verdict.evaluate(opacity) == "1" == page.locator("#step-3").evaluate(opacity)
    assert needed.evaluate(said) == "none"
    page.click(".chip[data-tag=changed]")
    assert shown.count() == page.locator(".row[data-tags~='changed']").count() > 0
    page.close()
    (zh,) = (path for path in drawn if path.stem == "zh")
    page = browser.new_page()
    page.goto(zh.as_uri())
    page.fill("#find", "温度")
    assert 0 < page.locator(".row:visible").count() < page.locator(".row").count()
    page.close()
