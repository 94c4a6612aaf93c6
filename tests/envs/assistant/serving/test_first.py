"""Where the person speaks, and Home Assistant's matcher before the model: served over HTTP, for the recorded home."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import openai
import pytest
from pydantic import SecretStr
from running import running
from serving import Says, Served, serve_home
from texts import common_beginning
from written_home import Row, written_home

from homerl.envs.assistant.first import MatcherFirst
from homerl.envs.assistant.listing.home_listing import EXPOSED
from homerl.envs.assistant.serving.caretaker import Caretaker, CaretakerSettings
from homerl.envs.assistant.serving.exchange_journal import AgentJournal
from homerl.envs.assistant.serving.live_situation import place_speaker
from homerl.envs.assistant.serving.openai_endpoint import AgentEndpoint, parse_speaker_area
from homerl.envs.assistant.serving.real_home import HomeAssistantHome
from homerl.envs.assistant.serving.reply_text import ReplyPhrases
from homerl.envs.homeenv.sim.assist.api_and_prompt import latest_recorded_api
from homerl.envs.homeenv.sim.home import Home
from homerl.host.web_server import ServerAddress
from tests.envs.assistant.listing.replay import TOKEN, Replay, recorded_home

KITCHEN = "You are a voice assistant.\n- names: Lamp\n" + latest_recorded_api().prompt_end("Kitchen", "Ground floor")
LAMP = "light.kitchen_lights"


class Talk:
    """A dialogue with a served agent, as Home Assistant leads it: all of it in each request."""

    def __init__(self, port: int, system: str) -> None:
        self.client = openai.OpenAI(base_url=f"http://127.0.0.1:{port}/v1", api_key="none", max_retries=0)
        self.messages: list[Any] = [{"role": "system", "content": system}]

    def __call__(self, said: str) -> str:
        self.messages.append({"role": "user", "content": said})
        (choice,) = self.client.chat.completions.create(model="x", messages=self.messages).choices
        self.messages.append({"role": "assistant", "content": choice.message.content})
        return choice.message.content or ""


@pytest.fixture
def server() -> Iterator[Replay]:
    with Replay() as home:
        yield home


@pytest.fixture(scope="module")
def twin() -> Home:
    return recorded_home()


@pytest.fixture
def talk(server: Replay, twin: Home, tmp_path: Path) -> Iterator[Callable[..., tuple[Talk, Says, Served]]]:
    ports = []

    def made(
        mode: str, *says: Any, system: str = KITCHEN, prompt: str = "full", spoken: str = "en"
    ) -> tuple[Talk, Says, Served]:
        model, journal = Says(*says), AgentJournal(tmp_path / "agent.jsonl")
        real: Any = HomeAssistantHome(server.url, SecretStr(TOKEN))
        real.spoken = spoken
        house = CaretakerSettings(mode, "assist", "en", prompt, settle=0.05)  # type: ignore[arg-type]
        caretaker = Caretaker(twin, lambda: MatcherFirst(model, spoken), real, journal, house, "script")
        ports.append(running(AgentEndpoint(caretaker, ServerAddress()).build_agent_app()))
        return Talk(ports[-1].__enter__(), system), model, Served(caretaker, real, journal)

    yield made
    for port in ports:
        port.__exit__(None, None, None)


def called(server: Replay) -> list[str]:
    return [
        one["target"]["entity_id"] for one in server.seen if one["type"] == "call_service" and "return_response" not in one
    ]


# Where the person speaks


def test_the_model_is_told_where_the_person_speaks(talk) -> None:
    say, model, _ = talk("shadow", "Hm.", "Hm.")
    say("how are you")
    assert "\nYou are in area Kitchen (floor Ground floor) and all generic commands" in model.heard[0].messages[0]["content"]
    say.messages[0]["content"] = "You are a voice assistant."
    say("how are you")
    assert "You are in area" not in str(model.heard[1].messages), "each sentence tells it anew"


def test_a_brief_prompt_tells_it_too_and_is_the_same_without(talk) -> None:
    say, model, _ = talk("shadow", "Hm.", "Hm.", prompt="brief")
    say("how are you")
    say.messages[0]["content"] = ""
    say("how are you")
    placed, unplaced = (one.messages[0]["content"] for one in model.heard)
    assert placed == unplaced + "\nThe person speaks in Kitchen."


def test_what_the_model_reads_before_the_room_is_the_same_in_every_language(talk) -> None:
    heard = []
    for spoken in ("en", "de"):
        say, model, served = talk("shadow", "Hm.", "Hm.", prompt="brief", spoken=spoken)
        say("what is up")
        say.messages[0]["content"] = say.messages[0]["content"].replace("Kitchen", "Bedroom")
        say("what is up")
        heard += [one.messages[0]["content"] for one in model.heard]
        assert served.journal.read_entries()[-1].kept is not None
    assert heard[:2] == heard[2:], "nothing of it depends on what people speak"
    shared = common_beginning(heard)
    assert all(len(one) - len(shared) < 60 for one in heard)


@pytest.mark.parametrize(
    ("told", "area"),
    [
        (latest_recorded_api().prompt_end("Kitchen", None), "kitchen"),
        (latest_recorded_api().prompt_end("Kitchen", "Ground floor"), "kitchen"),
        (latest_recorded_api().prompt_end("Lounge", None), "lounge"),
        (latest_recorded_api().prompt_end("Bath (big)", "First"), "bath"),
        (latest_recorded_api().prompt_end("Cellar", None), None),
        (
            "- names: x\n"
            + latest_recorded_api().prompt_end("Bath (big)", None)
            + "\n"
            + latest_recorded_api().prompt_end("Kitchen", None),
            "kitchen",
        ),
        (
            "- names: 'You are in area Kitchen and all generic commands'\n" + latest_recorded_api().prompt_end(None, None),
            None,
        ),
    ],
)
def test_the_area_is_one_of_the_home(told: str, area: str | None, tmp_path: Path) -> None:
    rooms = {"kitchen": "Kitchen", "lounge": "Lounge", "bath": "Bath (big)"}
    home = written_home(tmp_path, *(Row(f"light.{id}", "Lamp", id) for id in rooms), areas=rooms)
    placed = place_speaker(home, parse_speaker_area([told]))
    assert placed.plan.entrance == area and home.plan.entrance is None
    assert placed.values == home.values and place_speaker(placed, None).plan.content_digest == home.plan.content_digest


# The matcher


def test_what_the_matcher_understands_never_reaches_the_model(talk, server) -> None:
    say, model, served = talk("act", "Hello.")
    assert say("turn off the bed light") == "Done." and called(server) == ["light.bed_light"] and not model.heard
    assert say("make it cosy") == "I switched nothing just now. Hello." and len(model.heard) == 1
    entries = served.journal.read_entries()
    assert [entry.agent for entry in entries] == ["hassil", "script"] and entries[0].outcome == "done"


def test_the_lights_are_those_of_the_room_where_the_person_speaks(talk, server) -> None:
    say, *_ = talk("act", "Which ones?", "Which ones?")
    assert say("turn off the lights").startswith("Done.") and called(server) == [LAMP]
    assert say("turn off the lights") == "Which ones?", "in a dialogue it may be another room"
    say, *_ = talk("act", "Which ones?", system="")
    assert say("turn off the lights") == "Which ones?" and called(server) == [LAMP]


def test_the_answer_to_a_question_is_the_models(talk, server) -> None:
    say, *_ = talk("act", "Which one do you mean?", "I see.")
    say("make it dark")
    assert say("turn on the bed light") == "I switched nothing just now. I see." and not called(server)


def test_the_matcher_is_guarded_asks_and_watches_like_the_model(talk, server) -> None:
    say, *_ = talk("shadow")
    assert say("turn on the bed light") == "I only watch for now. I would do this: Bed Light: state from off to on."
    say, *_ = talk("confirm")
    assert say("turn off the bed light").endswith("Shall I do it?") and not called(server)
    assert say("alright, do it") == "Done." and called(server) == ["light.bed_light"]
    say, _, served = talk("act")
    asked = say("open the garage door")
    assert "consent: Garage Door" in asked and asked.endswith("?") and len(called(server)) == 1
    assert "cover.garage_door" in served.journal.read_entries()[-1].guarded


def test_what_is_not_exposed_is_out_of_the_matchers_reach(talk, server) -> None:
    say, *_ = talk("act", "I do not know it.")
    shown = {**server.listing.sources[EXPOSED]["exposed_entities"]}
    shown.pop("light.bed_light")
    server.listing = server.listing.model_copy(
        update={"sources": server.listing.sources | {EXPOSED: {"exposed_entities": shown}}}
    )
    assert say("turn off the bed light") == "I do not know it." and not called(server)


def test_what_the_home_did_not_do_is_said(talk, server) -> None:
    server.hangs_up = frozenset({"call_service"})
    say, _, served = talk("act")
    assert say("turn off the bed light").startswith("Home Assistant did not do it")
    assert served.journal.read_entries()[-1].outcome == "failed"


def test_what_the_home_refuses_is_the_models(tmp_path: Path, serve) -> None:
    home = written_home(tmp_path, Row("light.hall", "Bed Light", state="unavailable"))
    served = serve("act", "It cannot be reached.", of=home)
    model = served.caretaker.agents()
    served.caretaker.agents = lambda: MatcherFirst(model, "en")
    assert served.say("turn on the bed light") == "It cannot be reached." and model.heard


OTHERS = {
    "fr": "allume Bed Lamp",
    "es": "enciende Bed Lamp",
    "nl": "zet Bed Lamp aan",
    "it": "accendi Bed Lamp",
    "pl": "włącz Bed Lamp",
    "ru": "включи Bed Lamp",
}


@pytest.mark.parametrize(
    ("language", "said"),
    [
        ("de", "schalte Bed Lamp ein"),
        ("zh", "打开Bed Lamp"),
        *(pytest.param(*one, marks=pytest.mark.long) for one in OTHERS.items()),
    ],
)
def test_it_understands_the_language_of_the_home(tmp_path: Path, serve, language: str, said: str) -> None:
    served = serve("act", of=written_home(tmp_path, Row("light.hall", "Bed Lamp")))
    served.caretaker.agents = lambda: MatcherFirst(Says(), language)
    served.real.spoken = language
    assert served.say(said) == ReplyPhrases(language if language in ("de", "zh") else "en").fill_phrase("done")
    assert [one.did for one in served.real.made] == ["light.hall"]


@pytest.mark.parametrize("toolset", ["assist", "smh"])
@pytest.mark.parametrize(
    ("said", "did", "service", "arguments"),
    [
        ("add milk to the shopping list", "todo.shopping", "add_item", {"item": "Milk"}),
        ("put window cleaner on my chores list", "todo.chores", "add_item", {"item": "Window cleaner"}),
        ("check off bread from the shopping list", "todo.shopping", "update_item", {"item": "Bread", "status": "completed"}),
        ("clean the kitchen", "vacuum.robot", "clean_area", {"cleaning_area_id": ["kitchen"]}),
        ("broadcast dinner is ready", "assist_satellite.hall", "announce", {"message": "dinner is ready"}),
    ],
)
def test_it_uses_the_tools_of_lists_rooms_and_speakers(
    tmp_path: Path, toolset: str, said: str, did: str, service: str, arguments: dict[str, Any]
) -> None:
    rows = (
        Row("todo.shopping", "Shopping", state="0"),
        Row("todo.chores", "Chores", state="0"),
        Row("vacuum.robot", "Robot", "kitchen", state="docked", features=8192 | 16 | 16384),
        Row("assist_satellite.hall", "Hall", state="idle", features=1),
    )
    home = written_home(tmp_path, *rows, areas={"kitchen": "Kitchen"})
    home.write_slot(home.plan.slot_of("todo.shopping", "needs_action"), ("Bread",))
    served = serve_home(home, lambda: MatcherFirst(Says(), "en"), tmp_path, toolset=toolset)
    assert served.say(said).startswith("Done.")
    (made,) = served.real.made
    assert (made.did, made.service) == (did, service)
    assert {
        key: list(one) if isinstance(one, tuple) else one for key, one in made.arguments.items() if one is not None
    } == arguments


@pytest.mark.parametrize(
    ("said", "list_", "language"),
    [
        ("check off bread from the shopping list", "Shopping", "en"),  # it is not on it
        ("add milk and eggs to the shopping list", "Shopping", "en"),  # two items
        ("añade leche a la lista de la compra", "Lista de la compra", "es"),  # of which "leche a l" could be one
        ("add nothing to the shopping list", "Shopping", "en"),
        ("add i don t need milk to the shopping list", "Shopping", "en"),  # speech recognition has lost the apostrophe
        ("setz keine Milch auf die Einkaufsliste", "Einkaufsliste", "de"),
        ("setze nichts auf die Einkaufsliste", "Einkaufsliste", "de"),
        ("zet geen melk op de boodschappenlijst", "Boodschappenlijst", "nl"),
        ("把不要牛奶加到购物清单", "购物清单", "zh"),
        ("dodaj mleko do listy zakupów", "Lista zakupów", "sk"),  # whose words for "no" are not listed
    ],
)
def test_what_may_be_no_item_of_a_list_is_left_to_the_model(tmp_path: Path, said: str, list_: str, language: str) -> None:
    home, model = written_home(tmp_path, Row("todo.shopping", list_, state="0")), Says("Which one?")
    served = serve_home(home, lambda: MatcherFirst(model, language), tmp_path, toolset="assist")
    assert served.say(said).startswith("Which one?") and model.heard


@pytest.mark.parametrize(
    ("said", "list_", "language"),
    [
        ("setze Milch auf die Einkaufsliste", "Einkaufsliste", "de"),
        ("zet melk op de boodschappenlijst", "Boodschappenlijst", "nl"),
    ],
)
def test_an_item_that_is_wanted_is_written_in_other_languages_too(
    tmp_path: Path, said: str, list_: str, language: str
) -> None:
    home = written_home(tmp_path, Row("todo.shopping", list_, state="0"))
    served = serve_home(home, lambda: MatcherFirst(Says(), language), tmp_path, toolset="assist")
    served.say(said)
    assert [(one.service, one.arguments["item"].lower()) for one in served.real.made] == [
        ("add_item", said.split()[1].lower())
    ]


LEFT = (
    "turn on the lamp|don't turn on the floor lamp|turn on the floor lamp and the fan|turn on the floor lamp in ten minutes|"
    "turn on the floor lamp if it is dark|turn on all lamps but the floor lamp|turn it on|turn on the other lamp|"
    "is the floor lamp on|did you turn on the floor lamp|turn on the floor lamp no wait the fan|turn everything on"
)


@pytest.mark.parametrize("said", [*LEFT.split("|"), "turn on the floor lamp"])
def test_what_may_mean_something_else_is_left_to_the_model(tmp_path: Path, serve, said: str) -> None:
    rows = Row("light.a", "Lamp", "den"), Row("light.b", "Floor Lamp", "den"), Row("switch.c", "Fan", "den")
    served = serve("act", "Hm.", of=written_home(tmp_path, *rows, areas={"den": "Den"}))
    model = served.caretaker.agents()
    served.caretaker.agents = lambda: MatcherFirst(model, "en")
    served.say(said)
    left = said in LEFT.split("|")
    assert bool(model.heard) == left and bool(served.real.made) != left
