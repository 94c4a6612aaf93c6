"""How groups are shared among the parts of a mixture of worlds: more to those that the policy solves sometimes.

With p the running success rate of a part and T the temperature, a blueprint of the part is played with probability

    ((4 p (1 - p)) / m)^(1/T)

where m is the largest 4 p (1 - p) of all parts. A group of a part that is always or never solved has no signal, and
4 p (1 - p) is the variance of its outcome, scaled to 1. A high T leaves the parts' own weights as they are.

Invariants: a part whose rate is not known yet is played; no part is ever left out, because 4 p (1 - p) counts as `LEAST` at
least; the state is plain data.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping

LEAST = 0.1  # of 4 p (1 - p): also what is always or never solved is played now and then
KEPT = 0.8  # weight of the older rate after each update


class MixtureBalance:
    """The running success rates of the parts. `part_of` names the part of a blueprint's seed."""

    def __init__(self, part_of: Callable[[int], str], temperature: float) -> None:
        self.part_of, self.temperature = part_of, temperature
        self.rates: dict[str, float] = {}

    def update_success_rates(self, results: Iterable[tuple[int, bool]]) -> None:
        """Update the rates from pairs (blueprint seed, success) of an update's rollouts."""
        by_part: dict[str, list[bool]] = defaultdict(list)
        for seed, success in results:
            by_part[self.part_of(seed)].append(success)
        for name, successes in by_part.items():
            now = sum(successes) / len(successes)
            self.rates[name] = KEPT * self.rates[name] + (1 - KEPT) * now if name in self.rates else now

    def play_probability(self, seed: int) -> float:
        """The probability that the blueprint of this seed is played, in (0, 1]."""
        name = self.part_of(seed)
        if name not in self.rates:
            return 1.0
        signal = {part: max(LEAST, 4 * rate * (1 - rate)) for part, rate in self.rates.items()}
        most: float = (signal[name] / max(signal.values())) ** (1 / self.temperature)
        return most

    def restore_rates(self, rates: Mapping[str, float]) -> None:
        """Restore the rates."""
        self.rates = dict(rates)
