"""Reading, checking and writing the files that people edit.

Invariants:
- Whatever is wrong with a file raises `InputError`, which says what is wrong, where, and what to do about it.
- The same text always gives the same data. `yaml_file` and `json_file` state where they differ from the usual
  libraries.
- A file is replaced as a whole or not at all (`write_atomic`).
"""

from homerl.envs.core.documents.checking import problems, validate
from homerl.envs.core.documents.document import Document, InputError, KeyPath
from homerl.envs.core.documents.json_file import read_json
from homerl.envs.core.documents.sources import refuse_unwritable
from homerl.envs.core.documents.trouble import as_input_error, naming, near_names, near_path, system_error
from homerl.envs.core.documents.writing import ready_to_write, remove_unfinished, write_atomic
from homerl.envs.core.documents.yaml_file import read_yaml

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
