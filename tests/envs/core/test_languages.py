"""Where a language's files are found: homerl's own, then those of the folders that HOMERL_LANGUAGES lists."""

import os
from pathlib import Path

import pytest
from forked import homerl

from homerl.envs.core.documents import InputError
from homerl.envs.core.languages import LanguagePart, added_languages

ROOT = Path(__file__).parents[3]


@pytest.fixture
def part(tmp_path, monkeypatch) -> LanguagePart:
    """Words that homerl has in English and Chinese, and a folder `mine` with those in German and a French without any."""
    for path in (
        "words/en.yaml",
        "words/zh.yaml",
        "mine/de/words.yaml",
        "mine/fr/other.yaml",
        "mine/.git/x",
        "mine/notes.md",
    ):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).touch()
    monkeypatch.setenv("HOMERL_LANGUAGES", str(tmp_path / "mine"))
    return LanguagePart(tmp_path / "words", "words.yaml")


def test_a_part_is_homerls_or_that_of_an_added_language(part, tmp_path):
    paths = {"de": tmp_path / "mine/de/words.yaml", "en": tmp_path / "words/en.yaml", "zh": tmp_path / "words/zh.yaml"}
    assert part.paths_by_language() == paths and list(part.paths_by_language()) == ["de", "en", "zh"]
    assert all(part.find_path(language) == path == part.expected_path(language) for language, path in paths.items())


def test_a_folder_is_a_part_too(part, tmp_path):
    for path in ("worlds/en", "mine/de/lamp"):
        (tmp_path / path).mkdir(parents=True)
    assert LanguagePart(tmp_path / "worlds", "lamp").paths_by_language() == {
        "de": tmp_path / "mine/de/lamp",
        "en": tmp_path / "worlds/en",
    }


def test_an_added_language_may_complete_one_of_homerls(part, tmp_path):
    (tmp_path / "mine/zh").mkdir()
    assert part.find_path("zh") == tmp_path / "words/zh.yaml"


def test_a_language_that_lacks_the_part_is_refused_by_its_path(part, tmp_path):
    refusal = f"{tmp_path}/mine/fr/words.yaml: the language 'fr' has no words.yaml\ntranslate {tmp_path}/words/en.yaml"
    with pytest.raises(InputError) as error:
        part.find_path("fr")
    assert str(error.value) == refusal


@pytest.mark.parametrize("language", ["dk", "", "..", "notes"])
def test_an_unknown_language_is_refused_with_the_known_ones(part, language):
    with pytest.raises(InputError, match="(?s)is no known language.*known: de, en, zh.*; HOMERL_LANGUAGES adds languages"):
        part.find_path(language)


def test_a_language_is_given_once(part, tmp_path, monkeypatch):
    (tmp_path / "mine/zh").mkdir()
    (tmp_path / "mine/zh/words.yaml").touch()
    with pytest.raises(
        InputError, match="mine/zh/words.yaml: there is a 'zh' already: .*/words/zh.yaml\ngive .* another code"
    ):
        part.find_path("en")
    (tmp_path / "more/de").mkdir(parents=True)
    monkeypatch.setenv("HOMERL_LANGUAGES", os.pathsep.join(str(tmp_path / folder) for folder in ("mine", "more")))
    with pytest.raises(InputError, match="more/de: there is a 'de' already: .*/mine/de"):
        added_languages()


def test_a_folder_that_is_named_otherwise_than_a_language_is_refused(tmp_path, monkeypatch):
    (tmp_path / "one/homeenv").mkdir(parents=True)
    monkeypatch.setenv("HOMERL_LANGUAGES", str(tmp_path / "one"))
    with pytest.raises(InputError, match="/one/homeenv: 'homeenv' is no code of a language"):
        added_languages()


@pytest.mark.long
@pytest.mark.parametrize(
    ("folder", "refusal"),
    [
        ("none", "/none: there is no such folder"),
        ("one", "/one/homeenv: 'homeenv' is no code of a language"),
    ],
)
def test_a_folder_that_cannot_be_used_ends_in_one_message(folder, refusal, tmp_path):
    (tmp_path / "one/homeenv").mkdir(parents=True)
    done = homerl("check", "recipes/smoke.yaml", cwd=ROOT, HOMERL_LANGUAGES=str(tmp_path / folder))
    assert done.returncode == 2 and "Traceback" not in done.stderr, done.stderr
    assert f"{tmp_path}{refusal}" in " ".join(done.stderr.split()) and "HOMERL_LANGUAGES" in done.stderr
