"""What switches a part whose services are not named as people call it: `set_state("ON")` is what turns it on.

Invariant: a product whose services have the names that people use has nothing of this, as all shipped ones.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from envs.homeenv.devices.interface import Attribute
from envs.homeenv.devices.service import CompiledService
from envs.homeenv.values.spelling import STATE

DONE_BY = {"on": "turn_on", "off": "turn_off", "locked": "lock", "unlocked": "unlock", "open": "open", "closed": "close"}


def switches_of(
    services: Mapping[str, CompiledService], attributes: Mapping[str, tuple[int, Attribute]]
) -> dict[str, tuple[str, Any]]:
    """For what people call `light.turn_on`, say, where no service has that name: the service that does it, its argument."""
    found: dict[str, tuple[str, Any]] = {}
    for path, compiled in services.items():
        prefix = path.removesuffix(path.rpartition(".")[2])
        for word, value in _set_by(compiled, attributes.get(prefix + STATE)):
            if (name := prefix + DONE_BY[word]) not in services:
                found.setdefault(name, (path, value))
    return found


def _set_by(compiled: CompiledService, state: tuple[int, Attribute] | None) -> Iterator[tuple[str, Any]]:
    """The words of a state that the only argument of a service sets, each with the argument."""
    if state is None or len(compiled.service.arguments) != 1 or all(offset != state[0] for offset, *_ in compiled.writes):
        return
    (argument,) = compiled.service.arguments
    yield from ((word, value) for word, value in argument.words.items() if argument.required and word in state[1].words)
