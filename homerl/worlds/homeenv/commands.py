"""The commands that HomeEnv adds to `homerl`: checks of homes and devices, a survey of the language, an MCP server, and
pages.

The docstrings of the commands are their help texts.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from envs.documents import InputError, ready_to_write, write_atomic
from homerl.pages.templates import page_of
from homerl.terminal.console import console, one_of, say
from homerl.worlds.contract import CommandLine
from homerl.worlds.homeenv.serving.commands import add as add_serving

if TYPE_CHECKING:
    from envs.homemaker.make import HomeRecipe

OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def add(cli: CommandLine) -> None:
    """Add the commands to `homerl` and `homerl view`."""
    cli.app.command("check-home")(check_home)
    cli.app.command("check-devices")(check_devices)
    cli.app.command("make-home")(make_home_command(cli.load_recipe))
    cli.app.command("diversity", context_settings=OVERRIDES)(diversity_command(cli.load_recipe))
    cli.app.command("serve-env")(serve_env)
    cli.view.command("home")(view_home)
    add_serving(cli)


def check_home(file: Path) -> None:
    """Check a home file and summarise it."""
    from envs.homeenv.home_file import load_home

    home = load_home(file)
    console.print(f"{file}: {len(home.plan.rooms)} rooms, {len(home.plan.devices)} devices, state {home.state_key()}")


def check_devices(folder: Path) -> None:
    """Check a folder of device YAML files, or one of them, and list errors and warnings with file and line."""
    from envs.homeenv.devices.lint import check_folder
    from envs.homeenv.devices.spec import Catalogue
    from envs.homemaker.furnish import shipped_priors

    report = check_folder(folder, shipped_priors().categories, Catalogue.beside(folder))
    for finding in report.findings:
        say(finding)
    names = ", ".join(spec.name for spec in report.specs) or "none"
    warnings = len(report.findings) - report.errors
    say(f"{folder}: {len(report.specs)} devices load ({names}); errors: {report.errors}, warnings: {warnings}")
    raise typer.Exit(2 if report.errors else 0)


def make_home_command(load_recipe: Callable[[str, Sequence[str]], Any]) -> Callable[..., None]:
    """The command `homerl make-home`, which loads recipes by the given function."""

    def make_home_file(
        out: Path,
        seed: int = 0,
        devices: Annotated[str | None, typer.Option(help="number of devices, as LOW-HIGH; default: 2-6")] = None,
        scale: Annotated[str | None, typer.Option(help="simple, medium or complex, in place of --devices")] = None,
        catalogue: Annotated[
            list[str] | None,
            typer.Option(help="a file or folder of your devices, each of which the home then has; may be repeated"),
        ] = None,
        recipe: Annotated[
            str | None, typer.Option(help="a recipe, one of whose homes is made, in place of --devices")
        ] = None,
    ) -> None:
        """Make a home and write it as JSON."""
        from envs.homeenv.devices.spec import own_products
        from envs.homeenv.home_file import save_home
        from envs.homemaker.make import make_home

        kind = _kind_of_homes(devices, scale, recipe, load_recipe)
        if catalogue and kind.files:
            raise InputError("the recipe's homes are files, which have their devices", "--catalogue", "leave it out")
        sure = own_products(catalogue or ())
        added = tuple(name for name in catalogue or () if name not in kind.catalogue)
        home = make_home(seed, kind.model_copy(update={"catalogue": (*kind.catalogue, *added)}), sure)
        save_home(home, out)
        console.print(f"{out}: {len(home.plan.rooms)} rooms, {len(home.plan.devices)} devices")
        held = {device.spec.spid: f"{device.did} in the {device.room.name}" for device in home.plan.devices}
        for spec in sure:
            console.print(f"  {spec.name}: {held.get(spec.spid, 'no place in this home')}")

    return make_home_file


def _kind_of_homes(
    devices: str | None, scale: str | None, recipe: str | None, load_recipe: Callable[[str, Sequence[str]], Any]
) -> HomeRecipe:
    """The recipe of homes that the options of `make-home` describe."""
    from envs.homemaker.make import SCALES, HomeRecipe
    from homerl.worlds.homeenv.diversity import blueprint_recipe

    if recipe and (devices or scale):
        raise InputError("the recipe says how large its homes are", "--recipe", "leave out --devices and --scale")
    if recipe:
        return blueprint_recipe(load_recipe(recipe, ()), recipe).home
    if scale:
        one_of("--scale", scale, SCALES)
    return HomeRecipe(scale=scale) if scale else HomeRecipe(devices=_range(devices or "2-6"))


def diversity_command(load_recipe: Callable[[str, Sequence[str]], Any]) -> Callable[..., None]:
    """The command `homerl diversity`, which loads recipes by the given function."""

    def diversity(
        context: typer.Context,
        recipe: Annotated[str | None, typer.Argument(help="a recipe whose families, homes and wordings are used")] = None,
        homes: Annotated[int, typer.Option(min=1, help="number of homes")] = 1000,
        each: Annotated[int, typer.Option(min=1, help="utterances in each home")] = 400,
        language: Annotated[str, typer.Option(help="of the people; only without a recipe")] = "en",
        temperature: Annotated[float, typer.Option(help="variety of the wording; only without a recipe")] = 1.0,
        seed: int = 0,
        out: Annotated[Path | None, typer.Option(help="a JSON file for the figures")] = None,
    ) -> None:
        """Measure the diversity of utterances: distinct utterances and n-grams, self-BLEU, over homes and families."""
        from homerl.terminal.progress import progress_bar
        from homerl.worlds.homeenv.diversity import (
            blueprint_recipe,
            diversity_table,
            measure_diversity,
            mixed_recipe,
        )

        made = blueprint_recipe(load_recipe(recipe, context.args), recipe) if recipe else mixed_recipe(language, temperature)
        if out:
            ready_to_write(out)
        with progress_bar() as bar:
            task = bar.add_task("diversity", total=homes, note=made.home.language)
            report = measure_diversity(made, homes, each, seed, lambda done, _: bar.update(task, completed=done))
        console.print(diversity_table(report))
        if out:
            write_atomic(out, json.dumps(report.json(), indent=1, ensure_ascii=False) + "\n")

    return diversity


def serve_env(
    mcp: Annotated[bool, typer.Option("--mcp", help="speak the Model Context Protocol")] = False,
    home: Annotated[Path | None, typer.Option(help="a home file; default: a home is made")] = None,
    seed: Annotated[int | None, typer.Option(help="seed of the made home; default: 0")] = None,
    devices: Annotated[str | None, typer.Option(help="number of devices of the made home; default: 2-6")] = None,
    task: Annotated[list[str] | None, typer.Option(help="a condition to meet; may be repeated")] = None,
    toolset: Annotated[str, typer.Option(help="the tools that clients see")] = "homeflow",
    show_tasks: Annotated[bool, typer.Option(help="let clients read the tasks")] = False,
    transport: Annotated[str, typer.Option(help="stdio or http")] = "stdio",
    port: Annotated[int, typer.Option(help="port of http; 0 for any free port")] = 8000,
) -> None:
    """Serve a home to agents of other programs. Each gets its own fork of the home."""
    from envs.homeenv.env import HomeEnv
    from envs.homeenv.home_file import load_home
    from envs.homeenv.toolsets import TOOLSETS
    from envs.homemaker.make import HomeRecipe, make_home

    if not mcp:
        raise InputError("no protocol is named", where="serve-env", remedy="add --mcp")
    one_of("--toolset", toolset, TOOLSETS)
    one_of("--transport", transport, ("stdio", "http"))
    if home and (seed is not None or devices):
        raise InputError("a home file is served as it is", where="--home", remedy="leave out --seed and --devices")
    from homerl.worlds.homeenv.serve_env import Transport, serve

    start = load_home(home) if home else make_home(seed or 0, HomeRecipe(devices=_range(devices or "2-6")))
    serve(HomeEnv(start, tuple(task or ()), toolset), cast(Transport, transport), port, show_tasks)


def view_home(
    files: list[Path],
    out: Annotated[Path | None, typer.Option(help="the HTML file; default: beside the first file")] = None,
) -> None:
    """Draw homes as one HTML page: floor plans, the state of every device, and its services."""
    from homerl.worlds.homeenv.pages.home import write_homes

    page = page_of(files[0], out)
    for view in write_homes(files, page):
        console.print(f"{page}: {view.name}, {len(view.rooms)} rooms, {len(view.home.plan.devices)} devices")


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not (low.isdigit() and (high or low).isdigit() and int(low) <= int(high or low)):
        raise InputError(f"'{text}' is not a range", where="--devices", remedy="write for example 2-6")
    return int(low), int(high or low)
