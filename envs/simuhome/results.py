"""Results of operations: data, or a `Failure`, and the envelopes in which agents see them (specification: HTTP).

Invariant: whoever raises `Failure` has changed nothing, or is rolled back by `Home.attempt`.
"""

from __future__ import annotations

from http import HTTPStatus
from typing import Any

HTTP_STATUS: dict[str, int] = {
    **dict.fromkeys(
        "DEVICE_NOT_FOUND ROOM_NOT_FOUND ENDPOINT_NOT_FOUND CLUSTER_NOT_FOUND ATTRIBUTE_NOT_FOUND COMMAND_NOT_FOUND".split(),
        404,
    ),
    **dict.fromkeys(
        "COMMAND_INVALID_ARGS COMMAND_EXECUTION_ERROR READ_ONLY VALIDATION_ERROR DEPENDENCY_VIOLATION CONSTRAINT_ERROR "
        "INVALID_ARGUMENT UNSUPPORTED_MODE INVALID_IN_MODE UNSUPPORTED_COMMAND ATTRIBUTE_WRITE_ERROR "
        "ATTRIBUTE_INVALID_VALUE HTTP_ERROR".split(),
        400,
    ),
    "INVALID_STATE": 409,
    "DEVICE_ALREADY_EXISTS": 409,
    "TIMEOUT_ERROR": 408,
    "CONNECTION_ERROR": 503,
    "SCHEMA_ERROR": 422,
    "INTERNAL_ERROR": 500,
}
LABELS: dict[str, str] = {
    "DEVICE_NOT_FOUND": "Device not found",
    "ENDPOINT_NOT_FOUND": "Endpoint not found",
    "CLUSTER_NOT_FOUND": "Cluster not found",
    "ATTRIBUTE_NOT_FOUND": "Attribute not found",
    "DEPENDENCY_VIOLATION": "Power dependency violation",
    "INTERNAL_ERROR": "An internal error occurred",
}


class OperationError(Exception):
    """A refused operation: its type, a short label (a workflow shows it) and a detail in words."""

    def __init__(self, type: str, detail: str = "", label: str = "") -> None:
        self.type, self.detail = type, detail
        self.label = label or LABELS.get(type, detail or type)
        super().__init__(f"{type}: {detail or self.label}")

    @property
    def status(self) -> int:
        """The HTTP status of a failure."""
        return HTTP_STATUS.get(self.type, 500)


def refuse_unless(holds: Any, type: str, detail: str = "", label: str = "") -> None:
    """Refuse with `type` unless `holds`."""
    if not holds:
        raise OperationError(type, detail, label)


def is_integer(value: Any) -> bool:
    """An integer; a boolean is one, as in the reference."""
    return isinstance(value, int)


def is_number(value: Any) -> bool:
    """A finite number; booleans count, as they do in arithmetic."""
    return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")


def success_envelope(data: Any) -> dict[str, Any]:
    """The envelope of an accepted call."""
    return {"status": {"code": 200, "message": "OK"}, "data": data, "error": None}


def error_envelope(code: int, message: str, type: str, detail: str) -> dict[str, Any]:
    """The envelope of a refused call."""
    return {"status": {"code": code, "message": message}, "data": None, "error": {"type": type, "detail": detail}}


def http_error_envelope(failure: OperationError, url: str) -> dict[str, Any]:
    """What a client of the service makes of a refused call: the reason stays on the server."""
    status = failure.status
    side = "Client" if status < 500 else "Server"
    detail = f"{status}: {status} {side} Error: {HTTPStatus(status).phrase} for url: {url}"
    return error_envelope(400, "HTTP_ERROR", "HTTP_ERROR", detail)


def plain_error_envelope(failure: OperationError) -> dict[str, Any]:
    """A refused call with its type and reason (not `strict`)."""
    return error_envelope(failure.status, failure.type, failure.type, failure.detail or failure.label)
