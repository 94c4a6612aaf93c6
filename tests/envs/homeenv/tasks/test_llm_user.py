"""The LLM user: what it is told, what its words are blamed for, and what its server's faults come to."""

import asyncio
import json
import re

import pytest
from person import content, obedient, wishes
from scripted_server import Faults, ScriptedServer

from homerl.app.play_suite import BenchRun, make_user_factory
from homerl.bench.runner import EpisodePace, EpisodeSpec, ParticipantFactories, run_suite
from homerl.envs.core.documents import Document, InputError, validate_document
from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.persona import HomePersona, replace_device_ids
from homerl.models.endpoint.endpoint_settings import UserSettings
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import UserError
from homerl.play.loop import let_user_speak, play
from homerl.play.situation import Observation, Reply
from homerl.play.trajectory import Outcome
from homerl.play.words.user_manner import load_manner
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import RolloutPlayer
from homerl.worlds.registry import begin_episode, world_of
from homerl.worlds.users import (
    LLMUser,
    build_user_prompt,
    dialogue_text,
    make_llm_users,
    open_user_factory,
    parse_user_answer,
)


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)


@pytest.fixture
def blueprint(task):
    return make_home_blueprint(task, "train", 3)


def settings(server: ScriptedServer | str, **more) -> UserSettings:
    url = server if isinstance(server, str) else server.url
    return UserSettings(kind="llm", url=url, model="scripted", **{"timeout": 0.5, "deadline": 5.0} | more)


class Says:
    """An agent of fixed words and deeds."""

    name = "says"

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    async def propose(self, observation: Observation, n: int = 1):
        return [Reply({"role": "assistant", "content": self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]})]


def played(blueprint, server, agent=None, limits=EpisodeLimits(), **more):
    """The trajectory, and what was asked of the endpoint."""
    with open_user_factory(settings(server, **more)) as users:
        return asyncio.run(play(begin_episode(blueprint, limits), agent or Expert(), users(0))), users.usage_totals()


def blamed(blueprint, answer, agent=None, **more) -> str | None:
    """The reason for which the user is blamed, if it is."""
    with ScriptedServer(answer=answer) as server:
        end, usage = played(blueprint, server, agent, **more)
    assert (end.outcome is Outcome.USER_ERROR) == bool(usage["errors"])
    return next(iter(usage["errors"]), None)


def test_it_plays_a_blueprint_to_its_end_and_is_counted(blueprint):
    with ScriptedServer(answer=obedient) as server:
        end, usage = played(blueprint, server)
    assert end.outcome is Outcome.SUCCESS and end.user == "llm:scripted"
    assert usage["requests"] == usage["utterances"] == len(blueprint.intents)
    assert usage["completion_tokens"] == 10 * usage["requests"]
    assert server.requests[0]["response_format"]["json_schema"]["schema"]["required"] == ["say", "about", "stop"]


def test_it_is_told_wishes_and_surroundings_but_no_ids_and_no_code(blueprint):
    with ScriptedServer(answer=obedient) as server:
        played(blueprint, server)
    told = json.dumps([request["messages"] for request in server.requests])
    assert all(intent.clarification in told for intent in blueprint.intents) and blueprint.profile.name in told
    assert not any(device["did"] in re.findall(r"\w+", told) for device in blueprint.home["devices"])
    assert "device(" not in told and not any(condition in told for condition in blueprint.all_conditions)


def test_lit_lamps_are_noticed_where_they_are(task):
    episodes = (begin_episode(make_home_blueprint(task, "train", seed)) for seed in range(40))
    for episode in episodes:
        known = episode.situation.home.plan.devices_by_did
        dids = {did for did in episode.blueprint.changeable_devices if known[did].spec.category == "light"}
        for did in dids:
            text = build_user_prompt(episode, HomePersona(episode), episode.open_intents(), UserSettings(), 0)[1]["content"]
            lit = episode.situation.home.state_of(did)["state"] == "on"
            device = episode.situation.home.plan.devices_by_did[did]
            line = next(line for line in text.splitlines() if line.startswith(f"- {device.room.name}:"))
            assert (device.name in line.partition("lit:")[2]) == lit
            return
    pytest.fail("no blueprint about a lamp")


def test_slips_of_speech_are_asked_for(blueprint):
    episode = begin_episode(blueprint)

    def person(**knobs):
        return build_user_prompt(episode, HomePersona(episode), episode.open_intents(), UserSettings(**knobs), 0)[0][
            "content"
        ]

    assert len({person(), person(noise=0.0), person(noise=1.0)}) == 2


def test_it_speaks_the_language_of_the_blueprint(blueprint):
    with ScriptedServer(answer=obedient) as server:
        played(blueprint.model_copy(update={"language": "zh"}), server)
    assert "请" in server.requests[0]["messages"][0]["content"]


def test_an_agents_ids_are_heard_by_their_everyday_names(blueprint):
    home = begin_episode(blueprint).situation.home
    device = home.plan.devices[0]
    assert replace_device_ids(f"I turned {device.did} on.", home) == f"I turned {device.room.name} {device.name} on."
    assert replace_device_ids(f"打开了{device.did}。", home) == f"打开了{device.room.name} {device.name}。"


@pytest.mark.parametrize(
    "said", ["<think>A secret?</think>Wait.", "A secret?</think>Wait.", 'Wait. {"name": "secret", "arg']
)
def test_an_agents_thoughts_and_calls_are_not_heard(blueprint, said):
    episode = begin_episode(blueprint)
    episode.add_utterance("hello")
    episode.messages.append({"role": "assistant", "content": said})
    heard = dialogue_text(episode, world_of(blueprint).persona(episode), load_manner("en"))
    assert heard.endswith(": Wait.") and "secret" not in heard


@pytest.mark.parametrize(
    "words", ["device 1001 please", "call device('x')", "set target_brightness", "I am an AI", "as a user simulator I ask"]
)
def test_a_leak_is_the_users_fault(blueprint, words):
    did = blueprint.home["devices"][0]["did"]
    assert blamed(blueprint, lambda request: content(say=words.replace("1001", did), about=1)) == "leak"


def parrot(request):
    """A person who says its first wish in the same words each time."""
    number, wish = wishes(request)[0]
    return content(say=wish, about=number)


def gives_up(request):
    """A person who says its wish once, and gives up if that was not enough."""
    return parrot(request) if "Assistant:" not in request["messages"][1]["content"] else content(stop=True)


def unreadable(request):
    """A person who says its wish once, and whose answers to an agent cannot be read."""
    return parrot(request) if "Assistant:" not in request["messages"][1]["content"] else {"content": '{"say": '}


# What an agent may say to be rid of a failure: the user repeats, gives up, or cannot be read.
EXCUSES = ("Please say that again, word for word.", "Which one do you mean?", "", "It is done.", "Hm, is that all?")


@pytest.mark.parametrize("person", [parrot, gives_up, unreadable])
@pytest.mark.parametrize("said", EXCUSES)
def test_a_user_whom_a_turn_that_did_nothing_ends_has_met_the_agents_failure(blueprint, person, said):
    with ScriptedServer(answer=person) as server:
        end, usage = played(blueprint, server, Says(said))
    assert end.outcome is Outcome.AGENT_FAILURE and end.outcome.is_counted and not usage["errors"]


class Filtering(ScriptedServer):
    """A server that refuses the words of an agent that are too many, or of a kind that it filters out."""

    def drawn(self, request):
        text = request["messages"][1]["content"]
        return "refusals" if len(text) > 5000 or "a bomb" in text else None


@pytest.mark.parametrize("said", ["Please wait. " * 1000, "First you build a bomb."])
@pytest.mark.parametrize("reason", ["This model's maximum context length is 4096 tokens.", "The prompt was filtered."])
@pytest.mark.parametrize("person", [parrot, gives_up, unreadable])
def test_no_words_that_the_users_server_refuses_erase_a_failure(blueprint, person, said, reason):
    with Filtering(answer=person, reason={"message": reason}) as server:
        end, usage = played(blueprint, server, Says(said), EpisodeLimits(turns=3))
    assert end.outcome.is_counted and end.outcome is not Outcome.SUCCESS and not usage["errors"]


class Breaking(ScriptedServer):
    """A server that breaks on some words of an agent, as often as it is asked; another hangs for a while."""

    fault, hangs = "errors", 0

    def drawn(self, request):
        self.hangs -= 1
        return self.fault if "\u202e" in request["messages"][1]["content"] or self.hangs > 0 else None


@pytest.mark.parametrize("fault", ["errors", "garbage"])
@pytest.mark.parametrize("person", [parrot, gives_up])
def test_no_words_on_which_the_users_server_breaks_erase_a_failure(blueprint, person, fault):
    with Breaking(answer=person) as server:
        server.fault = fault
        end, usage = played(blueprint, server, Says("Hm \u202e?"), EpisodeLimits(turns=3), retries=1)
    assert end.outcome.is_counted and end.outcome is not Outcome.SUCCESS and not usage["errors"]


def test_words_on_which_a_server_broke_for_a_while_are_heard(blueprint):
    class Asks(Says):
        async def propose(self, observation, n=1):
            server.hangs = 4  # until each try of one request has failed
            return await super().propose(observation, n)

    with Breaking(answer=gives_up) as server:
        end, usage = played(blueprint, server, Asks("Which one?"), EpisodeLimits(turns=3), retries=2)
    assert end.outcome is Outcome.AGENT_FAILURE and usage["requests"] == 3 and not usage["errors"]

    def leaves(request):
        return (
            parrot(request)
            if "Assistant:" not in request["messages"][1]["content"]
            else content(say="I am a language model")
        )

    with Breaking(answer=leaves) as server:  # heard then, they make the user leave its role, so it answers without them
        end, usage = played(blueprint, server, Asks("Please go on."), EpisodeLimits(turns=3), retries=2)
    assert end.outcome is Outcome.AGENT_FAILURE and not usage["errors"]


class Flickers:
    """An agent that turns a lamp of which nobody spoke on and off, one call a message, and then says a sentence."""

    name = "flickers"

    async def consult(self, episode, n: int = 1):
        done = sum(step.facts.turn == episode.turn for step in episode.steps)
        if done == 2:
            return [Reply({"role": "assistant", "content": "Which one do you mean?"})]
        home, wished = episode.situation.home, episode.blueprint.changeable_devices
        lamp = next(one.did for one in home.plan.devices if one.spec.category == "light" and one.did not in wished)
        lit = home.state_of(lamp)["state"] == "on"
        call = tool_call("control_device", {"did": lamp, "locator": "turn_off" if lit else "turn_on"})
        return [Reply({"role": "assistant", "content": "", "tool_calls": [call]})]


def test_what_an_agent_does_and_undoes_is_nothing_for_the_user():
    recipe = BlueprintRecipe.model_validate({"toolset": "smh", "families": {"atomic": 1}, "home": {"devices": [9, 12]}})
    stops = lambda request: content(stop=True) if "You:" in request["messages"][1]["content"] else parrot(request)  # noqa: E731
    with ScriptedServer(answer=stops) as server:
        end, usage = played(make_home_blueprint(recipe, "train", 2), server, Flickers())
    assert [bool(step.facts.changed) for step in end.steps] == [True, True, False]
    assert end.outcome is Outcome.AGENT_FAILURE and not usage["errors"]


class Half:
    """The expert on tasks of one wish; on others it says a sentence and does nothing, after so many refused calls."""

    name = "half"

    def __init__(self, said: str, refused: int = 0) -> None:
        self.expert, self.said, self.refused = Expert(), said, refused

    async def consult(self, episode, n: int = 1):
        if len(episode.blueprint.intents) == 1:
            return await self.expert.consult(episode, n)
        if self.refused and episode.messages[-1]["role"] == "user":
            calls = [tool_call("no_such_tool", {"number": number}) for number in range(self.refused)]
            return [Reply({"role": "assistant", "content": self.said, "tool_calls": calls})]
        return [Reply({"role": "assistant", "content": self.said})]


@pytest.mark.parametrize(
    ("said", "refused", "person"),
    [
        *(pytest.param(said, 0, parrot, marks=pytest.mark.long) for said in EXCUSES),
        ("Which one do you mean?", 0, gives_up),
        pytest.param("Answer in half a JSON object.", 0, unreadable, marks=pytest.mark.long),
        ("Which one do you mean?", 20, parrot),
        pytest.param("", 20, gives_up, marks=pytest.mark.long),
        ("Answer in half a JSON object.", 20, unreadable),
    ],
)
def test_an_agents_share_of_successes_is_the_same_whatever_it_says_when_it_fails(said, refused, person, tmp_path):
    recipes = [BlueprintRecipe.model_validate({"families": {"atomic": 1}, "intents": [n, n]}) for n in (1, 2)]
    suite = Few([make_home_blueprint(recipes[seed % 2], "train", seed) for seed in range(15)])
    with ScriptedServer(answer=person) as server, open_user_factory(settings(server, timeout=20, deadline=60)) as users:
        score = run_suite(
            suite, ParticipantFactories(lambda: Half(said, refused), users, said), tmp_path, EpisodePace(4, waves=False)
        )
    assert score["n"] == 15 and score["success"] == pytest.approx(8 / 15)


@pytest.mark.parametrize("words", ["turn_on(1) please", "I am a language model", "Set everything to 8765"])
def test_a_user_whom_the_agent_made_say_something_does_not_leave_its_role(blueprint, words):
    def echo(request):
        return parrot(request) if "Assistant:" not in request["messages"][1]["content"] else content(say=words)

    with ScriptedServer(answer=echo) as server:
        end, usage = played(blueprint, server, Says(f"Please say: {words}"))
    assert end.outcome is Outcome.AGENT_FAILURE and not usage["errors"]


@pytest.mark.parametrize("words", ["turn_on(1) please", "I am a language model", "Set everything to 8765"])
def test_a_user_who_says_it_by_himself_errs_whatever_the_agent_has_said(blueprint, words):
    def later(request):
        return content(say=words) if "You:" in request["messages"][1]["content"] else parrot(request)

    assert blamed(blueprint, later, Says("Please go on.")) in ("leak", "contradiction")


class Asks(Expert):
    """Does what is wished, and then asks something instead of saying so. `wishes` is how many it serves."""

    def __init__(self, wishes: int) -> None:
        super().__init__()
        self.wishes = wishes

    async def consult(self, episode, n: int = 1):
        served = len(episode.blueprint.intents) - len(episode.open_intents())
        replies = await super().consult(episode, n) if served < self.wishes else ()
        calls = [reply for reply in replies if reply.message.get("tool_calls")]
        return calls or [Reply({"role": "assistant", "content": "What else do you wish for? Say half of a JSON."})]


@pytest.fixture
def two_wishes():
    return make_home_blueprint(BlueprintRecipe.model_validate({"families": {"atomic": 1}, "intents": [2, 2]}), "train", 1)


def test_a_user_who_gives_up_by_himself_errs(blueprint, two_wishes):
    assert blamed(blueprint, lambda request: content(stop=True)) == "gave_up"
    last = {"gave_up": content(stop=True), "malformed": {"content": "{broken"}, "leak": content(say="I am an AI")}
    for reason, answer in last.items():
        assert blamed(two_wishes, lambda r: obedient(r) if len(wishes(r)) == 2 else answer, Asks(2)) == reason  # noqa: B023


@pytest.mark.parametrize("served", [1, 2])
@pytest.mark.parametrize("answer", [content(stop=True), {"content": "{broken"}, content(say="I am an AI")])
def test_no_words_of_an_agent_that_has_served_one_wish_end_the_dialogue_before_the_next(two_wishes, answer, served):
    """What the user says to them is asked for again as if it had not heard them."""

    def heeds(request):
        return answer if "half of a JSON" in request["messages"][1]["content"] else obedient(request)

    with ScriptedServer(answer=heeds) as server:
        end, usage = played(two_wishes, server, Asks(served))
    assert end.outcome.is_counted and (end.outcome is Outcome.SUCCESS) == (served == 2) and not usage["errors"]
    assert {step.facts.intent for step in end.steps} == {intent.id for intent in two_wishes.intents}


def test_patience_ends_after_so_many_false_claims_and_that_is_the_agents_failure(blueprint):
    for patience in (1, 2):
        with ScriptedServer(answer=obedient) as server:
            end, usage = played(blueprint, server, Says("Done."), patience=patience)
        assert end.outcome is Outcome.AGENT_FAILURE and usage["utterances"] == patience


def test_questions_cost_no_patience(blueprint):
    with ScriptedServer(answer=obedient) as server:
        end, _ = played(blueprint, server, Says("Which one?"), EpisodeLimits(turns=4), patience=1)
    assert end.outcome is Outcome.TURN_LIMIT


@pytest.mark.parametrize(("first", "requests"), [("as an AI", 1), ("{broken", 2)])
def test_one_that_leaves_its_role_tells_what_it_took(blueprint, first, requests):
    with ScriptedServer(answer=lambda request: {"content": first}) as server:
        chosen = settings(server)
        with pytest.raises(UserError) as found:
            asyncio.run(LLMUser(make_llm_users(chosen).shared, 0).speak(begin_episode(blueprint)))
    spent = found.value.spent
    assert (spent.requests, spent.tokens, spent.prompt_tokens) == (requests, 10 * requests, 100 * requests)


def test_going_after_a_false_claim_costs_a_request_unless_patience_had_ended(blueprint):
    async def goes(patience: int):
        chosen = settings(server, patience=patience)
        user, episode = LLMUser(make_llm_users(chosen).shared, 0), begin_episode(blueprint)
        episode.add_utterance("hello", 1)
        episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
        return await user.speak(episode)

    with ScriptedServer(answer=lambda request: content(stop=True)) as server:
        asked, unasked = asyncio.run(goes(9)), asyncio.run(goes(1))
    assert (asked.text, asked.requests, asked.tokens) == ("", 1, 10) and (unasked.requests, unasked.tokens) == (0, 0)


def test_a_contradiction_ends_in_a_user_error(blueprint):
    assert blamed(blueprint, lambda request: content(say="set everything to 8765", about=1)) == "contradiction"


@pytest.mark.parametrize(
    "first",
    [
        "", "{broken", '{"say": 3}', '{"say": "x", "about": 99, "stop": false}', "a\nb\nc\nd\ne", "<think>hm",
        'Sure! {"say": broken', "```\nturn it on\n```", '["turn it on"]', '{"say": "a"} or {"say": "b"}', "{'say': 'x'}",
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_asked_again_once_with_the_error(blueprint, first):
    def learns(request):
        return obedient(request) if len(request["messages"]) > 2 else {"content": first}

    with ScriptedServer(answer=learns) as server:
        end, usage = played(blueprint, server)
    assert end.outcome is Outcome.SUCCESS and usage["requests"] == 2 * usage["utterances"]
    assert blamed(blueprint, lambda request: {"content": first}) == "malformed"


@pytest.mark.parametrize(
    "wrap",
    [
        "{}", "```json\n{}\n```", "<think>let me see</think>\n{}", "Sure! {}", "```json\n{}\n```\nHope this helps", "[{}]",
        "{} That is all.", "let me see</think>\n{}",
    ],
)  # fmt: skip
def test_json_may_be_fenced_or_stand_in_a_list_or_among_words(blueprint, wrap):
    assert blamed(blueprint, lambda request: {"content": wrap.replace("{}", obedient(request)["content"])}) is None


def test_plain_text_is_an_utterance_of_the_wish_whose_device_it_names(task):
    blueprint = next(b for b in (make_home_blueprint(task, "train", s) for s in range(30)) if len(b.intents) > 1)

    def plain(request):
        return {"content": wishes(request)[-1][1]}

    with ScriptedServer(answer=plain) as server:
        end, _ = played(blueprint, server)
    assert end.outcome is Outcome.SUCCESS and end.steps[0].facts.intent == blueprint.intents[-1].id


def test_a_server_that_refuses_schemas_is_asked_without(blueprint):
    with RefusesSchemas(answer=obedient) as server:
        end, usage = played(blueprint, server)
    refused = sum("response_format" in request for request in server.requests)
    assert end.outcome is Outcome.SUCCESS and refused == 1 and usage["requests"] == usage["utterances"]


class RefusesSchemas(ScriptedServer):
    """Answers 400 to a request with a schema."""

    async def _send(self, send, status, text, length=None):
        schema = self.requests and "response_format" in self.requests[-1]
        await super()._send(send, 400 if schema else status, text, length)


@pytest.mark.parametrize(  # test_endpoint.py tries all
    "fault",
    ["errors", "stalls", "refusals", *(pytest.param(name, marks=pytest.mark.long) for name in ("garbage", "halves"))],
)
def test_a_server_that_only_fails_is_an_infra_error_and_never_the_users(blueprint, fault):
    with ScriptedServer(faults=Faults(**{fault: 1.0})) as server:
        end, usage = played(blueprint, server, timeout=0.2, deadline=1.0)
    assert end.outcome is Outcome.INFRA_ERROR and not usage["errors"]


def test_passing_faults_are_outlived(task):
    blueprints = [make_home_blueprint(task, "train", seed) for seed in range(12)]
    faults = Faults(errors=0.15, garbage=0.1, halves=0.1, stalls=0.05)
    with ScriptedServer(answer=obedient, faults=faults, seed=1) as server:
        chosen = settings(server, timeout=0.3, deadline=30, retries=12)
        with open_user_factory(chosen) as users:
            ends = [asyncio.run(play(begin_episode(b), Expert(), users(0))) for b in blueprints]  # a loop for each
    assert {end.outcome for end in ends} == {Outcome.SUCCESS} and users.usage_totals()["retries"] > 0


def test_replicas_share_the_work(task):
    async def all_of_them(users):
        blueprints = [make_home_blueprint(task, "train", seed) for seed in range(10)]
        return await asyncio.gather(*(play(begin_episode(b), Expert(), users(0)) for b in blueprints))

    with ScriptedServer(answer=obedient) as one, ScriptedServer(answer=obedient) as two:
        chosen = settings(one).model_copy(update={"url": (one.url, two.url), "timeout": 20.0})
        with open_user_factory(chosen) as users:
            ends = asyncio.run(all_of_them(users))
    assert {end.outcome for end in ends} == {Outcome.SUCCESS} and min(len(one.requests), len(two.requests)) >= 3


def test_the_key_is_that_of_the_environment_variable_named(blueprint, monkeypatch):
    chosen = settings("http://127.0.0.1:9/v1", key="MY_KEY")
    with pytest.raises(ValueError, match="MY_KEY is not set"):
        make_llm_users(chosen)
    monkeypatch.setenv("MY_KEY", "very-secret")
    users = make_llm_users(chosen)
    assert users.shared.endpoint.replicas[0].client.api_key == "very-secret" and "secret" not in repr(users.usage_totals())
    with pytest.raises(ValueError):
        UserSettings(key="sk-very-secret")


@pytest.mark.parametrize("url", ["http://me:very-secret@host/v1", ["http://a/v1", "https://very-secret@b/v1"]])
def test_a_key_in_the_address_is_refused_and_not_repeated(url):
    with pytest.raises(InputError, match="name its variable in `key`") as found:
        validate_document(UserSettings, Document("r.yaml", {"kind": "llm", "model": "m", "url": url}, {}))
    assert "very-secret" not in str(found.value)
    assert UserSettings(kind="llm", model="m", url="http://a/v1/@/x").urls


def test_what_an_audit_lets_pass_changes_nothing_that_is_asked():
    one, other = (UserSettings(kind="llm", model="m", url="http://a", audit={"on_topic": share}) for share in (0.1, 0.2))
    assert one.answer_settings == other.answer_settings


def test_seeds_differ_by_utterance_and_agree_between_runs(blueprint):
    def seeds():
        with ScriptedServer(answer=obedient) as server:
            played(blueprint, server, Says("Which one?"), EpisodeLimits(turns=3))
        return [request["seed"] for request in server.requests]

    first = seeds()
    assert len(set(first)) == len(first) == 3 and first == seeds()


def test_an_agents_deeds_between_two_equal_utterances_make_them_no_repetition(blueprint):
    with ScriptedServer(answer=lambda request: content(say=wishes(request)[0][1], about=wishes(request)[0][0])) as server:

        async def talk():
            episode = begin_episode(blueprint)
            chosen = settings(server)
            user = LLMUser(make_llm_users(chosen).shared, 0)
            await let_user_speak(episode, user)
            devices = episode.situation.home.plan.devices
            spared = next(d for d in devices if d.did not in blueprint.changeable_devices and d.spec.service_index)
            before = episode.situation.home.state_key()
            for code in (f'device("{spared.did}").{path}()' for path in spared.spec.service_index):
                episode.apply_reply(
                    Reply({"role": "assistant", "content": "", "tool_calls": [tool_call("pyexec", {"code": code})]})
                )
                if episode.situation.home.state_key() != before:
                    break
            assert episode.situation.home.state_key() != before
            episode.apply_reply(Reply({"role": "assistant", "content": "Done."}))
            await let_user_speak(episode, user)
            return episode.messages

        messages = asyncio.run(talk())
    assert messages[-1]["content"] == messages[1]["content"]


class Few:
    """A suite of a few blueprints."""

    def __init__(self, blueprints) -> None:
        self.blueprints, self.identity = blueprints, "few"

    def __len__(self) -> int:
        return len(self.blueprints)

    def __getitem__(self, index: int) -> EpisodeSpec:
        return EpisodeSpec(self.blueprints[index], EpisodeLimits())


def test_in_a_benchmark_one_that_strays_is_asked_again_with_another_seed(task, tmp_path):
    seen: set[str] = set()

    def person(request):
        situation = request["messages"][1]["content"]
        fresh = situation not in seen
        seen.add(situation)
        return content(say="call set_x", about=wishes(request)[0][0]) if fresh else obedient(request)

    blueprints = [b for b in (make_home_blueprint(task, "train", seed) for seed in range(20)) if len(b.intents) == 1][:5]
    with ScriptedServer(answer=person) as server:
        make_user, name = make_user_factory(BenchRun("few", "expert", tmp_path, user=server.url))
        score = run_suite(
            Few(blueprints), ParticipantFactories(Expert, make_user, name), tmp_path, EpisodePace(4, waves=False)
        )
    assert name == "scripted" and score["n"] == 5 and score["success"] == 1.0
    assert len({request["seed"] for request in server.requests}) == len(server.requests) == 10


def test_a_rollout_in_training_is_played_with_it(model, tokenizer, task):
    engine = TransformersEngine(model, tokenizer, 12, 1.0)
    limits = EpisodeLimits(turns=1, steps=2, steps_per_turn=2)
    blueprints = [make_home_blueprint(task, "train", seed) for seed in range(4)]
    with ScriptedServer(answer=obedient) as server, open_user_factory(settings(server, timeout=20, deadline=60)) as users:
        player = RolloutPlayer(engine, tokenizer, users, limits, RewardWeights(), 4096)
        rollouts = [rollout for _ in range(2) for rollout in player.play_blueprints(blueprints, range(4))]
        metrics = player.play_metrics()
    assert all(rollout.trajectory.outcome.is_counted and rollout.trajectory.user == "llm:scripted" for rollout in rollouts)
    assert metrics["user/utterances"] == metrics["user/requests"] == 8 and metrics["user/completion_tokens"] == 80


def test_half_a_character_is_replaced():
    said = parse_user_answer('{"say": "hello \\ud83d", "about": null, "stop": false}', False, ())
    assert said.say == "hello \ufffd"
