"""The license of an exported model: its base's, if the base's card names one.

Invariant: a card that cannot be read delays no export, and what was assumed in its place is said.
"""

from __future__ import annotations

from pathlib import Path

from homerl.host.recipe.folders import find_moved_folder, read_stage_recipe, starting_model
from homerl.host.terminal.console import console
from homerl.report.cards.stages import stage_lineage
from homerl.train.named import resolve_model_source

USUAL = "apache-2.0"


def choose_license(stage: Path, base: str | None) -> str:
    """The license of what a stage trained, on `base` or on what its record names; `USUAL` for a model from scratch."""
    first = stage_lineage(stage)[0]
    if not (source := base or starting_model(read_stage_recipe(first))):
        return USUAL
    if named := read_license(str(find_moved_folder(first, source) or resolve_model_source(source))):
        return named
    console.print(f"license: {USUAL}, since no card of {source} can be read that names one (--license)", highlight=False)
    return USUAL


def read_license(model: str) -> str | None:
    """The license that the card of a model names, in its folder or on the hub, or None."""
    from httpx import HTTPError
    from huggingface_hub import HfApi, ModelCard
    from yaml import YAMLError

    try:
        if Path(model).is_dir():
            data = ModelCard.load(Path(model) / "README.md", ignore_metadata_errors=True).data
        else:
            data = HfApi().model_info(model, timeout=10).card_data
        named: str | None = getattr(data, "license", None)
        return named
    except (HTTPError, OSError, ValueError, YAMLError):  # no card or a broken one, no such model, no network, or no hub id
        return None
