"""Whether words claim that something was done in a home, or admit that it was not, in English and Chinese.

Precision goes before recall: who says how a thing is ("the light is on"), what was done at another time, or what is to come,
claims nothing, and neither does who admits that something did not work.

Invariant: all functions are pure.
"""

from __future__ import annotations

from homerl.play.words import signs


def claims_success(text: str) -> bool:
    """Whether a text, without its questions, says that something was done, and nothing that did not work."""
    return says_done(text) and not admits_failure(text)


def says_done(text: str) -> bool:
    """Whether a part of a text says that something was done just now."""
    clauses = signs.CLAUSE.split(_plain(text))
    return any(
        signs.DID.search(clause) and not (signs.NEGATION.search(clause) or signs.SUPPOSED.search(clause))
        for clause in map(str.strip, filter(None, clauses))
    )


def only_confirms(text: str) -> bool:
    """Whether a text says that something was done, and nothing else, as "All set! That is taken care of." does."""
    sentences = [one for one in signs.SENTENCE_END.split(_plain(text)) if one.strip()]
    return bool(sentences) and all(signs.BARE.search(one) for one in sentences)


def admits_failure(text: str) -> bool:
    """Whether a text says that something cannot be done, is not there, or failed."""
    return signs.ADMITS.search(signs.NO_FAULT.sub(" ", _plain(text))) is not None


def asks_about_state(text: str) -> bool:
    """Whether a person's words ask how something is. "Can you open the door?" asks to do something."""
    return signs.INQUIRY.search(_plain(text)) is not None


def _plain(text: str) -> str:
    return " ".join(text.replace("’", "'").replace("*", "").lower().split(" "))
