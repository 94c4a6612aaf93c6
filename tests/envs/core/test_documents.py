"""Files that people write: what reads, what is refused, and whether the message would help."""

import json
import pickle
from pathlib import Path
from typing import Annotated, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field, field_validator

from homerl.envs.core.documents import Document, InputError, read_json, read_yaml, validate_document, write_atomic


class Scratch(BaseModel, extra="forbid"):
    kind: Literal["scratch"] = "scratch"
    layers: int = Field(4, gt=0)


class Hub(BaseModel, extra="forbid"):
    kind: Literal["hub"]
    name: str


class Serve(BaseModel, extra="forbid"):
    serve: Scratch


class Url(BaseModel, extra="forbid"):
    url: str


class Recipe(BaseModel, extra="forbid"):
    learning_rate: float = 1.0
    mode: Literal["on", "off"] = "on"
    model: Annotated[Scratch | Hub, Field(discriminator="kind")] | None = None
    user: Serve | Url | None = None
    many: list[Scratch] = []
    named: dict[str, Hub] = {}
    even: int = 0

    @field_validator("even")
    @classmethod
    def _even(cls, value: int) -> int:
        if value % 2:
            raise InputError(f"{value} is odd", remedy="give an even number")
        return value


def refused(text: str) -> InputError:
    with pytest.raises(InputError) as caught:
        validate_document(Recipe, read_yaml(f"{text}\n"))
    assert len(str(caught.value).splitlines()) <= 3
    return caught.value


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("on", "on"), ("off", "off"), ("yes", "yes"), ("No", "No"), ("y", "y"), ("true", True),
        ("False", False), ("1e-6", 1e-6), ("2E5", 2e5), ("1.", 1.0), (".5", 0.5), ("-.inf", float("-inf")),
        ("12", 12), ("-3", -3),
        ("0x1f", 31), ("0o17", 15), ("22:30", "22:30"), ("2026-01-01", "2026-01-01"), ("1.2.3", "1.2.3"),
        ("", None), ("~", None), ("'1'", "1"), ("1001", 1001), ("-", [None]), ("ａ", "ａ"),
    ],
)  # fmt: skip
def test_scalars_mean_what_is_written(text: str, value: object) -> None:
    read = read_yaml(f"{text}\n").data
    assert (read, type(read)) == (value, type(value))


def test_lines_of_keys_and_items() -> None:
    document = read_yaml(
        "# a device\nname: lamp\nattributes:\n  - name: level\n    range: [0,\n      100]\n  -\n    name: x\n"
    )
    assert document.lines[("attributes", 0, "range")] == 5
    assert document.lines[("attributes", 0, "range", 1)] == 6
    assert document.lines[("attributes", 1, "name")] == 8
    assert document.locate_key(("attributes", 0, "nowhere", 3)) == "<text>:4"


def test_sources(tmp_path: Path) -> None:
    file = tmp_path / "spec.yaml"
    file.write_text("a: 1\n")
    with file.open() as stream:
        sources = (stream, file, str(file))
        expected = Document(str(file), {"a": 1}, {(): 1, ("a",): 1})
        assert [read_yaml(source) for source in sources] == [expected] * 3


def test_anchors_and_merges() -> None:
    document = read_yaml("base: &base {a: 1, b: 2}\nitem:\n  <<: *base\n  b: 3\nsame: *base\n")
    assert document.data == {"base": {"a": 1, "b": 2}, "item": {"a": 1, "b": 3}, "same": {"a": 1, "b": 2}}


@pytest.mark.parametrize(
    ("text", "where", "words"),
    [
        ("a: 1\nb: 2\na: 3", "<text>:3", "'a' is given twice"),
        ("r:\n  - {x: 1, x: 2}", "<text>:2", "'x' is given twice"),
        ("a: [1\nb: 2", "<text>:2:2", "not valid YAML"),
        ("a: b: c", "<text>:1:5", "not valid YAML"),
        ("a: 1\n---\nb: 2", "<text>:2:1", "not valid YAML"),
        ("a: !!python/object/apply:os.system [x]", "<text>:1:4", "not valid YAML"),
        ("a: &a\n  - *a", "<text>:1", "alias of itself"),
        ("? [1]\n: 2", "<text>:1", "a key must be"),
        ("a: \x01", "<text>", "cannot be read as text"),
        ("[" * 5000, "<text>", "nested too deeply"),
        ("a: " + "9" * 5000, "<text>:1:4", "is no int"),
        ("a: 0x" + "f" * 5000, "<text>:1:4", "is no int"),
        ("a: !!int abc", "<text>:1:4", "'abc' is no int"),
        ("a: !!bool perhaps", "<text>:1:4", "'perhaps' is no bool"),
        ("a: !!timestamp 2001-99-99", "<text>:1:4", "not valid YAML"),
        ("a: !!seq {x: 1}", "<text>:1:4", "not valid YAML"),
        ("a: !!map [1]", "<text>:1:4", "not valid YAML"),
        ("a: !!map b", "<text>:1:4", "not valid YAML"),
        ('a: "\\ud800"', "<text>", "half a character"),
    ],
)
def test_bad_yaml(text: str, where: str, words: str) -> None:
    error = refused(text)
    assert error.where == where and words in error.what and error.remedy


def doubling(first: str, more: str, times: int = 40) -> str:
    """A text whose every line says the line above it ten times over."""
    lines = [f"a0: &a0 {first}"]
    lines += [f"a{i}: &a{i} {more.format(', '.join([f'*a{i - 1}'] * 10))}" for i in range(1, times)]
    return "\n".join(lines)


def test_aliases_that_multiply_are_refused_and_merges_do_not_multiply() -> None:
    assert "multiply beyond measure" in refused(doubling("[x, x]", "[{}]")).what
    merged = read_yaml(doubling("{x: 1, y: 2}", "{{<<: [{}], x: 3}}"))
    assert merged.data["a39"] == {"x": 3, "y": 2}


def test_missing_and_unreadable_files(tmp_path: Path) -> None:
    (tmp_path / "smoke.yaml").write_bytes(b"a: \xff\xfe\n")
    with pytest.raises(InputError, match=r"no such file\ndid you mean .*smoke.yaml"):
        read_yaml(tmp_path / "smok.yaml")
    with pytest.raises(InputError, match="cannot be read as text"):
        read_yaml(tmp_path / "smoke.yaml")
    with pytest.raises(InputError, match="cannot be read: Is a directory"):
        read_yaml(tmp_path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("learnig_rate: 3", "<text>:1: learnig_rate is not a known key\ndid you mean learning_rate?"),
        ("mode: onn", "<text>:1: mode is 'onn', which is not allowed\ndid you mean on? (known: on, off)"),
        ("\nmany:\n- {}\n- layers: -1", "<text>:4: many.1.layers is -1\nit should be greater than 0"),
        ("model: {kind: scratch,\n  layrs: 3}", "<text>:2: model.layrs is not a known key"),
        ("model: {kind: hubb}", "<text>:1: model has kind 'hubb', which is not known\ndid you mean hub?"),
        ("user: {url: x, ulr: y}", "<text>:1: user.ulr is not a known key\ndid you mean url?"),
        ("user:\n  serve:\n    layerz: 3", "<text>:3: user.serve.layerz is not a known key"),
        ("named:\n  a:\n    kind: hub", "<text>:2: named.a.name is missing\nadd the key 'name'"),
        ("model: {layers: 3}", "<text>:1: model lacks the key 'kind'"),
        ("even: 3", "<text>:1: even 3 is odd\ngive an even number"),
        ("named: 3\neven: x", "(1 more to correct)"),
        ("- 1", "<text>:1: is [1], where keys with values are expected"),
    ],
)
def test_messages_name_place_and_remedy(text: str, message: str) -> None:
    assert message in str(refused(text))


def test_validate_takes_any_type_and_other_data() -> None:
    document = read_yaml("- layers: 2\n- layers: 3\n")
    assert [item.layers for item in validate_document(list[Scratch], document)] == [2, 3]
    assert validate_document(Scratch, document, document.data[1]).layers == 3


def test_errors_survive_a_worker_process() -> None:
    error = pickle.loads(pickle.dumps(InputError("what", "where", "remedy")))
    assert str(error) == "where: what\nremedy"


def test_json_cut_in_half(tmp_path: Path) -> None:
    file = tmp_path / "home.json"
    whole = json.dumps({"rooms": [{"name": "kitchen"}, {"name": "hall"}]}, indent=1)
    for size in range(len(whole)):
        file.write_text(whole[:size])
        with pytest.raises(InputError, match=r"breaks off|empty") as caught:
            read_json(file)
        assert caught.value.where.startswith(str(file)) and caught.value.remedy


@pytest.mark.parametrize(
    "text",
    ['{"a": 1,}', '{"a" 1}', "{'a': 1}", '{"a": 1, "a": 2}', "[" * 200000, '{"a": ' + "9" * 5000 + "}", '{"a": "\\uDC00"}'],
)
def test_bad_json(tmp_path: Path, text: str) -> None:
    (tmp_path / "x.json").write_text(f"{text}\n \n")
    with pytest.raises(InputError):
        read_json(tmp_path / "x.json")


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=12,
)


def paths(data: object, key: tuple = ()) -> list[tuple]:
    items = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    return [key, *(path for part, inner in items for path in paths(inner, (*key, part)))]


@given(json_values)
def test_json_lines_know_every_key(tmp_path_factory: pytest.TempPathFactory, data: object) -> None:
    file = tmp_path_factory.getbasetemp() / "any.json"
    file.write_text(json.dumps(data, indent=1))
    document = read_json(file)
    assert document.data == data
    assert sorted(map(repr, document.lines)) == sorted(map(repr, paths(data)))


def test_json_lines(tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text('{\n "a": [1,\n  {"b":\n 2}],\n "c{\\"": ":,"\n}')
    document = read_json(tmp_path / "x.json")
    assert document.lines == {(): 1, ("a",): 2, ("a", 0): 2, ("a", 1): 3, ("a", 1, "b"): 3, ('c{"',): 5}


def test_write_atomic(tmp_path: Path) -> None:
    file = tmp_path / "deep" / "file"
    write_atomic(file, "é")
    assert file.read_text(encoding="utf-8") == "é"
    write_atomic(file, b"\x00")
    assert file.read_bytes() == b"\x00"
    with pytest.raises(TypeError):
        write_atomic(file, (part for part in ("new", 3)))  # type: ignore[arg-type]
    assert [*file.parent.iterdir()] == [file] and file.read_bytes() == b"\x00", "it broke off in the middle"


def test_the_remedy_for_a_wrong_type_in_a_file_speaks_of_the_file() -> None:
    with pytest.raises(InputError) as refused:
        validate_document(dict[str, str], Document("a.yaml", {"spid": 5}, {("spid",): 3}))
    assert str(refused.value) == 'a.yaml:3: spid is 5\nit should be text: write it in quotes, as "5"'
