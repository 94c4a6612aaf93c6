"""What a message says to a person: its words, whether they ask something, and whether they claim that something was done.

The rules read English and Chinese, and `closings.py` judges by them how turns end. They prefer precision to recall. A
message claims nothing if it tells how a thing is ("the light is on"), what was done at another time, or what is to come. It
claims nothing either if it ends with a question, or admits that something did not work.

Invariant: all functions are pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from itertools import takewhile

from homerl.envs.core.messages import Message
from homerl.play.tool_call_parser import parse_json_answer, parse_speech
from homerl.play.trajectory import Step
from homerl.play.words import claim_patterns as signs


@dataclass(frozen=True)
class SpokenWords:
    """What a message says to the user.

    `claims` is the text without questions. `question` tells whether it asks something; offering more help is not asking.
    """

    text: str
    claims: str
    question: bool


def spoken_words_of(message: Message, *, one_answer: bool = False, json_answers: bool = False) -> SpokenWords:
    """The words of an agent's message: neither thoughts nor calls, even if they could not be read.

    With `one_answer`, its JSON has them in `response`, and `mode` tells if it asks. With `json_answers`, they may be JSON.
    """
    content = message.get("content") or ""
    if not one_answer:
        return _split_questions(parse_speech(content, bare=not json_answers).words)
    answer = parse_json_answer(content)[0] or {}
    text = answer.get("response")
    said = _split_questions(text if isinstance(text, str) else "")
    return replace(said, question=answer.get("mode") == "clarify")


def _split_questions(text: str) -> SpokenWords:
    """The text, what it claims beside its questions, and whether it asks more than it offers."""
    claims, asked = list[str](), 0
    for sentence in (signs.CLOSING.sub("", part.strip()) for part in signs.SENTENCE_END.split(text)):
        lower = sentence.lower()
        if not signs.ASKS.search(lower):
            claims.append(sentence)
            continue
        asked += signs.OFFERS.search(lower) is None
        # What stands before an offer is said: "it is on, shall I turn it off?" says that it is on.
        said = signs.OFFER.sub("", lower)
        if said != lower and not (signs.QUESTION.search(said) or signs.ASKS.search(said)):
            claims.append(sentence[: len(said)])
    return SpokenWords(text, " ".join(filter(None, claims)), asked > 0)


def words_without_calls(step: Step) -> SpokenWords | None:
    """The words of a message without calls; None of one with calls, which may have words beside them that nobody hears."""
    return None if step.message.get("tool_calls") else spoken_words_of(step.message)


def claims_success(text: str) -> bool:
    """Whether a text, without its questions, says that something was done, and nothing that did not work."""
    return says_done(text) and not admits_failure(text)


def says_done(text: str) -> bool:
    """Whether a part of a text says that something was done just now."""
    clauses = signs.CLAUSE.split(_normalise(text))
    return any(
        signs.DID.search(clause) and not (signs.NEGATION.search(clause) or signs.SUPPOSED.search(clause))
        for clause in map(str.strip, filter(None, clauses))
    )


def only_confirms(text: str) -> bool:
    """Whether a text says that something was done, and nothing else, as "All set! That is taken care of." does."""
    sentences = [one for one in signs.SENTENCE_END.split(_normalise(text)) if one.strip()]
    return bool(sentences) and all(signs.BARE.search(one) for one in sentences)


def leave_out_claims(text: str, *, answers: bool = False, states: bool = False) -> str:
    """The words that stay where nothing was done: the text as it is, unless it says that something was.

    What stands beside such a claim may follow from it ("I locked the door. You are safe."). So of that text questions at
    its end are left; where it `answers` somebody or tells what was read, also its sentences that tell no state. With
    `states`, who tells a state claims too. Empty if the text only confirms.
    """
    parts = _split_sentences(text)
    claims = [says_done(one) or _confirms_a_deed(one) or (states and tells_state(one)) for one in parts]
    if any(claims):
        if answers:
            parts = [one for one, claim in zip(parts, claims, strict=True) if not (claim or tells_state(one))]
        else:
            parts = [questions_at_end(text)]
    left = "".join(parts)
    return "" if only_confirms(left) else left


def questions_at_end(text: str) -> str:
    """The questions with which a text ends, in any language that has a question mark; none that says what was done."""
    asked = takewhile(_is_question_alone, reversed(_split_sentences(text, signs.STATEMENT_END)))
    return "".join([*asked][::-1])


def _split_sentences(text: str, boundary: re.Pattern[str] = signs.SENTENCE_END) -> list[str]:
    """The sentences of a text, each with what stands before the next; together they are the text."""
    ends = [found.end() for found in boundary.finditer(text)]
    parts = list[str]()
    for begin, end in zip([0, *ends], [*ends, len(text)], strict=True):
        if parts and not signs.WORD.search(text, begin, end):  # "!!", a bracket, or the space between two lines
            parts[-1] += text[begin:end]
        else:
            parts.append(text[begin:end])
    return parts


def _is_question_alone(sentence: str) -> bool:
    lower = signs.CLOSING.sub("", sentence.strip()).lower()
    return signs.ASKS.search(lower) is not None and not says_done(sentence)


def _confirms_a_deed(sentence: str) -> bool:
    return only_confirms(sentence) and not signs.INTERJECTION.search(_normalise(sentence))


def tells_state(text: str) -> bool:
    """Whether a text says, beside its questions, how something is that can be switched: "it is on"."""
    return signs.TELLS_STATE.search(_normalise(_split_questions(text).claims)) is not None


def admits_failure(text: str) -> bool:
    """Whether a text says that something cannot be done, is not there, or failed."""
    return signs.ADMITS.search(signs.NO_FAULT.sub(" ", _normalise(text))) is not None


def asks_about_state(text: str) -> bool:
    """Whether a person's words ask how something is. "Can you open the door?" asks to do something."""
    return signs.INQUIRY.search(_normalise(text)) is not None


def _normalise(text: str) -> str:
    return " ".join(text.replace("’", "'").replace("*", "").lower().split(" "))
