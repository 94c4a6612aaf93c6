"""Checking a document against a pydantic model.

Invariant: data that the model refuses raises `InputError` with file, line and remedy.
"""

from __future__ import annotations

from typing import Any, TypeVar, overload

from pydantic import BaseModel, TypeAdapter, ValidationError

from homerl.envs.core.documents import explain
from homerl.envs.core.documents.document import Document, InputError

T = TypeVar("T")
COMMAND_LINE = "command line"  # the origin of what is no file's


@overload
def validate_document(model_type: type[T], document: Document, data: Any = None) -> T: ...
@overload
def validate_document(model_type: Any, document: Document, data: Any = None) -> Any: ...
def validate_document(model_type: Any, document: Document, data: Any = None) -> Any:
    """The document's data as an instance of `model_type`: a pydantic model, or any type that pydantic understands.

    If `data` is given, it is checked in place of the document's data; lines are still looked up in the document. Raises
    `InputError` for the first problem. The message names its file and line, and says how many problems follow.
    """
    data = document.data if data is None else data
    try:
        if isinstance(model_type, type) and issubclass(model_type, BaseModel):
            return model_type.model_validate(data)
        return TypeAdapter(model_type).validate_python(data)
    except ValidationError as error:
        raise _input_error(document, explain.explain_first_problem(model_type, data, error)) from None


def list_problems(model_type: Any, document: Document) -> list[InputError]:
    """All problems that keep the document's data from being a `model_type`; an empty list if there are none."""
    try:
        TypeAdapter(model_type).validate_python(document.data)
    except ValidationError as error:
        return [
            _input_error(document, problem) for problem in explain.explain_all_problems(model_type, document.data, error)
        ]
    return []


def _input_error(document: Document, problem: explain.ValidationProblem) -> InputError:
    where, dotted = document.locate_key(problem.key), ".".join(map(str, problem.key))
    what, remedy = problem.what, problem.remedy
    if where == COMMAND_LINE and remedy.startswith(explain.TEXT):  # the shell takes one pair of quotes
        remedy = remedy.replace(", as ", ", on the command line in two kinds: '") + "'"
    if isinstance(problem.cause, InputError):  # one of our own validators has already worded the problem
        inner = problem.cause
        what, remedy = (f"{inner.where}: {inner.what}" if inner.where else inner.what), inner.remedy
    more = f" ({problem.others} more to correct)" if problem.others else ""
    return InputError(f"{dotted} {what}{more}".strip(), where, remedy)
