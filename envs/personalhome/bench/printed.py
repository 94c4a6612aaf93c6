"""The results that PersonalHomeBench prints, and which of them are not to be trusted (`printed.yaml`).

Invariants: a row has one figure for each column of its table in each of its settings; every doubt names figures that are
there. Figures are as printed, mistakes included.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, Literal

from pydantic import model_validator

from homerl.envs.core.documents import read_yaml, validate
from homerl.envs.core.model import Model

FILE = Path(__file__).with_name("printed.yaml")
Setting = Literal["sole", "agentic", "before", "after"]  # before and after reflection
TABLES = ("text", "multimodal", "personalisation", "reflection", "names", "rank_sum", "deviations")


class Row(Model):
    """The figures of a model by setting, in the order of the table's columns."""

    model: str
    modality: Literal["text", "video"] = "text"
    sole: tuple[float, ...] = ()
    agentic: tuple[float, ...] = ()
    before: tuple[float, ...] = ()
    after: tuple[float, ...] = ()

    def settings(self) -> dict[Setting, tuple[float, ...]]:
        """The settings that the row has figures of."""
        all_of: dict[Setting, tuple[float, ...]] = {
            "sole": self.sole,
            "agentic": self.agentic,
            "before": self.before,
            "after": self.after,
        }
        return {setting: figures for setting, figures in all_of.items() if figures}


class Table(Model):
    """A printed table."""

    columns: tuple[str, ...]
    rows: tuple[Row, ...]

    @model_validator(mode="after")
    def _full(self) -> Table:
        for row in self.rows:
            if any(len(figures) != len(self.columns) for figures in row.settings().values()) or not row.settings():
                raise ValueError(f"the row of {row.model} needs {len(self.columns)} figures in each setting")
        return self

    def figure(self, model: str, setting: Setting, column: str, modality: str = "text") -> float:
        """One figure. Raises `KeyError` if the table has none."""
        for row in self.rows:
            if (row.model, row.modality) == (model, modality) and setting in row.settings() and column in self.columns:
                return row.settings()[setting][self.columns.index(column)]
        raise KeyError((model, modality, setting, column))


class Doubt(Model):
    """Printed figures that contradict others, and why. None stands for all settings, models or columns of the table."""

    table: str
    setting: Setting | None
    model: str | None
    modality: Literal["text", "video"] = "text"
    column: str | None
    why: str


class Printed(Model):
    """All printed results."""

    text: Table
    multimodal: Table
    personalisation: Table
    reflection: Table
    names: Table
    rank_sum: Table
    deviations: Table
    doubts: tuple[Doubt, ...]

    def table(self, name: str) -> Table:
        """A table by name. Raises `KeyError`."""
        if name not in TABLES:
            raise KeyError(name)
        table: Table = getattr(self, name)
        return table

    @model_validator(mode="after")
    def _doubts_exist(self) -> Printed:
        for doubt in self.doubts:
            if doubt.table not in TABLES or not any(self.doubtful(doubt)):
                raise ValueError(f"no figure is doubted by: {doubt.why}")
        return self

    def doubtful(self, doubt: Doubt) -> Iterator[tuple[Row, Setting, str]]:
        """(row, setting, column) of each figure that a doubt is about."""
        table = self.table(doubt.table)
        for row in table.rows:
            if doubt.model is not None and (row.model, row.modality) != (doubt.model, doubt.modality):
                continue
            for setting in row.settings():
                if doubt.setting in (None, setting):
                    yield from ((row, setting, name) for name in table.columns if doubt.column in (None, name))

    def doubts_about(self, table: str, row: Row, setting: Setting, column: str) -> list[str]:
        """Why a figure is not to be trusted; empty if nothing speaks against it."""
        about = (row, setting, column)
        return [doubt.why for doubt in self.doubts if doubt.table == table and about in self.doubtful(doubt)]


@cache
def printed() -> Printed:
    """The printed results, read once."""
    return validate(Printed, read_yaml(FILE))


def accuracies() -> dict[str, Any]:
    """The accuracies of IG and MC in percent for a suite's report (`Suite.printed`): a row for each model and setting.

    Our success of IG asks for the original answer and both counterfactuals, so it is stricter than the printed IG; `note`
    says so on the page. `overall` is the mean of both, which the paper does not print.
    """
    table, rows = printed().text, []
    for row in table.rows:
        for setting in row.settings():
            both = [table.figure(row.model, setting, name) for name in ACCURACIES]
            rows.append({"model": row.model, "setting": setting, "categories": both, "overall": sum(both) / len(both)})
    return {"categories": list(ACCURACIES), "rows": rows, "note": STRICTER}


ACCURACIES = ("IG", "MC")
STRICTER = (
    "Printed IG counts the original answer alone, ours all three answers of an episode; `homerl personalhome scores` shows "
    "figures that can be compared."
)
