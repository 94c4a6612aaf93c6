"""Reading, checking and writing the files that people edit.

Invariants:
- Whatever is wrong with a file raises `InputError`, which says what is wrong, where, and what to do about it.
- The same text always gives the same data. `yaml_file` and `json_file` state where they differ from the usual
  libraries.
- A file is replaced as a whole or not at all (`write_atomic`).
"""

from homerl.envs.core.documents.files_and_errors import (
    Document,
    InputError,
    KeyPath,
    ensure_writable,
    file_sha256,
    find_near_path,
    find_os_error,
    name_path_in_errors,
    os_error_to_input_error,
    remove_unfinished_writes,
    suggest_near_path,
    write_atomic,
)
from homerl.envs.core.documents.validation import list_problems, validate_document
from homerl.envs.core.documents.yaml_and_json import read_json, read_yaml, refuse_unwritable

__all__ = [
    "Document",
    "InputError",
    "KeyPath",
    "ensure_writable",
    "file_sha256",
    "find_near_path",
    "find_os_error",
    "list_problems",
    "name_path_in_errors",
    "os_error_to_input_error",
    "read_json",
    "read_yaml",
    "refuse_unwritable",
    "remove_unfinished_writes",
    "suggest_near_path",
    "validate_document",
    "write_atomic",
]
