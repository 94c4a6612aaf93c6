"""Checking data against pydantic models.

Invariant: what a model refuses is an `InputError` with file, line and remedy.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from pydantic import BaseModel, TypeAdapter, ValidationError

from envs import explain
from envs.documents.document import Document, InputError

T = TypeVar("T")


@overload
def validate(model_type: type[T], document: Document, data: Any = None) -> T: ...
@overload
def validate(model_type: Any, document: Document, data: Any = None) -> Any: ...
def validate(model_type: Any, document: Document, data: Any = None) -> Any:
    """`document` (or `data` in its place) as a pydantic model or any other type that pydantic understands.

    Raises `InputError` that names the file and line of the first problem, and says how many more there are.
    """
    data = document.data if data is None else data
    try:
        if isinstance(model_type, type) and issubclass(model_type, BaseModel):
            return model_type.model_validate(data)
        return TypeAdapter(model_type).validate_python(data)
    except ValidationError as error:
        raise _input_error(document, explain.explain(model_type, data, error)) from None


def problems(model_type: Any, document: Document) -> list[InputError]:
    """Everything that keeps `document` from being of this type; an empty list if it is of this type."""
    try:
        TypeAdapter(model_type).validate_python(document.data)
    except ValidationError as error:
        return [_input_error(document, problem) for problem in explain.explain_all(model_type, document.data, error)]
    return []


def _input_error(document: Document, problem: explain.Problem) -> InputError:
    where, dotted = document.where(problem.key), ".".join(map(str, problem.key))
    what, remedy = problem.what, problem.remedy
    if isinstance(problem.cause, InputError):  # a validator of ours already said it well
        inner = problem.cause
        what, remedy = (f"{inner.where}: {inner.what}" if inner.where else inner.what), inner.remedy
    more = f" ({problem.others} more to correct)" if problem.others else ""
    return InputError(f"{dotted} {what}{more}".strip(), where, remedy)
