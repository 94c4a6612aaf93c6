"""One episode of a program: what it samples, what it does in the world, and which of these belong together.

Invariants:
- A message that was sampled is one step, with all calls that the program makes until it samples again. So a program may call
  what the model named, or what the model's code calls. The step is taken anew for each call, in a fork of the episode before
  the message: the same calls, and one more.
- A sample that nothing follows before the next one belongs to the same step as that one. Calls before a turn's first sample
  are a step without tokens, and so are words after calls for which nothing was sampled.
- The limits and the end of the episode are looked at when a message has ended, as for any agent.
- Nothing is sampled and nothing is called outside of the program's turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from jinja2 import TemplateError

from homerl.envs.core.messages import Message, text_message, tool_call
from homerl.play.episode import Episode
from homerl.play.situation import Reply
from homerl.train.agents.captured_dialogues import CapturedDialogues, CapturedReply, Tools

MOST_CALLS = 64  # calls of one message, each of which takes the message anew; others begin a step without tokens
UNSAMPLED = Reply(text_message(""))
Awaits = Callable[[Awaitable[CapturedReply]], Awaitable[CapturedReply | None]]  # waits as long as somebody listens


class SessionEnded(Exception):
    """What a program asks comes too late: its turn, or the episode, is over."""


@dataclass
class ProgramSession:
    """An episode as its program meets it. `over` is set when the episode has ended, or `failure` is known, within a turn."""

    episode: Episode
    dialogues: CapturedDialogues
    over: asyncio.Event = field(default_factory=asyncio.Event)
    failure: Exception | None = None
    in_turn: bool = False
    _lock: asyncio.Lock = field(default_factory=asyncio.Lock)  # requests are answered one after the other
    _before: Episode = field(init=False)  # the episode before the message in play
    _message: Reply = UNSAMPLED  # the message in play
    _calls: list[dict[str, Any]] = field(default_factory=list)  # that the program has made of it

    def __post_init__(self) -> None:
        """The episode begins."""
        self._before = self.episode

    def begin_turn(self) -> None:
        """The user has spoken: it is the program's turn."""
        self.in_turn = True
        self._end_message()

    async def sample(self, messages: Sequence[Message], tools: Tools, awaits: Awaits) -> CapturedReply | None:
        """The model's next message in a dialogue of the program; None if `awaits` gave it up.

        Raises `SessionEnded` if it is not the program's turn.
        """
        async with self._lock:
            self._refuse_late()
            self._end_message()
            self._refuse_late()
            try:
                sampled = await awaits(self.dialogues.sample_message(messages, tools, len(self.episode.steps)))
            except TemplateError:  # the program may write it otherwise
                raise
            except Exception as error:
                self._end_by_error(error)
                raise
            self._message = sampled.reply if sampled else UNSAMPLED
            return sampled

    async def call_tool(self, name: str, arguments: Mapping[str, Any]) -> tuple[str, bool]:
        """What a call shows, and whether it was refused or failed. Raises `SessionEnded` if it is not the program's turn."""
        async with self._lock:
            if len(self._calls) >= MOST_CALLS:
                self._end_message()
            self._refuse_late()
            calls = [*self._calls, tool_call(name, arguments)]
            said = {**self._message.message, "tool_calls": calls}
            episode = self._before.fork()
            try:
                step = await episode.apply_reply_async(replace(self._message, message=said, malformed=None, calls=None))
            except Exception as error:
                self._end_by_error(error)
                raise
            failures = len(step.facts.blocked) + bool(step.facts.error)
            before = self.episode.steps[-1].facts if self._calls else None
            failed = failures > (len(before.blocked) + bool(before.error) if before else 0)
            self.episode, self._calls = episode, calls
            return (step.observations[-1] if step.observations else ""), failed

    async def end_turn(self) -> None:
        """Take nothing more from the program, once what it has asked for last is done."""
        self.in_turn = False
        async with self._lock:
            self._end_message()

    def _end_message(self) -> None:
        """The program goes on from what the message in play has done."""
        self._before, self._message, self._calls = self.episode, UNSAMPLED, []
        if self.episode.outcome is not None:
            self.over.set()

    def _refuse_late(self) -> None:
        if self.over.is_set() or not self.in_turn:
            raise SessionEnded("the episode is over" if self.over.is_set() else "the program's turn is over")

    def _end_by_error(self, error: Exception) -> None:
        self.failure = error
        self.over.set()
