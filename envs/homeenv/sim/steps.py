"""Makes what a rule does from JSON, and checks it against the home: calls, and steps as a program (`state/program.py`).

Invariant: what was made is executable. Its devices, services and arguments exist, and its expressions compile.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from homerl.envs.homeenv.sim.plan.conditions import Condition, ConditionError, compile_condition
from homerl.envs.homeenv.sim.plan.plan import FixedPlan
from homerl.envs.homeenv.sim.state.program import MOST_STEPS, CallStep, DelayStep, JumpStep, SwitchStep, WaitStep
from homerl.envs.homeenv.sim.state.rules import Action, Instruction, Rule
from homerl.envs.homeenv.sim.state.state import bind_call_arguments
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.sim.values.types import quote_value, refuse_lone_surrogates

LONGEST_WAIT = 100 * 366 * 86400  # the most seconds of a delay or hold
FORMS = (  # the keys of a step
    {"did", "locator"},
    {"if", "then"},
    {"repeat", "do"},
    {"while", "do"},
    {"do", "until"},
    {"only_if"},
    {"stop"},
    {"delay"},
    {"wait"},
    {"switch"},
)

Trigger = Callable[[Any], Rule]


def compile_program(steps: Any, plan: FixedPlan, trigger: Trigger) -> tuple[Instruction, ...]:
    """Steps as a program. `trigger` makes what they wait for. Raises `Refused` if a step is invalid."""
    writer = _Writer(plan, trigger)
    writer.write_steps(steps)
    size = len(writer.made)
    return tuple(one(size) for one in writer.made)


class _Writer:
    """Writes instructions, each as a function of the size of the whole, which is where those go that end all."""

    def __init__(self, plan: FixedPlan, trigger: Trigger) -> None:
        self.plan, self.trigger = plan, trigger
        self.made: list[Callable[[int], Instruction]] = []

    def write_steps(self, steps: Any) -> None:
        """Write a list of steps. One that ends the list leads behind it."""
        if not isinstance(steps, Sequence) or isinstance(steps, str):
            raise Refused("wrong_type", "steps are a list")
        ends: list[tuple[int, Condition]] = []
        for step in steps:
            if not isinstance(step, Mapping) or not any(form <= set(step) for form in FORMS):
                raise Refused("wrong_type", f"{quote_value(step)} is no step")
            if "only_if" in step:
                ends.append((self._hole(), compile_rule_condition(check_condition_text(step["only_if"]), self.plan)))
            else:
                self._step(step)
            if len(self.made) > MOST_STEPS:
                raise Refused("out_of_range", f"an automation has at most {MOST_STEPS} steps")
        for place, condition in ends:
            self._fill(place, len(self.made), condition)

    def _step(self, step: Mapping[str, Any]) -> None:
        if "did" in step:
            self._put(self._call(step))
        elif "if" in step:
            self._branch(step)
        elif "repeat" in step:
            if not isinstance(step["repeat"], int) or not 0 <= step["repeat"] <= MOST_STEPS:
                raise Refused("out_of_range", f"steps are repeated 0 to {MOST_STEPS} times")
            for _ in range(step["repeat"]):
                self.write_steps(step["do"])
        elif "do" in step:
            self._loop(step)
        elif "delay" in step:
            self._put(DelayStep(self._duration(step["delay"])))
        elif "wait" in step:
            self._wait(step)
        elif "switch" in step:
            self._put(SwitchStep(tuple(map(str, step["switch"])), step.get("to")))
        else:
            self.made.append(lambda size: JumpStep(size))

    def _put(self, made: Instruction) -> None:
        self.made.append(lambda size: made)

    def _hole(self) -> int:
        """The place of an instruction that is not known yet."""
        self.made.append(lambda size: JumpStep(size))
        return len(self.made) - 1

    def _fill(self, place: int, to: int, unless: Condition | None = None) -> None:
        self.made[place] = lambda size: JumpStep(to, unless)

    def _call(self, step: Mapping[str, Any]) -> CallStep:
        told = {
            name: compile_rule_condition(check_condition_text(text), self.plan)
            for name, text in (step.get("told") or {}).items()
        }
        action = {key: value for key, value in step.items() if key != "told"}
        return CallStep(check_action(self.plan, action, tuple(told)), tuple(told.items()))

    def _branch(self, step: Mapping[str, Any]) -> None:
        unless = self._hole()
        self.write_steps(step["then"])
        done = self._hole() if step.get("else") else None
        self._fill(unless, len(self.made), compile_rule_condition(check_condition_text(step["if"]), self.plan))
        if done is not None:
            self.write_steps(step["else"])
            self._fill(done, len(self.made))

    def _loop(self, step: Mapping[str, Any]) -> None:
        begin = len(self.made)
        unless = self._hole() if "while" in step else None
        self.write_steps(step["do"])
        if unless is None:
            until = compile_rule_condition(check_condition_text(step["until"]), self.plan)
            self._put(JumpStep(begin, until))
        else:
            self._put(JumpStep(begin))
            self._fill(unless, len(self.made), compile_rule_condition(check_condition_text(step["while"]), self.plan))

    def _duration(self, told: Any) -> int | Condition:
        return compile_rule_condition(told, self.plan) if isinstance(told, str) else check_wait_seconds("delay", told)

    def _wait(self, step: Mapping[str, Any]) -> None:
        told, timeout = step["wait"], step.get("timeout")
        until = compile_rule_condition(check_condition_text(told), self.plan) if isinstance(told, str) else None
        triggers = tuple(self.trigger(one) for one in ([{"conditions": [told]}] if until is not None else told))
        late = None if timeout is None else check_wait_seconds("timeout", timeout)
        place = len(self.made) + 1
        self.made.append(lambda size: WaitStep(until, triggers, late, size if step.get("stop") else place))


def check_action(plan: FixedPlan, action: Mapping[str, Any], told: Sequence[str] = ()) -> Action:
    """The action `{did, locator, arguments}` as an `Action`. Its precondition is checked only when it runs.

    Arguments that are `told` later need not be given.

    Raises `Refused` if the device, the service or an argument does not exist, or if a value is invalid.
    """
    if not isinstance(action, Mapping) or not {"did", "locator"} <= set(action) <= {"did", "locator", "arguments"}:
        raise Refused("wrong_type", "an action is {did, locator, arguments}")
    did, locator, arguments = str(action["did"]), str(action["locator"]), action.get("arguments") or {}
    if not isinstance(arguments, Mapping) or not all(isinstance(key, str) for key in arguments):
        raise Refused("wrong_type", "the arguments of an action are an object")
    if did not in plan.devices_by_did:
        raise Refused("unknown_device", f"there is no device {quote_value(did)}")
    if (did, locator) not in plan.compiled_services:
        known = ", ".join(plan.devices_by_did[did].spec.service_index) or "no services"
        raise Refused(
            "unknown_service", f"{plan.devices_by_did[did].name} {did} has no service '{locator}' (it has {known})"
        )
    compiled = plan.compiled_services[did, locator][0]
    if told:
        taken = {one.name: one for one in compiled.service.arguments}
        if unknown := {*told, *arguments} - taken.keys():
            raise Refused("unknown_argument", f"{locator} has no argument {quote_value(min(unknown))}")
        return Action(did, locator, tuple((key, taken[key].check_value(value, key)) for key, value in arguments.items()))
    given = bind_call_arguments(plan, compiled, (), arguments)
    return Action(did, locator, tuple((key, given[key]) for key in arguments))


def compile_rule_condition(text: str, plan: FixedPlan) -> Condition:
    """A compiled condition. Raises `Refused` if it does not compile."""
    try:
        return compile_condition(text, plan)
    except ConditionError as error:
        raise Refused("wrong_type", str(error)) from None


def check_condition_text(condition: Any) -> str:
    """The text of a condition. Raises `Refused` if it is none."""
    if not isinstance(condition, str) or not condition.strip():
        raise Refused("wrong_type", 'a condition is text, such as device("1001").state == "on"')
    return refuse_lone_surrogates(condition.strip())


def check_wait_seconds(name: str, value: float) -> int:
    """A number of seconds as an int; JSON may have written it as 5.0. Raises `Refused` if it is out of range."""
    if not 0 <= value <= LONGEST_WAIT:
        raise Refused("out_of_range", f"{name} is {quote_value(value)}; nothing waits longer than {LONGEST_WAIT} seconds")
    return int(value)
