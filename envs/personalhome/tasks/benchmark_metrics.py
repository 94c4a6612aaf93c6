"""The metrics of PersonalHomeBench (Appendix F.2) as pure functions of plain data.

The printed text has two known faults:

- `MAP@1` of its tables was divided by R = 3, not by min(1, R) as eq. 8 says: the deviations of its Table 12 are those of a
  variable in {0, 1/3}.
- Its rank sums of up to 21.8 exceed 21, the worst of a full ranking. So missing features must rank below the tenth place
  (here: in the eleventh).

Invariants: shares lie in [0, 1]; a mean over nothing is refused (`ValueError`), never 0; names are compared as they are.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from statistics import fmean

MISSING_RANK = 11  # of a relevant feature that a ranking of ten leaves out
# Three features of a list are HIGHLY_RELEVANT (R in eq. 8, K in eq. 12). Their ideal ranks are 1, 2 and 3.
WORST_RANK_SUM = sum(MISSING_RANK - ideal for ideal in (1, 2, 3))  # 27
CUTS = tuple(range(1, 11))  # k of MAP@k
LOWEST_SCORE, HIGHEST_SCORE = 1, 5  # of a program; a plan without one that the judge could score has the lowest

# The error types of F.1. The order is that of the tables.
ERRORS: tuple[str, ...] = ("EXECUTION_ERROR", "MISSING_ARGUMENTS", "UNEXPECTED_ARGUMENTS", "INVALID_TOOL_NAME")
ERRORS += ("UPSTREAM_FORMAT_ERROR", "EMPTY_OUTPUT")
ERROR_OF_RULE = {  # the rules that refuse a call; all others are EXECUTION_ERROR
    "unknown_tool": "INVALID_TOOL_NAME",
    "missing_argument": "MISSING_ARGUMENTS",
    "unknown_argument": "UNEXPECTED_ARGUMENTS",
}
RULES = ("kept", "ordered", "compatible", "reasoned", "sized")  # of plans, as `plan_rules.PlanVerdict` names them
CALL_CLASSES = ("<5", "5-10", ">10")


# Rankings


def average_precision(ranking: Sequence[str], relevant: Sequence[str], k: int) -> float:
    """AP@k of one ranking, best first (eq. 7 and 8). A name that comes again is not relevant again."""
    hits, total, open_ = 0, 0.0, set(relevant)
    for rank, name in enumerate(ranking[:k], 1):
        if name in open_:
            open_.remove(name)
            hits += 1
            total += hits / rank
    return total / min(k, len(set(relevant)))


def rank_deviation(ranking: Sequence[str], ideal: Sequence[str]) -> int:
    """D of one ranking: how far the relevant features, in their ideal order, are from ranks 1, 2, ... (eq. 12).

    A feature that is missing, or below rank 11, has rank 11. At worst it is 27 for three features.
    """
    first = {name: rank for rank, name in reversed(list(enumerate(ranking, 1)))}
    return sum(abs(min(first.get(name, MISSING_RANK), MISSING_RANK) - best) for best, name in enumerate(ideal, 1))


# Plans


def kept_order_share(one: Sequence[str], other: Sequence[str]) -> float:
    """The share of pairs that two orders of the same names, at least two, put the same way round (1: the same order)."""
    place = {name: at for at, name in enumerate(other)}
    pairs = [(a, b) for at, a in enumerate(one) for b in one[at + 1 :]]
    return fmean(place[a] < place[b] for a, b in pairs)


# Faults and calls


def count_error_types(rules: Sequence[str], formats: Sequence[str | None]) -> dict[str, int]:
    """How often each error type occurred: refused calls by rule, and answers by their error of form (None: none)."""
    found = Counter(ERROR_OF_RULE.get(rule, "EXECUTION_ERROR") for rule in rules) + Counter(filter(None, formats))
    return {name: found[name] for name in ERRORS}


def call_class(calls: int) -> str:
    """The paper's class (its Fig. 5) of a number of tool calls."""
    return CALL_CLASSES[(calls >= 5) + (calls > 10)]
