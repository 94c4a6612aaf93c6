"""Publishing on the Hugging Face hub (or at HF_ENDPOINT): strips private data, chooses a license, and uploads files.

Invariants:
- No account, address or absolute path of the machine is published. `strip_file_names` leaves neither a file name nor a home.
- The license is that of the base, if its card names one. A card that cannot be read stops no export: what is assumed in its
  place is printed.
- A missing repository is created, private by default. An existing one keeps its visibility, and is refused if the other was
  asked for. A tagged version is never moved. Local files stay, whatever the hub does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from homerl.envs.core.documents import InputError
from homerl.host.recipe_files import find_moved_folder, read_stage_recipe, starting_model
from homerl.host.terminal import console
from homerl.report.cards.model_lineage import stage_lineage
from homerl.train.model_sources import resolve_model_source

PRIVATE = {"out", "wandb", "url"}
OF_FILES = ("files", "keep", "weather", "catalogue")  # keys of homes that name files
SHIPPED = frozenset(("homeassistant",))  # catalogues that come with homerl, and are no files of anybody
PATH = re.compile(r"(-{1,2}[\w-]+=)?([/~][^\n]+)")  # alone, or as the value of an option


def strip_private_data(value: Any) -> Any:
    """The value without data of the machine; an absolute path keeps only its last name."""
    if isinstance(value, dict):
        return {key: strip_private_data(item) for key, item in value.items() if key not in PRIVATE}
    if isinstance(value, list):
        return [strip_private_data(item) for item in value]
    if isinstance(value, str) and (found := PATH.fullmatch(value)):
        return f"{found[1] or ''}.../{Path(found[2]).name}"
    return value


def strip_file_names(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe of tasks without the names of files, but for catalogues that come with homerl. Of a file of tasks, or of a
    task, which holds a whole home, nothing is left."""
    if "worlds" in recipe:
        stripped = {name: strip_file_names(part.get("recipe") or {}) for name, part in recipe["worlds"].items()}
        return {**recipe, "worlds": {name: {**recipe["worlds"][name], "recipe": part} for name, part in stripped.items()}}
    if "id" in recipe or "file" in recipe:
        return {}
    home = recipe.get("home")
    kept = {key: value for key, value in home.items() if key not in OF_FILES} if isinstance(home, Mapping) else None
    if isinstance(home, Mapping) and kept is not None and (own := SHIPPED.intersection(home.get("catalogue") or ())):
        kept["catalogue"] = sorted(own)
    return {key: value for key, value in recipe.items() if key != "home"} | ({} if kept is None else {"home": kept})


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


Kind = Literal["model", "dataset"]


def check_hub_token(repo: str) -> None:
    """Raise `InputError` if there is no token, before any work."""
    from huggingface_hub import get_token

    if not get_token():
        remedy = "run `hf auth login`, or set HF_TOKEN to a token that may write"
        raise InputError("there is no Hugging Face token", repo, remedy)


def upload_to_hub(
    folder: Path,
    repo: str,
    private: bool,
    message: str,
    kind: Kind = "model",
    files: Sequence[str] | None = None,
    delete: Sequence[str] = (),
    tag: str | None = None,
) -> None:
    """Upload a folder, or only `files` of it, and tag the revision with `tag`.

    Files on the hub that match `delete` and are not in the folder are deleted. Raises `InputError` if the repository is
    public although `private` or private although not, if the tag exists, or if the hub fails.
    """
    from httpx import HTTPError
    from huggingface_hub import HfApi

    api, files = HfApi(), None if files is None else list(files)
    try:
        api.create_repo(repo, private=private, exist_ok=True, repo_type=kind)
        if api.repo_info(repo, repo_type=kind).private is (not private):
            there, how, wanted = ("public", "with", "private") if private else ("private", "without", "public")
            remedy = f"push {how} --public, or make it {wanted} on the hub first"
            raise InputError(f"the repository exists and is {there}", repo, remedy)
        if tag and tag in {known.name for known in api.list_repo_refs(repo, repo_type=kind).tags}:
            remedy = "name another version; one that is out never changes"
            raise InputError(f"the version {tag} is there already", repo, remedy)
        what: dict[str, Any] = {"repo_id": repo, "repo_type": kind, "folder_path": folder, "commit_message": message}
        api.upload_folder(**what, allow_patterns=files, delete_patterns=list(delete))
        if tag:
            api.create_tag(repo, tag=tag, repo_type=kind)
    except InputError:
        raise
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        raise _explain_hub_error(error, repo, folder, api.endpoint) from error


def _explain_hub_error(error: Exception, repo: str, folder: Path, endpoint: str) -> InputError:
    """The error as one message for people."""
    status = getattr(getattr(error, "response", None), "status_code", None)
    again = f"The export itself is whole, in {folder}; the same command pushes it again."
    if status == 401:
        what, remedy = "the hub refuses the token", "run `hf auth login`, or set HF_TOKEN."
    elif status in (402, 403):
        what, remedy = "the token may not write there", "check the organisation and the token's rights."
    elif status or isinstance(error, (ValueError, RuntimeError)):
        what, remedy = f"{endpoint} did not take the upload ({first_error_line(error)})", ""
    else:
        what = f"{endpoint} cannot be reached ({first_error_line(error)})"
        remedy = "check the network and HF_ENDPOINT."
    return InputError(what, repo, f"{remedy} {again}")


def first_error_line(error: Exception) -> str:
    """The first line of an error's message, at most 200 characters."""
    return (str(error).strip().splitlines() or [type(error).__name__])[0][:200]
