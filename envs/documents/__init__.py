"""Files that people write: read with line numbers, checked by pydantic, refused in one clear message.

Invariants:
- whatever is wrong with a file raises `InputError`, which says what, where and the remedy;
- the same text gives the same data, whatever the format's own libraries would make of it (`yaml_file`, `json_file`);
- a file is replaced whole or not at all (`write_atomic`).
"""

from envs.documents.checking import problems, validate
from envs.documents.document import Document, InputError, KeyPath
from envs.documents.json_file import read_json
from envs.documents.sources import refuse_unwritable
from envs.documents.writing import write_atomic
from envs.documents.yaml_file import read_yaml

__all__ = [
    "Document",
    "InputError",
    "KeyPath",
    "problems",
    "read_json",
    "read_yaml",
    "refuse_unwritable",
    "validate",
    "write_atomic",
]
