"""What a stranger's device file may cost: types, service code and conditions are bounded before anything runs."""

import textwrap

import pytest

from homerl.envs.homeenv.maker.make import make_home
from homerl.envs.homeenv.sim.conditions import ConditionError, compile_condition
from homerl.envs.homeenv.sim.devices.device_lint import MOST, TrialBudget, find_dead_services, lint_device_files
from homerl.envs.homeenv.sim.devices.device_spec import MOST_NAMES, NAMED, SHIPPED, Catalogue
from homerl.envs.homeenv.sim.devices.expression_cost import MOST_STEPS, bounds_by_name, steps_of_call
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import DEEPEST, MOST_UNITS, ValueType, count_units

DIGITS = "{type: int, range: [0, 9]}"
NUMBER = f"name: z, {DIGITS[1:-1]}"
LIST = f"name: l, type: list, range: [0, 10000], items: [{DIGITS}]"
LISTS = f"name: n, type: list, items: [{{type: list, items: [{DIGITS}]}}]"
GROWN = "self.l = [1, 1]\n" + "self.l = self.l + self.l\n" * 12  # 8192 items
NEVER = "self.z = 1 % (self.z - self.z)"


def a_list(items: str, times: int, low: int = 0) -> str:
    for _ in range(times):
        items = f"{{type: list, range: [{low}, 10000], items: [{items}]}}"
    return f"name: n, {items[1:-1]}"


def replaced(times: int) -> str:
    return "self.l = " + "replaced(" * times + "self.l" + ", 1, 1)" * times


def device(*attributes: str, code: str = "self.z = self.z", services: int = 1) -> str:
    """The text of a device file: line 3 has the key `attributes`, and each attribute a line of its own."""
    listed = "\n".join(f"    - {{{attribute}}}" for attribute in (NUMBER, *attributes))
    named = "".join(
        f"    - name: s{i}\n      description: x\n      code: |-\n{textwrap.indent(code, ' ' * 8)}\n"
        for i in range(services)
    )
    return f'- name: dx\n  userdata: {{category: light, spid: "900777"}}\n  attributes:\n{listed}\n  services:\n{named}'


@pytest.mark.parametrize(
    ("text", "line", "says"),
    [
        (device(a_list(DIGITS, 3, low=9000)), 5, "the smallest value has 81,009,001 parts"),
        (device(a_list("{type: str, range: [9000, 10000]}", 1, low=9000)), 5, "the smallest value has 8,109,001 parts"),
        (device(a_list(DIGITS, DEEPEST + 1)), 5, f"{DEEPEST + 1} levels of items"),
        (device(*(f"name: z{i}, type: int" for i in range(MOST_NAMES))), 3, f"has {MOST_NAMES + 2} attributes and services"),
        (device(LIST, code=GROWN + "\n".join([replaced(70)] * 39)), 9, "service 's0' may take"),
        (device(LIST, LISTS, code=GROWN + "self.n = [self.l]\n" + "self.n = self.n + self.n\n" * 13), 10, "may take"),
        (
            device(LIST, *(f"name: d{i}, type: int, derived: {'len(self.l + self.l) + ' * 9}1" for i in range(9))),
            3,
            "by itself",
        ),
    ],
)
def test_what_would_cost_too_much_is_refused_with_its_line(tmp_path, text, line, says):
    (tmp_path / "dx.yaml").write_text(text)
    errors = [found for found in lint_device_files(tmp_path).findings if not found.warning]
    assert says in errors[-1].what and errors[-1].where == f"{tmp_path / 'dx.yaml'}:{line}"


@pytest.mark.long
def test_code_below_the_limit_is_tried_less_and_the_check_says_so(tmp_path):
    (tmp_path / "dx.yaml").write_text(device(LIST, code=f"{GROWN}{replaced(45)}\n{NEVER}", services=20))
    report = lint_device_files(tmp_path)
    said = [finding for finding in report.findings if "did not succeed in" in finding.what]
    assert report.specs and len(said) == 20 and "a call may take" in said[0].what and ":7" in said[0].where


def test_the_trials_of_a_check_end_with_its_budget_and_plain_code_is_tried_as_often_as_ever():
    budget = TrialBudget()
    for name, tried in (("dear", 0), ("cheap", MOST)):
        left = budget.left
        made = sum(1 for _ in budget.spend_on_trials(left if name == "dear" else 250))
        assert made == tried and budget.left == left - 250 * tried
    assert sum(1 for _ in TrialBudget(left=1000).spend_on_trials(250)) == 4


@pytest.mark.parametrize("folder", [SHIPPED, *NAMED.values()])
def test_shipped_services_stay_far_below_the_limit_and_their_trials_far_below_the_budget(folder):
    budget = TrialBudget()
    for spec in Catalogue.load_folders(folder).values():
        for _, part in spec.parts_by_prefix():
            assert not list(find_dead_services(part, budget))
            for service in part.services:
                steps = steps_of_call(
                    service, part.attributes, bounds_by_name(part.attributes), bounds_by_name(service.arguments)
                )
                assert steps < MOST_STEPS / 10
    assert budget.left > 0.9 * TrialBudget.left


def test_a_value_of_lists_in_lists_is_bounded_as_a_whole():
    row = ValueType(type="list", items=(ValueType(type="int"),))
    table = ValueType(type="list", items=(row,))
    assert count_units(table.check_value([[1] * 1000] * 20)) <= MOST_UNITS
    with pytest.raises(Refused, match="holds too much"):
        table.check_value([[1] * 10_000] * 10_000)
    endless: list[object] = []
    endless += [endless] * 9
    with pytest.raises(Refused, match="out_of_range"):
        ValueType(type="list", items=(table,)).check_value(endless)


def test_a_condition_that_compares_beyond_measure_is_refused():
    home = make_home(3)
    did = home.plan.devices[0].did
    path = next(iter(home.plan.devices[0].spec.attribute_index))
    reads, listed = f'device("{did}").{path}', ", ".join(map(str, range(4000)))
    assert compile_condition(f"{reads} in ({listed})", home.plan).slots
    with pytest.raises(ConditionError, match="may take"):
        compile_condition(f"{reads} == " * 600 + f"({listed})", home.plan)
