"""The recipe keys of plug-ins (losses, credit modes, engines), which become fields of one model.

Invariants: no two plug-ins define the same key differently; every key has a default, since recipes that choose another
plug-in leave it out.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterable
from typing import Any

from pydantic import BaseModel

from homerl.envs.core.documents import InputError


def combine_plugin_keys(plugins: Iterable[Any], *reserved: type[BaseModel]) -> tuple[type[BaseModel], ...]:
    """The `keys` models of plug-ins, as base classes of one model that has all their fields in the order of `plugins`.

    Raises `InputError` if a key has no default, if two plug-ins define it, or if it is a field of a model in `reserved`.
    """
    owners: dict[str, type] = {name: model for model in reserved for name in model.model_fields}
    models = list(dict.fromkeys(plugin.keys for plugin in plugins))
    for model in models:
        for name, field in model.model_fields.items():
            owner = _owner(model, name)
            if field.is_required():
                raise InputError(f"the key '{name}' has no default", _file_of(model), "give it one")
            if owners.setdefault(name, owner) is not owner:
                raise InputError(f"the key '{name}' is {owners[name].__name__}'s already", _file_of(model), "rename it")
    leaves = [model for model in models if not any(model is not other and issubclass(other, model) for other in models)]
    return tuple(reversed(leaves))  # pydantic takes fields from the last base first


def _owner(model: type[BaseModel], name: str) -> type:
    """The class that declares a field of a model."""
    return next(base for base in model.__mro__ if name in inspect.get_annotations(base))


def _file_of(model: type) -> str:
    return str(sys.modules[model.__module__].__file__)
