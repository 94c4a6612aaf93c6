"""What can go wrong in an episode, by who is to blame for it: agent, user or server (the world has its `WorldError`).

Invariant: whoever raises one of these says who failed; nothing of it ever counts against another.
"""

from __future__ import annotations

from homerl.play.utterance import Utterance


class InfraError(Exception):
    """A server or machine failed; nobody in the dialogue is to blame."""


class RequestRefused(InfraError):
    """The server said that it will not take this request, and `why`; asking again would not help."""

    def __init__(self, url: str, why: str) -> None:
        super().__init__(f"{url} refused the request: {why}")
        self.why = why

    def __reduce__(self) -> tuple[type[InfraError], tuple[str]]:
        return InfraError, (str(self),)


class Unwelcome(InfraError):
    """The server will take no request of ours, whatever it says: its key, its path or its model's name is another."""


class AgentFault(Exception):
    """The agent looped, flooded or stalled: it failed."""


class UserError(Exception):
    """The user simulator left its role. `reason` says how, in a word by which it is counted; `spent` is an utterance that
    is not said, with what it took."""

    def __init__(self, message: str, reason: str = "left_role", spent: Utterance = Utterance("")) -> None:
        super().__init__(message)
        self.reason, self.spent = reason, spent
