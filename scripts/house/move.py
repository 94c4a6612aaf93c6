"""Moves files as `moves.txt` has it, and names them anew in code, docs and scripts. Run once, in a clean checkout.

`python scripts/house/move.py [ROOT]` also serves a tree of plug-ins that names homerl's modules: it then only renames.

Invariants:
- An import keeps the names that it binds, so no code changes but for imports, dotted names and paths.
- A name is replaced only if it is a module or a file of the old tree; the longest that fits counts.
"""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

MOVES = Path(__file__).with_name("moves.txt")
TOPS = ("envs", "rewards", "homerl", "homeassistant", "tests")
DOTTED = re.compile(r"(?<![\w./-])(?:envs|rewards|homerl|homerl_hook|tests)(?:\.[A-Za-z_]\w*)*")
PATH = re.compile(r"(?<![\w.-])(?<!\w/)(?:(?:envs|rewards|homerl|homeassistant|tests)/(?:[\w.*{}-]+/?)*|homerl_hook\.py)")
UP = re.compile(r"(Path\(__file__\)(?:\.resolve\(\))?\.parents\[)(\d+)(\])")


def read_moves() -> dict[str, str]:
    """The new place of each listed file and folder."""
    lines = (line.partition("#")[0].split() for line in MOVES.read_text("utf-8").splitlines())
    return {line[0]: line[1] for line in lines if line}


def new_path(path: str, moves: Mapping[str, str]) -> str:
    """Where a file or folder of the old tree lies now."""
    parts = path.split("/")
    for length in range(len(parts), 0, -1):
        head = "/".join(parts[:length])
        if head in moves:
            return "/".join([moves[head], *parts[length:]])
    return path


def module_of(path: str) -> str:
    """The dotted name of a Python file, as the old tree has it."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


def new_module(path: str) -> str:
    """The dotted name of a Python file in the new tree, where `envs` and `rewards` are packages of homerl."""
    name = module_of(path)
    return f"homerl.{name}" if name.partition(".")[0] in ("envs", "rewards") else name


def rename_dotted(text: str, modules: Mapping[str, str]) -> str:
    """Dotted names in a text: `envs.world.World` becomes `homerl.envs.core.world.World`."""

    def renamed(match: re.Match[str]) -> str:
        parts = match[0].split(".")
        if len(parts) == 1 and parts[0] != "homerl_hook":
            return match[0]
        for length in range(len(parts), 0, -1):
            if (name := ".".join(parts[:length])) in modules:
                return ".".join([modules[name], *parts[length:]])
        return match[0]

    return DOTTED.sub(renamed, text)


def rename_paths(text: str, old: set[str], moves: Mapping[str, str]) -> str:
    """Paths in a text, if their beginning is a file or folder of the old tree."""

    def renamed(match: re.Match[str]) -> str:
        path = match[0].rstrip("/.")
        parts = path.split("/")
        known = next((n for n in range(len(parts), 0, -1) if "/".join(parts[:n]) in old), 0)
        rest = parts[known:]
        if not known or (rest and not any(sign in "/".join(rest) for sign in "*{")):
            return match[0]
        head = new_path("/".join(parts[:known]), moves)
        return "/".join([head, *rest]) + match[0][len(path) :]

    return PATH.sub(renamed, text)


def rename_imports(source: str, modules: Mapping[str, str]) -> Iterator[tuple[int, int, str]]:
    """For each `from ... import` that names our modules, its first and last line and what takes their place."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.ImportFrom) or not node.module or node.level:
            continue
        if node.module.partition(".")[0] not in ("envs", "rewards", "homerl", "homerl_hook", "tests"):
            continue
        groups: dict[str, list[str]] = {}
        for alias in node.names:
            name, parent = alias.name, modules.get(node.module, node.module)
            if (full := f"{node.module}.{name}") in modules:
                parent, _, name = modules[full].rpartition(".")
            bound = alias.asname or (alias.name if name != alias.name else None)
            groups.setdefault(parent, []).append(f"{name} as {bound}" if bound else name)
        indent = " " * node.col_offset
        lines = [f"{indent}from {parent} import ({', '.join(names)})\n" for parent, names in groups.items()]
        lines = [line.replace("import (", "import ").replace(")\n", "\n") if len(line) < 125 else line for line in lines]
        yield node.lineno, node.end_lineno or node.lineno, "".join(lines)


def rename_in_python(source: str, modules: Mapping[str, str], old: set[str], moves: Mapping[str, str]) -> str:
    """A Python file with its imports, dotted names and paths renamed."""
    lines = source.splitlines(keepends=True)
    done: list[str] = []
    at = 1
    for first, last, new in sorted(rename_imports(source, modules)):
        head = lines[first - 1]
        before = head[: len(head) - len(head.lstrip())]
        if not head.lstrip().startswith("from "):  # behind a semicolon, or in one line with `if`
            continue
        rest = "".join(lines[at - 1 : first - 1])
        done.append(rename_paths(rename_dotted(rest, modules), old, moves))
        comment = lines[last - 1].rstrip("\n").partition("  #")
        done.append(new[:-1] + ("  #" + comment[2] if comment[1] else "") + "\n")
        at = last + 1
        assert before == new[: len(before)]
    rest = "".join(lines[at - 1 :])
    return "".join([*done, rename_paths(rename_dotted(rest, modules), old, moves)])


def main() -> None:
    """Move and rename in the checkout that this script lies in, or rename in another tree."""
    root = Path(__file__).parents[2]
    moves = read_moves()
    listed = subprocess.run(["git", "ls-files"], cwd=root, capture_output=True, text=True, check=True).stdout.split("\n")
    files = [file for file in listed if file and file.partition("/")[0] in (*TOPS, "homerl_hook.py")]
    old = {"/".join(file.split("/")[:n]) for file in files for n in range(1, file.count("/") + 2)}
    modules = {module_of(file): new_module(new_path(file, moves)) for file in files if file.endswith(".py")}
    folders = {file.rpartition("/")[0] for file in files if file.endswith(".py")}
    for folder in folders - {""}:
        modules.setdefault(folder.replace("/", "."), new_module(new_path(folder, moves)))
    target = Path(sys.argv[1]) if len(sys.argv) > 1 else root
    texts = [target / file for file in listed if file] if target == root else [p for p in target.rglob("*") if p.is_file()]
    for path in texts:
        name = path.relative_to(target).as_posix()
        if not path.is_file() or name.startswith(("scripts/house/", "models/")):
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        python = path.suffix == ".py" or text.startswith("#!/usr/bin/env python")
        if python:
            new = rename_in_python(text, modules, old, moves)
        else:
            new = rename_paths(rename_dotted(text, modules), old, moves)
        depth = new_path(name, moves).count("/") - name.count("/")
        if python and depth and name.startswith("tests/"):
            new = UP.sub(lambda match, depth=depth: f"{match[1]}{int(match[2]) + depth}{match[3]}", new)
        if new != text:
            path.write_text(new, "utf-8")
    if target != root:
        return
    for file in files:
        if (new := new_path(file, moves)) != file:
            (root / new).parent.mkdir(parents=True, exist_ok=True)
            if (root / new).exists() and new not in {f for f in files if new_path(f, moves) != f}:
                sys.exit(f"{file} would take the place of {new}")
    # In two steps, since a file may take the place of another that moves too.
    for file in files:
        if new_path(file, moves) != file:
            (root / file).rename(root / f"{file}.moving")
    for file in files:
        if (new := new_path(file, moves)) != file:
            (root / f"{file}.moving").rename(root / new)


if __name__ == "__main__":
    main()
