"""The parser that says nothing of what it finds odd, and changes nothing for others."""

import ast
import subprocess
import sys
import warnings
from contextlib import suppress

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.homeenv.sim.values import expressions
from homerl.envs.homeenv.sim.values.auditor import parse_python

ODD = [
    'x = "\\d"', 'b"\\d"', 'x = "\\777"', "x = 1or 2", "x = 0xfor y", "1if x else 2", "0b1and 2", "0o7in x", "1jor 2",
    'b"\\N"', 'f"\\d{x}"', "1_0is x",
]  # fmt: skip


@pytest.mark.parametrize("text", ODD)
def test_what_python_finds_odd_is_parsed_without_a_word(text):
    with pytest.warns((DeprecationWarning, SyntaxWarning)):
        plain = ast.parse(text)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert ast.dump(parse_python(text)) == ast.dump(plain)


def test_the_filters_stay_as_they_are_and_most_texts_do_not_touch_them(monkeypatch):
    before = list(warnings.filters)
    parse_python(ODD[0])
    assert warnings.filters == before
    monkeypatch.setattr(warnings, "catch_warnings", lambda: pytest.fail("touched for nothing"))
    parse_python('print("done\\n", 21.5, "it\'s \\"on\\"")\nfor i in range(3):\n    device("1001").turn_on(level=0x1f)')


def test_a_syntax_error_is_one():
    for text in ("(", 'x = "\\d', "1or", "5into", "f(60island)", "2andy"):
        with warnings.catch_warnings(record=True) as found, pytest.raises(SyntaxError):
            parse_python(text)
        assert not found


@few(500, 2000)
@given(st.text("01 7xfndorisetab_.\\'\"(){}", max_size=12))
def test_no_text_makes_the_parser_say_a_word(text):
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        with suppress(SyntaxError, ValueError):
            parse_python(text)
    assert not found


def test_importing_the_world_leaves_the_parser_its_warnings():
    look = "any('unknown' in str(module) for _, _, _, module, _ in warnings.filters)"
    done = subprocess.run(
        [sys.executable, "-c", f"import warnings, homerl.envs.homeenv.sim.values.auditor; raise SystemExit({look})"]
    )
    assert done.returncode == 0


def test_authors_texts_go_the_same_way():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expressions.parse_expression('device("1001").mode == "\\d"')
