"""The numbers at which the result of an expression may change, for each slot that it reads.

Invariant: between two neighbouring thresholds of a slot the expression keeps its value, if nothing else changes.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Iterator
from math import inf, nextafter
from typing import Any

EXACT = 1 << 50  # below it, the float next to a number could not be the value of a slot
Numbers = frozenset[float] | None  # a slot's thresholds; None if the slot is used in more than comparisons with constants
SlotOf = Callable[[ast.expr], int | None]  # the slot that a node refers to; None for any other node


def thresholds_of(tree: ast.expr, slot_of: SlotOf, slots: Iterable[int]) -> dict[int, Numbers]:
    """For each slot, the thresholds of its plain comparisons, or None if it is used in anything else."""
    numbers: dict[int, set[float] | None] = {slot: set() for slot in slots}

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.expr) and (slot := slot_of(node)) is not None:
            numbers[slot] = None
        elif isinstance(node, ast.Compare) and (plain := _plain_comparison(node, slot_of)) is not None:
            for slot, values in plain:
                if (known := numbers[slot]) is not None:
                    known.update(values)
        else:
            for child in ast.iter_child_nodes(node):
                walk(child)

    walk(tree)
    return {slot: None if values is None else frozenset(values) for slot, values in numbers.items()}


def _plain_comparison(node: ast.Compare, slot_of: SlotOf) -> list[tuple[int, list[float]]] | None:
    """The (slot, thresholds) pairs of a comparison in which each slot is compared with constants only; else None."""
    sides = [node.left, *node.comparators]
    slots = [slot_of(side) for side in sides]
    fixed = [list(constant_values(side)) for side in sides]
    pairs: list[tuple[int, list[float]]] = []
    for at, slot in enumerate(slots):
        near = [n for n in (at - 1, at + 1) if 0 <= n < len(sides)]
        if slot is None and not fixed[at]:
            return None
        if slot is not None and not all(fixed[n] for n in near):
            return None
        if slot is not None:
            edges = [(_side(node.ops[min(at, n)], n > at), value) for n in near for value in fixed[n]]
            pairs.append((slot, [_edge(number, side) for side, value in edges for number in _numbers(value)]))
    return pairs


def _side(op: ast.cmpop, slot_first: bool) -> float:
    """On which side of a constant a comparison changes: just above it (inf), just below it (-inf), or on both (0)."""
    above, below = (ast.Gt, ast.LtE), (ast.Lt, ast.GtE)
    if isinstance(op, above + below):
        return inf if isinstance(op, above) == slot_first else -inf
    return 0


def _edge(number: float, side: float) -> float:
    """The float next to a number on the given side, a threshold that no slot's value equals.

    It is the number itself if the comparison changes on both sides, or if the number is too large.
    """
    return nextafter(number, side) if side and abs(number) < EXACT else number


def _numbers(value: Any) -> Iterator[float]:
    """The numbers in a constant: itself, or the members of a tuple or list."""
    for part in value if isinstance(value, (tuple, list)) else (value,):
        if isinstance(part, (int, float)):
            yield part


def constant_values(node: ast.expr) -> Iterator[Any]:
    """The value of an expression without names; nothing for any other."""
    try:
        yield ast.literal_eval(node)
    except ValueError:
        return
