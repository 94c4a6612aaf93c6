"""Agent code, run in Monty worker processes with limits.

Invariants: nothing of the host is reachable but `device(did)`; its attributes are readable, its services
alone are callable; a snippet that was refused is left where it next asks for the home, so it cannot catch a
refusal and go on; calls before it stand. One pool a process, for all its threads, made on first use; none after a fork.
Known gap: arguments are copied to the host before they can be checked, and no limit bounds that: a dict or set whose
keys are tuples that share their parts, or whose hashes collide, takes the host as long as hashing it does.
"""

from __future__ import annotations

import atexit
import os
import threading
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from pydantic_monty import (
    ClassInstance,
    ClassType,
    CollectString,
    Monty,
    MontyComplete,
    MontyCrashedError,
    MontyDisconnectError,
    MontyError,
    MontyRuntimeError,
    MontySession,
    MontyShutdown,
    MontySyntaxError,
)

from envs.homeenv.audit import Refused, audit_code
from envs.homeenv.home import Home
from envs.homeenv.types import shown
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
        audit_code(code)
    except Refused as refusal:
        return RunResult("", refusal.with_traceback(None))
    bridge = _Bridge(home)
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
            _drive(session, code, bridge, printed)
    except (MontyDisconnectError, MontyShutdown, OSError, RuntimeError) as error:
        raise WorldError(f"the sandbox is gone: {error}") from error
    except MontyError as error:
        if isinstance(error, MontyCrashedError) and not error.timed_out:
            raise WorldError(f"the sandbox crashed: {error}") from error
        refusal = bridge.refusal or _flood(printed, limits, str(error)) or _limit_refusal(error)
        text = None if refusal else f"{_line(error)}{error.display(format='type-msg')}"
        return RunResult(_clip(printed.output, limits.output), refusal, text and _clip(text, limits.output))
    return RunResult(_clip(printed.output, limits.output), bridge.refusal or _flood(printed, limits))


def _drive(session: MontySession, code: str, bridge: _Bridge, printed: CollectString) -> None:
    """Run a snippet from one host call to the next, until its end or the first refusal.

    The last line keeps its value in the sandbox: as a result it would be copied to the host, however large.
    """
    lookup = {"device": lambda *args, **kwargs: bridge.device(args, kwargs)}  # no name of ours to collide with
    snapshot = session.feed_start(f"{code}\nNone", external_lookup=lookup, print_callback=printed)
    while bridge.refusal is None and not isinstance(snapshot, MontyComplete):
        snapshot = snapshot.resume_auto()


class _Bridge:
    """Hands devices to the sandbox and remembers the first refusal."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.refusal: Refused | None = None

    def device(self, args: tuple, kwargs: dict[str, Any]) -> _Part:
        if len(args) + len(kwargs) > 1 or kwargs.keys() - {"did"}:
            raise self.refuse(Refused("unknown_argument", "device(did) takes a device id and nothing else"))
        did = next(iter((*args, *kwargs.values())), None)
        if not isinstance(did, str) or did not in self.home.plan.by_did:
            raise self.refuse(Refused("unknown_device", f"there is no device {shown(did)}"))
        return _Part(self, did)

    def call(self, did: str, path: str, args: tuple, kwargs: dict) -> None:
        try:
            self.home.call(did, path, args, kwargs)
        except Refused as refusal:
            raise self.refuse(refusal) from None

    def refuse(self, refusal: Refused) -> Refused:
        """The refusal to raise. What is kept is never raised: its traceback would hold the session and all arguments."""
        self.refusal = Refused(refusal.rule, refusal.message)
        return refusal


class device:  # the name that agents see in error messages
    """The opaque value behind a host object; it holds nothing."""

    __slots__ = ()


_VALUE = device()
_CLASS = ClassType(device)


class _Part(ClassInstance):
    """A device, or one of its components, as the sandbox sees it."""

    def __init__(self, bridge: _Bridge, did: str, prefix: str = "") -> None:
        super().__init__(_VALUE, class_type=_CLASS)
        self._bridge, self._did, self._prefix = bridge, did, prefix

    def lookup_lazy_attrs(self, name: str) -> Any:
        home, path = self._bridge.home, self._prefix + name
        spec = home.plan.by_did[self._did].spec
        if any(component.name == path for component in spec.components):
            return _Part(self._bridge, self._did, path + ".")
        try:
            return home.get(self._did, path)
        except Refused as unknown:
            uncalled = Refused("unknown_attribute", f"{path} is a service of {self._did}: call it")
            raise self._bridge.refuse(uncalled if path in spec.service_index else unknown) from None

    def call_method(self, name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self._bridge.call(self._did, self._prefix + name, args, kwargs)


_POOL: Monty | None = None
_OWNER: int | None = None  # the process that made the pool
_MAKING = threading.Lock()


def _pool() -> Monty:
    """This process's pool. A child that was forked later has none: the pool's threads and locks do not survive a fork."""
    global _POOL, _OWNER
    if _OWNER not in (None, os.getpid()):
        raise WorldError("this process was forked after its parent had used the sandbox: start it by 'spawn' instead")
    if _POOL is None:
        with _MAKING:
            if _POOL is None:
                _OWNER = os.getpid()
                _POOL = _make_pool().__enter__()
                atexit.register(_close, _POOL, _OWNER)
    return _POOL


def _make_pool() -> Monty:
    """Up to a worker a core; further threads wait their turn. Worn workers are replaced: bombs fragment memory."""
    most = max(4, os.cpu_count() or 1)
    return Monty(max_processes=most, request_timeout=30, checkout_timeout=60, max_checkouts_per_worker=2000)


def _close(pool: Monty, owner: int) -> None:
    """At exit; a forked child inherits the appointment, but not the workers."""
    if owner == os.getpid():
        pool.__exit__(None, None, None)


def _deterministic(home: Home) -> dict[str, Any]:
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


def _line(error: MontyError) -> str:
    frames = error.traceback() if isinstance(error, MontyRuntimeError) else []
    return f"line {frames[-1].line}: " if frames else ""


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."
