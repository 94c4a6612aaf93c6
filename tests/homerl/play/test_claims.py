"""Which words claim success, and which claims the home does not bear out."""

from __future__ import annotations

import asyncio
import json
import random
from collections import Counter
from collections.abc import Sequence
from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.app.play_suite import BenchRun, run_benchmark
from homerl.bench.scores import build_result_row, score_results
from homerl.bench.stored_scores import rescore_run
from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, text_message, tool_call
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.envs.homeenv.tasks.goals import compile_goals, find_goal_places
from homerl.envs.homeenv.tasks.situation import writer_of
from homerl.envs.simuhome.tasks.author import make_group_blueprint
from homerl.envs.simuhome.tasks.blueprint import SimuHomeRecipe
from homerl.envs.simuhome.tasks.expert import FixedAnswerAgent, acting_message, actions_in_messages, expert_plan
from homerl.envs.simuhome.tasks.sentences import simuhome_grammar
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.play.bench_results import METRICS
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply, Utterance
from homerl.play.spoken_words import (
    admits_failure,
    asks_about_state,
    claims_success,
    only_confirms,
    questions_at_end,
    tells_state,
)
from homerl.play.trajectory import Trajectory, read_rows, trajectory_from_row, trajectory_to_row, write_rows
from homerl.report.pages.bench_report import write_bench_report
from homerl.worlds.registry import begin_episode, blueprint_with_behaviours, known_worlds, world_of
from homerl.worlds.users import ScriptedUser

SUCCESS = """
Done. | Done, it is on. | All set. | It is done. | That is taken care of. | You're all set! | Task completed.
It's done!
I've turned on the kitchen light. | I have turned on the light for you! | Turned on the kitchen light.
Everything is done.
The kitchen light has been turned on. | The light is now on. | Okay, I turned off the fan.
I’ve **locked** the front door.
Sure! The blinds are now closed. | I've set the thermostat to 22.5 degrees. | OK. The lights are off now.
The task is complete.
Turning on the kitchen light now. | I'm turning on the lights. | Both lamps have been switched off
Successfully set the temperature to 21 | No problem, I've turned it on. | I have successfully turned on the light
好了。 | 已打开客厅的灯。 | 已为您打开客厅灯 | 客厅灯已打开 | 已经把空调调到26度了。 | 好的，已经帮您关闭卧室的灯。
灯开了。 | 打开了。
我把灯关了。 | 关好了 | 设置完成 | 空调已设为26度。 | 正在为您打开客厅灯。 | 没问题，已经打开了。 | 已成功为您打开灯
会议室的灯已打开
The light was successfully turned on. | The lamp was switched off successfully | 正在打开厨房的灯。 | 已关灯
Turned on the light, no errors. | I turned it on, no issues found. | 没有问题，灯已经打开了。
没什么问题，已打开 | 没事，已经打开了 | 不能再好了，已经打开了
"""
NO_SUCCESS = """
The light is on. | It is already on. | It is already on, so I did nothing. | I could not do that.
I can turn on the light.
I will turn on the light. | Sorry, there is no such device. | The door was locked at 7.
The temperature is 21.5 degrees.
I turned on the kitchen light, but I could not find the sauna. | It is now 21 degrees. | I have not turned it on.
Hello!
Nothing was done. | If I turned it on, it would be loud. | Turning off the lights saves energy. | There are 3 lights on.
No.
Set the thermostat to 20 to save energy. | You can say turn on the light. | The light has already been turned on.
Yes, it is.
I failed to turn on the light. | The light was turned on 5 minutes ago | The door has been opened three times
I don't know.
It is set to 20 degrees. | I would have turned it on. | I'm sorry, the device is unavailable. | Which light do you mean
灯是开着的。 | 已经是开着的。 | 灯已经开着。 | 没有找到这个设备。 | 无法打开。 | 我不能打开它。 | 灯没打开 | 打开失败
温度是21度。 | 现在21度
我可以帮您打开灯。 | 没有打开 | 三盏灯开着。 | 抱歉，做不到。 | 已经在运行。 | 如果打开了会很吵 | 好的。 | 不可以打开
灯一直开着的
Nothing has been turned on. | The lamp has been switched off by someone. | The hall is lit. No sauna found. | 窗帘正在打开
灯打不开了
"""
ASKS = """
is the light on? | What is on | did you turn it on? | do I have lights on | have you locked the door | 灯开着吗 | 几点了
so, is it on? | hey, isn't the door locked? | what's on | where's the vacuum | why is it on | tell me if the door is locked
can you check whether it is locked? | do you know if the light is on? | will it rain
请问门锁了吗 | 灯都开着吗 | 灯关了没有 | 灯关了没 | 灯开没开 | 帮我看看门锁了吗 | 你能告诉我门锁了吗 | 请查一下温度
"""
WANTS = """
turn on the light | can you turn on the light? | how about some light | do turn it on | 打开灯 | 能打开灯吗 | 可以开灯吗
is it possible to turn it on? | do you mind opening the blind? | are you able to lock it | why don't you turn it on
what about some light | what if you turn it on | when I leave, turn it off | where you are, stop | check the door and lock it
把灯打开好吗 | 把所有灯关了好吗 | 关一下灯行吗 | 调到几乎最暗 | 怎么这么暗，开灯 | 打开哪个都行
能把灯关了吗 | 请问能打开灯吗
请打开灯好吗
"""


def each(text: str) -> list[str]:
    return [one.strip() for line in text.strip().splitlines() for one in line.split(" | ")]


@pytest.mark.parametrize("text", each(SUCCESS))
def test_words_that_claim_success(text):
    assert claims_success(text) and claims_success(f"Of course. {text}")


@pytest.mark.parametrize("text", each(NO_SUCCESS))
def test_words_that_do_not(text):
    assert not claims_success(text)


@pytest.mark.parametrize(("text", "asks"), [(t, True) for t in each(ASKS)] + [(t, False) for t in each(WANTS)])
def test_a_question_is_no_request(text, asks):
    assert asks_about_state(text) == asks


@given(
    st.sampled_from(each(SUCCESS)),
    st.sampled_from(["But I could not find the fan.", "不过没找到风扇。", "The fan is unavailable."]),
)
def test_who_admits_that_something_did_not_work_claims_no_success(text, more):
    assert admits_failure(more) and not claims_success(f"{text} {more}")


@given(st.text())
def test_any_text_can_be_read(text):
    assert not (claims_success(text) and admits_failure(text)) and asks_about_state(text) in (True, False)


@pytest.mark.parametrize("text", ["Sure! Done.", "OK. All set!", "好的，已完成。", "已经好了。", "Das ist erledigt."])
def test_words_that_only_confirm(text):
    assert only_confirms(text) and not only_confirms(f"{text} The door is locked.")


@pytest.mark.parametrize("text", ["", "Done, it is on.", "I've locked it.", "已关灯", "Is that done?"])
def test_words_that_say_more(text):
    assert not only_confirms(text)


@pytest.mark.parametrize(
    ("text", "asked"),
    [
        ("I locked it. Which one? The hall?", "Which one? The hall?"),
        ("I locked it; which one?", "which one?"),
        ("Gjort, lyset er på. Noe mer?", "Noe mer?"),
        ("تم. هل تريد شيئا آخر؟", "هل تريد شيئا آخر؟"),
        ("已关灯。还有别的吗？", "还有别的吗？"),
        ("It is 21.5 degrees.", ""),
        ("Which one? It is off.", ""),
    ],
)
def test_questions_at_the_end_are_told_from_what_stands_before_them(text, asked):
    assert questions_at_end(text).strip() == asked


@pytest.mark.parametrize(
    ("tells", "does_not"),
    [
        ("The door is locked.", "It is 21 degrees."),
        ("门锁着。", "现在是三点。"),
        ("Die Tür ist verriegelt.", "Es ist zu warm."),
        ("Das Licht ist jetzt an.", "Das Licht ist an der Decke."),
        ("Die Lampen sind ausgeschaltet.", "Es sind 21 Grad."),
    ],
)
def test_words_that_tell_a_state(tells, does_not):
    assert tells_state(tells) and not tells_state(does_not)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_what_scripted_agents_say_when_they_are_done_claims_success(language):
    said = [*home_grammar(language).plain_texts("done"), *simuhome_grammar(language).plain_texts("reply.done")]
    assert len(said) >= 5 and all(map(claims_success, said))


# In HomeEnv


@cache
def blueprint_of(family: str, toolset: str = "smh", count: int = 1, seed: int = 3) -> Blueprint:
    recipe = BlueprintRecipe(families={family: 1}, intents=(count, count), toolset=toolset)
    return make_home_blueprint(recipe, "train", seed)


class Says:
    """Says these things in turn, and the last one again; what is callable writes a message for the episode."""

    name = "says"

    def __init__(self, *said) -> None:
        self.said = [*said]

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        one = self.said.pop(0) if len(self.said) > 1 else self.said[0]
        made: Message = one(episode) if callable(one) else text_message(one)
        return [Reply(made)]


def played(blueprint, *said, turns: int = 1, user=None) -> Trajectory:
    limits = EpisodeLimits(turns=turns, steps=9, steps_per_turn=5)
    return asyncio.run(play(begin_episode(blueprint, limits), Says(*said), user or ScriptedUser()))


def count(trajectory: Trajectory) -> int | None:
    """The false claims, of a trajectory as it is stored and read again."""
    again = trajectory_from_row(json.loads(json.dumps(trajectory_to_row(trajectory))))
    found = world_of(trajectory.blueprint).false_claims(again)
    assert found == build_result_row(trajectory, 0).get("false_claims")
    return found


def does(episode: Episode) -> Message:
    return writer_of(episode).write_calls(episode.blueprint.intents[0].plan)


def fails(episode: Episode) -> Message:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [tool_call("control_device", {"did": "0", "locator": "turn_on"})],
    }


def works_beside(episode: Episode) -> Message:
    call = episode.blueprint.intents[0].plan[0]
    other = next(
        d.did for d in episode.situation.home.plan.devices if d.did != call.did and "turn_on" in d.spec.service_index
    )
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [tool_call("control_device", {"did": other, "locator": "turn_on"})],
    }


@pytest.mark.parametrize(
    ("said", "false"),
    [
        (("Done.",), 1),
        ((fails, "Done, it is on."), 1),
        ((works_beside, "I've turned it on."), 1),
        ((fails, does, "Done."), 0),
        ((does, "Done."), 0),
        ((fails, "I could not do that."), 0),
        ((fails, "Done. Which lamp do you mean?"), 0),
        (("It is done. Anything else?",), 1),
        (("Hello.",), 0),
    ],
)
def test_a_claim_is_false_while_the_wish_is_open(said, false):
    assert count(played(blueprint_of("atomic"), *said)) == false


def test_each_turn_counts_and_each_wish_by_itself():
    two = blueprint_of("atomic", count=2)
    assert count(played(two, "Done.", turns=3)) == 3
    assert count(played(two, does, "Done.", turns=2)) == 1  # the second wish alone


def test_an_answer_is_no_claim_of_an_act():
    assert count(played(blueprint_of("query"), "I've turned it on.")) == 0


def test_one_answer_speaks_in_its_json():
    blueprint = blueprint_of("atomic", "direct")
    said = text_message(json.dumps({"mode": "execute", "response": "Done.", "actions": []}))
    assert count(played(blueprint, lambda episode: said)) == 1
    asked = text_message(json.dumps({"mode": "clarify", "response": "Done."}))
    assert count(played(blueprint, lambda episode: asked)) == 0


def test_a_claim_before_a_wish_is_told_in_full_is_not_false():
    recipe = BlueprintRecipe(families={"atomic": 1}, intents=(1, 1), toolset="smh")
    every = (
        blueprint_with_behaviours(make_home_blueprint(recipe, "train", seed), Behaviours(disclosure=1), recipe)
        for seed in range(40)
    )
    trajectory = played(next(one for one in every if len(one.intents[0].course) == 2), "Done.")
    assert len(trajectory.turns()) == 2 and count(trajectory) == 1


def test_where_nobody_knows_the_wish_a_claim_after_a_refusal_is_false():
    class Stranger:
        name = "stranger"

        async def speak(self, episode: Episode) -> Utterance:
            return Utterance("do it")

    blueprint = blueprint_of("atomic")
    assert count(played(blueprint, fails, "Done.", user=Stranger())) == 1
    assert count(played(blueprint, "Done.", user=Stranger())) == 0
    assert count(played(blueprint, works_beside, "Done.", user=Stranger())) == 0


@pytest.mark.parametrize("family", ["atomic", "compositional", "ambiguous", "automation", "query", "multi_turn", "memory"])
def test_the_goals_on_the_home_are_found(family):
    for seed in range(4):
        blueprint = blueprint_of(family, count=1 if family == "memory" else 2, seed=seed)
        every = compile_goals(blueprint, home_from_json(blueprint.home, "home"))
        for intent in blueprint.intents:
            question, found = find_goal_places(blueprint.intents)[intent.id]
            of_it = [at for at, goal in enumerate(every) if goal.intent == intent.id and not goal.answer]
            assert found == {*of_it[bool(intent.clarify) :]} and question == (of_it[0] if intent.clarify else None)


def test_experts_claim_falsely_only_by_mistake():
    found = []
    for seed in range(6):
        blueprint = blueprint_of("compositional", count=2, seed=seed)
        flawless, mistaken = (
            asyncio.run(play(begin_episode(blueprint), Expert(seed, mistakes), ScriptedUser(seed), seed))
            for mistakes in (0.0, 0.7)
        )
        assert flawless.success and count(flawless) == 0
        found.append(count(mistaken))
    assert any(found)


# In the other worlds


@pytest.mark.parametrize(
    ("group", "answer", "false"),
    [
        ("qt3/feasible", "I've turned it on.", 1),
        ("qt3/feasible", "I could not do it.", 0),
        ("qt3/infeasible", "I have turned it on.", 1),
        ("qt3/infeasible", "There is no such device.", 0),
        ("qt1/feasible", "I've turned it on.", 0),  # a question asks for no act
    ],
)
def test_the_final_answer_of_simuhome_is_held_against_its_goals(group, answer, false):
    assert count(finished(group, FixedAnswerAgent("same", answer))) == false


def test_reads_that_simuhome_requires_make_no_claim_false():
    class Blind(FixedAnswerAgent):
        """Acts as the expert does, and reads nothing."""

        async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
            *_, acts, finish = expert_plan(episode.situation.file, episode.situation.home, "Done.")
            made = any(act in actions_in_messages(episode.messages) for act in acts)
            return [Reply(acting_message(*(finish if made else acts)))]

    trajectory = finished("qt3/feasible", Blind("blind", ""))
    assert trajectory.progress < 1 and count(trajectory) == 0


def finished(group: str, agent: FixedAnswerAgent) -> Trajectory:
    recipe, rng = SimuHomeRecipe(world="simuhome"), random.Random(group)
    blueprint = make_group_blueprint(recipe, "train", *group.split("/"), "one", rng, Counter())
    return asyncio.run(play(begin_episode(blueprint, EpisodeLimits(1, 20, 20)), agent, ScriptedUser()))


def test_a_world_without_acts_counts_nothing():
    said = played(blueprint_of("atomic"), "Done.")
    assert known_worlds()["personalhome"].false_claims(said) is None
    assert METRICS["closings_not_judged"].count(said, known_worlds()["personalhome"]) is None


# In scores


def test_a_score_counts_the_results_that_tell_it():
    row = {"id": "a", "outcome": "turn_limit", "families": [], "error": None}
    row |= dict.fromkeys(("success", "phi", "progress", "tool_calls", "tokens"), 0)
    assert "false_claims" not in score_results([row])
    told_of = score_results([row, row | {"id": "b", "false_claims": 3}, row | {"id": "c", "false_claims": 0}])[
        "false_claims"
    ]
    assert (told_of["n"], told_of["count"], told_of["share"]) == (2, 3, 0.5) and told_of["interval"][0] < told_of[
        "interval"
    ][1]


def test_what_the_rules_cannot_judge_is_a_figure_of_its_own():
    rows = []
    for said, false, not_judged in (
        ("Done.", 1, 0), ("OK.", 0, 1), ("Das Licht ist an.", 0, 1), ("I could not do that.", 0, 0), ("Which one?", 0, 0)
    ):  # fmt: skip
        rows.append(build_result_row(played(blueprint_of("atomic"), said), 0))
        assert (rows[-1]["false_claims"], rows[-1]["closings_not_judged"]) == (false, not_judged), said
    score = score_results(rows)
    assert (score["false_claims"]["count"], score["closings_not_judged"]["count"]) == (1, 2)


def test_results_are_rescored_also_without_the_figure(tmp_path):
    scored = run_benchmark(BenchRun("smh-bench", "nothing", tmp_path, limit=6))
    assert scored["false_claims"]["count"] > 0 and "the same results" in rescore_run(tmp_path)
    write_bench_report(tmp_path)
    assert ">false claims</abbr></dt>" in (tmp_path / "report.html").read_text()
    rows = list(read_rows(tmp_path / "results.jsonl"))
    write_rows(tmp_path / "results.jsonl", [row | {"false_claims": row["false_claims"] + 1} for row in rows])
    with pytest.raises(InputError, match="false_claims is"):
        rescore_run(tmp_path)
    older = [{key: value for key, value in row.items() if key != "false_claims"} for row in rows]
    write_rows(tmp_path / "results.jsonl", older)
    (tmp_path / "score.json").write_text(json.dumps({k: v for k, v in scored.items() if k != "false_claims"}))
    assert "the same results" in rescore_run(tmp_path)
    write_bench_report(tmp_path)
    assert ">false claims</abbr></dt>" not in (tmp_path / "report.html").read_text()
