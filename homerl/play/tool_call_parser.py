"""Reads what a model writes: its words, its thoughts, and its calls, in the marks of any family of models.

`parse_reply` makes a message with calls of a model's text, `read_tool_calls` reads the calls of a message that has them, and
`parse_json_answer` the one answer of an agent that makes no calls.

A family is one line of `CALLS`, which says how the family marks a call. Models mix the forms, so what stands between the
marks is read in the same way for every family: JSON, a name before JSON, tags of parameters, or Python. A thought is one
line of `THOUGHTS`.

Invariants:
- `parse_reply` never raises, and its time grows with the length of the text.
- Nothing that a model wrote is evaluated.
- The words that it returns hold no mark of a table, and nothing that stands between such marks.
- It returns all calls of a text or, where one cannot be read, none.
"""

from __future__ import annotations

import ast
import json
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

from homerl.envs.core.messages import Message, can_be_encoded, replace_surrogates, tool_call
from homerl.envs.core.world import MOST_LEVELS, MOST_TEXT, Action, ToolCall, is_too_deep
from homerl.play.situation import JSON_ANSWERS, Observation, Reply

Tools = Sequence[Mapping[str, Any]]  # OpenAI's schemas of functions
THOUGHT = "reasoning_content"  # the key of a message under which servers tell a thought: kept, and told to nobody
# What is raised for a call that cannot be read; it becomes a message to the model
UNREADABLE = (ValueError, KeyError, TypeError, RecursionError)
FENCE = "```"
NAMES = ("name", "tool_name", "tool", "function_name", "function", "action")  # keys under which models write a call's name
# Keys under which they write its arguments
ARGUMENTS = ("arguments", "parameters", "args", "input", "kwargs", "action_input")
INNER = ("function", "function_call", "tool_call")  # keys whose object is the call
NO_OBJECT = "the arguments are not a JSON object"
ACTS = {*NAMES, *INNER, "tool_calls", "service", "intent", "entity_id"}  # keys of what was meant as a call, or is one
SPACE = "(?:[\\w-]{1,20}[:_]|[|｜]DSML[|｜])?"  # of the names of tags

DECODER = json.JSONDecoder()
ESCAPED_HALF = re.compile(r"\\u[dD][89a-fA-F]")  # of a surrogate pair
NEXT = re.compile(r"\s*;\s*")  # between calls in JSON
SINGLE = re.compile(r"\[?\s*\{\s*'|[^']*:\s*'\s*\{")  # Python's quotes in place of JSON's
HEAD = re.compile(  # a name before JSON: `NAME[ARGS]`, `functions.NAME:0<|...|>`, `function<｜...｜>NAME`, `call:NAME`
    r"(?:function\s*<[|｜][^<>]+[|｜]>)?\s*(?:call:|functions[.:])?(?P<name>[\w.-]+)(?::\d+)?"
    r"(?:\s|<[|｜][^<>]+[|｜]>|\[CALL_ID\]\w+|\[ARGS\]|```(?:json)?)*"
)
MOST_HEAD = 300  # characters
ESCAPES = re.compile(r"<escape>|<\|\"\|>")  # Gemma's quotation marks
KEY = re.compile(r"([{,]\s*)([A-Za-z_]\w*)\s*:")  # a key without quotation marks
PARAMETER = re.compile(
    rf"<{SPACE}param(?:eter)?(?:=|\s+name=)\"?([^\"<>]{{1,100}})\"?[^<>]{{0,60}}>"
    r"|<arg_key>([^<>]{1,100})</arg_key>\s*<arg_value>"
)
PARAMETER_END = re.compile(rf"</{SPACE}(?:param(?:eter)?|arg_value)>")  # closes a parameter
PYTHON = re.compile(r"[\[\s]*(?:print\()?[A-Za-z_][\w.]*\(.*\)[\]\s]*", re.S)  # a call in Python's form, or a list of them
MOST_PYTHON = 10_000  # characters
# Types of JSON Schema by Python's
KINDS = {bool: ("boolean",), int: ("integer", "number"), float: ("number",), list: ("array",), dict: ("object",)}
CONSTANTS = {"true": True, "false": False, "null": None}  # JSON's constants, which Python reads as names


def parse_bounded_json(text: str) -> Any:
    """The JSON of a text that is not longer than a call may be."""
    if len(text) > MOST_TEXT:
        raise ValueError(f"it is longer than {MOST_TEXT} characters")
    return json.loads(text)


def strip_code_fence(text: str) -> str:
    """The text without the code fence that a model may put around JSON, and without white space around it."""
    text = text.strip()
    if len(text) >= 2 * len(FENCE) and text.startswith(FENCE) and text.endswith(FENCE):
        return text[len(FENCE) : -len(FENCE)].removeprefix("json").strip()
    return text


def parse_marked_calls(body: str, tools: Tools, closed: bool = True) -> list[ToolCall]:
    """The calls between two marks. A body is not `closed` if its end may have been cut."""
    body = strip_code_fence(body)
    found = parse_python_calls(body) or _parse_named_call(body, tools, closed)
    return found or [call for value in _parse_json_values(body) for call in calls_from_json(value)]


def _parse_named_call(body: str, tools: Tools, closed: bool) -> list[ToolCall]:
    """The call whose name stands before its arguments. The list is empty if there is no such call."""
    at = body.find("<arg_key>") if body[:1].isalpha() and "<arg_key>" in body else body.find("{")
    named = HEAD.fullmatch(body, 0, at) if 0 < at <= MOST_HEAD else None
    if named is None:
        return []
    try:
        arguments = parse_named_arguments(body[at:], named["name"], tools, closed)
        # What looks like a whole call has only a word before it, which is no name.
        return [] if has_call_shape(arguments) else [make_tool_call(named["name"], arguments)]
    except UNREADABLE:
        return []


def parse_named_arguments(body: str, name: str, tools: Tools, closed: bool) -> Any:
    """The arguments of a call whose name stands before them: in JSON, in Gemma's form of it, or in tags."""
    body = strip_code_fence(body).removesuffix(FENCE)
    if body.startswith("{"):
        if KEY.match(body) or ESCAPES.search(body):
            # Gemma writes keys without quotation marks, and texts in marks of its own: every second part is a text.
            parts = enumerate(ESCAPES.split(body))
            body = "".join(json.dumps(part) if at % 2 else KEY.sub(r'\1"\2":', part) for at, part in parts)
        return parse_bounded_json(body)
    if not closed:
        raise ValueError("the call has no end")
    functions = (tool.get("function") or {} for tool in tools)
    called: Mapping[str, Any] = next((function for function in functions if function.get("name") == name), {})
    return dict(_parse_tagged_parameters(body, (called.get("parameters") or {}).get("properties") or {}))


def has_call_shape(value: Any) -> bool:
    """Whether JSON has a place for a call's name and one for its arguments."""
    if not isinstance(value, dict):
        return False
    inner = any(isinstance(value.get(key), dict) for key in INNER) or isinstance(value.get("tool_calls"), list)
    return inner or not (value.keys().isdisjoint(NAMES) or value.keys().isdisjoint(ARGUMENTS))


def calls_from_json(value: Any) -> list[ToolCall]:
    """The calls that JSON tells: one, a list of them, or a message with `tool_calls`."""
    if isinstance(value, dict) and isinstance(value.get("tool_calls"), list):
        value = value["tool_calls"]
    if isinstance(value, list) and value:
        if is_too_deep(value, 2 * MOST_LEVELS):
            raise RecursionError
        return [call for item in value for call in calls_from_json(item)]
    inner = [value[key] for key in INNER if isinstance(value, dict) and isinstance(value.get(key), dict)]
    data = inner[0] if inner else value
    keys = data if isinstance(data, dict) else ()
    name = data[next((key for key in NAMES if key in keys), "name")]
    if not isinstance(name, str):
        raise TypeError("the name must be a string")
    return [make_tool_call(name, data[next((key for key in ARGUMENTS if key in keys), "arguments")])]


def make_tool_call(name: str, arguments: Any) -> ToolCall:
    """A call of a tool with what a model wrote as its arguments: an object, or one as JSON text.

    Raises one of `UNREADABLE` for arguments that are no object, are nested too deeply, or cannot be stored.
    """
    if isinstance(arguments, str) and arguments.lstrip().startswith("{"):
        arguments = parse_bounded_json(arguments)
    if not isinstance(arguments, dict):
        raise TypeError("arguments must be an object")
    if is_too_deep(arguments):  # what was read here might not be read again where the stack is deeper
        raise RecursionError
    written = tool_call(name, arguments)
    json.dumps(written, ensure_ascii=False).encode()  # a lone surrogate cannot be stored
    text = written["function"]["arguments"]
    if len(text) > MOST_TEXT:  # JSON that was written without spaces can grow beyond the limit
        return ToolCall(name, {}, text=text, malformed=NO_OBJECT)
    return ToolCall(name, json.loads(text), text=text)  # Python's tuples are lists now, as a file has them


def _parse_json_values(text: str) -> list[Any]:
    """The JSON in a text: one value, or several with semicolons between them. Python's quotes are read too."""
    try:
        return [parse_bounded_json(text)]
    except ValueError:
        if several := _parse_python_values(text) or _parse_separated_values(text):
            return several
        raise


def _parse_separated_values(text: str) -> list[Any]:
    """The values of JSON with semicolons between them. The list is empty if the text has anything else."""
    values, at = list[Any](), 0
    while len(text) <= MOST_TEXT and text.startswith(("{", "["), at):
        try:
            value, at = DECODER.raw_decode(text, at)
        except ValueError:
            return []
        values.append(value)
        if at == len(text):
            return values
        following = NEXT.match(text, at)
        at = following.end() if following else len(text)
    return []


def _parse_tagged_parameters(body: str, schemas: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name and the value of each parameter in tags. `schemas` are those of the tool's parameters."""
    head, *found = PARAMETER.split(body)
    if head.strip():
        raise ValueError("it is neither JSON nor parameters in tags")
    for named, keyed, text in zip(found[::3], found[1::3], found[2::3]):
        value, *after = PARAMETER_END.split(text, maxsplit=1)
        if not after or after[0].strip():
            raise ValueError("a parameter has no end")
        key = (named or keyed).strip()
        yield key, _parse_parameter_value(value.strip("\n"), schemas.get(key))


def _parse_parameter_value(text: str, schema: Any) -> Any:
    """The value of a parameter that stands in a tag as text: JSON, unless it is no JSON or the schema asks for a text."""
    try:
        value = parse_bounded_json(text)
    except (ValueError, RecursionError):
        return text
    if not isinstance(schema, Mapping):
        return value
    kind = schema.get("type")
    allowed = [*(kind if isinstance(kind, list) else [kind])]
    allowed += [one.get("type") for one in schema.get("anyOf") or () if isinstance(one, Mapping)]
    fits = "string" not in allowed or any(kind in allowed for kind in KINDS.get(type(value), ()))
    return value if fits else text


def parse_python_calls(body: str) -> list[ToolCall]:
    """The calls in Python's form with literals as named arguments, alone or in a list; none if it is something else."""
    if len(body) > MOST_PYTHON or not PYTHON.fullmatch(body):
        return []
    try:
        return [call for node in _parse_python(body).body for call in _calls_of_node(node)]
    except (ValueError, TypeError, AttributeError):
        return []


def _parse_python(text: str) -> ast.Module:
    """Python's tree of a text. Raises `ValueError`, also for what is nested too deeply for the parser."""
    deepest = depth = 0
    for sign in re.findall(r"[(\[{]|[)\]}]", text):
        depth += 1 if sign in "([{" else -1
        deepest = max(deepest, depth)
    if deepest > MOST_LEVELS:
        raise ValueError("nested too deeply")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of escapes that Python does not know
            return ast.parse(text.strip())
    except (SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError(f"it is no Python ({type(error).__name__})") from None


def _parse_python_values(text: str) -> list[Any]:
    """The data in a text with Python's quotes. The list is empty if it is something else."""
    if len(text) > MOST_PYTHON or not SINGLE.match(text):
        return []
    try:
        statements = _parse_python(text).body
        return [ast.literal_eval(statement.value) for statement in statements if isinstance(statement, ast.Expr)]
    except (ValueError, TypeError, MemoryError, RecursionError):
        return []


def _calls_of_node(node: Any) -> Iterator[ToolCall]:
    """The calls of a statement. Raises `ValueError` or `AttributeError` if it is none."""
    called: Any = node.value if isinstance(node, ast.Expr) else node
    if isinstance(called, (ast.List, ast.Tuple)):
        for item in called.elts:
            yield from _calls_of_node(item)
        return
    name = ast.unparse(called.func)
    if name == "print" and len(called.args) == 1:
        yield from _calls_of_node(called.args[0])
        return
    if called.args or any(given.arg is None for given in called.keywords):
        raise ValueError("an argument has no name")
    arguments = {given.arg: ast.literal_eval(_Constants().visit(given.value)) for given in called.keywords}
    yield make_tool_call(name.removeprefix("default_api.").removesuffix(".call"), arguments)


class _Constants(ast.NodeTransformer):
    """Reads JSON's constants in Python's form."""

    def visit_Name(self, node: ast.Name) -> ast.AST:
        """A constant in place of a name, if it is one of JSON's."""
        return ast.Constant(CONSTANTS[node.id]) if node.id in CONSTANTS else node


TOOL = rf"(?i:{SPACE}(?:tool_?calls?|function_?calls?|tool_use|tools?))"  # names of tags around a call
# Names of tags around a thought
THINK = rf"(?i:{SPACE}(?:think(?:ing)?|thoughts?|reasoning|reflection|analysis|scratchpad))"
# Names of tags around what a tool answers, which only the world may write
RESULT = r"(?:tool_(?:response|result|output)s?|function_(?:response|result)s?|observation)"
CALL_END = r"<\|(?:call|end)\|>|(?=<\|start\|>)"
BAR = "[|｜]"  # of control tokens; DeepSeek's is the full-width one
TO = r"to=(?:functions\.)?(?P<name>[\w.-]{1,100})"  # whom a message of gpt-oss is for: a tool
# What stands in gpt-oss between the channel and the content
MESSAGE = r"(?:[^<>{]{0,80}(?:<\|(?:constrain|channel)\|>\w*[^<>{]{0,80}){0,2}<\|message\|>)?"


@dataclass(frozen=True, eq=False)  # so that it is looked up by what it is, and not by its five texts
class FamilyMark:
    """How a family marks something: patterns of what opens and closes it. The end of the text closes it, too.

    `{tag}` is what the pattern `tag` found at the opening. A group `name` of `opens` is the name of the called tool. A mark
    that is `lone` tells what it closes even where nothing has opened it.
    """

    family: str
    opens: str
    closes: str
    tag: str = ""
    lone: bool = False

    @cached_property
    def opening_pattern(self) -> re.Pattern[str]:
        """The pattern of what opens it."""
        return re.compile(self.opens.replace("{tag}", f"(?P<tag>{self.tag})"), re.S)


CALLS = (
    FamilyMark("FunctionGemma", r"<start_function_call>", r"<end_function_call>"),
    FamilyMark("Hermes, Qwen, GLM, Jamba, Granite, Nemotron, MiniMax, Seed", r"<{tag}\s*>", r"</{tag}\s*>", TOOL),
    FamilyMark("Glaive", r"<{tag}\s+(?=\{)", r"(?<=\})\s*/?>|</{tag}\s*>", TOOL),
    FamilyMark("Qwen-Coder, Llama", rf"<{SPACE}{{tag}}=\"?(?P<name>[^\"<>\s]{{1,100}})\"?\s*>", r"</{tag}\s*>", "function"),
    FamilyMark(
        "MiniMax, Claude",
        r"<{tag}\s+name=\"?(?P<name>[^\"<>\s]{1,100})\"?\s*>",
        r"</{tag}\s*>",
        rf"(?i:{SPACE}(?:invoke|function(?:_?calls?)?|tool(?:_?calls?|_use)?))",
    ),
    FamilyMark("Mistral", r"\[TOOL_CALLS\]", r"(?=\[TOOL_CALLS\])|</s>"),
    FamilyMark("Llama", r"<\|python_tag\|>", r"<\|eo[mt]_id\|>"),
    FamilyMark(
        "DeepSeek, Kimi, LFM, Llama 4, InternLM",
        rf"<{BAR}{{tag}}[_▁](?:begin|start){BAR}>(?:<\|plugin\|>)?",
        rf"<{BAR}{{tag}}[_▁]end{BAR}>",
        "tool[_▁]calls?(?:_section)?|python|action",
    ),
    FamilyMark("Granite, Phi, Gemma", r"<\|tool_call\|?>", r"<\|?/tool_call\|?>|<tool_call\|>"),
    FamilyMark("Command", r"<\|START_ACTION\|>", r"<\|END_ACTION\|>"),
    FamilyMark("gpt-oss", rf"<\|channel\|>\w+\s+{TO}{MESSAGE}", CALL_END),
    FamilyMark("gpt-oss", rf"(?:<\|start\|>|\A)(?:assistant)?\s*{TO}\s*<\|channel\|>{MESSAGE}", CALL_END),
    FamilyMark("Firefunction", r"\bfunctools(?=\[)", r"</s>"),
    FamilyMark("Gemma, Home-LLM", r"```{tag}\b", r"```", "tool_(?:code|calls?|use)|function_calls?|homeassistant"),
    FamilyMark("a mark that was cut", r"<tool_call", r"\Z"),
)
THOUGHTS = (
    FamilyMark("Qwen, DeepSeek, GLM and others", r"<{tag}\s*>", r"</{tag}\s*>", THINK, lone=True),
    FamilyMark("Mistral", r"\[THINK\]", r"\[/THINK\]", lone=True),
    FamilyMark("Kimi", r"◁think▷", r"◁/think▷", lone=True),
    FamilyMark("Command", r"<\|START_THINKING\|>", r"<\|END_THINKING\|>", lone=True),
    FamilyMark("OpenThinker", r"<\|begin_of_thought\|>", r"<\|end_of_thought\|>", lone=True),
    FamilyMark("gpt-oss", rf"<\|channel\|>analysis{MESSAGE}", r"<\|(?:end|return)\|>|(?=<\|start\|>|<\|channel\|>)"),
    FamilyMark("gpt-oss without its marks", r"\Aanalysis(?=.*assistantfinal)", "assistantfinal"),
    FamilyMark("Gemma", r"<\|channel>\s*thought\b", r"<channel\|>", lone=True),
    FamilyMark("Granite", r"\AHere(?:'s| is) my thought process:", r"Here(?:'s| is) my response:"),
    FamilyMark("results that no tool gave", rf"<{BAR}?{{tag}}{BAR}?>", rf"<{BAR}?/{{tag}}{BAR}?>", RESULT),
)
OTHERS = (  # where the model goes on as somebody else
    r"<\|im_start\|>(?!assistant)|<\|start_header_id\|>(?!\s*assistant)|<start_of_turn>(?!model)|\[INST\]"
    rf"|<{BAR}(?:user|User|system|observation){BAR}>"
)
CONTROL = (
    r"<\|im_start\|>assistant\s*|<\|start_header_id\|>\s*assistant\s*(?:<\|end_header_id\|>)?\s*|<start_of_turn>model\s*"
    rf"|<\|start\|>(?:assistant)?|<\|channel\|>(?:final|commentary){MESSAGE}|<{BAR}[^<>|｜\s]{{1,40}}{BAR}>"
    rf"|</?(?:s|bos|eos|pad|response|answer)>|<(?:end_of_turn|end_of_utterance)>|\[/INST\]|</{TOOL}\s*>"
    rf"|</{SPACE}(?:function|invoke|param(?:eter)?)>"
)
LIES = f"t{len(THOUGHTS) - 1}"  # the group of results that no tool gave
# Closings of thoughts that nothing has opened
LONE = "|".join(mark.closes.replace("{tag}", mark.tag) for mark in THOUGHTS if mark.lone)
LONE_END = re.compile(rf"(?=[<\[◁])(?:{LONE})")
SIGNS = re.compile(r"[<\[`◁]")  # one of them is in every mark
UNSIGNED = ("analysis", "Here")  # but for those that begin a text
BRACKETS = re.compile(r"[{(\[]")  # one of them is in every call without a mark
STARTS = r"(?=[<\[`◁]|functools|\A)"  # of every mark
ENDS = re.compile(  # of the message: they end what nothing else closes
    r"<\|(?:im_end|eo[mt]_id|endoftext|end_of_text|return)\|>|</s>|<eos>|<end_of_turn>|<｜end▁of▁sentence｜>"
)
JSON = re.compile(r"(?P<fence>```\w*\s*)?(?P<json>\{|\[\s*\{)")  # where a call without marks may begin
JSON_END = re.compile(r"(?:\s*[]},;])*(?:\s*```)?")  # brackets too many, and what separates calls
# A text that begins as JSON was meant as a call, also if it is none, or was cut
MEANT = re.compile(r"\A(?:```\w*\s*)?(?:\[\s*)*\{\s*(?:[\"'}]|\Z)|\A(?:```\w*\s*)?\[\s*(?:\]\s*(?:```)?)?\Z")
CALLED = re.compile(  # the beginning of a call that was cut, or that is no JSON
    rf"(?:\[\s*)?\{{\s*(?:\"(?:{'|'.join(sorted({*ACTS, *ARGUMENTS}))})\"\s*:|(?:\"\w*)?\Z)"
)
MOST_STARTS = 32  # places at which JSON may begin in a text
NO_END = "the tool call has no end"


@dataclass(frozen=True)
class ParsedSpeech:
    """A text apart: what it says, what it calls, and why a call could not be read, or None."""

    words: str
    calls: tuple[ToolCall, ...] = ()
    thought: str = ""
    malformed: str | None = None


def parse_speech(text: str, tools: Tools = (), bare: bool = True) -> ParsedSpeech:
    """Separate the words, the calls and the thoughts of a text.

    `bare` also reads calls that have no marks; it is off where an answer may be JSON. The `tools` tell which parameters are
    texts, in forms that do not tell numbers from texts.
    """
    found = _split_speech(text, tools) if _has_signs(text) else ParsedSpeech(text)
    return _add_bare_calls(found, tools) if bare and BRACKETS.search(found.words) else found


def strip_thoughts_and_controls(text: str) -> str:
    """A text without thoughts and control tokens, whatever calls are in it."""
    return _split_speech(text, (), calls=()).words if _has_signs(text) else text


def find_thoughts(text: str) -> list[tuple[int, int]]:
    """The places of the thoughts in a text, with their marks. Blank thoughts and made-up results are left out."""
    if not _has_signs(text):
        return []
    begun, at = _first_thought(text)
    found = [(0, at)] if begun.strip() else []
    for piece in _split_at_marks(text, CALLS):
        if piece.group == "lone":
            found = [(0, piece.after)]
        elif piece.group[:1] == "t" and piece.group != LIES and piece.body.strip():
            found.append((at + len(piece.before), piece.after))
        at = piece.after
    return found


def strip_thoughts(text: str) -> str:
    """A text without its thoughts, and otherwise as it stands."""
    for start, end in reversed(find_thoughts(text)):
        text = text[:start] + text[end:]
    return text.strip()


def _has_signs(text: str) -> bool:
    return SIGNS.search(text) is not None or text.startswith(UNSIGNED)


@cache
def _pattern_of_marks(calls: Sequence[FamilyMark]) -> tuple[re.Pattern[str], dict[str, FamilyMark]]:
    """A pattern of all that is not a word, and the marks by the names of its groups."""
    by_group = {f"{kind}{at}": mark for kind, marks in (("c", calls), ("t", THOUGHTS)) for at, mark in enumerate(marks)}
    plain = {group: re.sub("P<(?:name|tag)>", ":", mark.opening_pattern.pattern) for group, mark in by_group.items()}
    opens = "|".join(f"(?P<{group}>{pattern})" for group, pattern in plain.items())
    every = rf"{STARTS}(?:(?P<other>{OTHERS})|{opens}|(?P<lone>{LONE})|(?P<control>{CONTROL}))"
    return re.compile(every, re.S), by_group


@dataclass(frozen=True)
class MarkedPiece:
    """What a mark opens: its group, the name and tag at the opening, the body after it, and whether it is closed.

    `before` are the words between the mark before and this one, and `after` is where the text goes on.
    """

    group: str
    before: str
    after: int
    body: str = ""
    name: str | None = None
    closed: bool = False


def _split_at_marks(text: str, calls: Sequence[FamilyMark]) -> Iterator[MarkedPiece]:
    """The marks of a text in order, each with the words before it. The last piece has the words after all marks."""
    pattern, by_group = _pattern_of_marks(calls)
    (_, at), open_for_ever = _first_thought(text), set[re.Pattern[str]]()
    while found := pattern.search(text, at):
        before, group, at = text[at : found.start()], found.lastgroup or "", found.end()
        if mark := by_group.get(group):
            opening = mark.opening_pattern.match(text, found.start())
            named = opening.groupdict() if opening else {}
            closing = re.compile(mark.closes.replace("{tag}", re.escape(named.get("tag") or "")))
            end = None if closing in open_for_ever else closing.search(text, at)
            if end is None:
                open_for_ever.add(closing)  # or many openings would take quadratic time
                end = ENDS.search(text, at)
            body, at = text[at : end.start() if end else len(text)], end.end() if end else len(text)
            yield MarkedPiece(group, before, at, body, named.get("name"), end is not None)
        else:
            yield MarkedPiece(group, before, at)
            if group == "other":
                return
    yield MarkedPiece("", text[at:], len(text))


def _split_speech(text: str, tools: Tools, calls: Sequence[FamilyMark] = CALLS, levels: int = 2) -> ParsedSpeech:
    """The text by its marks. Calls may stand within the marks of a list of calls, `levels` deep."""
    words, thoughts, found, wrong = list[str](), [_first_thought(text)[0]], list[ToolCall](), None
    by_group = _pattern_of_marks(calls)[1]
    for piece in _split_at_marks(text, calls):
        words.append(piece.before)
        if piece.group == "lone":  # whatever came before was a thought
            thoughts += words
            words, found, wrong = [], [], None
        elif piece.group[:1] == "t":
            thoughts.append(piece.body)
        elif piece.group in by_group:
            try:
                found += _calls_of_piece(piece, tools, levels)
            except UNREADABLE as error:
                wrong = wrong or (NO_END if by_group[piece.group] is CALLS[-1] else _describe_unreadable_call(error))
    said = "".join(words)
    thought = "\n".join(filter(None, map(str.strip, thoughts)))
    return ParsedSpeech(said if said == text else said.strip(), () if wrong else tuple(found), thought, wrong)


def _first_thought(text: str) -> tuple[str, int]:
    """(the thought that a template opened before the text begins, the place where the text goes on after it)."""
    pattern, by_group = _pattern_of_marks(())
    start = at = 0
    for found in pattern.finditer(text) if LONE_END.search(text) else ():
        if found.lastgroup == "lone":
            start, at = found.span()
        elif found.lastgroup in by_group:
            break
    return text[:start], at


def _calls_of_piece(piece: MarkedPiece, tools: Tools, levels: int) -> list[ToolCall]:
    """The calls between marks: of the named tool, in any form, or in marks of their own. Raises one of `UNREADABLE`."""
    if piece.name is not None:
        return [make_tool_call(piece.name, parse_named_arguments(piece.body, piece.name, tools, piece.closed))]
    try:
        return parse_marked_calls(piece.body, tools, piece.closed)
    except UNREADABLE:
        inner = _split_speech(piece.body, tools, CALLS, levels - 1) if levels else ParsedSpeech("")
        if not inner.calls or inner.words.strip() not in ("", "function"):
            raise
        return list(inner.calls)


def _describe_unreadable_call(error: Exception) -> str:
    """What the model is told about a call that could not be read."""
    return f"the tool call is not the JSON asked for ({describe_parse_error(error)})"


def describe_parse_error(error: Exception) -> str:
    """The error as text.

    Recursion errors have a fixed text, since their own depends on the stack and would differ in a replay.
    """
    return "nested too deeply" if isinstance(error, RecursionError) else str(error)


def _add_bare_calls(said: ParsedSpeech, tools: Tools) -> ParsedSpeech:
    """The speech with the calls that stand among its words without marks. JSON at its beginning was meant as a call."""
    words, calls, wrong = _take_json_calls(said.words)
    rest = words.strip()
    if wrong is None and MEANT.match(rest):
        try:
            words, calls = "", [*calls, *parse_marked_calls(rest, tools)]
        except UNREADABLE as error:
            words, wrong = "", _describe_unreadable_call(error)
    elif wrong is None and not calls and (found := parse_python_calls(rest)):
        words, calls = "", found
    words = words if words == said.words else words.strip()
    wrong = said.malformed or wrong
    return ParsedSpeech(words, () if wrong else (*said.calls, *calls), said.thought, wrong)


def _take_json_calls(words: str) -> tuple[str, list[ToolCall], str | None]:
    """(the words without the calls in JSON among them, these calls, why one cannot be read or None)."""
    kept, calls, at, start = list[str](), list[ToolCall](), 0, 0
    for _ in range(MOST_STARTS if len(words) <= MOST_TEXT else 0):
        if not (found := JSON.search(words, start)):
            break
        start = found.start("json")
        value, called = None, None
        try:
            value, end = DECODER.raw_decode(words, start)
            # Other JSON among words is told, and no call: "It says {"light": "on"}".
            values = value if isinstance(value, list) else [value]
            if any(isinstance(one, dict) and not one.keys().isdisjoint(ACTS) for one in values):
                called = calls_from_json(value)
        except UNREADABLE as error:
            if value is not None or CALLED.match(words, start):
                return "".join([*kept, words[at : found.start()]]), [], _describe_unreadable_call(error)
            start += 1
            continue
        start = end
        if called is not None:
            kept.append(words[at : found.start()])
            calls += called
            follows = JSON_END.match(words, end)
            at = start = follows.end() if follows else end
    return "".join([*kept, words[at:]]), calls, None


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


def parse_json_answer(text: str) -> tuple[dict[str, Any] | None, str | None]:
    """(the single JSON answer of an agent or None, what is malformed or None). A code fence around the JSON is allowed."""
    try:
        answer = parse_model_json(strip_code_fence(text))
    except (ValueError, RecursionError) as error:
        return None, f"the answer is not JSON ({describe_parse_error(error)})"
    return (answer, None) if isinstance(answer, dict) else (None, "the answer is not a JSON object")


def parse_model_json(text: str) -> Any:
    """Parse JSON that a model wrote, without lone surrogates.

    Raises `ValueError` or `RecursionError`, as `json.loads` does. It raises `ValueError` also for a text that is longer than
    `MOST_TEXT`, which is not read.
    """
    value = parse_bounded_json(text)
    escaped = ("\\ud" in text or "\\uD" in text) and ESCAPED_HALF.search(text)
    plain = not escaped and can_be_encoded(text)
    return value if plain else json.loads(replace_surrogates(json.dumps(value, ensure_ascii=False)))


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
