"""The terminal face of a talk.

Invariants: Ctrl-C stops a running answer, and the session goes on; the end of the input leaves; where the output is no
terminal, it has no colours, and shows the sentences too.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import aclosing, nullcontext, suppress
from pathlib import Path
from textwrap import indent
from typing import Any

from rich.console import Console, RenderableType
from rich.padding import Padding
from rich.text import Text

from homerl.app.chat.session import ChatSession, Event, SessionNote, save_chat
from homerl.envs.core.documents import InputError
from homerl.worlds.visit_contract import HomeChange

PROMPT = "you: "
HINT = "/quit leaves, /help lists the commands"


class LeaveChat(Exception):
    """The person wants to leave."""


class ChatTerminal:
    """Reads sentences and commands, and shows what comes of them."""

    def __init__(self, session: ChatSession, console: Console, read: Callable[[str], str] = input) -> None:
        self.session, self.console, self.read = session, console, read
        self.commands: dict[str, tuple[Callable[[str], None], str]] = {
            "undo": (self._undo_turn, "take the last sentence back, with all that came of it"),
            "home": (self._show_home, "show the home"),
            "reset": (self._reset_talk, "take everything back"),
            "save": (self._save_talk, "store the talk as a trajectory in a file: /save talk.jsonl"),
            "help": (self._show_commands, "list the commands"),
            "quit": (self._leave_talk, "leave; Ctrl-D too"),
        }

    def run(self, sentences_shown: bool) -> None:
        """Talk until the person leaves. With `sentences_shown`, sentences are printed, since nobody types them here."""
        if not sentences_shown:
            with suppress(ImportError):  # some systems have none
                import readline  # noqa: F401, lines can then be edited and called back
        self._show_home("")
        self._show_part(f"{self.session.partner.name} listens. {HINT}", "dim")
        if self.session.suggestions and not sentences_shown:
            self._show_part(f"You may say: {'; '.join(self.session.suggestions)}.", "dim")
        with asyncio.Runner() as runner, suppress(LeaveChat, EOFError):
            while True:
                try:
                    line = self.read("" if sentences_shown else PROMPT).strip()
                except KeyboardInterrupt:
                    self._show_part(f"\n{HINT}", "dim")
                    continue
                if sentences_shown and line:
                    self._show_part(f"{PROMPT}{line}")
                if line.startswith("/"):
                    name, _, rest = line[1:].partition(" ")
                    self.commands.get(name, (self._refuse_command, ""))[0](rest.strip())
                elif line:
                    with suppress(KeyboardInterrupt):
                        runner.run(self._say_sentence(line))
                    self._show_part("")

    async def _say_sentence(self, sentence: str) -> None:
        """Say a sentence, and show what the agent does, as it does it."""
        before = len(self.session.turns)
        try:
            async with aclosing(self.session.say_sentence(sentence)) as events:
                while True:
                    with self.console.status("…", spinner="dots") if self.console.is_terminal else nullcontext():
                        event = await anext(events, None)
                    if event is None:
                        return
                    for part in chat_event_lines(event):
                        self._show_part(part)
        except (asyncio.CancelledError, KeyboardInterrupt):
            kept = len(self.session.turns) > before
            self._show_part("stopped; what is shown was done (/undo takes it back)" if kept else "stopped", "dim")
            raise

    def _show_part(self, part: RenderableType, style: str = "") -> None:
        print_part(self.console, part, style)

    # Commands

    def _undo_turn(self, _: str) -> None:
        before = self.session.current_situation
        sentence = self.session.undo_turn()
        if sentence is None:
            self._show_part("nothing was said yet", "dim")
            return
        self._show_part(Text.assemble(("taken back: ", "dim"), sentence))
        for line in change_lines(self.session.visits.changes(before, self.session.current_situation)):
            self._show_part(line)

    def _show_home(self, _: str) -> None:
        self._show_part(self.session.visits.listed(self.session.current_situation))

    def _reset_talk(self, _: str) -> None:
        self.session.undo_all_turns()
        self._show_home("")

    def _save_talk(self, name: str) -> None:
        try:
            self._show_part(save_chat(self.session, Path(name or "chat.jsonl")), "dim")
        except (InputError, OSError) as error:
            self._show_part(f"not saved: {' '.join(str(error).split())}", "red")

    def _show_commands(self, _: str) -> None:
        for name, (_command, what) in self.commands.items():
            self._show_part(Text.assemble((f"/{name:6}", "bold"), what))

    def _leave_talk(self, _: str) -> None:
        raise LeaveChat

    def _refuse_command(self, _: str) -> None:
        self._show_part("there is no such command", "red")
        self._show_commands("")


def print_part(console: Console, part: RenderableType, style: str = "") -> None:
    """Print; where nobody looks, and no picture is made, lines are left whole. Else they go on below their beginning."""
    shown = Text(part, style) if isinstance(part, str) else part
    if isinstance(shown, Text) and (console.is_terminal or console.record):
        console.print(*map(_indent_wrapped_line, shown.split("\n", allow_blank=True)), sep="\n")
    else:
        console.print(shown, soft_wrap=isinstance(shown, Text))


def _indent_wrapped_line(line: Text) -> RenderableType:
    """A line whose spaces at the beginning stand before its other lines too, where it is too long for one."""
    spaces = len(line.plain) - len(line.plain.lstrip(" "))
    return Padding(line[spaces:], (0, 0, 0, spaces)) if 0 < spaces < len(line.plain) else line


def chat_event_lines(event: Event) -> Iterator[Any]:
    """An event as lines for the terminal."""
    if isinstance(event, SessionNote):
        yield Text(event.text, "yellow")
        return
    refused = bool(event.step.blocked)
    for at, seen in enumerate(event.step.observations):
        if at < len(event.step.calls):
            yield Text(indent(event.step.calls[at], "  "), "magenta")
        yield Text(indent(f"→ {seen}", "    "), "yellow" if refused else "dim")
    yield from change_lines(iter(event.changes))
    if event.words:
        yield Text.assemble(("home: ", "bold cyan"), event.words)


def change_lines(changes: Iterator[HomeChange]) -> Iterator[Text]:
    """The changes, one thing a line."""
    things: dict[tuple[str, str], list[str]] = {}
    for change in changes:
        things.setdefault((change.owner, change.thing), []).append(change.describe_change)
    for (_, thing), words in things.items():
        yield Text.assemble("  ", ("● ", "green"), (thing, "bold"), f": {', '.join(words)}")
