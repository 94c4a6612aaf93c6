"""Which answers consent to what an agent asked for, in the languages of Home Assistant."""

from __future__ import annotations

from dataclasses import replace

import pytest
from serving import call_of, state
from written_home import Row, written_home

from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.serving.consent import ANSWERS, is_consent, is_refusal, parse_spoken_code
from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.home import Home

YES = (
    "yes|Yes, please!|ok do it|yeah go ahead|alright|All right then, do it.|okay okay|sure, thanks|"
    "Ja, mach das bitte|Jawohl|"
    "oui vas-y|D’accord|sí|Si por favor|claro|va bene, procedi|ja doe maar|jasne, zrób to|sim, pode fazer|да, давай|конечно|"
    "ja tack|gør det|ano prosím|kyllä kiitos|evet lütfen|так, зроби це|ναι|好的，做吧|可以|はい、お願いします|네 해주세요"
)
NO = (
    "no|No thanks|don't do it|of course not|Nein danke|vergiss es|non merci|rien du tout|no importa|"
    "lascia perdere|laat maar|nie, anuluj|deixa lá|glöm det|glem det|boşver|算了|不要|不可以|いいえ|아니요|no, please don’t"
)
NEITHER = (
    "yes but not the door|yes, and open the window|yes, in ten minutes|ok but only the lamp|not sure|maybe|yes?|ok?|please|"
    "thanks|yes no|ok cancel|do it not|no go ahead|do it tomorrow|yesterday|go away|good night|Janein|ja aber nicht die Tür|"
    "oui mais pas la porte|sí, pero no la puerta|да нет|好吗|行不行|是不是|对不起||" + "yes " * 40
)


@pytest.mark.parametrize("said", YES.split("|"))
def test_a_plain_yes_consents(said: str) -> None:
    assert is_consent(said) and not is_refusal(said)


@pytest.mark.parametrize("said", NO.split("|"))
def test_a_plain_no_declines(said: str) -> None:
    assert is_refusal(said) and not is_consent(said)


@pytest.mark.parametrize("said", NEITHER.split("|"))
def test_what_says_more_or_asks_is_neither(said: str) -> None:
    assert not is_consent(said) and not is_refusal(said)


@pytest.mark.parametrize(("said", "language"), [("tak", "pl"), ("igen", "hu"), ("Da", "ro"), ("fine", "en")])
def test_what_means_something_else_elsewhere_counts_at_home(said: str, language: str) -> None:
    assert is_consent(said, language) and not is_consent(said, "de")


def test_no_language_says_yes_with_the_no_of_another() -> None:
    listed = read_yaml(ANSWERS).data
    said = [one for words in listed["yes"].values() for one in words]
    assert len(listed["yes"]) == len(listed["no"]) >= 20
    assert not [one for one in said if is_refusal(one) or not is_consent(one)]
    assert not [one for words in listed["no"].values() for one in words if is_consent(one) or not is_refusal(one)]


@pytest.mark.parametrize(("said", "done"), [("Ja, mach das", True), ("ja, aber nicht die", False), ("Nein", False)])
def test_a_question_is_answered_in_the_language_of_the_home(serve, lamp, said: str, done: bool) -> None:
    served = serve("confirm", call_of(lamp.did, "turn_on"), "On.", "Hm?")
    assert served.say("Licht bitte").endswith("?"), "else Home Assistant does not listen"
    served.say(said)
    assert (state(served, lamp) == "on") is done


# Codes of locks and alarms


@pytest.mark.parametrize(
    "said",
    "1234|12 34.|yes, 1234|ok do it 1-2-3-4|the code is 1234|Ja, Code 1234|PIN: 1234|#1234|It's 1234|it’s 1234, thanks|"
    "1234 please|yes, the code is 12-34, please|Es ist 1234|1234 bitte|der Code lautet 1234|c'est le 1234|1234 por favor|"
    "密码是1234|请，1234|是1234吧|暗証番号は1234です|비밀번호는 1234".split("|"),
)
def test_a_code_is_an_answer(said: str) -> None:
    assert parse_spoken_code(said) == "1234"


@pytest.mark.parametrize(
    "said",
    "no 1234|1|set the lamp to 40|not 1234|1234 but not the door|in 100 minutes|yes|1234 no|it's 12 or 1234".split("|"),
)
def test_other_numbers_are_no_code(said: str) -> None:
    assert parse_spoken_code(said) is None


@pytest.mark.parametrize(
    ("did", "service", "state"),
    [("lock.front", "unlock", "locked"), ("alarm_control_panel.home", "alarm_disarm", "armed_away")],
)
@pytest.mark.parametrize(("said", "sent"), [("1234", {"code": "1234"}), ("yes, 12 34", {"code": "1234"}), ("yes", {})])
def test_what_has_a_code_is_opened_by_it(
    serve, tmp_path, did: str, service: str, state: str, said: str, sent: dict[str, str]
) -> None:
    home = written_home(tmp_path, Row(did, "Front Door", state=state, features=63, code_format="number"))
    served = serve("act", call_of(did, service), "Open.", of=home)
    asked = served.say("let me in")
    assert "or the code" in asked and asked.endswith("?") and not served.real.made
    told = served.say(said)
    assert told == "Done." or not sent, "a real alarm says itself that it wants its code"
    (made,) = served.real.made
    assert {key: value for key, value in made.arguments.items() if value} == sent
    assert "1234" not in served.journal.path.read_text() and "12 34" not in served.journal.path.read_text()


def test_an_alarm_that_is_armed_without_a_code_asks_for_none(serve, tmp_path) -> None:
    row = Row(
        "alarm_control_panel.home", "Alarm", state="disarmed", features=63, code_format="number", code_arm_required=False
    )
    served = serve("act", call_of(row.entity_id, "alarm_arm_away"), "Armed.", of=written_home(tmp_path, row))
    assert "code" not in served.say("arm the alarm")


def test_a_lock_without_a_code_takes_none(serve, tmp_path) -> None:
    served = serve(
        "act",
        call_of("lock.front", "unlock"),
        "Open.",
        "Hm.",
        of=written_home(tmp_path, Row("lock.front", "Front", state="locked")),
    )
    assert "code" not in served.say("unlock it") and served.say("1234") == "Hm." and not served.real.made


GATE = Row("lock.front", "Front Door", state="locked", features=63, code_format="number")


@pytest.mark.parametrize(("language", "said"), [("en", "the code is 1234"), ("de", "Es ist 1234"), ("zh", "密码是1234")])
def test_a_code_is_not_read_in_a_later_sentence_either(serve, tmp_path, language: str, said: str) -> None:
    unlock, later = call_of("lock.front", "unlock"), "You said 1234 before."
    served = serve("act", unlock, "Open.", later, of=written_home(tmp_path, GATE))
    served.real.spoken = language
    served.say("let me in")
    served.say(said)
    assert served.real.made and served.say("what did I say?") == "You said *** before."
    read = [one["content"] for one in served.caretaker.agents().heard[-1].messages if one["role"] == "user"]
    assert read == ["let me in", "***", "what did I say?"]
    assert "1234" not in served.journal.path.read_text()


def test_a_code_that_nothing_waits_for_any_more_is_not_read(serve, tmp_path) -> None:
    served = serve("act", call_of("lock.front", "unlock"), "Open.", "Hm.", "Hm.", of=written_home(tmp_path, GATE))
    served.say("let me in")
    served.caretaker._waiting.proposals.clear()  # as after five minutes, or a restart
    assert served.say("1234") == "Hm." and not served.real.made
    served.say("it's 1234")
    assert "1234" not in str(served.caretaker.agents().heard) + served.journal.path.read_text()


def test_a_code_is_in_no_log_if_the_home_is_away(serve, tmp_path, monkeypatch) -> None:
    served = serve("act", call_of("lock.front", "unlock"), "Open.", of=written_home(tmp_path, GATE))
    served.say("let me in")

    async def away(twin: Home) -> Home:
        raise HomeAssistantError("1234 cannot be reached")

    monkeypatch.setattr(served.real, "refresh_twin", away)
    served.say("1234")
    assert served.journal.read_entries()[-1].said == "***" and "1234" not in served.journal.path.read_text()


def test_a_number_that_answers_the_agents_own_question_is_read(serve, tmp_path) -> None:
    served = serve("act", call_of("lock.front", "unlock"), "Open.", "How bright?", "Hm.", of=written_home(tmp_path, GATE))
    served.say("let me in")
    served.say("no, the light first")
    served.say("100")
    assert served.caretaker.agents().heard[-1].messages[-1]["content"] == "100"


def test_a_question_that_is_asked_again_asks_for_the_code_again(serve, tmp_path) -> None:
    home = written_home(tmp_path, GATE, Row("lock.back", "Back Door", state="locked", features=63))
    served = serve("act", call_of("lock.front", "unlock"), "Open.", "Hm.", of=home)
    served.say("let me in")
    monkey = served.real.take_renewed_home
    fresh = written_home(tmp_path, replace(GATE, name="Main Door"))

    async def take_renewed_home() -> Home | None:
        served.real.take_renewed_home, served.real.home = monkey, fresh.fork()
        return fresh

    served.real.take_renewed_home = take_renewed_home
    again = served.say("1234")
    assert "changed" in again and "or the code" in again and not served.real.made
    assert served.say("1234") == "Done." and [one.arguments["code"] for one in served.real.made] == ["1234"]
    served.say("thanks")
    assert "1234" not in str(served.caretaker.agents().heard) + served.journal.path.read_text()
