"""Results of operations: the error type `OperationError`, and the envelope in which agents see a refusal.

The envelope and HTTP status codes are those of the released program's service.

Invariant: whoever raises `OperationError` has changed nothing, or runs inside `MatterHome.run_or_undo`, which restores the
state.
"""

from __future__ import annotations

from typing import Any

_TYPES_BY_STATUS = {
    400: "COMMAND_INVALID_ARGS COMMAND_EXECUTION_ERROR READ_ONLY VALIDATION_ERROR DEPENDENCY_VIOLATION CONSTRAINT_ERROR "
    "INVALID_ARGUMENT UNSUPPORTED_MODE INVALID_IN_MODE UNSUPPORTED_COMMAND ATTRIBUTE_WRITE_ERROR ATTRIBUTE_INVALID_VALUE "
    "HTTP_ERROR",
    404: "DEVICE_NOT_FOUND ROOM_NOT_FOUND ENDPOINT_NOT_FOUND CLUSTER_NOT_FOUND ATTRIBUTE_NOT_FOUND COMMAND_NOT_FOUND",
    408: "TIMEOUT_ERROR",
    409: "INVALID_STATE DEVICE_ALREADY_EXISTS",
    422: "SCHEMA_ERROR",
    503: "CONNECTION_ERROR",
}
HTTP_STATUS = {type: status for status, types in _TYPES_BY_STATUS.items() for type in types.split()}  # others: 500
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


def error_envelope(code: int, message: str, type: str, detail: str) -> dict[str, Any]:
    """The envelope of a refused call."""
    return {"status": {"code": code, "message": message}, "data": None, "error": {"type": type, "detail": detail}}
