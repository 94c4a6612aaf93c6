"""Plug-ins: the files of a package that are used because they are there, such as rewards, credit modes and toolsets.

Invariants:
- Each file or folder of the package defines one plug-in under one name, such as `REWARD`. No list names the plug-ins.
- A plug-in has the name of its file. A file may define several that are one idea, as a tuple; each then says its own `name`.
- The environment variable HOMERL_<KIND> adds folders to the package, and HOMERL_PLUGINS adds folders of such folders, as a
  run has one. They are separated as in PATH.
- A file whose name begins with an underscore is a helper, and no plug-in.
- A world is a folder: its plug-in is the folder's `adapter.py`, and a folder without one is no plug-in.
- A file that cannot be used is refused by its path when the package is read, so before any work is done.
"""

from __future__ import annotations

import importlib
import inspect
import os
import pkgutil
import traceback
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from types import ModuleType
from typing import Any

from homerl.envs.core import old_names
from homerl.envs.core.documents import InputError

# languages are data, no modules
KINDS = ("worlds", "toolsets", "intents", "rewards", "credit", "losses", "engines", "metrics", "languages", "commands")
OF_RUNS = tuple(kind for kind in KINDS if kind != "commands")  # a command is no part of a run
ALL = "HOMERL_PLUGINS"  # names folders that hold one folder for each kind, such as that of a run
VARIABLES = {kind: f"HOMERL_{kind.upper()}" for kind in KINDS}

ABSENT = object()

old_names.install_old_names()


def added_plugin_folders(kind: str) -> list[str]:
    """The folders that the environment adds to the plug-ins of a kind: the named ones, and that of this kind in ALL."""
    named, several = (
        [Path(name) for name in os.environ.get(key, "").split(os.pathsep) if name] for key in (VARIABLES[kind], ALL)
    )
    held = (folder / kind for folder in several if (folder / kind).is_dir())
    return [str(folder.resolve()) for folder in (*named, *held)]


def plugin_folder_variables() -> dict[str, str]:
    """The environment variables that add folders, with absolute paths, for a process in another folder."""
    return {VARIABLES[kind]: os.pathsep.join(folders) for kind in VARIABLES if (folders := added_plugin_folders(kind))}


def discover(
    package: ModuleType, attribute: str, kind: type, parts: Collection[str] = (), inside: str | None = None
) -> dict[str, Any]:
    """The plug-ins of a package by name: the package's own, then those of each added folder.

    Each file defines `attribute`, an instance of `kind`, or several in a tuple. `parts` are files in the package's own
    folder that are no plug-ins. With `inside`, a plug-in is a folder, and the file of this name in it defines the attribute.
    Raises `InputError` for a folder that does not exist, for a file that cannot be used, for a name that occurs twice, and
    for a plug-in with a `name` that is not its file's.
    """
    plugins: dict[str, Any] = {}
    paths: dict[str, Path] = {}
    for file, path in _list_plugin_files(package, parts, inside).items():
        module = f"{package.__name__}.{file}"
        imported = _import_plugin(f"{module}.{inside}" if path.stem == inside else module, path)
        found: Any = getattr(imported, attribute, ABSENT)
        several = isinstance(found, tuple) and bool(found)
        for one in found if several else (found,):
            plugin = _check_plugin(one, attribute, kind, path)
            name = getattr(plugin, "name", file)
            if name != file and not several:
                raise InputError(f"the {attribute} of '{file}' is named {name!r}", str(path), "give both the same name")
            if name in plugins:
                raise InputError(f"there is a '{name}' already: {paths[name]}", str(path), "give the file another name")
            plugins[name], paths[name] = plugin, path
    return plugins


def late(module: str, name: str) -> Any:
    """A member of a class that is `name` of a module, which is imported when the member is first asked for.

    A function is called without the object. `name` may be that of a member: `Situation.begin`.
    """
    return _LateMember(module, name)


@dataclass(frozen=True)
class _LateMember:
    module: str
    name: str

    def __get__(self, owner: object, kind: type) -> Any:
        if owner is None:  # the class itself is asked, as `ABCMeta` does while it makes it
            return self
        return attrgetter(self.name)(importlib.import_module(self.module))


def sort_plugins(plugins: Mapping[str, Any]) -> dict[str, Any]:
    """Plug-ins by name, sorted by their `order`, then by name."""
    return dict(sorted(plugins.items(), key=lambda item: (item[1].order, item[0])))


def find_submodules(package: ModuleType, part: str) -> Iterator[str]:
    """The names of the modules called `part` in the folders of a package, such as the `commands` of `homerl.envs`."""
    for folder in package.__path__:
        for name, _ in _find_in_subfolders(Path(folder), part):
            yield f"{package.__name__}.{name}.{part}"


def _find_in_subfolders(folder: Path, part: str) -> Iterator[tuple[str, Path]]:
    """(name of the subfolder, path) of each module or package called `part` in the subfolders of a folder."""
    for subfolder in sorted(folder.glob("[!_.]*")):
        for path in (subfolder / f"{part}.py", subfolder / part):
            if path.exists():
                yield subfolder.name, path


def _list_plugin_files(package: ModuleType, parts: Collection[str], inside: str | None) -> dict[str, Path]:
    """The path of each file that must define a plug-in, by its name."""
    own, *added = dict.fromkeys(Path(folder).resolve() for folder in package.__path__)
    names = dict(_find_in_subfolders(own, inside) if inside else _find_modules(own))
    for folder in added:
        if not folder.is_dir():
            kind = package.__name__.rpartition(".")[2]
            variable = VARIABLES["worlds" if kind == "envs" else kind]
            raise InputError("there is no such folder", str(folder), f"correct {variable}")
        # A folder of plug-ins of November 2026 has no file `inside`; there, the package itself defines the attribute.
        found = {**dict(_find_modules(folder)), **dict(_find_in_subfolders(folder, inside) if inside else ())}
        for name, path in found.items():
            if name in names:
                raise InputError(f"there is a '{name}' already: {names[name]}", str(path), "give the file another name")
            if not name.isidentifier():
                raise InputError(f"'{name}' is no name for a plug-in", str(path), "use letters, digits and underscores")
            names[name] = path
    return {name: path for name, path in names.items() if name not in parts}


def _find_modules(folder: Path) -> Iterator[tuple[str, Path]]:
    for module in pkgutil.iter_modules([str(folder)]):
        if not module.name.startswith("_"):
            yield module.name, folder / (f"{module.name}/__init__.py" if module.ispkg else f"{module.name}.py")


def _import_plugin(module: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(module)
    except InputError:
        raise
    except Exception as error:
        message = f"the file cannot be imported: {type(error).__name__}: {error}"
        raise InputError(message, _locate_error(error, path), "correct the file, or move it away") from error


def _locate_error(error: Exception, path: Path) -> str:
    """The file and the line of an error: the innermost that is in the plug-in's folder."""
    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).parent == path.parent]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else str(path)


def _check_plugin(plugin: object, attribute: str, kind: type, path: Path) -> Any:
    """The plug-in of a file, which must be complete."""
    if plugin is ABSENT:
        remedy = f"write `{attribute} = ...`, or begin the file's name with an underscore"
        raise InputError(f"the file defines no {attribute}", str(path), remedy)
    if isinstance(plugin, type) and issubclass(plugin, kind):
        raise InputError(f"{attribute} is a class", str(path), f"write `{attribute} = {plugin.__name__}()`")
    if not isinstance(plugin, kind):
        raise InputError(f"{attribute} is a {type(plugin).__name__}", str(path), f"it must be a {kind.__name__}")
    for base in kind.__mro__:
        for name in inspect.get_annotations(base):
            if inspect.getattr_static(plugin, name, ABSENT) is ABSENT:  # computes no property
                raise InputError(f"{attribute} lacks `{name}`", str(path), f"see {kind.__module__}.{kind.__name__}")
    return plugin
