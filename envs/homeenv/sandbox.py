"""Agent code, run in Monty worker processes (`workers.py`) with limits.

Invariants: code reaches nothing of the host but `device(did)`, whose attributes it may read and whose services it may
call; code that was refused stops where it next asks for the home, so it cannot catch a refusal and go on, and the calls
before the refusal stand. The host reads nothing that code made and that could take it without end: no results, no
arguments but those that `border.py` lets through, and errors and printed text only up to a length.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from pydantic_monty import (
    ClassInstance,
    ClassType,
    CollectString,
    ExternalResult,
    FunctionSnapshot,
    Monty,
    MontyComplete,
    MontyCrashedError,
    MontyDisconnectError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontyShutdown,
    MontySyntaxError,
    OSPolicy,
)

from envs.homeenv import border
from envs.homeenv.audit import Refused, audit_code
from envs.homeenv.home import Home
from envs.homeenv.types import shown
from envs.homeenv.workers import Workers
from envs.world import WorldError


@dataclass(frozen=True)
class Limits:
    """What one snippet may use: seconds of execution, bytes, host calls, characters printed, characters of code."""

    seconds: float = 1.0
    memory: int = 64 << 20
    calls: int = 300
    output: int = 4000
    code: int = 20_000


@dataclass(frozen=True)
class RunResult:
    """What a snippet printed, and why it stopped early, if it did."""

    output: str
    refusal: Refused | None = None
    error: str | None = None


def run_code(code: str, home: Home, limits: Limits = Limits()) -> RunResult:
    """Run a snippet against `home`. Refusals and errors are returned; `WorldError` if the sandbox itself failed."""
    try:
        if len(code) > limits.code:  # before the host parses it
            raise Refused("code_limit", f"the code has {len(code)} characters, more than {limits.code}")
        nodes = audit_code(code)
    except Refused as refused:
        return RunResult("", _kept(refused))
    run = _Run(code, home, nodes)
    printed = CollectString(max_bytes=_most_bytes(limits))
    try:
        with _pool().checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_suspensions": limits.calls,
            },
            os_policy=_deterministic(home),
        ) as session:
            run.drive(session, printed)
    except (MontyDisconnectError, MontyShutdown, OSError, RuntimeError) as error:
        raise WorldError(f"the sandbox is gone: {error}") from error
    except MontyError as error:
        if isinstance(error, MontyCrashedError) and not error.timed_out:
            raise WorldError(f"the sandbox crashed: {error}") from error
        refusal = run.refusal or _flood(printed, limits, str(error)) or _limit_refusal(error)
        refusal = _kept(refusal) if refusal else None
        text = None if refusal else _clip(_error(error, run.above), limits.output)
        return RunResult(_clip(printed.output, limits.output), refusal, text)
    return RunResult(_clip(printed.output, limits.output), run.refusal or _flood(printed, limits))


class _Run:
    """One run of a snippet: answers what it asks of the home, and remembers the first refusal."""

    def __init__(self, code: str, home: Home, nodes: list[ast.AST]) -> None:
        self.home = home
        self.refusal: Refused | None = None
        self._flattened = border.flattened(nodes, home.plan)
        prelude = "" if self._flattened is None else border.PRELUDE
        self._source = f"{prelude}{code}\nNone".encode()  # a value in the last line would be copied, however large
        self._function = {border.ASK if prelude else "device": _unread}
        self._ours, self.above = len(prelude), prelude.count("\n")  # what of the source is not the snippet's
        self._paths: dict[UUID, tuple[str, str]] = {}  # of all parts handed out: device, prefix

    def drive(self, session: MontySession, printed: CollectString) -> None:
        """From one question of the snippet to the next, until its end or the first refusal."""
        snapshot = session.feed_start(self._source.decode(), inputs=self._function, print_callback=printed)
        while self.refusal is None and not isinstance(snapshot, MontyComplete):
            if not isinstance(snapshot, FunctionSnapshot):
                snapshot = snapshot.resume_auto()  # a name: of an attribute, or nobody's
            elif snapshot.is_os_function:
                snapshot = snapshot.resume_not_handled()
            else:
                snapshot = snapshot.resume(self._answer(snapshot))

    def _answer(self, call: FunctionSnapshot) -> ExternalResult:
        """The answer to a call. Its arguments are read last, if they may be read at all."""
        try:
            if call.object_id is not None:
                self._service(call, *self._paths[call.object_id])
                return {"return_value": None}
            if call.function_name != "device":
                return {"exc_type": "NameError", "message": f"name '{call.function_name}' is not defined"}
            return {"return_value": self._asked(call) if self._ours else self.part(self._did(*self._literals(call)))}
        except Refused as refusal:
            return {"exception": self.refuse(refusal)}

    def _service(self, call: FunctionSnapshot, did: str, prefix: str) -> None:
        path = prefix + call.function_name
        if path in self.home.plan.by_did[did].spec.service_index:
            self.home.call(did, path, *self._literals(call))
        else:
            self.home.call(did, path)  # which refuses it

    def _asked(self, call: FunctionSnapshot) -> Whole | None:
        """The prelude's question for a device, or its call of a service."""
        if call.position.end > self._ours:
            raise Refused("restricted_code", "the home is reached by device(did) alone")
        did, path, text = call.args
        if did:
            self.home.call(did, path, *border.arguments(text))
            return None
        if len(text) > border.LONGEST:
            raise Refused("unknown_device", "there is no device of so long an id")
        return self._whole(self._did(*border.arguments(text)))

    def _literals(self, call: FunctionSnapshot) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call that has none but literals, which its own text must show."""
        text = self._source[call.position.start : call.position.end].decode()
        if len(text) > border.SPAN or not border.of_literals(text, call.function_name):
            raise Refused("restricted_code", f"the call of {shown(call.function_name)} is too long")
        return call.args, call.kwargs

    def _did(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        if len(args) + len(kwargs) > 1 or kwargs.keys() - {"did"}:
            raise Refused("unknown_argument", "device(did) takes a device id and nothing else")
        did = next(iter((*args, *kwargs.values())), None)
        if not isinstance(did, str) or did not in self.home.plan.by_did:
            raise Refused("unknown_device", f"there is no device {shown(did)}")
        return did

    def _whole(self, did: str) -> Whole:
        """A device, as the prelude wants it, and those of its services, by component, that it has to stand in for."""
        flattened = self._flattened or set()
        by_component: dict[str, list[tuple[str, str]]] = {}
        for path in self.home.plan.by_did[did].spec.service_index:
            component, _, name = path.rpartition(".")
            if name in flattened:
                by_component.setdefault(component, []).append((path, name))
        parts = [(name, self.part(did, f"{name}.") if name else None, services) for name, services in by_component.items()]
        return did, self.part(did), parts

    def part(self, did: str, prefix: str = "") -> _Part:
        part = _Part(self, did, prefix)
        self._paths[part.id] = did, prefix
        return part

    def refuse(self, refusal: Refused) -> Refused:
        """The refusal to raise."""
        self.refusal = _kept(refusal)
        return refusal


# A device: its id, itself, and for each component with such services its name, itself (None for the device) and the
# (path, name) pairs of the services.
Whole = tuple[str, "_Part", list[tuple[str, "_Part | None", list[tuple[str, str]]]]]


def _unread() -> None:
    """Stands for the host's one function; `_Run` answers its calls."""


_unread.__name__ = "device"  # as agents know it


def _kept(refusal: Refused) -> Refused:
    """A refusal to keep: short, and never raised, since its traceback would hold the session and all arguments."""
    return Refused(refusal.rule, _clip(refusal.message, 900))


class device:  # the name that agents see in error messages
    """The opaque value behind a host object; it holds nothing."""

    __slots__ = ()


_VALUE = device()
_CLASS = ClassType(device)


class _Part(ClassInstance):
    """A device, or one of its components, as the sandbox sees it; its calls come to `_Run`."""

    def __init__(self, run: _Run, did: str, prefix: str) -> None:
        super().__init__(_VALUE, class_type=_CLASS)
        self._run, self._did, self._prefix = run, did, prefix

    def lookup_lazy_attrs(self, name: str) -> Any:
        home, path = self._run.home, self._prefix + name
        spec = home.plan.by_did[self._did].spec
        if any(component.name == path for component in spec.components):
            return self._run.part(self._did, f"{path}.")
        try:
            return home.get(self._did, path)
        except Refused as unknown:
            uncalled = Refused("unknown_attribute", f"{path} is a service of {self._did}: call it")
            raise self._run.refuse(uncalled if path in spec.service_index else unknown) from None


_WORKERS = Workers()


def _pool() -> Monty:
    """This process's pool of workers."""
    return _WORKERS.pool()


def _deterministic(home: Home) -> OSPolicy:
    """The home's clock and a fixed random state, so that the same snippet gives the same bytes."""
    now = datetime.fromtimestamp(home.clock, UTC)
    return {"datetime": now, "sleep": "zero", "random_start": {"seed": home.clock}}


def _most_bytes(limits: Limits) -> int:
    """The collector's size: whatever does not fit into it is longer than the output may be."""
    return 4 * (limits.output + 1)


def _flood(printed: CollectString, limits: Limits, error: str = "") -> Refused | None:
    """Printing past the collector's end looks like a want of memory: it has its own rule."""
    if len(printed.output) > limits.output or error.endswith(f"> {_most_bytes(limits)} bytes"):
        return Refused("output_limit", f"printed more than {limits.output} characters")
    return None


def _limit_refusal(error: MontyError) -> Refused | None:
    """A worker stopped by a limit is the agent's fault and has a rule."""
    if isinstance(error, MontyCrashedError):
        return Refused("time_limit", "the code was stopped")
    if isinstance(error, MontySyntaxError):
        return Refused("syntax", error.display(format="msg"))
    text = error.display(format="type-msg") if isinstance(error, MontyRuntimeError) else str(error)
    for start, rule in (
        ("TimeoutError: feed time limit exceeded", "time_limit"),
        ("MemoryError: memory limit exceeded", "memory_limit"),
        ("MemoryError: the worker exceeded", "memory_limit"),
        ("RuntimeError: suspension limit ", "call_limit"),
    ):  # the sandbox's own words: a snippet may raise errors of these types itself
        if text.startswith(start):
            return Refused(rule, text)
    return None


def _error(error: MontyError, above: int) -> str:
    """An error of the snippet's, with the innermost of its own lines; `above` is how many lines of ours come first."""
    frames = error.traceback() if isinstance(error, MontyRuntimeError) else []
    lines = [frame.line - above for frame in frames if frame.line > above]
    line = f"line {lines[-1]}: " if lines else ""
    if isinstance(error, (MontyRuntimeError, MontySyntaxError)):
        return line + error.display(format="type-msg")
    return line + str(error)


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."
