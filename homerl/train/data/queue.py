"""The groups of one rank that are drawn and not yet trained on, by the age of their oldest weights (`async_rollouts`).

Let `share` be the number of groups that the rank trains on in an update, and k the bound of `async_rollouts`. A group is as
old as the weights with which it began; later samples may be newer. Update u takes `share` groups.

Invariants:
- A group that began with weights v is trained on in update v + k at the latest. Nothing is dropped, so long episodes are
  as frequent in training as in play.
- An update takes the oldest of the groups that have ended. It waits for a running group only if fewer than `share` have
  ended, or if the groups left could otherwise not all be trained on in time.
- All of this can be kept whenever at most k * `share` groups are left after an update: each of the next k updates takes
  `share` of them.
- With k = 1 nothing is left to choose: all groups that begin in an update are due in the next one.
"""

from __future__ import annotations

import threading

from homerl.train.data.supply import PlayedGroup


class GroupQueue:
    """Groups by number. `begin` and `end` note in any thread what becomes of one; `take` waits for those of an update."""

    def __init__(self, share: int, k: int) -> None:
        self.share, self.k = share, k
        self.begun: dict[int, int] = {}
        self.ended: dict[int, PlayedGroup] = {}
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def mark_begun(self, number: int, version: int) -> None:
        """A group begins with weights of a version. A group that is replaced begins anew."""
        with self._changed:
            self.begun[number] = version
            self._changed.notify_all()

    def mark_ended(self, group: PlayedGroup) -> None:
        """A group has ended."""
        with self._changed:
            self.ended[group.draw.number] = group
            self._changed.notify_all()

    def fail_with(self, error: BaseException) -> None:
        """Make `take` raise an error."""
        with self._changed:
            self._error = error
            self._changed.notify_all()

    def take_groups(self, update: int) -> list[PlayedGroup]:
        """Wait for the groups of an update; return them by number. Raises what `fail` was given."""
        chosen: list[int] = []

        def can_go_on() -> bool:
            chosen[:] = self.choose_groups(update) or []
            return self._error is not None or len(chosen) == self.share

        with self._changed:
            self._changed.wait_for(can_go_on)
            if self._error is not None:
                raise self._error
            for number in chosen:
                del self.begun[number]
            return [self.ended.pop(number) for number in sorted(chosen)]

    def choose_groups(self, update: int) -> list[int] | None:
        """The groups that an update takes, if it need not wait."""
        chosen = sorted(self.ended, key=lambda number: (self.begun[number], number))[: self.share]
        last = [version + self.k for number, version in self.begun.items() if number not in chosen]
        in_time = all(
            sum(due <= later for due in last) <= self.share * (later - update) for later in range(update, update + self.k)
        )
        return chosen if in_time and len(chosen) == self.share else None
