"""A reasoning policy: its thoughts are kept, masked or refused, counted, and never spoken."""

import re
from typing import Any

import numpy as np
import pytest
from chat_families import family_tokenizer

from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.policy.policy_agent import REFUSED, Sample, locate_thought_tokens
from homerl.play.episode import EpisodeLimits
from homerl.play.tool_call_parser import THOUGHT
from homerl.play.trajectory import trajectory_to_row
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import Rollout, RolloutPlayer
from homerl.train.data.rollout_batches import episode_metrics, summarise_rollout
from homerl.train.update.objective import collect_sampled_tokens
from homerl.train.watch.metrics_log import format_transcript
from homerl.worlds.users import ScriptedUser

SAID = "<think>\nIs 灯 the lamp? Maybe é.\n</think>\n\n"
CALL = '<tool_call>\n{"name": "pyexec", "arguments": {"code": "x = 1"}}\n</tool_call>'
BROKEN = "<tool_call>\n{</tool_call>"


class Thinks:
    """An engine that thinks before each message."""

    def __init__(self, tokenizer: Any, *texts: str) -> None:
        self.tokenizer, self.texts = tokenizer, list(texts)

    async def sample(self, prompt: Any) -> Sample:
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        ids = (*self.tokenizer.encode(SAID + text, add_special_tokens=False), self.tokenizer.eos_token_id)
        return Sample(ids, tuple(-0.5 for _ in ids))


@pytest.fixture
def rollout(tokenizer, task):
    def play(how: Any, *texts: str, toolset: str = "homeflow") -> Rollout:
        limits = EpisodeLimits(turns=2, steps=6, steps_per_turn=3)
        player = RolloutPlayer(
            Thinks(tokenizer, *texts), tokenizer, ScriptedUser, limits, RewardWeights(), 2048, thoughts=how
        )
        (found,) = player.play_blueprints(
            [make_home_blueprint(task.model_copy(update={"toolset": toolset}), "train", 3)], [0]
        )
        return found

    return play


def text_of(tokenizer: Any, rollout: Rollout, kept: int) -> str:
    """What was sampled, of which the mask is this."""
    ledger = rollout.ledger
    own = [i for start, end in ledger.spans for i in range(start, end)]
    return tokenizer.decode([ledger.ids[i] for i in own if ledger.mask[i] == kept])


def test_thoughts_that_are_kept_are_trained_on(tokenizer, rollout):
    found = rollout("kept", CALL, "Done?")
    assert text_of(tokenizer, found, 0) == "" and SAID + CALL in text_of(tokenizer, found, 1)
    assert found.trajectory.steps[0].facts.code == "x = 1" and not found.trajectory.steps[0].facts.blocked


def test_thoughts_that_are_masked_stay_in_the_context_without_a_loss(tokenizer, rollout):
    kept, found = rollout("kept", CALL, "Done?"), rollout("masked", CALL, "Done?")
    assert found.ledger.ids == kept.ledger.ids and found.ledger.logprobs == kept.ledger.logprobs
    assert trajectory_to_row(found.trajectory) == trajectory_to_row(kept.trajectory)
    steps = len(found.trajectory.steps)
    assert text_of(tokenizer, found, 0) == steps * SAID.strip()
    tokens = collect_sampled_tokens([(found, [float(step) for step in range(1, steps + 1)])])
    learnt = [sum(found.ledger.mask[start:end]) for start, end in found.ledger.spans]
    own = np.repeat(np.arange(1.0, steps + 1), learnt)
    assert np.array_equal(tokens.advantages, own), "every target has the credit of its own step"
    ids = np.array(found.ledger.ids)[tokens.sequences[0].targets]
    assert tokenizer.decode(ids) == text_of(tokenizer, found, 1) and "Maybe" not in tokenizer.decode(ids)


@pytest.mark.parametrize(("toolset", "text"), [("homeflow", CALL), ("direct", '{"mode": "act", "response": "Done."}')])
def test_thoughts_that_are_refused_are_a_fault_that_the_reward_sees(tokenizer, rollout, toolset, text):
    found = rollout("refused", text, toolset=toolset)
    assert all(step.facts.blocked == ("syntax",) for step in found.trajectory.steps)
    assert all(REFUSED in step.observations[0] and not step.facts.calls for step in found.trajectory.steps)
    assert all(parts["audit"] < 0 for parts in found.trajectory.rewards)
    assert text_of(tokenizer, found, 0) == "", "the policy learns that this costs it"


def test_an_empty_thought_is_none(tokenizer, rollout, monkeypatch):
    monkeypatch.setitem(globals(), "SAID", "<think>\n\n</think>\n\n")
    found = rollout("refused", "Done?")
    assert found.ledger.thoughts == 0 and not any(step.facts.blocked for step in found.trajectory.steps)


@pytest.mark.parametrize("how", ["kept", "masked", "refused"])
def test_thoughts_are_counted_and_never_spoken(rollout, how):
    found = rollout(how, CALL, BROKEN, "Done?")
    messages = [message for message in found.trajectory.messages if message["role"] == "assistant"]
    assert all("Maybe" in message[THOUGHT] and "Maybe" not in message["content"] for message in messages)
    assert "Maybe" not in format_transcript(found.trajectory)
    row = summarise_rollout(found, 0)
    share = episode_metrics([row])["policy/thoughts"]
    assert 0 < found.ledger.thoughts < sum(found.sampled_lengths) and share == found.ledger.thoughts / sum(
        found.sampled_lengths
    )
    assert "policy/thoughts" not in episode_metrics([row | {"thoughts": 0}])
    claims = row | {"closing_flaws": ["", "false claim", "false claim"]}
    figures = episode_metrics([row | {"closing_flaws": [""]}, claims, claims | {"closing_flaws": ["no admission"]}])
    assert figures["closings/false_claims"] == figures["closings/not_judged"] == 1 / 3
    failed = row | {"lengths": []}  # the world failed after the first message, so there is no step
    assert "policy/thoughts" not in episode_metrics([failed])


@pytest.mark.parametrize(
    ("text", "thoughts"),
    [
        (f"{SAID}{CALL}", SAID.strip()),
        ("hm 灯</think>Done.", "hm 灯</think>"),
        ("Done.", ""),
        ("<think>\n</think>x", ""),
        ("Yes 灯<think>a</think>é<think>灯", "<think>a</think><think>灯"),
        ("<tool_response>a</tool_response>x", ""),
    ],
)
@pytest.mark.parametrize("name", [None, "mistral"])
def test_the_tokens_of_thoughts_are_those_of_their_text(tokenizer, name, text, thoughts):
    tokenizer = family_tokenizer(name, [*text]) if name else tokenizer
    ids = tokenizer.encode(text, add_special_tokens=False)
    places = locate_thought_tokens(tokenizer, ids, text)
    assert "".join(tokenizer.decode(ids[place.start : place.stop]) for place in places) == thoughts


def test_a_thought_that_is_cut_within_a_character_ends_with_the_message(tokenizer):
    ids = tokenizer.encode("<think>灯", add_special_tokens=False)[:-1]
    (place,) = locate_thought_tokens(tokenizer, ids, tokenizer.decode(ids))
    assert (place.start, place.stop) == (0, len(ids))


@pytest.mark.parametrize("name", [None, "mistral"])
def test_many_thoughts_are_placed_in_time_that_grows_with_the_text(tokenizer, name, monkeypatch):
    text = "".join(f"<think>{'灯é lamp'[: at % 8]}x</think>a 灯 " for at in range(100))
    tokenizer = family_tokenizer(name, [*text]) if name else tokenizer
    ids, read, decode = tokenizer.encode(text, add_special_tokens=False), [0], tokenizer.decode

    def counting(some: Any, **options: Any) -> str:
        read[0] += len(some)
        return decode(some, **options)

    monkeypatch.setattr(tokenizer, "decode", counting)
    places = locate_thought_tokens(tokenizer, ids, text)
    assert [decode(ids[one.start : one.stop]).strip() for one in places] == re.findall("<think>.*?</think>", text)
    assert len(places) == 100 and read[0] < 100 * 20 * 3 * 64, "and not twenty times the text for each thought"
