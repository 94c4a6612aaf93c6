"""Messages in OpenAI's format: what a policy observes, how a model's text is read, and homerl's chat template.

Invariants:
- An `Observation` is plain data that gives no access to the episode, the goals Φ, the plan, the blueprint or the world. It
  is a copy, so a policy may change it.
- homerl's template is prefix-preserving: the text of a dialogue begins with the text of its first messages.
- `parse_reply` never raises on sampled text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

from homerl.envs.core.messages import Message, copy_plain_data
from homerl.envs.core.world import Action, ToolCall, is_too_deep
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import (
    NO_OBJECT,
    Tools,
    describe_parse_error,
    parse_bounded_json,
    parse_speech,
    strip_code_fence,
    strip_thoughts,
    strip_thoughts_and_controls,
)
from homerl.play.words import claim_patterns as signs


@dataclass(frozen=True)
class Observation:
    """All that a policy receives.

    `one_answer` asks for one JSON answer instead of tool calls. `protocol` tells how the world parses replies, if its
    agents need to know (`Situation.protocol`). `seed` is that of the episode: several plays of a task differ in it alone.
    """

    blueprint_id: str
    messages: tuple[Message, ...]
    tools: tuple[Mapping[str, Any], ...]
    one_answer: bool = False
    protocol: Mapping[str, bool | int | str] = field(default_factory=dict)
    seed: int = 0

    def __post_init__(self) -> None:
        """Copy the messages and tools."""
        object.__setattr__(self, "messages", tuple(map(copy_plain_data, self.messages)))
        object.__setattr__(self, "tools", tuple(map(copy_plain_data, self.tools)))


IM_START, IM_END = "<|im_start|>", "<|im_end|>"
MARK = "homerl's training chat template"  # the first words of the template
NO_THOUGHT = "<think>\\n\\n</think>\\n\\n"  # as a template writes it
THOUGHT = "reasoning_content"  # the key of a message under which servers tell a thought: kept, and told to nobody
JSON_ANSWERS = "json_answers"  # in `Situation.protocol`: words may be JSON
NAMED = {"signatures, as JSON, one a line": "names, one a line", "(tool | tojson)": "tool.function.name"}  # in templates
TRAINED = re.compile(r"\{%-?( (?:end)?generation )-?%\}")
PLAIN = re.compile(r"\{#-( (?:end)?generation )-#\}")
ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a surrogate pair


def replace_surrogates(text: str) -> str:
    """The text with every lone surrogate replaced."""
    return text if _can_be_encoded(text) else text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def copy_plain_message(message: Any) -> Any:
    """A copy of a message that shares nothing with it, and has no lone surrogate anywhere: no file could hold one."""
    if isinstance(message, str):
        return replace_surrogates(message)
    if isinstance(message, dict):
        return {copy_plain_message(key): copy_plain_message(value) for key, value in message.items()}
    return [copy_plain_message(part) for part in message] if isinstance(message, list) else message


def _can_be_encoded(text: str) -> bool:
    """Whether there is no half of a surrogate pair. A search for one by a pattern takes a hundred times as long."""
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def parse_model_json(text: str) -> Any:
    """Parse JSON that a model wrote, without lone surrogates.

    Raises `ValueError` or `RecursionError`, as `json.loads` does. It raises `ValueError` also for a text that is longer than
    `MOST_TEXT`, which is not read.
    """
    value = parse_bounded_json(text)
    escaped = ("\\ud" in text or "\\uD" in text) and ESCAPED_HALF.search(text)
    plain = not escaped and _can_be_encoded(text)
    return value if plain else json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))


def parse_json_answer(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """(the single JSON answer of an agent or None, what is malformed or None). A code fence around the JSON is allowed."""
    try:
        answer = parse_model_json(strip_code_fence(text))
    except (ValueError, RecursionError) as error:
        return None, f"the answer is not JSON ({describe_parse_error(error)})"
    return (answer, None) if isinstance(answer, dict) else (None, "the answer is not a JSON object")


def read_tool_calls(message: Message) -> tuple[ToolCall, ...]:
    """The calls of a message in OpenAI's form, in order. Arguments that are no JSON object make a `malformed` call."""
    calls = list[ToolCall]()
    for call in message.get("tool_calls") or ():
        text = call["function"]["arguments"]
        try:
            arguments = parse_model_json(text or "{}")
        except (ValueError, TypeError, RecursionError):
            arguments = None
        readable = isinstance(arguments, dict)
        given, why = (arguments, None) if readable else ({}, NO_OBJECT)
        calls.append(ToolCall(call["function"]["name"], given, call.get("id") or "", text, why))
    return tuple(calls)


def action_to_tool_call(action: Action) -> ToolCall:
    """A world's action as a call."""
    return ToolCall(action["name"], {key: value for key, value in action.items() if key != "name"})


def calls_to_record(calls: Iterable[ToolCall]) -> tuple[ToolCall, ...]:
    """The calls as the facts of a step have them: arguments that are nested too deeply to be stored are left out."""
    return tuple(ToolCall(call.name, {} if is_too_deep(call.arguments) else call.arguments) for call in calls)


def tool_calls_of(message: Message, answer_tool: str | None = None) -> tuple[ToolCall, ...]:
    """The calls of a stored message. With an `answer_tool`, its single JSON answer is one call of that tool."""
    if answer_tool is None:
        return calls_to_record(read_tool_calls(message))
    answer, _ = parse_json_answer(message.get("content") or "")
    return () if answer is None else calls_to_record([action_to_tool_call({**answer, "name": answer_tool})])


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


@lru_cache
def build_chat_template(show_tools: bool = True, silent: bool = False, named: bool = False) -> str:
    """homerl's training template. A model that is trained for few toolsets may do without the tools' schemas: it is shown
    their names alone if they are `named`, or nothing of them.

    A model that can think is `silent`: each of its messages begins after an empty thought, as its own template has it where
    thinking is switched off (Qwen3). The thought is part of the prompt and is not trained on.
    """
    text = (Path(__file__).parent / "chat_template.jinja").read_text(encoding="utf-8")
    text = text.replace("SHOW_TOOLS", "true" if show_tools else "false")
    for schema, name in NAMED.items() if named else ():
        text = text.replace(schema, name)
    return text.replace("assistant\\n'", f"assistant\\n{NO_THOUGHT}'") if silent else text


def shows_tools(template: str) -> bool:
    """Whether a template of homerl's writes the tools into the prompt; else its model knows them by heart."""
    return "set show_tools = true" in template


def is_homerl_template(template: str) -> bool:
    """Whether a chat template is homerl's."""
    return MARK in template


def shows_tool_names(template: str) -> bool:
    """Whether a template of homerl's shows the names of tools alone."""
    return all(name in template for name in NAMED.values())


def can_switch_thinking(template: str) -> bool:
    """Whether a model's own chat template can switch its thinking off."""
    return "enable_thinking" in template and "</think>" in template


def has_empty_thought(template: str) -> bool:
    """Whether a template of homerl's begins each of the assistant's messages with an empty thought."""
    return NO_THOUGHT in template


def without_generation_tags(template: str) -> str:
    """A chat template without the tags that only transformers knows: each becomes a comment, so the text stays the same."""
    return TRAINED.sub(r"{#-\1-#}", template)


def with_generation_tags(template: str) -> str:
    """A template of homerl's with the tags that mark what to train on, whether or not it was made plain."""
    return PLAIN.sub(r"{%-\1-%}", template)


def parse_reply(text: str, tools: Tools = (), json_answers: bool = False) -> Reply:
    """Sampled text without its final `<|im_end|>` as a reply, with the calls that it makes.

    The `tools` tell numbers from texts, where a model's form of a call does not. With `json_answers`, JSON without a mark is
    an answer in words.
    """
    text = text.strip()
    said = parse_speech(text, tools, bare=not json_answers)
    thought = {THOUGHT: said.thought} if said.thought else {}
    if said.malformed:
        return Reply({"role": "assistant", "content": strip_thoughts(text), **thought}, said.malformed, calls=())
    functions = [{"name": call.name, "arguments": call.text} for call in said.calls]
    calls = {"tool_calls": [{"type": "function", "function": function} for function in functions]} if functions else {}
    return Reply({"role": "assistant", "content": said.words.strip(), **calls, **thought}, calls=said.calls)


def parse_observed_reply(text: str, observation: Observation) -> Reply:
    """A model's text as a reply, as it is read where the model has observed this."""
    if observation.one_answer:
        return Reply({"role": "assistant", "content": strip_thoughts_and_controls(text.strip())}, calls=())
    return parse_reply(text, observation.tools, bool(observation.protocol.get(JSON_ANSWERS)))
