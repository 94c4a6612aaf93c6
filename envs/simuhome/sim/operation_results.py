"""Results of operations: the error type `OperationError`, and the envelopes in which agents see results.

The envelopes and HTTP status codes are those of the released program's service.

Invariant: whoever raises `OperationError` has changed nothing, or runs inside `Home.attempt`, which restores the state.
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
    """An operation that the home refuses.

    `type` is an error type of the paper, such as `DEVICE_NOT_FOUND`. `detail` says why in words. `label` is a short
    text; a workflow that failed shows it.
    """

    def __init__(self, type: str, detail: str = "", label: str = "") -> None:
        self.type, self.detail = type, detail
        self.label = label or LABELS.get(type, detail or type)
        super().__init__(f"{type}: {detail or self.label}")

    @property
    def http_status(self) -> int:
        """The HTTP status code of the error type."""
        return HTTP_STATUS.get(self.type, 500)


class UnhandledError(OperationError):
    """An error that the released program does not handle: an agent sees 500, and a workflow never gets over its step."""

    def __init__(self, detail: str) -> None:
        super().__init__("INTERNAL_ERROR", detail)


def refuse_unless(holds: Any, type: str, detail: str = "", label: str = "") -> None:
    """Raise `OperationError` of a type unless `holds` is true."""
    if not holds:
        raise OperationError(type, detail, label)


def is_integer(value: Any) -> bool:
    """Whether a value is an integer. Booleans are integers here, as in the released program."""
    return isinstance(value, int)


def is_number(value: Any) -> bool:
    """Whether a value is a finite number. Booleans count, as they do in arithmetic."""
    return isinstance(value, (int, float)) and value == value and abs(value) != float("inf")


def success_envelope(data: Any) -> dict[str, Any]:
    """The envelope of an accepted call."""
    return {"status": {"code": 200, "message": "OK"}, "data": data, "error": None}


def error_envelope(code: int, message: str, type: str, detail: str) -> dict[str, Any]:
    """The envelope of a refused call."""
    return {"status": {"code": code, "message": message}, "data": None, "error": {"type": type, "detail": detail}}


def http_error_envelope(failure: OperationError, url: str) -> dict[str, Any]:
    """The envelope of a refused call in strict mode.

    The released program's client sees only the HTTP status and the URL; the reason stays on the server.
    """
    status = failure.http_status
    side = "Client" if status < 500 else "Server"
    detail = f"{status}: {status} {side} Error: {HTTPStatus(status).phrase} for url: {url}"
    return error_envelope(400, "HTTP_ERROR", "HTTP_ERROR", detail)


def plain_error_envelope(failure: OperationError) -> dict[str, Any]:
    """The envelope of a refused call in mended mode, with type and reason."""
    return error_envelope(failure.http_status, failure.type, failure.type, failure.detail or failure.label)
