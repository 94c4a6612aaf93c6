"""What MkDocs asks while it builds the site of the pages (`mkdocs.yml`).

Invariants:
- The Markdown in the repository stays as GitHub shows it: links are turned here, and headings get GitHub's anchors.
- A link to a page of the site leads there, and a link to any other file to the project's address (`pyproject.toml`).
"""

from __future__ import annotations

import posixpath
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from mkdocs.structure.files import Files

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))  # MkDocs loads this file by its path
from package.facts import Project  # noqa: E402

# Files beside docs/, and their pages.
ADOPTED = {"README.md": "index.md", "CONTRIBUTING.md": "contributing.md", "CHANGELOG.md": "changelog.md"}
STYLES = {"site.css", "favicon.svg"}  # beside this file
ITEM = re.compile(r"(\d+\.|[-*+]) +")
LINK = re.compile(r"(\]\()([^)\s]+)(\))")
FENCE = re.compile(r"(^```.*?^```$)", re.M | re.S)
COMMENT = re.compile(r"^( *)(\S.*?) {2,}(# .+)$")  # behind code
WIDTH = 84  # characters of code that a page shows without scrolling, beside its two lists, at 1280 pixels
DRAWING = re.compile(r"<!-- rooms: .*?<!-- /rooms -->\n", re.S)  # its program would come from a network
PROJECT = Project(ROOT)


def slug_of_heading(text: str, separator: str) -> str:
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", text.lower().replace("`", "")).replace(" ", separator)


def on_config(config: Any) -> Any:
    """Anchors and the address."""
    config.mdx_configs["toc"]["slugify"] = slug_of_heading
    config.repo_url, config.repo_name = PROJECT.address, "homerl"
    return config


def on_files(files: Files, *, config: Any) -> Files:
    """Add the pages that lie beside docs/, and the style."""
    from mkdocs.structure.files import File

    for source, page in ADOPTED.items():
        files.append(File.generated(config, page, content=PROJECT.read(source)))
    for name in STYLES:
        files.append(File.generated(config, name, abs_src_path=str(Path(__file__).with_name(name))))
    return files


def on_page_markdown(markdown: str, *, page: Any, config: Any, files: Files) -> str:
    """The page with its links turned; the first page with its cards."""
    uri = page.file.src_uri
    source = next((source for source, adopted in ADOPTED.items() if adopted == uri), f"docs/{uri}")
    parts = FENCE.split(indent_lists(DRAWING.sub("", markdown)))
    text = "".join(raise_comments(part) if part.startswith("```") else turn_links(part, source, uri) for part in parts)
    if uri == "index.md":
        head, start, rest = text.partition("\n## ")
        text = head + _render_cards(config.extra["cards"]) + start + rest
    return text


def indent_lists(text: str) -> str:
    """The text with lists as Markdown in Python wants them: what belongs to an item is indented by four blanks (GitHub: by
    the width of its mark), and after an item of several paragraphs comes a blank line."""
    lines = list[str]()
    width, paragraphs, fenced = 0, False, False
    for line in text.split("\n"):
        fenced ^= line.startswith("```")
        item = None if fenced else ITEM.match(line)
        if item:
            if paragraphs and lines[-1]:
                lines.append("")
            width, paragraphs = len(item[0]), False
        elif fenced or (line and not line.startswith(" ")):
            width, paragraphs = 0, False
        belongs = width and line.startswith(" " * width)
        paragraphs |= bool(belongs and not lines[-1])
        lines.append(" " * (4 - width) + line if belongs else line)
    return "\n".join(lines)


def raise_comments(block: str) -> str:
    """A block of code, with each comment behind code on a line above it if one of them would need scrolling."""
    lines = block.split("\n")
    if not any(len(line) > WIDTH and COMMENT.match(line) for line in lines):
        return block
    return "\n".join(COMMENT.sub(r"\1\3\n\1\2", line) for line in lines)


def turn_links(text: str, source: str, uri: str) -> str:
    """The text of a file of the repository with the links that its page `uri` needs."""

    def turned(found: re.Match[str]) -> str:
        target = found[2]
        if re.match(r"\w+:|#", target):
            return found[0]
        path, hash_mark, anchor = target.partition("#")
        path = posixpath.normpath(posixpath.join(posixpath.dirname(source), path))
        here = ADOPTED.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
        if here and (ROOT / path).is_file():
            there = posixpath.relpath(here, posixpath.dirname(uri) or ".")
        else:
            there = f"{PROJECT.address}/{'tree' if (ROOT / path).is_dir() else 'blob'}/main/{path}"
        return f"{found[1]}{there}{hash_mark}{anchor}{found[3]}"

    return LINK.sub(turned, text)


def _render_cards(cards: list[list[str]]) -> str:
    """The ways into the pages, as a grid."""
    rows = "\n".join(f"- **[{name}]({page})**  \n  {text}" for name, page, text in cards)
    return f'\n<div class="grid cards" markdown>\n\n{rows}\n\n</div>\n'
