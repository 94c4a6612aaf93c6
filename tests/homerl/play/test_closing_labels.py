"""`scripts/closings`: closings of stored trajectories for people to judge, and the rules' precision and recall by them."""

import asyncio
from pathlib import Path

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import text_message
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.play.trajectory import trajectory_to_row, write_rows
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
TOLD = {"Done.": ["done"], "I could not do that.": ["failed"], "Which one?": ["asks"], "As you wish.": []}


class Says:
    name = "says"

    def __init__(self, text: str) -> None:
        self.text = text

    async def consult(self, episode, n: int = 1) -> list[Reply]:
        return [Reply(text_message(self.text))]


@pytest.fixture
def closings(monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    import closings

    return closings


@pytest.fixture
def rows(closings, tmp_path) -> list[dict]:
    recipe = BlueprintRecipe(families={"atomic": 1}, intents=(1, 1), toolset="smh")
    for name, texts in {"a": [*TOLD], "b": ["Done.", "done."]}.items():
        begun = (begin_episode(make_home_blueprint(recipe, "train", seed), EpisodeLimits(1)) for seed in range(len(texts)))
        played = [asyncio.run(play(episode, Says(text), ScriptedUser())) for episode, text in zip(begun, texts)]
        write_rows(tmp_path / f"{name}.jsonl", map(trajectory_to_row, played))
    return closings.draw_closings({name: [*closings.closings_of_file(tmp_path / f"{name}.jsonl")] for name in "ab"}, 400, 0)


def test_the_same_words_are_drawn_once_while_the_wish_stands_alike(rows):
    assert sorted(row["words"].lower() for row in rows) == sorted(text.lower() for text in TOLD)
    assert all(row["standing"]["is_open"] and row["says"] is None and row["goals"][0].startswith("open: ") for row in rows)


def test_the_rules_are_scored_by_what_people_said(closings, rows):
    right = [row | {"says": TOLD[row["words"].capitalize() if row["words"] == "done." else row["words"]]} for row in rows]
    right = [row | {"misleads": row["says"] in ([], ["done"])} for row in right]
    count, *lines = closings.score_labels(right, "labels.jsonl")
    assert count == "4 closings, 1 not judged"
    for sign, line in zip(("done", "failed", "asks"), lines):
        assert line.split()[:5] == [sign, "precision", "1", "of", "1"] and "recall 1 of 1 " in line
    assert lines[3].startswith("misleads   precision 2 of 2 ") and "recall 2 of 2 " in lines[3]
    *_, wrong = closings.score_labels([row | {"misleads": True} for row in right], "labels.jsonl")
    assert "precision 2 of 2 " in wrong and "recall 2 of 4 " in wrong


def test_a_closing_without_labels_is_named(closings, rows):
    with pytest.raises(InputError, match="not labelled"):
        list(closings.score_labels(rows, "labels.jsonl"))
