"""Paraphrases of queries by an LLM, used only if they certainly mean the same; each world defines how to check that.

Invariants:
- A blueprint's goals, plan and clarifications never change.
- A paraphrase is one sentence of plain words, no copy, and of its blueprint's split.
- A paraphrase that fails a check is dropped and counted by reason, and the original stays.
- A server that fails raises an `InfraError`, it never makes a query stay as it is.
- The requests for one blueprint and query are the same in every process.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from pydantic import ConfigDict

from homerl.envs.core.model import Model
from homerl.models.endpoint.structured_answers import StructuredClient, UnreadableAnswer
from homerl.play.words.grammar import split_of
from homerl.play.words.user_manner import load_manner

LONGEST = 400  # characters of a query
REWORD = """You reword what a person says to the voice assistant of a smart home. Answer with one JSON object:
{{"paraphrase": "..."}}. Speak {language}, as people speak at home. Keep every room name, device name, number, unit and
setting exactly as it is written; add nothing and leave nothing out. Use another sentence structure and other words for
the rest."""


class RewordedQuery(Model):
    """The first answer."""

    model_config = ConfigDict(title="Reworded")  # its name in requests

    paraphrase: str


class ParaphraseRejected(Exception):
    """The reason why a paraphrase is not used."""


class Paraphraser(ABC):
    """Rewords the queries of blueprints. `kept` counts the used paraphrases, `dropped` the others by reason."""

    def __init__(self, client: StructuredClient) -> None:
        self.client = client
        self.dropped: Counter[str] = Counter()
        self.kept = 0

    async def reword(self, blueprint: Any) -> Any:
        """The blueprint, with a paraphrase in place of each query that has one."""
        home = self.home_of(blueprint)
        intents = []
        for intent in blueprint.intents:  # one request at a time
            found = [await self._reword_query(query, intent, blueprint, home) for query in intent.queries]
            intents.append(intent.model_copy(update={"queries": tuple(dict.fromkeys(found))}))
        return blueprint.model_copy(update={"intents": tuple(intents)})

    def home_of(self, blueprint: Any) -> Any:
        """Data for checks beyond the blueprint, computed once for each blueprint; None by default."""
        return None

    @abstractmethod
    async def paraphrased(self, query: str, intent: Any, blueprint: Any, home: Any) -> str:
        """A paraphrase that certainly means the same; raises `ParaphraseRejected` with the reason if there is none."""

    async def _reword_query(self, query: str, intent: Any, blueprint: Any, home: Any) -> str:
        try:
            paraphrase = await self.paraphrased(query, intent, blueprint, home)
        except (ParaphraseRejected, UnreadableAnswer) as reason:
            self.dropped["garbled" if isinstance(reason, UnreadableAnswer) else str(reason)] += 1
            return query
        self.kept += 1
        return paraphrase

    async def asked(self, query: str, blueprint: Any) -> str:
        """The model's paraphrase, not yet checked."""
        system = REWORD.format(language=load_manner(blueprint.language).language)
        text = json.dumps({"says": query}, ensure_ascii=False)
        answer = await self.client.ask(system, text, RewordedQuery, blueprint.seed)
        return " ".join(answer.paraphrase.split())


def refuse_bad_paraphrase(query: str, paraphrase: str, split: str) -> None:
    """The checks of every world: plain words, no copy, of the split. Raises `ParaphraseRejected`."""
    new = paraphrase.lower()
    if not new or len(new) > LONGEST or any(mark in new for mark in ("device(", "{", "```")):
        raise ParaphraseRejected("garbled")
    if re.sub(r"\W+", "", query.lower()) == re.sub(r"\W+", "", new):
        raise ParaphraseRejected("a copy")
    if split_of(paraphrase) != split:
        raise ParaphraseRejected("the other split")
