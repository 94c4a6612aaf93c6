"""Personas to seed people from: a data set of the Hugging Face hub, such as Nemotron-Personas-USA, or a JSONL file.

Invariants: a source is read once per process, in its own order; the `datasets` library is imported only for the hub.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any

from pydantic import Field, ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.personalhome.sim.household import Gender, Member

MOST = 20_000  # personas that are read from the hub
APART = 6  # years between a person and a persona that fits
NAME = re.compile(r"^(?:[A-Z][\w'’.-]+ )*[A-Z][\w'’-]+(?=[ ,])")
REMEDY = "each row needs `persona`, `age` and `sex`, and may have `occupation` and `hobbies_and_interests_list`"


class PersonaSeed(Model):
    """A persona: `persona` is a text of one or two sentences. Hobbies are texts, at most three."""

    persona: str = Field(min_length=1)
    age: int = Field(ge=0, le=120)
    gender: Gender
    occupation: str | None = None
    hobbies: tuple[str, ...] = ()

    def given_to(self, member: Member) -> Member:
        """The member with this persona, and with its occupation and hobbies if it has them."""
        text = self.persona
        if found := NAME.match(text):  # a text that begins with words in capitals begins with a name
            first = found[0].split()[0]
            text = re.sub(rf"\b{re.escape(first)}\b", member.name, member.name + text[found.end() :])
        change: dict[str, Any] = {"persona": text}
        change |= {"occupation": self.occupation} if self.occupation else {}
        change |= {"hobbies": self.hobbies} if self.hobbies else {}
        return member.model_copy(update=change)


def match_persona(personas: Sequence[PersonaSeed], age: int, gender: Gender, rng: random.Random) -> PersonaSeed | None:
    """A persona of this gender and of about this age, or None."""
    fitting = [persona for persona in personas if persona.gender == gender and abs(persona.age - age) <= APART]
    return rng.choice(fitting) if fitting else None


@lru_cache(maxsize=4)
def load_personas(source: str) -> tuple[PersonaSeed, ...]:
    """The personas of a JSONL file, or of the train split of a hub data set. Raises `InputError` if it cannot be used."""
    rows = _read_file_rows(Path(source)) if source.endswith(".jsonl") else _load_hub_rows(source)
    personas = tuple(_read_persona_row(row, f"{source}:{number}") for number, row in enumerate(rows, 1))
    if not personas:
        raise InputError("there are no personas", source, REMEDY)
    return personas


def _read_file_rows(path: Path) -> Iterable[Any]:
    try:
        lines = path.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"the personas cannot be read: {error}", str(path), "name a JSONL file in UTF-8") from None
    for number, line in enumerate(lines, 1):
        try:
            yield json.loads(line)
        except ValueError as error:
            raise InputError(f"not JSON: {error}", f"{path}:{number}", "write one JSON object a line") from None


def _load_hub_rows(name: str) -> Iterable[Any]:
    from datasets import load_dataset

    try:
        return list(islice(load_dataset(name, split="train", streaming=True), MOST))
    except Exception as error:  # the hub's client raises many types of errors
        remedy = "check the name and the network, or name a JSONL file"
        raise InputError(f"the data set cannot be loaded: {error}", name, remedy) from None


def _read_persona_row(row: Any, where: str) -> PersonaSeed:
    """A row under the column names of Nemotron-Personas-USA."""
    if not isinstance(row, Mapping):
        raise InputError("this row is no object", where, REMEDY)
    hobbies = row.get("hobbies_and_interests_list") or ()
    if isinstance(hobbies, str):  # the text of a list: `"['chess', 'hiking']"`
        hobbies = [part.strip() for pair in re.findall(r"'([^']+)'|\"([^\"]+)\"", hobbies) for part in pair if part]
    sex, job = str(row.get("sex", "")).capitalize(), row.get("occupation")
    known = {"persona": row.get("persona"), "age": row.get("age"), "gender": sex, "hobbies": tuple(map(str, hobbies))[:3]}
    known |= {"occupation": str(job).replace("_", " ")} if job else {}
    try:
        return PersonaSeed.model_validate(known)
    except ValidationError as error:
        first = error.errors()[0]
        raise InputError(f"{'.'.join(map(str, first['loc']))}: {first['msg']}", where, REMEDY) from None
