"""The documentation of clusters, in passages, and a search in it (BM25).

Invariants: passages are ASCII and have at most 1000 characters; a query gives the same passages in every process.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from homerl.envs.core.documents import read_yaml
from homerl.envs.simuhome.sim.spec import CATALOGUE, REQUIRED, Cluster, all_clusters

if TYPE_CHECKING:
    from rank_bm25 import BM25Plus

MAX_PASSAGE_LENGTH = 1000
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|[0-9]+")


class SearchError(Exception):
    """The query or the number of results cannot be used."""


def index_words(text: str) -> list[str]:
    """The words of a text in lower case. A compound name gives itself and its parts: `OnOff` gives onoff, on, off."""
    joined = re.findall(r"[A-Za-z0-9]+", text)
    return [word.lower() for name in joined for word in dict.fromkeys((name, *_WORD.findall(name)))]


@lru_cache(maxsize=1)
def documentation_passages() -> tuple[str, ...]:
    """All passages, cluster by cluster."""
    written = read_yaml(CATALOGUE / "documents.yaml").data
    return tuple(text for name, cluster in all_clusters().items() for text in _passages_of(cluster, written[name]))


def _passages_of(cluster: Cluster, summary: str) -> list[str]:
    """The passages of one cluster: the summary, then its attributes and commands from the catalogue."""
    attributes = [f"{name}{' (writable)' if name in cluster.writable else ''}" for name in cluster.attributes]
    lines = [f"{cluster.name} attributes: {', '.join(attributes)}."]
    commands = [
        f"{name}({', '.join(_parameter(*one) for one in given.items())})" for name, given in cluster.commands.items()
    ]
    if commands:
        lines.append(f"{cluster.name} commands: {', '.join(commands)}.")
    texts = [f"{cluster.name} cluster. {' '.join(summary.split())}"]
    for line in lines:
        if len(texts[-1]) + len(line) < MAX_PASSAGE_LENGTH:
            texts[-1] += "\n" + line
        else:
            texts.append(line[:MAX_PASSAGE_LENGTH])
    return texts


def _parameter(name: str, default: Any) -> str:
    return name if default == REQUIRED else f"{name} optional"


@lru_cache(maxsize=1)
def _index() -> BM25Plus:
    from rank_bm25 import BM25Plus  # imported at the first search, because few agents search

    return BM25Plus([index_words(text) for text in documentation_passages()])


def search_passages(query: Any, top_k: Any) -> str:
    """The `top_k` best passages, best first, separated by empty lines.

    The result is empty if the documentation has no word of the query. Raises `SearchError` unless `query` is a text and
    `top_k` an integer from 1.
    """
    if not isinstance(query, str) or not isinstance(top_k, int) or isinstance(top_k, bool) or top_k < 1:
        raise SearchError("query is a text and top_k an integer from 1")
    asked = index_words(query)
    known = {word for word in asked if word in _index().idf}
    if not known:
        return ""
    scores = _index().get_scores(asked)
    holding = [number for number, counts in enumerate(_index().doc_freqs) if known & counts.keys()]
    best = sorted(holding, key=lambda number: (-scores[number], number))[:top_k]
    return "\n\n".join(documentation_passages()[number] for number in best)
