"""Dialogues of other people are read as they were meant, in each form that the manual lists, or refused by row and key."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from homerl.envs.core.documents import InputError
from homerl.models.policy.chat_template import build_chat_template
from homerl.train.data.dialogue_forms import read_dialogue_row
from homerl.train.data.sft_dialogues import load_dialogues, tokenize_dialogues
from homerl.train.tiny_model import collect_row_tools, make_row_tokenizer

ARGUMENTS = {"brightness": 50}
SCHEMA = {"type": "object", "properties": {"brightness": {"type": "integer"}}}
FUNCTION = {"name": "set_light", "description": "Set a lamp.", "parameters": SCHEMA}
TOOLS = [{"type": "function", "function": FUNCTION}]
ASKED = {"role": "user", "content": "lamp to half"}
ANSWER = {"role": "assistant", "content": "It is at half."}


def call(arguments: Any = '{"brightness": 50}') -> dict[str, Any]:
    calls = [{"id": "c1", "type": "function", "function": {"name": "set_light", "arguments": arguments}}]
    return {"role": "assistant", "content": None, "tool_calls": calls}


RESULT = {"role": "tool", "tool_call_id": "c1", "content": "ok"}
OLD_CALL = {"name": "set_light", "arguments": '{"brightness": 50}'}
CALLED = {"name": "set_light", "arguments": ARGUMENTS}
FORMS = {
    "OpenAI": {"messages": [ASKED, call(), RESULT, ANSWER], "tools": TOOLS},
    "OpenAI with arguments as an object": {"messages": [ASKED, call(ARGUMENTS), RESULT, ANSWER], "tools": json.dumps(TOOLS)},
    "OpenAI's older form": {
        "messages": [
            ASKED,
            {"role": "assistant", "content": None, "function_call": OLD_CALL},
            {"role": "function", "name": "set_light", "content": "ok"},
            ANSWER,
        ],
        "functions": [FUNCTION],
    },
    "OpenAI with parts": {
        "messages": [
            {"role": "user", "content": [{"type": "text", "text": "lamp "}, {"type": "text", "text": "to half"}]},
            call(), RESULT, {**ANSWER, "refusal": None},
        ],
        "tools": TOOLS,
    },
    "Hermes": {
        "conversations": [
            {"from": "human", "value": "lamp to half"},
            {"from": "gpt", "value": "<tool_call>\n{'name': 'set_light', 'arguments': {'brightness': 50}}\n</tool_call>"},
            {"from": "tool", "value": "<tool_response>\nok\n</tool_response>"},
            {"from": "gpt", "value": "It is at half."},
        ],
        "tools": json.dumps(TOOLS), "category": "home",
    },
    "ShareGPT": {
        "conversations": [
            {"from": "human", "value": "lamp to half"},
            {"from": "function_call", "value": json.dumps(CALLED)},
            {"from": "observation", "value": "ok"},
            {"from": "gpt", "value": "It is at half."},
        ],
        "system": "", "tools": json.dumps([FUNCTION]),
    },
    "Toucan": {
        "messages": json.dumps(
            [
                {"role": "system", "content": f"<|im_system|>tool_declare<|im_middle|>{json.dumps(TOOLS)}<|im_end|>"},
                ASKED,
                {"role": "assistant", "content": "", "function_call": OLD_CALL},
                {"role": "function", "name": "set_light", "content": "ok"},
                ANSWER,
            ]
        ),
        "question": "lamp to half", "available_tools": json.dumps(TOOLS),
    },
    "Toucan's SFT rows": {
        "messages": json.dumps(
            [ASKED, {"role": "tool_call", "content": str(CALLED)}, {"role": "tool_response", "content": "ok"}, ANSWER]
        ),
        "tools": json.dumps(TOOLS),
    },
}  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
def test_a_dialogue_is_the_same_in_each_form(form):
    read = read_dialogue_row(FORMS[form], "data.jsonl:1")
    assert [message["role"] for message in read["messages"]] == ["system", "user", "assistant", "tool", "assistant"]
    assert [message["content"] for message in read["messages"]] == ["", "lamp to half", "", "ok", "It is at half."]
    [made] = read["messages"][2]["tool_calls"]
    assert made["function"]["name"] == "set_light" and json.loads(made["function"]["arguments"]) == ARGUMENTS
    assert read["messages"][3]["tool_call_id"] == made["id"] != ""
    assert json.loads(read["tools"]) == TOOLS and read["unlearnt"] == []


def test_the_call_is_learnt_and_its_tool_is_shown_in_each_form(tokenizer, tmp_path, monkeypatch):
    """No row has a system message, and yet the tools are in the text."""
    monkeypatch.setattr(tokenizer, "chat_template", build_chat_template())  # as of models from the hub
    data = tmp_path / "forms.jsonl"
    data.write_text("".join(json.dumps(row) + "\n" for row in FORMS.values()))
    texts = set()
    for row in tokenize_dialogues(load_dialogues(str(data)), tokenizer, "assistant", str(data)):
        learnt = tokenizer.decode([token for token in row["labels"] if token >= 0])
        texts.add((tokenizer.decode(row["input_ids"]), learnt))
    ((text, learnt),) = texts
    shown, _, rest = text.partition("lamp to half")
    assert "<tools>" in shown and "Set a lamp." in shown and "ok" in rest
    (written,) = re.findall(r"<tool_call>(.*?)</tool_call>", learnt, re.DOTALL)
    assert json.loads(written) == CALLED and "It is at half." in learnt and "ok" not in learnt.split()


def test_a_row_of_xlam_is_a_question_and_its_calls():
    parameters = {
        "place": {"type": "str", "description": "Where."},
        "days": {"type": "int, optional", "description": "How many.", "default": 3},
        "units": {"type": "List[str]", "description": "Units."},
    }
    tools = json.dumps([{"name": "weather", "description": "Weather.", "parameters": parameters}])
    answers = json.dumps([{"name": "weather", "arguments": {"place": "Ulm"}}, {"name": "weather", "arguments": {}}])
    read = read_dialogue_row({"id": 3, "query": "Ulm?", "answers": answers, "tools": tools}, "x:1")
    assert [message["role"] for message in read["messages"]] == ["system", "user", "assistant"]
    written = [made["function"]["arguments"] for made in read["messages"][-1]["tool_calls"]]
    assert written == ['{"place": "Ulm"}', "{}"]
    schema = json.loads(read["tools"])[0]["function"]["parameters"]
    assert schema["required"] == ["place", "units"] and schema["properties"]["days"]["type"] == "integer"
    assert schema["properties"]["units"] == {"type": "array", "description": "Units. (List[str])"}


def test_a_system_message_that_writes_the_tools_writes_them_alone():
    told = {"from": "system", "value": f"You call functions. <tools> {json.dumps(TOOLS)} </tools>"}
    row = {**FORMS["Hermes"], "conversations": [told, *FORMS["Hermes"]["conversations"]]}
    read = read_dialogue_row(row, "x:1")
    assert read["tools"] == "[]" and read["messages"][0]["content"] == told["value"]


@pytest.mark.parametrize("given", ["", " ", None, {}])
def test_empty_arguments_are_an_empty_object(given):
    read = read_dialogue_row({"messages": [ASKED, call(given), RESULT, ANSWER], "tools": TOOLS}, "x:1")
    assert read["messages"][2]["tool_calls"][0]["function"]["arguments"] == "{}"


def test_tools_without_parameters_or_properties_have_an_empty_schema():
    for tool in (
        {"name": "all_off"},
        {"name": "all_off", "parameters": {}},
        {"name": "all_off", "parameters": {"type": "object"}},
    ):
        read = read_dialogue_row({"messages": [ASKED, ANSWER], "tools": [tool]}, "x:1")
        assert json.loads(read["tools"])[0]["function"]["parameters"] == {"type": "object", "properties": {}}
        assert make_row_tokenizer([read] * 2, _tiny()) and collect_row_tools([read])


def _tiny() -> Any:
    from homerl.train.tiny_model import TinyConfig

    return TinyConfig(vocab_size=400)


REFUSED = {
    "cut arguments": ([ASKED, call('{"brightness": 50')], "message 2, `tool_calls`: the arguments of set_light"),
    "arguments that are a list": ([ASKED, call("[50]")], "message 2, `tool_calls`: .* no object"),
    "an unknown role": ([{"role": "narrator", "content": "x"}], "message 1, `role`: the role 'narrator'"),
    "a key of nobody's": ([ASKED, {**ANSWER, "train": False, "loss": 0}], "message 2, `loss`|message 2, `train`|no form"),
    "a thought": ([ASKED, {**ANSWER, "reasoning_content": "hm"}], "message 2, `reasoning_content`"),
    "half a weight": ([ASKED, {**ANSWER, "weight": 0.5}], "message 2, `weight`"),
    "a picture": ([{"role": "user", "content": [{"type": "image_url"}]}, ANSWER], "message 1, `content`"),
    "silence": ([ASKED, {"role": "assistant", "content": None}], "message 2, `content`: the assistant neither"),
    "a result of no call": ([ASKED, RESULT], "message 2, `tool_call_id`"),
    "a result of another call": ([ASKED, call(), {**RESULT, "tool_call_id": "c9"}], "message 3, `tool_call_id`"),
    "a later system message": ([ASKED, ANSWER, {"role": "system", "content": "x"}], "message 3, `role`"),
    "a call without an end": ([ASKED, {**ANSWER, "content": "<tool_call>{}"}], "message 2, `content`"),
    "a call of the user": ([{**call(), "role": "user", "content": "x"}], "message 1, `tool_calls`"),
    "a thought within a call": (
        [ASKED, {**ANSWER, "content": '<tool_call>{"name": "a", "arguments": {}, "thought": "hm"}</tool_call>'}],
        "message 2, `content`: a call has `thought`",
    ),
    "two kinds of arguments": (
        [ASKED, {**ANSWER, "tool_calls": [{"name": "a", "arguments": {}, "parameters": {"b": 1}}]}],
        "message 2, `tool_calls`: a call has `parameters`",
    ),
    "a call of another type": ([ASKED, {**ANSWER, "tool_calls": [{"type": "custom"}]}], "message 2, `tool_calls`"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_no_form_has_is_refused_by_row_and_key(case):
    messages, said = REFUSED[case]
    with pytest.raises(InputError, match=said) as refused:
        read_dialogue_row({"messages": messages, "tools": TOOLS}, "data.jsonl:7")
    assert refused.value.where == "data.jsonl:7" and "docs/sft_data.md" in refused.value.remedy


@pytest.mark.parametrize(
    ("row", "said"),
    [({"text": "x"}, "no column `messages`"),
     ({"messages": [ASKED], "conversations": [ASKED]}, "`conversations`: the row has"),
     ({"messages": [ASKED, ANSWER], "tools": '[{"na'}, "`tools`: it is no JSON"),
     ({"messages": [ASKED, ANSWER], "tools": [{"type": "retrieval"}]}, "`tools`, tool 1")],
)  # fmt: skip
def test_a_row_that_is_no_dialogue_is_refused(row, said):
    with pytest.raises(InputError, match=said):
        read_dialogue_row(row, "x:1")


def test_a_file_is_read_row_by_row_and_a_message_of_weight_0_is_not_learnt(tokenizer, tmp_path, monkeypatch):
    """Objects of one row get no keys from those of another, as they would in a table; the last row is named by its line."""
    monkeypatch.setattr("datasets.fingerprint._CACHING_ENABLED", False)
    other = {"type": "function", "function": {"name": "sing", "parameters": {"properties": {"song": {"enum": ["ä", "b"]}}}}}
    sung = {"role": "assistant", "tool_calls": [{"function": {"name": "sing", "arguments": {"song": "ä\u2028"}}}]}
    rows = [
        {"messages": [ASKED, {**ANSWER, "weight": 0}, ASKED, call(ARGUMENTS)], "tools": TOOLS},
        {"messages": [ASKED, sung], "tools": json.dumps([other])},
        FORMS["ShareGPT"],
    ]
    data = tmp_path / "mixed.jsonl"
    data.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows) + "\n", encoding="utf-8")
    read = load_dialogues(str(data))
    assert json.loads(read[1]["messages"][-1]["tool_calls"][0]["function"]["arguments"]) == {"song": "ä\u2028"}
    assert json.loads(read[1]["tools"])[0]["function"]["parameters"]["properties"] == {"song": {"enum": ["ä", "b"]}}
    [first, *_] = tokenize_dialogues(read, tokenizer, "assistant", str(data))
    learnt = tokenizer.decode([token for token in first["labels"] if token >= 0])
    assert "at half" in tokenizer.decode(first["input_ids"]) and "at half" not in learnt and "set_light" in learnt
    listed = tmp_path / "listed.json"
    listed.write_text(json.dumps(rows))
    assert load_dialogues(str(listed)).to_list() == read.to_list()
    data.write_bytes(data.read_bytes() + b'{"messages": "\xff"}\n')
    with pytest.raises(InputError) as refused:
        load_dialogues(str(data))
    assert refused.value.where == f"{data}:4"
