"""Search in memories and other short texts, by BM25.

Invariants: the same query and texts give the same order in every process; among equally good texts the earlier one comes
first; a text that shares no word with the query is not found.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rank_bm25 import BM25Plus

_RUN = re.compile(r"[\u3400-\u9fff]+|[^\W_\u3400-\u9fff]+")
_ENDINGS = (("ies", "y"), ("sses", "ss"), ("ing", ""), ("ed", ""), ("es", ""), ("s", ""))
_SHORTEST = 3  # letters that a word keeps when its ending is cut
_EMPTY = frozenset(
    """a about an and any are at be been by did do does for from had has have he her his how i in is it its me my of on or
    our she s t that the their them there they this to was we were what when where which who why will with you your
    的 了 在 是 和 我 你 他 她 们 有 吗 呢 吧 着 被 把""".split()
)


def search_terms(text: str) -> list[str]:
    """The words by which a text is found, in order, without words that say nothing.

    English words lose their case and endings: `Baking`, `bakes` and `bake` are one word. A run of Chinese gives its
    characters and its pairs of neighbours, since it does not mark where words end.
    """
    found: list[str] = []
    for run in _RUN.findall(unicodedata.normalize("NFKC", text).casefold()):
        if "\u3400" <= run[0] <= "\u9fff":
            found += [*run, *(run[at : at + 2] for at in range(len(run) - 1))]
        else:
            found.append(run)
    return [_stem_word(word) for word in found if word not in _EMPTY]


def _stem_word(word: str) -> str:
    for ending, instead in _ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= _SHORTEST:
            word = word.removesuffix(ending) + instead
            break
    if len(word) > _SHORTEST and word.endswith("e"):
        word = word[:-1]
    # `stopping` has become `stopp`, which must be the same word as `stop`.
    doubled = len(word) > _SHORTEST and word[-1] == word[-2]
    return word[:-1] if doubled and word[-1] not in "aeiou" else word


def rank_by_bm25(query: str, texts: Sequence[str]) -> list[int]:
    """The indices of the texts that share a word with `query`, best first."""
    asked = search_terms(query)
    if not asked or not texts:
        return []
    index, wanted = _build_index(tuple(texts)), frozenset(asked)
    scores = index.get_scores(asked)
    matching = (at for at, counts in enumerate(index.doc_freqs) if wanted & counts.keys())
    return sorted(matching, key=lambda at: (-scores[at], at))


@lru_cache(maxsize=256)  # a household's memories are searched again and again
def _build_index(texts: tuple[str, ...]) -> BM25Plus:
    from rank_bm25 import BM25Plus  # imported at the first search, because it loads numpy

    # BM25 needs one word at least in each text, so a text without words gets an empty one.
    return BM25Plus([search_terms(text) or [""] for text in texts])
