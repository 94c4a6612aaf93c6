"""How the scripted expert of any world works and errs.

Invariant: of the styles, one has a weight above 0.
"""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from homerl.envs.core.model import LateShare, Model


def _one_possible(styles: dict[Any, float]) -> dict[Any, float]:
    if not any(styles.values()):
        raise ValueError("one of them needs a weight above 0")
    return styles


Style = Literal["snippet", "stepwise", "query_first", "sweeping"]
Styles = Annotated[dict[Style, Annotated[float, Field(ge=0)]], AfterValidator(_one_possible)]  # weights


class ExpertConfig(Model):
    """How the scripted expert works and errs."""

    mistakes: float = Field(0.25, ge=0, le=1, description="Share (0 to 1) of messages with a mistake.")
    styles: Styles = Field(
        {"snippet": 1.0},
        description="Weights of styles: `snippet` calls all at once, `stepwise` one by one, `query_first` "
        "reads first, `sweeping` calls all that may help.",
    )
    slips: LateShare = Field(
        0.0,
        description="Share of turns that begin with a wrong name, refused and put right.",
    )
    minimal: bool = Field(False, description="Whether it leaves out reads, and calls that would change nothing.")
