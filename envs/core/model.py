"""The base class of the pydantic models that describe files and settings, in every world.

Invariants: a model refuses unknown keys; an instance never changes; no field holds an infinity or a NaN.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, SerializationInfo, SerializerFunctionWrapHandler, WrapSerializer

IDENTITY = {"identity": True}  # a context of `model_dump`, for texts that do not depend on where files lie


class Model(BaseModel):
    """A frozen pydantic model that refuses unknown keys and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


def _shorten_paths_in_identity(value: Any, handler: SerializerFunctionWrapHandler, info: SerializationInfo) -> Any:
    """The value as plain data; in an identity, a path is its last part."""
    found = handler(value)
    if not (info.context or {}).get("identity"):
        return found
    return [Path(name).name for name in found] if isinstance(found, list) else found and Path(found).name


READS = WrapSerializer(_shorten_paths_in_identity)  # marks a field whose values name files or folders that a run reads


@dataclass(frozen=True)
class ShippedNames:
    """Marks names in a field of files that mean what is shipped, whatever files are called so."""

    names: frozenset[str]


FileNames = Annotated[tuple[str, ...], READS]

# A share (0 to 1) that is not written down where it is 0: digests of recipes are older than its key
LateShare = Annotated[float, Field(ge=0, le=1, exclude_if=lambda share: share == 0)]


def field_left_out_at_default(description: str, default: Any = None, **limits: Any) -> Any:
    """A key that is not written down where it has its default, since the bytes of recipes are older than this key.

    `limits` are those of pydantic's `Field`, such as `gt`.
    """
    return Field(default, exclude_if=lambda value: value == default, description=description, **limits)
