"""What passes a type is canonical and stays within it; what does not is refused by rule, in few words."""

import json

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import SHOWN, ValueType, quote_value

BOUNDS = st.tuples(st.integers(-50, 50), st.integers(1, 60)).map(lambda pair: (pair[0], pair[0] + pair[1]))
LEAVES = st.one_of(
    st.builds(ValueType, type=st.just("int"), range=st.none() | BOUNDS, precision=st.sampled_from([None, 1])),
    st.builds(
        ValueType,
        type=st.just("float"),
        range=st.none() | BOUNDS,
        precision=st.sampled_from([None, 0.1, 0.5, 1]),
    ),
    st.builds(ValueType, type=st.just("str"), options=st.just(("on", "off"))),
    st.builds(ValueType, type=st.just("str"), range=st.just((1, 4))),
    st.builds(ValueType, type=st.just("enum"), options=st.sampled_from([("a", "b"), (1, 2), (True, "auto", 3)])),
    st.just(ValueType(type="float", options=(1, 2.5))),
    st.just(ValueType(type="bool")),
    st.just(ValueType(type="hex")),
)


def named(items: list[ValueType]) -> tuple[ValueType, ...]:
    return tuple(item.model_copy(update={"name": f"part{i}"}) for i, item in enumerate(items))


TYPES = LEAVES | st.one_of(
    st.lists(LEAVES, min_size=1, max_size=3).map(lambda items: ValueType(type="tuple", items=tuple(items))),
    LEAVES.map(lambda item: ValueType(type="list", items=(item,), range=(1, 3))),
    st.lists(LEAVES, min_size=1, max_size=3).map(lambda items: ValueType(type="dict", items=named(items))),
)
SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(-120, 120), st.just(10**400), st.floats(-120, 120), st.floats(),
    st.just(float("nan")), st.just(float("inf")), st.just(-0.0), st.sampled_from(["on", "off", "a", "#A0b1C2", "x" * 300]),
    st.binary(max_size=3), st.just(object()),
)  # fmt: skip
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(st.sampled_from(["part0", "part1", "part2"]), inner, max_size=3)
    ),
    max_leaves=4,
)


@few(30)
@given(TYPES, st.randoms(use_true_random=False))
def test_samples_are_canonical(kind, rng):
    for _ in range(5):
        value = kind.sample_value(rng)
        assert repr(kind.check_value(value)) == repr(value)
        hash(value)


@few(30)
@given(TYPES, VALUES)
def test_what_passes_is_canonical_and_what_does_not_is_refused_by_rule(kind, value):
    try:
        canonical = kind.check_value(value, "it")
    except Refused as refused:
        assert refused.rule in ("wrong_type", "out_of_range")
        assert "0x" not in refused.message and "nothing of" not in refused.message
        return
    assert repr(kind.check_value(canonical)) == repr(canonical)
    assert hash(canonical) == hash(kind.check_value(canonical))
    if kind.range and kind.type in ("int", "float"):
        assert kind.range[0] <= canonical <= kind.range[1]


@few(30)
@given(TYPES, st.randoms(use_true_random=False))
def test_values_survive_json(kind, rng):
    value = kind.sample_value(rng)
    assert repr(kind.check_value(json.loads(json.dumps(value)))) == repr(value)


@few(30)
@given(TYPES, VALUES, VALUES)
def test_equal_values_look_alike(kind, one, other):
    """A state key hashes what values look like: no two looks for one value (-0.0 and 0.0, 1 and True)."""
    try:
        one, other = kind.check_value(one), kind.check_value(other)
    except Refused:
        return
    assert (one == other) == (repr(one) == repr(other))


def test_precision_rounds_and_units_are_told():
    half = ValueType(type="float", range=(16, 30), precision=0.5, unit="celsius")
    assert half.check_value(21.3) == 21.5 and half.check_value(16) == 16.0
    assert half.describe_type() == "float 16..30 celsius"
    tens = ValueType(type="int", range=(0, 100), precision=10)
    assert tens.check_value(47) == 50 and isinstance(tens.check_value(47), int)


@pytest.mark.parametrize(
    ("kind", "value", "rule"),
    [
        (ValueType(type="int", range=(1, 100)), 101, "out_of_range"),
        (ValueType(type="int", range=(1, 100)), True, "wrong_type"),
        (ValueType(type="int", range=(1, 100)), "50", "wrong_type"),
        (ValueType(type="int"), -(10**400), "out_of_range"),
        (ValueType(type="float", range=(0, 1)), 10**400, "out_of_range"),
        (ValueType(type="float", precision=0.1), 1e308, "out_of_range"),
        (ValueType(type="float"), float("inf"), "wrong_type"),
        (ValueType(type="str"), "\ud800", "wrong_type"),
        (ValueType(type="str", options=("on", "off")), "of", "out_of_range"),
        (ValueType(type="str", range=(1, 3)), "long", "out_of_range"),
        (ValueType(type="enum", options=(1, 2)), True, "wrong_type"),
        (ValueType(type="hex"), "#12345", "wrong_type"),
        (ValueType(type="list", items=(ValueType(type="int"),), range=(1, 2)), [1, 2, 3], "out_of_range"),
        (ValueType(type="dict", items=(ValueType(type="int", name="a"),)), {"b": 1}, "wrong_type"),
        (ValueType(type="dict", items=(ValueType(type="int", name="a"),)), (1, 2), "wrong_type"),
    ],
)
def test_each_refusal_has_its_rule(kind, value, rule):
    with pytest.raises(Refused) as refused:
        kind.check_value(value, "it")
    assert refused.value.rule == rule and len(refused.value.message) < 200


def test_nested_refusals_name_the_part():
    colour = ValueType(
        type="tuple", items=(ValueType(type="float", range=(0, 360)), ValueType(type="float", range=(0, 100)))
    )
    with pytest.raises(Refused, match=r"hs_color\[1\] = 200.0 is outside 0..100"):
        colour.check_value((20, 200), "hs_color")


@pytest.mark.parametrize(
    "wrong",
    [
        {"type": "int", "range": (5, 5)},
        {"type": "int", "range": (9, 1)},
        {"type": "bool", "range": (0, 1)},
        {"type": "enum"},
        {"type": "str", "options": ()},
        {"type": "str", "options": (1, 2)},
        {"type": "int", "options": ("low", "high")},
        {"type": "tuple"},
        {"type": "list", "items": ({"type": "int"}, {"type": "int"})},
        {"type": "dict", "items": ({"type": "int"},)},
        {"type": "float", "precision": 0},
        {"type": "float", "precision": 1e-300, "range": (0, 1e10)},
        {"type": "int", "precision": 1.2},
        {"type": "int", "range": (0.5, 0.7)},
        {"type": "float", "range": (0, float("inf"))},
        {"type": "float", "range": (0, 1e300)},
        {"type": "str", "range": (0, 1e9)},
        {"type": "list", "range": (-5, -1), "items": ({"type": "int"},)},
        {"type": "enum", "options": (1, True)},
        {"type": "int", "options": (5, 200), "range": (0, 100)},
        {"type": "float", "options": (0.05,), "precision": 0.1},
        {"type": "dict", "items": ({"type": "int", "name": "a"}, {"type": "bool", "name": "a"})},
        {"type": "float", "range": (0.05, 1), "precision": 0.1},
        {"type": "flaot"},
        {"type": "int", "rnage": (1, 2)},
    ],
    ids=str,
)
def test_incoherent_types_are_refused(wrong):
    with pytest.raises(ValidationError):
        ValueType(**wrong)


@given(VALUES)
def test_quoted_values_are_short_and_hold_nothing_of_the_host(value):
    assert len(quote_value(value)) <= SHOWN and " at 0x" not in quote_value(value)


def test_numbers_too_long_to_print_are_refused_all_the_same():
    with pytest.raises(Refused, match="too long to show is too large"):
        ValueType(type="int").check_value(10**5000)
