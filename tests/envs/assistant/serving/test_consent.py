"""Who consents to what: answers in many languages, requests that ask for more care, several people at a time."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

import pytest
from serving import OtherHome, Says, call_of, device_of, serve_home, state
from written_home import Row, written_home

from homerl.envs.assistant.listing.homeassistant_client import HomeAssistantError
from homerl.envs.assistant.serving.caretaker import Caretaker
from homerl.envs.assistant.serving.consent import ANSWERS, is_consent, is_refusal, parse_spoken_code
from homerl.envs.assistant.serving.exchange_journal import RequestCare
from homerl.envs.assistant.serving.openai_endpoint import parse_request_care
from homerl.envs.core.documents import read_yaml
from homerl.envs.homeenv.sim.home import Home
from homerl.host.web_server import BadRequest

YES = (
    "yes|Yes, please!|ok do it|yeah go ahead|alright|All right then, do it.|okay okay|sure, thanks|"
    "Ja, mach das bitte|Jawohl|"
    "oui vas-y|D’accord|sí|Si por favor|claro|va bene, procedi|ja doe maar|jasne, zrób to|sim, pode fazer|да, давай|конечно|"
    "thats fine|cest bon|d accord|"
    "ja tack|gør det|ano prosím|kyllä kiitos|evet lütfen|так, зроби це|ναι|好的，做吧|可以|はい、お願いします|네 해주세요"
)
NO = (
    "no|No thanks|don't do it|of course not|Nein danke|vergiss es|non merci|rien du tout|no importa|"
    "lascia perdere|laat maar|nie, anuluj|deixa lá|glöm det|glem det|boşver|算了|不要|不可以|いいえ|아니요|no, please don’t|"
    "dont|don t do it|i d rather not"
)
NEITHER = (
    "yes but not the door|yes, and open the window|yes, in ten minutes|ok but only the lamp|not sure|maybe|yes?|ok?|please|"
    "thanks|yes no|ok cancel|do it not|no go ahead|do it tomorrow|yesterday|go away|good night|Janein|ja aber nicht die Tür|"
    "oui mais pas la porte|sí, pero no la puerta|да нет|好吗|行不行|是不是|对不起|yes؟||" + "yes " * 40
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
    assert "code" not in served.say("unlock it")
    assert served.say("1234") == "What I asked about before is not done. I switched nothing just now. Hm."
    assert not served.real.made


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
    assert served.say("1234") == "I switched nothing just now. Hm." and not served.real.made
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


@pytest.mark.parametrize(
    ("started", "asked", "acts", "asks"),
    [
        ("act", RequestCare(), True, False),
        ("act", RequestCare("confirm"), False, True),
        ("act", RequestCare("shadow"), False, False),
        ("confirm", RequestCare("act"), False, True),
        ("shadow", RequestCare("act"), False, False),
    ],
)
def test_the_more_careful_mode_holds(serve, lamp, started, asked, acts, asks):
    served = serve(started, call_of(lamp.did, "turn_on"), "Done.")
    served.say("Light, please.", asked)
    (entry,) = served.journal.read_entries()[-1:]
    assert bool(served.real.made) == acts and (entry.outcome == "asked") == asks
    assert entry.mode == asked.limit_mode(started)


def test_what_a_request_guards_needs_consent(serve, lamp):
    served, care = serve("act", call_of(lamp.did, "turn_on"), "Done."), RequestCare(guard=frozenset({lamp.did}))
    served.say("Light, please.", care)
    assert not served.real.made
    served.say("yes", care)
    assert state(served, lamp) == "on"


def test_what_a_request_guards_needs_consent_though_its_owner_allowed_it(serve, home):
    lock = device_of(home, "lock")
    for care, acts in ((RequestCare(), True), (RequestCare(guard=frozenset({lock.did})), False)):
        served = serve("act", call_of(lock.did, "unlock"), "Done.", allowed=[lock.did])
        served.say(f"Unlock the {lock.room.name} {lock.name}.", care)
        assert bool(served.real.made) == acts


LOCK = "lock.front_door"


@pytest.mark.parametrize(
    ("tried", "then", "asks"),
    [
        (call_of(LOCK, "lock", bolt=2), call_of(LOCK, "unlock"), True),
        (call_of(LOCK, "unlock", bolt=2), call_of(LOCK, "unlock"), False),
        (call_of("media_player.tv", "explode"), call_of(LOCK, "unlock"), False),
    ],
    ids=["the opposite", "the same put right", "another device"],
)
def test_after_a_refusal_a_guarded_device_is_not_told_something_else_unasked(serve, house, tried, then, asks):
    served = serve("act", tried, then, "Hm.", allowed=[LOCK], of=house)
    reply = served.say("the front door, please")
    assert bool(served.real.made) is not asks and reply.endswith("Shall I do it?") is asks
    assert served.journal.read_entries()[-1].guarded == ({LOCK: "after a refusal"} if asks else {})
    if asks:
        served.say("yes")
        assert [one.service for one in served.real.made] == ["unlock"], "consent lifts it"


def test_a_proposal_is_not_carried_out_by_who_only_watches(serve, lamp):
    served = serve("confirm", call_of(lamp.did, "turn_on"), "Done.", "Yes?")
    served.say("Light, please.")
    served.say("yes", RequestCare("shadow"))
    assert not served.real.made


def test_a_code_that_comes_too_late_is_not_in_the_log(serve, tmp_path):
    home = written_home(tmp_path, Row("lock.front", "Front Door", state="locked", code_format="^[0-9]{4}$"))
    served = serve("act", call_of("lock.front", "unlock"), "Open.", "Hm.", of=home)
    served.say("unlock the front door")
    served.say("1234", RequestCare("shadow"))
    assert not served.real.made and "1234" not in served.journal.path.read_text()


@pytest.mark.parametrize(
    "asked", ["act", ["act"], {"mode": "bold"}, {"mode": ["act"]}, {"guard": "switch.a"}, {"guard": [1]}, {"guards": []}]
)
def test_care_that_cannot_be_read_is_refused(asked):
    with pytest.raises(BadRequest):
        parse_request_care({"homerl": asked})


def test_a_request_without_care_has_none():
    assert parse_request_care({"messages": []}) == RequestCare()
    assert parse_request_care({"homerl": {"mode": "confirm", "guard": ["switch.a"]}}) == RequestCare(
        "confirm", frozenset({"switch.a"})
    )


DOOR, TV = "lock.front_door", "media_player.tv"


class Meeting(Says):
    """An agent that waits until as many think at once as are to meet."""

    def __init__(self, here: list[asyncio.Event], meet: int, *messages: Any) -> None:
        super().__init__(*messages)
        self.here, self.meet = here, meet

    async def propose(self, observation: Any, n: int = 1) -> Any:
        if not self.heard:
            self.here.append(asyncio.Event())
            async with asyncio.timeout(10):
                while len(self.here) < self.meet:
                    await asyncio.sleep(0.001)
        return await super().propose(observation, n)


@pytest.fixture
def keeper(house: Home, tmp_path):
    real = OtherHome(house.fork())

    def made(mode: str, *agents: Any) -> tuple[Caretaker, OtherHome]:
        queue = list(agents)
        return serve_home(house, lambda: queue.pop(0), tmp_path, mode, real=real).caretaker, real

    return made


def said(text: str) -> list[dict[str, str]]:
    return [{"role": "user", "content": text}]


def test_nobody_waits_for_the_thoughts_of_another(keeper):
    here: list[asyncio.Event] = []
    agents = [Meeting(here, 5, f"Shall {number} be so?") for number in range(5)]
    caretaker, _ = keeper("act", *agents)

    async def all_at_once() -> list[str]:
        return await asyncio.gather(*(caretaker.answer_dialogue(said(f"question {number}")) for number in range(5)))

    assert sorted(asyncio.run(all_at_once())) == [f"Shall {number} be so?" for number in range(5)]
    told = {agent.heard[0].messages[-1]["content"] for agent in agents}
    assert told == {f"question {number}" for number in range(5)}, "each reads its own dialogue"


def test_who_says_the_same_has_a_proposal_of_its_own(keeper):
    here: list[asyncio.Event] = []
    unlock = call_of(DOOR, "unlock")
    caretaker, real = keeper("act", *(Meeting(here, 2, unlock, "Unlocked.") for _ in range(2)), Says("What do you mean?"))

    async def talk() -> list[str]:
        one, two = await asyncio.gather(
            caretaker.answer_dialogue(said("open"), speaker="Ann"), caretaker.answer_dialogue(said("open"), speaker="Ben")
        )
        assert one == two and "consent" in one and not real.made
        dialogue = [*said("open"), {"role": "assistant", "content": one}]
        no = await caretaker.answer_dialogue([*dialogue, *said("no")], speaker="Ben")
        stranger = await caretaker.answer_dialogue([*dialogue, *said("yes")], speaker="Cem")
        assert not real.made
        return [no, stranger, await caretaker.answer_dialogue([*dialogue, *said("yes")], speaker="Ann")]

    no, stranger, yes = asyncio.run(talk())
    assert "leave it" in no and stranger == "What do you mean?" and yes == "Done."
    assert [one.did for one in real.made] == [DOOR]


def test_what_another_did_meanwhile_is_seen_before_the_calls(keeper):
    """The second call runs again in the home that the first has left, and only then in the real one."""
    here: list[asyncio.Event] = []
    caretaker, real = keeper("act", *(Meeting(here, 2, call_of(TV, "media_play"), "Here.") for _ in range(2)))
    looks: list[int] = []
    refreshed = real.refresh_twin

    async def looking(twin: Home) -> Home:
        looks.append(len(real.made))
        return await refreshed(twin)

    real.refresh_twin = looking  # type: ignore[method-assign]

    async def talk() -> list[str]:
        return await asyncio.gather(*(caretaker.answer_dialogue(said(f"play {number}")) for number in range(2)))

    asyncio.run(talk())
    assert len(real.made) == 2 and looks.count(1) >= 2, "after the first call the home is looked at twice: by both"
