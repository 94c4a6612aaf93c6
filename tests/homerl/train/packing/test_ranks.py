"""Packed updates on two ranks: as many passes as each needs, one exchange of gradients, and memory that one rank lacks."""

import json
from pathlib import Path

import pytest
from forked import script

SCRIPT = """
import json, os, sys
from pathlib import Path

import numpy as np
import torch
from accelerate import Accelerator
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head

from homerl.train.packing.pass_budget import MemoryHeadroom, TokenBytes
from homerl.train.packing.pass_budget import MemoryProfiler
from homerl.train.packing.pass_budget import TokenBudget
from homerl.train.packing.packed_updates import TokenSequence
from homerl.train.packing.packed_updates import PackedUpdates
from homerl.train.recipe import SFTSettings

state = Accelerator(cpu=True)
rank, ranks = state.process_index, state.num_processes
config = Qwen3Config(vocab_size=20, hidden_size=16, intermediate_size=16, num_hidden_layers=1, num_attention_heads=2,
                     num_key_value_heads=1, head_dim=8)
every = [TokenSequence.from_ids([i] * 50 + list(range(10)), np.arange(50, 60)) for i in range(9)]
mine = every[:1] if ranks > 1 and rank == 0 else every[1:] if ranks > 1 else every   # one pass here, several there


class InShards(PackedUpdates):   # as if every pass exchanged something
    _in_shards = True


class Half(MemoryProfiler):   # as if a pass took half of what was estimated
    def allocated_bytes(self):
        return 1000

    def peak_bytes(self):
        return 1000 + 118 * 100 // 2   # two sequences


def objective(members, scored):
    return -scored.logps.sum() * ranks / 90, scored.logps.sum()[None].detach()


def learnt(memory):
    torch.manual_seed(0)
    plain = Qwen3ForCausalLM(config)
    add_fused_lm_head(plain, outputs=("log_probs", "entropy"))
    model = state.prepare(plain)
    shards, lacks = memory in ("shards", "measured"), memory == "lacks" and rank == ranks - 1
    updates = (InShards if shards else PackedUpdates)(state, TokenBudget(100 if shards else 150, 150), "auto")
    if memory == "measured":
        updates.profiler = Half(state, MemoryHeadroom(SFTSettings(), TokenBytes(100, 100), 30_000 + rank, cpu=False))
        updates.profiler.waits, updates.budget = True, updates.profiler.headroom.cautious_budget()
    updates.checked = shards   # else its rows count among the passes below
    recomputed = []   # of each pass
    forward = plain.model.forward

    def small(input_ids, **rest):
        recomputed.append(plain.is_gradient_checkpointing)
        if lacks and input_ids.shape[1] > 100:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 14.50 GiB")
        return forward(input_ids=input_ids, **rest)

    plain.model.forward = small
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.5)
    losses = []
    for update in range(4):
        loss, sums = updates.train_on_sequences(model, mine, objective)
        losses.append(state.reduce(loss, "mean").item())
        optimizer.step()
        optimizer.zero_grad()
    weights = {name: p.flatten()[:50].tolist() for name, p in plain.named_parameters()}
    return [losses, weights, updates.counts["passes"], updates.budget.most, recomputed]


said = {memory: learnt(memory) for memory in sys.argv[2:]}
Path(sys.argv[1], f"{ranks}-{rank}.json").write_text(json.dumps(said))
state.end_training()
os._exit(0)   # gloo may abort a process that ends in the usual way, when its work is done
"""


def ran(folder: Path, ranks: int, *memories: str) -> list[dict[str, list]]:
    """What each rank says of each memory: losses, weights, passes, budget, and which passes were checkpointed."""
    (folder / "script.py").write_text(SCRIPT)
    script("script.py", folder, *memories, cwd=folder, ranks=ranks)
    return [json.loads((folder / f"{ranks}-{rank}.json").read_text()) for rank in range(ranks)]


@pytest.fixture(scope="module")
def alone(tmp_path_factory) -> tuple:
    """(losses, weights) of one rank."""
    [said] = ran(tmp_path_factory.mktemp("alone"), 1, "plenty")
    losses, weights, *_ = said["plenty"]
    return losses, weights


@pytest.fixture(scope="module")
def both(tmp_path_factory) -> tuple:
    """What two ranks say."""
    return tuple(ran(tmp_path_factory.mktemp("both"), 2, "plenty", "lacks", "shards", "measured"))


@pytest.mark.parametrize(("memory", "most"), [("plenty", 150), ("lacks", 75)])
def test_two_ranks_learn_what_one_does(both, alone, memory, most):
    losses, weights = alone
    first, second = (said[memory] for said in both)
    for their_losses, their_weights, *_ in (first, second):
        assert their_losses == pytest.approx(losses, abs=1e-5)
        for name, values in weights.items():
            assert their_weights[name] == pytest.approx(values, abs=1e-5), name
    assert losses[-1] < 0.9 * losses[0], "weights moved: the test proves something"
    assert first[2] == 4 < second[2], "one pass an update here, several there"
    assert first[3] == second[3] == most, "ranks agree on the budget"


def test_ranks_in_shards_make_the_same_passes(both, alone):
    """One rank has one small pass, the other several, some of which need checkpointing: ZeRO-3 would hang otherwise."""
    losses, _ = alone
    first, second = (said["shards"] for said in both)
    assert first[0] == second[0] == pytest.approx(losses, abs=1e-5)
    assert first[2] < second[2] and first[4] == second[4], "as many passes, alike"
    assert set(first[4]) == {True}, "the small pass too"


def test_ranks_in_shards_take_the_same_budget_from_what_one_measured(both, alone):
    """The rank with one sequence has no second pass, which would be measured."""
    losses, _ = alone
    first, second = (said["measured"] for said in both)
    assert first[0] == second[0] == pytest.approx(losses, abs=1e-5), "it changes nothing that is learnt"
    assert first[3] == second[3] == 512, "twice the estimate's 256"
    assert (first[2], second[2]) == (4, 4 + 3) and len(first[4]) == len(second[4]) == 7, "four passes, then one an update"
