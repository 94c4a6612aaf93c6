"""Merges and renames modules as a table has it, and names them anew everywhere. Run once, in a clean checkout.

    python scripts/house/merge.py scripts/house/files.tsv

A row is a file and, after a tab, the file that it becomes or becomes a part of. Of the files that go into one, those that
the others import come first; else they keep the order of the rows. What a person must look at is printed: names that two of
them define, and modules that one of them uses as a module.

Invariants: code keeps its text; only imports, dotted names and paths change; the first file's docstring stays at the top,
and those of the others follow it as paragraphs.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
from move import TOPS, module_of, rename_dotted, rename_in_python, rename_paths

ROOT = Path(__file__).parents[2]
SKIPPED = ("scripts/house/", "models/", "tests/previous/", "envs/core/old_names.py")
LINKED = ("envs", "rewards")


def read_table(path: Path) -> dict[str, str]:
    """The new file of each listed file."""
    rows = (line.split("\t") for line in path.read_text("utf-8").splitlines() if line.strip() and line[0] != "#")
    return {row[0].strip(): row[1].strip() for row in rows}


def dotted(file: str) -> str:
    """The name by which a file is imported."""
    name = module_of(file)
    return f"homerl.{name}" if name.partition(".")[0] in LINKED else name


def top_names(tree: ast.Module) -> set[str]:
    """The names that a module defines at its top, imports left out."""
    names: set[str] = set()
    for node in tree.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}
    return names


def in_order(files: Sequence[str], sources: Mapping[str, str]) -> list[str]:
    """The files, those first that others of them import."""
    modules = {dotted(file): file for file in files}
    graph: dict[str, set[str]] = {file: set() for file in files}
    for file in files:
        for node in ast.parse(sources[file]).body:
            if isinstance(node, ast.ImportFrom) and node.module:
                found = {modules.get(f"{node.module}.{alias.name}") or modules.get(node.module) for alias in node.names}
                graph[file] |= {one for one in found if one and one != file}
    sorter, done = TopologicalSorter(graph), []
    sorter.prepare()
    ready: list[str] = []
    while sorter.is_active():
        ready = sorted([*ready, *sorter.get_ready()], key=files.index)
        done.append(first := ready.pop(0))
        sorter.done(first)
    return done


def merge(files: Sequence[str], sources: Mapping[str, str], into: str) -> str:
    """One module of several. Each import stands once; those of one of them by another are left out."""
    own = {dotted(file) for file in files}
    defined: dict[str, str] = {}
    docs, imports, typing, bodies = [], [], [], []
    constants: set[str] = set()
    for file in in_order(files, sources):
        text = sources[file]
        tree, lines = ast.parse(text), text.splitlines(keepends=True)
        for node in tree.body:
            if isinstance(node, ast.Assign | ast.AnnAssign):
                if (code := ast.unparse(node)) in constants:
                    for number in range(node.lineno - 1, node.end_lineno or node.lineno):
                        lines[number] = ""
                constants.add(code)
        for name in top_names(ast.parse("".join(lines))):
            if name in defined and name != "__all__":
                print(f"TWICE {into}: {name} in {defined[name]} and {file}")
            defined.setdefault(name, file)
        if doc := ast.get_docstring(tree, clean=False):
            docs.append((file, doc.strip()))
        drop: set[int] = set()
        modules_here: set[str] = set()
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                ours = [alias for alias in node.names if node.module in own or f"{node.module}.{alias.name}" in own]
                if not ours:
                    continue
                for alias in ours:
                    if f"{node.module}.{alias.name}" in own:
                        modules_here.add(alias.asname or alias.name)
                    elif alias.asname:
                        print(f"ALIAS {into}: {file} calls {alias.name} {alias.asname}")
                rest = [alias for alias in node.names if alias not in ours]
                indent = " " * node.col_offset
                names = ", ".join(f"{a.name} as {a.asname}" if a.asname else a.name for a in rest)
                kept = f"{indent}from {node.module} import {names}\n" if rest else ""
                if not rest and node.col_offset and _alone(tree, node):
                    kept = f"{indent}pass\n"
                lines[node.lineno - 1] = kept
                drop |= {*range(node.lineno, node.end_lineno or node.lineno)}
        lines = ["" if number in drop else line for number, line in enumerate(lines)]
        for name in sorted(modules_here):
            print(f"MODULE {into}: {file} used {name} as a module")
        members = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name)]
        for node in sorted(members, key=lambda node: (node.lineno, -node.col_offset)):
            name = node.value
            if isinstance(name, ast.Name) and name.id in modules_here:  # what was `speech.parse` is `parse` now
                line = lines[name.lineno - 1].encode()
                lines[name.lineno - 1] = (line[: name.col_offset] + line[name.col_offset + len(name.id) + 1 :]).decode()
        first = tree.body[0] if doc else None
        for node in tree.body:
            span = range(node.lineno - 1, node.end_lineno or node.lineno)
            block = "".join(lines[n] for n in span)
            if node is first:
                pass
            elif isinstance(node, ast.Import | ast.ImportFrom):
                imports.append(block)
            elif isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING") and not node.orelse:
                typing.append("".join(lines[n] for n in range(node.lineno, node.end_lineno or node.lineno)))
            else:
                continue
            for n in span:
                lines[n] = ""
        bodies.append("".join(lines).strip("\n"))
    head = docs[0][1] if docs else ""
    for _, doc in docs[1:]:
        head += f"\n\n{doc}"
    seen: list[str] = []
    for block in imports:
        if block.strip() and block not in seen:
            seen.append(block)
    future = [block for block in seen if "__future__" in block]
    parts = [f'"""{head}\n"""\n\n' if "\n" in head else f'"""{head}"""\n\n', *future, *(b for b in seen if b not in future)]
    if typing_block := "".join(dict.fromkeys(block for block in typing if block.strip())):
        parts.append(f"\nif TYPE_CHECKING:\n{typing_block}")
    return "".join(parts) + "\n\n" + "\n\n\n".join(body for body in bodies if body) + "\n"


def _alone(tree: ast.Module, node: ast.stmt) -> bool:
    """Whether a statement is all that its block holds."""
    return any(
        isinstance(block, list) and block == [node]
        for parent in ast.walk(tree)
        for block in (getattr(parent, "body", None), getattr(parent, "orelse", None), getattr(parent, "finalbody", None))
    )


def main() -> None:
    """Merge and rename in the checkout that this script lies in."""
    table = read_table(Path(sys.argv[1]))
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split("\n")
    listed = [file for file in listed if file and (ROOT / file).is_file() and not (ROOT / file).is_symlink()]
    groups: dict[str, list[str]] = defaultdict(list)
    for old, new in table.items():
        if not (ROOT / old).is_file():
            print(f"NO FILE {old}")
            continue
        groups[new].append(old)
    for new, files in groups.items():
        if (ROOT / new).is_file() and new not in files and new not in table:
            files.insert(0, new)  # a file that keeps its name, and gets others
    sources = {file: (ROOT / file).read_text("utf-8") for files in groups.values() for file in files}
    texts = {new: merge(files, sources, new) if len(files) > 1 else sources[files[0]] for new, files in groups.items()}
    gone = {file for files in groups.values() for file in files} - texts.keys()
    known = {"/".join(file.split("/")[:n]) for file in listed for n in range(1, file.count("/") + 2)}
    modules = {dotted(file): dotted(file) for file in listed if file.endswith(".py") and file.partition("/")[0] in TOPS}
    modules |= {dotted(old): dotted(new) for new, files in groups.items() for old in files}
    moves = {old: new for new, files in groups.items() for old in files}
    for file in gone:
        (ROOT / file).unlink()
    for new, text in texts.items():
        (ROOT / new).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / new).write_text(text, "utf-8")
    for file in {*listed, *texts} - gone:
        path = ROOT / file
        if file.startswith(SKIPPED) or not path.is_file():
            continue
        try:
            text = path.read_text("utf-8")
        except UnicodeDecodeError:
            continue
        if file.endswith(".py") or text.startswith("#!/usr/bin/env python"):
            new_text = rename_in_python(text, modules, known, moves)
        else:
            new_text = rename_paths(rename_dotted(text, modules), known, moves)
        if new_text != text:
            path.write_text(new_text, "utf-8")
    print(f"{len(gone | texts.keys())} files became {len(texts)}")


if __name__ == "__main__":
    main()
