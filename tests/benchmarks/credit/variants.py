"""What the study compares: keys of `rlve` by the name that tables and plots show.

Invariant: an update samples as many steps with each variant, as far as episodes are equally long. A group of eight episodes
is with `counterfactual` one of six, and single steps in the place of the other two. `weighed` and `taught` are `state λ 0.5`
with the policy as its own teacher, who weighs credit or teaches by a gated divergence; `... open` shows it what is open.
`... prefixed`: groups begin within a dialogue that succeeds, half of them at first and none at the end; what comes before is
not sampled, so these groups sample fewer steps. `counterfactual tokens` buys siblings for at most as many tokens as two of
the six whole episodes sample. Tables have no tokens and cannot read a plan, so these are for models alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

INDEX: Mapping[str, Any] = {"credit": "step", "baseline": "index"}
STATE: Mapping[str, Any] = {"credit": "step", "baseline": "state", "trace": 0.5}
FORKS: Mapping[str, Any] = {"roots": 6, "siblings": 2}
PREFIXED: Mapping[str, Any] = {"curriculum": {"prefix": {"share": 0.5, "synthesis": "verified"}}}  # `model` knows where
VARIANTS: Mapping[str, Mapping[str, Any]] = {
    "trajectory": {"credit": "trajectory"},
    "pooled": {"credit": "step", "baseline": "pooled"},
    "index": INDEX,
    "index γ 0.1": {**INDEX, "gamma": 0.1},
    "index prefixed": {**INDEX, **PREFIXED},
    "state λ 0": {"credit": "step", "baseline": "state", "trace": 0.0},
    "state λ 0.5": STATE,
    "state λ 1": {"credit": "step", "baseline": "state", "trace": 1.0},
    "state prefixed": {**STATE, **PREFIXED},
    "anchor": {"credit": "anchor"},
    "branch": {"credit": "branch"},
    "counterfactual": {"credit": "counterfactual", "counterfactual": FORKS},
    "counterfactual tokens": {"credit": "counterfactual", "counterfactual": {**FORKS, "tokens": 2 / 6}},
    "weighed": {**STATE, "teacher": {"weigh": 1.0, "styles": {"stepwise": 1.0}}},
    "weighed open": {**STATE, "teacher": {"weigh": 1.0, "styles": {"stepwise": 1.0}, "shown": "open"}},
    "taught": {**STATE, "teacher": {"weigh": 0.0, "teach": 0.5, "styles": {"stepwise": 1.0}}},
    "taught open": {**STATE, "teacher": {"weigh": 0.0, "teach": 0.5, "styles": {"stepwise": 1.0}, "shown": "open"}},
}
OF_TABLES = tuple(name for name in VARIANTS if not name.endswith(("prefixed", "tokens")) and "teacher" not in VARIANTS[name])
WHOLE = 6  # of a group of eight that `counterfactual` plays to the end; two episodes' worth of steps go to siblings

COLOURS = {
    "trajectory": "#777777", "pooled": "#1f77b4", "index": "#17becf", "index γ 0.1": "#9467bd", "state λ 0": "#e377c2",
    "state λ 0.5": "#ff7f0e", "state λ 1": "#8c564b", "anchor": "#2ca02c", "branch": "#d62728",
    "index prefixed": "#0b5c66", "state prefixed": "#a34a00",
    "counterfactual": "#000000", "counterfactual tokens": "#555555",
    "weighed": "#bcbd22", "weighed open": "#7f7f00", "taught": "#1b7837",
    "taught open": "#66c2a5",
}  # fmt: skip
