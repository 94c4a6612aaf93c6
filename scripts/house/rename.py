"""Renames functions, methods and classes as `names.tsv` has it, by a language server that knows the types of what is called.

    pip install basedpyright==1.40.2
    python scripts/house/rename.py scripts/house/names.tsv [--apply]

A row is a file, a name in it, and the new name, with tabs between: `homerl/play/speech.py`, `parse_speech`,
`parse_tool_calls`; a method is `Class.method`. A method that a subclass overrides, or a base declares, is renamed with it.
Without --apply, nothing is written. What the server cannot know is told at the end, for a person: strings, templates and
pages that hold an old name.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
import subprocess
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
LINKED = ("envs", "rewards")
PROCESSES = 2  # a server uses one core, and 4 GB
SKIPPED = ("envs/assistant/app/", "tests/previous/", "models/", "scripts/house/")


@dataclass(frozen=True)
class Rename:
    """A row: the file, the name in it (`f`, `Class`, `Class.method` or `f.inner`), and the new last part of the name."""

    file: str
    name: str
    new: str

    @property
    def old(self) -> str:
        """The last part of the old name."""
        return self.name.rpartition(".")[2]


class Server:
    """A language server over standard input and output."""

    def __init__(self, command: list[str], root: Path) -> None:
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
        self.number = 0
        self.root = root
        folder = {"uri": root.as_uri(), "name": "homerl"}
        can = {"workspace": {"workspaceFolders": True, "configuration": True}, "window": {"workDoneProgress": False}}
        self.ask(
            "initialize", {"processId": None, "rootUri": root.as_uri(), "workspaceFolders": [folder], "capabilities": can}
        )
        self.tell("initialized", {})

    def tell(self, method: str, params: Any) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def ask(self, method: str, params: Any) -> Any:
        self.number += 1
        number = self.number
        self._send({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        while True:
            message = self._read()
            if message.get("id") == number and "method" not in message:
                if "error" in message:
                    raise RuntimeError(f"{method}: {message['error']}")
                return message.get("result")
            if "id" in message and "method" in message:  # it asks us
                result: Any = None
                if message["method"] == "workspace/configuration":
                    result = [{} for _ in message["params"]["items"]]
                self._send({"jsonrpc": "2.0", "id": message["id"], "result": result})

    def references(self, path: Path, line: int, column: int) -> list[tuple[Path, int, int]]:
        """The places of a name that is defined at a line and column, both from 0."""
        where = {"textDocument": {"uri": path.as_uri()}, "position": {"line": line, "character": column}}
        found = self.ask("textDocument/references", {**where, "context": {"includeDeclaration": True}}) or []
        starts = ((one["uri"], one["range"]["start"]) for one in found)
        return [(Path(uri.removeprefix("file://")), start["line"], start["character"]) for uri, start in starts]

    def open(self, path: Path) -> None:
        document = {"uri": path.as_uri(), "languageId": "python", "version": 1, "text": path.read_text("utf-8")}
        self.tell("textDocument/didOpen", {"textDocument": document})

    def close(self, path: Path) -> None:
        self.tell("textDocument/didClose", {"textDocument": {"uri": path.as_uri()}})

    def _send(self, message: Any) -> None:
        data = json.dumps(message).encode()
        assert self.process.stdin
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n" % len(data) + data)
        self.process.stdin.flush()

    def _read(self) -> Any:
        assert self.process.stdout
        length = 0
        while line := self.process.stdout.readline().strip():
            if line.lower().startswith(b"content-length:"):
                length = int(line.partition(b":")[2])
        return json.loads(self.process.stdout.read(length))


def copy_tree(to: Path) -> None:
    """A copy of the tracked files in which `envs` and `rewards` lie in `homerl`, so that each file has one path."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    for file in listed.splitlines():
        if (ROOT / file).is_file() and not (ROOT / file).is_symlink() and not file.startswith(SKIPPED):
            into = to / copied(file)
            into.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / file, into)
    config = {
        "include": ["homerl", "tests", "scripts"],
        "extraPaths": ["tests/helpers", "scripts"],
        "venvPath": str(ROOT),
        "venv": ".venv",
        "typeCheckingMode": "off",
        "useLibraryCodeForTypes": True,
    }
    (to / "pyrightconfig.json").write_text(json.dumps(config))


def copied(file: str) -> str:
    """Where a file lies in the copy."""
    return f"homerl/{file}" if file.partition("/")[0] in LINKED else file


def original(file: str) -> str:
    """Where a file of the copy lies in the tree."""
    inner = file.removeprefix("homerl/")
    return inner if inner != file and inner.partition("/")[0] in LINKED else file


def definitions(tree: ast.Module) -> Iterator[tuple[str, ast.AST]]:
    """Every function and class of a file by its dotted name, those in functions among them."""

    def walk(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                yield prefix + child.name, child
                yield from walk(child, f"{prefix}{child.name}.")
            else:
                yield from walk(child, prefix)

    yield from walk(tree, "")


@dataclass
class Class:
    file: str
    name: str
    bases: list[str]
    methods: set[str]


def imported_names(tree: ast.Module) -> dict[str, tuple[str, str]]:
    """The file and the name there of each name that a module imports from ours."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module:
            path = original(node.module.replace(".", "/") + ".py")
            for alias in node.names:
                found[alias.asname or alias.name] = path, alias.name
    return found


def families(files: dict[str, ast.Module]) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """For each method, by (file, Class.method), the methods that it overrides or that override it, by names of bases."""
    classes: list[Class] = []
    for file, tree in files.items():
        for name, node in definitions(tree):
            if isinstance(node, ast.ClassDef):
                bases = [ast.unparse(base).partition("[")[0].rpartition(".")[2] for base in node.bases]
                members = {child.name for child in node.body if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef)}
                classes.append(Class(file, name, bases, members))
    by_place = {(one.file, one.name): one for one in classes}
    imported = {file: imported_names(tree) for file, tree in files.items()}
    parent = {(one.file, f"{one.name}.{m}"): (one.file, f"{one.name}.{m}") for one in classes for m in one.methods}

    def find(key: tuple[str, str]) -> tuple[str, str]:
        while parent[key] != key:
            key = parent[key]
        return key

    def above(one: Class) -> Iterator[Class]:
        for base in one.bases:
            place = imported[one.file].get(base, (one.file, base))
            if (other := by_place.get(place)) and other is not one:
                yield other
                yield from above(other)

    for one in classes:
        for other in above(one):
            for method in one.methods & other.methods:
                a, b = find((one.file, f"{one.name}.{method}")), find((other.file, f"{other.name}.{method}"))
                parent[a] = b
        # Siblings by a common base that declares no such method stay apart.
    groups: dict[tuple[str, str], set[tuple[str, str]]] = defaultdict(set)
    for key in parent:
        groups[find(key)].add(key)
    return {key: group for group in groups.values() for key in group}


def read_table(path: Path) -> list[Rename]:
    rows = (line.split("\t")[:3] for line in path.read_text("utf-8").splitlines() if line.strip() and line[0] != "#")
    return [Rename(*(cell.strip() for cell in row)) for row in rows]


def find_places(spots: dict[tuple[str, str], tuple[int, int]]) -> dict[tuple[str, str], list[tuple[str, int, int]]]:
    """The places (file, line, column) of each name that is defined at a spot."""
    places: dict[tuple[str, str], list[tuple[str, int, int]]] = {}
    by_file: dict[str, list[str]] = defaultdict(list)
    for file, name in spots:
        by_file[file].append(name)
    with tempfile.TemporaryDirectory(dir=ROOT.parent) as folder:
        copy = Path(folder).resolve() / "homerl"
        copy_tree(copy)
        server = Server(["basedpyright-langserver", "--stdio"], copy)
        for file, names in sorted(by_file.items()):
            server.open(copy / copied(file))
            for name in names:
                found = server.references(copy / copied(file), *spots[file, name])
                inside = [(path.relative_to(copy).as_posix(), *at) for path, *at in found if path.is_relative_to(copy)]
                places[file, name] = [(original(path), line, column) for path, line, column in inside]
                if len(places) % 50 == 0:
                    print(f"{len(places)} of {len(spots)}", file=sys.stderr, flush=True)
            server.close(copy / copied(file))
        server.process.kill()
    return places


def main() -> None:
    """Find the places, and rename there."""
    table, apply = read_table(Path(sys.argv[1])), "--apply" in sys.argv
    trees = {}
    for top in ("homerl", "envs", "rewards", "tests", "scripts"):
        for path in sorted((ROOT / top).rglob("*.py")):
            file = path.relative_to(ROOT).as_posix()
            if not file.startswith(SKIPPED):
                trees[file] = ast.parse(path.read_text("utf-8"))
    families_of = families(trees)
    wanted: dict[tuple[str, str], str] = {}
    faults = []
    for row in table:
        for key in families_of.get((row.file, row.name), {(row.file, row.name)}):
            if wanted.setdefault(key, row.new) != row.new:
                faults.append(f"{key} would be both {wanted[key]} and {row.new}")
    spots: dict[tuple[str, str], tuple[int, int]] = {}
    for file in {file for file, _ in wanted}:
        if file not in trees:
            faults.append(f"there is no {file}")
            continue
        lines = (ROOT / file).read_text("utf-8").splitlines()
        for name, node in definitions(trees[file]):
            if (file, name) in wanted and (file, name) not in spots:
                line = node.lineno - 1
                column = re.search(rf"(?:def|class)\s+({re.escape(node.name)})\b", lines[line])
                assert column, (file, name, lines[line])
                spots[file, name] = line, column.start(1)
    faults += [f"{file} has no {name}" for file, name in wanted if file in trees and (file, name) not in spots]
    for fault in faults:
        print("FAULT", fault)
    with ProcessPoolExecutor(PROCESSES) as pool:
        parts = [dict(list(spots.items())[i::PROCESSES]) for i in range(PROCESSES)]
        edits: dict[str, dict[tuple[int, int], tuple[str, str]]] = defaultdict(dict)
        for found in pool.map(find_places, parts):
            for (file, name), places in found.items():
                for place, line, column in places:
                    edits[place][line, column] = name.rpartition(".")[2], wanted[file, name]
    count = 0
    for file, places in edits.items():
        lines = (ROOT / file).read_text("utf-8").split("\n")
        for (line, column), (old, new) in sorted(places.items(), reverse=True):
            text = lines[line]
            if text[column : column + len(old)] != old:
                if text[column : column + len(new)] != new:
                    print(f"ODD {file}:{line + 1}: no {old!r} at {column}: {text.strip()}")
                continue
            lines[line] = text[:column] + new + text[column + len(old) :]
            count += 1
        if apply:
            (ROOT / file).write_text("\n".join(lines), "utf-8")
    print(f"{count} places in {len(edits)} files{'' if apply else ' (not written)'}")
    tell_leftovers({name.rpartition(".")[2]: new for (_, name), new in wanted.items()}, edits)


def tell_leftovers(names: dict[str, str], edits: dict[str, dict[tuple[int, int], tuple[str, str]]]) -> None:
    """Print the places outside of code, or of objects of unknown type, where an old name stands."""
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"], cwd=ROOT, capture_output=True, text=True
    ).stdout
    word = re.compile(
        r"(?P<before>[.\"'`]|\b(?:late|setattr|getattr|hasattr)\(.*?[\"'])(?P<name>[A-Za-z_]\w*)(?=[\"'`(.\s,)\]}|]|$)"
    )
    found: Counter[str] = Counter()
    for file in listed.splitlines():
        if (
            file.startswith(SKIPPED)
            or not file.endswith((".py", ".md", ".jinja", ".yaml", ".js"))
            or not (ROOT / file).is_file()
        ):
            continue
        for number, text in enumerate((ROOT / file).read_text("utf-8").split("\n")):
            for match in word.finditer(text):
                if match["name"] in names and (number, match.start("name")) not in edits.get(file, {}):
                    what = f"{match['before']}{match['name']} ({names[match['name']]})"
                    print(f"LEFT {file}:{number + 1}: {what}: {text.strip()[:150]}")
                    found[match["name"]] += 1
    print(f"{sum(found.values())} left")


if __name__ == "__main__":
    main()
