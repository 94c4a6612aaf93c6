"""How the templates of pages are read, and what the words and abbreviations on pages mean.

Invariants:
- A page is one file without network. All data are escaped. A name that a template lacks is an error.
- Meanings are read from `glossary.yaml` here and in the folders of worlds. If a term has two, that of the world counts.
- A text is escaped before its terms get titles.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined, Template
from markupsafe import Markup, escape

from homerl.envs.core.documents import InputError, read_yaml

HERE = Path(__file__).parent
LINES, SIGNS = 10, 800  # of a text that a page shows unfolded


@lru_cache(maxsize=32)
def load_template(path: Path, **filters: Callable[..., Any]) -> Template:
    """The template of a file. It may include files beside it, and `base.css` of this folder. To compile them takes longer
    than to write most pages, so a template is kept for the next page with the same filters.

    `filters` are added to those of Jinja, to `words`, which turns `an_identifier` into words, to `breakable`, which
    lets a line end after its underscores, and to `folded`.
    """
    loader = FileSystemLoader([path.parent, HERE])
    environment = Environment(
        loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    own = {"words": identifier_to_words, "breakable": breakable_identifier, "folded": fold_long_text}
    environment.filters |= own | filters
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


FILE = "glossary.yaml"


@dataclass(frozen=True)
class GlossaryTerm:
    """What a term means; `name` is what an abbreviation stands for, empty for other terms."""

    means: str
    name: str = ""

    @property
    def full_meaning(self) -> str:
        """Name and meaning in one line."""
        return f"{self.name}: {self.means}" if self.name else self.means


@dataclass(frozen=True)
class Glossary:
    """Terms by their text."""

    terms: Mapping[str, GlossaryTerm]

    def meaning_of_term(self, term: str) -> str:
        """Name and meaning of a term that is there."""
        return self.terms[term].full_meaning

    def expand_abbreviations(self, text: str) -> str:
        """A text with the names of its abbreviations: `TC1 (atomic control)`; any other text as it is."""
        names = [self.terms[part].name for part in text.split() if part in self.terms]
        known = names and len(names) == len(text.split()) and all(names)
        return f"{text} ({', '.join(names)})" if known else text

    def explain_terms_as_html(self, text: object) -> Markup:
        """A text as HTML, in which the first of each term has its meaning as title. Words may have other ends: `steps`."""
        seen: set[str] = set()

        def titled(found: re.Match[str]) -> str:
            term = found[0] if found[0] in self.terms else self._lowercase_terms[found[0].lower().removesuffix("s")]
            if term in seen:
                return found[0]
            seen.add(term)
            return f'<abbr title="{escape(self.terms[term].full_meaning)}">{found[0]}</abbr>'

        return Markup(self._term_pattern.sub(titled, str(escape(text))))

    @cached_property
    def _lowercase_terms(self) -> Mapping[str, str]:
        """Terms by their text in small letters."""
        return {term.lower().removesuffix("s"): term for term in self.terms}

    @cached_property
    def _term_pattern(self) -> re.Pattern[str]:
        """Any term, the longest first. Words may begin with a capital; abbreviations are found as they are written."""
        words = []
        for term in sorted(self.terms, key=len, reverse=True):
            if term.islower():
                words.append(f"[{term[0].upper()}{term[0]}]{re.escape(str(escape(term[1:])))}s?")
            else:
                words.append(re.escape(str(escape(term))))
        return re.compile(rf"(?<![\w-])(?:{'|'.join(words)})(?![\w-])")


def load_glossary(*folders: Path) -> Glossary:
    """The terms that all share, and those of the files in these folders, if there are any."""
    sections = [section for folder in (HERE, *folders) for _, section in glossary_sections(folder)]
    return Glossary({term: meaning for section in sections for term, meaning in section.items()})


def glossary_sections(folder: Path) -> Iterator[tuple[str, dict[str, GlossaryTerm]]]:
    """(title, terms) of each section of a folder's file; nothing if it has none."""
    path = folder / FILE
    if not path.is_file():
        return
    document = read_yaml(path)
    for title, entries in document.data.items():
        yield title, {term: _read_term(entry, document.locate_key((title, term))) for term, entry in entries.items()}


def _read_term(entry: str | Mapping[str, str], where: str) -> GlossaryTerm:
    if isinstance(entry, str):
        return GlossaryTerm(entry)
    if set(entry) != {"name", "means"}:
        raise InputError("an entry of a glossary is a meaning, or has `name` and `means`", where, "write it so")
    return GlossaryTerm(entry["means"], entry["name"])
