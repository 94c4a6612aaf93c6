"""The base class of every pydantic model that describes a file or a setting, in any world.

Invariants: a model refuses unknown keys; an instance never changes; no field holds an infinity or a NaN.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen pydantic model that refuses unknown keys and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
