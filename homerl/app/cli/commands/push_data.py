"""`homerl push-data`: a synthesis on the hub."""

from __future__ import annotations

from typing import Annotated

import typer

from homerl.host.terminal import Command, RunFolder, console


def push_data(
    run: RunFolder,
    to: Annotated[str, typer.Option(help="a hub id such as org/name")],
    public: Annotated[bool, typer.Option(help="make a new hub repository public")] = False,
    license: Annotated[str, typer.Option(help="license of the data, as the hub names it")] = "apache-2.0",
) -> None:
    """Upload a finished synthesis to the Hugging Face hub as a dataset, tagged with its version."""
    from homerl.report.cards.dataset_card import push_dataset

    console.print(f"pushed to {push_dataset(run, to, private=not public, license=license)}")


COMMAND = Command("push-data", "data", push_data, "homerl push-data runs/synth --to org/name")
