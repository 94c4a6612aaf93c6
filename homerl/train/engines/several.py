"""Several policy servers, each with all weights and with every option of vLLM's own, such as parallelism.

Invariants:
- An episode stays with one server, which has its dialogue in the cache.
- A server that gives no answer or takes no weights is lost: its episodes go on at the others, from the ids so far. It may
  have been started anew, with other weights, so it is asked again only when it has been sent those of now.
- All ranks send to the same servers. If all are lost, the run ends, and the same command goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from typing import Protocol

from homerl.host.terminal.console import print_error
from homerl.models.policy.policy import Sample
from homerl.train.engines.contract import PolicyTrainer, TrainedEngine
from homerl.train.watch.phases import PhaseTimer
from homerl.train.watch.watchdog import RunStalled

HOME: ContextVar[int] = ContextVar("HOME")  # the server of an episode, which has a context of its own


class PooledServer(TrainedEngine, Protocol):
    """One of several. `attach` connects anew with one that was lost."""

    url: str

    def metrics(self) -> Mapping[str, float]:
        """Figures by name since the last call."""


class ServerPool:
    """Samples from several servers. `lost` are the indices of those that this rank cannot ask."""

    def __init__(self, servers: Sequence[PooledServer]) -> None:
        self.servers, self.lost = servers, set[int]()
        self.version, self.begun = -1, 0

    def attach(self, trainer: PolicyTrainer, phases: PhaseTimer) -> None:
        """Receive what is trained, and connect with each server."""
        self.trainer, self.phases = trainer, phases
        for server in self.servers:
            server.attach(trainer, phases)

    def sync(self, version: int) -> None:
        """Send the weights to each server that answers; connect anew with those that are back."""
        before = {*self.lost}
        lost, down = self._agreed()
        for number, server in enumerate(self.servers):
            if number in down:
                continue
            try:
                if number in lost:
                    server.attach(self.trainer, self.phases)
                server.sync(version)
            except RunStalled as error:  # on all ranks
                self._say(f"{error}; the others go on")
                down.add(number)
        if len(down) == len(self.servers):
            raise RunStalled("none of the policy servers answers")
        self.version, self.lost = version, down | (self.lost - before)  # rollouts ahead may lose one meanwhile

    def _agreed(self) -> tuple[set[int], set[int]]:
        """Which servers some rank could not ask since the last sync, and which do not answer now."""
        from accelerate.utils import broadcast_object_list, gather_object

        from homerl.models.endpoint.serve import is_reachable

        first = self.trainer.accelerator.is_main_process
        with self.phases.enter_phase("collective", "idle", waits=True):
            lost = {number for some in gather_object([sorted(self.lost)]) for number in some}
            down = {i for i, server in enumerate(self.servers) if first and not is_reachable(f"{server.url}/v1")}
            [down] = broadcast_object_list([down])
        for number in sorted(lost | down):
            said = "does not answer; the others go on" if number in down else "is back, and gets the weights"
            self._say(f"the policy server at {self.servers[number].url} {said}")
        return lost, down

    def _say(self, what: str) -> None:
        if self.trainer.accelerator.is_main_process:
            print_error(what)

    async def sample(self, prompt: Sequence[int]) -> Sample:
        """Sample one continuation from the episode's server; from another one if that is lost."""
        while True:
            home = self._home()
            try:
                return await self.servers[home].sample(prompt)
            except RunStalled:
                self.lost.add(home)
                if len(self.lost) == len(self.servers):
                    raise

    def _home(self) -> int:
        """The server of this episode. Those that work take turns: the ranks begin with different ones."""
        home = HOME.get(None)
        if home is None or home in self.lost:
            works = [number for number in range(len(self.servers)) if number not in self.lost]
            home = works[(self.trainer.accelerator.process_index + self.begun) % len(works)]
            self.begun += 1
            HOME.set(home)
        return home

    def awake(self) -> AbstractContextManager[object]:
        """The context of all sampling."""
        return nullcontext()

    def metrics(self) -> Mapping[str, float]:
        """The means of the servers' metrics, and the number of those that answer."""
        told = [server.metrics() for number, server in enumerate(self.servers) if number not in self.lost]
        found = {name: [one[name] for one in told if name in one] for one in told for name in one}
        means = {name: sum(values) / len(values) for name, values in found.items()}
        return means | {"policy/servers": float(len(self.servers) - len(self.lost))}
