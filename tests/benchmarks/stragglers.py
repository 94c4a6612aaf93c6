"""Simulates updates whose groups differ in length, in virtual time: whole batches in their order, and the queue of groups.

    python tests/benchmarks/stragglers.py

Sixteen groups an update; a group takes 1 s on average, by a log-normal distribution (sigma 1), as if nothing else slowed it
down. An update of the trainer takes `train` seconds. The queue is `homerl.train.data.rollout_batches`, the trainer's own.
"""

from __future__ import annotations

import random
from types import SimpleNamespace

from homerl.train.data.rollout_batches import GroupQueue, count_groups_ahead

SHARE, UPDATES, SIGMA = 16, 400, 1.0


class InOrder(GroupQueue):
    """Batches as they were drawn: an update waits for the slowest group of its own."""

    def choose_groups(self, update: int) -> list[int] | None:
        batch = list(range(update * self.share, (update + 1) * self.share))
        return batch if all(number in self.ended for number in batch) else None


def simulate(queue: GroupQueue, ahead: int, train: float) -> tuple[float, float]:
    """(seconds an update, mean staleness in updates)."""
    rng, now, drawn, ages = random.Random(0), 0.0, 0, []
    ends: dict[int, float] = {}

    def begin(count: int, version: int) -> None:
        nonlocal drawn
        for number in range(drawn, drawn + count):
            queue.mark_begun(number, version)
            ends[number] = now + rng.lognormvariate(-(SIGMA**2) / 2, SIGMA)
        drawn += count

    def go_on(until: float | None = None) -> None:
        """Pass on to `until`, or to the next end of a group."""
        nonlocal now
        while ends and (until is None or min(ends.values()) <= until):
            number = min(ends, key=lambda number: ends[number])
            now = ends.pop(number)
            queue.mark_ended(SimpleNamespace(draw=SimpleNamespace(number=number)))
            if until is None:
                return
        now = until or now

    begin(queue.share + ahead, 0)
    for update in range(UPDATES):
        while (chosen := queue.choose_groups(update)) is None:
            go_on()
        ages += [update - queue.begun[number] for number in chosen]
        queue.take_groups(update)
        if update:
            begin(queue.share, update)
        go_on(now + train)
    return now / UPDATES, sum(ages) / len(ages)


def main() -> None:
    print("| async_rollouts | train, s | batches: s an update, staleness | queue: s an update, staleness | faster |")
    print("|---|---|---|---|---|")
    for k in (1, 2, 3, 4):
        for train in (0.5, 1.0, 2.0):
            before = simulate(InOrder(SHARE, k), k * SHARE, train)
            after = simulate(GroupQueue(SHARE, k), count_groups_ahead(SHARE, k), train)
            figures = f"{before[0]:.2f}, {before[1]:.2f} | {after[0]:.2f}, {after[1]:.2f}"
            print(f"| {k} | {train} | {figures} | {before[0] / after[0]:.2f} |")


if __name__ == "__main__":
    main()
