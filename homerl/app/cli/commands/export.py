"""`homerl export`: a trained model for other programs."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal import Command, RunFolder, console


def export(
    run: RunFolder,
    to: Annotated[str, typer.Option(help="a folder, made if missing; with --push a hub id such as org/name")],
    push: Annotated[bool, typer.Option(help="upload to the hub")] = False,
    public: Annotated[bool, typer.Option(help="make a new hub repository public")] = False,
    base: Annotated[str | None, typer.Option(help="the base model, if the adapter's own record of it leads nowhere")] = None,
    adapter: Annotated[bool, typer.Option(help="export only the adapter, not merged")] = False,
    license: Annotated[
        str | None,
        typer.Option(help="the license, as the hub names it; default: the base model's, else apache-2.0"),
    ] = None,
    scores: Annotated[
        list[Path] | None, typer.Option(help="a folder of `homerl bench run` with this model, for the card; may be repeated")
    ] = None,
    gguf: Annotated[
        str | None, typer.Option(help="add a file for llama.cpp and Ollama, in f32, f16, bf16 or q8_0 (8 bits a weight)")
    ] = None,
) -> None:
    """Export a trained model to a folder or to the Hugging Face hub."""
    from homerl.report.cards.export import export_model as write

    if public and not push:
        raise InputError("only what is pushed can be public", "--public", "add --push, or leave it out")
    folder = write(run, to, push, not public, base, adapter, license, gguf, scores or ())
    console.print(f"exported to {folder}", soft_wrap=True)
    console.print(f"how to ask it: {folder / 'README.md'}; talk with it: homerl chat {quote(str(folder))}", soft_wrap=True)


COMMAND = Command("export", "train", export, "homerl export runs/mine --to models/mine")
