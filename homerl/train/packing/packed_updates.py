"""An update of several passes: sequences are packed into rows, forwarded and backwarded row by row, and gradients add up.

It reads from top to bottom: `split_into_passes` decides which sequences share a pass, `pack_row` makes a row of them,
`score_row` forwards it, and `PackedUpdates` makes the update.

Invariants of passes:
- Every sequence is in one pass, which stays within the budget, unless one sequence alone exceeds it.
- Among such splits it is the cheapest, so a common beginning is seldom forwarded twice.
- The largest pass comes first, so that it is the first one that could run out of memory.

Invariants of rows: a score belongs to one target of one sequence, in the order in which both were given; only targets go
through the model's head; no complete logits exist; on a GPU a row is filled up to a multiple of `STEP`.

Invariants of an update:
- The gradients are those of all sequences in one padded batch.
- Ranks exchange gradients once, in the last pass. Where weights or gradients are in shards every pass is an exchange, so
  all ranks make the same number of passes, each with checkpointing on all of them or on none: ZeRO-3 gathers a layer once
  more where it is computed again.
- If a pass runs out of memory, the budget is halved and the update begins again from its first pass. Nothing is lost. If
  `HALVINGS` in a row do not help, something else takes the memory: the run ends, and says what holds how much.
  Where every pass is an exchange this is impossible, since other ranks wait within theirs. Then the run ends, and its
  message says what to do.
- If a layer cannot be compiled, in any pass before an exchange, all layers run as they are from then on.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise
from typing import Any, TypeVar

import numpy as np
import psutil
import torch
from accelerate import Accelerator, DistributedType
from accelerate.logging import get_logger
from accelerate.utils import gather
from accelerate.utils.memory import clear_device_cache
from torch.nn import Module
from torch.nn.parallel import DistributedDataParallel
from transformers import PreTrainedConfig

from homerl.envs.core.documents import InputError
from homerl.models.policy.transformers_engine import is_out_of_memory
from homerl.train.model_settings import GB
from homerl.train.packing.attention import (
    Device,
    Kernel,
    choose_attention_kernel,
    copy_to_device,
    make_attention_segments,
    use_packed_attention,
)
from homerl.train.packing.compiled_layers import CompiledLayers, is_compile_error
from homerl.train.packing.draws import train_without_draws
from homerl.train.packing.pass_budget import STEP, MemoryProfiler, TokenBudget
from homerl.train.packing.prefix_tree import count_shared_places, lexical_order, merge_sequences
from homerl.train.packing.router_balance import RouterBalance
from homerl.train.tensor_shapes import Ids, Indices, ScalarLoss, SumVector, TargetValues
from homerl.train.workarounds import score_labelled_positions

IGNORE_INDEX = -100  # the label of a place without a target


@dataclass(frozen=True)
class TokenSequence:
    """Token ids, and the indices (1 or more, ascending) of those that are predicted with a loss: its targets."""

    ids: Ids
    targets: Indices

    @classmethod
    def from_ids(cls, ids: Sequence[int], targets: Indices) -> TokenSequence:
        """One whose ids come as a list."""
        return cls(np.asarray(ids, dtype=np.int64), targets)


@dataclass(frozen=True)
class MicroBatch:
    """A pass: the indices of its sequences (none: only others have some left), and whether it is made with checkpointing."""

    members: list[int]
    recomputed: bool = False


def split_into_passes(sequences: Sequence[Ids], budget: TokenBudget) -> tuple[list[MicroBatch], int]:
    """The passes of an update, the largest first, and the places of all sequences if each is counted once."""
    order = lexical_order(sequences)
    ordered = [sequences[i] for i in order]
    sizes = [len(ids) - 1 for ids in ordered]  # places of each sequence, and below those that it shares with the one before
    shared = [0, *(count_shared_places(first, second) for first, second in pairwise(ordered))][: len(order)]
    own = list(accumulate((size - common for size, common in zip(sizes, shared, strict=True)), initial=0))
    # by dynamic programming: the least cost of the first `end` sequences, and where the last pass of these begins
    best, begin = [0.0] + [float("inf")] * len(order), [0] * (len(order) + 1)
    for end in range(1, len(order) + 1):
        for start in range(end - 1, -1, -1):
            # what the first sequence of a pass shares with the one before it is forwarded again
            tokens = own[end] - own[start] + shared[start]
            # an earlier start only adds own tokens, so none further back fits either
            if own[end] - own[start] > budget.most and start < end - 1:
                break
            if tokens > budget.most and start < end - 1:
                continue
            cost = best[start] + budget.pass_cost(tokens)
            if cost < best[end]:
                best[end], begin[end] = cost, start
    passes, end = [], len(order)
    while end:
        start = begin[end]
        passes.append((own[end] - own[start] + shared[start], order[start:end]))
        end = start
    passes.sort(key=lambda one: -one[0])
    return [MicroBatch(members, budget.needs_checkpointing(tokens)) for tokens, members in passes], own[-1]


def one_pass_each(sequences: Sequence[Ids], budget: TokenBudget) -> tuple[list[MicroBatch], int]:
    """The same with a pass for each sequence, for a model whose sequences cannot share a row."""
    sizes = [len(ids) - 1 for ids in sequences]
    order = sorted(range(len(sizes)), key=lambda i: -sizes[i])
    return [MicroBatch([i], budget.needs_checkpointing(sizes[i])) for i in order], sum(sizes)


@dataclass(frozen=True)
class PackedRow:
    """What the model is called with, and the places in the row of all targets (int64, of shape (targets,))."""

    inputs: dict[str, Any]
    at: torch.Tensor

    @property
    def token_count(self) -> int:
        """The number of tokens that are forwarded."""
        return int(self.inputs["input_ids"].shape[1])


@dataclass(frozen=True)
class TargetScores:
    """For each target: its log-probability, the entropy of the prediction, and whether the target was the most probable
    token (None if it is not measured).
    """

    logps: TargetValues
    entropy: TargetValues | None
    top: TargetValues | None


def pack_row(
    sequences: Sequence[TokenSequence], kernel: Kernel | None, device: Device, step: int = 1, recomputed: bool = False
) -> PackedRow:
    """The row of some sequences, merged where they begin alike. Its length is a multiple of `step`.

    Without a `kernel` it is the row of a single sequence, to which the model attends as it always does. `recomputed` tells
    whether the pass is made with checkpointing.
    """
    tree = merge_sequences([sequence.ids for sequence in sequences], step)
    labels = np.full(len(tree.ids), IGNORE_INDEX, dtype=np.int64)
    at = []
    for sequence, places in zip(sequences, tree.places, strict=True):
        place = places[sequence.targets - 1]  # a token is predicted at the place of the one before it
        labels[place] = sequence.ids[sequence.targets]
        at.append(place)

    inputs: dict[str, Any] = {
        "input_ids": copy_to_device(tree.ids, device)[None],
        "position_ids": copy_to_device(tree.positions, device)[None],
        "shift_labels": copy_to_device(labels, device)[None],
        "fused_lm_head": True,
    }
    if kernel is not None:
        inputs |= {"segments": make_attention_segments(tree, device, recomputed), "kernel": kernel}
        # transformers makes no mask of its own if it is given one of 4 dimensions
        inputs["attention_mask"] = torch.ones(1, 1, 1, 1, dtype=torch.bool, device=device)
    return PackedRow(inputs, copy_to_device(np.concatenate(at), device))


def make_empty_row(kernel: Kernel | None, device: Device, recomputed: bool = False) -> PackedRow:
    """A row without targets, for a rank that has nothing left to forward while others do.

    It has two tokens: a row of one would be compiled anew.
    """
    return pack_row([TokenSequence.from_ids((0, 0, 0), np.zeros(0, dtype=np.int64))], kernel, device, recomputed=recomputed)


def score_row(model: Module, row: PackedRow) -> TargetScores:
    """Forward a row. The model has TRL's fused head."""
    output = model(**row.inputs)
    found = output.log_probs, output.entropy, output.is_top1
    return TargetScores(*(None if part is None else part.index_select(1, row.at)[0] for part in found))


HALVINGS = 3
MEMBERS = 2  # sequences that are compared
# mean difference of log-probabilities, in nats. Rounding to bfloat16 gives 0.07 for 36 layers of random weights, which is
# the worst case: that of a trained model is a tenth of it
IN_16_BITS, IN_TF32, IN_FLOAT32 = 0.2, 0.02, 1e-3
LossAndSums = tuple[ScalarLoss, SumVector]
Objective = Callable[[list[int], TargetScores], LossAndSums]
Check = Callable[[torch.Tensor], None]
T = TypeVar("T")


class PackedUpdates:
    """Makes updates on one rank, with a budget for each pass. The model has TRL's fused head. `half` tells whether it
    computes in a 16-bit number format, and `unpackable` why its sequences cannot share a row, if so
    (`find_packing_obstacle`). `compiled` are its layers, if they run compiled in packed rows. With `draws` they draw at
    random in training what they are made to draw; else only an adapter's dropout is. With a `balance` the loss has the
    routers' part, each pass by its share of the tokens.

    Once a `profiler` has measured a pass, its budget is taken.

    `counts` are of updates, of passes, and of tokens since the last `take_packing_metrics`: `forwarded` ones with gradients,
    `unique` ones that would have been enough, if each common beginning were forwarded once an update, and `trained` ones of
    all sequences, each alone.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        budget: TokenBudget,
        attention: str,
        half: bool = False,
        unpackable: str | None = None,
        profiler: MemoryProfiler | None = None,
        compiled: CompiledLayers | None = None,
        draws: bool = True,
        balance: RouterBalance | None = None,
    ) -> None:
        self.draws, self.balance = draws, balance
        self.accelerator, self.budget, self.profiler, self.compiled = accelerator, budget, profiler, compiled
        name, kernel = choose_attention_kernel(attention, accelerator.device.type, half)
        self.kernel, self.half, self.checked = None if unpackable else kernel, half, False
        self.step = STEP if accelerator.device.type == "cuda" else 1
        self.counts, self.halvings = Counter[str](), 0
        self._smallest = False, 0  # of the newest row: whether no smaller one would do, and its tokens
        score_labelled_positions()
        self.log = get_logger(__name__)
        attending = "the model's own" if unpackable else name
        self.log.info(f"attention in training: {attending}; tokens of a pass: {budget}")
        if self.kernel and compiled:
            self.log.warning(
                "layers are compiled in the first pass, which takes up to two minutes; model.compile: false does not"
            )
        if unpackable:
            self.log.warning(f"each row has one sequence, and no prompt is shared, which is slower: {unpackable}")

    def train_on_sequences(
        self,
        model: Module,
        sequences: Sequence[TokenSequence],
        objective: Objective,
        before_exchange: Check = lambda loss: None,
    ) -> LossAndSums:
        """Forward and backward all sequences; the gradients stay in the model.

        Args:
            model: the policy as the trainer calls it, such as within DDP.
            sequences: those of this rank, of which some may have no targets.
            objective: gets the indices of a pass's sequences and the scores of their targets; returns that part of the loss,
                and sums of its own choice.
            before_exchange: gets the rank's loss before its last backward pass, and may raise to stop the update.

        Returns:
            The loss and the sums of this rank, added up over its passes.

        Raises:
            InputError: if the memory is too small, and before the first update if the sequences cannot share a row.
        """

        def train() -> LossAndSums:
            if self.kernel and not self.checked:
                self._refuse_mixed_sequences(model, sequences)
                self.checked = True
            if self.draws:
                model.train()
            else:
                train_without_draws(model)
            while (done := self._attempt_update(model, sequences, objective, before_exchange)) is None:
                self._make_room(model)
            self.halvings = 0
            if self.profiler and (found := self.profiler.settle_budget()):
                self.budget = self.profiler.budget
                self.log.warning(found)  # information is not shown
            return done

        return self._compiled_or_plain(model, train)

    def take_packing_metrics(self) -> dict[str, float]:
        """The means over this rank's updates since the last call, as metrics; then count from zero."""
        counts, self.counts = self.counts, Counter[str]()
        updates, forwarded = max(1, counts["updates"]), max(1, counts["forwarded"])
        return {
            "packing/unique": counts["unique"] / forwarded,
            "packing/tokens": counts["forwarded"] / updates,
            "packing/passes": counts["passes"] / updates,
            "packing/shared": counts["trained"] / forwarded,
        }

    @torch.no_grad()
    def score_sequences(self, model: Module, sequences: Sequence[TokenSequence]) -> TargetValues:
        """The log-probabilities of all targets, in the order of the sequences.

        Passes are larger than those of `train_on_sequences`, since no activations are kept. Nothing is dropped at random, as
        when the policy samples. Raises `InputError` as that does.
        """
        model.eval()
        found = [torch.zeros(0, device=self.accelerator.device)] * len(sequences)

        def score_passes() -> None:
            for batch in self._plan_passes(sequences, self.budget.without_gradients())[0]:
                with self._attend_packed(model), self.accelerator.autocast():
                    scored = score_row(model, self._make_row(sequences, batch)).logps.float()
                lengths = [len(sequences[i].targets) for i in batch.members]
                for i, part in zip(batch.members, scored.split(lengths), strict=True):
                    found[i] = part

        def score() -> None:
            while self._runs_out(score_passes, self._in_shards):
                self._make_room(model, scoring=True)

        self._compiled_or_plain(model, score)
        return torch.cat(found)

    @torch.no_grad()
    def _refuse_mixed_sequences(self, model: Module, sequences: Sequence[TokenSequence]) -> None:
        """Raise `InputError` if sequences that share a row have other log-probabilities than alone, on any rank.

        The first sequences of a run are scored in one row, and each alone as the model always attends. A layer that mixes
        the sequences of a row, or an attention that ours does not stand in for, gives other log-probabilities; a
        configuration may not tell. All ranks forward as many rows of as many sequences, since weights may be in shards.

        A rank whose memory is too small for so short sequences compares nothing; its update says what to do. In shards the
        others wait for it within a layer, so it raises `InputError` then.
        """
        module = model.module if isinstance(model, DistributedDataParallel) else model  # its forward may exchange
        module.eval()
        device = self.accelerator.device
        gap = torch.zeros(1, device=device)
        # the shortest that follow each other in lexical order, so that they share a prompt where any do
        trained = [one for one in sequences if len(one.targets)]
        ordered = [trained[i] for i in lexical_order([one.ids for one in trained])]
        groups = [ordered[start : start + MEMBERS] for start in range(max(1, len(ordered) - MEMBERS + 1))]
        some = min(groups, key=lambda group: sum(len(one.ids) for one in group))
        try:
            with self.accelerator.autocast():
                with use_packed_attention(*list_attention_configs(model)):  # uncompiled, since compiling takes a while
                    row = pack_row(some, self.kernel, device) if some else make_empty_row(self.kernel, device)
                    together = score_row(module, row).logps.float()
                empty = [make_empty_row(None, device)] * (MEMBERS - len(some))
                rows = [pack_row([one], None, device) for one in some] + empty
                alone = torch.cat([score_row(module, row).logps.float() for row in rows])
                if len(alone):
                    gap += (together - alone).abs().mean()
        except RuntimeError as error:
            if not is_out_of_memory(error):
                raise
            if self._in_shards:
                what = f"out of memory with {MEMBERS} sequences of {max(len(one.ids) for one in some)} tokens at most"
                raise InputError(what, "parallel", "train on more GPUs, or with shorter sequences") from error
        worst = gather(gap).max().item()
        if not worst <= largest_rounding_gap(self.half, device.type):  # nor is it a number where a model gives none
            what = f"a packed row changes the log-probabilities of this model's sequences, by {worst:.2g} nats in the mean"
            raise InputError(what, "model.name", "train a model all of whose layers are attention, and report this one")

    def _compiled_or_plain(self, model: Module, work: Callable[[], T]) -> T:
        """What some work returns. If a layer cannot be compiled, it is done again with layers as they are, from now on.

        Other ranks do not notice, since none waits for this one within a pass.
        """
        try:
            return work()
        except Exception as error:
            if not (self.compiled and is_compile_error(error)):
                raise
            self.log.warning(f"layers run as they are from now on: {describe_compile_error(error)}", main_process_only=False)
        self.compiled = None
        self._drop_gradients(model)
        return work()

    def _attempt_update(
        self, model: Module, sequences: Sequence[TokenSequence], objective: Objective, before_exchange: Check
    ) -> LossAndSums | None:
        """One attempt at an update: the loss and the sums; None if some rank ran out of memory."""
        (*early, final), unique = self._plan_passes(sequences, self.budget, exchanges=True)
        state, done = self.accelerator, list[tuple[ScalarLoss, SumVector, int]]()
        # else DeepSpeed would divide the loss by its gradient accumulation steps; our passes add up
        options = {"scale_wrt_gas": False} if state.distributed_type == DistributedType.DEEPSPEED else {}

        def make_pass(batch: MicroBatch, last: bool) -> None:
            row = self._make_row(sequences, batch)
            self._switch_checkpointing(model, batch.recomputed)
            tokens = row.token_count if batch.members else 0
            if self.balance:
                self.balance.forget()
            measured = self.profiler.measure_pass(len(done), tokens, batch.recomputed) if self.profiler else nullcontext()
            with measured, self._exchange_gradients(model, last) as called, self._attend_packed(model):
                with state.autocast():
                    scored = score_row(called, row)
                    loss, sums = objective(batch.members, scored)
                    loss = loss + 0.0 * scored.logps.sum()  # without targets there must be gradients to exchange, too
                    if self.balance:
                        share = sum(len(sequences[i].ids) for i in batch.members) / sum(len(one.ids) for one in sequences)
                        loss = loss + share * self.balance.compute_loss()
                if last:
                    before_exchange(sum((part for part, *_ in done), loss.detach()))
                state.backward(loss, **options)
            done.append((loss.detach(), sums.detach(), tokens))

        def make_early_passes() -> None:
            for batch in early:
                make_pass(batch, last=False)

        # all ranks agree on success before the last pass, in which they meet: a rank that failed would leave others waiting
        failed = self._runs_out(make_early_passes, self._in_shards)
        if state.num_processes > 1:  # one rank alone does not wait for its GPU to say so
            failed = bool(gather(torch.tensor([failed], device=state.device)).any())
        if failed or self._runs_out(lambda: make_pass(final, last=True), state.num_processes > 1):
            return None
        trained = sum(len(one.ids) - 1 for one in sequences if len(one.targets))
        forwarded = [tokens for *_, tokens in done if tokens]
        self.counts.update(updates=1, passes=len(forwarded), forwarded=sum(forwarded), unique=unique, trained=trained)
        return torch.stack([loss for loss, *_ in done]).sum(), torch.stack([sums for _, sums, _ in done]).sum(0)

    def _plan_passes(
        self, sequences: Sequence[TokenSequence], budget: TokenBudget, exchanges: bool = False
    ) -> tuple[list[MicroBatch], int]:
        """The passes of this rank, the largest first, one at least; and the tokens that would be enough.

        Under DDP the pass that `exchanges` gradients is empty, so that none runs out of memory while other ranks wait.
        """
        with_targets = [i for i, sequence in enumerate(sequences) if len(sequence.targets)]
        ids = [sequences[i].ids for i in with_targets]  # the others have no loss, so nothing of them is forwarded
        split = split_into_passes if self.kernel else one_pass_each
        planned, unique = split(ids, budget)
        passes = [replace(batch, members=[with_targets[i] for i in batch.members]) for batch in planned]
        empty, device = MicroBatch([]), self.accelerator.device
        if self._in_shards:  # as many passes as the rank with the most, each with checkpointing if a rank needs it
            passes = passes or [empty]
            passes += [empty] * (int(gather(torch.tensor([len(passes)], device=device)).max()) - len(passes))
            needs = gather(torch.tensor([[batch.recomputed for batch in passes]], device=device)).any(0).tolist()
            passes = [replace(batch, recomputed=needed) for batch, needed in zip(passes, needs, strict=True)]
        elif not passes or (exchanges and self.accelerator.num_processes > 1):
            passes.append(empty)
        return passes, unique

    @contextmanager
    def _attend_packed(self, model: Module) -> Iterator[None]:
        """Within the context the model attends to this trainer's rows, and its layers run compiled, if they are."""
        with ExitStack() as stack:
            if self.kernel:
                stack.enter_context(use_packed_attention(*list_attention_configs(model)))
            if self.kernel and self.compiled:
                stack.enter_context(self.compiled.run_compiled())
            yield

    def _make_row(self, sequences: Sequence[TokenSequence], batch: MicroBatch) -> PackedRow:
        members, device = [sequences[i] for i in batch.members], self.accelerator.device
        if members:
            row = pack_row(members, self.kernel, device, self.step, batch.recomputed)
        else:
            row = make_empty_row(self.kernel, device, batch.recomputed)
        self._smallest = len(members) == 1 and (batch.recomputed or not self.budget.allowed), row.token_count
        return row

    @property
    def _in_shards(self) -> bool:
        """Whether ranks exchange weights or gradients in every pass."""
        state = self.accelerator
        sharded = state.is_fsdp2 or state.distributed_type == DistributedType.DEEPSPEED
        return bool(state.num_processes > 1 and sharded)

    @contextmanager
    def _exchange_gradients(self, model: Module, last: bool) -> Iterator[Module]:
        """Within the context gradients are exchanged, and DeepSpeed makes its optimizer step, in the last pass only.

        Yields the module to call. DDP's own forward pass is a collective now and then, also within its `no_sync`.
        """
        state = self.accelerator.gradient_state
        state._set_sync_gradients(last)
        try:
            if last:
                yield model
            elif isinstance(model, DistributedDataParallel):
                yield model.module
            elif self.accelerator.is_fsdp2:
                yield model  # its `no_sync` would keep whole gradients on each rank
            else:
                with self.accelerator.no_sync(model):
                    yield model
        finally:
            state._set_sync_gradients(True)

    def _switch_checkpointing(self, model: Module, needed: bool) -> None:
        policy = self.accelerator.unwrap_model(model)
        if policy.is_gradient_checkpointing != needed:
            if needed:
                policy.gradient_checkpointing_enable({"use_reentrant": False})
            else:
                policy.gradient_checkpointing_disable()

    def _runs_out(self, work: Callable[[], None], exchanges: bool) -> bool:
        """Do some work; return whether it ran out of memory. Raises `InputError` if others wait in an exchange of it, also
        where a layer cannot be compiled.
        """
        try:
            work()
        except Exception as error:
            if not is_out_of_memory(error):
                if exchanges and self.compiled and is_compile_error(error):
                    raise InputError(
                        describe_compile_error(error), "model.compile", "set it to false, and start again"
                    ) from error
                raise
            smallest, tokens = self._smallest
            if exchanges or smallest:
                remedy = f"set it to {max(1, self.budget.most // 2)} and start again: the run goes on from its checkpoint"
                if smallest:
                    remedy = "one sequence alone is too long: lower max_episode_tokens or max_length, or shard the model"
                raise InputError(f"out of memory in a pass of {tokens} tokens", "tokens_per_step", remedy) from error
            return True
        return False

    def _drop_gradients(self, model: Module) -> None:
        """Forget the gradients so far, and free what they held."""
        model.zero_grad(set_to_none=True)
        clear_device_cache(garbage_collection=True)

    def _make_room(self, model: Module, scoring: bool = False) -> None:
        self._drop_gradients(model)
        self.halvings += 1
        if self.halvings > HALVINGS:
            what = f"out of memory {self.halvings} times in a row, at last with passes of {self.budget.most} tokens"
            raise InputError(what, "tokens_per_step", f"see what else needs the memory: {describe_held_memory(model)}")
        self.budget = self.budget.halved_budget(scoring)
        self.log.warning(f"out of memory; tokens of a pass from now on: {self.budget}", main_process_only=False)


def largest_rounding_gap(half: bool, device: str) -> float:
    """The most that rounding may change. A GPU may multiply matrices of float32 as TF32, with the digits of float16."""
    if half:
        return IN_16_BITS
    return IN_TF32 if device == "cuda" and torch.get_float32_matmul_precision() != "highest" else IN_FLOAT32


def describe_compile_error(error: Exception) -> str:
    """One line of why torch.compile failed."""
    return f"torch.compile fails with {type(error).__name__}: {' '.join(str(error).split())[:200]}"


def describe_held_memory(model: Module) -> str:
    """What holds the memory of this process between two passes, in GB."""
    sizes = {"weights": 0, "gradients": 0, "buffers": sum(part.nbytes for part in model.buffers())}
    for part in model.parameters():
        sizes["weights"] += part.nbytes
        sizes["gradients"] += part.grad.nbytes if part.grad is not None else 0
    if torch.cuda.is_available():
        sizes["all tensors"], sizes["the allocator"] = torch.cuda.memory_allocated(), torch.cuda.memory_reserved()
    else:
        sizes["the process"] = psutil.Process().memory_info().rss
    return ", ".join(f"{name} {size / GB:.1f} GB" for name, size in sizes.items() if size)


def list_attention_configs(model: Module) -> list[PreTrainedConfig]:
    """The configurations that a model's attention reads."""
    parts = (part for part in model.modules() if hasattr(part, "layer_idx") and hasattr(part, "config"))
    return list({id(part.config): part.config for part in parts}.values())
