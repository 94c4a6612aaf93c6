"""The glossary: one meaning for each word, in the pages of docs/ and as titles in reports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from homerl.envs.core.documents import InputError
from homerl.host.html_pages import glossary_sections, load_glossary, load_template
from homerl.report.pages import flywheel_report as report_page
from homerl.report.pages.world_pages import folder_of_world, glossary_of_world, render_glossary_page
from homerl.worlds.registry import known_suites, known_worlds

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs").glob("*.md"))


def test_the_page_is_as_generated():
    assert (ROOT / "docs/glossary.md").read_text() == render_glossary_page(), "run ./scripts/regenerate"


@pytest.mark.parametrize("file", [file for file in PAGES if file.name != "glossary.md"], ids=lambda file: file.name)
def test_every_page_links_to_it_at_its_top(file):
    assert "](glossary.md)" in file.read_text().split("\n## ")[0]


def test_the_readme_links_to_it():
    assert "](docs/glossary.md)" in (ROOT / "README.md").read_text()


def test_every_category_of_a_printed_table_and_every_class_of_errors_has_a_name():
    for world, suite in known_suites().values():
        words = glossary_of_world(world)
        for category in suite.printed().get("categories", ()):
            assert words.expand_abbreviations(category) == category or category in words.expand_abbreviations(category)
            if re.search(r"\d|^[A-Z]+$", category):
                assert words.expand_abbreviations(category) != category, f"{suite.name} shows {category}"
        for dimension in world.dimensions:
            assert dimension.islower() or words.meaning_of_term(dimension)


def test_what_a_new_reader_asks_for_is_there():
    known = {term for world in known_worlds().values() for term in glossary_of_world(world).terms}
    wanted = (
        "RLVE Φ blueprint MCTS-Flow sentinel turn step group credit QT1 QT5 TC1 TC7 SO TV EIA DR SFT KL LoRA policy toolset"
    )
    assert set(wanted.split()) <= known


def test_a_world_has_its_own_meaning_of_a_shared_abbreviation():
    meanings = {glossary_of_world(world).expand_abbreviations("QT1") for world in known_worlds().values()}
    assert {"QT1 (atomic control)", "QT1 (environment perception)"} <= meanings


@pytest.fixture
def words(tmp_path):
    (tmp_path / "glossary.yaml").write_text(
        'One:\n  step: A message.\n  step limit: The most <steps>.\n  AB: {name: a & b, means: "Both."}\n'
    )
    return load_glossary(tmp_path)


def test_abbreviations_are_shown_in_full_and_nothing_else_changes(words):
    assert [words.expand_abbreviations(text) for text in ("AB", "AB AB", "AB step", "step", "ABC", "")] == [
        "AB (a & b)",
        "AB AB (a & b, a & b)",
        "AB step",
        "step",
        "ABC",
        "",
    ]


def test_the_first_of_each_term_gets_its_title_and_all_text_is_escaped(words):
    assert words.explain_terms_as_html("Steps, step <b> & AB") == (
        '<abbr title="A message.">Steps</abbr>, step &lt;b&gt; &amp; <abbr title="a &amp; b: Both.">AB</abbr>'
    )
    assert words.explain_terms_as_html("step limit") == '<abbr title="The most &lt;steps&gt;.">step limit</abbr>'
    for plain in ("footstep", "misstep-1", "ab", "ABs", "two-step"):
        assert words.explain_terms_as_html(plain) == plain


def test_a_wrong_entry_is_named_by_its_line(tmp_path):
    (tmp_path / "glossary.yaml").write_text("One:\n  fine: Yes.\n  AB: {name: a}\n")
    with pytest.raises(InputError, match=r"glossary.yaml:3: "):
        load_glossary(tmp_path)


def test_a_world_without_a_file_has_the_shared_words():
    assert not list(glossary_sections(ROOT / "tests/worlds/lamp")) and "Φ" in load_glossary(ROOT / "tests/worlds/lamp").terms
    assert all((folder_of_world(world) / "glossary.yaml").is_file() for world in known_worlds().values())


def test_what_the_report_draws_is_explained():
    words = glossary_of_world(next(iter(known_worlds().values())))
    for title, _, _ in report_page.CURVES:
        assert "<abbr" in words.explain_terms_as_html(title) or "Reward" in title, title
    source = load_template(
        Path(report_page.__file__).with_name("report.html.jinja"),
        **dict.fromkeys(("percent", "points", "estimate", "figure", "duration", "kinds", "explained", "full"), str),
    ).filename
    assert Path(source).read_text().count("|explained") > 8
