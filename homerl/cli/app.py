"""The commands of `homerl`.

Invariant: the logic is in the modules that the commands call.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

from envs.documents import InputError, ready_to_write, write_atomic
from homerl import __version__
from homerl.cli.bench import app as bench
from homerl.cli.chat import chat, serve
from homerl.play.loop import Agent
from homerl.terminal.console import console, one_of, say
from homerl.worlds.contract import CommandLine
from homerl.worlds.registry import restored, worlds

app = typer.Typer(no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False)
view_app = typer.Typer(no_args_is_help=True)
app.add_typer(view_app, name="view", help="Write HTML pages.")
app.add_typer(bench, name="bench", help="Benchmarks: build a suite, run it, score it again.")
app.command("chat")(chat)
app.command("serve")(serve)
OVERRIDES = {"allow_extra_args": True, "ignore_unknown_options": True}


def _say_version(asked: bool) -> None:
    if asked:
        say(f"homerl {__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_say_version, is_eager=True, help="print the version, and end")
    ] = False,
) -> None:
    """Train small language models to run a smart home."""


@app.command(context_settings=OVERRIDES)
def run(context: typer.Context, recipe: str) -> None:
    """Run a recipe in this process. Any key can be overridden: --sft.learning_rate 2e-6."""
    from homerl.recipe.load import find_recipe
    from homerl.run.launch import main as launch

    raise typer.Exit(launch(str(find_recipe(recipe)), context.args))


@app.command(context_settings=OVERRIDES)
def check(
    context: typer.Context,
    recipe: str,
    gpus: Annotated[
        int | None,
        typer.Option(min=1, help="number of training GPUs; default: `processes`, or eight less those that serve a model"),
    ] = None,
    gpu_memory: Annotated[float, typer.Option(min=1, help="memory of each GPU, in GB")] = 80.0,
) -> None:
    """Resolve a recipe and print it, estimate memory and disk, check this machine, play an episode of each source, and
    measure its prompts.
    """
    from homerl.run.preflight import check_machine, template_of
    from homerl.run.prompts import measure
    from homerl.run.recipe import load_recipe, recipe_data
    from homerl.run.rehearsal import rehearse
    from homerl.train.memory import estimates, memory_of

    loaded = load_recipe(recipe, context.args)
    say(yaml.safe_dump(recipe_data(loaded), sort_keys=False, allow_unicode=True), end="")
    memory = memory_of(loaded, gpu_memory)
    for stage, estimate in estimates(loaded, gpus, memory).items():
        say("".join(f"# {stage}: {line}\n" for line in estimate.lines(memory)), end="")
        template = template_of(loaded.model.name) if loaded.model.name else None
        say(f"# {stage}: chat template: {template}\n" if template else "", end="")
    check_machine(loaded, recipe)
    say("".join(f"# rehearsal: {line}\n" for line in rehearse(loaded)), end="")
    say("".join(f"# prompts: {found.line}\n" for found in measure(loaded, recipe)), end="")


@app.command()
def init(folder: Path) -> None:
    """Copy the shipped recipes to a folder, to edit them."""
    from homerl.run.schema import write_recipes

    if folder.exists() and any(folder.iterdir()):
        raise InputError("the folder is not empty", where=str(folder), remedy="name a new one")
    write_recipes(folder)
    first = shlex.quote(str(folder / "quickstart.yaml"))
    console.print(f"recipes written to {folder}; start one with: accelerate launch {first}")


@app.command("export")
def export_command(
    run: Path,
    to: Annotated[str, typer.Option(help="a folder, made if missing; with --push a hub id such as org/name")],
    push: Annotated[bool, typer.Option(help="upload to the hub")] = False,
    public: Annotated[bool, typer.Option(help="make a new hub repository public")] = False,
    base: Annotated[str | None, typer.Option(help="the base model, if the adapter's own record of it leads nowhere")] = None,
    adapter: Annotated[bool, typer.Option(help="export only the adapter, not merged")] = False,
    license: Annotated[
        str | None,
        typer.Option(help="the license, as the hub names it; default: the base model's, else apache-2.0"),
    ] = None,
    gguf: Annotated[
        str | None, typer.Option(help="add a file for llama.cpp and Ollama, in f32, f16, bf16 or q8_0 (8 bits a weight)")
    ] = None,
) -> None:
    """Export a trained model to a folder or to the Hugging Face hub."""
    from homerl.publish.export import export

    if public and not push:
        raise InputError("only what is pushed can be public", "--public", "add --push, or leave it out")
    folder = export(run, to, push, not public, base, adapter, license, gguf)
    console.print(f"exported to {folder}")


@app.command(context_settings=OVERRIDES)
def synth(
    context: typer.Context,
    recipe: str,
    ray: Annotated[str | None, typer.Option(help="address of a Ray cluster; `local` starts one here")] = None,
) -> None:
    """Run a recipe of `run: synth`. It resumes an earlier start."""
    from homerl.recipe.load import find_recipe
    from homerl.run.launch import main as launch
    from homerl.run.recipe import load_recipe

    path, over = str(find_recipe(recipe)), [*context.args, *(["--ray", ray] if ray else [])]
    if (kind := load_recipe(path, context.args).run) != "synth":
        raise InputError(f"a recipe of `run: {kind}` is no synthesis", path, "start it with `homerl run`")
    raise typer.Exit(launch(path, over))


@app.command("synth-grid", context_settings=OVERRIDES)
def synth_grid(
    context: typer.Context,
    recipe: str,
    calls: Annotated[list[int] | None, typer.Option(help="budget: requests for each blueprint; may be repeated")] = None,
    sampled: Annotated[list[int] | None, typer.Option(help="budget: messages for each blueprint; may be repeated")] = None,
    out: Annotated[Path | None, typer.Option(help="a folder for figures and datasets")] = None,
) -> None:
    """Compare branching factors (HomeFlow, Table 2): as the paper counts, and at equal budgets for each blueprint."""
    from homerl.flow.grid import grid, grid_table, write
    from homerl.flow.mcts import Budget
    from homerl.processes.locks import folder_lock
    from homerl.run.recipe import load_recipe
    from homerl.terminal.progress import progress_bar

    loaded = load_recipe(recipe, context.args)
    budgets = [*(Budget("calls", most) for most in calls or ()), *(Budget("sampled", most) for most in sampled or ())]
    with folder_lock(out) if out else nullcontext():  # before anything is played, since the folder may be no place to write
        for budget in (None, *budgets):
            title = f"{budget.most} {budget.of} a blueprint" if budget else "one tree a blueprint"
            with progress_bar() as bar:
                task = bar.add_task("synth-grid", total=loaded.synth.blueprints, note=title)
                cells = grid(loaded.synth, budget, lambda bar=bar, task=task: bar.advance(task), keep=out is not None)
            console.print(grid_table(cells, title))
            if out:
                write(cells, out / title.replace(" ", "-"), loaded.seed)


@app.command("push-data")
def push_data(
    run: Path,
    to: Annotated[str, typer.Option(help="a hub id such as org/name")],
    public: Annotated[bool, typer.Option(help="make a new hub repository public")] = False,
    license: Annotated[str, typer.Option(help="license of the data, as the hub names it")] = "apache-2.0",
) -> None:
    """Upload a finished synthesis to the Hugging Face hub as a dataset, tagged with its version."""
    from homerl.publish.dataset import push

    console.print(f"pushed to {push(run, to, private=not public, license=license)}")


@app.command()
def reverify(file: Path) -> None:
    """Replay every trajectory in a file and recompute its rewards. Any difference is an error."""
    from homerl.play.reverify import reverify_file

    console.print(reverify_file(file, restored))


@app.command()
def compare(before: Path, after: Path) -> None:
    """Print the paired gain in success between two results.jsonl of one suite, with its 95 % interval."""
    from homerl.bench.score import paired_difference
    from homerl.play.results import results_in

    say(json.dumps(paired_difference(results_in(before), results_in(after))))


@app.command()
def seeds(
    runs: list[Path], suite: Annotated[str | None, typer.Option(help="one suite; default: each of the first run's")] = None
) -> None:
    """Show the scores of several flywheel runs, with their mean and the interval of RLVE's gain over the runs."""
    from homerl.bench.seeds import seeds_table, suites_of

    for name in [suite] if suite else suites_of(runs[0]):
        console.print(seeds_table(runs, name))


@app.command("import-ha")
def import_ha_command(
    source: Annotated[str, typer.Argument(help="Home Assistant's address, or a folder of its files")],
    out: Annotated[Path, typer.Option(help="the home file; what was not understood is written beside it")] = Path(
        "home.json"
    ),
    token_env: Annotated[str, typer.Option(help="the environment variable that holds the token")] = "HA_TOKEN",
    everything: Annotated[bool, typer.Option("--all", help="import all entities, not only those exposed to Assist")] = False,
    save: Annotated[Path | None, typer.Option(help="a folder to keep what was read, to import it again")] = None,
) -> None:
    """Import a home from Home Assistant. What was not understood is listed, and the rest works."""
    from homerl.homeassistant.command import import_ha
    from homerl.homeassistant.report import report_path, table

    imported = import_ha(source, out, token_env, everything, save)
    plan = imported.home.plan
    console.print(f"{out}: {len(plan.rooms)} rooms, {len(plan.devices)} devices, {len(imported.home.rules)} automations")
    if imported.notes:
        console.print(table(imported))
        console.print(f"{report_path(out)}: {len(imported.notes)} parts were not understood", soft_wrap=True)


@app.command("schemas")
def schemas_command(folder: Path) -> None:
    """Write the JSON Schemas of all files that homerl reads and writes, recipes among them."""
    from homerl.publish.schemas import write_schemas
    from homerl.run.schema import write_recipe_schema

    console.print("\n".join(map(str, (*write_schemas(folder), write_recipe_schema(folder)))))


@app.command("reference")
def reference_command(
    out: Annotated[Path | None, typer.Option(help="a file; printed if left out")] = None,
) -> None:
    """Print every key of every kind of recipe: its type, its default and what it is (Markdown)."""
    from homerl.run.reference import reference

    if out is None:
        say(reference(), end="")
    else:
        write_atomic(out, reference())
        console.print(f"{out}: every key of every kind of recipe")


@app.command("glossary")
def glossary_command(
    out: Annotated[Path | None, typer.Option(help="a file; printed if left out")] = None,
) -> None:
    """Print what the words and abbreviations of pages and reports mean (Markdown)."""
    from homerl.view.glossary import page

    if out is None:
        say(page(), end="")
    else:
        write_atomic(out, page())
        console.print(f"{out}: what words and abbreviations mean")


@app.command("serve-user", context_settings=OVERRIDES)
def serve_user_command(
    context: typer.Context,
    recipe: str,
    part: Annotated[str, typer.Option(help="model role: user; of a synthesis also agent, author")] = "user",
) -> None:
    """Serve the model of the recipe's user (or of another role) with vLLM, until Ctrl-C or SIGTERM."""
    from homerl.llm.serve import serve_user
    from homerl.run.recipe import SERVED_ROLES, load_recipe, role_settings

    one_of("--part", part, SERVED_ROLES)
    loaded = load_recipe(recipe, context.args)
    key, settings = role_settings(loaded, part, recipe)
    serve_user(settings, key, loaded.out / f"{part}_server.log", lambda s: console.print(s, highlight=False, soft_wrap=True))


@app.command("audit-user", context_settings=OVERRIDES)
def audit_user_command(
    context: typer.Context,
    recipe: str,
    blueprints: Annotated[int, typer.Option(min=1, help="number of blueprints to play")] = 100,
    at_once: Annotated[int, typer.Option(min=1, help="concurrent episodes")] = 16,
    out: Annotated[Path | None, typer.Option(help="the JSON file; default: audit_user.json in the recipe's `out`")] = None,
) -> None:
    """Play blueprints with the recipe's user and the scripted expert. Exit code 1 if the user is worse than allowed."""
    from homerl.run.audit_user import audit_user
    from homerl.run.recipe import load_recipe

    loaded = load_recipe(recipe, context.args)
    place = out or loaded.out / "audit_user.json"
    ready_to_write(place)
    report = audit_user(loaded, recipe, blueprints, at_once, place)
    console.print(report.table())
    raise typer.Exit(1 if report.breaches else 0)


@view_app.command("episode")
def view_episode_command(
    source: Annotated[Path, typer.Argument(help="a trajectories.jsonl, a file of rollouts, or the folder of a run")],
    episode: Annotated[str, typer.Option(help="id of the episode, or its number from 1")] = "1",
    out: Annotated[Path | None, typer.Option(help="the HTML file; default: beside the input")] = None,
) -> None:
    """Draw a played episode of any world as one HTML page: what was said and called, and what it did."""
    from homerl.view.episode import write_episode

    page, played = write_episode(source, episode, out)
    steps = len(played.steps)
    console.print(f"{page}: {played.blueprint['id']}, {played.outcome}, {steps} step{'s' if steps != 1 else ''}")


def _load_recipe(recipe: str, overrides: Sequence[str]) -> Any:
    """Load a recipe, for the commands of worlds."""
    from homerl.run.recipe import load_recipe as load

    return load(recipe, overrides)


def _agents(model: str, served: str | None, cpu: bool, max_tokens: int, seconds: float) -> tuple[str, Callable[[], Agent]]:
    """Agents of a model, for the commands of worlds."""
    from homerl.run.model_agents import agents_of

    return agents_of(model, served, cpu, max_tokens, seconds)


for world in worlds().values():
    world.commands(CommandLine(app, view_app, _load_recipe, _agents))
