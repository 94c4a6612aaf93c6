"""What can go wrong in an episode, by the boundary at which it did: agent, user, world, server or judge.

Invariants: whoever raises one of these errors (or the world its `WorldError`) says who failed, and nothing of it ever
counts against another; `fault_of` alone makes a record of an error. A limit reached or an unmet goal is no fault.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from envs.world import WorldError
from homerl.play.messages import plain_text
from homerl.play.utterance import Utterance


class Boundary(StrEnum):
    """Who failed."""

    AGENT = "agent"
    USER = "user"
    WORLD = "world"
    SERVER = "server"
    JUDGE = "judge"


@dataclass(frozen=True)
class Fault:
    """A fault as it is recorded: who failed, and why."""

    boundary: Boundary
    reason: str

    @property
    def kind(self) -> str:
        """The reason without its detail, by which faults are counted: the user's and the judge's begin with a word."""
        return self.reason.partition(": ")[0] if self.boundary in (Boundary.USER, Boundary.JUDGE) else self.reason


class InfraError(Exception):
    """A server or machine failed; nobody in the dialogue is to blame."""


class RequestRefused(InfraError):
    """The server said that it will not take this request, and `why`; asking again would not help."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} refused the request: {why}")
        self.why = why

    def __reduce__(self) -> tuple[type[InfraError], tuple[str]]:
        return InfraError, (str(self),)


class EndpointRejected(InfraError):
    """The server will take no request of ours, whatever it says: its key, its path or its model's name is another."""


class AgentFault(Exception):
    """The agent looped, flooded or stalled: it failed."""


class UserError(Exception):
    """The user simulator left its role. `reason` says how, in a word by which it is counted; `spent` is an utterance that
    is not said, with what it took."""

    def __init__(self, message: str, reason: str = "left_role", spent: Utterance = Utterance("")) -> None:
        super().__init__(message)
        self.reason, self.spent = reason, spent


EPISODE_ERRORS = (InfraError, WorldError, AgentFault, UserError)  # what ends an episode with a fault


def fault_of(error: InfraError | WorldError | AgentFault | UserError) -> Fault:
    """The record of an error."""
    said = plain_text(" ".join(str(error).split()))
    match error:
        case UserError(reason=word):
            return Fault(Boundary.USER, f"{word}: {said}" if said else word)
        case AgentFault():
            boundary = Boundary.AGENT
        case WorldError():
            boundary = Boundary.WORLD
        case _:
            boundary = Boundary.SERVER
    return Fault(boundary, said or type(error).__name__)
