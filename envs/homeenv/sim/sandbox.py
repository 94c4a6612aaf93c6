"""Runs agents' code, which the tool `pyexec` brings, in Monty worker processes with limits.

Invariants:
- Code reaches nothing of the host but `device(did)`, whose attributes it may read and whose services it may call.
- After a refusal the code stops at its next request to the home. It cannot catch the refusal and go on. The calls before
  the refusal keep their effect.
- The host reads no data of the code that could take unbounded time. It reads no results, only those arguments that are
  known to be harmless (see `PRELUDE`), and errors and printed text up to a maximal length.
- A process has at most one pool of workers. Its threads share the pool, which starts on first use.
- A process that was forked after its parent had started a pool has none: threads and locks do not survive a fork.
"""

from __future__ import annotations

import ast
import atexit
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from functools import lru_cache
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

from homerl.envs.core.restricted_python import restricted_uses
from homerl.envs.core.world import WorldError
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.envs.homeenv.sim.toolset import Limits, RunResult, Tool
from homerl.envs.homeenv.sim.values.auditor import Refused, parse_python
from homerl.envs.homeenv.sim.values.types_and_ranges import quote_value

TOO_SLOW = "the code of a message may not run so long"  # not how long it ran: the same code is told the same each time


PYEXEC = Tool(
    "pyexec",
    'Run Python against the home. device("<did>") gives a device: read its attributes, '
    "call its services; print what you want to see.",
    {"code": "a Python snippet"},
    ("code",),
    lambda home, arguments, limits: run_code(arguments["code"], home, limits),
)


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


def audit_code(code: str) -> list[ast.AST]:
    """The nodes of a snippet's syntax tree, which is read and not run.

    Raises `Refused` if the snippet does not parse (`syntax`), assigns to an attribute (`read_only`), or uses Python that
    agents may not use (`restricted_code`).
    """
    try:
        nodes = list(ast.walk(parse_python(code)))
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        line = getattr(error, "lineno", None)
        raise Refused("syntax", f"the code does not parse{f' (line {line})' if line else ''}: {error}") from None
    for node in nodes:
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            raise Refused("read_only", f"line {node.lineno}: '{node.attr}' cannot be assigned; call a service instead")
    if uses := restricted_uses(nodes):
        raise Refused("restricted_code", f"{uses[0]} is not allowed in agent code")
    return nodes


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
        with _started_pool().checkout(
            limits={"max_feed_duration_secs": limits.seconds, "max_memory": limits.memory, "max_suspensions": limits.calls},
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
        self._flattened = find_flattened_services(nodes, home.plan)
        prelude = "" if self._flattened is None else PRELUDE
        self._source = f"{prelude}{code}\nNone".encode()  # `None`: the last line's value would be copied to the host
        self._function = {ASK if prelude else "device": _unread}
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
            self.home.call(did, path, *read_flat_arguments(text))
            return None
        if len(text) > LONGEST:
            raise Refused("unknown_device", "there is no device of so long an id")
        return self._device_for_prelude(self._checked_did(*read_flat_arguments(text)))

    def _literal_arguments(self, call: FunctionSnapshot) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call, refused unless the source text shows that all of them are short literals."""
        text = self._source[call.position.start : call.position.end].decode()
        if len(text) > SPAN or not is_call_of_literals(text, call.function_name):
            raise Refused("restricted_code", f"the call of {quote_value(call.function_name)} is too long")
        return call.args, call.kwargs

    def _checked_did(self, args: Sequence[Any], kwargs: dict[str, Any]) -> str:
        if len(args) + len(kwargs) > 1 or kwargs.keys() - {"did"}:
            raise Refused("unknown_argument", "device(did) takes a device id and nothing else")
        did = next(iter((*args, *kwargs.values())), None)
        return self.home.plan.find_device(did).did

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


# How the arguments of service calls pass from the sandbox to the host
#
# When the host reads the arguments of a call, it builds Python objects from them. The sandbox's limits do not bound that
# work: hashing keys that share their parts, or whose hashes collide, may never end. So the host reads a call directly only
# if its source text has nothing but short literals between its brackets. The arguments of any other call arrive as one JSON
# text of at most `LONGEST` characters, which the prelude makes inside the sandbox, within the sandbox's limits.

ASK = "__device"  # the only host function that the prelude calls; the auditor refuses code that names it
LONGEST = 100_000  # most characters of the arguments of a call; texts that homes accept are far shorter
SHORT = 500  # most characters of the literals of a call that is read directly
SPAN = 2000  # most characters of the source text of such a call, including the expression that is called
OPAQUE = object()  # stands for an argument that JSON cannot express
_MARK = {"": None}  # how such an argument is written in JSON

# Defines `device` for snippets that call services with other arguments than literals. It gives the same objects, but the
# services that are called in this way are replaced by functions of this code. The code binds every name that it needs as a
# local one, because the snippet may rebind global names later.
PRELUDE = f"""\
def __make(ask, setattr, isinstance, int, error):
    from json import dumps
    def plain(value):
        try:
            dumps(value)
        except error:
            return 10**100 if isinstance(value, int) else {_MARK}
        return value
    def flat(args, kwargs):
        try:
            text = dumps([args, kwargs])
        except error:
            text = dumps([[plain(value) for value in args], {{name: plain(kwargs[name]) for name in kwargs}}])
        return text[:{LONGEST + 1}]
    def service(did, path):
        def call(*args, **kwargs):
            ask(did, path, flat(args, kwargs))
        return call
    def device(*args, **kwargs):
        did, whole, parts = ask("", "", flat(args, kwargs))
        for name, part, services in parts:
            for path, service_name in services:
                setattr(part or whole, service_name, service(did, path))
            if name:
                setattr(whole, name, part)
        return whole
    return device
device = __make({ASK}, setattr, isinstance, int, Exception)
"""


def find_flattened_services(nodes: Iterable[ast.AST], plan: FixedPlan) -> set[str] | None:
    """The names of the services that a snippet calls with other arguments than literals.

    `nodes` are the nodes of the snippet's syntax tree. The result is None if the snippet does not need the prelude.
    """
    methods: set[str] = set()
    loose = 0  # uses of `device` other than calls with literals
    for node in nodes:
        if isinstance(node, ast.Name) and node.id == "device":
            loose += 1
        elif isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name):
                loose -= int(node.func.id == "device" and _has_short_literals(node))
            elif isinstance(node.func, ast.Attribute) and not _has_short_literals(node):
                methods.add(node.func.attr)
    if methods:
        specs = {id(device.spec): device.spec for device in plan.devices}
        methods.intersection_update(path.rpartition(".")[2] for spec in specs.values() for path in spec.service_index)
    return methods if methods or loose else None


@lru_cache(1000)
def is_call_of_literals(text: str, name: str) -> bool:
    """Whether a source text is a call of something of this name, with short literals only."""
    try:
        call = parse_python(f"({text})", mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    if not isinstance(call, ast.Call):
        return False
    called = {ast.Name: "id", ast.Attribute: "attr"}.get(type(call.func), "")
    return getattr(call.func, called, None) == name and _has_short_literals(call)


def _has_short_literals(call: ast.Call) -> bool:
    """Whether a call has only literals as arguments, of at most `SHORT` characters in all."""
    if not all(word.arg for word in call.keywords):
        return False
    values = [*call.args, *(word.value for word in call.keywords)]
    return sum(map(_literal_length, values)) + sum(len(word.arg or "") for word in call.keywords) <= SHORT


def _literal_length(node: ast.expr) -> float:
    """The approximate number of characters of a literal; infinite for anything else."""
    match node:
        case ast.Constant(value=str() | bytes() as value):
            return len(value)
        case ast.Constant(value=int() as value):
            return 1 + value.bit_length() / 4
        case ast.Constant():
            return 1
        case ast.UnaryOp(operand=ast.Constant() as operand):
            return _literal_length(operand)
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return 2 + sum(map(_literal_length, parts))
    return math.inf


def read_flat_arguments(text: str) -> tuple[list[Any], dict[str, Any]]:
    """The positional and named arguments in a text that the prelude made.

    Raises `Refused` if the text is too long or nested too deeply.
    """
    if len(text) > LONGEST:
        raise Refused("out_of_range", "the arguments are too long")
    try:
        # Python refuses thousands of digits, so the digits are cut. What is left is still too large for any value.
        args, kwargs = json.loads(text, parse_int=lambda digits: int(digits[:100]))
    except RecursionError:
        raise Refused("wrong_type", "the arguments are nested too deep") from None
    return [_replace_mark(value) for value in args], {name: _replace_mark(value) for name, value in kwargs.items()}


def _replace_mark(value: Any) -> Any:
    return OPAQUE if value == _MARK else value


# The worker processes


def make_worker_pool() -> Monty:
    """A pool, not yet started, of up to one worker per core (four at least). Further threads wait for a free worker.

    A worker is replaced after 2000 snippets, because code that fills the memory also fragments it.
    """
    most = max(4, os.cpu_count() or 1)
    return Monty(max_processes=most, request_timeout=30, checkout_timeout=60, max_checkouts_per_worker=2000)


class SandboxWorkers:
    """Holds the pool of the process that first asks for it. `make` makes a pool that is not yet started."""

    def __init__(self, make: Callable[[], Monty] = make_worker_pool) -> None:
        self._make = make
        self._pool: Monty | None = None
        self._owner: int | None = None  # the process that made the pool
        self._making = threading.Lock()

    def started_pool(self) -> Monty:
        """The started pool. Raises `WorldError` in a process that was forked from the owner of the pool."""
        if self._owner not in (None, os.getpid()):
            raise WorldError("this process was forked after its parent had used the sandbox: start it by 'spawn' instead")
        if self._pool is None:
            with self._making:
                if self._pool is None:
                    self._owner = os.getpid()
                    self._pool = self._make().__enter__()
                    atexit.register(self.stop_pool)
        return self._pool

    def stop_pool(self) -> None:
        """Stop the workers. In a forked child, which inherits the exit handler but no workers, this does nothing."""
        if self._pool is not None and self._owner == os.getpid():
            self._pool.__exit__(None, None, None)


_started_pool = SandboxWorkers().started_pool  # of this process
