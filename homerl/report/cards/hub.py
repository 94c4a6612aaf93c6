"""Uploads models and datasets to the Hugging Face hub (or to HF_ENDPOINT).

Invariants: a missing repository is created, private by default; an existing one keeps its visibility, and is refused if the
other was asked for; a tagged version is never moved; local files stay, whatever the hub does.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from homerl.envs.core.documents import InputError

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
            raise InputError(
                f"the version {tag} is there already", repo, "name another version; one that is out never changes"
            )
        api.upload_folder(
            repo_id=repo,
            folder_path=folder,
            commit_message=message,
            repo_type=kind,
            allow_patterns=files,
            delete_patterns=list(delete),
        )
        if tag:
            api.create_tag(repo, tag=tag, repo_type=kind)
    except InputError:
        raise
    except (HTTPError, OSError, RuntimeError, ValueError) as error:
        raise _in_words(error, repo, folder, api.endpoint) from error


def _in_words(error: Exception, repo: str, folder: Path, endpoint: str) -> InputError:
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
