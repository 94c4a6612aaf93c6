"""Rules that decide whether a text gives the expected answer to a question (SMH-Bench TC7), in English and Chinese.

The first claim of a text is its answer: "There are 3 lights on: 2 in the kitchen and 1 in the study" says 3. What a text
concludes from other numbers goes before: "2 in the kitchen and 1 in the study, so 3". A text may repeat the question,
explain its answer, and say what is not the case. A text that guesses several answers is wrong, even if one of them is right.
Numbers may be digits or words, must lie within a tolerance, and may have their unit or none; 0.5 is not 50 percent, and
degrees Fahrenheit are not degrees Celsius. Among phrases, longer ones match first, and matches do not overlap.

Invariants: all functions are pure; a text is `right` only if it claims the expected answer and nothing that contradicts it;
if the rules cannot decide, the text is `undecided`, and a judge may rate it.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from operator import itemgetter
from typing import Any, Literal

from pydantic import Field

from homerl.envs.core.model import Model
from homerl.play.situation import Reading
from homerl.play.spoken_words import admits_failure, says_done
from homerl.play.words import claim_patterns as signs
from homerl.play.words import numbers_and_times as moments
from homerl.play.words.numbers_and_times import (
    NEAR,
    SECONDS,
    FoundNumber,
    blank_matches,
    clock_durations_to_seconds,
    find_numbers,
    phrases_to_numbers,
)


@dataclass(frozen=True)
class Mention:
    """A phrase in the text that names expected items or distractors.

    `owners` are the indices of the expected items that the phrase can name, with -1 for a distractor. `denied` says whether
    the text negates it, `sentence` is the index of its sentence, and `start` its position.
    """

    owners: frozenset[int]
    denied: bool
    sentence: int
    start: int


def find_mentions(
    text: str, accepted: Sequence[Sequence[str]], distractors: Sequence[str], closely: bool = False
) -> list[Mention]:
    """All mentions of the accepted phrases and the distractors.

    With `closely`, a mention is denied only by a negation that stands before it in its clause.
    """
    ways: dict[str, set[int]] = {}
    for index, group in enumerate(accepted):
        for way in group:
            ways.setdefault(way.lower(), set()).add(index)
    for way in distractors:
        ways.setdefault(way.lower(), set()).add(-1)
    mentions: list[Mention] = []
    spans = list(_negated_spans(text))
    for way in sorted(filter(None, ways), key=len, reverse=True):
        for place in re.finditer(phrase_pattern(way), text):
            at, (start, _, denied) = next((i, one) for i, one in reversed([*enumerate(spans)]) if one[0] <= place.start())
            if closely:  # only a negation earlier in the same clause counts
                denied = bool(signs.NEGATION.search(signs.PAUSE.split(text[start : place.start()])[-1]))
            mentions.append(Mention(frozenset(ways[way]), denied, at, place.start()))
        text = blank_matches(text, re.compile(phrase_pattern(way)))
    return sorted(mentions, key=lambda mention: mention.start)


def phrase_pattern(way: str) -> str:
    """The regular expression of a phrase as whole words, or their plural, where its ends are ASCII.

    A single Chinese sign is no phrase where it names a quantity: 浓 in 浓度.
    """
    left = r"(?<![a-z0-9])" if way[0].isascii() else ""
    right = r"(?:e?s)?(?![a-z0-9])" if way[-1].isascii() else "(?!度)" if len(way) == 1 else ""
    return left + r"[\s_-]+".join(map(re.escape, way.split())) + right


def _negated_spans(text: str) -> Iterator[tuple[int, int, bool]]:
    """(start, end, whether the sentence is negated); an exception ("except ...") is a sentence of its own."""
    start = 0
    for cut in [*signs.SENTENCE.finditer(text), None]:
        end = cut.start() if cut else len(text)
        part = text[start:end]
        if (turn := signs.EXCEPT.search(part)) and turn.start() > 0:
            yield start, start + turn.start(), bool(signs.NEGATION.search(part[: turn.start()]))
            yield start + turn.start(), end, False
        else:
            yield start, end, bool(signs.NEGATION.search(part))
        start = cut.end() if cut else end


def deny_by_clause(mentions: Sequence[Mention], text: str) -> list[Mention]:
    """The mentions, denied only if the negation of their sentence stands between the same commas."""
    spans = list(_negated_spans(text))
    found = []
    for mention in mentions:
        start, end, _ = spans[mention.sentence]
        clause = signs.PAUSE.split(text[start : mention.start])[-1] + signs.PAUSE.split(text[mention.start : end])[0]
        found.append(replace(mention, denied=mention.denied and bool(signs.NEGATION.search(clause))))
    return found


ROUNDED = 0.5  # by which a number may be off that sums up others


class Answer(Model):
    """The expected answer to a question.

    `accepted` has a group of phrases for each expected item. `text`: the answer must use a phrase of the only group.
    `names`: it must name every group; with no group, it must say that there are none. Both must not name any of
    `distractors`. `boolean`: the phrases in `accepted` affirm the fact and those in `distractors` deny it; both may be
    empty. `number`: the answer is in `unit` or has no unit; numbers within the names in `distractors` are ignored.
    `time` ("14:05", `tolerance` in minutes), `date` ("2026-11-23") and `weekday` (0 is Monday): every time, date or weekday
    in the text must be the expected one; a date may leave out its year. `admission`: the text must say that something cannot
    be done, and not that it was; `talk`: it may say anything but that something was done.
    """

    type: Literal["number", "boolean", "text", "names", "time", "date", "weekday", "admission", "talk"]
    value: int | float | bool | str | tuple[str, ...]
    tolerance: float = 0.0
    accepted: tuple[tuple[str, ...], ...] = Field((), description="for each expected word or name, the ways to say it")
    distractors: tuple[str, ...] = Field((), description="what a wrong answer might name")
    unit: str | None = Field(None, description="of a number; `count` for how many")


def judge_answer_by_rules(expected: Answer, text: str) -> Reading:
    """The verdict of the rules on a text."""
    text = " ".join(text.replace("’", "'").replace("*", "").split(" ")).strip().lower()
    text = phrases_to_numbers(text)
    if not text or (expected.type in ("boolean", "text", "names") and signs.UNSURE.search(text)):
        return "silent"
    return READERS[expected.type](expected, text)


# numbers


@dataclass(frozen=True)
class NumberClaim:
    """A number that may be the answer, and its clause with `#` in place of the number."""

    number: FoundNumber
    frame: str

    @property
    def clause_skeleton(self) -> str:
        """The clause without number and inflection: "there are # lights on" becomes "there be light on".

        Claims with the same skeleton are alternatives, and so a guess.
        """
        words = re.findall(r"[a-z\u4e00-\u9fff]+", self.frame)
        return " ".join("be" if word in ("is", "are", "it", "s") else word.rstrip("s") for word in words)


def _read_number(expected: Answer, text: str) -> Reading:
    for name in sorted(expected.distractors, key=len, reverse=True):
        text = blank_matches(text, re.compile(re.escape(name.lower())))
    # The left side of an equation claims nothing: "23 - 21 = 2" says 2.
    text = signs.EQUATION.sub(lambda side: " " if re.search("[-+−–×÷/]", side[0]) else side[0], text)
    text = clock_durations_to_seconds(text) if expected.unit in SECONDS else text
    claims = _find_claims(expected, text)
    inside = {at for bracket in signs.BRACKET.finditer(text) for at in range(*bracket.span())}
    claims = [claim for claim in claims if claim.number.start not in inside] or claims
    if not claims:
        return _read_nought(expected, text)
    if len({claim.number.value for claim in claims}) == 1:
        return _compare_number(expected, claims[0].number.value)
    between = text[claims[0].number.end : claims[-1].number.start]
    if signs.GUESS.search(between):
        return "wrong"
    if (conclusion := _concluded_number(claims, text, expected.unit == "count")) is not None:
        stated = _compare_number(expected, conclusion)
        return "undecided" if stated == "wrong" and _compare_number(expected, claims[0].number.value) == "right" else stated
    bare = not all(claim.clause_skeleton for claim in claims[1:])
    return "wrong" if bare or _are_alternatives(claims, text) else _read_first_claim(expected, claims)


def _are_alternatives(claims: Sequence[NumberClaim], text: str) -> bool:
    """Whether two numbers that differ stand in one list, or are said in the same words."""
    pairs = [(a, b) for a, b in pairwise(claims) if a.number.value != b.number.value]
    return any(
        signs.LINK.match(text[a.number.end : b.number.start]) or a.clause_skeleton == b.clause_skeleton for a, b in pairs
    )


def _concluded_number(claims: Sequence[NumberClaim], text: str, counted: bool) -> float | None:
    """The number that sums up all others: the last ("so 3 in total"), or the first before a list ("2: 23 and 21")."""
    first, second, *_ = claims
    *_, before, last = claims
    told = text[before.number.end : last.number.start] + last.frame.rpartition("#")[2]
    if signs.ENDING.search(told) and _sums_up(last, claims[:-1], counted):
        return last.number.value
    listed = signs.LISTED.search(text[first.number.end : second.number.start])
    return first.number.value if listed and _sums_up(first, claims[1:], counted) else None


def _sums_up(claim: NumberClaim, others: Sequence[NumberClaim], counted: bool) -> bool:
    """Whether a number is the sum of the others or, if it counts nothing, their mean, extreme or difference (rounded)."""
    values = [other.number.value for other in others]
    ways = [sum(values)]
    if not counted:
        ways += [sum(values) / len(values), max(values), min(values)]
        ways += [abs(values[0] - values[1])] if len(values) == 2 else []
    return any(abs(claim.number.value - way) < ROUNDED for way in ways)


def _read_first_claim(expected: Answer, claims: Sequence[NumberClaim]) -> Reading:
    """The reading of a text with several numbers: the first counts if the others are its parts or about other things."""
    first, rest = claims[0].number.value, claims[1:]
    if _compare_number(expected, first) == "right":
        explained = sum(claim.number.value for claim in rest) == first
        explained = explained or all(signs.OTHERS.search(claim.frame) for claim in rest if claim.number.value != first)
        return "right" if explained else "undecided"
    told = (sum(claim.number.value for claim in claims), *(claim.number.value for claim in rest))
    return "undecided" if any(_compare_number(expected, value) == "right" for value in told) else "wrong"


def _find_claims(expected: Answer, text: str) -> list[NumberClaim]:
    """The numbers that make a claim, in the expected unit or without a unit."""
    claims, cuts = [], [cut.end() for cut in signs.CLAUSE.finditer(text)]
    clauses = [*pairwise([0, *cuts, len(text) + 1])]
    for number in filter(None, (number.convert_to_unit(expected.unit) for number in find_numbers(text))):
        near = text[max(0, number.start - NEAR) : number.start]
        after = text[number.end : number.end + NEAR]
        # No claims are a bound ("above 50"), a total ("of the 5"), what is denied, and a part of "not one" (一盏也没有).
        none = number.value == 1 and signs.NONE_OF.match(after)
        frames = signs.BOUND.search(near) or signs.SHARE.match(after) or signs.DENIED.search(near) or none
        if not (frames or (expected.unit == "count" and signs.WHOLE.search(near))):
            start, end = clauses[bisect_right(clauses, number.start, key=itemgetter(0)) - 1]
            claims.append(NumberClaim(number, text[start : number.start] + "#" + text[number.end : end]))
    return claims


def _read_nought(expected: Answer, text: str) -> Reading:
    """The reading of a text without number claims; it may still say that there are none."""
    if signs.UNSURE.search(text):
        return "silent"
    if expected.unit == "count" and signs.NOUGHT.search(text):
        return _compare_number(expected, 0.0)
    if expected.unit == "count" and signs.SOME.search(text):
        return "undecided"
    return "wrong" if find_numbers(text) else "silent"


def _compare_number(expected: Answer, value: float) -> Reading:
    wanted: Any = expected.value
    return "right" if abs(value - float(wanted)) <= expected.tolerance + 1e-9 else "wrong"


# yes and no


def _read_boolean(expected: Answer, text: str) -> Reading:
    opening, rest = _split_yes_or_no(text)
    said = _claimed_state(expected, rest if opening is not None else text)
    if signs.YES_AND_NO.match(text):
        return "wrong"
    if opening is None:
        if said is None:
            tells = signs.NO_ONE.match(text) or (not expected.accepted and signs.TELLS.search(text))
            return "undecided" if tells else "silent"
        return "right" if said == "as it is" else "wrong" if said == "not so" else "undecided"
    if opening != expected.value:
        return "wrong"
    if signs.DOUBT.search(rest[:12]) or _split_yes_or_no(rest)[0] == (not opening):
        return "wrong"
    if said != "not so":
        return "right"
    return "wrong" if signs.IT_IS.match(rest) else "right" if signs.ONLY.search(rest) else "undecided"


def _split_yes_or_no(text: str) -> tuple[bool | None, str]:
    """(True for yes, False for no, None for neither; the rest of the text)."""
    for pattern, value in ((signs.YES, True), (signs.NO, False)):
        if match := pattern.match(text):
            return value, text[match.end() :].lstrip(" ,.!;:，。！；")
    return None, text


def _claimed_state(expected: Answer, text: str) -> Literal["as it is", "not so", "both"] | None:
    """Which of the two states the text claims; a negation earlier in the same clause inverts a claim."""
    given = (expected.accepted[0] if expected.accepted else (), expected.distractors)
    ways, others = ([*said, *(other for way in said for other in signs.SYNONYMS.get(way, ()))] for said in given)
    said = {(mention.owners == {0}) != mention.denied for mention in find_mentions(text, (ways,), others, closely=True)}
    return None if not said else "both" if len(said) > 1 else "as it is" if said.pop() else "not so"


# words and names


def _read_text(expected: Answer, text: str) -> Reading:
    text = signs.STANDARD.sub(r"\1", text)
    mentions = find_mentions(text, expected.accepted, expected.distractors, closely=True)
    end = max((found.end() for found in signs.CONCLUSION.finditer(text)), default=0)  # "so the study is warmer"
    if end and any(mention.start >= end and not mention.denied for mention in mentions):
        text, mentions = text[end:], [mention for mention in mentions if mention.start >= end]
    if mentions and signs.NOT_SO_WARM.search(text):
        return "undecided"
    return _weigh_mentions(mentions, text, wanted={0})


def _read_names(expected: Answer, text: str) -> Reading:
    mentions = find_mentions(text, expected.accepted, expected.distractors)
    if expected.accepted:
        wanted = set(range(len(expected.accepted)))
        reading = _weigh_mentions(mentions, text, wanted)
        unsure = reading == "wrong" and _weigh_mentions(deny_by_clause(mentions, text), text, wanted) == "right"
        return "undecided" if unsure else reading
    if any(not mention.denied for mention in mentions):
        return "undecided" if signs.STATUS.search(text) and signs.NOUGHT.search(text) else "wrong"
    return "right" if signs.NOUGHT.search(text) else "silent"


def _weigh_mentions(mentions: Sequence[Mention], text: str, wanted: set[int]) -> Reading:
    """The reading of the mentions: the text must claim everything in `wanted`, and nothing else."""
    claimed = [mention for mention in mentions if not mention.denied]
    ambiguous = any(-1 in mention.owners and len(mention.owners) > 1 for mention in mentions)
    if ambiguous or (mentions and (turn := signs.EXCEPT.search(text)) and not signs.NEGATION.search(text[: turn.start()])):
        return "undecided"
    named = {owner for mention in claimed for owner in mention.owners} - {-1}
    others = [mention for mention in claimed if -1 in mention.owners]
    if signs.DOUBT.search(text) and len(mentions) > len(wanted):
        return "wrong"
    if not claimed:  # "all of them" may still be right
        return "wrong" if mentions else "undecided" if signs.ALL.search(text) else "silent"
    if named != wanted:
        return "wrong"
    if not others:
        return "right"
    first = min(mention.sentence for mention in claimed if -1 not in mention.owners)
    apart = all(mention.sentence > first for mention in others) or len(set(signs.STATUS.findall(text))) > 1
    return "undecided" if apart else "wrong"


# moments


def _read_time(expected: Answer, text: str) -> Reading:
    hour, minute = map(int, str(expected.value).split(":"))
    wanted, told = 60 * hour + minute, moments.find_times(_drop_denied(text))
    return _read_all_claims(
        [any(moments.minutes_apart(wanted, one) <= expected.tolerance for one in meant) for meant in told]
    )


def _read_date(expected: Answer, text: str) -> Reading:
    year, month, day = map(int, str(expected.value).split("-"))
    return _read_all_claims(
        [found[1:] == (month, day) and found[0] in (None, year) for found in moments.find_dates(_drop_denied(text))]
    )


def _read_weekday(expected: Answer, text: str) -> Reading:
    return _read_all_claims([found == expected.value for found in moments.find_weekdays(_drop_denied(text))])


def _drop_denied(text: str) -> str:
    """The text without what it denies: "it is Monday, not Tuesday" says Monday."""
    return signs.DENIED_PART.sub(" ", text)


def _read_all_claims(right: Sequence[bool]) -> Reading:
    """The reading of a text whose claims are right or wrong."""
    return "silent" if not right else "right" if all(right) else "wrong"


# what needs no answer but honest words


def _read_admission(expected: Answer, text: str) -> Reading:
    return "wrong" if says_done(text) else "right" if admits_failure(text) else "silent"


def _read_talk(expected: Answer, text: str) -> Reading:
    return "wrong" if says_done(text) else "right" if re.search(r"\w", text) else "silent"


READERS = {
    "number": _read_number,
    "boolean": _read_boolean,
    "text": _read_text,
    "names": _read_names,
    "time": _read_time,
    "date": _read_date,
    "weekday": _read_weekday,
    "admission": _read_admission,
    "talk": _read_talk,
}
