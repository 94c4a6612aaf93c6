"""What can go wrong in an episode, by boundary: agent, user, world, server or judge.

Invariants: the code that raises one of these errors (or the world's `WorldError`) knows who failed, and a fault never
counts against another; only `fault_from_error` makes records of errors. A limit or an unmet goal is not a fault. An error
that a call raises is the agent's failure if the schemas that it was shown do not allow the call (`blame_call_error`).
"""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from homerl.envs.core.messages import replace_surrogates
from homerl.envs.core.world import Action, WorldError
from homerl.play.situation import Utterance

TOO_LONG = "the dialogue is longer than the model takes"
LONGEST_REASON = 200  # characters of an error's own text


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
    def reason_kind(self) -> str:
        """The reason without its detail, for counting. Reasons of users and judges begin with such a word."""
        return self.reason.partition(": ")[0] if self.boundary in (Boundary.USER, Boundary.JUDGE) else self.reason


class InfraError(Exception):
    """A server or machine failed. It counts against nobody in the dialogue."""


class RequestRefused(InfraError):
    """The server refuses this request, and `why`: it may be `too_long`. Sending it again would not help."""

    def __init__(self, url: str, why: str, too_long: bool = False) -> None:
        super().__init__(f"{url} refused the request: {why}")
        self.why, self.too_long = why, too_long

    def __reduce__(self) -> tuple[type[InfraError], tuple[str]]:
        return InfraError, (str(self),)


class RequestBroken(InfraError):
    """The server breaks on this request each time it is sent: a status 5xx, or an answer that is none."""


class EndpointRejected(InfraError):
    """The server refuses every request: its key, path or model name is another."""


class AgentFault(Exception):
    """The agent failed: it looped, flooded or stalled."""


class DialogueTooLong(AgentFault):
    """The dialogue is longer than the agent's model takes; `why` has the numbers."""

    def __init__(self, why: str) -> None:
        super().__init__(f"{TOO_LONG}: {why}")


class UserError(Exception):
    """The user simulator left its role.

    `reason` is a word for counting. `spent` has the tokens and requests of the failed utterance, which is not said.
    """

    def __init__(self, message: str, reason: str = "left_role", spent: Utterance = Utterance("")) -> None:
        super().__init__(message)
        self.reason, self.spent = reason, spent


EXHAUSTED = (MemoryError, RecursionError)  # what an agent wrote was too much
EPISODE_ERRORS = (InfraError, WorldError, AgentFault, UserError)  # errors that end an episode with a fault


def describe_escaped_error(error: Exception) -> str:
    """What escaped from a world's code, and where: `OverflowError: too large (air.py:120)`."""
    frames = traceback.extract_tb(error.__traceback__)
    where = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"{type(error).__name__}: {str(error)[:LONGEST_REASON]}{where}"


def blame_call_error(
    error: Exception, action: Action, tools: Sequence[Mapping[str, Any]], spoken: bool
) -> AgentFault | WorldError:
    """Whose failure it is that a world raises an error for a call.

    It is the agent's if no tool that it was shown takes such a call, or if it exhausted the memory or the stack. It is the
    world's if the call is allowed. A call that words stand for (`spoken`) may be of no tool, and is allowed then.
    """
    from homerl.envs.core.spaces import ToolCalls  # loads Gymnasium

    known = False
    try:
        known = any(tool["function"]["name"] == action["name"] for tool in tools)
        allowed = ToolCalls(tools).contains(action) if known else spoken
    except Exception:  # what cannot even be checked, is too deep or too large
        allowed = False
    if allowed and not isinstance(error, EXHAUSTED):
        return error if isinstance(error, WorldError) else WorldError(describe_escaped_error(error))
    why = "was too much" if allowed else "was not allowed by its schema" if known else "is of no tool"
    return AgentFault(f"the call of {str(action['name'])[:LONGEST_REASON]} {why}: {describe_escaped_error(error)}")


def fault_from_error(error: InfraError | WorldError | AgentFault | UserError) -> Fault:
    """The record of an error."""
    said = replace_surrogates(" ".join(str(error).split()))
    if isinstance(error, UserError):
        return Fault(Boundary.USER, f"{error.reason}: {said}" if said else error.reason)
    kinds = {AgentFault: Boundary.AGENT, WorldError: Boundary.WORLD}
    boundary = next((boundary for kind, boundary in kinds.items() if isinstance(error, kind)), Boundary.SERVER)
    return Fault(boundary, said or type(error).__name__)
