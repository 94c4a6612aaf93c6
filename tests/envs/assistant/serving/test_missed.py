"""What was not done is said, whatever the model says of it. The model answers over HTTP."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from crossed import crossed
from scripted_server import MODEL, ScriptedServer
from serving import Says, Served, serve_home
from written_home import Row, written_home

from homerl.envs.assistant.serving.exchange_journal import Mode
from homerl.envs.assistant.serving.journal_page import render_journal_page
from homerl.envs.assistant.serving.reply_text import ReplyPhrases, join_sentences
from homerl.envs.core.messages import call_message, tool_call
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import RULES
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.llm_agent import LLMAgent

ON, OFF, MOVE = "intent__HassTurnOn", "intent__HassTurnOff", "intent__HassSetPosition"
MODES = get_args(Mode)
Message = dict[str, Any]


@pytest.fixture(scope="module")
def flat(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return written_home(
        tmp_path_factory.mktemp("flat"),
        Row("light.kitchen", "Kitchen Light", state="off"),
        Row("light.hall", "Hall Light", state="off"),
        Row("lock.front_door", "Front Door", state="locked"),
        Row("light.attic", "Attic Light", area="up", state="unavailable"),
        Row("light.desk", "Desk Lamp", area="up", state="off"),
        Row("cover.blind", "Blind", state="closed", device_class="blind", closed=True),
        areas={"up": "Upstairs"},
    )


Talk = Callable[..., Served]


@pytest.fixture
def talk(flat: Home, tmp_path: Path, monkeypatch) -> Iterator[Talk]:
    """A caretaker whose model, at a server, says these messages in turn, and then the last one again."""
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    servers: list[ScriptedServer] = []

    def made(mode: str, *messages: Message | str, toolset: str = "assist", language: str = "en", steps: int = 8) -> Served:
        waiting = [{"content": one} if isinstance(one, str) else one for one in messages]
        server = ScriptedServer(answer=lambda request: waiting.pop(0) if len(waiting) > 1 else waiting[0])
        servers.append(server.__enter__() or server)
        agents = lambda: LLMAgent(Endpoint([server.url], MODEL))  # noqa: E731
        return serve_home(flat, agents, tmp_path, mode, toolset, language, steps=steps)

    yield made
    for server in servers:
        server.die()


def calls(*called: tuple[str, Any]) -> Message:
    """A message with tool calls; arguments that are a text are sent as they are."""
    written = [(name, given if isinstance(given, str) else json.dumps(given)) for name, given in called]
    return {"tool_calls": [{"type": "function", "function": {"name": n, "arguments": a}} for n, a in written]}


def control(did: str, locator: str, **arguments: Any) -> tuple[str, Any]:
    return "control_device", {"did": did, "locator": locator, "arguments": arguments}


KITCHEN, SAUNA = (ON, {"name": "Kitchen Light"}), (ON, {"name": "Sauna"})
DONE = "Done, it is on."


@crossed(
    mode=MODES,
    case=[
        (SAUNA, "turn on the sauna", "Sauna: turn on, because I found no device that fits"),
        ((ON, '{"name":"Kitchen Light",}'), "kitchen light on", "turn on, because my own call could not be read"),
        ((ON, '{"name":"Kitchen'), "kitchen light on", "turn on, because my own call could not be read"),
        ((ON, "[]"), "kitchen light on", "turn on, because my own call could not be read"),
        (
            (ON, {"area": "Cellar", "domain": ["light"]}),
            "light the cellar",
            "Cellar light: turn on, because I found no such",
        ),
        ((ON, {"name": "light.sauna"}), "sauna on", "could not do this: turn on, because I found no device"),
        ((ON, {"name": '{"a": 1}'}), "sauna on", "could not do this: turn on, because I found no device"),
        (
            (MOVE, {"name": "Blind", "position": 300}),
            "open the blind",
            "Blind: set position, because it does not take that value",
        ),
        ((ON, {"name": "Attic Light"}), "attic light", "Attic Light: turn on, because the device cannot be reached"),
        (("HassTurnOn", {"name": "Kitchen Light"}), "light", "Kitchen Light: turn on, because I have no means for that"),
        ((ON, {}), "on", "turn on, because I left out something"),
    ],
)
def test_a_claim_that_nothing_bears_out_is_not_heard(talk, mode, case):
    call, said, told = case
    served = talk(mode, calls(call), DONE)
    reply = served.say(said)
    assert told in reply and "Done" not in reply and not served.real.made
    (entry,) = served.journal.read_entries()
    assert entry.outcome == "refused" and not entry.calls and not set("{}[]_") & set(reply)
    assert "could not" in render_journal_page([entry])


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (control("light.sauna", "turn_on"), "turn on, because I found no device that fits"),
        (control("light.kitchen", "light.explode"), "Kitchen Light: explode, because the device cannot do that"),
        (control("light.kitchen", "turn_on", flash="never"), "Kitchen Light: turn on, because I gave it something"),
        (("control_device", {"did": "light.kitchen"}), "I could not do this: I left out something that it needs"),
        (("query_device", {"what": "status", "did": "light.sauna"}), "I could not do this: I found no device that fits"),
        (("control_device", "nonsense"), "I could not do this: my own call could not be read"),
        (("open_sesame", {}), "open sesame, because I have no means for that"),
    ],
)
def test_calls_of_other_tools_are_told_too(talk, call, told):
    served = talk("act", calls(call), DONE, toolset="smh")
    assert told in served.say("light please")


@pytest.mark.parametrize(
    ("toolset", "text", "told"),
    [
        (
            "homeflow",
            '<tool_call>{"name": "pyexec", "arguments": {"code": "1/0"}}</tool_call>',
            "my own program for it failed",
        ),
        ("homeflow", '<tool_call>{"name": "pyexec", "argum', "my own call could not be read"),
        ("homeflow", '<tool_call>{"name": "pyexec", "arguments": {"code": "device("}}</tool_call>', "could not be read"),
        ("direct", '{"mode": "execute", "response": "Done.", "actions": [', "my own call could not be read"),
        ("direct", "Done, it is on.", "my own call could not be read"),
    ],
)
def test_an_answer_that_was_cut_or_failed_is_told(talk, toolset, text, told):
    served = talk("act", text, DONE, toolset=toolset, steps=2)
    reply = served.say("light please")
    assert told in reply and "Done" not in reply


def test_what_came_after_a_refused_action_is_told(talk):
    actions = [
        control("light.kitchen", "turn_on")[1],
        control("lock.front_door", "fly")[1],
        control("light.hall", "turn_on")[1],
    ]
    answer = json.dumps({"mode": "execute", "response": "All done.", "actions": actions})
    served = talk("act", answer, toolset="direct", steps=1)
    reply = served.say("everything please")
    assert reply == (
        "I did only this: Kitchen Light: turn on. I could not do this: Front Door: fly, because the device cannot do that; "
        "Hall Light: turn on, because I left it out after that."
    )
    assert served.journal.read_entries()[-1].outcome == "partly" and len(served.real.made) == 1


def test_one_of_two_is_told_in_each_mode(talk):
    left = "I could not do this: Sauna: turn on, because I found no device that fits."
    acted = talk("act", calls(KITCHEN, SAUNA), "Done.")
    assert acted.say("kitchen light and sauna on") == f"I did only this: Kitchen Light: turn on. {left}"
    assert acted.journal.read_entries()[-1].outcome == "partly" and "acted in part" in render_journal_page(
        acted.journal.read_entries()
    )
    watched = talk("shadow", calls(KITCHEN, SAUNA), "Done.").say("kitchen light and sauna on")
    assert watched.startswith("I only watch") and watched.endswith(left)
    asking = talk("confirm", calls(KITCHEN, SAUNA), "Done.")
    asked = asking.say("kitchen light and sauna on")
    assert asked.startswith(left) and asked.endswith("Shall I do it?"), "Home Assistant listens on after a question alone"
    assert asking.say("yes") == f"I did only this: Kitchen Light: turn on. {left}"
    assert asking.journal.read_entries()[-1].outcome == "partly"


def test_what_consent_comes_too_late_for_is_told(talk):
    served = talk("confirm", calls(KITCHEN, (ON, {"name": "Hall Light"})), "Done.")
    served.say("both lights on")
    hall = served.real.home.plan.slot_of("light.hall", "state")
    served.real.home.write_slot(hall, "unavailable")
    reply = served.say("yes")
    assert (
        "Hall Light: turn on, because the device cannot be reached; Kitchen Light: turn on, because I left it out" in reply
    )
    assert not served.real.made and served.journal.read_entries()[-1].outcome == "refused"


@pytest.mark.parametrize(
    ("wrong", "right", "said"),
    [
        ((ON, {"name": "Kitchen Lamp"}), KITCHEN, "turn on the kitchen light"),
        ((ON, '{"name":"Kitchen Light",}'), KITCHEN, "turn on the kitchen light"),
        (("HassTurnOn", {"name": "Kitchen Light"}), KITCHEN, "turn on the kitchen light"),
        ((ON, {"name": "the kitchen lights"}), KITCHEN, "turn on the kitchen lights"),
        (("homeassistant__GetLiveContext", "{"), KITCHEN, "turn on the kitchen light"),
        ((MOVE, {"name": "Blind", "position": 300}), (MOVE, {"name": "Blind", "position": 100}), "open the blind"),
    ],
)
def test_what_was_put_right_is_not_told(talk, wrong, right, said):
    served = talk("act", calls(wrong), calls(right), "There you are.")
    assert served.say(said) == "There you are." and served.journal.read_entries()[-1].outcome == "done"


@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        (control("kitchen", "turn_on"), control("light.kitchen", "turn_on")),
        (control("light.kitchen", "light.on"), control("light.kitchen", "turn_on")),
        (control("light.kitchen", "turn_on", flash="never"), control("light.kitchen", "turn_on")),
        (("control_device", "{"), control("light.kitchen", "turn_on")),
        (("query_device", {"did": "?"}), control("light.kitchen", "turn_on")),
    ],
)
def test_what_was_put_right_with_other_tools_is_not_told(talk, wrong, right):
    served = talk("act", calls(wrong), calls(right), "There you are.", toolset="smh")
    assert served.say("light please") == "There you are."


@pytest.mark.parametrize(
    ("wrong", "other", "toolset"),
    [
        (SAUNA, KITCHEN, "assist"),  # the next wish, and no second try
        ((OFF, '{"name":'), KITCHEN, "assist"),
        ((ON, {"name": "Attic Light"}), KITCHEN, "assist"),
        (control("light.kitchen", "turn_on", flash="never"), control("light.hall", "turn_on"), "smh"),
        (control("light.kitchen", "turn_on", flash="never"), control("light.kitchen", "turn_off"), "smh"),
        (control("lock.cellar", "unlock"), control("light.kitchen", "turn_on"), "smh"),
    ],
)
def test_another_call_puts_nothing_right(talk, wrong, other, toolset):
    served = talk("act", calls(wrong), calls(other), "All done.", toolset=toolset)
    reply = served.say("turn on the sauna and the kitchen light")
    assert reply.startswith("I did only this: ") and "I could not do this: " in reply and "All" not in reply


@pytest.mark.parametrize("words", ["I could not find a sauna.", "There is no such device. Which one do you mean?"])
def test_an_admission_stands_alone(talk, words):
    assert talk("act", calls(SAUNA), words).say("turn on the sauna") == words


@pytest.mark.parametrize(
    ("words", "kept"),
    [
        ("Which of the two do you mean?", True),
        ("I've turned it on.", False),
        ("The sauna has been turned on, though I cannot see it.", False),
        ("The sauna is on.", False),
        ("The sauna is on without any errors.", False),
        ("The sauna is on. I can't wait!", False),
        ("The sauna is on, so it is not cold any more.", False),
        ("", False),
    ],
)
def test_a_question_may_follow_and_a_claim_may_not(talk, words, kept):
    reply = talk("act", calls(SAUNA), words).say("turn on the sauna")
    assert reply.startswith("I could not do this: Sauna: turn on") and reply.endswith(words) == (kept or not words)


def test_an_admission_beside_a_claim_hides_no_refusal(talk):
    told = "I could not do this: Attic Light: turn on, because the device cannot be reached."
    served = talk("act", calls((ON, {"name": "Attic Light"})), "I turned on the attic light. I could not find a heater.")
    assert served.say("attic light and heater on") == told
    served = talk("act", calls((ON, {"name": "Attic Light"})), "I turned it on. I found no heater, which one do you mean?")
    assert served.say("attic light and heater on") == f"{told} I found no heater, which one do you mean?"


def test_a_question_is_kept_without_the_claim_beside_it(talk):
    for spoken, words in (
        ("en", "I've turned it on. It is on. Which colour?"),
        ("en", "It is on. Which colour?"),
        ("pl", "Zrobione, sauna jest włączona! Jaki kolor?"),
    ):
        served = talk("act", calls(SAUNA), words)
        served.real.spoken = spoken
        reply = served.say("turn on the sauna")
        assert "Sauna: " in reply and reply.endswith(f". {words.rpartition('. ' if spoken == 'en' else '! ')[2]}")


def test_an_admission_follows_what_was_done(talk):
    words = "The kitchen light is on, but I could not find a sauna."
    reply = talk("act", calls(KITCHEN, SAUNA), words).say("kitchen light and sauna")
    assert reply.startswith("I did only this: Kitchen Light: turn on. I could not do this: Sauna") and reply.endswith(words)


def test_those_of_a_room_that_were_left_out_are_told(talk):
    reply = talk("act", calls((ON, {"area": "Upstairs", "domain": ["light"]})), "Done.").say("lights on upstairs")
    left = "I could not do this: Attic Light: turn on, because the device cannot be reached."
    assert reply == f"I did only this: Desk Lamp: turn on. {left}"


def test_an_agent_that_is_stopped_says_so(talk):
    served = talk("act", calls(KITCHEN), steps=3)
    assert served.say("light").endswith("I was stopped before I had finished.")
    assert served.journal.read_entries()[-1].outcome == "partly"
    served = talk("act", calls(("homeassistant__GetLiveContext", {})), steps=3)
    assert served.say("light") == "I was stopped before I had finished."


def test_a_call_that_is_refused_twice_ends_the_turn_with_the_reason(talk):
    served = talk("act", calls(SAUNA), calls(KITCHEN), calls(SAUNA), calls(SAUNA), DONE)
    reply = served.say("turn on the sauna")
    assert reply == (
        "I did only this: Kitchen Light: turn on. I could not do this: Sauna: turn on, because I found no device that fits."
    )
    assert len(served.journal.read_entries()[-1].refusals) == 2, "the third was never asked for"


def test_a_call_that_cannot_be_read_twice_ends_the_turn(talk):
    served = talk("act", calls((ON, '{"name":"Kitchen')))
    assert served.say("kitchen light on") == "I could not do this: turn on, because my own call could not be read."
    assert len(served.journal.read_entries()[-1].refusals) == 2


def test_what_is_left_out_with_a_loop_is_told(talk):
    served = talk("act", calls(*[KITCHEN] * 21, (ON, {"name": "Hall Light"})), "Done.")
    reply = served.say("lights")
    assert "21 times" in reply and "Hall Light: turn on, because I left it out" in reply and not served.real.made


@crossed(
    mode=MODES,
    case=[
        ("en", "turn on the kitchen light", "Done, it is on.", ""),
        ("en", "can you turn on the kitchen light?", "I've turned on the Kitchen Light.", ""),
        ("en", "turn on the kitchen light", "It is already on.", "It is already on."),  # it is off
        ("en", "turn off the kitchen light", "It is already off.", False),
        ("en", "turn on the kitchen light", "Which one?", False),
        ("en", "turn on the kitchen light", "Which one do you want turned on?", False),
        ("en", "turn on the kitchen light", "Done! Would you like me to dim it?", "Would you like me to dim it?"),
        ("en", "turn on the kitchen light", "I've turned it on. Which lamp is next?", "Which lamp is next?"),
        ("en", "turn on the kitchen light", "Done. It is 21 degrees.", ""),
        ("en", "turn on the kitchen light", "It is 21.5 degrees!!\n\nNice!!! Yes.", "It is 21.5 degrees!!\n\nNice!!! Yes."),
        ("en", "turn on the kitchen light", "I turned it on. Nobody can see you.", ""),
        ("en", "lock the front door", "Done. The door is locked and the alarm is armed.", ""),  # it is so already
        ("en", "unlock the front door", "Done. The door is open and the alarm is off. Which next?!", "Which next?!"),
        ("en", "how warm is it?", "Done. It is 21 degrees.", False),
        ("en", "make sure the stove is off", "I've turned off the stove. The stove is off.", ""),
        ("en", "good night", "I have locked the front door. The house is secure. Sleep well.", ""),
        ("en", "turn on the kitchen light", "I cannot do that.", False),
        ("en", "did you turn on the light?", "Yes, I've turned it on.", False),
        ("en", "is it warm?", "It is 21 degrees.", False),
        ("en", "can you check whether the door is locked?", "The door is now locked.", False),
        ("en", "turn on all lamps", "Nothing has been turned on.", None),
        ("zh", "帮我看看灯关了没有", "灯已经关了。", False),
        ("zh", "把厨房的灯打开好吗", "好的，已经打开了。", ""),
        ("zh", "打开厨房的灯", "好的，已经打开了。现在是21度。要调暗吗？", "要调暗吗？"),
        ("zh", "打开厨房的灯", "灯本来就开着。", None),
        ("zh", "灯开着吗", "开着的。", False),
    ],
)
def test_a_claim_without_a_call_is_remarked_upon_and_left_out(talk, mode, case):
    language, said, words, kept = case
    served = talk(mode, words, language=language)
    idle = ReplyPhrases(language).fill_phrase("idle")
    if kept is None:  # nothing tells what the sentence is
        kept = False if mode == "shadow" else words
    assert served.say(said) == (words if kept is False else join_sentences(idle, kept))
    assert served.journal.read_entries()[-1].outcome == "said"


@crossed(
    sentence=[
        ("en", "unlock the front door"),
        ("en", "set a timer for 5 minutes"),
        ("en", "could you set a timer for 5 minutes?"),
        ("en", "make it cosy"),  # no sentence of Home Assistant's
        ("de", "stelle einen Timer auf 5 Minuten"),
        ("de", "schalte Hall Light ein"),
        ("fr", "allume Hall Light"),
        ("xx", "anything"),  # a language without sentences
    ],
    words=["OK.", "Will do.", "Timer set for 5 minutes.", "The front door is unlocked.", "Erledigt.", "C'est fait"],
)
def test_no_words_stand_alone_where_a_wish_led_to_no_call(talk, sentence, words):
    spoken, said = sentence
    served = talk("act", words)
    served.real.spoken = spoken
    reply = served.say(said)
    idle = ReplyPhrases("en", spoken).fill_phrase("idle")
    assert reply.startswith(idle) and "Erledigt" not in reply and "OK" not in reply and not served.real.made


@pytest.mark.parametrize(
    ("spoken", "said", "words"),
    [
        ("pl", "włącz Hall Light", "Zrobione! Coś jeszcze?"),
        ("nb", "slå på Hall Light", "Gjort, lyset er på. Noe mer?"),
        ("fi", "laita Hall Light päälle", "Tehty! Vielä jotain muuta?"),
        ("pt", "liga Hall Light", "Feito! Mais alguma coisa?"),
        ("cs", "zapni Hall Light", "Hotovo. Ještě něco?"),
        ("de", "schalte Hall Light ein", "Erledigt! Sonst noch etwas?"),
    ],
)
def test_a_question_after_a_statement_does_not_stand_alone_where_no_rules_read_it(talk, spoken, said, words):
    served = talk("act", words, "Which one?")
    served.real.spoken = spoken
    question = re.split(r"(?<=[.!]) ", words)[-1]
    assert served.say(said) == join_sentences(ReplyPhrases("en", spoken).fill_phrase("idle"), question)
    assert served.say(said) == "Which one?"


@pytest.mark.parametrize(
    ("said", "words", "heard"),
    [
        ("mach es gemütlich", "Erledigt. Es sind 21 Grad.", "Es sind 21 Grad."),
        ("mach es gemütlich", "Gemacht, alles aus. Sonst noch etwas?", "Gemacht, alles aus. Sonst noch etwas?"),
        ("wird es heute gemütlich?", "Es sind 21 Grad.", None),
    ],
)
def test_who_only_looked_does_not_stand_alone_where_no_rules_read_it(talk, said, words, heard):
    """The sentences are none of Home Assistant's, and the agent has looked at the home."""
    served = talk("act", calls(("homeassistant__GetLiveContext", {})), words)
    served.real.spoken = "de"
    assert served.say(said) == (join_sentences(ReplyPhrases("en", "de").fill_phrase("idle"), heard) if heard else words)


@pytest.mark.parametrize(
    ("spoken", "said", "words"),
    [
        ("en", "what time is it", "Half past nine."),
        ("en", "is the front door locked", "The front door is locked."),
        ("en", "lock the front door", "The front door is locked."),  # it is so already
        ("de", "wie spät ist es", "Halb zehn."),
        ("de", "ist Hall Light an", "Nein."),
        ("de", "schalte Hall Light ein", "Welches meinst du?"),
    ],
)
def test_an_answer_a_question_and_what_is_so_already_stand_alone(talk, spoken, said, words):
    served = talk("act", words)
    served.real.spoken = spoken
    assert served.say(said) == words


def test_of_an_answer_beside_a_claim_what_tells_no_state_stays_if_the_agent_has_looked(talk):
    words = "I've turned off the stove. The stove is off. It is 21 degrees. Anything else?"
    served = talk("act", calls(("homeassistant__GetLiveContext", {})), words)
    assert served.say("stove and warmth please") == "I switched nothing just now. It is 21 degrees. Anything else?"


def test_a_proposal_that_is_neither_taken_nor_left_is_said_to_be_gone(talk):
    gone = ReplyPhrases("en").fill_phrase("dropped")
    served = talk("confirm", calls(KITCHEN), DONE, "Which one do you mean?")
    assert "Shall I" in served.say("kitchen light on")
    assert served.say("the small one") == f"{gone} Which one do you mean?"
    served.say("yes")
    assert not served.real.made


def test_a_proposal_that_is_made_again_is_not_said_to_be_gone(talk):
    served = talk("confirm", calls(KITCHEN), DONE, calls(KITCHEN), DONE)
    assert served.say("kitchen light on") == served.say("I mean the kitchen light")


def test_it_is_told_in_the_language_of_the_house(talk):
    reply = talk("act", calls(KITCHEN, SAUNA), "好了。", language="zh").say("打开厨房的灯和桑拿")
    assert reply == "只做了：Kitchen Light：打开。没做成：Sauna：打开，因为没有找到符合的设备。"
    reply = talk("confirm", calls(KITCHEN, (ON, {"name": "Hall Light"})), "好了。", language="zh").say("打开灯")
    assert reply == "我会这样做：Hall Light：状态从关变为开；Kitchen Light：状态从关变为开。要做吗？"


def test_sentences_of_two_scripts_are_joined_as_each_is():
    assert (
        join_sentences("Done.", "", "And?") == "Done. And?"
        and join_sentences("好了", "灯开了。", "（没有）", "门") == "好了 灯开了。（没有）门"
    )


def test_a_home_is_answered_in_its_own_language_as_far_as_there_are_words():
    told = [
        ReplyPhrases(*languages).fill_phrase("done") for languages in (("en", "de-CH"), ("en", "fr"), ("zh", "de"), ("en",))
    ]
    assert told == ["Erledigt.", "Done.", "好了。", "Done."]


@pytest.mark.parametrize(
    ("tool", "given"), [(ON, {"name": "Desk Lamp"}), (OFF, {"name": "Desk Lamp"}), (MOVE, {"name": "Blind", "position": 5})]
)
def test_devices_of_one_name_are_told_as_several(tmp_path, tool, given):
    home = written_home(
        tmp_path,
        Row("light.a", "Desk Lamp", area="up", state="off"),
        Row("light.b", "Desk Lamp", area="down", state="off"),
        Row("cover.a", "Blind", area="up", state="closed", device_class="blind", closed=True),
        Row("cover.b", "Blind", area="down", state="closed", device_class="blind", closed=True),
        areas={"up": "Upstairs", "down": "Downstairs"},
    )
    called = call_message(tool_call(tool, given))
    reply = serve_home(home, Says(called, "Done."), tmp_path, "act", "assist").say("please")
    assert "because several devices are called so" in reply and "no device" not in reply


@pytest.mark.parametrize("language", ["en", "de", "zh"])
def test_each_rule_has_words(language):
    words = ReplyPhrases(language)
    assert all(words.explain_rule(rule) != words.explain_rule("other") for rule in [*RULES, "error", "left_out", "several"])
    assert words.explain_rule("a rule of a plug-in") == words.explain_rule("other")


@pytest.mark.parametrize(
    "text",
    [
        "<function=control_device><parameter=did>lock.front_door</parameter><parameter=code>4711",
        "<tool_call>control_device<arg_key>code</arg_key>\n<arg_value>4711",
        '<invoke name="control_device"><parameter name="code">4711',
        "<start_function_call>call:control_device{code:<escape>4711<escape>",
    ],
)
def test_no_code_of_a_call_that_was_cut_is_told(talk, text):
    served = talk("act", text, "I tried 4711 and could not.", toolset="smh")
    assert served.say("open") == "I tried *** and could not." and "4711" not in served.journal.path.read_text()


def test_no_code_is_told(talk):
    served = talk(
        "act", calls(("control_device", {"did": "lock.front_door", "locator": "4711", "code": "4711"})), DONE, toolset="smh"
    )
    assert "4711" not in served.say("open") and "4711" not in served.journal.path.read_text()
