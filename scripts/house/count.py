"""Counts the house: rooms, files, lines, names, and the files and folders that five ways cross.

    python scripts/house/count.py [ROOT]

Lines with code are those that are neither blank, nor comments alone, nor docstrings. A name is one word if it has no
underscore between letters; names with two leading underscores are Python's and count nowhere. A public name is defined twice
if two modules define it at their top. A way is a list of functions (`WAYS`), in the order in which a reader meets them.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

TOPS = ("homerl", "envs", "rewards", "homerl_hook.py")
APP = "envs/assistant/app/"  # it runs in Home Assistant's Python
WORLDS = ("envs/homeenv/", "envs/simuhome/", "envs/personalhome/", "envs/assistant/")
OLD_WORLDS = (
    "envs/homemaker/",
    "homerl/worlds/homeenv/",
    "homerl/worlds/simuhome/",
    "homerl/worlds/personalhome/",
    "homerl/homeassistant/",
)


def source_files(root: Path) -> Iterator[tuple[str, str]]:
    """Every Python file below the tops, by its path, with its text."""
    for top in TOPS:
        found = [root / top] if top.endswith(".py") else sorted((root / top).rglob("*.py"))
        for path in found:
            file = path.relative_to(root).as_posix()
            if path.is_file() and not file.startswith(APP):
                yield file, path.read_text("utf-8")


def docstring_lines(tree: ast.Module) -> set[int]:
    """The numbers of the lines of docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            lines |= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    return lines


def import_lines(tree: ast.Module) -> set[int]:
    """The numbers of the lines of imports."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def is_one_word(name: str) -> bool:
    """Whether a name is one word."""
    return "_" not in name.strip("_")


def main() -> None:
    """Print the table."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[2]
    lines: Counter[str] = Counter()
    functions: list[tuple[str, int]] = []
    defined: defaultdict[str, set[str]] = defaultdict(set)
    used_once = small = files = 0
    for file, text in source_files(root):
        files += 1
        tree = ast.parse(text)
        rows = text.splitlines()
        docs, imports = docstring_lines(tree), import_lines(tree)
        small += len(rows) < 60 and file.startswith("homerl")
        world = file.startswith((*WORLDS, *OLD_WORLDS))
        for number, row in enumerate(rows, 1):
            lines["all"] += 1
            if number in docs:
                lines["docstrings"] += 1
            elif not row.strip():
                lines["blank"] += 1
            elif row.lstrip().startswith("#"):
                lines["comments"] += 1
            else:
                lines["code"] += 1
                lines["code of the core"] += not world
                lines["imports"] += number in imports
                lines["comments behind code"] += "  # " in row
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
                if node.name.startswith("_") and text.count(node.name) == 2 and not node.decorator_list:
                    used_once += 1
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].add(file)
    public = [name for name, _ in functions if not name.startswith("_")]
    share = lambda names: f"{sum(map(is_one_word, names)) / len(names):.0%} of {len(names):,}"  # noqa: E731
    figures = {
        "files": files,
        "files below 60 lines in `homerl`": small,
        "lines": lines["all"],
        "lines with code": lines["code"],
        "lines with code, core (no world, no assistant)": lines["code of the core"],
        "lines of imports": f"{lines['imports'] / lines['all']:.1%}",
        "blank lines": f"{lines['blank'] / lines['all']:.1%}",
        "comments, alone and behind code": f"{(lines['comments'] + lines['comments behind code']) / lines['all']:.1%}",
        "functions of one word": share([name for name, _ in functions]),
        "public functions of one word": share(public),
        "public names that several modules define": sum(len(files) > 1 for files in defined.values()),
        "lines of the median function": f"{median(length for _, length in functions):g}",
        "private functions used once in their own file": used_once,
    }
    for name, value in figures.items():
        print(f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |")


if __name__ == "__main__":
    main()
