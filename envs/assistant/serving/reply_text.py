"""What a person is told of changes, calls and their results, beside the words of the model.

Invariants:
- What a person consents to is told in full: each change that was asked for, and each argument of a call that no change
  shows. Codes are not told, and neither is what is in a password field.
- Where something that the agent tried was not done (`missed`), the person hears what and why, and what was done, if anything
  was. The agent's own words follow only if they ask something or admit that something did not work; then an admission is
  enough, and stands alone.
- Where nothing was called, the reply begins with the remark that nothing was switched, unless the words ask something or
  admit that something did not work. So it does if they claim success, or if the sentence is a command by Home Assistant's
  grammar and the home is not so yet; in a language that no rules read, words before a question do not count as asking.
  Outside of `shadow` it also does if the grammar does not know the sentence and the agent used no tool, or its language is
  one that no rules read, unless the sentence asks something. So no list of words such as "OK." decides.
- Where nothing was done and the words say that something was, only a question at their end stays: what stands beside a
  claim may follow from it. Where the person did not command and the agent has looked, or the grammar knows that only an
  answer is wanted, sentences stay that tell no state. Words without a claim stay as they are, to the letter. After a
  refusal, who tells a state claims. In a language that no rules read, a question at the end stays alone after a command
  or a refusal: nobody hears a claim that is not true.
- What is spoken before the reply is whole (`is_certain`) is heard whatever follows. Where the remark may follow it, rules
  have read that it neither claims nor confirms.
- States, attributes and services have Home Assistant's own words, if these are in the language of the sentences, else those
  of `home_words.yaml`.
- What Home Assistant's matcher did is told in the words of the language.
- No id of a device and no name of a tool is in the words of the model (`spoken_ids.py`).
- Words that only confirm, such as "Done.", are followed by what was done, unless the person has said just that.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from homerl.envs.assistant.listing.home_listing import entity_domain
from homerl.envs.assistant.listing.room_and_device_names import spoken_device_name
from homerl.envs.assistant.serving.call_effects import ChangeRecord, is_press_change, is_state_change, was_asked_for
from homerl.envs.assistant.serving.exchange_journal import Exchange
from homerl.envs.assistant.serving.home_words import HomeWords
from homerl.envs.assistant.serving.live_situation import UNMADE, TwinCall
from homerl.envs.assistant.serving.missed_actions import WITH_SENTENCE, MissedAction, words_of_name
from homerl.envs.assistant.serving.secret_masking import visible_arguments
from homerl.envs.assistant.serving.sentence_kind import SentenceKind
from homerl.envs.core.documents import InputError, read_yaml
from homerl.envs.core.documents.validation import did_you_mean
from homerl.envs.core.world import MOST_TEXT
from homerl.envs.homeenv.sim.devices.device_spec import Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.play.spoken_words import (
    SpokenWords,
    admits_failure,
    asks_about_state,
    leave_out_claims,
    only_confirms,
    questions_at_end,
    says_done,
    tells_state,
)
from homerl.play.tool_call_parser import parse_model_json, strip_code_fence

ASK_CODE = "question_code"  # the text that asks for a code
FILE = Path(__file__).parent / "words.yaml"
READ = ("en", "zh")  # languages in which rules know what a sentence claims
QUESTION_MARKS = ("?", "？", "؟", ";")  # how a question ends; the last one is Greek
FULL_WIDTH = ("。", "！", "？", "）")  # no space stands after a sentence that ends with one of them


class ReplyPhrases:
    """The sentences of a language. Raises `InputError` for a language that has none.

    The language of the model is English, unless its owner says otherwise; then what the home speaks counts, if it is known.
    """

    def __init__(self, language: str, spoken: str = "en", home: HomeWords = HomeWords()) -> None:
        known = _read_phrases()
        if language == "en" and (own := spoken.partition("-")[0]) in known:
            language = own
        if language not in known:
            raise InputError(f"'{language}' has no sentences", "--language", did_you_mean(language, list(known)))
        self._texts = known[language]
        self.reads_claims = spoken.partition("-")[0] in READ
        self.home = home if home.language.partition("-")[0] == language else HomeWords(language)  # no half of two languages

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


def find_json_answer(text: str) -> str | None:
    """The data of a text, for which a request has asked: all of it, what is fenced, or the last object or list among words.

    None if there is none. A text in quotes says something and is no data, and among words a list of numbers is none: [1].
    """
    text = text.lstrip("\ufeff")
    whole: list[str] = [strip_code_fence(text), *FENCED.findall(text)]
    for part in whole:
        with suppress(ValueError, RecursionError):
            if not isinstance(parse_model_json(part), str):
                return part.strip()
    return next(reversed([*_find_json_parts(text)]), None)


def _find_json_parts(text: str) -> Iterator[str]:
    """The objects and lists among words, in order; none within another."""
    begun = BRACKET.search(text[:MOST_TEXT])
    while begun:
        at = end = begun.start()
        with suppress(ValueError, RecursionError):
            value, end = DECODER.raw_decode(text, at)
            if isinstance(value, dict) or not all(isinstance(one, int | float) for one in value):
                yield text[at:end]
        begun = BRACKET.search(text, max(end, at + 1))


def is_code_question(said: str) -> bool:
    """Whether something that was said to a person asks for a code, in any language: that of the home may have changed."""
    return any(texts[ASK_CODE] in said for texts in _read_phrases().values())


@lru_cache(maxsize=1)
def _read_phrases() -> dict[str, dict[str, Any]]:
    texts: dict[str, dict[str, Any]] = read_yaml(FILE).data
    return texts


SAYS = "Home Assistant says: "
PLACE = re.compile(r"\b(?:https?|wss?)://[^\s'\"`;)]+|\b(?:\d{1,3}\.){3}\d{1,3}(?::\d+)?\b")
STATUS = re.compile(r"\s*\(status \d+: (.+)\)$")
MOST_TOLD = 4  # calls that are told one by one
UNSPEAKABLE = re.compile(r"\s*\S*[\\^$|\[\]{}<>]\S*")  # such as the regular expression of a lock's code
ENTITY_ID = re.compile(r"\b[a-z_]+\.([a-z][a-z0-9_]*)\b")
BRACKETS = re.compile(r"\s*\([^()]*(?:\([^()]*\)[^()]*)*\)")
FENCED = re.compile(r"(?:```|~~~)\w*\n(.*?)\n?(?:```|~~~)", re.DOTALL)
BRACKET = re.compile(r"[{\[]")
DECODER = json.JSONDecoder()
SENTENCE = re.compile(r"[.?!;]\s|[。？！；]|\n")


@dataclass(frozen=True)
class ReplyWriter:
    """Tells of an exchange, in the words of a language."""

    words: ReplyPhrases
    exchange: Exchange

    @property
    def plan(self) -> FixedPlan:
        """The devices as they are called when the home was looked at."""
        return self.exchange.seen.home.plan

    def _list_phrase(self, key: str, slot: str, parts: Iterable[str]) -> str:
        """A sentence with a list in its slot; empty if the list is."""
        listed = self.words.join_list(parts)
        return self.words.fill_phrase(key, **{slot: listed}) if listed else ""

    def describe_calls(self) -> str:
        """What calls do, as a person is shown it before: at once, and then by automations."""
        later = self.exchange.effects.later
        stated = {change.did for change in later.changes if is_state_change(change)}
        # of a device whose state changes, its state alone
        main = [change for change in later.changes if is_state_change(change) or change.did not in stated]
        texts = dict.fromkeys([*map(self._describe_change, main), *self._describe_actions(later.actions)])
        after = [self.words.fill_phrase("later", what=text) for text in texts]
        return self.words.join_list([*self._describe_at_once(), *after])

    def _describe_at_once(self) -> list[str]:
        """Changes that were asked for in words; calls, or arguments of calls, that no change shows follow.

        Where a call changes nothing of its device in the twin, the device's present state is told: what a toggle does
        depends on it.
        """
        calls, home = self.exchange.turn.calls, self.exchange.seen.home
        made = {one.did for one in calls}
        # of a press, its call tells more
        changes = [one for one in self.exchange.effects.changes if not (is_press_change(one) and one.did in made)]
        main = [change for change in changes if was_asked_for(change, calls)]
        touched = {one.did for one in main}
        told = [change for change in changes if change in main or change.did not in touched]
        changed = {change.did for change in told}
        states = {one.did: {} if one.did in changed else _state_of_several(home, one.did) for one in calls}
        rests = [(one, self._arguments_not_shown(one, told) | states[one.did]) for one in calls]
        actions = [self._describe_action(one, rest) for one, rest in rests if rest or one.did not in changed]
        return [*map(self._describe_change, told), *dict.fromkeys(actions)]

    def _arguments_not_shown(self, made: TwinCall, changes: Sequence[ChangeRecord]) -> dict[str, Any]:
        """The arguments of a call, as they may be told, that are not the new value of a told change of the same name."""
        shown = [(change.path.rpartition(".")[2], change.after) for change in changes if change.did == made.did]
        given = visible_arguments(made, self.exchange.seen.fields).items()
        return {key: one for key, one in given if made.arguments[key] is not None and (key, one) not in shown}

    def describe_possible_effects(self, ends: Iterable[str]) -> Iterator[str]:
        """On what automations may act that the twin does not follow. What is not exposed is told by its kind alone."""
        if things := dict.fromkeys(
            spoken_device_name(self.plan, end)
            if end in self.plan.devices_by_did
            else self.words.home.name_of_domain(entity_domain(end))
            for end in ends
        ):
            yield self.words.fill_phrase("perhaps", what=self.words.join_list(things, "within"))

    def audible_words(self, said: SpokenWords, kind: SentenceKind = "unknown", looked: bool = False) -> str:
        """The words of the agent's last message that the person may hear.

        `kind` is that of the sentence by Home Assistant's grammar, and `looked` tells whether the agent used any tool.
        """
        turn = self.exchange.turn
        if self.exchange.sentence.wants_json and (data := find_json_answer(said.text)) is not None:
            return data  # which claims nothing
        if turn.missed:
            asks = said.question or admits_failure(said.text)
            return (said.text if turn.calls else self._leave_out_claims(said.text, "command")) if asks else ""
        if turn.calls or not self._may_be_taken_for_done(said, kind, looked):
            return said.text
        return join_sentences(self.words.fill_phrase("idle"), self._leave_out_claims(said.text, kind, looked).strip())

    def is_certain(self, said: SpokenWords, kind: SentenceKind, looked: bool) -> bool:
        """Whether the person hears these words, with which a message begins, whatever the agent says and does after them."""
        if says_done(said.claims):
            return False
        if self._answers_question(kind):
            return True
        if tells_state(said.text):  # which a claim after it would take away
            return False
        if not self._may_be_taken_for_done(said, kind, looked):
            return True
        return self.words.reads_claims and kind != "command" and not only_confirms(said.text)

    def _leave_out_claims(self, text: str, kind: SentenceKind, looked: bool = False) -> str:
        """What stays of a text where nothing was done. What was spoken of it stays."""
        speaking, missed = self.exchange.speaking, bool(self.exchange.turn.missed)
        begun = speaking.begun if speaking and text.startswith(speaking.begun) else ""
        rest = text.removeprefix(begun)
        if kind == "command" and not self.words.reads_claims:  # what stands before a question may claim that it was done
            left = questions_at_end(rest)
        else:
            answers = kind == "talk" or (looked and kind != "command")
            left = leave_out_claims(rest, answers=answers, states=missed)
        return text if left == rest else join_sentences(begun, left.strip())

    def _answers_question(self, kind: SentenceKind) -> bool:
        return asks_about_state(self.exchange.sentence.said) and kind != "command"

    def _may_be_taken_for_done(self, said: SpokenWords, kind: SentenceKind, looked: bool) -> bool:
        """Whether a person may believe that something was done, whatever the language of the words, such as "OK."."""
        sentence, reads = self.exchange.sentence, self.words.reads_claims
        if self._answers_question(kind):
            return False
        if says_done(said.claims):
            return True
        if kind == "talk" or not said.claims.strip() or admits_failure(said.text):
            return False
        if said.question and reads:  # else what stands before it may claim that something was done
            return False
        if kind == "command":
            return True
        return sentence.mode != "shadow" and not (looked and (reads or sentence.said.rstrip().endswith(QUESTION_MARKS)))

    def describe_missed_actions(self) -> str:
        """What the agent tried in vain, and why; empty if nothing."""
        missed = self.exchange.turn.missed
        own = [self.words.fill_phrase(rule) for rule in WITH_SENTENCE if any(one.rule == rule for one in missed)]
        named = dict.fromkeys(self._describe_missed(one) for one in missed if one.rule not in WITH_SENTENCE)
        what = self.exchange.mask_text(self.words.join_list(named))
        return join_sentences(self.words.fill_phrase("refused", what=what) if what else "", *own)

    def _describe_missed(self, one: MissedAction) -> str:
        device, why = self.plan.devices_by_did.get(one.did), self.words.explain_rule(one.rule)
        service = self.words.home.name_of_service(device, one.service.replace(" ", "_"))
        parts = [part for part in (one.device, service) if part]
        if not parts:
            return why
        what = parts[0] if len(parts) == 1 else self.words.fill_phrase("action", device=one.device, service=service)
        return self.words.fill_phrase("missed", what=what, why=why)

    def reply_without_calls(self) -> str:
        """The reply where nothing was called. An agent that admits it, and does not only ask, needs no help of ours."""
        words = self.exchange.turn.words
        if words and admits_failure(words) and questions_at_end(words) != words:
            return words
        return join_sentences(self.describe_missed_actions(), words) or self.words.fill_phrase("unable")

    def report_outcome(self) -> str:
        """What became of calls: the agent's own words if all were carried out, what was done and what not otherwise.

        Where the real home was compared with the twin, what is not as expected follows.
        """
        turn, failed = self.exchange.turn, {one.did for one in self.exchange.undone_calls}
        main = [one for one in self.exchange.effects.changes if one.compared and was_asked_for(one, turn.calls)]
        wrong = [self._describe_actual(one) for one in main if one.differs and one.did not in failed]
        right = [self._describe_actual(one) for one in main if not one.differs and one.did in failed]
        return join_sentences(
            self._report_calls(),
            self.describe_missed_actions(),
            turn.words if turn.missed else "",
            self._list_phrase("differs", "changes", wrong),
            self._list_phrase("nevertheless", "changes", right),
        )

    def _report_calls(self) -> str:
        exchange = self.exchange
        if not exchange.undone_calls and any(one.rule != UNMADE for one in exchange.turn.missed):
            return self._list_phrase("only", "done", self._describe_actions(exchange.done_calls))
        if not exchange.undone_calls:
            # the matcher does what was said, and its own word is English
            own = "" if exchange.turn.missed or exchange.turn.agent else exchange.turn.words
            return join_sentences(own, self._describe_done() if only_confirms(own) else "") or self.words.fill_phrase("done")
        why = exchange.mask_text(spoken_error(exchange.errors[0]))
        if exchange.call_outcome == "failed":
            return self.words.fill_phrase("failed", why=why)
        done, left = map(self._describe_actions, (exchange.done_calls, exchange.undone_calls))
        return self.words.fill_phrase("partly", done=self.words.join_list(done), left=self.words.join_list(left), why=why)

    def _describe_done(self) -> str:
        """What was done, without what the person has said in just these words."""
        said = words_of_name(self.exchange.sentence.said)

        def is_said(one: TwinCall) -> bool:
            return words_of_name(f"{spoken_device_name(self.plan, one.did)} {_as_words(one.service)}") <= said

        actions = [*dict.fromkeys(self._describe_actions(one for one in self.exchange.done_calls if not is_said(one)))]
        more = [self.words.fill_phrase("more", count=len(actions) - MOST_TOLD)] if len(actions) > MOST_TOLD else []
        return self._list_phrase("acted", "done", [*actions[:MOST_TOLD], *more])

    def _describe_actions(self, made: Iterable[TwinCall]) -> list[str]:
        return [self._describe_action(one, visible_arguments(one, self.exchange.seen.fields)) for one in made]

    def _describe_action(self, made: TwinCall, arguments: dict[str, Any]) -> str:
        device, one, say = spoken_device_name(self.plan, made.did), self.plan.devices_by_did.get(made.did), self.words.home
        service = say.name_of_service(one, made.service)
        if not arguments:
            return self.words.fill_phrase("action", device=device, service=service)
        told = (
            self.words.fill_phrase(
                "argument",
                name=self._name_of_path(one, name) if name == "state" else say.name_of_service(one, made.service, name),
                value=say.name_of_value(one, name, self._value_as_text(value)),
            )
            for name, value in arguments.items()
        )
        within = self.words.join_list(told, "within")
        return self.words.fill_phrase("action_with", device=device, service=service, arguments=within)

    def _describe_change(self, change: ChangeRecord) -> str:
        if is_press_change(change):
            (service, *_) = self.plan.devices_by_did[change.did].spec.service_index
            named = self.words.home.name_of_service(self.plan.devices_by_did[change.did], service)
            return self.words.fill_phrase("action", device=change.device, service=named)
        before, after = self._name_of_value(change, change.before), self._name_of_value(change, change.after)
        path = self._name_of_path(self.plan.devices_by_did.get(change.did), change.path)
        return self.words.fill_phrase("change", device=change.device, path=path, before=before, after=after)

    def _name_of_path(self, device: Device | None, path: str) -> str:
        return self.words.fill_phrase("state") if path == "state" else self.words.home.name_of_path(device, path)

    def _name_of_value(self, change: ChangeRecord, value: Any) -> str:
        device = self.plan.devices_by_did.get(change.did)
        return self.words.home.name_of_value(device, change.path, self._value_as_text(value))

    def _value_as_text(self, value: Any) -> str:
        return self.words.fill_phrase("nothing") if value is None else str(value)

    def _describe_actual(self, change: ChangeRecord) -> str:
        actual = change.actual if change.differs else change.after
        path = self._name_of_path(self.plan.devices_by_did.get(change.did), change.path)
        return self.words.fill_phrase("is", device=change.device, path=path, actual=self._name_of_value(change, actual))


def spoken_error(error: object) -> str:
    """An error as the end of a sentence that is heard: its first sentence, without addresses, code and what is in brackets.

    An id is told by its words. Where Home Assistant said something, that alone. The log has all of it.
    """
    text = (str(error) or type(error).__name__).strip().rpartition(SAYS)[2]
    text = STATUS.sub(r": \1", PLACE.sub("the server", text))  # the words of a model's server
    heard = UNSPEAKABLE.sub("", BRACKETS.sub("", text)).replace("`", "")
    heard = ENTITY_ID.sub(lambda found: _as_words(found[1]), heard)
    return SENTENCE.split(heard, maxsplit=1)[0].strip().rstrip(".。?？!！")


def _state_of_several(home: Home, did: str) -> dict[str, Any]:
    """The state of a device, if it is one of several."""
    _, state = home.plan.devices_by_did[did].spec.attribute_index.get("state", (0, None))
    return {"state": home.read_value(did, "state")} if state is not None and state.options else {}


def _as_words(path: str) -> str:
    return path.replace("_", " ").replace(".", " ")
