"""Writing to the terminal, and the arguments that commands share.

Invariants:
- No character of a text acts on the terminal, except line breaks and tabs. Texts come from files, models and servers of
  strangers. A character that could clear the screen, set a title or turn the direction of a line is shown as a sign.
- What a command reads is an argument. A file or folder that it writes is `--out`, a home of one's own is `--home`, and a
  number that decides what is drawn is `--seed`.
"""

from __future__ import annotations

import glob
import logging
import sys
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, get_args

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.status import Status
from rich.text import Text

from homerl.envs.core.documents import InputError, write_atomic
from homerl.envs.core.documents.validation import did_you_mean

SIGNS = {  # C0 but line break and tab, DEL, C1, and what embeds, overrides or isolates a direction of writing
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
}


def replace_control_characters(text: str) -> str:
    """The text with a sign in place of each character that would act on a terminal."""
    return text.translate(SIGNS)


class PlainConsole(Console):
    """A console on which texts are nothing but texts. Brackets and colons, which paths and names hold, mean nothing."""

    def __init__(self, **options: Any) -> None:
        super().__init__(markup=False, emoji=False, **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        """What is written for something that is printed: tables and bars, too."""
        for segment in super().render(renderable, options):
            yield segment if segment.control else Segment(replace_control_characters(segment.text), segment.style)


class PlainLogRecord(logging.LogRecord):
    """A line of a log, whose message is plain text."""

    def getMessage(self) -> str:
        """The message with its arguments."""
        return replace_control_characters(super().getMessage())


console = PlainConsole()


def say(text: object, end: str = "\n") -> None:
    """Print a text as it is, whatever the width of the terminal: for data, and for lines that are whole."""
    print(replace_control_characters(str(text)), end=end, flush=True)


def print_or_write(text: str, out: Path | None, content: str) -> None:
    """Print a text, or write it to the file `out` and say what its `content` is."""
    if out is None:
        say(text, end="")
    else:
        write_atomic(out, text)
        console.print(f"{out}: {content}")


def print_error(message: object) -> None:
    """Print a message on stderr. A terminal gets lines that break between words; a file gets the lines as they are."""
    stderr = PlainConsole(stderr=True, highlight=False)
    stderr.print(f"homerl: {message}", soft_wrap=not stderr.is_terminal)


def waiting_spinner(what: str, in_log: bool = False) -> Status:
    """A spinner on stderr, for what takes some seconds; where that is no terminal, a line when it begins, if `in_log`."""
    shown = sys.stderr.isatty()
    if in_log and not shown:
        print(replace_control_characters(f"{what} ..."), file=sys.stderr, flush=True)
    return PlainConsole(stderr=True, quiet=not shown).status(Text(what))


def say_in_log(text: object) -> None:
    """Print a text where standard output is no terminal: a terminal has bars, which say as much."""
    if not console.is_terminal:
        say(text)


def count_with_noun(number: int, thing: str) -> str:
    """`1 device`, `3 devices` or `3 trajectories`: a number with its noun."""
    ending = "es" if thing.endswith("s") else "s"
    several = f"{thing[:-1]}ies" if thing.endswith("y") and thing[-2] not in "aeiou" else f"{thing}{ending}"
    return f"{number:,} {thing if number == 1 else several}"


def check_option_value(option: str, value: str, known: Iterable[str]) -> None:
    """Raise `InputError` if an option's value is not one of the known ones; the message suggests the nearest."""
    if value not in known:
        raise InputError(f"'{value}' is not known", where=option, remedy=did_you_mean(value, list(known)))


Group = Literal["start here", "data", "train", "measure", "Home Assistant", "research"]
GROUPS: tuple[Group, ...] = get_args(Group)  # in the order of `homerl --help`


@dataclass(frozen=True)
class Command:
    """A command. `words` are what a person types after `homerl`, such as `bench run`. A file that
    defines it as its `COMMAND` has its name: `bench_run.py`.

    The signature of `work` gives the options, and its docstring the help. `example` is a whole command line. With
    `overrides`, words that are no options override keys of a recipe, and are in `context.args`.
    """

    words: str
    group: Group
    work: Callable[..., None]
    example: str
    overrides: bool = False

    @property
    def name(self) -> str:
        """The name of a file that has this command alone."""
        return self.words.replace(" ", "_").replace("-", "_")


def complete_words(incomplete: str, words: Iterable[str], endings: tuple[str, ...] = ()) -> list[str]:
    """What the shell completes a word to: those of the known words that begin with it, files with one of the endings, and
    folders, whose names end in a slash.
    """
    named = [word for word in dict.fromkeys(words) if word.startswith(incomplete)]
    folder, slash, begun = incomplete.rpartition("/")
    inside = sorted(Path(folder or slash or ".").glob(f"{glob.escape(begun)}*"))
    paths = [f"{folder}{slash}{path.name}{'/' if path.is_dir() else ''}" for path in inside if begun or path.name[0] != "."]
    return [*named, *(path for path in paths if path.endswith(("/", *endings)) and path.rstrip("/") not in named)]


def complete_recipe(incomplete: str) -> list[str]:
    """The names of shipped recipes, and files that may be recipes."""
    from homerl.host.recipe_files import list_shipped_recipes

    return complete_words(incomplete, list_shipped_recipes(), (".yaml", ".yml"))


def complete_run(incomplete: str) -> list[str]:
    """The runs that were made here, and folders and files of dialogues."""
    from homerl.host.recipe_files import list_runs

    return complete_words(incomplete, list_runs(), (".jsonl",))


RecipeName = Annotated[
    str,
    typer.Argument(
        help="a recipe: a file, or the name of a shipped one, such as quickstart", autocompletion=complete_recipe
    ),
]
From = Annotated[
    Path | None, typer.Option("--from", help="another run, at whose synthesis or SFT this one starts", show_default=False)
]
RunFolder = Annotated[Path, typer.Argument(help="a run's folder: the `out` of its recipe", autocompletion=complete_run)]
Seed = Annotated[int, typer.Option(help="of what is drawn: equal seeds draw the same")]
OutPage = Annotated[Path | None, typer.Option(help="the HTML file; default: beside the input")]
OutText = Annotated[Path | None, typer.Option(help="a file; printed if left out")]
OnCpu = Annotated[bool, typer.Option("--cpu", help="use the CPU, even where there is a GPU")]
Served = Annotated[str | None, typer.Option(help="the model's name, if the server has several")]
MaxTokens = Annotated[
    int | None,
    typer.Option(min=1, help="most tokens of a message; default: 2048 of a server, 512 of a model that is loaded here"),
]
