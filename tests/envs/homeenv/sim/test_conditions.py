"""Conditions: a closed grammar, compiled once, that says where it was left; never an eval."""

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.conditions import ConditionError, compile_condition

HOME = HomeSampler.sample_test()
LIGHT = 'device("1001")'  # on, brightness 40, hs_color (30, 20)


def holds(text: str) -> bool:
    return compile_condition(text, HOME.plan).holds_in(HOME)


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        (f'{LIGHT}.state == "on"', True),
        ("device('1001').state != 'on'", False),
        (f"30 < {LIGHT}.brightness <= 40", True),
        (f"40 < {LIGHT}.brightness < 90", False),
        (f"0 < 1 < {LIGHT}.brightness < 50 != 3", True),
        (f'{LIGHT}.state == "on" and {LIGHT}.brightness > 60', False),
        (f'{LIGHT}.state == "off" or {LIGHT}.brightness > 30', True),
        (f'not {LIGHT}.state == "off"', True),
        (f'{LIGHT}.state in ("on", "off")', True),
        (f"{LIGHT}.brightness not in [10, 20, 40]", False),
        (f"{LIGHT}.brightness * 2 - 10 == 140 / 2", True),
        (f"{LIGHT}.brightness // 7 + {LIGHT}.brightness % 7 == 10", True),
        (f"abs({LIGHT}.brightness - 50) <= 10", True),
        (f'min({LIGHT}.brightness, device("1003").brightness) == 40', True),
        (f'max(({LIGHT}.brightness, device("1003").brightness)) == 50', True),
        (f"len({LIGHT}.hs_color) == 2", True),
        (f'any(({LIGHT}.state == "off", {LIGHT}.brightness > 1))', True),
        (f'all([{LIGHT}.state == "off", {LIGHT}.brightness > 1])', False),
        (f"{LIGHT}.hs_color == (30.0, 20.0)", True),
        (f"({LIGHT}.brightness or 5) == 40", True),
        ('home.temperature == 27.5 and room("living room").temperature > -40', True),
        (f'{LIGHT}.brightness > "on"', False),
        (f"{LIGHT}.brightness / 0 > 1", False),
        (f"min(()) == {LIGHT}.brightness", False),
        (f"1e308 * 10 * {LIGHT}.brightness > 1", True),
    ],
)
def test_the_grammar(text, truth):
    assert holds(text) is truth


OUTSIDE = [
    ("__import__('os').system('true')", "not allowed", 1),
    (f"{LIGHT}.state == 'on' and open('x')", "open('x')", 34),
    (f"{LIGHT}.__class__ == 1", "no attribute '__class__'", 1),
    (f"{LIGHT}.state.upper() == 'ON'", "upper", 1),
    (f"{LIGHT}.hs_color[0:1] == (1,)", "hs_color[0:1]", 1),
    (f"{LIGHT}.turn_on()", "turn_on()", 1),
    ("device(9).state == 'on'", "no device '9'", 1),
    ("device('10' + '01').state == 'on'", "not allowed", 1),
    ("device(did='1001').state == 'on'", "not allowed", 1),
    (f"(lambda: {LIGHT}.state)()", "lambda", 1),
    (f"[d for d in {LIGHT}.hs_color]", "for d in", 1),
    (f"(x := {LIGHT}.state)", "not allowed", 2),
    (f"f'{{{LIGHT}.state}}' == 'on'", "not allowed", 1),
    (f"{LIGHT}.state is 'on'", "not allowed", 1),
    (f"{LIGHT}.brightness ** 9 > 1", "not allowed", 1),
    (f"{LIGHT}.brightness << 9 > 1", "not allowed", 1),
    (f"{{1}} == {LIGHT}.state", "not allowed", 1),
    (f"b'x' == {LIGHT}.state", "not allowed", 1),
    (f"eval('1') == {LIGHT}.brightness", "eval", 1),
    (f"abs(x={LIGHT}.brightness) > 1", "not allowed", 1),
    (f"state == {LIGHT}.state", "'state' is not allowed", 1),
    ("1 < 2", "reads nothing", 1),
    ("", "cannot be parsed", 1),
    (f"{LIGHT}.state == 'on", "cannot be parsed", 25),
    (f"{LIGHT}.state = 'on'", "cannot be parsed", None),
    ("import os", "cannot be parsed", 1),
    (f"{LIGHT}.state == 'on'\x00", "cannot be parsed", 1),
    ("device('9').state == 'on'", "there is no device '9'", 1),
    (f"{LIGHT}.state == 'on' and device('1O01').state == 'on'", "there is no device '1O01'", 34),
    ("room('attic').temperature > 1", "there is no room 'attic'", 1),
    (f"{LIGHT}.brightnes > 1", "no attribute 'brightnes' (it has state, brightness, hs_color)", 1),
    (f"{LIGHT} == 'on'", "no attribute ''", 1),
    ("home.wind > 1", "no 'wind'", 1),
    ("not " * 500 + f"{LIGHT}.state", "nested too deeply", None),
    ("(" * 5000, "cannot be parsed", None),
]


@pytest.mark.parametrize(("text", "what", "column"), OUTSIDE, ids=[text[:40] for text, *_ in OUTSIDE])
def test_all_else_is_refused_with_its_place(text, what, column):
    with pytest.raises(ConditionError) as refused:
        compile_condition(text, HOME.plan)
    error = refused.value
    assert what in error.what and error.remedy
    assert f"column {column}" in error.where if column else "column" in error.where


def test_a_missing_device_is_answered_with_the_nearest():
    with pytest.raises(InputError) as refused:
        compile_condition('device("1O01").state == "on"', HOME.plan)
    assert refused.value.remedy.startswith("did you mean 1001?")


def test_nothing_is_evaluated(monkeypatch):
    import builtins

    def never(*args, **kwargs):
        raise AssertionError("evaluated")

    monkeypatch.setattr(builtins, "eval", never)
    monkeypatch.setattr(builtins, "exec", never)
    assert holds(f"abs({LIGHT}.brightness) == 40")


@pytest.mark.parametrize(
    "text",
    [
        f"'x' * 1000000000 * {LIGHT}.brightness == 1",
        f"'%999999999d' % {LIGHT}.brightness == '1'",
        f"-{LIGHT}.state == 1",
    ],
)
def test_arithmetic_is_for_numbers(text):
    assert holds(text) is False


VALUES = {
    f"{LIGHT}.brightness": "40",
    f"{LIGHT}.state": '"on"',
    f"{LIGHT}.hs_color": "(30.0, 20.0)",
    "home.temperature": "27.5",
}


def joined(pattern: str, *parts: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(*parts).map(lambda drawn: pattern.format(*drawn))


def booleans(numbers: st.SearchStrategy) -> st.SearchStrategy:
    compared = joined("({} {} {} {} {})", numbers, LESS, numbers, LESS, numbers) | joined(
        "({} {} {})", numbers, LESS, numbers
    )
    return joined("({} {} {})", compared, st.sampled_from(["and", "or"]), compared) | joined("(not {})", compared)


LESS = st.sampled_from(["<", "<=", ">", ">=", "==", "!="])
NUMBERS = st.recursive(
    st.sampled_from([f"{LIGHT}.brightness", "home.temperature", f"len({LIGHT}.hs_color)", "0", "1", "40", "2.5"]),
    lambda inner: (
        joined("({} {} {})", inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner)
        | joined("{}({}, {})", st.sampled_from(["min", "max"]), inner, inner)
        | joined("{}({})", st.sampled_from(["abs", "-"]), inner)
    ),
    max_leaves=5,
)
ANYTHING = st.recursive(
    NUMBERS | st.sampled_from([*VALUES, '"%9d"', "()", "None", "True"]),
    lambda inner: (
        joined(
            "({} {} {})",
            inner,
            st.sampled_from(["+", "*", "%", "<", "==", "in", "not in", "and", "or"]),
            inner,
        )
        | joined("{}({})", st.sampled_from(["abs", "min", "len", "any", "all", "-"]), inner)
    ),
    max_leaves=5,
)


@few(30)
@given(booleans(NUMBERS))
def test_it_means_what_python_means(text):
    expected = text
    for name, value in VALUES.items():
        expected = expected.replace(name, value)
    try:
        truth = bool(eval(expected, {}))  # the reference, on constants alone
    except ArithmeticError:
        truth = False
    assert holds(f"{LIGHT}.state == 'on' and {text}") == truth


@few(30)
@given(ANYTHING)
def test_checking_never_raises_and_changes_nothing(text):
    before = HOME.state_key()
    assert holds(f"{LIGHT}.brightness == {text}") in (True, False)
    assert HOME.state_key() == before


def test_slots_and_constants_are_told_for_the_filters():
    condition = compile_condition(f'{LIGHT}.state in ("on", "dim") and 10 < {LIGHT}.brightness < 999', HOME.plan)
    paths = {HOME.plan.slots[slot].path for slot in condition.slots}
    assert paths == {"state", "brightness"}
    told = {(HOME.plan.slots[slot].path, value) for slot, value in condition.comparisons}
    assert told == {("state", "on"), ("state", "dim"), ("brightness", 10), ("brightness", 999)}
    whole = compile_condition(f"{LIGHT}.hs_color == (30.0, 20.0)", HOME.plan)
    assert [value for _, value in whole.comparisons] == [(30.0, 20.0)]


def test_a_condition_follows_the_home_that_it_is_asked_of():
    condition, other = compile_condition(f"{LIGHT}.brightness > 60", HOME.plan), HOME.fork()
    other.call("1001", "set_brightness", [80])
    assert condition.holds_in(other) and not condition.holds_in(HOME)
