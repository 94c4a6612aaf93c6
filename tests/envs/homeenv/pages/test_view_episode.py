"""The page of an episode: what happened at each step, the home after it, everything escaped, one file without scripts."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from html import escape
from html.parser import HTMLParser
from pathlib import Path

import pytest
from command import homerl

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.pages.episode import HomeEpisodePage, render_home_episode, replay_moments
from homerl.envs.homeenv.tasks.author import BlueprintRecipe
from homerl.play.faults import Boundary, Fault
from homerl.play.loop import play
from homerl.play.trajectory import Outcome, Trajectory, read_rows, trajectory_from_row, trajectory_to_row, write_rows
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import make_shard
from homerl.worlds.contract import ExpertConfig, WorldAdapter
from homerl.worlds.registry import begin_episode, known_worlds
from homerl.worlds.users import ScriptedUser

NASTY = """</pre></style><script>alert("x")</script><img src=x onerror=alert(1)> & "quoted" 'too' {{ 7 * 7 }}"""
FAMILIES = {"automation": 1, "query": 1, "atomic": 1}
RULES = {"intents": (2, 3), "toolset": "smh", "home": {"devices": (12, 14)}, "families": FAMILIES}


@pytest.fixture(scope="module")
def played(trajectories, tmp_path_factory) -> list[Trajectory]:
    """Dialogues with calls in code, and some with automations and questions, in larger homes."""
    folder = tmp_path_factory.mktemp("rules")
    expert = ExpertConfig(mistakes=0.4, styles={"stepwise": 1})
    config = SynthesisConfig(blueprints=6, recipe=BlueprintRecipe.model_validate(RULES), expert=expert)
    make_shard(config, range(6), folder)
    return trajectories[:20] + [trajectory_from_row(row) for row in read_rows(folder / "0000000.jsonl")]


class Page(HTMLParser):
    """The elements of a page; every one is closed, and its ids are unique."""

    VOID = ("meta", "link", "input", "wbr")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.tags: Counter[str] = Counter()
        self.feed(text)
        self.close()
        assert not self.open and len(self.ids) == len(set(self.ids))

    def handle_starttag(self, tag, attributes):
        self.tags[tag] += 1
        self.ids += [value for name, value in attributes if name == "id"]
        assert not [value for name, value in attributes if name.startswith("on")]
        assert not [value for name, value in attributes if name in ("src", "href") and not value.startswith(("#", "data:"))]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def changed_by_steps(page) -> Iterator[tuple[set[str], set[str]]]:
    for step in page.all_steps:
        exact = {name for name in step.shown.changed if name != "clock"}
        yield {change.exact for change in step.changes}, exact


def test_each_step_shows_what_it_changed_the_goals_after_it_and_its_rewards(played):
    for trajectory in played:
        page = HomeEpisodePage(trajectory)
        assert [step.number for step in page.all_steps] == [*range(1, len(trajectory.steps) + 1)]
        assert all(shown == stored for shown, stored in changed_by_steps(page))
        for step, stored in zip(page.all_steps, trajectory.steps):
            assert tuple(goal for goal, met in enumerate(step.met) if met) == stored.facts.met
        assert page.all_steps[-1].met == page.met and all(page.met) == (trajectory.progress == 1)
        assert page.total_reward == pytest.approx(sum(sum(rewards.values()) for rewards in trajectory.rewards))
    assert any(
        change.whose == "automation" for t in played for step in HomeEpisodePage(t).all_steps for change in step.changes
    )


def test_a_goal_that_is_met_or_lost_at_a_step_is_marked_there(played):
    for page in map(HomeEpisodePage, played):
        met = page.begun
        for step in page.all_steps:
            assert {i for i in range(len(met)) if step.met[i] and not met[i]} == step.newly
            assert {i for i in range(len(met)) if met[i] and not step.met[i]} == step.lost
            met = step.met


def test_the_home_is_drawn_once_for_each_of_its_states(played):
    for trajectory in played:
        page = HomeEpisodePage(trajectory)
        keys = [state.view.home.state_key() for state in page.states]
        assert all(a != b for a, b in zip(keys, keys[1:]))
        for step, (home, _) in zip(page.all_steps, replay_moments(trajectory, "")[1:]):
            state = page.states[step.state]
            assert not state.view.home.diff(home) and state.view.home.clock == home.clock
            tiles = (tile for tiles in state.view.room_tiles.values() for tile in tiles)
            marked = {tile.device.did for tile in tiles if tile.anchor in state.marked}
            assert {change.exact.partition(".")[0] for change in step.made_changes if change.whose != "automation"} <= marked


def test_the_page_is_one_file_of_closed_elements_that_asks_for_nothing(played):
    for trajectory in played[::5]:
        text = render_home_episode(trajectory)
        assert Page(text).tags["script"] == 1 and text == render_home_episode(trajectory) and "http" not in text
        assert all(f"step-{number}" in text for number in range(1, len(trajectory.steps) + 1))


def test_an_episode_that_ended_before_its_first_step_is_drawn(played):
    spoken = played[0].messages[: len(played[0].opening_messages) + 1]
    fault = Fault(Boundary.SERVER, "no answer")
    ended = replace(played[0], messages=spoken, steps=(), rewards=(), outcome=Outcome.INFRA_ERROR, fault=fault, progress=0.0)
    page, text = HomeEpisodePage(ended), render_home_episode(ended)
    assert not page.all_steps and page.begun == page.met and "no answer" in text and "infra error" in text and Page(text)


def test_every_text_is_escaped(played):
    first = played[0]
    messages = tuple({**said, "content": NASTY} if said["role"] == "user" else said for said in first.messages)
    text = render_home_episode(replace(first, messages=messages, agent=NASTY, blueprint={**first.blueprint, "scene": NASTY}))
    assert NASTY not in text and escape("<script>") in text
    assert Page(text).tags["script"] == 1 and not Page(text).tags["img"]


def test_a_replay_that_differs_from_the_record_is_refused_by_its_step(played):
    last = replace(played[0].steps[0], observations=("something else",))
    with pytest.raises(InputError, match="step 1 comes out otherwise") as error:
        render_home_episode(replace(played[0], steps=(last, *played[0].steps[1:])), "file:7")
    assert "file:7" in str(error.value)


@pytest.mark.parametrize(
    ("messages", "steps", "why"),
    [(slice(-1), slice(None), "a record of it, but no message"), (slice(None), slice(-1), "a message of it, but no record")],
)
def test_a_record_whose_messages_and_steps_do_not_belong_together_is_refused(played, messages, steps, why):
    kept = played[0].messages[: max(i for i, said in enumerate(played[0].messages) if said["role"] == "assistant") + 1]
    short = replace(played[0], messages=kept[messages], steps=played[0].steps[steps])
    with pytest.raises(InputError, match=why) as error:
        render_home_episode(short, "file:7")
    assert "file:7" in str(error.value)


# The command, which draws the episodes of every world


def test_an_episode_is_found_by_number_or_id_in_a_file_or_a_run(dialogues, trajectories, tmp_path):
    ids = [trajectory.blueprint["id"] for trajectory in trajectories]
    out = tmp_path / "page.html"
    for source in (dialogues, dialogues / "trajectories.jsonl"):
        for wanted in ("3", ids[2]):
            done = homerl("view", "episode", source, "--episode", wanted, "--out", out)
            assert done.code == 0 and ids[ids.index(ids[2])] in done.out
            assert out.read_text("utf-8") == render_home_episode(trajectories[ids.index(ids[2])])
    done = homerl("view", "episode", dialogues, "--episode", "1000")
    assert done.code == 2 and "there is no episode 1000" in done.err
    assert "most like it" in homerl("view", "episode", dialogues, "--episode", f"{ids[0]}x").err


def test_several_episodes_are_one_page_and_a_run_lists_what_it_has(dialogues, trajectories, tmp_path):
    """The folder of dialogues stands in a flywheel's, whose recipe gives the rewards that its benchmark stored none of."""
    run, out = tmp_path / "run", tmp_path / "page.html"
    for model in ("sft", "rlve"):
        stored = [trajectory_to_row(replace(one, rewards=(), weights={})) for one in trajectories]
        (run / model / "bench" / "suite").mkdir(parents=True)
        write_rows(run / model / "bench" / "suite" / "trajectories.jsonl", stored)
    (run / "recipe.yaml").write_text("run: flywheel\nrewards: {success: 3.0}\n")
    done = homerl("view", "episode", run)
    assert done.code == 0, done.err
    assert "suite, after SFT" in done.out and str(len(trajectories)) in done.out and "rlve/bench/suite" in done.out
    page, shown = (run / "episode.html").read_text("utf-8"), [one for one in trajectories if one.success][:3]
    assert all(escape(one.turns()[0].utterance) in page for one in shown) and "http" not in page
    assert page.count("<iframe") == done.out.count(" step") and Page(page).tags["input"] == page.count("<iframe")
    assert escape(escape("success +3.00")) in page
    done = homerl(
        "view", "episode", run / "sft/bench/suite", "--episode", "2-3", "--episode", shown[0].blueprint["id"], "--out", out
    )
    assert done.code == 0 and out.read_text("utf-8").count("<iframe") == 3
    done = homerl("view", "episode", run, "--episode", "3")
    assert done.code == 2 and f"name one of them, such as {run / 'rlve/bench/suite'}" in done.err
    assert "no range" in homerl("view", "episode", dialogues, "--episode", "3-2").err


@pytest.mark.parametrize(("name", "shows"), [("simuhome", "minutes of virtual time"), ("personalhome", "memories")])
def test_other_worlds_draw_theirs_through_the_same_command(tmp_path, name, shows):
    world = known_worlds()[name]
    blueprint = world.make_blueprint(world.recipe.model_validate({"world": name}), "train", 1)
    trajectory = asyncio.run(play(begin_episode(blueprint), world.expert(ExpertConfig(mistakes=0.0), 0), ScriptedUser()))
    write_rows(tmp_path / "trajectories.jsonl", [trajectory_to_row(trajectory)])
    done = homerl("view", "episode", tmp_path)
    assert done.code == 0 and shows in (tmp_path / "episode.html").read_text("utf-8"), done.err


def test_a_world_that_draws_no_episodes_is_named(dialogues, tmp_path, monkeypatch):
    monkeypatch.setattr(type(known_worlds()["homeenv"]), "episode_page", WorldAdapter.episode_page)
    done = homerl("view", "episode", dialogues, "--out", tmp_path / "page.html")
    assert done.code == 2 and "'homeenv' draws no episodes" in done.err and not (tmp_path / "page.html").exists()


@pytest.mark.long
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1280])
def test_steps_choose_the_home_in_a_real_browser(played, browser, tmp_path: Path, width, scheme):
    """Nothing is wider than the screen, nothing is asked for, and a step shows the home after it."""
    trajectory = max(played, key=lambda one: len(one.steps))
    (tmp_path / "page.html").write_text(render_home_episode(trajectory), "utf-8")
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)
    page, asked = context.new_page(), []
    page.on("request", lambda request: asked.append(request.url))
    page.goto((tmp_path / "page.html").as_uri())
    assert page.evaluate("document.documentElement.scrollWidth") <= width and len(asked) <= 2
    for step in HomeEpisodePage(trajectory).all_steps:
        page.click(f"#step-{step.number} label")
        assert page.locator(".state:visible").evaluate_all("all => all.map(e => e.dataset.state)") == [str(step.state)]
    context.close()


@pytest.mark.long
def test_an_episode_is_played_forward_and_back(played, browser, tmp_path: Path):
    trajectory = max(played, key=lambda one: len(one.steps))
    (tmp_path / "page.html").write_text(render_home_episode(trajectory), "utf-8")
    page = browser.new_page()
    page.goto((tmp_path / "page.html").as_uri())
    steps = len(trajectory.steps)

    def at() -> int:
        return int(page.locator("input[name=at]:checked").get_attribute("id").removeprefix("at-"))

    first, back, play, forward = page.locator("#replay button").all()
    assert at() == steps and forward.is_disabled()
    back.click()
    assert at() == steps - 1
    first.click()
    assert at() == 0 and back.is_disabled() and first.is_disabled()
    forward.click()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowLeft")
    assert at() == 1
    page.evaluate("document.querySelector('#at-0').click()")
    play.click()
    page.wait_for_selector("#at-1:checked", state="attached", timeout=10_000)
    play.click()
    page.close()
