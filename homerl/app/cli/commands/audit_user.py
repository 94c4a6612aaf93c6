"""`homerl audit-user`: whether a recipe's user says what it should."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from homerl.envs.core.documents import ensure_writable
from homerl.host.terminal import Command, RecipeName, console


def audit_user(
    context: typer.Context,
    recipe: RecipeName,
    blueprints: Annotated[int, typer.Option(min=1, help="number of blueprints to play")] = 100,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    out: Annotated[Path | None, typer.Option(help="the JSON file; default: audit_user.json in the recipe's `out`")] = None,
) -> None:
    """Play blueprints with the recipe's user and the scripted expert. Exit code 1 if the user is worse than allowed."""
    from homerl.app.runs.recipe import load_recipe
    from homerl.app.user_audit import run_user_audit as audit

    loaded = load_recipe(recipe, context.args)
    place = out or loaded.out / "audit_user.json"
    ensure_writable(place)
    report = audit(loaded, recipe, blueprints, at_once, place)
    console.print(report.to_table())
    raise typer.Exit(1 if report.breaches else 0)


COMMAND = Command(
    "audit-user", "train", audit_user, "homerl audit-user recipes/audit_users.yaml --blueprints 50", overrides=True
)
