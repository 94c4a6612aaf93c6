"""What a served agent says beside the words of its model."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.core.documents.explain import did_you_mean

ASK_CODE = "question_code"  # the text that asks for a code
FILE = Path(__file__).parent / "words.yaml"
FULL_WIDTH = ("。", "！", "？", "）")  # no space stands after a sentence that ends with one of them


class ReplyPhrases:
    """The sentences of a language. Raises `InputError` for a language that has none.

    The language of the model is English, unless its owner says otherwise; then what the home speaks counts, if it is known.
    """

    def __init__(self, language: str, spoken: str = "en") -> None:
        known = _texts()
        if language == "en" and (own := spoken.partition("-")[0]) in known:
            language = own
        if language not in known:
            raise InputError(f"'{language}' has no sentences", "--language", did_you_mean(language, list(known)))
        self._texts = known[language]

    def fill_phrase(self, key: str, **slots: Any) -> str:
        """A sentence with its slots filled."""
        text: str = self._texts[key]
        return text.format(**slots)

    def join_list(self, parts: Iterable[str], sign: Literal["list", "within"] = "list") -> str:
        """Parts of a sentence one after the other, with the sign of a list, or of a list within one, between them."""
        between: str = self._texts[sign]
        return between.join(parts)

    def explain_rule(self, rule: str) -> str:
        """What a rule by which something was not done means to a person."""
        rules: dict[str, str] = self._texts["rules"]
        return rules.get(rule, rules["other"])


def join_sentences(*sentences: str) -> str:
    """Sentences as one text, without those that are empty."""
    text = ""
    for one in filter(None, sentences):
        text += one if not text or text.endswith(FULL_WIDTH) else f" {one}"
    return text


def is_code_question(said: str) -> bool:
    """Whether something that was said to a person asks for a code, in any language: that of the home may have changed."""
    return any(texts[ASK_CODE] in said for texts in _texts().values())


@lru_cache(maxsize=1)
def _texts() -> dict[str, dict[str, Any]]:
    texts: dict[str, dict[str, Any]] = read_yaml(FILE).data
    return texts
