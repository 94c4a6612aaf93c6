"""Trees and passes: every sequence is whole, nothing is stored twice, and passes forward as little as the budget allows."""

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.train.packing.packed_updates import split_into_passes as split_arrays
from homerl.train.packing.pass_budget import TokenBudget
from homerl.train.packing.prefix_tree import PrefixTree
from homerl.train.packing.prefix_tree import merge_sequences as merged_arrays

SEQUENCE = st.lists(st.integers(0, 2), min_size=2, max_size=9)
SEQUENCES = st.lists(SEQUENCE, min_size=1, max_size=9)


def arrays(sequences: list[list[int]]) -> list[np.ndarray]:
    return [np.array(sequence, dtype=np.int64) for sequence in sequences]


def merged(sequences: list[list[int]]) -> PrefixTree:
    return merged_arrays(arrays(sequences))


def split(sequences: list[list[int]], budget: TokenBudget) -> list[list[int]]:
    return [batch.members for batch in split_arrays(arrays(sequences), budget)[0]]


def unique_tokens(sequences: list[list[int]]) -> int:
    """Places are the beginnings of two tokens or more."""
    return len({tuple(sequence[: t + 2]) for sequence in sequences for t in range(len(sequence) - 1)})


def read(tree: PrefixTree, sequence: list[int], number: int) -> None:
    """A sequence's places hold its tokens and positions, and lie on one path of segments."""
    places = tree.places[number]
    assert tree.ids[places].tolist() == sequence[:-1]
    assert tree.positions[places].tolist() == list(range(len(sequence) - 1))
    paths = tree.segment_paths()
    segment_of = np.repeat(np.arange(len(tree.segments)), [s.end - s.start for s in tree.segments])
    path = paths[segment_of[places[-1]]]
    seen = np.concatenate([np.arange(tree.segments[n].start, tree.segments[n].end) for n in path])
    assert seen[: len(places)].tolist() == places.tolist(), "attention sees the sequence, in its order"


@given(SEQUENCES)
def test_every_sequence_is_on_a_path(sequences):
    tree = merged(sequences)
    for number, sequence in enumerate(sequences):
        read(tree, sequence, number)
    assert all(segment.parent < number and segment.start < segment.end for number, segment in enumerate(tree.segments))


@given(SEQUENCES)
def test_a_place_is_stored_once_and_predicts_one_token(sequences):
    tree = merged(sequences)
    assert len(tree.ids) == unique_tokens(sequences) == split_arrays(arrays(sequences), TokenBudget(5, 5))[1]
    predicted: dict[int, int] = {}
    for places, sequence in zip(tree.places, sequences, strict=True):
        for place, token in zip(places.tolist(), sequence[1:], strict=True):
            assert predicted.setdefault(place, token) == token


@given(SEQUENCES, st.randoms())
def test_the_order_of_sequences_does_not_change_the_tree(sequences, rng):
    other = sequences.copy()
    rng.shuffle(other)
    assert merged(sequences).ids.tolist() == merged(other).ids.tolist()


def test_the_documented_example():
    tree = merged([[1, 2, 3, 4], [1, 2, 8, 9]])
    assert tree.ids.tolist() == [1, 2, 3, 2, 8] and tree.segment_paths() == [[0], [0, 1], [0, 2]]


@given(SEQUENCES, st.integers(1, 30), st.integers(0, 30))
def test_passes_hold_every_sequence_once_within_the_budget(sequences, most, plain):
    budget = TokenBudget(min(plain, most), most)
    passes = split(sequences, budget)
    assert sorted(i for members in passes for i in members) == list(range(len(sequences)))
    sizes = [unique_tokens([sequences[i] for i in members]) for members in passes]
    assert all(size <= most or len(members) == 1 for size, members in zip(sizes, passes, strict=True))
    assert sizes == sorted(sizes, reverse=True), "the largest first"
    assert split(sequences, budget) == passes


@given(st.lists(SEQUENCE, min_size=1, max_size=6), st.integers(1, 30), st.integers(0, 30))
def test_no_other_split_of_the_sorted_sequences_is_cheaper(sequences, most, plain):
    budget = TokenBudget(min(plain, most), most)

    def cost(passes: list[list[int]]) -> float:
        return sum(budget.pass_cost(unique_tokens([sequences[i] for i in members])) for members in passes)

    def allowed(members: list[int]) -> bool:
        return len(members) == 1 or unique_tokens([sequences[i] for i in members]) <= most

    order = sorted(range(len(sequences)), key=lambda i: sequences[i])
    found = cost(split(sequences, budget))
    for count in range(len(order)):
        for cuts in combinations(range(1, len(order)), count):
            bounds = [0, *cuts, len(order)]
            other = [order[a:b] for a, b in zip(bounds, bounds[1:], strict=False)]
            if all(map(allowed, other)):
                assert found <= cost(other) + 1e-9


def test_a_group_stays_together_if_the_budget_allows():
    """Two groups with long prompts and four short answers each: a pass each, not a cut within one."""
    groups = [[[group] * 200 + [answer] * 20 for answer in range(4)] for group in (7, 8)]
    passes = split([row for group in groups for row in group], TokenBudget(300, 300))
    assert sorted(map(sorted, passes)) == [[0, 1, 2, 3], [4, 5, 6, 7]]


def test_nothing_is_no_pass():
    assert split([], TokenBudget(10, 10)) == [] and unique_tokens([]) == 0


def test_a_budget_says_itself_and_halves():
    assert str(TokenBudget(0, 9)) == "9 with checkpointing" and str(TokenBudget(9, 9)) == "9, with all activations kept"
    assert str(TokenBudget(4, 9)) == "4 with all activations kept, 9 with checkpointing"
    assert TokenBudget(4, 9).halved_budget() == TokenBudget(2, 4) and TokenBudget(1, 1).halved_budget() == TokenBudget(0, 1)
    assert TokenBudget(4, 9).pass_cost(5) > TokenBudget(5, 9).pass_cost(5) == pytest.approx(64 + 5)
