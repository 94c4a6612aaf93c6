"""The policy as its own teacher: what it is shown, what it does to advantages, and that the student never sees it."""

import asyncio
import json
from dataclasses import replace
from math import log

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from envs.documents import InputError
from homerl.agents.policy import Sample, encode
from homerl.agents.transformers_engine import TransformersEngine
from homerl.play.course import Behaviours
from homerl.play.episode import EpisodeLimits
from homerl.play.scripted_user import ScriptedUser
from homerl.play.trajectory import Outcome, write_rows
from homerl.train import rlve
from homerl.train.demonstration import demonstration
from homerl.train.dialogues import load_dialogues
from homerl.train.engines.transformers import InPlace
from homerl.train.recipe import RLVERecipe, TeacherSettings
from homerl.train.rlve import train_rlve
from homerl.train.rollout import Player
from homerl.train.teacher import Plan, Teacher, expert_plan, factors, note, pulls, with_note
from homerl.train.tensors import SampledTokens, sampled_tokens
from homerl.worlds.homeenv.blueprints.author import make_blueprint
from homerl.worlds.registry import begin, told, worlds
from rewards.composite import RewardWeights

LIMITS = EpisodeLimits(turns=4, steps=8, steps_per_turn=3)
SNIPPETS = (("snippet", 1.0),)
gaps = arrays(float, st.integers(1, 12), elements=st.floats(-30, 30))


def plan_of(blueprint: dict, limits: EpisodeLimits = LIMITS) -> Plan | None:
    return expert_plan(json.dumps(blueprint), limits, 0, SNIPPETS)


def tokens_of(advantages: np.ndarray, steps: np.ndarray) -> SampledTokens:
    size = len(advantages)
    return SampledTokens((), np.array([0, size]), advantages, np.zeros(size), np.zeros(size, int), steps)


@pytest.fixture
def rollouts(model, tokenizer, task):
    torch.manual_seed(0)
    player = Player(TransformersEngine(model, tokenizer, 16), tokenizer, ScriptedUser, LIMITS, RewardWeights(), 2048)
    return player.play([make_blueprint(task, "train", seed) for seed in (3, 3, 4)], [0, 1, 2])


def test_the_note_has_the_goals_and_the_experts_calls(task):
    blueprint = make_blueprint(task, "train", 3)
    text = plan_of(blueprint.model_dump(mode="json")).whole()
    goals, plan = text.split("\nPlan:\n")
    assert all(condition in goals for intent in blueprint.intents for condition in intent.conditions)
    assert all(json.dumps(call.code)[1:-1] in plan for intent in blueprint.intents for call in intent.plan)


def test_there_is_no_note_where_the_expert_fails(task):
    blueprint = make_blueprint(task.model_copy(update={"intents": (2, 2)}), "train", 3)
    assert plan_of(blueprint.model_dump(mode="json"), EpisodeLimits(turns=1, steps=8)) is None


@pytest.mark.parametrize("world", worlds())
def test_every_world_has_notes(world):
    adapter = worlds()[world]
    recipe = adapter.recipe.model_validate({} if adapter.is_default else {"world": world})
    blueprint = adapter.make_blueprint(recipe, "train", 1)
    limits = EpisodeLimits(turns=None, steps=40, steps_per_turn=30)
    plan = plan_of(blueprint.model_dump(mode="json"), limits)
    goals, written = plan.whole().split("\nPlan:\n")
    assert len(goals.splitlines()) > 1 and written.strip()
    numbers = range(len(begin(blueprint, limits).situation.met()))
    assert len(plan.goals) == len(numbers), "goals have their words in the order of Φ"
    assert plan.met.union(*(turn.met for turn in plan.turns)) == set(numbers) and plan.open(set(numbers)) is None


def test_the_teacher_reads_the_students_dialogue_and_the_note_alone(rollouts, tokenizer):
    """Undoing the note gives back the student's tokens, and each target is the same token in its new place."""
    tokens = sampled_tokens([(rollout, [0.0] * len(rollout.trajectory.steps)) for rollout in rollouts])
    shown = Teacher(TeacherSettings(), tokenizer, LIMITS, 0).sequences(rollouts, tokens)
    for rollout, own, other in zip(rollouts, tokens.sequences, shown, strict=True):
        text = plan_of(rollout.trajectory.blueprint).whole()
        assert other.ids[other.targets].tolist() == own.ids[own.targets].tolist()
        shift = len(other.ids) - len(own.ids)
        assert shift > 0 and set(other.targets - own.targets) == {shift}
        messages = with_note(rollout.trajectory.messages[:1], text)
        begin = encode(
            tokenizer, tokenizer.apply_chat_template(messages, tools=list(rollout.trajectory.tools), tokenize=False)
        )
        assert other.ids[: len(begin)].tolist() == begin
        assert other.ids[len(begin) :].tolist() == own.ids[len(begin) - shift :].tolist()
        assert text in tokenizer.decode(other.ids) and text not in tokenizer.decode(own.ids)


class Saying:
    """An engine that says given messages, one after the other."""

    def __init__(self, tokenizer, messages) -> None:
        self.tokenizer, self.messages = tokenizer, iter(messages)

    async def sample(self, prompt):
        said = self.tokenizer.apply_chat_template([next(self.messages)], tokenize=False)
        ids = encode(self.tokenizer, said.removeprefix("<|im_start|>assistant\n").removesuffix("\n"))
        return Sample(tuple(ids), (-1.0,) * len(ids))


def test_before_each_step_the_teacher_is_shown_what_is_open_there(tokenizer, task):
    """A student that does as the expert does: wishes that it has met leave the note."""
    blueprint = make_blueprint(task.model_copy(update={"intents": (2, 2)}), "train", 3)
    played = asyncio.run(demonstration(begin(blueprint, LIMITS), 0))
    said = [message for message in played[-1].messages if message["role"] == "assistant"]
    player = Player(Saying(tokenizer, said), tokenizer, ScriptedUser, LIMITS, RewardWeights(), 4096)
    (rollout,) = player.play([blueprint], [0])
    assert rollout.trajectory.success
    tokens = sampled_tokens([(rollout, [0.0] * len(rollout.trajectory.steps))])
    parts = Teacher(TeacherSettings(shown="open"), tokenizer, LIMITS, 0).sequences([rollout], tokens)
    own = tokens.sequences[0]
    written = np.concatenate([part.ids[part.targets] for part in parts])
    assert written.tolist() == own.ids[own.targets].tolist() and len(parts) > 2
    plan, texts = plan_of(rollout.trajectory.blueprint), [tokenizer.decode(part.ids) for part in parts]
    assert plan.whole() in texts[0], "at first all is open"
    first, second = (list(intent.conditions) for intent in blueprint.intents)
    between = next(text for text in texts if "Goals:" in text and not any(goal in text for goal in first))
    assert all(goal in between.split("Plan:")[0] for goal in second)
    shown = between.split("Plan:")[1].split("<|im_end|>")[0]
    calls = [[json.dumps(call.code)[1:-1] for call in intent.plan] for intent in blueprint.intents]
    assert all(call in shown for call in calls[1]) and not any(call in shown for call in calls[0])
    assert "Goals:" not in texts[-1] and texts[-1] == tokenizer.decode(own.ids[: own.targets[-1] + 1]), "the last word"


def test_a_turn_that_meets_no_goal_is_shown_with_the_one_that_it_leads_to(task):
    """Who changes a wish hears first what is undone later; questions meet nothing either."""
    behaviours, hidden = Behaviours(change_of_mind=0.5, disclosure=0.5, beside_the_point=1.0), 0
    for seed in range(8):
        wishes = task.model_copy(update={"intents": (2, 2)})
        blueprint = told(make_blueprint(wishes, "train", seed), behaviours, wishes)
        played = asyncio.run(demonstration(begin(blueprint, LIMITS), 0))
        plan = Plan.of(worlds()["homeenv"].goals_in_words(blueprint.model_dump(mode="json")), played)
        assert plan.open(plan.met) == plan.whole()
        hidden += len({step.facts.turn for step in played[-1].steps}) - len(plan.turns)
    assert hidden > 0, "every turn met a goal: the test proves nothing"


def test_where_no_goal_is_met_all_is_open(rollouts, tokenizer):
    tokens = sampled_tokens([(rollout, [0.0] * len(rollout.trajectory.steps)) for rollout in rollouts])
    assert not any(step.facts.met for rollout in rollouts for step in rollout.trajectory.steps)
    shown = [
        Teacher(TeacherSettings(shown=how), tokenizer, LIMITS, 0).sequences(rollouts, tokens) for how in ("all", "open")
    ]
    for whole, part in zip(*shown, strict=True):
        assert whole.ids.tolist() == part.ids.tolist() and whole.targets.tolist() == part.targets.tolist()


def test_instructions_are_begun_with_where_there_are_none():
    hello = {"role": "user", "content": "Hello."}
    assert with_note([hello], "Plan:") == [{"role": "system", "content": "Plan:"}, hello]


@given(gaps, st.floats(0, 5), st.floats(1.1, 10), st.data())
def test_factors_are_bounded_keep_signs_and_agree_within_a_step(gap, weigh, bound, data):
    advantages = data.draw(arrays(float, len(gap), elements=st.floats(-3, 3, allow_subnormal=False)))
    steps = np.sort(data.draw(arrays(int, len(gap), elements=st.integers(0, 3))))
    advantages = advantages[np.searchsorted(steps, steps)]  # one credit a step
    settings = TeacherSettings(weigh=weigh, bound=bound)
    factor = factors(tokens_of(advantages, steps), gap, settings)
    assert np.all(factor >= 1 / bound - 1e-9) and np.all(factor <= bound + 1e-9)
    assert np.array_equal(np.sign(advantages * factor), np.sign(advantages))
    for step in set(steps):
        here = steps == step
        assert np.ptp(factor[here]) < 1e-9
        agree = np.sign(advantages[here][0]) * gap[here].sum()
        assert (factor[here][0] - 1) * agree >= -1e-9


@given(gaps, st.floats(0, 2), st.floats(1.1, 10))
def test_pulls_follow_the_gap_and_are_bounded(gap, teach, bound):
    pull = pulls(gap, TeacherSettings(teach=teach, bound=bound))
    assert np.all(np.abs(pull) <= teach * log(bound) + 1e-9) and np.all(pull * gap >= 0)
    assert np.all(np.abs(pulls(-np.abs(gap), TeacherSettings(teach=teach, bound=bound))) <= teach * log(bound) / 2 + 1e-9)


def test_pulls_go_down_the_reverse_divergence():
    """Without gate and bound, samples of the student times ∇ log π give -∇ KL(student ‖ teacher)."""
    logits = torch.tensor([0.2, -0.4, 0.9], dtype=torch.float64, requires_grad=True)
    teacher = torch.log_softmax(torch.tensor([0.5, 0.1, 0.3], dtype=torch.float64), 0)
    student = torch.log_softmax(logits, 0)
    gap = (teacher - student).detach().numpy()
    wide = TeacherSettings(teach=1.0, bound=1e9)
    pull = torch.tensor(pulls(gap, wide) / (1 / (1 + np.exp(-gap))))
    (found,) = torch.autograd.grad((student.exp().detach() * pull * student).sum(), logits, retain_graph=True)
    (wanted,) = torch.autograd.grad(-(student.exp() * (student - teacher)).sum(), logits)
    assert torch.allclose(found, wanted)


def test_a_rollout_that_does_not_count_is_not_taught(rollouts, tokenizer):
    spoilt = [replace(rollouts[0], trajectory=replace(rollouts[0].trajectory, outcome=Outcome.USER_ERROR)), *rollouts[1:]]
    tokens = sampled_tokens([(rollout, [0.0] * len(rollout.trajectory.steps)) for rollout in spoilt])
    teacher = Teacher(TeacherSettings(teach=1.0), tokenizer, LIMITS, 0)
    taught, _ = teacher.teach(spoilt, tokens, tokens.logps + 1.0, tokens.logps)
    first = tokens.starts[1]
    assert not taught.advantages[:first].any() and np.all(taught.advantages[first:] > 0)


@pytest.fixture
def recipe(tiny, task, tmp_path):
    def make(out: str, **teacher: float) -> RLVERecipe:
        return RLVERecipe.model_validate(
            {
                "homerl": 1, "run": "rlve", "cpu": True, "seed": 6, "out": tmp_path / out, "parallel": "none",
                "model": {"name": str(tiny), "dtype": "float32"}, "wandb": {"mode": "disabled"},
                "blueprints": {"recipe": task.model_dump(), "count": 16},
                "limits": {"turns": 3, "steps": 4, "steps_per_turn": 2},
                "rewards": {"audit": 0.0},  # an untrained model writes half a call now and then
                "rlve": {
                    "updates": 1, "blueprints_per_update": 2, "group": 4, "max_tokens": 12, "max_episode_tokens": 512,
                    "save_steps": None, "log_steps": 1, "teacher": teacher or None,
                },
            }
        )  # fmt: skip

    return make


def test_a_run_with_a_teacher_samples_the_same_and_teaches_groups_that_do_not_vary(recipe, monkeypatch):
    """The untrained model never succeeds, so nothing but the teacher teaches; and no prompt has a note."""
    prompts, trained = [], []
    sample = InPlace.sample

    async def heard(self, prompt):
        prompts.append(list(prompt))
        return await sample(self, prompt)

    class Watched(rlve.RLVETrainer):
        def _generate_and_score_completions(self, inputs):
            output = super()._generate_and_score_completions(inputs)
            trained.append(self.tokens)
            return output

    monkeypatch.setattr(InPlace, "sample", heard)
    monkeypatch.setattr(rlve, "RLVETrainer", Watched)
    train_rlve(recipe("plain"))
    plain, asked = trained.pop(), prompts.copy()
    prompts.clear()
    settings = recipe("taught", teach=0.5)
    train_rlve(settings)
    assert prompts == asked
    taught = trained.pop()
    assert [one.ids.tolist() for one in taught.sequences] == [one.ids.tolist() for one in plain.sequences]
    assert not plain.advantages.any() and taught.advantages.any()
    assert np.abs(taught.advantages).max() <= 0.5 * log(2) + 1e-6
    line = json.loads((settings.out / "metrics.jsonl").read_text().splitlines()[0])
    assert line["teacher/gap"] != 0 and 0 < line["teacher/agrees"] < 1


def test_a_run_judges_each_part_of_a_rollout_by_its_own_note(recipe, tokenizer, monkeypatch):
    """The policy is made to say what the expert says, so goals are met on the way. Each part's tokens are scored by a plain
    forward pass, too, and must be judged as that says.
    """
    judged, plain, sizes = [], [], []

    async def says(self, prompt):
        text = tokenizer.decode(prompt)
        said = next(said for system, said in written if text.startswith(system))
        message = said[min(text.count("<|im_start|>assistant\n"), len(said)) - 1]
        ids = encode(tokenizer, message)
        return Sample(tuple(ids), (-1.0,) * len(ids))

    class Watched(rlve.RLVETrainer):
        def _ask(self, teacher, known):
            shown = teacher.sequences(self.rollouts, self.tokens)
            sizes.append((len(self.rollouts), len(shown)))
            for part in shown:
                logits = self.model(input_ids=torch.tensor(part.ids)[None]).logits[0].log_softmax(-1)
                plain.extend(logits[part.targets - 1, part.ids[part.targets]].tolist())
            super()._ask(teacher, known)

    def heard(self, rollouts, tokens, teacher, student):
        judged.extend(teacher.tolist())
        return Teacher.__dict__["teach"](self, rollouts, tokens, teacher, student)

    written = []
    settings = recipe("open", teach=0.5, shown="open")
    source = settings.blueprints
    for seed in range(source.first_seed, source.first_seed + source.count):
        opening = begin(make_blueprint(source.recipe, "train", seed), settings.limits)
        played = asyncio.run(demonstration(opening, 0))
        system = tokenizer.apply_chat_template(opening.messages, tools=list(opening.world.tools), tokenize=False)
        steps = [tokenizer.apply_chat_template([step.message], tokenize=False) for step in played[-1].steps]
        written.append((system, [said.removeprefix("<|im_start|>assistant\n").removesuffix("\n") for said in steps]))
    monkeypatch.setattr(InPlace, "sample", says)
    monkeypatch.setattr(rlve, "RLVETrainer", Watched)
    monkeypatch.setattr(rlve, "Teacher", type("Heard", (Teacher,), {"teach": heard}))
    train_rlve(settings)
    assert sizes[0][1] > sizes[0][0], "no goal was met on the way: the test proves nothing"
    assert judged == pytest.approx(plain, abs=1e-4)


def test_a_share_of_dialogues_has_a_note_on_itself(dialogues, rows):
    plain, noted = load_dialogues(str(dialogues)), load_dialogues(str(dialogues), 0.5, 1)
    changed = [i for i in range(len(plain)) if noted[i] != plain[i]]
    assert 0.25 < len(changed) / len(plain) < 0.75
    assert [noted[i] for i in changed] == [load_dialogues(str(dialogues), 0.5, 1)[i] for i in changed]
    for i in changed:
        first, *rest = noted[i]["messages"]
        assert rest == plain[i]["messages"][1:] and first["content"].startswith(plain[i]["messages"][0]["content"])
        blueprint = json.loads(rows[i]["blueprint"])
        goals = worlds()["homeenv"].goals_in_words(blueprint)
        assert first["content"].endswith(note(goals, rows[i]["messages"]))


def test_the_plan_of_a_note_has_nothing_of_an_earlier_dialogue(tmp_path, rows):
    """As in the note of a teacher, where the expert's dialogue begins after it."""
    earlier = [{"role": role, "content": said, "tool_calls": [], "tool_call_id": ""}
               for role, said in (("user", "light, please"), ("assistant", "It is bright now."))]  # fmt: skip
    write_rows(
        tmp_path / "told.jsonl", [{**row, "messages": [row["messages"][0], *earlier, *row["messages"][1:]]} for row in rows]
    )
    write_rows(tmp_path / "fresh.jsonl", rows)
    told, fresh = (load_dialogues(str(tmp_path / name), 1.0) for name in ("told.jsonl", "fresh.jsonl"))
    assert "Plan:" in told[0]["messages"][0]["content"]
    assert [row["messages"][0] for row in told] == [row["messages"][0] for row in fresh]


def test_notes_need_blueprints(tmp_path, rows):
    path = tmp_path / "foreign.jsonl"
    write_rows(path, [{"messages": row["messages"], "tools": row["tools"]} for row in rows])
    with pytest.raises(InputError, match=r"(?s)no column `blueprint`.*sft\.noted"):
        load_dialogues(str(path), 0.5)


def test_the_student_is_never_shown_a_note(task):
    """An observation is all that a policy gets, and it is made of the situation's own messages."""
    blueprint = make_blueprint(task, "train", 3)
    episode = begin(blueprint, LIMITS)
    text = plan_of(blueprint.model_dump(mode="json")).whole()
    assert "Plan:" in text and all("Plan:" not in str(message) for message in episode.observation.messages)
