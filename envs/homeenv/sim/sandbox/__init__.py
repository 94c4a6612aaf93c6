"""Runs agent code in Monty worker processes (`workers.py`) with limits.

Invariants:
- Code reaches nothing of the host but `device(did)`, whose attributes it may read and whose services it may call.
- After a refusal the code stops at its next request to the home. It cannot catch the refusal and go on. The calls before
  the refusal keep their effect.
- The host reads no data of the code that could take unbounded time. It reads no results, only those arguments that
  `border.py` allows, and errors and printed text up to a maximal length.
"""

from __future__ import annotations

import ast
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
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

from homerl.envs.core.world import WorldError
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.sandbox import call_arguments as border
from homerl.envs.homeenv.sim.sandbox.worker_pool import SandboxWorkers
from homerl.envs.homeenv.sim.values.auditor import Refused, audit_code
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value

TOO_SLOW = "the code of a message may not run so long"  # not how long it ran: the same code is told the same each time


@dataclass(frozen=True)
class Limits:
    """The limits of one snippet.

    `seconds` of execution, `memory` in bytes, `calls` to the host, `output` in printed characters, and `code` in characters.
    All snippets of one message may take `message` seconds, and none comes after one that has used its own up.
    """

    seconds: float = 1.0
    message: float = 3.0
    memory: int = 64 << 20
    calls: int = 300
    output: int = 4000
    code: int = 20_000


@dataclass(frozen=True)
class RunResult:
    """The result of a snippet: its printed text, and the refusal or the error (as text) that stopped it, if any.

    `worded` says that the text tells of the refusal already. `seconds` are those of the clock that code took.
    """

    output: str
    refusal: Refused | None = None
    error: str | None = None
    worded: bool = False
    seconds: float = field(default=0.0, compare=False, repr=False)  # no part of what the code did


def run_code(code: str, home: Home, limits: Limits = Limits()) -> RunResult:
    """Run a snippet on `home`. Refusals and errors of the code are returned, and that it crashes the sandbox each time.

    Raises `WorldError` if the sandbox fails otherwise.
    """
    try:
        if len(code) > limits.code:  # before the host parses it
            raise Refused("code_limit", f"the code has {len(code)} characters, more than {limits.code}")
        if limits.seconds <= 0:
            raise Refused("time_limit", TOO_SLOW)
        nodes = audit_code(code)
    except Refused as refused:
        return RunResult("", _short_refusal(refused))
    before = home.fork()
    try:
        return _run_in_worker(_Run(code, home, nodes), limits)
    except _Crashed as crashed:
        try:
            _run_in_worker(_Run(code, before, nodes), limits)
        except _Crashed:
            return RunResult("", _short_refusal(Refused("restricted_code", "the code crashes the sandbox")))
        raise WorldError(f"the sandbox crashed: {crashed}") from crashed


class _Crashed(Exception):
    """A worker died while it ran a snippet."""


def _run_in_worker(run: _Run, limits: Limits) -> RunResult:
    """Run a snippet in a worker. Raises `WorldError` if there is none, and `_Crashed` if it dies."""
    printed = CollectString(max_bytes=_most_bytes(limits))
    begun = time.monotonic()
    # The home's clock is the clock and the random seed of the snippet, so the same snippet always prints the same.
    now = datetime.fromtimestamp(run.home.clock, UTC)
    deterministic: OSPolicy = {"datetime": now, "sleep": "zero", "random_start": {"seed": run.home.clock}}
    try:
        with _pool().checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_suspensions": limits.calls,
            },
            os_policy=deterministic,
        ) as session:
            begun = time.monotonic()  # no code waits for a worker on its own time
            run.answer_requests(session, printed)
        refusal, error = run.refusal or _flood_refusal(printed, limits), None
    except (MontyDisconnectError, MontyShutdown, OSError, RuntimeError) as gone:
        raise WorldError(f"the sandbox is gone: {gone}") from gone
    except MontyError as failed:
        if isinstance(failed, MontyCrashedError) and not failed.timed_out:
            raise _Crashed(str(failed)) from failed
        refusal = run.refusal or _flood_refusal(printed, limits, str(failed)) or _limit_refusal(failed)
        refusal = _short_refusal(refusal) if refusal else None
        error = None if refusal else _clip_output(_error_text(failed, run.above), limits.output)
    return RunResult(_clip_output(printed.output, limits.output), refusal, error, seconds=time.monotonic() - begun)


class _Run:
    """One run of a snippet: answers its requests to the home, and keeps the first refusal."""

    def __init__(self, code: str, home: Home, nodes: list[ast.AST]) -> None:
        self.home = home
        self.refusal: Refused | None = None
        self._flattened = border.find_flattened_services(nodes, home.plan)
        prelude = "" if self._flattened is None else border.PRELUDE
        self._source = f"{prelude}{code}\nNone".encode()  # `None`: the last line's value would be copied to the host
        self._function = {border.ASK if prelude else "device": _unread}
        self._ours, self.above = len(prelude), prelude.count("\n")  # characters and lines of the prelude
        self._paths: dict[UUID, tuple[str, str]] = {}  # (did, prefix) of every part that the snippet has got

    def answer_requests(self, session: MontySession, printed: CollectString) -> None:
        """Answer one request of the snippet after the other, until it ends or a request is refused."""
        snapshot = session.feed_start(self._source.decode(), inputs=self._function, print_callback=printed)
        while self.refusal is None and not isinstance(snapshot, MontyComplete):
            if not isinstance(snapshot, FunctionSnapshot):
                snapshot = snapshot.resume_auto()  # the lookup of an attribute or an unknown name
            elif snapshot.is_os_function:
                snapshot = snapshot.resume_not_handled()
            else:
                snapshot = snapshot.resume(self._answer_call(snapshot))

    def _answer_call(self, call: FunctionSnapshot) -> ExternalResult:
        """The answer to a call. Its arguments are read last, and only if they are known to be harmless."""
        try:
            if call.object_id is not None:
                self._call_service(call, *self._paths[call.object_id])
                return {"return_value": None}
            if call.function_name != "device":
                return {"exc_type": "NameError", "message": f"name '{call.function_name}' is not defined"}
            if self._ours:
                return {"return_value": self._answer_prelude(call)}
            return {"return_value": self.make_host_object(self._checked_did(*self._literal_arguments(call)))}
        except Refused as refusal:
            return {"exception": self.keep_refusal(refusal)}

    def _call_service(self, call: FunctionSnapshot, did: str, prefix: str) -> None:
        path = prefix + call.function_name
        if path in self.home.plan.devices_by_did[did].spec.service_index:
            self.home.call(did, path, *self._literal_arguments(call))
        else:
            self.home.call(did, path)  # raises the refusal of an unknown service

    def _answer_prelude(self, call: FunctionSnapshot) -> Whole | None:
        """The answer to a call from the prelude: a device, or None after the call of a service."""
        if call.position.end > self._ours:
            raise Refused("restricted_code", "the home is reached by device(did) alone")
        did, path, text = call.args
        if did:
            self.home.call(did, path, *border.read_flat_arguments(text))
            return None
        if len(text) > border.LONGEST:
            raise Refused("unknown_device", "there is no device of so long an id")
        return self._device_for_prelude(self._checked_did(*border.read_flat_arguments(text)))

    def _literal_arguments(self, call: FunctionSnapshot) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, refused unless the source text shows that all of them are short literals."""
        text = self._source[call.position.start : call.position.end].decode()
        if len(text) > border.SPAN or not border.is_call_of_literals(text, call.function_name):
            raise Refused("restricted_code", f"the call of {quote_value(call.function_name)} is too long")
        return call.args, call.kwargs

    def _checked_did(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        if len(args) + len(kwargs) > 1 or kwargs.keys() - {"did"}:
            raise Refused("unknown_argument", "device(did) takes a device id and nothing else")
        did = next(iter((*args, *kwargs.values())), None)
        if not isinstance(did, str) or did not in self.home.plan.devices_by_did:
            raise Refused("unknown_device", f"there is no device {quote_value(did)}")
        return did

    def _device_for_prelude(self, did: str) -> Whole:
        """A device for the prelude, with those of its services, by component, that the prelude must replace."""
        flattened = self._flattened or set()
        by_component: dict[str, list[tuple[str, str]]] = {}
        for path in self.home.plan.devices_by_did[did].spec.service_index:
            component, _, name = path.rpartition(".")
            if name in flattened:
                by_component.setdefault(component, []).append((path, name))
        parts = [
            (name, self.make_host_object(did, f"{name}.") if name else None, services)
            for name, services in by_component.items()
        ]
        return did, self.make_host_object(did), parts

    def make_host_object(self, did: str, prefix: str = "") -> _Part:
        """A new object for the snippet that stands for a device, or for its component at `prefix`."""
        part = _Part(self, did, prefix)
        self._paths[part.id] = did, prefix
        return part

    def keep_refusal(self, refusal: Refused) -> Refused:
        """Keep the refusal as the reason why the run stops, and return it to be raised."""
        self.refusal = _short_refusal(refusal)
        return refusal


# What the prelude gets for a device: its id, its object, and a list. For each component with services to replace, the list
# has the component's name ("" for the device), its object (None for the device) and (path, name) of these services.
Whole = tuple[str, "_Part", list[tuple[str, "_Part | None", list[tuple[str, str]]]]]


def _unread() -> None:
    """A placeholder for the only host function. It is never run: `_Run` answers the calls."""


_unread.__name__ = "device"  # the name that agents use


def _short_refusal(refusal: Refused) -> Refused:
    """A short copy of a refusal that is never raised: a traceback would keep the session and all arguments alive."""
    return Refused(refusal.rule, _clip_output(refusal.message, 900))


class device:  # the name that agents see in error messages
    """The empty value behind each host object."""

    __slots__ = ()


_VALUE = device()
_CLASS = ClassType(device)


class _Part(ClassInstance):
    """A device or one of its components, as the sandbox sees it. `_Run` answers its calls."""

    def __init__(self, run: _Run, did: str, prefix: str) -> None:
        super().__init__(_VALUE, class_type=_CLASS)
        self._run, self._did, self._prefix = run, did, prefix

    def lookup_lazy_attrs(self, name: str) -> Any:
        """The value of an attribute, or the object of a component. Monty calls this method for each name."""
        home, path = self._run.home, self._prefix + name
        spec = home.plan.devices_by_did[self._did].spec
        if any(component.name == path for component in spec.components):
            return self._run.make_host_object(self._did, f"{path}.")
        try:
            return home.read_value(self._did, path)
        except Refused as unknown:
            uncalled = Refused("unknown_attribute", f"{path} is a service of {self._did}: call it")
            raise self._run.keep_refusal(uncalled if path in spec.service_index else unknown) from None


_WORKERS = SandboxWorkers()


def _pool() -> Monty:
    """The pool of workers of this process."""
    return _WORKERS.started_pool()


def _most_bytes(limits: Limits) -> int:
    """The size (bytes) of the collector of printed text. Text that does not fit exceeds the limit in characters."""
    return 4 * (limits.output + 1)


def _flood_refusal(printed: CollectString, limits: Limits, error: str = "") -> Refused | None:
    """The refusal for too much printed text. A full collector is reported as a lack of memory, so it needs this check."""
    if len(printed.output) > limits.output or error.endswith(f"> {_most_bytes(limits)} bytes"):
        return Refused("output_limit", f"printed more than {limits.output} characters")
    return None


def _limit_refusal(error: MontyError) -> Refused | None:
    """The refusal for code that was stopped by a limit or has a syntax error; None for any other error."""
    if isinstance(error, MontyCrashedError):
        return Refused("time_limit", TOO_SLOW)
    if isinstance(error, MontySyntaxError):
        return Refused("syntax", error.display(format="msg"))
    text = error.display(format="type-msg") if isinstance(error, MontyRuntimeError) else str(error)
    for start, rule in (
        ("TimeoutError: feed time limit exceeded", "time_limit"),
        ("MemoryError: memory limit exceeded", "memory_limit"),
        ("MemoryError: the worker exceeded", "memory_limit"),
        ("RuntimeError: suspension limit ", "call_limit"),
    ):  # compares messages, since a snippet may raise errors of the same types
        if text.startswith(start):
            return Refused(rule, TOO_SLOW if rule == "time_limit" else text)
    return None


def _error_text(error: MontyError, above: int) -> str:
    """The text of an error in the snippet, with its innermost line. `above` is the number of lines of the prelude."""
    frames = error.traceback() if isinstance(error, MontyRuntimeError) else []
    lines = [frame.line - above for frame in frames if frame.line > above]
    line = f"line {lines[-1]}: " if lines else ""
    if isinstance(error, (MontyRuntimeError, MontySyntaxError)):
        return line + error.display(format="type-msg")
    return line + str(error)


def _clip_output(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."
