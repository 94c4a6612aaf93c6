"""The site of the pages: its navigation names every page, and links lead to pages or to the project's address."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from package.facts import ROOT, Project
from package.site_hooks import ADOPTED, WIDTH, indent_lists, raise_comments, slug_of_heading, turn_links

CONFIG = yaml.safe_load((ROOT / "mkdocs.yml").read_text("utf-8"))
ADDRESS = Project().address


def pages_below(entry: object) -> list[str]:
    """The pages that a part of the navigation names, in order."""
    if isinstance(entry, str):
        return [entry]
    below = entry.values() if isinstance(entry, dict) else entry
    return [page for one in below for page in pages_below(one)]  # type: ignore[union-attr]


def test_the_navigation_names_every_page_once() -> None:
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(pages_below(CONFIG["nav"])) == sorted([*pages, *ADOPTED.values()]), "mkdocs.yml: nav"


def test_the_first_page_leads_each_reader_on_by_one_click() -> None:
    cards = {name: page for name, page, _ in CONFIG["extra"]["cards"]}
    assert set(cards.values()) <= {*pages_below(CONFIG["nav"])}
    assert [*cards] == [
        "Your first hour", "Your own device", "Your own home", "Home Assistant", "Your own model",
        "Train on GPUs", "Evaluate an endpoint", "Your own trainer", "Add a world", "Results",
    ]  # fmt: skip


def test_the_search_knows_the_last_word_of_a_key_and_keeps_numbers_whole() -> None:
    (search,) = (plugin["search"] for plugin in CONFIG["plugins"])
    words = re.split(search["separator"], "`rlve.play_only: false`, 0.45")
    assert [word for word in words if word] == ["rlve", "play_only", "false", "0.45"]


@pytest.mark.parametrize(
    ("source", "uri", "link", "turned"),
    [
        ("README.md", "index.md", "docs/homes.md#toolsets", "homes.md#toolsets"),
        ("README.md", "index.md", "docs/flywheel.svg", "flywheel.svg"),
        ("README.md", "index.md", "CONTRIBUTING.md", "contributing.md"),
        ("README.md", "index.md", "CITATION.cff", f"{ADDRESS}/blob/main/CITATION.cff"),
        ("docs/homes.md", "homes.md", "../README.md#start", "index.md#start"),
        ("docs/homes.md", "homes.md", "../envs/core/world.py", f"{ADDRESS}/blob/main/envs/core/world.py"),
        ("docs/homes.md", "homes.md", "../recipes", f"{ADDRESS}/tree/main/recipes"),
        ("docs/results/gpu.md", "results/gpu.md", "../training.md", "../training.md"),
        ("docs/results/gpu.md", "results/gpu.md", "README.md", "README.md"),
        ("docs/homes.md", "homes.md", "https://arxiv.org/abs/1", "https://arxiv.org/abs/1"),
        ("docs/homes.md", "homes.md", "#toolsets", "#toolsets"),
    ],
)
def test_links_lead_to_pages_or_to_the_projects_address(source: str, uri: str, link: str, turned: str) -> None:
    assert turn_links(f"see [it]({link}), and", source, uri) == f"see [it]({turned}), and"


def test_what_belongs_to_an_item_of_a_list_is_indented_by_four() -> None:
    text = "1. a\n   b\n\n   ```text\n   c\n   ```\n10. d\n    e\n11. x\n\n- f\n  - g\n\nh\n```\n- i\n  j\n```"
    right = "1. a\n    b\n\n    ```text\n    c\n    ```\n\n10. d\n    e\n11. x\n\n- f\n    - g\n\nh\n```\n- i\n  j\n```"
    assert indent_lists(text) == right


def test_anchors_are_githubs() -> None:
    assert slug_of_heading("HomeEnv, `as` an environment: 2.0", "-") == "homeenv-as-an-environment-20"


@pytest.mark.long
def test_the_site_is_built_without_a_broken_link_and_fetches_nothing(tmp_path: Path) -> None:
    pytest.importorskip("material")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text("utf-8")
        fetched = re.findall(r'<(?:script|img|iframe)[^>]* src="?(https?:[^">\s]+)', text)
        fetched += re.findall(r'<link rel="?stylesheet"? href="?(https?:[^">\s]+)', text)
        assert not fetched, f"{page.name} fetches {fetched}"
        for path in re.findall(rf'"{re.escape(ADDRESS)}/(?:blob|tree)/main/([^"#]+)', text):
            assert (ROOT / path).exists(), f"{page.name} links to {path}"
        told = re.sub(r"<(pre|script|style)\b.*?</\1>", "", text, flags=re.S)
        assert not (raw := re.findall(r"\n {0,3}(?:\d+\. |- |\| |```).*", told)), (
            f"{page.name}: a list or a table is no such: {raw}"
        )
    assert {"search", "assets"} <= {path.name for path in tmp_path.iterdir()}


def test_comments_that_would_need_scrolling_stand_above_their_code() -> None:
    short = "```sh\nmake tea   # now\n```"
    assert raise_comments(short) == short
    block = f"```py\nif a:\n    b = '#x'  # {'w' * WIDTH}\n    c()  # it\n    d()\n```"
    assert raise_comments(block) == f"```py\nif a:\n    # {'w' * WIDTH}\n    b = '#x'\n    # it\n    c()\n    d()\n```"
