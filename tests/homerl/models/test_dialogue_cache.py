"""Dialogues that are held: each token is read once, and what is sampled is what a model that reads all anew would sample."""

import asyncio
import copy
import random
from collections.abc import Sequence

import pytest
import torch
from crossed import crossed
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModelForCausalLM, Gemma3TextConfig, GPT2Config, GPTNeoConfig, LlamaConfig, MptConfig

from homerl.app.served.model_agents import ThreadedEngine
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.policy.faster_decoding import CachedDialogue, DialogueCache, can_cache_dialogues, group_by_length
from homerl.models.policy.policy_agent import Sample
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import RolloutPlayer
from homerl.train.engines.transformers import InPlace
from homerl.worlds.users import ScriptedUser

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


def hits(engine: TransformersEngine) -> list[bool]:
    """Whether something was held of each prompt that is looked up from now on."""
    found: list[bool] = []
    find = engine.held.find_prefix

    def seen(prompt, end):
        one = find(prompt, end)
        found.append(one is not None)
        return one

    engine.held.find_prefix = seen
    return found


def words(rng: random.Random, model, least: int = 1, most: int = 40) -> list[int]:
    """A message of random tokens that are no end."""
    return [rng.randrange(3, model.config.vocab_size) for _ in range(rng.randint(least, most))]


def check(model, prompt: Sequence[int], found: Sample) -> None:
    torch.testing.assert_close(torch.tensor(found.logprobs), plain(model, prompt, found.ids), atol=2e-5, rtol=0)


@crossed(seed=range(4), prefill=[16_384, 40])
def test_dialogues_that_go_on_are_sampled_as_if_read_anew(model, tokenizer, seed, prefill):
    """Of any lengths; some begin later, some end earlier, some samples are cut, and a batch does not take all."""
    assert tokenizer.eos_token_id == END
    rng = random.Random(seed)
    torch.manual_seed(seed)
    engine = TransformersEngine(model, tokenizer, 6, batch=5)
    engine.prefill, found_held = prefill, hits(engine)
    dialogues = [words(rng, model, 2) for _ in range(7)]
    for _ in range(5):
        going = [dialogue for dialogue in dialogues if rng.random() < 0.8] or dialogues
        for dialogue, found in zip(going, sample(engine, going), strict=True):
            check(model, dialogue, found)
            dialogue += [*found.ids, *([] if found.ids[-1] == END else [END]), *words(rng, model)]
        dialogues.append(words(rng, model, 2))
    assert sum(found_held) > len(found_held) / 2


def test_no_token_is_read_twice(model, tokenizer):
    """A sample that ends by itself is held up to its end, so only its end and what follows are read."""
    torch.manual_seed(1)
    one, passes = watched(ends_often(model, rate=0.0))
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


def ends_often(model, rate: float = -0.5):
    """A copy of the model that ends a message at any token with a fair chance."""
    one = copy.deepcopy(model)
    one.lm_head = torch.nn.Linear(one.lm_head.in_features, one.lm_head.out_features)
    with torch.no_grad():
        one.lm_head.bias.fill_(-30.0)[END : END + 4] = 0.0
        one.lm_head.bias[END] = rate
    return one


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.long) for seed in (1, 2))])
def test_rows_that_have_ended_leave_the_batch(model, tokenizer, seed):
    """The others go on as if nothing had happened, and all of them are held: also those that leave first."""
    rng = random.Random(seed)
    torch.manual_seed(seed)
    one, passes = watched(ends_often(model))
    engine = TransformersEngine(one, tokenizer, 14)
    dialogues, found_held = [words(rng, model) for _ in range(24)], hits(engine)
    cut = 0
    for _ in range(3):
        passes.clear()
        answers = sample(engine, dialogues)
        decoded = sum(rows for rows, columns in passes if columns == 1)
        assert decoded < 0.85 * 24 * max(len(found.ids) for found in answers)
        assert len({len(found.ids) for found in answers}) > 3
        for dialogue, found in zip(dialogues, answers, strict=True):
            check(one, dialogue, found)
            assert END not in found.ids[:-1] and (found.ids[-1] == END or len(found.ids) == 14)
            cut += found.ids[-1] != END
            dialogue += [*found.ids, *([] if found.ids[-1] == END else [END]), *words(rng, model)]
    assert found_held[:24] == [False] * 24 and all(found_held[24:])
    assert cut, "some were cut in a batch that others had left"


def test_few_rows_stay_together(model, tokenizer):
    """A pass over few rows takes as long as one over fewer, so `generate` is called once."""
    torch.manual_seed(0)
    one, passes = watched(ends_often(model))
    sample(TransformersEngine(one, tokenizer, 30), [[5, 6, 7 + row] for row in range(8)])
    assert {rows for rows, columns in passes if columns == 1} == {8}


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
    assert engine.held.find_prefix(prompt, END)
    with torch.no_grad():
        for weight in one.parameters():
            weight.mul_(1.5)
    engine.sync(1)
    [after] = sample(engine, [prompt])
    assert after.version == 1
    check(one, prompt, after)
    prompt += [*after.ids, END, 9]
    with engine.awake():
        assert engine.held.find_prefix(prompt, END)
    assert not engine.held.find_prefix(prompt, END), "the memory is the trainer's"


def test_the_engines_of_a_served_model_share_what_is_held(model, tokenizer):
    first = ThreadedEngine(TransformersEngine(model, tokenizer, 1))
    one, other = first.with_sampling(4, 0.0), first.with_sampling(9, 1.0)
    prompt = [5, 6, 7, 8] * 9
    found = asyncio.run(one.run_in_thread(lambda: one.engine.sample(prompt)))
    assert other.engine.held.find_prefix([*prompt, *found.ids, END], END)


@pytest.mark.parametrize(
    ("kind", "attention", "holds"),
    [
        ("llama", "sdpa", True),
        ("llama", "eager", True),
        ("gpt2", "sdpa", True),
        ("gpt_neo", "eager", True),
        ("mpt", "eager", False),
        ("gemma3", "sdpa", False),
    ],
)
def test_other_models_are_sampled_right_too(kind, attention, holds, tokenizer):
    """Some attend to what is near, by columns. Those that are not held are read anew."""
    torch.manual_seed(0)
    one = AutoModelForCausalLM.from_config(OTHERS[kind], attn_implementation=attention).eval()
    engine, rng = TransformersEngine(one, tokenizer, 4), random.Random(3)
    found_held = hits(engine)
    dialogues = [words(rng, one, 8, 20) for _ in range(3)]
    for _ in range(3):
        for dialogue, found in zip(dialogues, sample(engine, dialogues), strict=True):
            check(one, dialogue, found)
            dialogue += [*found.ids, *([] if found.ids[-1] == END else [END]), *words(rng, one, 1, 25)]
    assert any(found_held) == holds


@pytest.mark.parametrize("rope", ["longrope", "dynamic"])
def test_keys_that_change_with_the_length_are_not_held(rope):
    more = {"short_factor": [1.0] * 8, "long_factor": [4.0] * 8, "original_max_position_embeddings": 32}
    parameters = {"rope_type": rope, "rope_theta": 1e4, "factor": 16.0, **(more if rope == "longrope" else {})}
    config = LlamaConfig(**SMALL, intermediate_size=32, num_key_value_heads=2, rope_parameters=parameters)
    assert not can_cache_dialogues(AutoModelForCausalLM.from_config(config))
    assert can_cache_dialogues(AutoModelForCausalLM.from_config(OTHERS["llama"]))


def test_a_batch_that_takes_much_of_the_memory_is_not_held(model, tokenizer):
    prompt = [5, 6, 7, 8] * 9
    for tokens, holds in ((39, False), (159, False), (160, True)):
        engine = TransformersEngine(model, tokenizer, 4, tokens=tokens)
        [found] = sample(engine, [prompt])
        assert bool(engine.held.find_prefix([*prompt, *found.ids, END], END)) == holds, tokens


SMALL = {"vocab_size": 90, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "bos_token_id": None}
OTHERS = {
    "llama": LlamaConfig(**SMALL, intermediate_size=32, num_key_value_heads=1),
    "gpt2": GPT2Config(vocab_size=90, n_embd=32, n_layer=2, n_head=2),
    "mpt": MptConfig(vocab_size=90, d_model=32, n_layers=2, n_heads=2, max_seq_len=512),
    "gemma3": Gemma3TextConfig(**SMALL, intermediate_size=32, num_key_value_heads=1, head_dim=16, sliding_window=16),
    "gpt_neo": GPTNeoConfig(
        vocab_size=90, hidden_size=32, num_layers=2, num_heads=2, attention_types=[[["global", "local"], 1]], window_size=16
    ),
}


class Unwraps:
    def unwrap_model(self, model):
        return model


def test_rollouts_have_the_log_probabilities_of_a_plain_pass(model, tokenizer, task):
    torch.manual_seed(2)
    engine = TransformersEngine(model, tokenizer, 24)
    player = RolloutPlayer(engine, tokenizer, ScriptedUser, EpisodeLimits(turns=3, steps=6), RewardWeights(), 4096)
    rollouts = player.play_blueprints([make_home_blueprint(task, "train", seed // 2) for seed in range(6)], list(range(6)))
    assert max(len(one.ledger.spans) for one in rollouts) > 1
    for ledger in (one.ledger for one in rollouts):
        for start, stop in ledger.spans:
            expected = plain(model, ledger.ids[:start], ledger.ids[start:stop])
            torch.testing.assert_close(torch.tensor(ledger.logprobs[start:stop]), expected, atol=2e-5, rtol=0)


def held(*ids: int) -> CachedDialogue:
    return CachedDialogue(ids, ())


def test_the_longest_beginning_before_an_end_is_found():
    cache = DialogueCache(entries=9)
    for some in ((5, 6), (5, 6, END, 7), (5, 6, END, 7, END, 8)):
        cache.keep_dialogue(held(*some), None, 99)
    assert cache.find_prefix([5, 6, END, 7, END, 9, END], END) == held(5, 6, END, 7)
    assert (
        cache.find_prefix([5, 6, END], END) == held(5, 6)
        and cache.find_prefix([5, 6], END) is None
        and cache.find_prefix([6, END, 4], END) is None
    )
    assert cache.find_prefix([5, 6, END, 7, 4, END, 9], END) == held(5, 6, END, 7), "a message that was cut after 4"


def test_the_oldest_dialogue_makes_room():
    cache = DialogueCache(entries=2)
    for some in ((3, 3), (4, 4), (5, 5)):
        cache.keep_dialogue(held(*some), None, 6)
    assert [cache.find_prefix([*some, END, 3], END) for some in ((3, 3), (4, 4), (5, 5))] == [None, held(4, 4), held(5, 5)]
    cache.keep_dialogue(held(4, 4, END, 6, 6), held(4, 4), 6)
    assert cache.find_prefix([4, 4, END, 6, 6, END, 3], END) and not cache.find_prefix([5, 5, END, 3], END), (
        "7 tokens are too many"
    )
    cache.clear()
    assert not cache.find_prefix([4, 4, END, 6, 6, END, 3], END)


@given(st.lists(st.integers(1, 3000)))
def test_little_is_padded(lengths):
    left = sorted((length, number) for number, length in enumerate(lengths))
    groups = list(group_by_length(left))
    assert [number for group in groups for number in group] == [number for _, number in left]
    for group in groups:
        assert max(lengths[i] for i in group) <= 2 * min(lengths[i] for i in group) + 16


def test_of_a_dialogue_with_the_prompt_of_another_only_the_rest_is_read(model, tokenizer):
    rng = random.Random(3)
    home, first, second = words(rng, model, 40), words(rng, model), words(rng, model, 5)
    one, passes = watched(model)
    for forks, read in ((False, len(home) + len(second)), (True, len(second))):
        engine = TransformersEngine(one, tokenizer, 4, held=DialogueCache(4, forks))
        sample(engine, [[*home, END, *first]])
        passes.clear()
        (found,) = sample(engine, [[*home, END, *second]])
        check(model, [*home, END, *second], found)
        assert abs(passes[0][1] - read) <= 2, (forks, passes)
        assert len(engine.held._held) == 2, "the other dialogue goes on from what is held of it"


def test_what_prompts_of_a_batch_begin_with_is_read_once(model, tokenizer):
    rng = random.Random(5)
    rooms = words(rng, model, 70, 70)
    homes = [[*rooms, *words(rng, model, 80, 80)], [*rooms, *words(rng, model, 90, 90)], words(rng, model, 75, 75)]
    prompts = [[*home, END, *words(rng, model, 5, 9)] for home in (*homes, *homes, homes[0])]
    one, passes = watched(model)
    engine = TransformersEngine(one, tokenizer, 4, held=DialogueCache(9, forks=True))
    for _ in range(2):  # of the second batch all is held but what is said last
        ends = [[*prompt, END, *words(rng, model, 5, 9)] for prompt in prompts]
        for prompt, found in zip(ends, sample(engine, ends)):
            check(model, prompt, found)
    assert {columns for rows, columns in passes if columns > 25} == {70 + 80 + 1, 90 + 1, 75 + 1}
    assert all(rows == 1 for rows, columns in passes if columns > 25), "each beginning alone, once"
    assert sum(columns > 25 for _, columns in passes) == 3
