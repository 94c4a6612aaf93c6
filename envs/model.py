"""The base class of the pydantic models that describe files and settings, in every world.

Invariants: a model refuses unknown keys; an instance never changes; no field holds an infinity or a NaN.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


class Model(BaseModel):
    """A frozen pydantic model that refuses unknown keys and numbers that are not finite."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)
