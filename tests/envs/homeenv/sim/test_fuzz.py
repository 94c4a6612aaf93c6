"""Random and mutated input: snippets give a result or a refusal, conditions a truth or a `ConditionError`."""

import warnings

import pytest
from draws import few
from hypothesis import given, settings
from hypothesis import strategies as st

from homerl.envs.homeenv.maker.make import HomeSampler
from homerl.envs.homeenv.sim.conditions import ConditionError, compile_condition
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.sandbox import run_code
from homerl.envs.homeenv.sim.toolset import Limits, RunResult
from homerl.envs.homeenv.sim.values.auditor import RULES

pytestmark = pytest.mark.timeout(1800)
HOME = HomeSampler.sample_test()
LIMITS = Limits(seconds=0.1, memory=16 << 20, calls=30, output=500)
fuzz = few(50)
of = st.sampled_from


def filled(template: str, *parts: st.SearchStrategy) -> st.SearchStrategy:
    return st.tuples(*parts).map(lambda texts: template.format(*texts))


# A few productions of agents' code: right and wrong devices, services, arguments, and the ways to combine them.
NAMES = of(["x", "d", "f", "device", "print", "len", "__class__", "getattr"])
DIDS = of(["'1001'", "'1002'", "'1003'", "'1004'", "'9'", "1001", "None", "x"])
SERVICES = of(["turn_on", "turn_off", "set_brightness", "set_hs_color", "set_ac_mode", "close", "state", "explode", "_did"])
ATOMS = st.one_of(
    of(["1", "50", "-1", "10 ** 40", "1.5", "float('nan')", "'cool'", "''", "None", "...", "b'x'", "[]", "{}", "set()"]),
    of(["(120, 50)", "[1, 2]", "lambda: 0", "device", "f'{x}'", "'\\ud800'", "().__class__", "{(1, 2): 3}"]),
    NAMES,
    filled("device({})", DIDS),
    filled("device({}).{}", DIDS, SERVICES),
    filled("device({}).{}()", DIDS, SERVICES),
)
VALUES = st.recursive(
    ATOMS,
    lambda inner: st.one_of(
        filled("({} {} {})", inner, of(["+", "-", "*", "/", "//", "%", "<", "==", "in", "is", "and", "or"]), inner),
        filled("{}({})", of(["str", "len", "print", "list", "sorted", "abs", "repr", "x", "f"]), inner),
        filled("device({}).{}({})", DIDS, SERVICES, inner),
        filled("device({}).{}(*{})", DIDS, SERVICES, inner),
        filled("device({}).{}(brightness={})", DIDS, SERVICES, inner),
        filled("[{} for x in {}]", inner, inner),
        filled("({} if {} else {})", inner, inner, inner),
        filled("{}[{}]", inner, inner),
        filled("{}.{}", inner, SERVICES),
        filled("[{0}, {1}, {0}]", inner, inner),
    ),
    max_leaves=6,
)


def indented(block: str) -> str:
    return "\n".join("  " + line for line in block.splitlines())


LINES = st.one_of(
    VALUES,
    filled("print({})", VALUES),
    filled("{} = {}", NAMES, VALUES),
    filled("device({}).{} = {}", DIDS, SERVICES, VALUES),
    filled("assert {}", VALUES),
    filled("raise ValueError({})", VALUES),
    of(["import math", "import os", "from json import dumps", "pass", "return 1", "break", "yield 1", "1 / 0", "del x"]),
)
BLOCKS = st.recursive(
    LINES,
    lambda inner: st.one_of(
        st.lists(inner, min_size=1, max_size=4).map("\n".join),
        filled("for x in {}:\n{}", VALUES, inner.map(indented)),
        filled("while {}:\n{}", VALUES, inner.map(indented)),
        filled("if {}:\n{}", VALUES, inner.map(indented)),
        filled("def f(x=0):\n{}\nf()", inner.map(indented)),
        filled("try:\n{}\nexcept {}:\n{}", inner.map(indented), of(["Exception", "x"]), inner.map(indented)),
        filled("try:\n{}\nfinally:\n{}", inner.map(indented), inner.map(indented)),
        filled("match {}:\n  case {}:\n{}", VALUES, ATOMS, inner.map(indented).map(indented)),
    ),
    max_leaves=6,
)
EDITS = st.lists(st.tuples(st.floats(0, 1), of(["cut", "put", "twice"]), st.binary(max_size=3)), max_size=4)


def mutated(text: str, edits: list[tuple[float, str, bytes]]) -> str:
    """The text with some of its bytes cut, replaced or repeated."""
    data = text.encode(errors="surrogatepass")
    for share, kind, junk in edits:
        at = int(share * len(data))
        data = data[:at] + {"cut": b"", "put": junk, "twice": data[at : at + 8] * 2}[kind] + data[at + 1 :]
    return data.decode(errors="surrogateescape" if len(data) % 2 else "replace")


def play(code: str) -> None:
    """Run a snippet and prove what holds of every one."""
    home = HOME.fork()
    result = run_code(code, home, LIMITS)
    assert type(result) is RunResult and not (result.refusal and result.error)
    assert len(result.output) <= LIMITS.output + 4 and len(result.error or "") <= LIMITS.output + 100
    assert result.refusal is None or result.refusal.rule in RULES
    assert "Traceback" not in f"{result}" and "_Bridge" not in f"{result}"
    for slot, value in zip(home.plan.slots, home.values):
        assert slot.type.check_value(value) == value, "only what a device allows"
    again = HOME.fork()
    if result.refusal is None or result.refusal.rule not in ("time_limit", "memory_limit"):
        assert str(run_code(code, again, LIMITS)) == str(result) and again.state_key() == home.state_key()


@fuzz
@given(BLOCKS)
def test_snippets_of_a_grammar_give_a_result(code):
    play(code)


@fuzz
@given(st.builds(mutated, BLOCKS, EDITS))
def test_mutated_snippets_give_a_result(code):
    play(code)


@fuzz
@given(st.text(max_size=60))
def test_any_text_gives_a_result(code):
    play(code)


@fuzz
@given(DIDS, SERVICES, VALUES)
def test_a_refused_call_changes_nothing(did, service, value):
    home = HOME.fork()
    result = run_code(f"device({did}).{service}({value})", home, LIMITS)
    nested = "device" in value  # the argument is worked out first, and may act
    assert nested or result.refusal is None or home.state_key() == HOME.state_key()
    follow = run_code(f"try:\n  device('9')\nexcept Exception:\n  pass\ndevice({did}).{service}({value})", home, LIMITS)
    assert follow.refusal is not None


@fuzz
@given(st.dictionaries(of(["name", "code", "did", "room", "x"]), VALUES | st.none() | st.integers(), max_size=3))
def test_a_step_never_raises(action):
    env = HomeEnv(HOME)
    for name in (action.get("name"), "pyexec", "query_status", "query_spec"):
        observation, reward, terminated, _, info = env.step({**action, "name": name})
        assert isinstance(observation, str) and observation and (reward, terminated) == (0.0, False)
        assert info["blocked"] is None or info["blocked"]["rule"] in RULES


OPERATORS = of(["+", "*", "/", "%", "**", "<<", "@", "<", "==", "in", "not in", "is", "and", "or"])
CALLED = of(["abs", "min", "max", "len", "any", "all", "-", "not ", "~", "eval", "device", "device('1001')"])
CONDITIONS = st.recursive(
    of(["device('1001').state", "device('1001').brightness", "room('living room').temperature", "home.humidity", "home",
        "device('9').x", "device(1)", "device", "room('x')", "1", "'on'", "()", "1j", "b'x'", "...", "None", "f'{1}'",
        "f\"\"\"{'''\n'''}\"\"\"", "x", "lambda: 0", "[1][0]", "{1: 2}", "{1}", "*x", "(yield)", "(x := 1)", "'%9d'"]),
    lambda inner: st.one_of(
        filled("({} {} {})", inner, OPERATORS, inner),
        filled("{}({})", CALLED, inner),
        filled("({} if {} else {})", inner, inner, inner),
        filled("({}, {})", inner, inner),
        filled("{}.{}", inner, of(["state", "brightness", "__class__", "real"])),
        filled("[{} for x in {}]", inner, inner),
        filled("f'{{{}}}'", inner),
        filled("{}(key={})", of(["min", "device"]), inner),
    ),
    max_leaves=8,
)  # fmt: skip


def holds_or_is_wrong(text: str) -> None:
    before = HOME.state_key()
    try:
        condition = compile_condition(text, HOME.plan)
    except ConditionError as error:
        assert error.what and error.remedy
    else:
        assert condition.holds_in(HOME) in (True, False)
        assert all(isinstance(slot, int) for slot in condition.slots)
    assert HOME.state_key() == before


@fuzz
@given(CONDITIONS)
def test_malformed_conditions_of_a_grammar(text):
    holds_or_is_wrong(text)


@fuzz
@given(st.builds(mutated, CONDITIONS, EDITS) | st.text(max_size=40))
def test_mutated_conditions(text):
    holds_or_is_wrong(text)


@pytest.mark.parametrize(
    "text",
    [
        "device('1001').state == f\"\"\"{'''\n'''}\"\"\"", "-" * 5000 + "1", "(" * 500, "1" * 5000, "1 if " * 300,
        "device('1001').state == (" + "1, " * 5000 + ")", "device('1001')" + ".x" * 3000, "not " * 3000 + "x",
        "", " ", "#", "\0", "\ud800", "f\"\"\"{'''\x01'''}\"\"\".brightness",
    ],
)  # fmt: skip
def test_conditions_of_odd_shapes(text):
    holds_or_is_wrong(text)


def test_the_grammar_reaches_both_sides():
    """The productions would prove little if all that they make were refused, or none."""
    seen = set()

    @settings(max_examples=300, deadline=None, database=None, derandomize=True)
    @given(BLOCKS)
    def look(code: str) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = run_code(code, HOME.fork(), LIMITS)
        seen.add(result.refusal.rule if result.refusal else "error" if result.error else "fine")

    look()
    assert {"fine", "error", "restricted_code", "unknown_device", "read_only"} <= seen
