"""How often users behave so: rules that find behaviours in words, datasets of people, the audit beside them."""

import json
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

import pytest
from dialogues import detected, sample
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import InputError
from homerl.play.situation import BEHAVIOURS
from homerl.worlds.behaviour_rates import behaviour_rates, detect_behaviours, dialogue_behaviour_rates, read_dialogues

PEOPLE = Path(__file__).parent / "dialogues.jsonl"


LOST = "actually, have you seen my keys?"
ANSWERS = [
    ("The lamp of the hall?", "yes, that is right, thank you", []),
    ("Is that all?", "It's fine, I need nothing else", []),
    ("Is that all?", "no, but what is on in the hall?", []),
    ("Anything else?", "No, I said thanks.", []),
    ("The lamp of the hall?", "no, the one of the kitchen", ["disclosure"]),
    ("How bright?", "How about 40?", ["disclosure"]),
    ("Which lamps?", "All, please.", ["disclosure"]),
    ("Shall I do it later?", "No, I want it at 40 now.", ["disclosure"]),
]


def texts(dialogue: str) -> list[tuple[str, str]]:
    """Lines `u words` and `a words` as messages."""
    roles = {"u": "user", "a": "assistant"}
    return [(roles[line[0]], line[2:]) for line in dialogue.strip().splitlines()]


@pytest.mark.parametrize(
    ("dialogue", "behaviours"),
    [
        ("u turn on the lamp\na Done.\nu and the fan", [[], ["disclosure"]]),
        ("u turn on the lamp, no wait, the fan", [["self_correction"]]),
        ("u turn on the lamp\na Done.\nu on second thought leave it off", [[], ["change_of_mind"]]),
        ("u do something with the lamp\na What would you like?\nu set it to 40", [[], ["disclosure"]]),
        (
            "u set the lamp\na How bright should it be?\nu have you seen my keys\na How bright should it be?\nu 40",
            [[], ["beside_the_point"], ["disclosure"]],
        ),
        ("u turn on the lamp\na Done.\nu close the curtain", [[], []]),
        ("u no lights in the hall please", [[]]),
        ("u a room with no lamps on", [[]]),
        *((f"u turn on the lamp\na {question}\nu {answer}", [[], said]) for question, answer, said in ANSWERS),
        (f"u turn on the lamp\na How bright?\nu {LOST}\na How bright?\nu 40", [[], ["beside_the_point"], ["disclosure"]]),
        ("u turn on the lamp\na Is that right?\nu No! I wanted the fan.\na Is that right?", [[], ["change_of_mind"]]),
    ],
)
def test_words_show_behaviours(dialogue, behaviours):
    assert detect_behaviours(texts(dialogue), "en") == [frozenset(found) for found in behaviours]


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_rules_find_what_the_scripted_user_was_told_to_do_in_held_out_sentences(language):
    for name, found in detected(language, 100).items():
        assert found.right >= 5, name
        assert found.precision > 0.85 and found.recall > 0.85, (name, found)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_user_that_loops_is_judged_at_once(language):
    said = "it's fine. " * 400 + "it's fi" if language == "en" else "好的。" * 400 + "好客"
    assert len(detect_behaviours([("user", "a"), ("assistant", "How bright?"), ("user", said)], language)) == 2


@given(st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), st.text(max_size=30)), max_size=8))
def test_every_utterance_is_judged_once_whatever_is_said(messages):
    found = detect_behaviours(messages, "en")
    assert len(found) == sum(role == "user" and bool(text.strip()) for role, text in messages)
    assert all(len(behaviours) <= 1 for behaviours in found)


def test_the_sample_is_what_its_seeds_give():
    assert PEOPLE.read_text(encoding="utf-8") == "".join(sample())


def test_rates_are_shares_of_utterances_with_wilsons_intervals():
    some = frozenset({"disclosure"})
    found = behaviour_rates([some, some, some, frozenset()])["disclosure"]
    assert (found.share, found.n) == (0.75, 4) and found.low == pytest.approx(0.30, abs=0.01) and found.high < 1
    assert set(behaviour_rates([some])) == set(BEHAVIOURS) and behaviour_rates([]) == {}


def test_an_utterance_may_hold_any_sign(tmp_path):
    file = tmp_path / "d.jsonl"
    told = [{"role": "user", "content": "turn on\u2028the lamp\u0085"}, {"role": "assistant", "content": "Done."}]
    file.write_text(json.dumps({"language": "en", "messages": told}, ensure_ascii=False) + "\n", encoding="utf-8")
    (one,) = read_dialogues(str(file))
    assert one.messages[0].content == told[0]["content"]


def test_a_file_of_dialogues_is_read_and_its_rates_are_those_of_its_labels():
    dialogues = read_dialogues(str(PEOPLE))
    labels = [said.behaviours or () for one in dialogues for said in one.messages if said.role == "user"]
    for name, rate in dialogue_behaviour_rates(dialogues).items():
        assert rate.n == len(labels)
        assert rate.share == pytest.approx(sum(name in of for of in labels) / len(labels), abs=0.03)


TASKMASTER = [
    {"conversation_id": "1", "utterances": [{"index": 0, "speaker": "USER", "text": "a table for two", "segments": []}]},
    {
        "conversation_id": "2",
        "utterances": [
            {"index": 0, "speaker": "ASSISTANT", "text": "What time?"},
            {"index": 1, "speaker": "USER", "text": "7 pm"},
            {"index": 2, "speaker": "user", "text": "on second thought, 8 pm"},
        ],
    },
]


@pytest.fixture
def site(tmp_path) -> Iterator[tuple[Path, str]]:
    """A folder, and the URL that it is served under."""
    serve = partial(SimpleHTTPRequestHandler, directory=str(tmp_path))
    with ThreadingHTTPServer(("127.0.0.1", 0), serve) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield tmp_path, f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_list_of_taskmaster_dialogues_is_read_from_a_url(site):
    folder, url = site
    (folder / "woz.json").write_text(json.dumps(TASKMASTER, indent=2))
    dialogues = read_dialogues(f"{url}/woz.json")
    assert [[(said.role, said.content) for said in one.messages] for one in dialogues] == [
        [("user", "a table for two")],
        [("assistant", "What time?"), ("user", "7 pm"), ("user", "on second thought, 8 pm")],
    ]
    assert {name: round(rate.share, 2) for name, rate in dialogue_behaviour_rates(dialogues).items() if rate.share} == {
        "disclosure": 0.33,
        "change_of_mind": 0.33,
    }


def test_a_url_without_a_list_of_dialogues_is_refused(site):
    folder, url = site
    (folder / "broken.json").write_text(json.dumps(TASKMASTER)[:-1])
    (folder / "other.json").write_text(json.dumps([*TASKMASTER, {"turns": []}]))
    with pytest.raises(InputError, match="cannot be downloaded.*404"):
        read_dialogues(f"{url}/nowhere.json")
    with pytest.raises(InputError, match="cannot be downloaded.*port"):
        read_dialogues("https://example.com:abc/x.json")
    with pytest.raises(InputError, match="cannot be read"):
        read_dialogues(f"{url}/broken.json")
    with pytest.raises(InputError, match="no dialogue") as refusal:
        read_dialogues(f"{url}/other.json")
    assert refusal.value.where == f"{url}/other.json, dialogue 3"


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "Expecting property name"),
        ('{"messages": []}', "at least 1"),
        ('{"messages": [{"content": "hello"}]}', "Field required"),
        ('{"messages": [{"role": "user", "behaviours": ["rude"]}]}', "Input should be"),
        ('{"messages": [{"role": null}]}', "valid string"),
    ],
)
def test_a_line_that_is_no_dialogue_is_refused_with_its_number(tmp_path, line, why):
    file = tmp_path / "people.jsonl"
    file.write_text(PEOPLE.read_text(encoding="utf-8").splitlines()[0] + "\n" + line + "\n", encoding="utf-8")
    with pytest.raises(InputError, match=why) as refusal:
        read_dialogues(str(file))
    assert refusal.value.where == f"{file}:2"


def test_a_dataset_that_is_empty_or_nowhere_is_refused(tmp_path):
    (tmp_path / "none.jsonl").write_text("\n")
    with pytest.raises(InputError, match="no dialogue"):
        read_dialogues(str(tmp_path / "none.jsonl"))
    (tmp_path / "nobody.jsonl").write_text('{"messages": [{"role": "customer", "content": "hello"}]}\n')
    with pytest.raises(InputError, match="nobody speaks as `user`"):
        read_dialogues(str(tmp_path / "nobody.jsonl"))
    (tmp_path / "latin.jsonl").write_bytes('{"messages": [{"role": "user", "content": "café"}]}'.encode("latin-1"))
    with pytest.raises(InputError, match="cannot be read"):
        read_dialogues(str(tmp_path / "latin.jsonl"))
    with pytest.raises(InputError, match="no such"):
        read_dialogues(str(tmp_path / "nowhere"))
