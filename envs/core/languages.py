"""Languages: where the files of each are found.

Invariants:
- A part is a file or a folder that every language has. homerl's own are entries of one folder, named by language.
- The environment variable HOMERL_LANGUAGES lists further folders, separated as in PATH. A folder `<code>/` in one of them
  holds the parts of one more language. No list names the languages.
- A part is given once: an added language that homerl has already is refused by its path.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from homerl.envs.core.documents import InputError
from homerl.envs.core.documents.validation import did_you_mean
from homerl.envs.core.plugins import VARIABLES, added_plugin_folders

VARIABLE = VARIABLES["languages"]
REFERENCE = "en"  # the language that others are translated from
CODE = re.compile(r"[a-z]{2,3}([_-]\w+)*")


def added_languages() -> dict[str, Path]:
    """The folder of each language that the environment adds. Raises `InputError` for a folder that cannot be used."""
    found: dict[str, Path] = {}
    for folder in map(Path, added_plugin_folders("languages")):
        if not folder.is_dir():
            raise InputError("there is no such folder", str(folder), f"correct {VARIABLE}")
        for path in sorted(path for path in folder.iterdir() if path.is_dir() and path.name[0] not in "._"):
            if not CODE.fullmatch(path.name):
                remedy = f"{VARIABLE} names the folder in which a language is a folder, such as `de`"
                raise InputError(f"'{path.name}' is no code of a language", str(path), remedy)
            _refuse_second_part(path.name, found.get(path.name), path)
            found[path.name] = path
    return found


@dataclass(frozen=True)
class LanguagePart:
    """A file or a folder that each language has.

    homerl's own are in the folder `shipped`, such as `shipped/en.yaml`. An added language has it as `added` in its folder.
    """

    shipped: Path
    added: str

    def expected_path(self, language: str) -> Path:
        """Where this part of a language is, or has to be."""
        return self._path_in_folder(language, added_languages().get(language))

    def _path_in_folder(self, language: str, folder: Path | None) -> Path:
        own = self.shipped / f"{language}{Path(self.added).suffix}"
        if folder is None:
            return own
        added = folder / self.added
        _refuse_second_part(language, own if own.exists() and added.exists() else None, added)
        return own if own.exists() else added

    def paths_by_language(self) -> dict[str, Path]:
        """Where this part is, for each language that has it."""
        added = added_languages()
        codes = {path.stem for path in self.shipped.iterdir() if CODE.fullmatch(path.stem)} | added.keys()
        return {code: path for code in sorted(codes) if (path := self._path_in_folder(code, added.get(code))).exists()}

    def is_shipped(self, language: str) -> bool:
        """Whether this part of a language is homerl's own."""
        return self.expected_path(language).parent == self.shipped

    def find_path(self, language: str) -> Path:
        """Where this part of a language is. Raises `InputError` if the language is not known, or lacks this part."""
        known = self.paths_by_language()
        if language in known:
            return known[language]
        if language in added_languages():
            what, where = f"the language '{language}' has no {self.added}", str(self.expected_path(language))
            raise InputError(what, where, f"translate {self.expected_path(REFERENCE)}")
        remedy = f"{did_you_mean(language, list(known))}; {VARIABLE} adds languages"
        raise InputError(f"'{language}' is no known language", str(self.expected_path(language)), remedy)


def _refuse_second_part(language: str, first: Path | None, second: Path) -> None:
    if first is not None:
        raise InputError(f"there is a '{language}' already: {first}", str(second), "give the language another code")
