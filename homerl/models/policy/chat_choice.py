"""Which chat template a tokenizer is trained with: found by rendering probes, and not by names.

A tokenizer that speaks ChatML gets homerl's template. Any other keeps its own, if that shows tools, keeps prefixes, and what
the assistant writes in it is read back as the same message. Otherwise it gets homerl's template in the marks of its own; or
in ChatML's, as plain text, if these cannot be found. The end of a turn is always one of its own tokens.

Invariant: a template that is trained with has passed the probes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import Message, call_message, text_message, tool_call
from homerl.models.policy.chat_format import (
    OWN,
    USER,
    chat_format_of,
    encode_messages,
    is_from_assistant,
    leading_control_token,
    render_turn_pieces,
)
from homerl.models.policy.controls import render_shielded
from homerl.play.messages import (
    IM_END,
    IM_START,
    build_chat_template,
    can_switch_thinking,
    is_homerl_template,
    parse_reply,
    with_generation_tags,
)

TOOLS_REMEDY = "set model.tools to schemas, or choose a model that speaks ChatML"
SILENT = "{%- set enable_thinking = false -%}"
DATELESS = "{%- macro strftime_now(form) -%}1 Jan 2025{%- endmacro -%}"  # or a dialogue would be other tokens each day
TOOLS = [
    {"type": "function", "function": {"name": "set_lamp", "description": "Sets a lamp.", "parameters": {
        "type": "object", "properties": {"lamp": {"type": "string"}, "level": {"type": "integer"}}, "required": ["lamp"]}}}
]  # fmt: skip
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
    elif not is_homerl_template(template):
        tokenizer.eos_token = _end_of_turn(tokenizer)
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
        for candidate in _candidates(tokenizer, template):
            tokenizer.chat_template = candidate
            if _can_be_trained_with(tokenizer):
                return
        remedy = "choose a model that speaks ChatML, such as Qwen's"
        raise InputError(f"its tokenizer has no {IM_END}, and no template writes what can be read back", source, remedy)


def describe_trained_template(tokenizer: Any) -> str:
    """Which template a tokenizer is trained with, in words."""
    own, end = chat_format_of(tokenizer).own, f"a message ends with {tokenizer.eos_token}"
    if own:
        return f"the model's own; {end}"
    return "homerl's, in ChatML" if tokenizer.eos_token == IM_END else f"homerl's, without {IM_END}; {end}"


def _can_be_trained_with(tokenizer: Any) -> bool:
    try:
        return all(_keeps(tokenizer, messages) for messages in PROBES)
    except Exception:  # a template may raise anything
        return False


def _keeps(tokenizer: Any, messages: Sequence[Message]) -> bool:
    """Whether the template shows the tools, writes a dialogue in pieces, and what the assistant writes is read back."""
    form, written = chat_format_of(tokenizer), ""
    for message, (context, said) in zip(filter(is_from_assistant, messages), render_turn_pieces(tokenizer, messages, TOOLS)):
        written += context + said
        ids = encode_messages(tokenizer, said, first=False)
        if ids[-1] != tokenizer.eos_token_id or parse_reply(tokenizer.decode(ids[:-1]), TOOLS) != (message, None):
            return False
    shown = "Sets a lamp." in written or messages[0]["role"] != "system"
    return shown and form.render_dialogue(tokenizer, messages, TOOLS).startswith(written)


def _candidates(tokenizer: Any, template: str) -> Iterator[str]:
    """The templates that a tokenizer without ChatML may be trained with, the best first."""
    if template:
        yield OWN + SILENT * can_switch_thinking(template) + DATELESS * ("strftime_now" in template) + template
        tokenizer.chat_template = template
        if marks := _marks(tokenizer):
            yield marks.marked_template
    begins = tokenizer.bos_token and tokenizer("a")["input_ids"][:1] == [tokenizer.bos_token_id]
    end = tokenizer.eos_token
    system, user, assistant = (f"{IM_START}{role}\n" for role in ("system", "user", "assistant"))
    yield TemplateMarks(
        tokenizer.bos_token if begins else "", system, user, assistant, f"{end}\n", end, "\n"
    ).marked_template


def _end_of_turn(tokenizer: Any) -> str | None:
    """The control token that a template writes after the assistant's words; else the end of a text, if there is one."""
    found = _written(tokenizer, [USER, text_message("Yes")]) if tokenizer.chat_template else None
    return leading_control_token(tokenizer, (found or "").rpartition("Yes")[2].lstrip()) or tokenizer.eos_token


def _written(tokenizer: Any, messages: Sequence[Message], **options: Any) -> str | None:
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
            text = text.replace(f"'{IM_START}{role}\\n'", _quoted(opening))
        text = text.replace(f"'{IM_START}user'", _quoted(self.user.removesuffix("\n")))  # before the answer of a tool
        text = text.replace(f"'{IM_END}\\n'", _quoted(self.heard)).replace(f"'{IM_END}'", _quoted(self.end))
        text = text.replace("endgeneration -%}\n{{- '\\n' -}}", f"endgeneration -%}}\n{{{{- {_quoted(self.after)} -}}}}")
        return text.replace("{%- for", f"{{{{- {_quoted(self.begin)} -}}}}\n{{%- for", 1)


def _quoted(text: str) -> str:
    """A text as Jinja's literal."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def _marks(tokenizer: Any) -> TemplateMarks | None:
    """The marks of a template of which nothing is known; None if it does not tell them."""
    question, answer = {"role": "user", "content": "Why?"}, text_message("Yes")
    alone, asked = _written(tokenizer, [question]), _written(tokenizer, [question], add_generation_prompt=True)
    whole = _written(tokenizer, [question, answer, question, answer])
    if alone is None or asked is None or whole is None or whole.count("Why?") != 2 or whole.count("Yes") != 2:
        return None
    begun, opening, between, _, closing = re.split(r"Why\?|Yes", whole)
    apart = re.compile(f"({'|'.join(map(re.escape, tokenizer.get_added_vocab()))})").split  # at control tokens
    heard = "".join(_shared(apart(alone.rpartition("Why?")[2]), apart(opening)))
    user = "".join(_shared(apart(begun)[::-1], apart(between)[::-1])[::-1])
    end = tokenizer.eos_token
    user = next((user.rpartition(one)[2] for one in (heard, end) if one and one in user), user)
    system = user.replace("user", "system")
    shown = _written(tokenizer, [{"role": "system", "content": "Why?"}, question]) or ""
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


def _shared(one: Sequence[str], other: Sequence[str]) -> list[str]:
    """What two sequences begin with."""
    return [a for a, _ in takewhile(lambda pair: pair[0] == pair[1], zip(one, other))]
