"""People check the judge: the page shows all that they need, its file is read back, and agreement is counted."""

from __future__ import annotations

import json
import shutil
import subprocess
from html.parser import HTMLParser
from pathlib import Path

import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.personalhome.judge import check_page
from homerl.envs.personalhome.judge.check_page import render_check
from homerl.envs.personalhome.judge.human import COLUMNS, Item, Marks, checked, csv_template, read_marks
from homerl.envs.personalhome.judge.words import load_judge_words

NASTY = "</style><script>alert(1)</script><img src=x onerror=alert(1)> & \"two\" 'three' {{ 7 * 7 }}"
PARTS = ("h1_1", "smart_home")


def item(name, text="It is late."):
    member = {
        "member_id": "h1_1", "name": f"Emma {text}", "role": "single", "age": 39, "gender": "Female", "occupation": "nurse",
        "persona": text, "lifestyle": "runs", "preference": "quiet", "hobbies": ["chess", text], "major_events": [],
    }  # fmt: skip
    home = {"members": [member], "layout": text, "pets": [{"name": "Rex", "animal": "dog", "age": 3}]}
    home["appliances"] = ["robot_vacuum", {"appliance": {"name": "tv"}, "location": "den"}]
    step = {"appliance": "tv", "feature": "on", "args": {"text": text}, "rationale": text}
    opinions = {part: {"feedback": f"{part} says {text}", "score": 4} for part in PARTS}
    verdict = {"1": {"personas": opinions, "rationale": f"since {text}", "overall_score": 2}}
    return Item(name, home, text, ("07:00 up", text), [{"program_id": "quiet_night", "steps": [step]}], verdict)


class Parser(HTMLParser):
    """Every element closed, nothing from elsewhere, no code beside the page's own."""

    VOID = ("meta", "link", "input")

    def __init__(self, text):
        super().__init__()
        self.open, self.tags, self.names, self.words = [], [], [], []
        self.feed(text)
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.tags.append(tag)
        self.names += [dict(attributes)["name"]] if tag == "input" else []
        assert not any(name.startswith("on") or str(value).startswith("http") for name, value in attributes)
        self.open += [] if tag in self.VOID else [tag]

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.words.append(data)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_page_shows_all_and_asks_for_both_marks(language):
    page = Parser(render_check([item("pg-1"), item("pg-2")], language))
    text, said = " ".join(page.words), load_judge_words(language).check
    for part in ("pg-1", "It is late.", "07:00 up", "Emma", "nurse", "chess", "Rex", "robot vacuum", "tv", "quiet night",
                 "since It is late.", "smart_home says", said.home, said.save, *said.marks.values()):  # fmt: skip
        assert part in text
    assert page.names == (["overall"] * 3 + ["persona"] * 3 + ["note"]) * 2


def test_all_text_is_escaped():
    text = render_check([item(NASTY, NASTY)])
    assert (
        Parser(text).tags.count("script") == 1 and "img" not in Parser(text).tags and "49" not in "".join(Parser(text).words)
    )
    assert text == render_check([item(NASTY, NASTY)])


def test_two_items_of_one_name_are_refused():
    with pytest.raises(ValueError, match="ids that differ"):
        render_check([item("a"), item("a")])


def marked(calls, kept):
    """What the page's own code does when a person marks the items "a" and 'b, "c"'."""
    if not (node := shutil.which("node")):
        pytest.skip("node is not installed")
    page = {"page": "key", "columns": ",".join(COLUMNS), "progress": load_judge_words("en").check.progress}
    told = json.dumps({"page": page, "items": ["a", 'b, "c"'], "calls": calls, "kept": kept})
    script = Path(check_page.__file__).with_suffix(".js")
    command = [node, str(Path(__file__).with_name("stub_dom.js")), str(script), told]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=250).stdout)


def test_what_the_page_saves_is_read_back(tmp_path):
    calls = [[0, {"overall": "2"}], [0, {"persona": "0", "note": 'so, "so"\nand so'}], [1, {"overall": "1"}]]
    done = marked(calls, {})
    assert done["progress"] == "1 of 2 marked" and done["done"] == ["a"] and done["kept"]["a"]["persona"] == "0"
    path = tmp_path / "ann.csv"
    path.write_text(done["saved"], encoding="utf-8", newline="")
    assert read_marks(path, ["a", 'b, "c"']) == {"a": Marks(2, 0, 'so, "so"\nand so'), 'b, "c"': Marks(1, None)}


def test_marks_come_back_when_the_page_is_opened_again():
    done = marked([], {"a": {"overall": "1", "persona": "1", "note": "n"}})
    assert done["done"] == ["a"] and done["saved"].splitlines()[1] == "a,1,1,n"


def test_a_browser_that_keeps_nothing_warns():
    done = marked([[0, {"overall": "2"}]], None)
    assert done["warns"] == "beforeunload" and done["saved"].splitlines()[1] == "a,2,,"


def test_the_template_is_read_as_no_marks(tmp_path):
    path = tmp_path / "empty.csv"
    path.write_text(csv_template([item("a"), item("b")]), newline="")
    assert read_marks(path, ["a", "b"]) == {"a": Marks(None, None), "b": Marks(None, None)}


@pytest.mark.parametrize(
    ("text", "where", "what"),
    [
        ("item_id,overall,persona,note\na,3,1,\n", "2", "'3' is no mark"),
        ("item_id,overall,persona,note\na,1,1,\na,1,1,\n", "3", "'a' is marked twice"),
        ("item_id,overall,persona,note\nx,1,1,\n", "2", "there is no item 'x'"),
        ("item_id,overall,note\na,1,\n", "1", "there is no column 'persona'"),
        ("", "1", "there is no column 'item_id'"),
    ],
)
def test_a_broken_file_is_named_by_its_line(tmp_path, text, where, what):
    path = tmp_path / "ann.csv"
    path.write_text(text)
    with pytest.raises(InputError, match=rf"ann\.csv:{where}: {what}"):
        read_marks(path, ["a"])


def test_spreadsheets_may_write_semicolons_and_a_mark(tmp_path):
    path = tmp_path / "ann.csv"
    path.write_text("\ufeffitem_id;overall;persona;note\r\na; 2 ;1;fine, really\r\n", encoding="utf-8", newline="")
    assert read_marks(path, ["a"]) == {"a": Marks(2, 1, "fine, really")}
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(InputError, match="cannot be read"):
        read_marks(path, ["a"])
    with pytest.raises(InputError, match="cannot be read"):
        read_marks(tmp_path / "none.csv", ["a"])


def test_agreement_of_pairs_by_hand():
    """A1 and A2 share three items, A3 and A4 one; nobody else meets."""
    people = {
        "A1": {"a": Marks(2, 2), "b": Marks(2, 0), "c": Marks(1, None)},
        "A2": {"a": Marks(2, 2), "b": Marks(1, 2), "c": Marks(1, 1)},
        "A3": {"d": Marks(0, 1)},
        "A4": {"d": Marks(2, 1)},
    }
    found = checked(people)
    overall, persona = found["overall"], found["persona"]
    assert set(overall["pairs"]) == {"A1, A2", "A3, A4"}
    assert overall["pairs"]["A1, A2"]["equal"] == pytest.approx(2 / 3) and overall["pairs"]["A1, A2"]["opposed"] == 0
    assert overall["all"]["n"] == 4 and overall["all"]["equal"] == 0.5 and overall["all"]["opposed"] == 1
    assert persona["pairs"]["A1, A2"]["n"] == 2 and persona["pairs"]["A1, A2"]["opposed"] == 1
    assert overall["shares"]["A1"] == {"0": 0, "1": pytest.approx(1 / 3), "2": pytest.approx(2 / 3)}
    low, high = overall["all"]["interval"]
    assert 0 < low < 0.5 < high < 1
    bare = {"shares": {}, "pairs": {}}
    assert checked({"A1": {"a": Marks(None, None)}}) == {"overall": bare, "persona": bare}


@pytest.fixture(scope="module")
def page() -> str:
    """Drawn before there is a browser, which has an event loop of its own."""
    return render_check([item("pg-1"), item("pg-2", "long " * 60 + "x" * 300)])


@pytest.mark.long
@pytest.mark.parametrize("width", [360, 1280])
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_works_in_a_browser(page, browser, tmp_path, width, scheme):
    path = tmp_path / "page.html"
    path.write_text(page)
    context = browser.new_context(viewport={"width": width, "height": 800}, color_scheme=scheme)
    tab = context.new_page()
    tab.goto(path.as_uri())
    assert tab.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for kind in ("overall", "persona"):
        tab.check(f"form.item >> nth=0 >> input[name={kind}][value='2']")
    assert "1" in tab.text_content("#progress")
    with tab.expect_download() as saved:
        tab.click("#save")
    saved.value.save_as(tmp_path / "ann.csv")
    assert read_marks(tmp_path / "ann.csv", ["pg-1", "pg-2"])["pg-1"] == Marks(2, 2)
    context.close()
