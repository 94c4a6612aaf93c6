"""`homerl hello`: a greeting."""

from typing import Annotated

import typer

from homerl.terminal.commands import Command
from homerl.terminal.console import say


def hello(name: Annotated[str, typer.Option(help="who is greeted")] = "you") -> None:
    """Greet somebody."""
    say(f"hello {name}")


COMMAND = Command("hello", "research", hello, "homerl hello --name Ann")
