"""Agent code, run in Monty worker processes with limits.

Invariants: nothing of the host is reachable but `device(did)`; its attributes are readable, its services
alone are callable; after the first refusal no later host call of the snippet has any effect, so a snippet
cannot catch a refusal and go on; calls before it stand. One pool a process, made on first use.
"""

from __future__ import annotations

import atexit
import os
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

from pydantic_monty import (
    ClassInstance,
    ClassType,
    CollectString,
    Monty,
    MontyCrashedError,
    MontyDisconnectError,
    MontyError,
    MontyRuntimeError,
    MontyShutdown,
    MontySyntaxError,
)

from envs.homeenv.audit import Refused, audit_code
from envs.homeenv.home import Home
from envs.homeenv.types import shown
from envs.world import WorldError


@dataclass(frozen=True)
class Limits:
    """What one snippet may use: seconds of execution, bytes, host calls, characters printed."""

    seconds: float = 1.0
    memory: int = 64 << 20
    calls: int = 300
    output: int = 4000


@dataclass(frozen=True)
class RunResult:
    """What a snippet printed, and why it stopped early, if it did."""

    output: str
    refusal: Refused | None = None
    error: str | None = None


def run_code(code: str, home: Home, limits: Limits = Limits()) -> RunResult:
    """Run a snippet against `home`. Refusals and errors are returned; `WorldError` if the sandbox itself failed."""
    try:
        audit_code(code)
    except Refused as refusal:
        return RunResult("", refusal)
    bridge = _Bridge(home)
    printed = CollectString(max_bytes=4 * limits.output)
    try:
        with _pool().checkout(
            limits={
                "max_feed_duration_secs": limits.seconds,
                "max_memory": limits.memory,
                "max_suspensions": limits.calls,
            },
            os_policy=_deterministic(home),
        ) as session:
            session.feed_run(code, external_lookup={"device": bridge.device}, print_callback=printed)
    except (MontyDisconnectError, MontyShutdown, OSError, RuntimeError) as error:
        raise WorldError(f"the sandbox is gone: {error}") from error
    except MontyError as error:
        if isinstance(error, MontyCrashedError) and not error.timed_out:
            raise WorldError(f"the sandbox crashed: {error}") from error
        refusal = bridge.refusal or _flood(printed, limits) or _limit_refusal(error)
        text = None if refusal else f"{_line(error)}{error.display(format='type-msg')}"
        return RunResult(_clip(printed.output, limits.output), refusal, text and _clip(text, limits.output))
    return RunResult(_clip(printed.output, limits.output), bridge.refusal or _flood(printed, limits))


class _Bridge:
    """Hands devices to the sandbox and remembers the first refusal."""

    def __init__(self, home: Home) -> None:
        self.home = home
        self.refusal: Refused | None = None

    def device(self, did: Any = None) -> _Part:
        if not isinstance(did, str) or did not in self.home.plan.by_did:
            raise self.refuse(Refused("unknown_device", f"there is no device {shown(did)}"))
        return _Part(self, did)

    def call(self, did: str, path: str, args: tuple, kwargs: dict) -> None:
        self.check()
        try:
            self.home.call(did, path, args, kwargs)
        except Refused as refusal:
            raise self.refuse(refusal) from None

    def check(self) -> None:
        if self.refusal is not None:
            raise self.refusal

    def refuse(self, refusal: Refused) -> Refused:
        self.refusal = self.refusal or refusal
        return self.refusal


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
        self._bridge.check()
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


_POOL: tuple[int, Monty, ExitStack] | None = None
_POOL_LOCK = threading.Lock()  # two threads may be the first to need it


def _pool() -> Monty:
    """This process's pool; a forked child makes its own."""
    global _POOL
    with _POOL_LOCK:
        if _POOL is None or _POOL[0] != os.getpid():
            stack = ExitStack()
            pool = stack.enter_context(Monty(max_processes=4, request_timeout=30, checkout_timeout=60))
            _POOL = (os.getpid(), pool, stack)
            atexit.register(stack.close)
        return _POOL[1]


def _deterministic(home: Home) -> dict[str, Any]:
    """The home's clock and a fixed random state, so that the same snippet gives the same bytes."""
    from datetime import UTC, datetime

    now = datetime.fromtimestamp(home.clock, UTC)
    return {"datetime": now, "sleep": "zero", "random_start": {"seed": home.clock}}


def _flood(printed: CollectString, limits: Limits) -> Refused | None:
    """Printing past the collector's end looks like a want of memory: it has its own rule."""
    if len(printed.output) <= limits.output:
        return None
    return Refused("output_limit", f"printed more than {limits.output} characters")


def _limit_refusal(error: MontyError) -> Refused | None:
    """A worker stopped by a limit is the agent's fault and has a rule."""
    if isinstance(error, MontyCrashedError):
        return Refused("time_limit", "the code was stopped")
    if isinstance(error, MontySyntaxError):
        return Refused("syntax", error.display(format="msg"))
    text = error.display(format="type-msg") if isinstance(error, MontyRuntimeError) else str(error)
    for start, rule in (
        ("TimeoutError", "time_limit"),
        ("MemoryError", "memory_limit"),
        ("RuntimeError: suspension limit", "call_limit"),
        ("PermissionError", "restricted_code"),
        ("ModuleNotFoundError", "restricted_code"),
    ):
        if text.startswith(start):
            return Refused(rule, text)
    return None


def _line(error: MontyError) -> str:
    frames = error.traceback() if isinstance(error, MontyRuntimeError) else []
    return f"line {frames[-1].line}: " if frames else ""


def _clip(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[:limit] + " ..."
