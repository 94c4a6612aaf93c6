"""Models by name: which folder a name means, and on which base an adapter stands. All commands and recipes ask here.

Invariants: a folder that stands for the base of an exported adapter has the weights that the adapter was trained on, or it
is refused; of the hub's weights of that name it is said if they are others. Nothing here imports torch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from homerl.envs.core.documents import InputError, file_sha256, read_json
from homerl.host import launch_hook
from homerl.host.recipe_files import (
    find_moved_folder,
    find_shipped_run,
    find_stage_of_model,
    read_stage_recipe,
    starting_model,
)
from homerl.host.terminal import console
from homerl.train.offline_bases import BASES

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

FACTS = "homerl.json"  # of an export: the facts of its card, among them digests of files
CONFIG, ADAPTER = "config.json", "adapter_config.json"
TOKENIZER, TEMPLATE = "tokenizer_config.json", "chat_template.jinja"


def list_shipped_models() -> dict[str, Path]:
    """The models that came with this installation, by name."""
    folder = Path(launch_hook.shipped_folder("models"))
    return {path.name: path for path in sorted(folder.glob("*/")) if path.is_dir()}


def resolve_model_source(name: str) -> str:
    """The folder or hub id that a name means: a folder, a shipped model, a base, the run of a shipped recipe, or a hub id. A
    base that was made here stands for its hub id."""
    if Path(name).exists():
        return name
    if name in list_shipped_models():
        return str(list_shipped_models()[name])
    if name in BASES and BASES[name].base_folder.is_dir():
        return str(BASES[name].base_folder)
    return str(find_shipped_run(name) or name)


def is_adapter(source: str | Path) -> bool:
    """Whether a folder holds a low-rank adapter instead of a complete model."""
    return (Path(source) / ADAPTER).is_file()


def is_model_folder(folder: Path) -> bool:
    """Whether a folder is a model's or an adapter's."""
    return (folder / CONFIG).is_file() or is_adapter(folder)


def read_adapter_base(adapter: str | Path) -> str:
    """The folder or hub id that an adapter names as its base. A folder that was moved with the adapter's run is found."""
    folder = Path(adapter)
    stage = find_stage_of_model(folder) or folder.parent
    named = str(read_json(folder / ADAPTER).data.get("base_model_name_or_path") or "")
    return str(
        find_moved_folder(stage, starting_model(read_stage_recipe(stage)))
        or find_moved_folder(stage, named)
        or resolve_model_source(named)
    )


def resolve_complete_model(name: str) -> str:
    """The folder or hub id of the complete model that a name begins with: itself, or the one below its adapters."""
    source = resolve_model_source(name)
    while is_adapter(source):
        source = read_adapter_base(source)
    return source


def read_max_positions(name: str) -> int | None:
    """The most tokens that a model takes, as far as its configuration says."""
    from transformers import AutoConfig

    config = AutoConfig.from_pretrained(resolve_complete_model(name))
    found: int | None = getattr(config.get_text_config(), "max_position_embeddings", None)
    return found


def find_adapter_base(adapter: str | Path, remedy: str = "put it back where the adapter names it") -> str:
    """The folder or hub id of an adapter's base. Raises `InputError` if a file of either is missing, or is another than the
    adapter's export says."""
    folder, source = Path(adapter), read_adapter_base(adapter)
    refuse_changed_export(folder)
    if not source or (not Path(source).is_dir() and (source.count("/") > 1 or source[0] in "./~")):
        raise InputError(f"the adapter's base {source} is gone", str(folder), remedy)
    wanted = read_export_facts(folder).get("base_weights") or {}
    if wanted and Path(source).is_dir():
        _refuse_other_files(Path(source), {CONFIG: None, "tokenizer.json": None, **wanted}, explain_base_download(source))
    elif wanted and not is_on_hub(source):
        place = f"in {BASES[source].base_folder}" if source in BASES else "on this machine"
        what = f"the base of {folder.name}, {source}, is neither {place} nor reachable on the hub"
        raise InputError(what, str(folder), explain_base_download(source))
    elif wanted and hash_model_weights(source) != wanted:
        _say_once(f"{folder.name} was not tried on the hub's weights of {source}: it was trained on others")
    return source


def refuse_changed_export(folder: Path) -> None:
    """Raise `InputError` if a file of an exported adapter is missing, or is another than its export says."""
    remedy = "take it again from where it came: the repository, a wheel of homerl, or its export"
    if folder in list_shipped_models().values():
        _refuse_other_files(folder, {FACTS: None}, remedy)
    _refuse_other_files(folder, read_export_facts(folder).get("weights") or {}, remedy)


def read_export_facts(folder: Path) -> dict[str, Any]:
    """What an export says of itself; empty for other folders."""
    return dict(read_json(folder / FACTS).data) if (folder / FACTS).is_file() else {}


def list_weight_files(source: str) -> list[Path]:
    """The files of a model's weights, in its folder or in the hub's cache; empty if they are not here."""
    cached = None if Path(source).is_dir() else find_cached_config(source)
    return sorted((cached.parent if cached else Path(source)).glob("*.safetensors"))


def find_cached_config(name: str) -> Path | None:
    """The configuration of a hub's model in the hub's cache; None if it is not here, or the name is of no repository."""
    from huggingface_hub import try_to_load_from_cache
    from huggingface_hub.errors import HFValidationError

    with suppress(HFValidationError):  # the name of no repository, such as that of a folder
        cached = try_to_load_from_cache(name, CONFIG)
        return Path(cached) if isinstance(cached, str) else None
    return None


def download_hub_weights(name: str) -> None:
    """Bring the weights of a hub's model here, before anything reads its tokenizer, which depends on them
    (`untrained_tokens.py`): else a first start would write other tokens than the next."""
    from huggingface_hub import snapshot_download

    source = resolve_complete_model(name)
    if not Path(source).is_dir():
        snapshot_download(source, allow_patterns=["*.json", "model*.safetensors"])


def hash_model_weights(source: str) -> dict[str, str]:
    """The SHA-256 of the files of a model's weights; empty if they are not on this machine."""
    return hash_model_files(list_weight_files(source))


def hash_model_files(files: Iterable[Path]) -> dict[str, str]:
    """The SHA-256 of files, by name."""
    return {file.name: _hash_unchanged(file, file.stat().st_size, file.stat().st_mtime_ns) for file in files}


@cache
def _hash_unchanged(file: Path, size: int, changed: int) -> str:
    """The digest of a file, which is computed once for as long as its size and its time stay."""
    return file_sha256(file)


def _refuse_other_files(folder: Path, files: Mapping[str, str | None], remedy: str) -> None:
    """Refuse a folder that lacks a file, or has another than its digest says."""
    for name, digest in files.items():
        if not (folder / name).is_file():
            raise InputError(f"the file {name} is missing", str(folder), remedy)
        found = hash_model_files([folder / name])[name] if digest else None
        if found != digest:
            raise InputError(f"its SHA-256 is {found}, and {digest} is wanted", str(folder / name), remedy)


@cache
def _say_once(text: str) -> None:
    console.print(text, highlight=False)


def explain_base_download(source: str) -> str:
    """How a base comes to this machine: `source` is its hub id, or the folder that stands for it."""
    base = next((base for base in BASES.values() if source in (base.hub, str(base.base_folder))), None)
    if base is None:
        return f"bring it here: hf download {source}"
    if Path(source).is_dir():
        return f"delete {source}, and make it again: {base.build_command}"
    return f"make it: {base.build_command}; or, where the hub can be reached: hf download {base.hub}"


def load_model_tokenizer(source: str, **options: Any) -> PreTrainedTokenizerBase:
    """The tokenizer of a model, without tokens that it never learnt. An adapter without one has its base's, with a chat
    template of its own."""
    from transformers import AutoTokenizer

    from homerl.train.untrained_tokens import write_untrained_tokens_as_text

    if not is_adapter(source) or (Path(source) / TOKENIZER).is_file():
        tokenizer = AutoTokenizer.from_pretrained(source, **options)
        write_untrained_tokens_as_text(tokenizer, list_weight_files(source))
        return tokenizer
    tokenizer = load_model_tokenizer(find_adapter_base(source), **options)
    if (template := Path(source) / TEMPLATE).is_file():
        tokenizer.chat_template = template.read_text(encoding="utf-8")
    return tokenizer


def is_local_model_name(name: str) -> bool:
    """Whether a name is a folder's, and no hub id."""
    return name.startswith((".", "/", "~")) or name.count("/") != 1 or name.split("/")[0] == "runs"


def is_on_hub(name: str) -> bool:
    """Whether the model is cached, or the hub has it."""
    from huggingface_hub import HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, OfflineModeIsEnabled

    if find_cached_config(name):
        return True
    if os.environ.get("HF_HUB_OFFLINE") == "1":
        return False
    try:
        HfApi().model_info(name, timeout=10)
    except (HfHubHTTPError, HFValidationError, OfflineModeIsEnabled, OSError) as error:
        return isinstance(error, HfHubHTTPError) and error.response is not None and error.response.status_code == 429
    except Exception as error:  # the hub's client raises its transport's own errors when there is no network
        if "Connect" in type(error).__name__ or "Timeout" in type(error).__name__:
            return False
        raise
    return True
