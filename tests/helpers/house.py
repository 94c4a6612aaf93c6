"""The structure of the source tree ("the house"), read with ast: modules, imports, rooms (folders), and broken rules.

`python tests/helpers/house.py` redraws the diagram of rooms in CONTRIBUTING.md (`scripts/regenerate` calls it).

Invariants:
- Every import counts, also in functions, below TYPE_CHECKING, and in relative form.
- CONTRIBUTING.md holds the only list of rooms.
- A fault names the file, the line and the remedy.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

ROOT = Path(__file__).parents[2]
TOPS = ("envs", "rewards", "homerl")
LINKED = ("envs", "rewards")  # folders beside `homerl`, in which links make them its packages
APP = "envs/assistant/app/"  # it runs in Home Assistant's Python
PAGE = "CONTRIBUTING.md"
ROW = re.compile(r"^\| `([\w./*]+)` \| (.+) \|$")
DRAWING = re.compile(r"(<!-- rooms: [^>]*-->\n)(.*?)(<!-- /rooms -->)", re.DOTALL)
PLUGINS = "envs/*/"
GROUND = "envs/core/"  # it knows no world
OLD_NAMES = "envs/core/old_names.py"  # for one release, the names of worlds' modules too
OVER_WORLDS = ("envs/assistant/",)  # it may import a world
# No size is a goal: a file holds one idea, and a function what is read in one go. Beyond these sizes there are mostly two.
MOST_LINES, MOST_FUNCTION_LINES = 700, 100
READ_WHOLE: Mapping[tuple[str, str], str] = {}  # functions that are longer, by file and name, and why they read better so
MODELS = frozenset("torch transformers trl peft accelerate deepspeed vllm".split())  # each of them loads torch
SERVICES = frozenset({"openai", "wandb"})
# Where torch may be imported at module level.
TORCH_ROOMS = ("homerl/train/", "homerl/models/policy/faster_decoding.py")
SAMPLERS = ("homerl/models/policy/transformers_engine.py",)
LATE_TORCH_ROOMS = (
    *TORCH_ROOMS,
    *SAMPLERS,
    "homerl/report/cards/export.py",
    "homerl/app/runs/",
    "homerl/app/served/",
    "homerl/app/play_suite.py",
)  # within a function


@dataclass(frozen=True)
class Import:
    """One name that a module imports. `late`: within a function; `typing`: only for type checkers."""

    file: str
    line: int
    target: str
    late: bool
    typing: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"


@dataclass(frozen=True)
class Module:
    """A Python file: its dotted name, its path from the root, and its code."""

    name: str
    file: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """The syntax tree of the file."""
        return ast.parse(self.text, self.file)

    @cached_property
    def imports(self) -> tuple[Import, ...]:
        """Every name that the module imports."""
        package = self.name if self.file.endswith("__init__.py") else self.name.rpartition(".")[0]
        return tuple(
            Import(self.file, node.lineno, target, late, typing)
            for node, late, typing in _statements(self.tree)
            for target in _targets(node, package)
        )


@dataclass(frozen=True)
class Room:
    """A row of the table of rooms: a folder or a file, and the reason for its position."""

    path: str
    reason: str

    def holds(self, file: str) -> bool:
        """Whether the room holds a file. `*` in the path stands for one folder."""
        pattern = re.escape(self.path).replace(r"\*", "[^/]+")
        return re.match(pattern if self.path.endswith("/") else f"{pattern}$", file) is not None


class House:
    """The modules below a root, and the rooms that its page lists."""

    def __init__(self, root: Path = ROOT) -> None:
        self.root = root
        self.modules = {module.name: module for module in _modules(root)}
        self.page = (root / PAGE).read_text("utf-8") if (root / PAGE).exists() else ""
        section = self.page.partition("## The house\n")[2].partition("\n## ")[0]
        self.rooms = [Room(*match.groups()) for line in section.splitlines() if (match := ROW.match(line))]

    def own(self, imported: Import) -> str | None:
        """The module of this repository that is imported: the target itself, or the module that defines it; else None."""
        parent = imported.target.rpartition(".")[0]
        return next((name for name in (imported.target, parent) if name in self.modules), None)

    @cached_property
    def graph(self) -> dict[str, dict[str, Import]]:
        """For each module, the modules of this repository that it imports, with the first import of each."""
        graph: dict[str, dict[str, Import]] = {}
        for module in self.modules.values():
            into = graph[module.name] = {}
            for imported in module.imports:
                if (target := self.own(imported)) and target != module.name:
                    into.setdefault(target, imported)
        return graph

    def room_of(self, file: str) -> str | None:
        """The room with the longest path that holds the file; a plug-in is a room of its own."""
        room = max((room for room in self.rooms if room.holds(file)), key=lambda room: len(room.path), default=None)
        if room is None:
            return None
        return "/".join(file.split("/")[: room.path.count("/")]) + "/" if "*" in room.path else room.path

    @cached_property
    def arrows(self) -> dict[str, dict[str, Import]]:
        """For each room, the rooms that it imports, with the first import of each."""
        arrows: dict[str, dict[str, Import]] = {}
        for name, targets in self.graph.items():
            here = self.room_of(self.modules[name].file)
            for target, imported in targets.items():
                there = self.room_of(self.modules[target].file)
                if here and there and here != there:
                    arrows.setdefault(here, {}).setdefault(there, imported)
        return arrows

    def rank(self, room: str) -> int:
        """The index of a room's row; a lower room has a lower index."""
        paths = [row.path for row in self.rooms]
        return paths.index(room if room in paths else PLUGINS)

    # Rules. Each yields its faults as messages.

    def cycles(self) -> Iterator[str]:
        """Modules that import each other in a circle."""
        for circle in _circles(self.graph):
            steps = [f"{self.graph[a][b]} imports {b}" for a, b in zip(circle, circle[1:])]
            yield f"a cycle: {'; '.join(steps)}. Move what they share into a module that imports none of them"

    def misplaced(self) -> Iterator[str]:
        """Files without a room, rooms without a file, and rooms that are listed twice."""
        files = [module.file for module in self.modules.values()]
        for file in files:
            if self.room_of(file) is None:
                yield f"{file}:1 lies in no room. Add its folder to the table of rooms in {PAGE}, or move it"
        for path, times in Counter(room.path for room in self.rooms).items():
            if times > 1:
                yield f"{PAGE} lists the room {path} {times} times. Keep the row whose place is right"
        for room in self.rooms:
            if not any(room.holds(file) for file in files):
                yield f"{PAGE} lists the room {room.path}, which holds no module. Delete its row"

    def upward(self) -> Iterator[str]:
        """Imports of a room that the table lists later, and imports of one plug-in by another."""
        for here, targets in self.arrows.items():
            for there, imported in targets.items():
                if self.rank(there) >= self.rank(here):
                    hint = f"Move the code into {there} or lower, or hand it over as an argument"
                    rule = f"{here} may import only rooms that {PAGE} lists before it, not {there}"
                    yield f"{imported} imports {imported.target}: {rule}. {hint}"

    def circles_of_folders(self) -> Iterator[str]:
        """Folders that import each other in a circle: rooms with all that they hold, and folders inside of one room.

        A plug-in counts as a part of the folder that holds it. A folder and one inside of it are no circle.
        """
        for level in (2, None):
            graph: dict[str, dict[str, Import]] = {}
            for name, targets in self.graph.items():
                here = _folder(self.modules[name].file, level)
                for target, imported in targets.items():
                    there = _folder(self.modules[target].file, level)
                    if here != there and not (_holds(here, there) or _holds(there, here)):
                        graph.setdefault(here, {}).setdefault(there, imported)
            for circle in _circles(graph):
                steps = [f"{graph[a][b]} imports {graph[a][b].target}" for a, b in zip(circle, circle[1:])]
                yield f"a circle of folders: {'; '.join(steps)}. Move what they share into a lower room"

    def known_worlds(self) -> Iterator[str]:
        """Imports of a plug-in from outside of it."""
        for here, targets in self.arrows.items():
            for there, imported in targets.items():
                if self.rooms[self.rank(there)].path == PLUGINS and here not in OVER_WORLDS:
                    hint = "Ask `homerl.worlds.registry` for the world, and add to `WorldAdapter` what it lacks"
                    yield f"{imported} imports {imported.target}: nobody outside {there} may ({here}). {hint}"

    def named_worlds(self, worlds: Iterable[str]) -> Iterator[str]:
        """Lines and names of files that name a world, as a whole word, outside of worlds and their simulators."""
        begins, ends = "(?:(?<![A-Za-z])|(?=[A-Z]))", "(?![a-z])"  # of a word, or of a part of a CamelCase name
        words = {world: re.compile(f"{begins}(?i:{re.escape(world)}){ends}") for world in worlds}
        for top in ("homerl", "rewards", "envs"):
            for path in sorted((self.root / top).rglob("*")):
                file = path.relative_to(self.root).as_posix()
                if path.is_file() and "__pycache__" not in path.parts and not _worldly(file):
                    yield from _naming(file, path.read_bytes().decode("utf-8", "replace"), words)

    def heavy(self) -> Iterator[str]:
        """Imports of model libraries and services where they do not belong."""
        for module in self.modules.values():
            for imported in module.imports:
                yield from _heavy(imported)

    def oversized(self) -> Iterator[str]:
        """Files and functions that are too long."""
        for module in self.modules.values():
            if (lines := len(module.text.splitlines())) > MOST_LINES:
                where = f"{module.file}:{MOST_LINES + 1} is line {MOST_LINES + 1} of {lines}"
                yield f"{where}. Split the module at its second subject"
            for node in ast.walk(module.tree):
                if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                    lines = (node.end_lineno or node.lineno) - node.lineno + 1
                    if lines > MOST_FUNCTION_LINES and (module.file, node.name) not in READ_WHOLE:
                        where = f"{module.file}:{node.lineno} {node.name} has {lines} lines"
                        remedy = (
                            f"Name its steps as functions, or list it in READ_WHOLE ({Path(__file__).name}) with the reason"
                        )
                        yield f"{where}, more than {MOST_FUNCTION_LINES}. {remedy}"

    def undescribed(self) -> Iterator[str]:
        """Package folders without a docstring."""
        for folder in sorted({Path(module.file).parent.as_posix() for module in self.modules.values()} - {"."}):
            module = self.modules.get(_dotted(f"{folder}/__init__.py"))
            if module is None or not ast.get_docstring(module.tree):
                yield f"{folder}/__init__.py:1 has no docstring. Say in a sentence what the folder holds"

    # The diagram

    def drawing(self) -> str:
        """The rooms and their imports as a mermaid graph. An arrow that follows from others is left out."""
        plugins = next((room.path for room in self.rooms if "*" in room.path), None)
        lines = ["```mermaid", "graph BT"]
        lines += [f'    r{i}["{room.path}"]' for i, room in enumerate(self.rooms)]
        ranks: dict[int, set[int]] = {self.rank(room.path): set() for room in self.rooms if room.path != plugins}
        for here, targets in self.arrows.items():
            ranks.setdefault(self.rank(here), set()).update(map(self.rank, targets))
        for here, there in sorted(_reduced(ranks)):
            lines.append(f"    r{here} --> r{there}")
        return "\n".join([*lines, "```", ""])

    def drawn(self) -> str:
        """The diagram that the page shows now."""
        match = DRAWING.search(self.page)
        return match[2] if match else ""

    def draw(self) -> None:
        """Write the diagram to the page."""
        page = DRAWING.sub(lambda match: match[1] + self.drawing() + match[3], self.page)
        (self.root / PAGE).write_text(page, "utf-8")


def _worldly(file: str) -> bool:
    return file == OLD_NAMES or (Room(PLUGINS, "").holds(file) and not file.startswith(GROUND))


def _naming(file: str, text: str, words: Mapping[str, re.Pattern[str]]) -> Iterator[str]:
    for number, line in enumerate([file, *text.splitlines()]):
        for world, word in words.items():
            if word.search(line):
                hint = "Put what is special to a world behind a method of `WorldAdapter`"
                yield f"{file}:{number} names the world '{world}': {line.strip()[:80]!r}. {hint}"


def _folder(file: str, level: int | None) -> str:
    return "/".join(file.split("/")[:-1][:level])


def _holds(folder: str, other: str) -> bool:
    return f"{other}/".startswith(f"{folder}/")


def _modules(root: Path) -> Iterator[Module]:
    for top in TOPS:
        for path in sorted((root / top).rglob("*.py")):
            if not (file := path.relative_to(root).as_posix()).startswith(APP):
                yield Module(_dotted(file), file, path.read_text("utf-8"))


def _dotted(file: str) -> str:
    """The name by which a file is imported."""
    parts = file.removesuffix(".py").removesuffix("/__init__").split("/")
    return ".".join(["homerl", *parts] if parts[0] in LINKED else parts)


def _statements(node: ast.AST, late: bool = False, typing: bool = False) -> Iterator[tuple[ast.AST, bool, bool]]:
    """Every import statement, whether it stands in a function, and whether only type checkers read it."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom):
            yield child, late, typing
        if isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "late":
            yield child, True, typing
        inside = late or isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
        checked = typing or (isinstance(child, ast.If) and ast.unparse(child.test).endswith("TYPE_CHECKING"))
        yield from _statements(child, inside, checked)


def _targets(node: ast.AST, package: str) -> Iterator[str]:
    """The dotted names that a statement imports: `from a import b` is a.b, whether b is a module or a name in a."""
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.Call):  # `late("a", "b.c")` of envs/core/plugins.py is a.b
        module, name = (ast.literal_eval(argument) for argument in node.args)
        yield f"{module}.{name.partition('.')[0]}"
    elif isinstance(node, ast.ImportFrom):
        parts = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
        base = ".".join([*parts, *([node.module] if node.module else [])])
        yield from (f"{base}.{alias.name}" for alias in node.names)


def _circles(graph: Mapping[str, Iterable[str]]) -> Iterator[list[str]]:
    """Cycles of imports. The modules of a cycle are removed before the search for the next one."""
    left = {name: set(targets) for name, targets in graph.items()}
    while True:
        try:
            TopologicalSorter(left).prepare()
        except CycleError as error:
            circle = error.args[1][::-1]  # graphlib lists predecessors first
            yield circle
            left = {name: targets.difference(circle) for name, targets in left.items() if name not in circle}
        else:
            return


def _heavy(imported: Import) -> Iterator[str]:
    top = imported.target.partition(".")[0]
    world = imported.file.startswith("envs/")
    low = imported.file.startswith(("rewards/", GROUND)) or (world and "/sim/" in imported.file)
    ours = ("homerl.envs", "homerl.envs.") if world else ("homerl.envs", "homerl.envs.", "homerl.rewards", "homerl.rewards.")
    above = top == "homerl" and not (imported.target in ours or imported.target.startswith(ours[1::2]))
    if low and (above or top in MODELS | SERVICES):
        yield f"{imported} imports {imported.target}: simulators and rewards run without it. Move the code into homerl"
    elif top in MODELS and not imported.typing:
        rooms, where = (LATE_TORCH_ROOMS, "within functions") if imported.late else (TORCH_ROOMS, "at module level")
        if not imported.file.startswith(rooms):
            yield f"{imported} imports {imported.target} {where}, which only {', '.join(rooms)} may. Move the code there"


def _reduced(graph: Mapping[int, Set[int]]) -> set[tuple[int, int]]:
    """The transitive reduction of an acyclic graph: its arrows without those that follow from others."""
    beyond: dict[int, set[int]] = {}
    for node in TopologicalSorter(graph).static_order():
        direct = graph.get(node, set())
        beyond[node] = set(direct).union(*(beyond[other] for other in direct))
    return {
        (here, there)
        for here, direct in graph.items()
        for there in direct
        if not any(there in beyond[other] for other in direct)
    }


if __name__ == "__main__":
    House().draw()
