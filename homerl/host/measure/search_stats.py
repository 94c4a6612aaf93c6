"""The cost and the yield of a search for verified trajectories, in the words of HomeFlow 4.3."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field


@dataclass
class TreeStats:
    """What a search cost and what it verified.

    A `call` is one request; several candidates may be `sampled` by it. `*_linear` is what the same rollouts would have
    cost one by one. `merged` counts candidates that had the same effect as another. `grounded` counts successes that a
    home confirms. `first` counts successes of the first rollout of a search (0 or 1). `recovered` counts dialogues that met
    all goals after a refused call.
    """

    rollouts: int = 0
    successes: int = 0
    first: int = 0
    recovered: int = 0
    nodes: int = 0
    steps_run: int = 0
    steps_linear: int = 0
    calls: int = 0
    calls_linear: int = 0
    sampled: int = 0
    tokens: int = 0
    tokens_linear: int = 0
    merged: int = 0
    grounded: int = 0
    user_errors: dict[str, int] = field(default_factory=dict)

    @property
    def estimated_difficulty(self) -> float:
        """1 minus the verified success rate, in [0, 1]."""
        return 1.0 - self.successes / max(1, self.rollouts)

    def to_row(self) -> dict[str, float]:
        """All figures as plain data."""
        return asdict(self) | {"difficulty": self.estimated_difficulty}
