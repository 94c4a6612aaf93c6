"""Puts questions to a judge and keeps its verdicts.

Invariants:
- A verdict is stored under a hash of all that was asked and of the judge's name, and is asked for once.
- If the judge gives none, its fault is stored in the verdict's place and the question is asked again next time.
- Who reads stored verdicts asks nobody.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.models.endpoint.endpoint import make_endpoint
from homerl.models.endpoint.endpoint_settings import EndpointSettings
from homerl.models.endpoint.structured_answers import StructuredClient, UnreadableAnswer, ask_at_once, judge_fault
from homerl.play.faults import InfraError

MOST_TOKENS = 4096  # of an answer: several programs, each from the view of every member


@dataclass(frozen=True)
class JudgeQuestion:
    """What a judge is asked: instructions, the matter as JSON, and the pydantic shape of the answer.

    `shape` follows from `system`, so it is not hashed. `about` is kept beside the verdict, and the judge never sees it.
    """

    mode: str
    system: str
    text: str
    shape: type[Model]
    seed: int = 0
    about: Mapping[str, Any] = field(default_factory=dict)

    def verdict_key(self, judge: str) -> str:
        """A key that is equal for questions that the judge of this name cannot tell apart."""
        told = json.dumps([judge, self.mode, self.system, self.text, self.seed], ensure_ascii=False)
        return hashlib.blake2b(told.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class VerdictStore:
    """The verdicts of a JSON Lines file; of two rows with one key the later counts.

    A line that was cut off at the end of the file, by a process that was killed, is removed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.rows: dict[str, dict[str, Any]] = {}
        if not path.exists():
            return
        whole = 0  # bytes of whole lines
        with path.open("rb+") as file:
            for number, line in enumerate(iter(file.readline, b""), 1):
                if not line.endswith(b"\n"):
                    break
                try:
                    row = json.loads(line)
                    self.rows[row["key"]] = row
                except (ValueError, TypeError, KeyError):
                    raise InputError("not a verdict", f"{path}:{number}", "remove the line") from None
                whole = file.tell()
            file.truncate(whole)

    def add_row(self, row: Mapping[str, Any]) -> None:
        """Append a row, which has `key` and either `verdict` or `fault`."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("ab") as file:
            file.write(json.dumps(row, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
        self.rows[row["key"]] = dict(row)

    def stored_verdict(self, question: JudgeQuestion, judge: str) -> dict[str, Any] | None:
        """The stored answer of a judge as plain data, None if there is none. Raises `InputError` if it was edited badly."""
        key = question.verdict_key(judge)
        given = self.rows.get(key, {}).get("verdict")
        try:
            return None if given is None else question.shape.model_validate(given).model_dump(mode="json", by_alias=True)
        except ValidationError:
            raise InputError(f"the verdict {key} has another form", str(self.path), "remove its line") from None


def make_judge_client(urls: str, model: str) -> StructuredClient:
    """A judge of this model at these URLs, separated by commas. It answers at temperature 0; its name is the model's."""
    settings = EndpointSettings(url=tuple(urls.split(",")), model=model, temperature=0.0, max_tokens=MOST_TOKENS)
    return StructuredClient(make_endpoint(settings), settings)


async def ask_judge(
    client: StructuredClient,
    questions: Sequence[JudgeQuestion],
    verdicts: VerdictStore,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> None:
    """Ask each question that has no stored verdict, and store the verdicts; a judge that fails leaves its fault there."""
    judge = client.endpoint.model
    # A stored fault does not count, so its question is asked again.
    missing = {key: asked for asked in questions if "verdict" not in verdicts.rows.get(key := asked.verdict_key(judge), {})}

    async def ask(keyed: tuple[str, JudgeQuestion]) -> bool:
        key, question = keyed
        row = {"key": key, "by": judge, "mode": question.mode, "about": dict(question.about)}
        try:
            answer = await client.ask(question.system, question.text, question.shape, question.seed, 0.0)
            row |= {"verdict": answer.model_dump(mode="json", by_alias=True)}
        except (InfraError, UnreadableAnswer) as error:
            row |= {"fault": asdict(judge_fault(error))}
        verdicts.add_row(row)
        return True

    await ask_at_once(missing.items(), ask, progress)
