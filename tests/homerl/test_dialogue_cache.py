"""Dialogues that are held: each token is read once, and what is sampled is what a model that reads all anew would sample."""

import asyncio
import copy
import random
from collections.abc import Sequence

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from homerl.agents.dialogue_cache import DialogueCache, Held, alike
from homerl.agents.policy import Sample, TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.play.scripted_user import ScriptedUser
from homerl.train.engines.generate import InPlace
from homerl.train.rollout import Player
from homerl.worlds.homeenv.blueprints.author import make_blueprint
from rewards.composite import RewardWeights

END = 2


def watched(model) -> tuple:
    """A copy of the model, and the (rows, columns) of all its passes."""
    one, passes = copy.deepcopy(model), []

    def see(module, args, kw) -> None:
        if "input_ids" in kw:
            passes.append(tuple(kw["input_ids"].shape))

    one.register_forward_pre_hook(see, with_kwargs=True)
    return one, passes


def sample(engine: TransformersEngine, prompts: Sequence[Sequence[int]]) -> list[Sample]:
    async def all_of_them() -> list[Sample]:
        return list(await asyncio.gather(*map(engine.sample, prompts)))

    return asyncio.run(all_of_them())


def plain(model, prompt: Sequence[int], ids: Sequence[int]) -> torch.Tensor:
    """Log-probabilities of `ids` after `prompt`, by one pass over everything."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float()
    return torch.log_softmax(logits, -1)[torch.arange(len(ids)), torch.tensor(ids)]


def words(rng: random.Random, model, least: int = 1, most: int = 40) -> list[int]:
    """A message of random tokens that are no end."""
    return [rng.randrange(3, model.config.vocab_size) for _ in range(rng.randint(least, most))]


def check(model, prompt: Sequence[int], found: Sample) -> None:
    torch.testing.assert_close(torch.tensor(found.logprobs), plain(model, prompt, found.ids), atol=2e-5, rtol=0)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("prefill", [16_384, 40])
def test_dialogues_that_go_on_are_sampled_as_if_read_anew(model, tokenizer, seed, prefill):
    """Of any lengths; some begin later, some end earlier, some samples are cut, and a batch does not take all."""
    assert tokenizer.eos_token_id == END
    rng = random.Random(seed)
    torch.manual_seed(seed)
    engine = TransformersEngine(model, tokenizer, 6, batch=5)
    engine.prefill = prefill
    dialogues = [words(rng, model, 2) for _ in range(7)]
    for _ in range(5):
        going = [dialogue for dialogue in dialogues if rng.random() < 0.8] or dialogues
        for dialogue, found in zip(going, sample(engine, going), strict=True):
            check(model, dialogue, found)
            dialogue += [*found.ids, *([] if found.ids[-1] == END else [END]), *words(rng, model)]
        dialogues.append(words(rng, model, 2))


def test_no_token_is_read_twice(model, tokenizer):
    """A sample that ends by itself is held up to its end, so only its end and what follows are read."""
    one, passes = watched(model)
    one.lm_head = torch.nn.Linear(one.lm_head.in_features, one.lm_head.out_features)
    with torch.no_grad():
        one.lm_head.bias.fill_(-30.0)[END : END + 4] = 0.0  # so that ends are likely
    torch.manual_seed(0)
    engine = TransformersEngine(one, tokenizer, 100)
    prompt = [5] * 300
    [found] = sample(engine, [prompt])
    assert found.ids[-1] == END and len(found.ids) > 2
    assert sum(columns for _, columns in passes) == 300 + len(found.ids) - 1
    passes.clear()
    follows = [*prompt, *found.ids, 7, 8, 9]
    [again] = sample(engine, [follows])
    assert sum(columns for _, columns in passes) == 4 + len(again.ids) - 1
    check(one, follows, again)


def test_equal_prompts_of_a_batch_are_read_once(model, tokenizer):
    one, passes = watched(model)
    torch.manual_seed(1)
    found = sample(TransformersEngine(one, tokenizer, 3), [[5, 6, 7, 8] * 20] * 8)
    assert passes[0] == (1, 79) and passes[1] == (8, 1)
    assert len({each.ids for each in found}) > 1
    for each in found:
        check(model, [5, 6, 7, 8] * 20, each)


def test_nothing_that_older_weights_made_is_used(model, tokenizer):
    """After `forget`, which an engine in training calls with each update."""
    one = copy.deepcopy(model)
    engine = InPlace(tokenizer, 5, 1.0, 8)
    engine.attach(type("Trainer", (), {"accelerator": Unwraps(), "model_wrapped": one}), None)
    engine.sync(0)
    prompt = [5, 6, 7] * 30
    [found] = sample(engine, [prompt])
    prompt += [*found.ids, END, 9, 9]
    with torch.no_grad():
        for weight in one.parameters():
            weight.mul_(1.5)
    engine.sync(1)
    [after] = sample(engine, [prompt])
    assert after.version == 1
    check(one, prompt, after)


class Unwraps:
    def unwrap_model(self, model):
        return model


def test_rollouts_have_the_log_probabilities_of_a_plain_pass(model, tokenizer, task):
    torch.manual_seed(2)
    engine = TransformersEngine(model, tokenizer, 24)
    player = Player(engine, tokenizer, ScriptedUser, EpisodeLimits(turns=3, steps=6), RewardWeights(), 4096)
    rollouts = player.play([make_blueprint(task, "train", seed // 2) for seed in range(6)], list(range(6)))
    assert max(len(one.ledger.spans) for one in rollouts) > 1
    for ledger in (one.ledger for one in rollouts):
        for start, stop in ledger.spans:
            expected = plain(model, ledger.ids[:start], ledger.ids[start:stop])
            torch.testing.assert_close(torch.tensor(ledger.logprobs[start:stop]), expected, atol=2e-5, rtol=0)


def held(*ids: int) -> Held:
    return Held(ids, ())


def test_the_longest_beginning_before_an_end_is_found():
    cache = DialogueCache(END, entries=9, tokens=99)
    for some in ((5, 6), (5, 6, END, 7), (5, 6, END, 7, END, 8)):
        cache.keep(held(*some))
    assert cache.find([5, 6, END, 7, END, 9, END]) == held(5, 6, END, 7)
    assert cache.find([5, 6, END]) == held(5, 6) and cache.find([5, 6]) is None and cache.find([6, END, 4]) is None


def test_the_oldest_dialogue_makes_room():
    cache = DialogueCache(END, entries=2, tokens=6)
    for some in ((3, 3), (4, 4), (5, 5)):
        cache.keep(held(*some))
    assert [cache.find([*some, END, 3]) for some in ((3, 3), (4, 4), (5, 5))] == [None, held(4, 4), held(5, 5)]
    cache.keep(held(4, 4, END, 6, 6), instead=held(4, 4))
    assert cache.find([4, 4, END, 6, 6, END, 3]) and not cache.find([5, 5, END, 3]), "7 tokens are too many"
    cache.clear()
    assert not cache.find([4, 4, END, 6, 6, END, 3])


@given(st.lists(st.integers(1, 3000)))
def test_little_is_padded(lengths):
    left = sorted((length, number) for number, length in enumerate(lengths))
    groups = list(alike(left))
    assert [number for group in groups for number in group] == [number for _, number in left]
    for group in groups:
        assert max(lengths[i] for i in group) <= 2 * min(lengths[i] for i in group) + 16
