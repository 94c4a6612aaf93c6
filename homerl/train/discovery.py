"""Discovers plug-ins by their files: each file of a package defines one (a credit mode, an engine).

Invariants:
- A plug-in is not listed anywhere. Folders that were added to the package's `__path__` are searched too.
- No two plug-ins have the same name, and no two define the same recipe key differently.
- Nothing here imports torch.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections.abc import Collection, Iterable, Mapping
from types import ModuleType
from typing import Any

from pydantic import BaseModel

from envs.documents import InputError


def discover(package: ModuleType, attribute: str, parts: Collection[str]) -> Mapping[str, Any]:
    """The plug-ins of a package by name, sorted by their `order` and name.

    `attribute` is the name that each file defines (`MODE`, `ENGINE`). `parts` are files of the package that are no
    plug-ins. Raises `InputError` if a file lacks the attribute, or if two plug-ins have one name.
    """
    modules = sorted(module.name for module in pkgutil.iter_modules(package.__path__) if module.name not in parts)
    ours = [_said(importlib.import_module(f"{package.__name__}.{module}"), attribute) for module in modules]
    known: dict[str, Any] = {}
    for one in sorted(ours, key=lambda one: (one.order, one.name)):
        if one.name in known:
            raise InputError(f"two files of {package.__name__} are named {one.name!r}", _file_of(one), "rename one of them")
        known[one.name] = one
    return known


def _said(module: ModuleType, attribute: str) -> Any:
    if not hasattr(module, attribute):
        raise InputError(
            f"the file defines no `{attribute}`", str(module.__file__), f"write `{attribute} = ...`, or move the file away"
        )
    return getattr(module, attribute)


def keys_of(ours: Iterable[Any], *reserved: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """The `keys` models of plug-ins, as base classes of one model that has all their fields in the order of `ours`.

    Raises `InputError` if two plug-ins define the same key, or if a key is a field of a model in `reserved`.
    """
    owners: dict[str, type] = {name: model for model in reserved for name in model.model_fields}
    kinds = list(dict.fromkeys(one.keys for one in ours))
    for kind in kinds:
        for name in kind.model_fields:
            owner = _owner(kind, name)
            if owners.setdefault(name, owner) is not owner:
                raise InputError(f"the key {name!r} is {owners[name].__name__}'s already", _file_of(kind), "rename it")
    leaves = [kind for kind in kinds if not any(kind is not other and issubclass(other, kind) for other in kinds)]
    return tuple(reversed(leaves))  # pydantic takes fields from the last base first


def _owner(kind: type[BaseModel], name: str) -> type:
    """The class that declares a field of a model."""
    return next(base for base in kind.__mro__ if name in inspect.get_annotations(base))


def _file_of(thing: Any) -> str:
    kind = thing if isinstance(thing, type) else type(thing)
    return str(importlib.import_module(kind.__module__).__file__)
