"""The `homerl` command.

Invariants: bad input ends with one message and code 2; nothing here holds logic of its own.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from typing import Annotated

import typer
import yaml

from envs.documents import InputError
from homerl.bench.cli import app as bench
from homerl.terminal import console, one_of

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
view_app = typer.Typer(no_args_is_help=True)
app.add_typer(view_app, name="view", help="Write pages to look at.")
app.add_typer(bench, name="bench", help="SmartHome-Bench and SMH-Bench: build, run, score again.")
OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


@app.command(context_settings=OVERRIDES)
def run(context: typer.Context, recipe: str) -> None:
    """Run a recipe in this process; any key can be overridden: --train.learning_rate 2e-6."""
    from homerl.config import find_recipe
    from homerl.launch import main as launch

    raise typer.Exit(launch(str(find_recipe(recipe)), context.args))


@app.command(context_settings=OVERRIDES)
def check(
    context: typer.Context,
    recipe: str,
    gpus: Annotated[int | None, typer.Option(help="that train; by default what the recipe leaves of eight")] = None,
    gpu_memory: Annotated[float, typer.Option(help="of each, in GB")] = 80.0,
) -> None:
    """Resolve a recipe, check it and this machine, estimate its memory, and print it without running."""
    from homerl.memory import estimates
    from homerl.preflight import check_machine
    from homerl.recipe import load_recipe, resolved

    loaded = load_recipe(recipe, context.args)
    print(yaml.safe_dump(resolved(loaded), sort_keys=False, allow_unicode=True), end="")
    for stage, found in estimates(loaded, gpus, gpu_memory).items():
        print("".join(f"# {stage}: {line}\n" for line in found.lines(gpu_memory)), end="", flush=True)
    check_machine(loaded, recipe)


@app.command()
def init(folder: Path) -> None:
    """Write the shipped recipes to a folder, to begin your own from."""
    from homerl.config import shipped_recipes

    if folder.exists() and any(folder.iterdir()):
        raise InputError("the folder is not empty", where=str(folder), remedy="name a new one")
    shutil.copytree(shipped_recipes(), folder, dirs_exist_ok=True)
    console.print(f"recipes written to {folder}; start one with: accelerate launch {folder}/quickstart.yaml")


@app.command("export")
def export_command(
    run: Path,
    to: Annotated[str, typer.Option(help="a folder, or a hub id such as org/name")],
    push: Annotated[bool, typer.Option(help="upload to the hub")] = False,
    public: Annotated[bool, typer.Option(help="make the hub repository public")] = False,
    base: Annotated[str | None, typer.Option(help="the base model, where an adapter's own is gone")] = None,
    adapter: Annotated[bool, typer.Option(help="export the adapter alone, not merged")] = False,
) -> None:
    """Export a trained model to a folder or to the Hugging Face hub."""
    from homerl.export import export

    console.print(f"exported to {export(run, to, push=push, private=not public, base=base, adapter=adapter)}")


@app.command(context_settings=OVERRIDES)
def synth(
    context: typer.Context,
    recipe: str,
    ray: Annotated[str | None, typer.Option(help="a Ray cluster's address; `local` starts one here")] = None,
) -> None:
    """Synthesise what a recipe of `run: synth` says; goes on where an earlier start was stopped."""
    from homerl.config import find_recipe
    from homerl.launch import main as launch
    from homerl.recipe import load_recipe

    path, over = str(find_recipe(recipe)), [*context.args, *(["--ray", ray] if ray else [])]
    if (kind := load_recipe(path, context.args).run) != "synth":
        raise InputError(f"a recipe of `run: {kind}` is no synthesis", path, "start it with `homerl run`")
    raise typer.Exit(launch(path, over))


@app.command("synth-grid", context_settings=OVERRIDES)
def synth_grid(
    context: typer.Context,
    recipe: str,
    calls: Annotated[list[int] | None, typer.Option(help="requests for each blueprint; may be given again")] = None,
    sampled: Annotated[list[int] | None, typer.Option(help="messages for each blueprint; may be given again")] = None,
    out: Annotated[Path | None, typer.Option(help="a folder for figures and datasets")] = None,
) -> None:
    """Branching factors compared (HomeFlow, Table 2): as the paper counts, and at equal budgets for each blueprint."""
    from homerl.flow.grid import grid, table, write
    from homerl.flow.mcts import Budget
    from homerl.progress import progress_bar
    from homerl.recipe import load_recipe

    loaded = load_recipe(recipe, context.args)
    budgets = [*(Budget("calls", most) for most in calls or ()), *(Budget("sampled", most) for most in sampled or ())]
    for budget in (None, *budgets):
        title = f"{budget.most} {budget.of} a blueprint" if budget else "one tree a blueprint"
        with progress_bar() as bar:
            task = bar.add_task("synth-grid", total=loaded.synth.blueprints, note=title)
            cells = grid(loaded.synth, budget, lambda bar=bar, task=task: bar.advance(task), keep=out is not None)
        console.print(table(cells, title))
        if out:
            write(cells, out / title.replace(" ", "-"), loaded.seed)


@app.command("push-data")
def push_data(
    run: Path,
    to: Annotated[str, typer.Option(help="a hub id such as org/name")],
    public: Annotated[bool, typer.Option(help="make the hub repository public")] = False,
    license: Annotated[str, typer.Option(help="of the data, as the hub names it")] = "apache-2.0",
) -> None:
    """Upload a finished synthesis to the Hugging Face hub as a dataset, tagged by its version."""
    from homerl.flow.dataset import push

    console.print(f"pushed to {push(run, to, private=not public, license=license)}")


@app.command()
def reverify(file: Path) -> None:
    """Replay every stored trajectory of a file and recompute its rewards; fail on any difference."""
    from homerl.reverify import reverify_file

    console.print(reverify_file(file))


@app.command()
def compare(before: Path, after: Path) -> None:
    """The paired gain in success between two results.jsonl of one suite, with its 95 % interval."""
    from homerl.bench.score import paired_difference
    from homerl.trajectory import read_rows

    print(json.dumps(paired_difference(list(read_rows(before)), list(read_rows(after)))))


@app.command()
def seeds(runs: list[Path], suite: str = "heldout") -> None:
    """Scores of several flywheel runs side by side, with mean and spread."""
    from homerl.bench.seeds import seeds_table

    console.print(seeds_table(runs, suite))


@app.command("check-home")
def check_home(file: Path) -> None:
    """Check a home file and say what is in it."""
    from envs.homeenv.home_file import load_home

    home = load_home(file)
    console.print(f"{file}: {len(home.plan.rooms)} rooms, {len(home.plan.devices)} devices, state {home.state_key()}")


@app.command("check-devices")
def check_devices(folder: Path) -> None:
    """Check a folder of device YAML files: everything that is wrong or suspicious, with file and line."""
    from envs.homeenv.lint import check_folder
    from envs.homeenv.spec import Catalogue
    from envs.homemaker.furnish import shipped_priors

    report = check_folder(folder, shipped_priors().categories, Catalogue.beside(folder))
    for finding in report.findings:
        print(finding)
    names = ", ".join(spec.name for spec in report.specs) or "none"
    warnings = len(report.findings) - report.errors
    print(f"{folder}: {len(report.specs)} devices load ({names}); errors: {report.errors}, warnings: {warnings}")
    raise typer.Exit(2 if report.errors else 0)


@app.command("schemas")
def schemas_command(folder: Path) -> None:
    """Write the JSON Schemas of homes, devices, blueprints and trajectories."""
    from homerl.schemas import write_schemas

    console.print("\n".join(map(str, write_schemas(folder))))


@app.command("make-home")
def make_home_command(
    out: Path,
    seed: int = 0,
    devices: Annotated[str, typer.Option(help="how many, as LOW-HIGH")] = "2-6",
    scale: Annotated[str | None, typer.Option(help="simple, medium or complex, in place of --devices")] = None,
) -> None:
    """Make a home and write it as JSON."""
    from envs.homeenv.home_file import save_home
    from envs.homemaker.make import SCALES, HomeRecipe, make_home

    if scale:
        one_of("--scale", scale, SCALES)
    home = make_home(seed, HomeRecipe(scale=scale) if scale else HomeRecipe(devices=_range(devices)))
    save_home(home, out)
    console.print(f"{out}: {len(home.plan.rooms)} rooms, {len(home.plan.devices)} devices")


@app.command(context_settings=OVERRIDES)
def diversity(
    context: typer.Context,
    recipe: Annotated[str | None, typer.Argument(help="the families, homes and wordings of its blueprints")] = None,
    homes: Annotated[int, typer.Option(help="how many homes people speak in")] = 1000,
    each: Annotated[int, typer.Option(help="utterances in each home")] = 400,
    language: Annotated[str, typer.Option(help="en or zh, where no recipe is given")] = "en",
    temperature: Annotated[float, typer.Option(help="where no recipe is given")] = 1.0,
    seed: int = 0,
    out: Annotated[Path | None, typer.Option(help="a JSON file for the figures")] = None,
) -> None:
    """Measure how diverse the language is: distinct utterances and n-grams, self-BLEU, over homes and families."""
    from homerl.language.diversity import recipe_of, survey, table
    from homerl.progress import progress_bar

    made = recipe_of(recipe, context.args, language, temperature)
    with progress_bar() as bar:
        task = bar.add_task("diversity", total=homes, note=made.home.language)
        found = survey(made, homes, each, seed, lambda done, _: bar.update(task, completed=done))
    console.print(table(found))
    if out:
        out.write_text(json.dumps(found.json(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


@app.command("serve-env")
def serve_env(
    mcp: Annotated[bool, typer.Option("--mcp", help="speak the Model Context Protocol")] = False,
    home: Annotated[Path | None, typer.Option(help="a home file; without one, a home is made")] = None,
    seed: Annotated[int | None, typer.Option(help="of the home that is made; 0 if left out")] = None,
    devices: Annotated[str | None, typer.Option(help="how many the home that is made has; 2-6 if left out")] = None,
    task: Annotated[list[str] | None, typer.Option(help="a condition to be met; may be given again")] = None,
    toolset: Annotated[str, typer.Option(help="the tools that clients see")] = "homeflow",
    show_tasks: Annotated[bool, typer.Option(help="let clients read the tasks")] = False,
    transport: Annotated[str, typer.Option(help="stdio or http")] = "stdio",
    port: Annotated[int, typer.Option(help="of http; 0 for any")] = 8000,
) -> None:
    """Serve a home to other programs' agents, each in a fork of its own."""
    from envs.homeenv.env import HomeEnv
    from envs.homeenv.home_file import load_home
    from envs.homeenv.toolsets import TOOLSETS
    from envs.homemaker.make import HomeRecipe, make_home

    if not mcp:
        raise InputError("no protocol is named", where="homerl serve-env", remedy="add --mcp")
    one_of("--toolset", toolset, TOOLSETS)
    one_of("--transport", transport, ("stdio", "http"))
    if home and (seed is not None or devices):
        raise InputError("a home file is served as it is", where="--home", remedy="leave out --seed and --devices")
    from homerl.serve_env import serve

    start = load_home(home) if home else make_home(seed or 0, HomeRecipe(devices=_range(devices or "2-6")))
    serve(HomeEnv(start, tuple(task or ()), toolset), transport, port, show_tasks)


@app.command("serve-user", context_settings=OVERRIDES)
def serve_user_command(
    context: typer.Context,
    recipe: str,
    part: Annotated[str, typer.Option(help="whose model: user, or of a synthesis also agent, author")] = "user",
) -> None:
    """Serve the recipe's user model (or that of another part) with vLLM until told to stop (Ctrl-C, SIGTERM)."""
    from homerl.recipe import PARTS, load_recipe, party
    from homerl.users.serve import serve_user

    one_of("--part", part, PARTS)
    loaded = load_recipe(recipe, context.args)
    key, settings = party(loaded, part, recipe)
    serve_user(settings, key, loaded.out / f"{part}_server.log", lambda s: console.print(s, highlight=False, soft_wrap=True))


@app.command("audit-user", context_settings=OVERRIDES)
def audit_user_command(
    context: typer.Context,
    recipe: str,
    blueprints: Annotated[int, typer.Option(min=1, help="how many to play")] = 100,
    at_once: Annotated[int, typer.Option(min=1, help="episodes played side by side")] = 16,
    out: Annotated[Path | None, typer.Option(help="the JSON; audit_user.json in the recipe's folder if left out")] = None,
) -> None:
    """Play blueprints with the recipe's user and the scripted expert; fail where the user is worse than allowed."""
    from homerl.recipe import load_recipe
    from homerl.users.audit import audit_user

    loaded = load_recipe(recipe, context.args)
    report = audit_user(loaded, recipe, blueprints, at_once, out or loaded.out / "audit_user.json")
    console.print(report.table())
    raise typer.Exit(1 if report.breaches else 0)


def _range(text: str) -> tuple[int, int]:
    low, _, high = text.partition("-")
    if not (low.isdigit() and (high or low).isdigit() and int(low) <= int(high or low)):
        raise InputError(f"'{text}' is not a range", where="--devices", remedy="write for example 2-6")
    return int(low), int(high or low)


@view_app.command("home")
def view_home(
    files: list[Path],
    out: Annotated[Path | None, typer.Option(help="the page; beside the first file if left out")] = None,
) -> None:
    """Draw homes as one HTML page: floor plans, what every device is doing, and what it can be told."""
    from homerl.view.home import write_homes

    page = out or files[0].with_suffix(".html")
    for view in write_homes(files, page):
        console.print(f"{page}: {view.name}, {len(view.rooms)} rooms, {len(view.home.plan.devices)} devices")


@view_app.command("simuhome")
def view_simuhome(
    file: Annotated[Path, typer.Argument(help="an episode file, or a trajectories.jsonl of SimuHome")],
    out: Annotated[Path | None, typer.Option(help="the page; beside the file if left out")] = None,
    row: Annotated[int, typer.Option(min=1, help="which trajectory of a JSONL file")] = 1,
    agent: Annotated[str, typer.Option(help="who plays an episode file")] = "expert",
) -> None:
    """Draw an episode of SimuHome as one HTML page: rooms, devices, workflows and calls on one axis of virtual time."""
    from homerl.view.simuhome import write_page
    from homerl.worlds.simuhome.agents import BASELINES

    one_of("--agent", agent, BASELINES)
    page = out or file.with_suffix(".html")
    trajectory = write_page(file, page, row, agent)
    console.print(f"{page}: {trajectory.blueprint['id']}, {trajectory.outcome}, {len(trajectory.steps)} messages")


def main() -> None:
    """Entry point: people's errors become one message and code 2."""
    try:
        app()
    except InputError as error:
        print(f"homerl: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
