"""Reading, checking and writing the files that people edit.

Invariants:
- Whatever is wrong with a file raises `InputError`, which says what is wrong, where, and what to do about it.
- The same text always gives the same data. `yaml_file` and `json_file` state where they differ from the usual
  libraries.
- A file is replaced as a whole or not at all (`write_atomic`).
"""

from envs.documents.checking import problems, validate
from envs.documents.document import Document, InputError, KeyPath
from envs.documents.json_file import read_json
from envs.documents.sources import refuse_unwritable
from envs.documents.trouble import as_input_error, naming, near_names, near_path, system_error
from envs.documents.writing import ready_to_write, remove_unfinished, write_atomic
from envs.documents.yaml_file import read_yaml

__all__ = [
    "Document",
    "InputError",
    "KeyPath",
    "as_input_error",
    "naming",
    "near_names",
    "near_path",
    "problems",
    "read_json",
    "read_yaml",
    "ready_to_write",
    "refuse_unwritable",
    "remove_unfinished",
    "system_error",
    "validate",
    "write_atomic",
]
