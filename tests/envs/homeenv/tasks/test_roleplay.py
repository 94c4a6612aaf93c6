"""M1: one model plays person, assistant and tools, judges itself, and is checked in a home afterwards."""

import json

import pytest
from oracle import Oracle
from pydantic import ValidationError
from scripted_server import ScriptedServer

from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.play.situation import Reply
from homerl.play.trajectory import Outcome, trajectory_from_row
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import synthesise_shards
from homerl.worlds.registry import begin_episode

RECIPE = BlueprintRecipe.model_validate({"home": {"devices": (3, 5)}, "intents": (1, 1)})
COUNT = 6


class Stage:
    """What a server says in all parts. The person wants what the household's blueprint happens to ask for; `prints` is
    what tools print, by default what the home would."""

    def __init__(self, prints=None, keep: bool = True) -> None:
        made = [make_home_blueprint(RECIPE, "train", seed) for seed in range(COUNT)]
        self.oracle, self.prints, self.keep = Oracle(made), prints, keep
        self.by_name = {blueprint.profile.name: blueprint for blueprint in made}
        self.seen: list[dict] = []

    def __call__(self, request):
        self.seen.append(request)
        if request.get("tools"):
            return self.oracle.candidates(request)
        part = request["response_format"]["json_schema"]["name"]
        return {"content": json.dumps(getattr(self, part.lower())(request))}

    def line(self, request) -> dict:
        told, so_far = (message["content"] for message in request["messages"])
        blueprint = next(made for name, made in self.by_name.items() if name in told)
        over = "user: " in so_far
        return {"say": "" if over else blueprint.intents[0].queries[0], "stop": over}

    def printed(self, request) -> dict:
        return {"output": self.prints or "ok"}

    def judgement(self, request) -> dict:
        return {"keep": self.keep, "fault": "none" if self.keep else "wrong_call"}


def played(stage: Stage):
    with ScriptedServer(answer=stage) as server:
        model = {"url": server.url, "model": "scripted"}
        config = SynthesisConfig.model_validate(
            {"blueprints": COUNT, "recipe": RECIPE, "strategy": "m1", "agent": model, "limits": {"turns": 2}}
        )
        (shard,) = synthesise_shards(config, [range(COUNT)], 4)
    return [json.loads(line) for line in shard.lines.splitlines()], shard.stats["blueprints"]


def test_a_dialogue_is_imagined_judged_and_stored_in_the_dataset_s_form():
    rows, lines = played(Stage())
    assert len(rows) == COUNT and all(line["successes"] == 1 and line["outcome"] == "success" for line in lines)
    for row in rows:
        trajectory = trajectory_from_row(row)
        blueprint = Blueprint.model_validate(trajectory.blueprint)
        assert trajectory.agent == "role-play:llm:scripted" and trajectory.outcome is Outcome.SUCCESS
        assert [intent.family for intent in blueprint.intents] == ["role_play"]
        episode = begin_episode(blueprint)
        for message in trajectory.messages[1:]:
            if message["role"] == "user":
                episode.add_utterance(message["content"], 1)
            elif message["role"] == "assistant":
                episode.apply_reply(Reply(message))
        assert episode.progress == 1.0, "Φ says what the dialogue does to a home"
        assert [step.facts for step in trajectory.steps][-1].progress_after == 1.0


def test_nobody_is_told_the_households_own_goals():
    stage = Stage()
    played(stage)
    told = json.dumps([request["messages"] for request in stage.seen])
    conditions = [text for blueprint in stage.by_name.values() for text in blueprint.all_conditions]
    assert conditions and not any(json.dumps(text)[1:-1] in told for text in conditions)


def test_what_a_home_would_not_have_said_is_kept_but_not_grounded():
    _, true = played(Stage(prints=None))
    rows, lines = played(Stage(prints="the lamp is on fire"))
    assert len(rows) == COUNT and not any(line["grounded"] for line in lines)
    assert any(line["grounded"] for line in true)
    assert "the lamp is on fire" in rows[0]["messages"][3]["content"]


def test_the_judge_decides_what_is_kept():
    rows, lines = played(Stage(keep=False))
    assert not rows and all(line["outcome"] == "agent_failure" for line in lines)


def test_it_needs_a_model():
    with pytest.raises(ValidationError, match="needs an `agent`"):
        SynthesisConfig(strategy="m1")
