"""Recipes as files: the keys that all of them have, how a file is read, and what the recipes in a run's folder say.

Invariants:
- `extends: other.yaml` names the base. Mappings merge deeply; all other values, lists included, are replaced.
- A mapping that names a source (`world`, `worlds`, `file` or `files`) replaces the base's mapping completely, unless the
  base names the same source. Keys of one source have no meaning for another.
- Command-line overrides (`--train.learning_rate 2e-6`) come last; their values are parsed as YAML.
- `--every.intents '[2, 3]'` overrides a key at every place where the recipe writes it, in items of lists too.
- Every key of the result has its place: file and line, or the command line.
- A recipe that a run wrote into its folder (`recipe.yaml`, and a stage's, such as `rlve.yaml`) is of that run, wherever the
  folder was moved to or is looked at from: its paths within the run are as they are now. Any other recipe is as it was.
- Files that a folder lacks are left out. A folder that was moved together with the others is found.
- A recipe that loads has everything that a run needs, seeds included, and never `auto`. The keys of one kind of
  run are in the recipes of the rooms above; `envs/core/documents` refuses unknown ones.
- Nothing here imports torch or a service.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, reduce
from itertools import product
from operator import getitem
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator, Field, WithJsonSchema

from homerl.envs.core.documents import Document, InputError, KeyPath, read_yaml
from homerl.envs.core.documents.validation import COMMAND_LINE, did_you_mean
from homerl.envs.core.model import Model, field_left_out_at_default
from homerl.envs.core.plugins import ALL, OF_RUNS, added_plugin_folders
from homerl.host import launch_hook

# The keys that every recipe has

AUTO = "auto"
GPUS = ("/dev/nvidiactl", "/dev/kfd", "/dev/dxg")  # where NVIDIA's, AMD's and Windows' drivers show them on Linux
BFLOAT16 = ("amx_bf16", "avx512_bf16", "bf16")  # flags of processors that multiply this format; the last is Arm's


def has_gpu() -> bool:
    """Whether this machine has the driver of a GPU."""
    return any(Path(name).exists() for name in GPUS)


@cache
def has_bfloat16_cpu(known: str = "/proc/cpuinfo") -> bool:
    """Whether the processor multiplies bfloat16; not on systems that do not tell."""
    try:
        lines = Path(known).read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    flags = next((line for line in lines if line.lower().startswith(("flags", "features"))), "")
    return any(flag in flags.split() for flag in BFLOAT16)


CPU = (
    BeforeValidator(lambda given: not has_gpu() if given == AUTO else given),
    WithJsonSchema({"anyOf": [{"type": "boolean"}, {"const": AUTO}]}),
)
NUMBER_FORMAT = (
    BeforeValidator(
        lambda given: ("bfloat16" if has_gpu() or has_bfloat16_cpu() else "float32") if given == AUTO else given
    ),
    WithJsonSchema({"enum": ["auto", "float32", "bfloat16", "float16"], "type": "string"}),
)


Parallel = Literal["none", "ddp", "zero2", "zero3", "fsdp2"]


def _expand_variables(path: Any) -> Any:
    """A path with variables of the environment, such as `runs/$WANDB_RUN_ID`. One that is not set is refused."""
    if not isinstance(path, str):
        return path
    missing = [name for name in re.findall(r"\$(\w+)", path) if name not in os.environ]
    if missing:
        raise ValueError(f"the environment variable {missing[0]} is not set: set it, or write the folder without `$`")
    return re.sub(r"\$(\w+)", lambda found: os.environ[found[1]], path)


class WandbSettings(Model):
    """Monitoring with Weights & Biases."""

    mode: Literal["online", "offline", "disabled"] = Field(
        "online",
        description="Where metrics go: `online` to the server, `offline` to a folder for `wandb sync`, `disabled` nowhere.",
    )
    project: str = Field("homerl", description="Project of Weights & Biases and of trackio.")
    entity: str | None = Field(None, description="Owner of the project; null is the account's default.")
    transcripts: bool = Field(True, description="Whether dialogues are logged, which may hold personal text.")
    group: str | None = field_left_out_at_default(
        "Group of the run; null: runs that differ in their seed, and a flywheel's stages."
    )
    name: str | None = field_left_out_at_default("Name of the run; null is its folder's. A flywheel's stage adds its own.")
    tags: tuple[str, ...] = field_left_out_at_default("Tags of the run.", ())
    notes: str | None = field_left_out_at_default("A remark on the run.")
    artifacts: bool = field_left_out_at_default(
        "Whether the best model (else the last) and a table of all stored rollouts are uploaded at the end.", False
    )


class BaseRecipe(Model):
    """What every recipe says."""

    if TYPE_CHECKING:
        run: Any  # each kind of run says its own

    homerl: Literal[1] = Field(description="Version of the format; it makes the file a program.")
    seed: int = Field(0, description="Seed of weights, data and sampling; blueprints have their own.")
    out: Annotated[Path, BeforeValidator(_expand_variables)] = Field(
        Path("runs/run"),
        description="Folder of the run, from which the same command resumes; `$NAME` is a variable of the environment.",
    )
    parallel: Parallel = Field(
        "ddp",
        description="How training is spread: `ddp` copies the model, `zero2`, `zero3` and `fsdp2` shard it, "
        "`none` expects one process.",
    )
    processes: int | None = Field(
        None,
        ge=0,
        description="Processes of a flywheel's stages, or workers of `synth`; null: one a GPU (with `cpu`: one), in "
        "`synth` one a core. `sft` and `rlve` by themselves are refused if another number was launched.",
    )
    cpu: Annotated[bool, *CPU] = Field(
        False, description="Whether models run on the CPU; `auto` does so where there is no GPU."
    )
    wandb: WandbSettings = Field(WandbSettings(), description="Monitoring with Weights & Biases.")
    report_to: tuple[Literal["wandb", "trackio", "tensorboard"], ...] = Field(
        ("wandb",), description="Where metrics go besides `metrics.jsonl`."
    )


# Reading a recipe

EVERY = "every"  # the first word of an override of a key wherever it stands
SOURCES = ("file", "files", "world", "worlds")  # keys that decide what the other keys of their mapping mean


def load_recipe_document(path: str | Path, overrides: Sequence[str] = ()) -> tuple[dict[str, Any], Document]:
    """The recipe at `path` as data, and the document with which `validate` tells the place of a key."""
    file = find_recipe(path)
    document = _read_with_bases(file, ())
    document = replace(document, data=relocate_recipe_paths(document.data, file))
    # Overrides that name a source come first, since a source drops the keys before it.
    for key, value in sorted(parse_overrides(overrides), key=lambda override: override[0][-1] not in SOURCES):
        if key[0] == EVERY:
            document = _override_everywhere(document, key[1:], value)
        else:
            # The override becomes a document. Mappings that it does not replace keep their place.
            data = value
            for part in reversed(key):
                data = {part: data}
            inner = (key[:size] for size in range(1, len(key)))
            above = [part for part in inner if part not in document.lines or _is_replaced(part, document.data, data)]
            places: tuple[KeyPath, ...] = (*above, key)
            lines, origins = dict.fromkeys(places, 0), dict.fromkeys(places, COMMAND_LINE)
            document = merge_documents(document, Document(document.path, data, lines, origins))
    return document.data, document


def shipped_recipe_folder() -> Path:
    """The folder of the recipes of this installation."""
    return Path(launch_hook.shipped_folder("recipes"))


def list_shipped_recipes() -> list[str]:
    """The names of the recipes of this installation, without endings."""
    return sorted(file.stem for file in shipped_recipe_folder().glob("*.y*ml"))


def find_recipe(name: str | Path) -> Path:
    """The file as typed, else the shipped recipe of that name. Neither needs its ending, nor the second its `recipes/`.

    Raises `InputError` if there is none.
    """
    return _find_file_or_shipped(Path(name), str(name), Path(name))


def _find_file_or_shipped(path: Path, where: str, name: Path) -> Path:
    """`path`, else the shipped recipe `name`. Raises `InputError` with `where` if neither exists."""
    for ending in launch_hook.ENDINGS:
        if (candidate := Path(f"{path}{ending}")).is_file():
            return candidate
    if shipped := launch_hook.find_shipped_recipe(str(name)):
        return Path(shipped)
    known = list_shipped_recipes()
    wanted = name.stem if name.suffix in launch_hook.ENDINGS else name.name
    raise InputError(f"there is no recipe {name}", where, did_you_mean(wanted, known) if known else "check the path")


RUNS = Path("runs")  # the folder in which the shipped recipes put their runs


def list_runs() -> list[str]:
    """The runs that were made here: folders below `runs/`, and the shipped recipes that have run there, by name."""
    found = [str(record.parent) for record in sorted(RUNS.glob(f"*/{RECORD}"))]
    return [*found, *(name for name in list_shipped_recipes() if str(RUNS / name) in found)]


def find_shipped_run(name: str | Path) -> Path | None:
    """The folder in which the shipped recipe of a name has run (its `out`); None for another name. A file comes first.

    Raises `InputError` if that recipe has not run here.
    """
    shipped = None if Path(name).exists() else launch_hook.find_shipped_recipe(str(name))
    if shipped is None:
        return None
    out = load_recipe_document(shipped)[0].get("out")
    if out and Path(out, RECORD).is_file():
        return Path(out)
    remedy = f"homerl run {Path(shipped).stem} runs it; of a run with another --out, name the folder"
    raise InputError("this shipped recipe has not run here", str(name), remedy)


def _read_with_bases(path: Path, above: tuple[Path, ...]) -> Document:
    """The file at `path` merged over its base. `above` are the files that extend it."""
    document = read_yaml(path)
    if not isinstance(document.data, dict):
        content = "is empty" if document.data is None else f"holds a {type(document.data).__name__}, not keys"
        remedy = "write `key: value` lines; `homerl: 1` comes first"
        raise InputError(f"the recipe {content}", str(path), remedy)
    if "extends" not in document.data:
        return document
    above = (*above, path.resolve())
    base = _find_base(document)
    if base.resolve() in above:
        chain = " -> ".join(file.name for file in (*above, base))
        where = document.locate_key(("extends",))
        raise InputError(f"extends goes in a circle: {chain}", where, "remove one `extends`")
    data = {key: value for key, value in document.data.items() if key != "extends"}
    lines = {key: line for key, line in document.lines.items() if key[:1] != ("extends",)}
    return merge_documents(_read_with_bases(base, above), Document(document.path, data, lines))


def _find_base(document: Document) -> Path:
    """The file that `extends` names: beside the recipe, else shipped."""
    name, where = document.data["extends"], document.locate_key(("extends",))
    if not isinstance(name, str):
        raise InputError(f"extends is {name!r}, not one file name", where, "write `extends: other.yaml`")
    return _find_file_or_shipped(Path(document.path).parent / name, where, Path(name))


# Merging


def merge_documents(base: Document, top: Document) -> Document:
    """`top` merged over `base`, with the places of all remaining keys."""
    kept = {key: line for key, line in base.lines.items() if not _is_replaced(key, base.data, top.data)}
    origins = {key: base.origins.get(key, base.path) for key in kept}
    origins |= {key: top.origins.get(key, top.path) for key in top.lines}
    return Document(top.path, _merge_data(base.data, top.data), {**kept, **top.lines}, origins)


def _merge_data(base: Any, top: Any) -> Any:
    if not _keeps_base_keys(base, top):
        return top
    return {**base, **{key: _merge_data(base[key], value) if key in base else value for key, value in top.items()}}


def _is_replaced(key: KeyPath, base: Any, top: Any) -> bool:
    """Whether the value at `key` in `base` is replaced by a value in `top`, at that key or above it."""
    for part in key:
        if not _keeps_base_keys(base, top):
            return True
        if part not in top:
            return False
        base, top = base[part], top[part]
    return not _keeps_base_keys(base, top)


def _keeps_base_keys(base: Any, top: Any) -> bool:
    """Whether keys of `base` remain: both are mappings, and `top` names no other source."""
    if not (isinstance(base, Mapping) and isinstance(top, Mapping)):
        return False
    return _source_of_mapping(top) in (None, _source_of_mapping(base))


def _source_of_mapping(data: Mapping[Any, Any]) -> tuple[str, Any] | None:
    """The key that names the source of a mapping, with its value; None if there is none. All `worlds` are one source."""
    return next(((key, data[key] if key != "worlds" else None) for key in SOURCES if key in data), None)


# The command line


def parse_overrides(arguments: Sequence[str]) -> list[tuple[tuple[str, ...], Any]]:
    """`--a.b 3` and `--a.b=3` as pairs of key path and value. Raises `InputError` for other arguments."""
    overrides, rest = [], list(arguments)
    while rest:
        flag = rest.pop(0)
        if not flag.startswith("--") or flag == "--":
            raise InputError(f"{flag!r} is no override", COMMAND_LINE, "write --some.key value")
        name, equals, value = flag[2:].partition("=")
        if not equals:
            if not rest or rest[0].startswith("--"):
                raise InputError(f"{flag} has no value", COMMAND_LINE, f"write {flag} value, or {flag}=value")
            value = rest.pop(0)
        key = tuple(name.split("."))
        if not all(key):
            raise InputError(f"{flag} names no key", COMMAND_LINE, "write --some.key value")
        overrides.append((key, _parse_value(flag, value)))
    return overrides


def _parse_value(flag: str, text: str) -> Any:
    try:
        # YAML would take a part of a plain text such as `runs/try #2` for a comment. Nobody comments a command line.
        is_plain = text.strip()[:1] not in tuple("'\"[{|>&*!")
        return text.strip() if is_plain and re.search(r"(^|\s)#", text) else read_yaml(f"{text}\n").data
    except InputError as error:
        what = f"the value of {flag} is {error.what}"
        raise InputError(what, COMMAND_LINE, "put quotes around it") from None


def _override_everywhere(document: Document, key: tuple[str, ...], value: Any) -> Document:
    """The document with `value` at each of its key paths that end with `key`. Raises `InputError` if there is none."""
    ending = {path for path in document.lines if key and path[-len(key) :] == key}
    places = [
        path for path in document.lines if path in ending and not any(path[:size] in ending for size in range(len(path)))
    ]
    if not places:
        known = sorted({path[-1] for path in document.lines if path and isinstance(path[-1], str)})
        flag = ".".join((f"--{EVERY}", *key))
        remedy = did_you_mean((key or ("",))[-1], known)
        above = [path for path in document.lines if key[:-1] and path[1 - len(key) :] == key[:-1]]
        # A mapping that stands there is merged with the value.
        if any(isinstance(reduce(getitem, path, document.data), Mapping) for path in above):
            remedy += f"; to add it, write {flag.rpartition('.')[0]} '{{{key[-1]}: ...}}'"
        raise InputError(f"{flag}: the recipe writes no such key", COMMAND_LINE, remedy)
    data = document.data
    for path in places:
        data = _merge_at(data, path, value)
    kept = {path: line for path, line in document.lines.items() if not any(path[: len(at)] == at for at in places)}
    origins = {path: document.origins[path] for path in kept if path in document.origins}
    return Document(document.path, data, kept | dict.fromkeys(places, 0), origins | dict.fromkeys(places, COMMAND_LINE))


def _merge_at(data: Any, path: KeyPath, value: Any) -> Any:
    """A copy of the data in which `value` is merged at a path that is there."""
    if not path:
        return _merge_data(data, value)
    first, *rest = path
    new = _merge_at(data[first], tuple(rest), value)
    if isinstance(data, list):
        return [new if at == first else one for at, one in enumerate(data)]
    return {**data, first: new}


# Recipes in the folders of runs

FILES, PLUGINS = "files", "plugins"  # folders of a run: the files that its recipe names, and the plug-ins that it used
OF_TASKS = ("worlds", "toolsets", "intents", "languages")  # kinds of plug-ins of which tasks are made
RECIPE, RECORD = "recipe.yaml", "run.json"  # which a run writes


def relocate_recipe_paths(data: Any, file: Path) -> Any:
    """The data of a recipe, with paths within its run as they are now. A recipe that is no run's own is as it was."""
    if not isinstance(data, dict) or not (out := data.get("out")):
        return data
    own = file.name in (RECIPE, f"{data.get('run')}.yaml") and (file.parent / RECORD).is_file()
    was, now = (Path(str(out)), file.parent) if own else (None, None)
    run = file.parent.parent  # of a stage
    if (run / RECORD).is_file() and (run / RECIPE).is_file() and Path(str(out)).name == file.parent.name:
        was, now = Path(str(out)).parent, run
    if was is None or now is None or was.resolve() == now.resolve():
        return data
    return replace_path_prefix(data, str(was), str(now))


def refuse_unloaded_run_plugins(folder: Path, kinds: Collection[str] = OF_RUNS) -> None:
    """Raise `InputError` if plug-ins of a run, or of the run of a stage, are not loaded.

    They are Python, so nothing of a folder that a person only named is run unasked.
    """
    runs = (run for run in (folder, folder.parent) if (run / RECORD).is_file())
    for used, kind in product((run / PLUGINS for run in runs), kinds):
        have = {path.name for added in added_plugin_folders(kind) for path in Path(added).iterdir()}
        if missing := sorted({path.name for path in (used / kind).glob("[!_]*")} - have):
            what = f"plug-ins were used here that are not loaded ({', '.join(missing)})"
            remedy = f"they are Python: if you trust them, type {ALL}={shlex.quote(str(used))} before the command"
            raise InputError(what, str(used / kind), remedy)


def replace_path_prefix(data: Any, was: str, now: str) -> Any:
    """The data with `now` in place of `was` where a text is that path, or one below it."""
    if isinstance(data, dict):
        return {key: replace_path_prefix(value, was, now) for key, value in data.items()}
    if isinstance(data, list):
        return [replace_path_prefix(value, was, now) for value in data]
    if isinstance(data, str) and (data == was or data.startswith(f"{was}/")):
        return now + data[len(was) :]
    return data


def flatten_recipe(data: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """The keys of a recipe by path, with their values as text. A list is one value."""
    for key, value in data.items():
        if isinstance(value, dict) and value:
            yield from flatten_recipe(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", "null" if value is None else str(value)


CHECKPOINT = re.compile(r"checkpoint-(\d+)")
STAGES = ("rlve", "sft")  # folders of a flywheel, the last trained first


def read_stage_recipe(stage: Path) -> dict[str, Any]:
    """The resolved recipe by which a stage was trained, or an empty mapping; recipes of benchmarks are skipped."""
    recipes = (read_own_recipe(path) for path in stage_files(stage, RECIPE))
    return next((recipe for recipe in recipes if recipe.get("run") != "bench"), {})


def read_own_recipe(path: Path) -> dict[str, Any]:
    """A recipe that lies in a run's folder, with the paths within the run as they are now."""
    found: dict[str, Any] = relocate_recipe_paths(require_mapping(read_yaml(path)), path)
    return found


def find_moved_folder(stage: Path, source: str | None) -> Path | None:
    """The folder that a stage's record calls `source`, even if both were moved together; None if it is gone.

    What lay beside the stage is looked for there first: a copy's record may name a folder of another run here.
    """
    if not source:
        return None
    path = Path(source)
    was = find_stage_of_model(path) or path.parent
    moved = stage.parent / was.name / path.relative_to(was)
    places = (moved, path) if was_beside_stage(stage, was) else (path, moved)
    return next((folder for folder in places if folder.is_dir()), None)


def was_beside_stage(stage: Path, folder: Path) -> bool:
    """Whether a folder lay beside a stage's, as its record says."""
    return Path(read_stage_recipe(stage).get("out") or stage).parent == folder.parent


def stage_files(stage: Path, name: str) -> list[Path]:
    """The files of this name of a stage, then of the flywheel that it belongs to."""
    places = [stage / name, *([stage.parent / name] if stage.name in STAGES else [])]
    return [path for path in places if path.is_file()]


def find_stage_of_model(model: Path) -> Path | None:
    """The folder of the stage that wrote a model: its last one (`model`), its best one (`best/model`), or a checkpoint.

    None for a model of another folder, such as an export.
    """
    if model.parent.name == "checkpoints" and CHECKPOINT.fullmatch(model.name):
        return model.parents[1]
    if model.name != "model":
        return None
    is_best = model.parent.name == "best" and not (model.parent / RECIPE).is_file()  # else a run of that name
    return model.parents[1] if is_best else model.parent


def starting_model(recipe: Mapping[str, Any]) -> str | None:
    """The hub id or folder of the model that a recipe starts from; None if it starts from scratch."""
    return (recipe.get("model") or {}).get("name")


def require_mapping(document: Document) -> dict[str, Any]:
    """The keys and values of a file. Raises `InputError` if it holds anything else."""
    if not isinstance(document.data, dict):
        raise InputError("this file must hold keys and values", document.path, "restore it, or remove it")
    return document.data
