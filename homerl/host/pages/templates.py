"""How the templates of pages are read.

Invariants: a page is one file without network; all data is escaped; a name that a template lacks is an error.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from homerl.envs.core.documents import InputError

HERE = Path(__file__).parent
LINES, SIGNS = 10, 800  # of a text that a page shows unfolded


def load_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """The template of a file. It may include files beside it, and `base.css` of this folder.

    `filters` are added to those of Jinja, to `words`, which turns `an_identifier` into words, to `breakable`, which
    lets a line end after its underscores, and to `folded`.
    """
    environment = Environment(
        loader=FileSystemLoader([path.parent, HERE]),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "words": identifier_to_words,
        "breakable": breakable_identifier,
        "folded": fold_long_text,
        **filters,
    }
    return environment.get_template(path.name)


def page_path(source: Path, out: Path | None) -> Path:
    """Where the page of a file is written: to `out`, or beside the file. Raises `InputError` for a folder without `out`."""
    if out is None and source.is_dir():
        raise InputError("is a folder, and a page is made of a file", str(source), "name the file")
    return out or source.with_suffix(".html")


def identifier_to_words(text: Any) -> str:
    """An identifier as words."""
    return str(text).replace("_", " ")


def breakable_identifier(text: Any) -> Markup:
    """An identifier in which a line may end after an underscore."""
    return Markup(escape(text).replace("_", Markup("_<wbr>")))


def fold_long_text(text: str) -> tuple[str, str]:
    """The beginning of a text, and the rest, which is empty unless the text is long: weak models repeat themselves."""
    lines = text.splitlines(keepends=True)
    most = min(SIGNS, len("".join(lines[:LINES])))
    return (text, "") if len(text) <= most else (text[:most].rstrip(), text[most:])
