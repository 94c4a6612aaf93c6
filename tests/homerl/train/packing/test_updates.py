"""Updates of packed passes: losses and gradients are those of padded rows, for every tree, budget, kernel and memory."""

import gc
import random
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import psutil
import pytest
import torch
from accelerate import Accelerator
from crossed import crossed
from draws import few
from hypothesis import given
from hypothesis import strategies as st
from peft import LoraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.envs.core.documents import InputError
from homerl.train.packing import attention
from homerl.train.packing.packed_updates import PackedRow, PackedUpdates, TargetScores, TokenSequence, pack_row, score_row
from homerl.train.packing.pass_budget import TokenBudget

WORDS = 40
PLENTY = TokenBudget(10_000, 10_000)
SHAPES = {
    "grouped": {"num_attention_heads": 4, "num_key_value_heads": 2},
    "even": {"num_attention_heads": 2, "num_key_value_heads": 2},
}


def made(lora: bool = False, window: int | None = None, **sizes: Any) -> Any:
    """A tiny float32 Qwen3 with TRL's fused head; with a `window` its first layer sees so many tokens."""
    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=WORDS, hidden_size=32, intermediate_size=48, num_hidden_layers=2, head_dim=16,
        max_position_embeddings=512, tie_word_embeddings=True, attn_implementation="sdpa",
        use_sliding_window=window is not None, sliding_window=window,
        layer_types=["sliding_attention" if window else "full_attention", "full_attention"],
        **(sizes or SHAPES["grouped"]),
    )  # fmt: skip
    model = Qwen3ForCausalLM(config)
    add_fused_lm_head(model, temperature=0.8, outputs=("log_probs", "entropy"))
    if lora:
        model = get_peft_model(model, LoraConfig(r=4, target_modules="all-linear", task_type="CAUSAL_LM"))
        with torch.no_grad():
            for name, parameter in model.named_parameters():
                if "lora_B" in name:
                    parameter.normal_(0, 0.2)
    return model


MODELS = {"full": made(), "lora": made(lora=True), "even heads": made(**SHAPES["even"]), "window": made(window=5)}


@st.composite
def groups(draw: Any) -> list[TokenSequence]:
    """Groups of rollouts with shared prompts, forks at any place, doubles, and rollouts without a target."""
    rng = random.Random(draw(st.integers(0, 2**32)))
    found: list[TokenSequence] = []
    for _ in range(draw(st.integers(1, 3))):
        known = [[rng.randrange(WORDS) for _ in range(rng.randrange(1, 24))]]
        for _ in range(draw(st.integers(1, 4))):
            stem = rng.choice(known)
            stem = stem[: rng.randrange(1, len(stem) + 1)]
            ids = stem + [rng.randrange(3) for _ in range(rng.randrange(1, 12))]
            known.append(ids)
            count = rng.choice([0, 1, rng.randrange(1, len(ids))])
            found.append(
                TokenSequence.from_ids(ids, np.array(sorted(rng.sample(range(1, len(ids)), count)), dtype=np.int64))
            )
    return found


def padded(model: Any, sequences: Sequence[TokenSequence]) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Log-probabilities and entropies of all targets from one padded batch, by the model's plain logits."""
    longest = max(len(one.ids) for one in sequences)
    ids = torch.tensor([one.ids.tolist() + [0] * (longest - len(one.ids)) for one in sequences])
    mask = torch.tensor([[1] * len(one.ids) + [0] * (longest - len(one.ids)) for one in sequences])
    every = (model(input_ids=ids, attention_mask=mask).logits / 0.8).log_softmax(-1)
    logps, entropies = [], []
    for row, one in zip(every, sequences, strict=True):
        before = row[one.targets - 1]
        logps.append(before.gather(1, torch.tensor(one.ids[one.targets])[:, None])[:, 0])
        entropies.append(-(before.exp() * before).sum(-1))
    return logps, entropies


def weights(sequences: Sequence[TokenSequence]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(len(one.targets), generator=generator) for one in sequences]


def weighted(model: Any, sequences: Sequence[TokenSequence]) -> tuple[float, dict[str, torch.Tensor]]:
    """A loss of log-probabilities and entropies over a padded batch, with its gradients."""
    model.zero_grad()
    logps, entropies = padded(model, sequences)
    loss = sum(((a + 0.1 * b) * w).sum() for a, b, w in zip(logps, entropies, weights(sequences), strict=True))
    loss.backward()
    return loss.item(), gradients(model)


def gradients(model: Any) -> dict[str, torch.Tensor]:
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}


def objective(
    sequences: Sequence[TokenSequence], members: list[int], scored: TargetScores
) -> tuple[torch.Tensor, torch.Tensor]:
    own = torch.cat([weights(sequences)[i] for i in members] or [torch.zeros(0)])
    loss = ((scored.logps + 0.1 * scored.entropy) * own).sum()
    return loss, torch.tensor([float(len(own))])


def updates(budget: TokenBudget = PLENTY, kernel: str = "auto") -> PackedUpdates:
    return PackedUpdates(Accelerator(cpu=True), budget, kernel)


def close(model: Any, sequences: Sequence[TokenSequence], made: PackedUpdates) -> None:
    """An update's loss and gradients are those of the padded batch."""
    loss, expected = weighted(model, sequences)
    model.zero_grad()
    found, sums = made.train_on_sequences(model, sequences, partial(objective, sequences))
    assert found.item() == pytest.approx(loss, abs=1e-5, rel=1e-5)
    assert sums.tolist() == [sum(len(one.targets) for one in sequences)]
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(
            gradient, expected[name], atol=1e-5, rtol=1e-4, msg=lambda text, name=name: f"{name}: {text}"
        )


anything = few(12, 100)
kernels = few(6, 100)


@pytest.mark.parametrize("name", MODELS)
@anything
@given(groups(), st.integers(0, 60), st.integers(0, 60))
def test_gradients_are_those_of_padded_rows(name, sequences, plain, more):
    made = updates(TokenBudget(plain, plain + more + 1))
    close(MODELS[name], sequences, made)
    places = {tuple(one.ids[: t + 2]) for one in sequences if len(one.targets) for t in range(len(one.ids) - 1)}
    assert made.counts["unique"] == len(places) <= max(made.counts["forwarded"], 1)


@anything
@given(groups(), st.integers(1, 60))
def test_log_probabilities_come_in_the_order_of_the_sequences(sequences, most):
    found = updates(TokenBudget(0, most)).score_sequences(MODELS["full"], sequences)
    torch.testing.assert_close(found, torch.cat(padded(MODELS["full"], sequences)[0]).detach(), atol=1e-5, rtol=1e-5)
    assert not found.requires_grad


def test_log_probabilities_are_those_of_a_policy_that_drops_nothing():
    """The sampler drops nothing either. What is trained on afterwards does."""
    torch.manual_seed(0)
    model = get_peft_model(made(), LoraConfig(r=4, target_modules="all-linear", lora_dropout=0.5, init_lora_weights=False))
    one, maker = TokenSequence.from_ids(range(1, 12), np.arange(1, 11)), updates()
    first, again = (maker.score_sequences(model.train(), [one]) for _ in range(2))
    assert torch.equal(first, again) and torch.allclose(first, torch.cat(padded(model.eval(), [one])[0]), atol=1e-5)
    losses = [maker.train_on_sequences(model, [one], partial(objective, [one]))[0].item() for _ in range(2)]
    assert losses[0] != losses[1]


@anything
@given(groups(), st.sampled_from([2, 8, 128]))
def test_a_row_may_be_filled_up(sequences, step):
    """As on a GPU: zeros at the end change nothing."""
    made = updates()
    made.step = step
    close(MODELS["full"], sequences, made)
    assert made.counts["forwarded"] % step == 0 or not any(len(one.targets) for one in sequences)


def test_the_model_generates_as_before():
    model, prompt = MODELS["full"], torch.tensor([[1, 2, 3]])
    before = model.eval().generate(prompt, max_new_tokens=5, do_sample=False)
    updates().score_sequences(model, [TokenSequence.from_ids([1, 2, 3], np.array([2]))])
    assert model.config._attn_implementation == "sdpa"
    assert torch.equal(model.eval().generate(prompt, max_new_tokens=5, do_sample=False), before)


# Kernels of flash attention, for which a loop stands in: it does what their documentation says


def lower_right(query, key, value, query_ends, key_ends, most_queries, most_keys, scale, back=-1):
    """Causal attention of rows of different lengths, aligned at their ends; keys have the heads of queries, or fewer.

    A query looks `back` so many keys, or to the first one.
    """
    shares = query.shape[1] // key.shape[1]
    key, value = (part.repeat_interleave(shares, dim=1) for part in (key, value))
    rows = []
    for q0, q1, k0, k1 in zip(query_ends[:-1], query_ends[1:], key_ends[:-1], key_ends[1:], strict=True):
        q, k, v = query[q0:q1], key[k0:k1], value[k0:k1]
        assert len(q) <= most_queries and len(k) <= most_keys
        seen = torch.ones(len(q), len(k), dtype=torch.bool).tril(len(k) - len(q))
        seen = seen if back < 0 else seen.triu(len(k) - len(q) - back)
        weights = torch.einsum("qhd,khd->hqk", q, k) * scale
        rows.append(torch.einsum("hqk,khd->qhd", weights.masked_fill(~seen, float("-inf")).softmax(-1), v))
    return torch.cat(rows)


def torchs(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1), scale=None, enable_gqa=False):
    back, ahead = window_size
    assert ahead == 0 and (enable_gqa or query.shape[1] == key.shape[1])
    return lower_right(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, scale, back)


def torchs_first(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, *, window_size=(-1, -1), scale=None):
    """As in torch 2.11: no groups of heads."""
    return torchs(query, key, value, cu_seq_q, cu_seq_k, max_q, max_k, window_size=window_size, scale=scale)


def flash(query, key, value, cu_q, cu_k, max_q, max_k, softmax_scale=None, causal=False, window_size=(-1, -1)):
    assert causal
    return lower_right(query, key, value, cu_q, cu_k, max_q, max_k, softmax_scale, window_size[0])


@pytest.mark.parametrize(
    ("name", "varlen"),
    [("full", torchs), ("full", torchs_first), ("even heads", torchs), ("even heads", torchs_first), ("window", torchs)],
)
@kernels
@given(groups())
def test_torchs_varlen_attention_is_called_right(name, varlen, sequences):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("torch.nn.attention.varlen.varlen_attn", varlen)
        close(MODELS[name], sequences, updates(kernel="varlen"))


@crossed(name=["full", "window"], package=["flash_attention_2", "flash_attention_3"])
@kernels
@given(groups())
def test_flash_attention_is_called_right(package, name, sequences):
    asked: list[str] = []

    def imported(implementation: str) -> Any:
        asked.append(implementation)
        return (None, flash, None, None, None), None

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("transformers.modeling_flash_attention_utils.lazy_import_flash_attention", imported)
        close(MODELS[name], sequences, updates(kernel=package))
    assert set(asked) <= {package}


class Kept(torch.autograd.Function):
    """Attention whose backward pass needs its queries, keys and values, as a flash kernel's does."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> torch.Tensor:
        ctx.save_for_backward(query, key, value)
        ctx.rest = rest
        return lower_right(query, key, value, *rest)

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        saved = [part.detach().requires_grad_() for part in ctx.saved_tensors]
        with torch.enable_grad():
            result = lower_right(*saved, *ctx.rest)
        return *torch.autograd.grad(result, saved, gradient), *[None] * len(ctx.rest)


def keeps(query, key, value, cu_q, cu_k, max_q, max_k, softmax_scale=None, causal=False):
    return Kept.apply(query, key, value, cu_q, cu_k, max_q, max_k, softmax_scale)


def test_a_prompts_keys_are_not_kept_for_each_rollout(monkeypatch):
    """The keys of 16 rollouts are freed after the forward pass, and the gradients are right (test above)."""
    seen: list[weakref.ref] = []

    def watched(query, key, value, *rest, **options):
        seen.extend(map(weakref.ref, (key, value)))
        return keeps(query, key, value, *rest, **options)

    monkeypatch.setattr(
        "transformers.modeling_flash_attention_utils.lazy_import_flash_attention", lambda _: ((None, watched, 0, 0, 0), None)
    )
    _, kernel = attention.choose_attention_kernel("flash_attention_2", "cpu")
    row = pack_row([TokenSequence.from_ids([1] * 200 + [2 + i, 3], np.array([200])) for i in range(16)], kernel, "cpu")
    parts = [torch.randn(row.token_count, heads, 8, requires_grad=True) for heads in (4, 2, 2)]
    result = kernel(*parts, row.inputs["segments"], 0.3, None)
    gc.collect()
    assert len(seen) == 2 and not any(ref() is not None for ref in seen)
    result.sum().backward()
    expected = [part.grad.clone() for part in parts]
    for part in parts:
        part.grad = None
    attention.attend_by_segment(*parts, row.inputs["segments"], 0.3, None).sum().backward()
    for part, gradient in zip(parts, expected, strict=True):
        torch.testing.assert_close(part.grad, gradient, atol=1e-5, rtol=1e-4)


class KeepsResult(torch.autograd.Function):
    """Keeps its result for its backward pass, as a flash kernel does. It is no attention, but takes linear time."""

    @staticmethod
    def forward(ctx: Any, query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
        result = query + key.mean() + value.mean()
        ctx.save_for_backward(query, key, value, result)
        return result

    @staticmethod
    def backward(ctx: Any, gradient: torch.Tensor) -> Any:
        raise AssertionError("no pass of this test comes so far")


def test_forward_passes_that_fail_are_freed(monkeypatch):
    """Each of five passes runs out of memory after its first attention, whose result takes 64 MB."""
    monkeypatch.setattr(
        "transformers.modeling_flash_attention_utils.lazy_import_flash_attention",
        lambda _: ((None, lambda query, key, value, *_, **__: KeepsResult.apply(query, key, value), 0, 0, 0), None),
    )
    _, kernel = attention.choose_attention_kernel("flash_attention_2", "cpu")
    row = pack_row(
        [TokenSequence.from_ids([1] * 500_000 + [2 + i, 3], np.array([500_000])) for i in range(2)], kernel, "cpu"
    )
    parts = [torch.randn(row.token_count, heads, 8, requires_grad=True) for heads in (4, 2, 2)]

    def fails() -> None:
        kernel(*(part * 2 for part in parts), row.inputs["segments"], 0.3, None)
        raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 14.50 GiB")

    def memory_after_a_failure() -> int:
        with pytest.raises(torch.OutOfMemoryError):
            fails()
        gc.collect()
        return psutil.Process().memory_info().rss

    first, *_, last = [memory_after_a_failure() for _ in range(5)]
    assert last - first < 4 * 64e6, "less than the four results between them, without what these were made from"


def test_checkpointing_keeps_nothing_of_the_attention(monkeypatch):
    """Queries too are freed after the forward pass: no other hooks replace those of checkpointing."""
    seen: list[weakref.ref] = []

    def watched(query, key, value, *rest, **options):
        seen.append(weakref.ref(query))
        return keeps(query, key, value, *rest, **options)

    monkeypatch.setattr(
        "transformers.modeling_flash_attention_utils.lazy_import_flash_attention", lambda _: ((None, watched, 0, 0, 0), None)
    )
    _, kernel = attention.choose_attention_kernel("flash_attention_2", "cpu")
    some = [TokenSequence.from_ids([1] * 200 + [2 + i, 3], np.array([200])) for i in range(4)]
    row = pack_row(some, kernel, "cpu", recomputed=True)
    source = torch.randn(row.token_count, 4, 8, requires_grad=True)

    def attended(source: torch.Tensor) -> torch.Tensor:
        return kernel(source * 1.5, source[:, :2] * 2, source[:, 2:] * 3, row.inputs["segments"], 0.3, None)

    result = checkpoint(attended, source, use_reentrant=False)
    gc.collect()
    assert len(seen) == 1 and seen[0]() is None
    result.sum().backward()
    (expected,) = torch.autograd.grad(attended(twin := source.detach().requires_grad_()).sum(), twin)
    torch.testing.assert_close(source.grad, expected)


def test_what_is_installed_is_chosen(monkeypatch):
    assert attention.choose_attention_kernel("auto", "cpu")[1] is attention.attend_by_segment
    assert attention.choose_attention_kernel("auto", "cuda", half=False)[1] is attention.attend_by_segment, (
        "flash kernels know 16 bits only"
    )
    for installed, expected in (("3", "flash_attention_3"), ("2", "flash_attention_2"), ("", "torch's varlen attention")):
        monkeypatch.setattr("transformers.utils.is_flash_attn_3_available", lambda installed=installed: installed == "3")
        monkeypatch.setattr("transformers.utils.is_flash_attn_2_available", lambda installed=installed: installed == "2")
        attention._best_installed_kernel.cache_clear()
        assert attention.choose_attention_kernel("auto", "cuda")[0] == expected
    attention._best_installed_kernel.cache_clear()


@pytest.mark.parametrize("name", attention.UNKNOWN)
def test_attention_of_another_kind_is_refused(name):
    row = pack_row([TokenSequence.from_ids([1, 2, 3], np.array([2]))], attention.attend_by_segment, "cpu")
    part = torch.zeros(1, 2, 2, 8)
    with pytest.raises(ValueError, match=f"packed rows know no `{name}`"):
        attention.attend_packed_row(
            None, part, part, part, None, 1.0, row.inputs["segments"], attention.attend_by_segment, **{name: 0.5}
        )


# Memory


class Small(torch.nn.Module):
    """A model on a device that holds only so many tokens."""

    def __init__(self, model: Any, tokens: int) -> None:
        super().__init__()
        self.model, self.tokens, self.config = model, tokens, model.config

    def forward(self, input_ids: torch.Tensor, **inputs: Any) -> Any:
        if input_ids.shape[1] > self.tokens:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 14.50 GiB")
        return self.model(input_ids=input_ids, **inputs)

    def __getattr__(self, name: str) -> Any:
        return super().__getattr__(name) if name in ("model", "_modules") else getattr(self.model, name)


SOME = [TokenSequence.from_ids([group] * 90 + [answer] * 12, np.arange(90, 102)) for group in (1, 2) for answer in range(4)]


LONG = [TokenSequence.from_ids([group] * 40 + [answer] * 2, np.arange(40, 42)) for group in range(8) for answer in range(8)]


def test_passes_without_gradients_have_a_budget_of_their_own(monkeypatch):
    """A pass of them that runs out of memory leaves the passes of training as they are."""
    rows: list[int] = []
    make_row = PackedUpdates._make_row

    def counted(*given: object) -> PackedRow:
        row = make_row(*given)
        rows.append(row.token_count)
        return row

    monkeypatch.setattr(PackedUpdates, "_make_row", counted)
    packed = updates(TokenBudget(0, 300, scored=600))
    found = packed.score_sequences(MODELS["full"], LONG)
    assert len(rows) == 1 and rows[0] > 300
    again = packed.score_sequences(Small(MODELS["full"], rows[0] - 1), LONG)
    assert packed.budget == TokenBudget(0, 300, scored=300) and torch.allclose(found, again, atol=1e-5)
    assert str(updates(TokenBudget(0, 300, scored=600)).budget) == "300 with checkpointing; 600 without gradients"


def test_out_of_memory_halves_the_budget_and_loses_nothing(caplog):
    model = made()
    loss, expected = weighted(model, SOME)
    model.zero_grad()
    packed = updates(TokenBudget(1024, 1024))
    found, _ = packed.train_on_sequences(Small(model, 200), SOME, partial(objective, SOME))
    assert packed.budget == TokenBudget(256, 256) and caplog.text.count("out of memory; tokens of a pass from now on") == 2
    assert found.item() == pytest.approx(loss, rel=1e-5)
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-5, rtol=1e-4)


def test_gradients_of_a_pass_that_went_well_before_are_not_counted_twice():
    """The third pass fails, so the first two are made again."""
    model, made_passes = made(), []
    _, expected = weighted(model, SOME)
    model.zero_grad()

    class Once(Small):
        def forward(self, input_ids: torch.Tensor, **inputs: Any) -> Any:
            made_passes.append(input_ids.shape[1])
            self.tokens = 0 if len(made_passes) == 2 else 10_000
            return super().forward(input_ids, **inputs)

    packed = updates(TokenBudget(140, 140))
    packed.checked = True  # else it counts as a pass
    packed.train_on_sequences(Once(model, 0), SOME, partial(objective, SOME))
    assert len(made_passes) > 2 and packed.counts["forwarded"] == sum(made_passes[2:])
    for name, gradient in gradients(model).items():
        torch.testing.assert_close(gradient, expected[name], atol=1e-5, rtol=1e-4)


def test_a_memory_that_holds_no_pass_is_told():
    with pytest.raises(
        InputError, match=r"tokens_per_step: out of memory in a pass of 101 tokens\none sequence alone is too"
    ):
        updates(TokenBudget(512, 512)).train_on_sequences(Small(made(), 10), SOME, partial(objective, SOME))


def test_a_rank_in_shards_that_lacks_memory_for_the_first_check_says_so():
    """The others wait for it in an exchange of weights."""

    class InShards(PackedUpdates):
        _in_shards = True

    packed = InShards(Accelerator(cpu=True), PLENTY, "auto")
    with pytest.raises(InputError, match="parallel: out of memory with 2 sequences of 102 tokens at most"):
        packed.train_on_sequences(Small(made(), 0), SOME, partial(objective, SOME))


@pytest.mark.long
def test_memory_that_halving_does_not_free_ends_the_run_and_says_what_holds_it():
    """As where something beside the passes takes it: three halvings are tried, and a budget that helps begins anew."""
    packed = updates(TokenBudget(4000, 4000))
    with pytest.raises(
        InputError, match=r"out of memory 4 times in a row, at last with passes of 500 tokens\n.*weights 0\.0 GB"
    ):
        packed.train_on_sequences(Small(made(), 0), LONG, partial(objective, LONG))
    assert packed.budget.most == 500
    packed = updates(TokenBudget(4000, 4000))
    for _ in range(3):  # each needs a halving more, none of them four
        packed.budget = TokenBudget(1024, 1024)
        packed.train_on_sequences(Small(made(), 200), SOME, partial(objective, SOME))


def test_other_errors_are_not_taken_for_it():
    def fails(members: list[int], scored: TargetScores) -> Any:
        raise RuntimeError("shapes do not match")

    with pytest.raises(RuntimeError, match="shapes do not match"):
        updates().train_on_sequences(made(), SOME, fails)


def test_an_update_without_any_target_has_zero_gradients():
    model = made()
    nothing = [TokenSequence.from_ids([1, 2, 3], np.zeros(0, dtype=np.int64))]
    loss, _ = updates().train_on_sequences(model, nothing, partial(objective, nothing))
    assert loss.item() == 0 and all(not gradient.any() for gradient in gradients(model).values())


def test_only_targets_go_through_the_head(monkeypatch):
    """A prompt of 90 tokens and 12 sampled ones: 12 rows for the head (`score_labelled_positions`)."""
    from trl.trainer import utils

    seen: list[int] = []
    apply = utils._ChunkedLogProbFunction.apply
    monkeypatch.setattr(
        utils._ChunkedLogProbFunction, "apply", lambda hidden, *rest: (seen.append(len(hidden)), apply(hidden, *rest))[1]
    )
    kernel = updates().kernel  # making it applies the workaround
    with attention.use_packed_attention(MODELS["full"].config):
        score_row(MODELS["full"], pack_row(SOME[:1], kernel, "cpu"))
    assert seen == [12]
