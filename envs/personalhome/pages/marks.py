"""Agreement of the people who checked the judge, as tables for a terminal."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rich.console import Group
from rich.table import Column, Table

from homerl.envs.personalhome.judge.human import KINDS, MARKS

MEANING = {"2": "correct", "1": "partial", "0": "incorrect"}


def marks_tables(found: Mapping[str, Any]) -> Group:
    """The marks of each person, and how far each two agree (`human.checked`)."""
    return Group(*(table for kind in KINDS for table in _of_kind(kind, found[kind])))


def _of_kind(kind: str, found: Mapping[str, Any]) -> list[Table]:
    heads = [Column(f"{MEANING[mark]} %", justify="right") for mark in reversed(MARKS)]
    shares = Table("person", *heads, title=f"marks of the judge, {kind}")
    for person, share in found["shares"].items():
        shares.add_row(person, *(f"{100 * share[mark]:.1f}" for mark in reversed(MARKS)))
    columns = [Column(name, justify="right") for name in ("n", "equal %", "95 %", "one apart at most %", "opposed")]
    agreed = Table("people", *columns, title=f"agreement of people, {kind} (the paper: above 65 %, none opposed)")
    for names, one in (*found["pairs"].items(), *([("all pairs", found["all"])] if "all" in found else [])):
        low, high = one["interval"]
        between = f"{100 * low:.1f} to {100 * high:.1f}"
        agreed.add_row(
            names, str(one["n"]), f"{100 * one['equal']:.1f}", between, f"{100 * one['near']:.1f}", str(one["opposed"])
        )
    return [shares, *([agreed] if found["pairs"] else [])]
