"""`homerl make-home`: a home file, made."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from homerl.envs.core.documents import InputError
from homerl.host.terminal import Command, Seed, check_option_value, console, count_with_noun
from homerl.worlds.contract import CommandServices

if TYPE_CHECKING:
    from homerl.envs.homeenv.maker.make import HomeRecipe


def make_home(
    context: typer.Context,
    out: Annotated[Path, typer.Option(help="the home file")] = Path("home.json"),
    seed: Seed = 0,
    devices: Annotated[str | None, typer.Option(help="number of devices, as LOW-HIGH; default: 2-6")] = None,
    scale: Annotated[str | None, typer.Option(help="simple, medium or complex, in place of --devices")] = None,
    catalogue: Annotated[
        list[str] | None,
        typer.Option(help="a file or folder of your devices, each of which the home then has; may be repeated"),
    ] = None,
    recipe: Annotated[str | None, typer.Option(help="a recipe, one of whose homes is made, in place of --devices")] = None,
) -> None:
    """Make a home and write it as JSON."""
    from homerl.envs.homeenv.maker.make import make_home as made
    from homerl.envs.homeenv.sim.devices.device_spec import own_products
    from homerl.envs.homeenv.sim.home_file import save_home

    kind = _kind_of_homes(devices, scale, recipe, context.obj)
    if catalogue and kind.files:
        raise InputError("the recipe's homes are files, which have their devices", "--catalogue", "leave it out")
    sure = own_products(catalogue or ())
    added = tuple(name for name in catalogue or () if name not in kind.catalogue)
    holds = dict.fromkeys((*kind.holds, *(spec.spid for spec in sure)))
    home = made(seed, kind.model_copy(update={"catalogue": (*kind.catalogue, *added), "holds": tuple(holds)}))
    save_home(home, out)
    rooms, devices_held = count_with_noun(len(home.plan.rooms), "room"), count_with_noun(len(home.plan.devices), "device")
    console.print(f"{out}: {rooms}, {devices_held}")
    held = {device.spec.spid: f"{device.did} in the {device.room.name}" for device in home.plan.devices}
    for spec in sure:
        console.print(f"  {spec.name}: {held.get(spec.spid, 'no place in this home')}")


def _kind_of_homes(devices: str | None, scale: str | None, recipe: str | None, services: CommandServices) -> HomeRecipe:
    """The recipe of homes that the options of `make-home` describe."""
    from homerl.envs.homeenv.diversity import blueprint_recipe
    from homerl.envs.homeenv.maker.make import SCALES, HomeRecipe

    if recipe and (devices or scale):
        raise InputError("the recipe says how large its homes are", "--recipe", "leave out --devices and --scale")
    if recipe:
        return blueprint_recipe(services.load_recipe(recipe, ()), recipe).home
    if scale:
        check_option_value("--scale", scale, SCALES)
    return HomeRecipe(scale=scale) if scale else HomeRecipe(devices=parse_number_range(devices or "2-6"))


COMMAND = Command("make-home", "data", make_home, "homerl make-home --devices 20-40 --seed 7 --out home.json")


def parse_number_range(text: str) -> tuple[int, int]:
    """The numbers of `2-6`, or of `4`, which is from 4 to 4. Raises `InputError` for other texts."""
    low, _, high = text.partition("-")
    if not (low.isdigit() and (high or low).isdigit() and int(low) <= int(high or low)):
        raise InputError(f"'{text}' is not a range", where="--devices", remedy="write for example 2-6")
    return int(low), int(high or low)
