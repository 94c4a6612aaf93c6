"""What a model writes that is no speech: thoughts and calls, in the forms of the families, and what is neither."""

from __future__ import annotations

import json
import time

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st
from openai.types.chat import ChatCompletionMessage

from homerl.envs.simuhome.tasks.react_agent import react_reply
from homerl.models.endpoint.llm_agent import messages_to_send, reply_from_completion
from homerl.play.situation import JSON_ANSWERS, Observation, Reply
from homerl.play.spoken_words import spoken_words_of
from homerl.play.tool_call_parser import (
    CALLS,
    THOUGHT,
    THOUGHTS,
    parse_observed_reply,
    parse_reply,
    parse_speech,
    strip_thoughts,
    strip_thoughts_and_controls,
)

TOOLS = [
    {"type": "function", "function": {"name": "set", "parameters": {"properties": {
        "did": {"type": "string"}, "level": {"type": "integer"}, "to": {"anyOf": [{"type": "string"}, {"type": "number"}]},
    }}}},
]  # fmt: skip
SET = {"did": "1001", "level": 7}
CALL = json.dumps({"name": "set", "arguments": SET})
LLAMA = json.dumps({"name": "set", "parameters": SET})
OPENAI = {"id": "c1", "type": "function", "function": {"name": "set", "arguments": json.dumps(SET)}}
TAGS = "<parameter=did>\n1001\n</parameter>\n<parameter=level>\n7\n</parameter>\n"
INVOKED = '<invoke name="set">\n<parameter name="did">1001</parameter>\n<parameter name="level">7</parameter>\n</invoke>'
DSML = INVOKED.replace("</", "</｜DSML｜").replace("<i", "<｜DSML｜i").replace("<p", "<｜DSML｜p")
GLM = "set\n<arg_key>did</arg_key>\n<arg_value>1001</arg_value>\n<arg_key>level</arg_key>\n<arg_value>7</arg_value>\n"
V3 = f"function<｜tool▁sep｜>set\n```json\n{json.dumps(SET)}\n```"
KIMI = f"functions.set:0<|tool_call_argument_begin|>{json.dumps(SET)}"
PYTHON = "set(did='1001', level=7)"
FORMS = {
    "hermes": f"<tool_call>\n{CALL}\n</tool_call>",
    "hermes, not closed": f"<tool_call>\n{CALL}",
    "hermes, several": f"<tool_calls>\n<tool_call>{CALL}</tool_call>\n</tool_calls>",
    "longcat": f"<longcat_tool_call>{CALL}</longcat_tool_call>",
    "qwen coder": f"<tool_call>\n<function=set>\n{TAGS}</function>\n</tool_call>",
    "qwen coder, without its opening tag": f"<function=set>\n{TAGS}</function>\n</tool_call>",
    "seed": f"<seed:tool_call><function=set>\n{TAGS}</function></seed:tool_call>",
    "llama, python tag": f"<|python_tag|>{LLAMA}<|eom_id|>",
    "llama, function tag": f"<function=set>{json.dumps(SET)}</function>",
    "llama, bare": LLAMA,
    "llama 4": f"<|python_start|>[{PYTHON}]<|python_end|>",
    "python, bare": f"[{PYTHON}]",
    "lfm": f"<|tool_call_start|>[{PYTHON}]<|tool_call_end|>",
    "mistral": f"[TOOL_CALLS][{CALL}]</s>",
    "mistral, by name": f"[TOOL_CALLS]set{json.dumps(SET)}",
    "mistral, arguments": f"[TOOL_CALLS]set[CALL_ID]a1[ARGS]{json.dumps(SET)}",
    "deepseek v3": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>{V3}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "deepseek v3.1": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>set<｜tool▁sep｜>{json.dumps(SET)}<｜tool▁call▁end｜>",
    "deepseek v3.2": f"<｜DSML｜function_calls>\n{DSML}\n</｜DSML｜function_calls>",
    "granite": f"<|tool_call|>[{CALL}]",
    "phi": f"<|tool_call|>[{CALL}]<|/tool_call|>",
    "glm": f"<tool_call>{GLM}</tool_call>",
    "kimi": f"<|tool_calls_section_begin|><|tool_call_begin|>{KIMI}<|tool_call_end|><|tool_calls_section_end|>",
    "gpt-oss": f"<|channel|>commentary to=functions.set <|constrain|>json<|message|>{json.dumps(SET)}<|call|>",
    "gpt-oss, role": f"<|start|>assistant to=functions.set<|channel|>commentary json<|message|>{json.dumps(SET)}<|call|>",
    "minimax": f"<minimax:tool_call>\n{INVOKED}\n</minimax:tool_call>",
    "claude": f"<function_calls>\n{INVOKED}\n</function_calls>",
    "gemma": f"```tool_code\nprint(default_api.{PYTHON})\n```",
    "function gemma": "<start_function_call>call:set{did:<escape>1001<escape>,level:7}<end_function_call>",
    "gemma 4": '<|tool_call>call:set{did:<|"|>1001<|"|>,level:7}<tool_call|>',
    "command": f"<|START_ACTION|>[{json.dumps({'tool_call_id': '0', 'tool_name': 'set', 'parameters': SET})}]<|END_ACTION|>",
    "internlm": f"<|action_start|><|plugin|>{LLAMA}<|action_end|>",
    "firefunction": f"functools[{CALL}]",
    "nemotron": f"<TOOLCALL>[{CALL}]</TOOLCALL>",
    "jamba": f"<tool_calls>[{CALL}]</tool_calls>",
    "tools": f"<tools>{CALL}</tools>",
    "function_call": f"<function_call>{CALL}</function_call>",
    "the name in the tag": f'<function_call name="set">{json.dumps(SET)}</function_call>',
    "grok": INVOKED.replace("invoke", "xai:function_call"),
    "within a tag": f"<functioncall {CALL}>",
    "glaive": f"<functioncall> {json.dumps({'name': 'set'})[:-1]}, \"arguments\": '{json.dumps(SET)}'}} <|endoftext|>",
    "xlam": f"[{CALL}]",
    "json": CALL,
    "fence": f"```json\n{CALL}\n```",
    "fence without a language": f"```\n{CALL}\n```",
    "fence of a call, in Python": f"```tool_call\n{json.loads(CALL)}\n```",
    "python's quotes": str(json.loads(CALL)),
    "openai": json.dumps(OPENAI),
    "openai, a message": json.dumps({"role": "assistant", "content": None, "tool_calls": [OPENAI]}),
    "other keys": json.dumps({"tool": "set", "args": SET}),
    "langchain": json.dumps({"action": "set", "action_input": SET}),
    "anthropic": json.dumps({"type": "tool_use", "name": "set", "input": SET}),
}


def called(message) -> list[tuple[str, dict]]:
    functions = [call["function"] for call in message.get("tool_calls") or ()]
    return [(function["name"], json.loads(function["arguments"])) for function in functions]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("around", ["", "Sure!\n"])
def test_a_call_is_read_in_the_form_of_every_family(form, around):
    if around and form in ("python, bare", "python's quotes"):
        pytest.skip("what stands among words is no call in these forms")
    reply = parse_reply(around + FORMS[form], TOOLS)
    message, malformed = reply.message, reply.malformed
    assert malformed is None and called(message) == [("set", SET)]
    assert message["content"] == around.strip() and THOUGHT not in message
    assert spoken_words_of({"content": around + FORMS[form]}).text.strip() == around.strip()


@pytest.mark.parametrize("form", [form for form, text in FORMS.items() if form not in ("json", "llama, bare")])
def test_a_form_that_is_cut_is_no_speech(form):
    """However a call is cut, none of its values is heard, and nothing of it runs but what is whole."""
    text = FORMS[form]
    for end in range(text.index("1001") + 4, len(text)):
        reply = parse_reply(text[:end], TOOLS)
        message, malformed = reply.message, reply.malformed
        assert malformed or called(message) in ([("set", SET)], []), text[:end]
        if not form.startswith("python, bare"):
            assert malformed or called(message), text[:end]
            assert "1001" not in spoken_words_of(message).text, text[:end]


@pytest.mark.parametrize(
    ("text", "words", "thought"),
    [
        ("<think>It is dark?</think>\n\nDone.", "Done.", "It is dark?"),
        ("<think>\n\n</think>\n\nDone.", "Done.", None),
        ("<think>Is it dark", "", "Is it dark"),
        ("Is it dark?\n</think>\n\nDone.", "Done.", "Is it dark?"),
        (f"Perhaps {FORMS['hermes']}?</think>Done.", "Done.", f"Perhaps {FORMS['hermes']}?"),
        ("I could use <tool_call> now.</think>Done.", "Done.", "I could use <tool_call> now."),
        ("<think>a<think>b</think>c</think>Done.", "Done.", "a<think>b\nc"),
        ("<think>a</think>Well.<think>b</think> Done.", "Well. Done.", "a\nb"),
        ("<thinking>a</thinking>Done.", "Done.", "a"),
        ("<Thought>a</Thought>Done.", "Done.", "a"),
        ("<reasoning>a</reasoning><answer>Done.</answer>", "Done.", "a"),
        ("<reflection>a</reflection>Done.", "Done.", "a"),
        ("<seed:think>a</seed:think>Done.", "Done.", "a"),
        ("[THINK]a[/THINK]Done.", "Done.", "a"),
        ("◁think▷a◁/think▷Done.", "Done.", "a"),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>Done.<|END_RESPONSE|>", "Done.", "a"),
        ("<|begin_of_thought|>a<|end_of_thought|>Done.", "Done.", "a"),
        ("<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>Done.<|return|>", "Done.", "a"),
        ("<|channel|>analysis<|message|>a", "", "a"),
        ("analysisHe wants light.assistantfinalDone.", "Done.", "He wants light."),
        ("<|channel>thought\na<channel|>Done.", "Done.", "a"),
        ("Here is my thought process: a Here is my response: Done.", "Done.", "a"),
        ('<tool_response>{"state": "on"}</tool_response>Done.', "Done.", '{"state": "on"}'),
        ("<|im_start|>assistant\nDone.<|im_end|>", "Done.", None),
        ("Done.<|im_end|>\n<|im_start|>user\nThanks", "Done.", None),
        ("Done.<|eot_id|>", "Done.", None),
        ("Done.</s>", "Done.", None),
        ("Done.<end_of_turn>\n", "Done.", None),
        ("Done.</tool_call>", "Done.", None),
    ],
)
def test_a_thought_is_no_speech(text, words, thought):
    reply = parse_reply(text)
    message, malformed = reply.message, reply.malformed
    assert malformed is None and message["content"] == words and message.get(THOUGHT) == thought
    assert spoken_words_of({"content": text}).text == words and "tool_calls" not in message
    assert strip_thoughts_and_controls(text).replace("</tool_call>", "") == words


@pytest.mark.parametrize(
    "text",
    [
        "Done.", "Set it to {temp}.", "{temp} is not a number.", "[1] see the list", "[Note] The lamp (hall) is on.",
        "I think that it is on.", "analysis shows that it is warm", "Here is my list: a, b.", "At 21 °C < 22 °C it is > 20.",
        "- lamp\n- fan", "`lamp` is **on**", "灯已经打开了（客厅）。", "（1）打开灯", "Is it on?", "a < b", "Note(s)",
        'It tells {"light": "on"} there.', 'An example:\n```json\n{"light": "on"}\n```', "<lamp> is on", "3 (three)", '"on"',
        "Run ```ls``` first.", "The set {1, 2}", "I <3 it", "21",
    ],
)  # fmt: skip
def test_plain_words_stay_as_they_are(text):
    assert parse_reply(text) == Reply({"role": "assistant", "content": text})
    assert spoken_words_of({"content": text}).text == text


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{}", ""), ("[]", ""), ("{", ""), ('{"light": "on"}', ""),
        ('```json\n{"light": "on"}\n```', ""), ('{"name": "set"}', ""),
        ('{"name": "set", "arguments": {"did": "10', ""), ('Sure! {"name": "set", "arguments": {"did":', "Sure!"),
        ('{"name": "set", "arguments": "all"}', ""), ('Sure! {"name": "set", "arguments": "all"}', "Sure!"),
        ('On it.\n```homeassistant\n{"service": "light.turn_on", "target_device": "light.a"}\n```', "On it."),
        ('Sure! {"service": "light.turn_on", "entity_id": "light.a"}', "Sure!"),
        ('Sure!\n```json\n{"entity_id": "light.a", "action": "turn_on"}\n```', "Sure!"), ('Sure! {"name": "set"}', "Sure!"),
        ('Sure! {"parameters": {"a": 1}, "na', "Sure!"), ('Sure! {"na', "Sure!"), ("Sure! {", "Sure!"),
        ("Sure.\n```json\n{", "Sure."),
        (f"{CALL}\n{{\"light\": 1}}", ""), (f'[{CALL}, {{"light": 1}}]', ""), ("<tool_call>set</tool_call>", ""),
        (f"{FORMS['hermes']}<tool_call>no</tool_call>", ""), (f"{FORMS['hermes']} [TOOL_CALLS]no", ""), ("<tool_call", ""),
        ("<function=set>\n<parameter=did>\n10", ""), ("<tool_calls>soon</tool_calls>", ""), ("{'light': 'on'}", ""),
        ("<|python_tag|>lamp.on", ""), ("<think>a</think>{", ""), (f"<tool_call>{'[' * 5000}", ""),
        ('<tool_call>{"name": "set", "arguments": {"did": "\\ud800"}}</tool_call>', ""),
    ],
)  # fmt: skip
def test_what_is_meant_as_a_call_and_is_none_is_refused_and_not_spoken(text, words):
    reply = parse_reply(text, TOOLS)
    message, malformed = reply.message, reply.malformed
    assert malformed and message["content"] == strip_thoughts(text), "the model sees what it wrote, but its thoughts"
    assert spoken_words_of(message).text == words


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("no", "Expecting value: line 1 column 1 (char 0)"),
        (f"the {CALL}", "Expecting value: line 1 column 1 (char 0)"),
        ('{"name": "set", "arguments": {"did": "1"}', "Expecting ',' delimiter: line 1 column 42 (char 41)"),
        (f"{CALL}{CALL}", f"Extra data: line 1 column {len(CALL) + 1} (char {len(CALL)})"),
        ("{'name': set}", "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)"),
        ("{}", "'name'"),
        ('{"name": "set"}', "'arguments'"),
        ("5", "'int' object is not subscriptable"),
        ('{"name": 5, "arguments": {}}', "the name must be a string"),
        ('{"name": "set", "arguments": [1]}', "arguments must be an object"),
        ('{"name": "set", "arguments": {"a": ' + "[" * 40 + "]" * 40 + "}}", "nested too deeply"),
    ],
)
def test_the_reasons_tell_what_is_wrong_with_the_json(body, why):
    for text in (f"<tool_call>\n{body}\n</tool_call>", f"Sure <tool_call>{body}"):
        assert parse_reply(text).malformed == f"the tool call is not the JSON asked for ({why})"


def test_several_calls_are_made_in_their_order():
    two = [("a", {"x": 1}), ("b", {})]
    written = [json.dumps({"name": name, "arguments": arguments}) for name, arguments in two]
    for text in (
        "".join(f"<tool_call>{one}</tool_call>" for one in written),
        f"[{', '.join(written)}]",
        "; ".join(written),
        "\n".join(written),
        f"<|python_tag|>{'; '.join(written)}",
        "[a(x=1), b()]",
        "```tool_code\na(x=1)\nb()\n```",
        '[TOOL_CALLS]a[ARGS]{"x": 1}[TOOL_CALLS]b[ARGS]{}',
    ):
        reply = parse_reply(text)
        message, malformed = reply.message, reply.malformed
        assert malformed is None and called(message) == two and message["content"] == "", text


@pytest.mark.parametrize(
    ("text", "words"),
    [(f"{CALL}}}", ""), (f"Sure. {CALL}}}}}\n", "Sure."), (f"```json\n{CALL}}}\n```", ""), (f"{CALL},\nDone.", "Done.")],
)
def test_signs_that_are_left_of_a_call_are_no_speech(text, words):
    reply = parse_reply(text, TOOLS)
    message, malformed = reply.message, reply.malformed
    assert malformed is None and called(message) == [("set", SET)] and message["content"] == words


@pytest.mark.parametrize(
    ("key", "text", "value"),
    [
        ("did", "1001", "1001"),
        ("level", "7", 7),
        ("to", "7", 7),
        ("to", "hot", "hot"),
        ("other", "[1]", [1]),
        ("other", "x", "x"),
    ],
)
def test_a_parameter_is_a_text_where_the_tool_takes_one(key, text, value):
    for form in (
        f"<function=set><parameter={key}>{text}</parameter></function>",
        f"<tool_call>set<arg_key>{key}</arg_key><arg_value>{text}</arg_value></tool_call>",
    ):
        assert called(parse_reply(form, TOOLS).message) == [("set", {key: value})]


MARKS = [
    *FORMS.values(),
    "<think>", "</think>", "{", "[", '{"name":', "```", "```json\n", "<tool_call>", "</tool_call>", "<|", "|>", "to=",
    "<parameter=a>", "</parameter>", "<arg_key>", "<escape>", "analysis", "[TOOL_CALLS]", "a(", ")", "\\ud800", "\ud800",
    "<|channel|>", "<|message|>", "assistantfinal", "◁think▷", "'", '"', "}", "]", ";", "\\", "\x00",
]  # fmt: skip
TEXTS = st.lists(st.sampled_from(MARKS) | st.text(max_size=8), max_size=8).map("".join)


@few(60)
@given(TEXTS)
def test_any_text_is_taken_apart(text):
    for bare in (True, False):
        said = parse_speech(text, TOOLS, bare)
        assert not (said.calls and said.malformed) and "</think>" not in said.words and "<tool_call>" not in said.words
        assert all(json.loads(call.text) == call.arguments for call in said.calls if "NaN" not in call.text)
    reply = parse_reply(text)
    message, malformed = reply.message, reply.malformed
    assert message["content"] == strip_thoughts(text) if malformed else spoken_words_of(message).text is not None
    strip_thoughts_and_controls(text)


@few(60)
@given(st.text())
def test_words_without_brackets_are_speech(text):
    plain = "".join(sign for sign in text if sign not in "<[{`◁(")
    assert parse_reply(plain) == Reply({"role": "assistant", "content": plain.strip()})


@pytest.mark.timeout(60)  # with time that grows with the square, each takes minutes
@pytest.mark.parametrize(
    "head",
    [
        pytest.param("", marks=pytest.mark.long),
        "<tool_call>",
        pytest.param('{"name": "a", "arguments": {"c": "', marks=pytest.mark.long),
    ],
)
def test_the_time_grows_with_the_length(head):
    for unit in (*MARKS, "<tool_call><|im_end|>", "<function=a><parameter=b>", '{"a":', "[{", "</think><think>", "-", " "):
        begin = time.process_time()
        parse_reply(head + unit * (30_000 // len(unit)) + ")")
        assert time.process_time() - begin < 2, unit


def test_the_tables_name_their_families():
    assert all(mark.family and mark.opens and mark.closes for mark in (*CALLS, *THOUGHTS))


def observed(**given) -> Observation:
    return Observation("b", (), tuple(TOOLS), **given)


def test_one_answer_is_json_and_no_call():
    text = f"<think>{{}}</think>{CALL}<|im_end|>"
    assert parse_observed_reply(text, observed(one_answer=True)) == Reply({"role": "assistant", "content": CALL})


def test_where_answers_may_be_json_only_marks_make_a_call():
    seen = observed(protocol={JSON_ANSWERS: True})
    answer = '[{"appliance": "a", "name": "set", "arguments": {}}]'
    assert parse_observed_reply(f"<think>a</think>{answer}", seen).message["content"] == answer
    assert spoken_words_of({"content": answer}, json_answers=True).text == answer
    assert called(parse_observed_reply(FORMS["hermes"], seen).message) == [("set", SET)]


def test_what_a_server_tells_apart_is_not_read_twice_and_thoughts_are_not_sent_back():
    written = f"<think>a</think>Sure. {FORMS['hermes']}"
    by_server = ChatCompletionMessage.model_validate({"role": "assistant", "content": written, "tool_calls": [OPENAI]})
    for text in (by_server, ChatCompletionMessage(role="assistant", content=written)):
        reply = reply_from_completion(text, observed())
        assert reply.malformed is None and called(reply.message) == [("set", SET)]
        assert reply.message["content"] == "Sure." and reply.message[THOUGHT] == "a"
        assert messages_to_send([reply.message]) == [{key: value for key, value in reply.message.items() if key != THOUGHT}]


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
def test_a_thought_of_its_own_field_is_no_speech(key):
    reply = reply_from_completion(
        ChatCompletionMessage.model_validate({"role": "assistant", "content": None, key: "Done?"}), observed()
    )
    assert (
        reply.message == {"role": "assistant", "content": "", THOUGHT: "Done?"}
        and not spoken_words_of(reply.message).question
    )


def test_a_step_in_text_may_begin_with_a_thought():
    step = '{"thought": "", "action": "set", "action_input": "{\\"did\\": \\"1001\\"}"}'
    assert called(react_reply(f"<think>a</think>{step}").message) == [("set", {"did": "1001"})]
