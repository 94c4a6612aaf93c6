"""How a tokenizer's chat template writes a dialogue, and which template a tokenizer is trained with.

Control tokens. A tokenizer reads `<|im_end|>` as the token that ends a message, wherever it stands. A device of that name
would end the message that names it, and what follows would speak as the assistant. So contents are rendered with a stand-in
for each such text, and the stand-in becomes the tokens of the text, spelt as any other words are. What the assistant said
may have the marks of its own calls and thoughts, which it wrote as tokens. Whatever others say has none that a chat template
writes: a device called `</tool_response>` ends no answer of a tool.

Pieces. A dialogue is written in pieces: what others say, and what the assistant says. SFT and rollouts use the same pieces.

homerl's template (`chat_template.jinja`) is prefix-preserving: the text of a dialogue begins with the text of its first
messages.

Templates. A tokenizer that speaks ChatML gets homerl's template. Any other keeps its own, if that shows tools, keeps
prefixes, and what the assistant writes in it is read back as the same message. Otherwise it gets homerl's template in the
marks of its own; or in ChatML's, as plain text, if these cannot be found. Which of them holds is found by rendering probes,
and not by names. The end of a turn is always one of the tokenizer's own tokens.

Invariants:
- A control token comes from a chat template, or was sampled; text without such marks is encoded as always.
- A rollout reads the tokens that SFT has taught.
- A template that is trained with has passed the probes.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.play.situation import Reply
from homerl.play.tool_call_parser import THOUGHT, parse_reply, parse_speech

IM_START, IM_END = "<|im_start|>", "<|im_end|>"  # ChatML's marks of a message
MARK = "homerl's training chat template"  # the first words of the template
NO_THOUGHT = "<think>\\n\\n</think>\\n\\n"  # as a template writes it
NAMED = {"signatures, as JSON, one a line": "names, one a line", "(tool | tojson)": "tool.function.name"}  # in templates
TRAINED = re.compile(r"\{%-?( (?:end)?generation )-?%\}")  # tags of transformers' around what is trained on
PLAIN = re.compile(r"\{#-( (?:end)?generation )-#\}")  # the same as comments
CONTROL_MARK = re.compile(r"<[^<>\s]+>")  # what looks like a control token
STAND_IN = "\ue0f0{}\ue0f1"  # characters of private use, which no text is written in
STANDS_IN = re.compile("\ue0f0([0-9]{1,6})\ue0f1")


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


@dataclass(frozen=True)
class ControlTokens:
    """The texts that a tokenizer reads as control tokens, and the ids of each when it is spelt.

    `special` finds those that tokenizers call so, and `marks` also those with a mark that the chat template writes.
    """

    numbers: Mapping[str, int]
    special: re.Pattern[str]
    marks: re.Pattern[str]
    spelt: Sequence[Sequence[int]]

    def shield_messages(self, messages: Sequence[Message]) -> list[Message]:
        """Messages with a stand-in for each control token that one of their texts writes."""
        return [self._with_stand_ins(one, self.special if one["role"] == "assistant" else self.marks) for one in messages]

    def shield_tools(self, tools: Sequence[Any]) -> list[Any]:
        """The same of tools."""
        return [self._with_stand_ins(tool, self.marks) for tool in tools]

    def _with_stand_ins(self, value: Any, pattern: re.Pattern[str]) -> Any:
        if isinstance(value, str):
            return pattern.sub(lambda found: STAND_IN.format(self.numbers[found[0]]), value)
        if isinstance(value, Mapping):
            return {self._with_stand_ins(key, pattern): self._with_stand_ins(part, pattern) for key, part in value.items()}
        return [self._with_stand_ins(part, pattern) for part in value] if isinstance(value, (list, tuple)) else value

    def split_rendered(self, text: str) -> Iterator[tuple[int, str, Sequence[int]]]:
        """The parts of a rendered text: where each begins, and the part itself, or the ids that a stand-in is for."""
        end = 0
        for found in STANDS_IN.finditer(text):
            if int(found[1]) < len(self.spelt):
                yield end, text[end : found.start()], ()
                yield found.start(), found[0], self.spelt[int(found[1])]
                end = found.end()
        yield end, text[end:], ()


def control_tokens_of(tokenizer: Any) -> ControlTokens:
    """What a tokenizer reads as control tokens."""
    return _controls_of(tokenizer, str(tokenizer.chat_template), tokenizer.eos_token)


@lru_cache(maxsize=8)
def _controls_of(tokenizer: Any, template: str, end: str) -> ControlTokens:
    known = tokenizer.added_tokens_decoder.values()
    special = [str(token) for token in known if token.special or str(token) == end]
    rest = [str(token) for token in known if str(token) not in special]
    other = [text for text in rest if any(mark in template for mark in CONTROL_MARK.findall(text))]
    texts = [*special, *other]
    spelt = [_spell_parts(tokenizer, [text]) for text in special]
    spelt += [
        _spell_parts(tokenizer, filter(None, re.split(r"(?<=<)", text))) for text in other
    ]  # they are split nowhere else
    return ControlTokens(
        {text: i for i, text in enumerate(texts)}, _pattern_of_texts(special), _pattern_of_texts(texts), spelt
    )


def _pattern_of_texts(texts: Sequence[str]) -> re.Pattern[str]:
    return re.compile("|".join(map(re.escape, sorted(texts, key=len, reverse=True))) or r"(?!)")


def _spell_parts(tokenizer: Any, parts: Iterable[str]) -> list[int]:
    """The ids of the parts of a text, none of which is a special token."""
    return [token for part in parts for token in tokenizer.encode(part, add_special_tokens=False, split_special_tokens=True)]


def render_shielded(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any) -> str:
    """A dialogue in the tokenizer's chat template, for `encode_shielded`. `options` are the template's."""
    controls = control_tokens_of(tokenizer)
    shown = None if tools is None else controls.shield_tools(tools)
    text: str = tokenizer.apply_chat_template(controls.shield_messages(messages), tools=shown, tokenize=False, **options)
    return text


def encode_shielded(tokenizer: Any, text: str) -> list[int]:
    """The ids of a rendered dialogue, or of a part of it."""
    if not STANDS_IN.search(text):
        ids: list[int] = tokenizer.encode(text, add_special_tokens=False)
        return ids
    parts = control_tokens_of(tokenizer).split_rendered(text)
    return [token for _, part, spelt in parts for token in spelt or tokenizer.encode(part, add_special_tokens=False)]


def encode_with_template_mask(
    tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]
) -> tuple[list[int], list[int]]:
    """The ids of a whole dialogue, and for each whether the assistant said it (1 or 0), as homerl's template marks it."""
    controls = control_tokens_of(tokenizer)
    messages, tools = controls.shield_messages(messages), controls.shield_tools(tools)
    text: str = tokenizer.apply_chat_template(messages, tools=tools, tokenize=False)
    found = tokenizer.apply_chat_template(
        messages,
        tools=tools,
        return_dict=True,
        return_assistant_tokens_mask=True,
        tokenizer_kwargs={"return_offsets_mapping": True},
    )
    if not STANDS_IN.search(text):
        return found["input_ids"], found["assistant_masks"]
    said = bytearray(len(text) + 1)  # by character
    for (first, last), mask in zip(found["offset_mapping"], found["assistant_masks"], strict=True):
        said[first:last] = bytes([mask]) * (last - first)
    ids, masks = list[int](), list[int]()
    for begin, part, spelt in controls.split_rendered(text):
        if spelt:
            ids += spelt
            masks += [said[begin]] * len(spelt)
        else:
            read = tokenizer(part, add_special_tokens=False, return_offsets_mapping=True)
            ids += read["input_ids"]
            masks += [said[begin + first] for first, _ in read["offset_mapping"]]
    return ids, masks


OWN = f"{{#- {MARK} is the model's own. -#}}"  # before a template that homerl did not write, and trains with
USER: Message = {"role": "user", "content": "Hello."}  # stands for all that was said before


@dataclass(frozen=True)
class ChatFormat:
    """What a chat template writes around the assistant's words.

    `opening` stands before them, and `end` is the token after them. `begin` is the control token with which a message
    begins; empty if there is none. `ends` is the number of `end` tokens in the dialogue of `USER` and one answer: some
    templates also end a user's message with it. A template that is the model's `own` takes arguments of calls as objects.
    """

    opening: str
    end: str
    begin: str
    ends: int
    own: bool

    def render_dialogue(
        self, tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any] | None = None, **options: Any
    ) -> str:
        """A dialogue as text, for `encode_shielded`. `options` are the template's.

        homerl's template writes tools into the system message, so a dialogue with tools has one.
        """
        written = [*map(with_argument_objects, messages)] if self.own else messages
        begins = messages[0]["role"] if messages else ""
        if tools and not self.own and begins not in ("", "system") and shows_tools(str(tokenizer.chat_template)):
            written = [{"role": "system", "content": ""}, *written]
        return render_shielded(tokenizer, written, tools, **options)


def chat_format_of(tokenizer: Any) -> ChatFormat:
    """The format of a tokenizer, whose end of a turn is its `eos_token`. Raises `ValueError` for a template that cannot be
    trained with.
    """
    return _probe_chat_format(tokenizer, str(tokenizer.chat_template))


@lru_cache(maxsize=8)
def _probe_chat_format(tokenizer: Any, template: str) -> ChatFormat:
    heard, asked = (render_shielded(tokenizer, [USER], add_generation_prompt=add) for add in (False, True))
    opening = asked.removeprefix(heard)
    if not (
        is_homerl_template(template) and asked.startswith(heard) and parse_speech(f"{opening}Yes").words.endswith("Yes")
    ):
        raise ValueError("the chat template is not homerl's training template; load the tokenizer with load_tokenizer")
    end, begin = tokenizer.eos_token, leading_control_token(tokenizer, opening)
    ends = render_shielded(tokenizer, [USER, text_message("Yes")]).count(end)
    return ChatFormat(opening, end, begin, ends, template.startswith(OWN))


def leading_control_token(tokenizer: Any, text: str) -> str:
    """The control token with which a text begins, without what another adds to it; empty if there is none."""
    return min(filter(text.startswith, tokenizer.get_added_vocab()), key=len, default="")


def render_new_messages(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any], first: bool) -> str:
    """The text that new messages add to a dialogue, up to where the assistant writes next.

    After the first time the messages begin with the assistant's last one, and the text begins right after the token that
    ends it. A template that was probed renders a message from its neighbours only, so nothing before that one is needed.
    Raises `ValueError` for any other chat template.
    """
    form = chat_format_of(tokenizer)
    if first:
        return form.render_dialogue(tokenizer, messages, tools, add_generation_prompt=True)
    text = form.render_dialogue(tokenizer, [USER, *messages], add_generation_prompt=True)
    return text.split(form.end, form.ends)[-1]


def render_assistant_message(tokenizer: Any, message: Message) -> str:
    """The text that the assistant writes for a message, with its end."""
    form = chat_format_of(tokenizer)
    head = form.render_dialogue(tokenizer, [USER], add_generation_prompt=True)
    said, end, _ = _strip_head(head, form.render_dialogue(tokenizer, [USER, message])).rpartition(form.end)
    return said + end


def render_turn_pieces(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]) -> Iterator[tuple[str, str]]:
    """For each message of the assistant: what was added before it, and what the assistant writes."""
    first, start = True, 0
    for at, message in enumerate(messages):
        if message["role"] == "assistant":
            context = render_new_messages(tokenizer, messages[start:at], tools, first)
            yield context, render_assistant_message(tokenizer, message)
            first, start = False, at


def encode_messages(tokenizer: Any, text: str, first: bool = True) -> list[int]:
    """The ids of rendered messages. Those of each message are kept, since the episodes of a group share their first ones.

    No token crosses the beginning of a message, since that is a control token. A text that is not the `first` is read as it
    is after the end of a message, since some tokenizers read the beginning of a text otherwise.
    """
    form = chat_format_of(tokenizer)
    head, *rest = re.split(f"(?={re.escape(form.begin)})", text) if form.begin else [text]
    begun = _encode_cached(tokenizer, head) if first else _encode_cached(tokenizer, form.end + head)[1:]
    return [*begun, *(token for message in rest for token in _encode_cached(tokenizer, message))]


@lru_cache(maxsize=4096)
def _encode_cached(tokenizer: Any, message: str) -> tuple[int, ...]:
    return tuple(encode_shielded(tokenizer, message))


def encode_with_mask(tokenizer: Any, messages: Sequence[Message], tools: Sequence[Any]) -> tuple[list[int], list[int]]:
    """The ids of a whole dialogue, and for each whether the assistant said it (1 or 0).

    Where the template speaks ChatML, it marks what the assistant said. Elsewhere the pieces tell, up to its last message.
    Raises `ValueError` for a dialogue that the template does not write in such pieces.
    """
    form = chat_format_of(tokenizer)
    if form.end == IM_END and not form.own:
        return encode_with_template_mask(tokenizer, messages, tools)
    ids, mask, written = list[int](), list[int](), ""
    for context, said in render_turn_pieces(tokenizer, messages, tools):
        for text, one in (context, 0), (said, 1):
            new = encode_messages(tokenizer, text, first=not ids)
            ids, mask, written = [*ids, *new], [*mask, *[one] * len(new)], written + text
    _strip_head(written, form.render_dialogue(tokenizer, messages, tools))
    return ids, mask


def with_argument_objects(message: Message) -> dict[str, Any]:
    """The message without its thought, and with its calls' arguments as objects: templates other than ours may write a
    text as a quoted text.
    """
    calls = [
        _without_none(call) | {"function": call["function"] | {"arguments": json.loads(call["function"]["arguments"])}}
        for call in message.get("tool_calls") or ()
    ]
    said = {key: value for key, value in _without_none(message).items() if key not in (THOUGHT, "tool_calls")}
    return {"content": "", **said, **({"tool_calls": calls} if calls else {})}


def _without_none(data: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that a row of data has: a column that other rows have is None in it."""
    return {key: value for key, value in data.items() if value is not None}


def _strip_head(head: str, text: str) -> str:
    if not text.startswith(head):
        raise ValueError("the chat template writes a message otherwise when others follow")
    return text[len(head) :]


TOOLS_REMEDY = "set model.tools to schemas, or choose a model that speaks ChatML"
SILENT = "{%- set enable_thinking = false -%}"  # before a template of a model that can think: it does not
DATELESS = "{%- macro strftime_now(form) -%}1 Jan 2025{%- endmacro -%}"  # or a dialogue would be other tokens each day
TOOLS = [  # of the probes
    {"type": "function", "function": {"name": "set_lamp", "description": "Sets a lamp.", "parameters": {
        "type": "object", "properties": {"lamp": {"type": "string"}, "level": {"type": "integer"}}, "required": ["lamp"]}}}
]  # fmt: skip
# A call with all that a template may write otherwise: quotation marks, a line break, brackets, a letter beyond ASCII
SET = tool_call("set_lamp", {"lamp": 'the "blue" l\'ampe\nüber {x}', "level": 5})
PROBES: tuple[list[Message], ...] = (
    [
        {"role": "system", "content": "You run a home."},
        {"role": "user", "content": "Dim it."},
        call_message(SET),
        {"role": "tool", "content": "dimmed"},
        text_message("It is dim."),
        {"role": "user", "content": "And now both."},
        {**call_message(SET, tool_call("set_lamp", {})), "content": "Gladly."},
        {"role": "tool", "content": "both"},
        {"role": "tool", "content": "done"},
        call_message(SET),
        {"role": "tool", "content": "off"},
        text_message("Done."),
    ],
    [USER, text_message("Hello?"), {"role": "user", "content": "Bye."}, text_message("Goodbye.")],
    [USER, text_message("A call that was refused"), {"role": "tool", "content": "refused"}, text_message("Sorry.")],
)


def choose_chat_template(tokenizer: Any, source: str, own: bool = False, named: bool = False) -> None:
    """Give a tokenizer the template that it is trained with, and the end of a turn. `source` names the tokenizer.

    A template that homerl trained with stays; an exported one gets its marks of training back. With `own`, any other stays,
    too, since a model that homerl did not train is best asked as its makers ask it. If tools are `named`, ChatML shows their
    names alone. Raises `InputError` if there is no template that the tokenizer could be trained with.
    """
    chatml = IM_END in tokenizer.get_added_vocab()
    template = tokenizer.get_chat_template(tools=TOOLS) if tokenizer.chat_template else ""  # of several, that for tools
    if chatml:
        tokenizer.eos_token = IM_END
    elif not is_homerl_template(template):  # the control token after the assistant's words, else the end of a text
        found = _render_if_possible(tokenizer, [USER, text_message("Yes")]) if tokenizer.chat_template else None
        following = (found or "").rpartition("Yes")[2].lstrip()
        tokenizer.eos_token = leading_control_token(tokenizer, following) or tokenizer.eos_token
    if tokenizer.eos_token is None:
        remedy = "choose a model that speaks ChatML, such as Qwen's, or give its tokenizer a chat template"
        raise InputError(f"its tokenizer has no {IM_END}, no chat template and no end of a text", source, remedy)
    tokenizer.pad_token = tokenizer.pad_token or tokenizer.eos_token
    if is_homerl_template(template):
        tokenizer.chat_template = with_generation_tags(template)
    elif named and not chatml:
        raise InputError(f"its tokenizer has no {IM_END}, and only ChatML shows names of tools alone", source, TOOLS_REMEDY)
    elif chatml and not (own and template):
        tokenizer.chat_template = build_chat_template(silent=can_switch_thinking(template), named=named)
    elif not (own and template):
        for candidate in _candidate_templates(tokenizer, template):
            tokenizer.chat_template = candidate
            with suppress(Exception):  # a template may raise anything
                if all(_passes_probe(tokenizer, messages) for messages in PROBES):
                    return
        remedy = "choose a model that speaks ChatML, such as Qwen's"
        raise InputError(f"its tokenizer has no {IM_END}, and no template writes what can be read back", source, remedy)


def describe_trained_template(tokenizer: Any) -> str:
    """Which template a tokenizer is trained with, in words."""
    own, end = chat_format_of(tokenizer).own, f"a message ends with {tokenizer.eos_token}"
    if own:
        return f"the model's own; {end}"
    return "homerl's, in ChatML" if tokenizer.eos_token == IM_END else f"homerl's, without {IM_END}; {end}"


def _passes_probe(tokenizer: Any, messages: Sequence[Message]) -> bool:
    """Whether the template shows the tools, writes a dialogue in pieces, and what the assistant writes is read back."""
    form, written = chat_format_of(tokenizer), ""
    for message, (context, said) in zip(
        (one for one in messages if one["role"] == "assistant"), render_turn_pieces(tokenizer, messages, TOOLS)
    ):
        written += context + said
        ids = encode_messages(tokenizer, said, first=False)
        if ids[-1] != tokenizer.eos_token_id or parse_reply(tokenizer.decode(ids[:-1]), TOOLS) != Reply(message):
            return False
    shown = "Sets a lamp." in written or messages[0]["role"] != "system"
    return shown and form.render_dialogue(tokenizer, messages, TOOLS).startswith(written)


def _candidate_templates(tokenizer: Any, template: str) -> Iterator[str]:
    """The templates that a tokenizer without ChatML may be trained with, the best first."""
    if template:
        yield OWN + SILENT * can_switch_thinking(template) + DATELESS * ("strftime_now" in template) + template
        tokenizer.chat_template = template
        if marks := _probe_marks(tokenizer):
            yield marks.marked_template
    begins = tokenizer.bos_token and tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    end = tokenizer.eos_token
    system, user, assistant = (f"{IM_START}{role}\n" for role in ("system", "user", "assistant"))
    begin = tokenizer.bos_token if begins else ""
    yield TemplateMarks(begin, system, user, assistant, f"{end}\n", end, "\n").marked_template


def _render_if_possible(tokenizer: Any, messages: Sequence[Message], **options: Any) -> str | None:
    """A dialogue in a template of which nothing is known; None if it takes none like it."""
    try:
        return render_shielded(tokenizer, messages, enable_thinking=False, **options)
    except Exception:  # a template may raise anything
        return None


@dataclass(frozen=True)
class TemplateMarks:
    """What stands around messages: before the dialogue, before a message of each role, after the others' messages, and after
    the assistant's: the `end` that it writes, and what the template writes `after` that.
    """

    begin: str
    system: str
    user: str
    assistant: str
    heard: str
    end: str
    after: str

    @property
    def marked_template(self) -> str:
        """homerl's template with these marks."""
        text = build_chat_template().replace("ChatML with", "the model's own marks, with", 1)
        for role, opening in ("system", self.system), ("user", self.user), ("assistant", self.assistant):
            text = text.replace(f"'{IM_START}{role}\\n'", _quote_for_jinja(opening))
        text = text.replace(
            f"'{IM_START}user'", _quote_for_jinja(self.user.removesuffix("\n"))
        )  # before the answer of a tool
        text = text.replace(f"'{IM_END}\\n'", _quote_for_jinja(self.heard)).replace(
            f"'{IM_END}'", _quote_for_jinja(self.end)
        )
        text = text.replace(
            "endgeneration -%}\n{{- '\\n' -}}", f"endgeneration -%}}\n{{{{- {_quote_for_jinja(self.after)} -}}}}"
        )
        return text.replace("{%- for", f"{{{{- {_quote_for_jinja(self.begin)} -}}}}\n{{%- for", 1)


def _quote_for_jinja(text: str) -> str:
    """A text as Jinja's literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _probe_marks(tokenizer: Any) -> TemplateMarks | None:
    """The marks of a template of which nothing is known; None if it does not tell them."""
    question, answer = {"role": "user", "content": "Why?"}, text_message("Yes")
    alone, asked = (
        _render_if_possible(tokenizer, [question]),
        _render_if_possible(tokenizer, [question], add_generation_prompt=True),
    )
    whole = _render_if_possible(tokenizer, [question, answer, question, answer])
    if alone is None or asked is None or whole is None or whole.count("Why?") != 2 or whole.count("Yes") != 2:
        return None
    begun, opening, between, _, closing = re.split(r"Why\?|Yes", whole)
    apart = re.compile(f"({'|'.join(map(re.escape, tokenizer.get_added_vocab()))})").split  # at control tokens
    heard = "".join(_common_beginning(apart(alone.rpartition("Why?")[2]), apart(opening)))
    user = "".join(_common_beginning(apart(begun)[::-1], apart(between)[::-1])[::-1])
    end = tokenizer.eos_token
    user = next((user.rpartition(one)[2] for one in (heard, end) if one and one in user), user)
    system = user.replace("user", "system")
    shown = _render_if_possible(tokenizer, [{"role": "system", "content": "Why?"}, question]) or ""
    openings = asked.removeprefix(f"{begun}Why?{heard}"), opening.removeprefix(heard)
    after = between.removesuffix(user) if between.startswith(end) else closing
    return TemplateMarks(
        begin=tokenizer.bos_token if tokenizer.bos_token and begun.startswith(tokenizer.bos_token) else "",
        system=system if system in shown else user,
        user=user,
        assistant=max(openings, key=len).rstrip(" "),
        heard=heard,
        end=end,
        after=after.lstrip().removeprefix(end),
    )


def _common_beginning(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """What two sequences begin with."""
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other))]
