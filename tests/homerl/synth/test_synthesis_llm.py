"""Synthesis with chat models over real HTTP: an LLM assistant and an LLM user in the tree, faults, and what they cost."""

import asyncio
import json
import threading
import time

import pytest
from oracle import Oracle
from person import content
from scripted_server import Faults, ScriptedServer
from tree_search import search_tree

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.models.endpoint.endpoint import Endpoint
from homerl.models.endpoint.endpoint_settings import AgentSettings
from homerl.models.endpoint.llm_agent import LLMAgent
from homerl.play.faults import InfraError
from homerl.play.trajectory import trajectory_from_row
from homerl.synth.blueprint_synthesis import BlueprintResult, BlueprintSynthesiser
from homerl.synth.mcts import SearchConfig
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import SynthesisStatistics, synthesise_dataset, synthesise_shards
from homerl.worlds.users import ScriptedUser

RECIPE = BlueprintRecipe.model_validate({"home": {"devices": (3, 5)}, "intents": (1, 2)})
COUNT = 12


def blueprints(count: int = COUNT):
    return [make_home_blueprint(RECIPE, "train", seed) for seed in range(count)]


def config(server: ScriptedServer, timeout: float = 20, deadline: float = 60, retries: int = 5, **more) -> SynthesisConfig:
    model = {"url": server.url, "model": "scripted", "timeout": timeout, "deadline": deadline, "retries": retries}
    data = {"blueprints": COUNT, "shard": 6, "recipe": RECIPE, "agent": model, "user": {"kind": "llm", **model}}
    return SynthesisConfig.model_validate(data | {"search": {"rollouts": 3}} | more)


def shards(settings: SynthesisConfig):
    parts = [range(i, i + settings.shard) for i in range(0, settings.blueprints, settings.shard)]
    return list(synthesise_shards(settings, parts, settings.in_flight))


def data_of(made) -> list:
    """What a dataset is made of, without what servers did."""
    return [(shard.lines, {key: value for key, value in shard.stats.items() if key != "transport"}) for shard in made]


@pytest.fixture
def quick(monkeypatch):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    monkeypatch.setattr("homerl.models.endpoint.endpoint.REST", 0.1)
    monkeypatch.setattr("homerl.synth.blueprint_synthesis.REST", 0.2)


@pytest.fixture(scope="module")
def faultless():
    """What a server without faults gives, and what it was asked."""
    with ScriptedServer(answer=Oracle(blueprints(), mistakes=0.3)) as server:
        return shards(config(server)), server.requests


def test_an_llm_plays_both_parts_and_what_is_kept_is_verified(faultless):
    made, requests = faultless
    rows = [json.loads(line) for shard in made for line in shard.lines.splitlines()]
    lines = [line for shard in made for line in shard.stats["blueprints"]]
    assert len(lines) == COUNT and sum(line["outcome"] == "success" for line in lines) > COUNT * 0.8
    assert {(row["agent"], row["user"]) for row in rows} == {("llm:scripted", "llm:scripted")}
    assert all(trajectory_from_row(row).success and trajectory_from_row(row).is_valid for row in rows)
    asked = [request for request in requests if request.get("tools")]
    assert asked and all(request["n"] == 3 and "seed" in request for request in asked), "n candidates in one request"
    assert sum(line["calls"] for line in lines) == len(requests)


def test_a_user_that_cannot_speak_in_the_world_is_refused():
    user = {"kind": "llm", "url": ["http://127.0.0.1:9/v1"], "model": "m"}
    with pytest.raises(ValueError, match="in the world 'simuhome' no such user can speak: write `user: {kind: scripted}`"):
        SynthesisConfig.model_validate({"user": user, "recipe": {"world": "simuhome"}})


def test_prefix_reuse_is_measured_in_tokens(faultless):
    """The server bills 100 tokens for a prompt and 10 for an answer of all candidates."""
    made, requests = faultless
    lines = [line for shard in made for line in shard.stats["blueprints"]]
    assert sum(line["tokens"] for line in lines) == pytest.approx(110 * len(requests), rel=0.01)  # 10 // 3 candidates
    for line in lines:
        assert line["sampled"] >= line["calls"] and line["tokens_linear"] >= 103 * line["calls_linear"]
        assert line["steps_run"] <= line["steps_linear"]
    report = SynthesisStatistics()
    for shard in made:
        report.add_shard_stats(shard.stats)
    figures = report.summarise_synthesis()
    assert 0 < figures["tokens_saved"] < 1 and figures["tokens_saved"] == 1 - figures["tokens"] / figures["tokens_linear"]
    assert sum(figures["difficulty"]) == COUNT and report.transport["agent/requests"] + report.transport["user/requests"]


def test_faults_death_and_rebirth_change_nothing_of_the_data(faultless, quick):
    faults = Faults(errors=0.1, stalls=0.05, garbage=0.05)
    with ScriptedServer(answer=Oracle(blueprints(), mistakes=0.3), faults=faults, seed=1) as server:

        def dies_once():
            time.sleep(0.7)
            server.die()
            time.sleep(0.7)
            server.start()

        trouble = threading.Thread(target=dies_once)
        trouble.start()
        made = shards(config(server, timeout=0.6, deadline=20, attempts=8))
        trouble.join()
    assert data_of(made) == data_of(faultless[0])
    suffered = sum(count for shard in made for name, count in shard.stats["transport"].items() if "/faults/" in name)
    assert suffered > 10 and min(server.served[fault] for fault in ("errors", "stalls", "garbage")) > 0


def test_a_server_that_is_gone_ends_the_run_and_leaves_no_gap(quick):
    with ScriptedServer(answer=Oracle(blueprints(2))) as server:
        settings = config(server, deadline=0.5, blueprints=2, shard=2, attempts=2)
    with pytest.raises(InfraError, match="did not answer"):
        shards(settings)


def test_blueprints_lost_to_servers_are_typed_counted_and_made_again(faultless, tmp_path):
    first = blueprints(1)[0]
    oracle = Oracle(blueprints(), mistakes=0.3)
    system = next(iter(oracle.begun))
    broken = True

    def answer(request):
        if broken and request["messages"][0]["content"] == system:
            return []  # an answer without choices: no completion
        return oracle(request)

    with ScriptedServer(answer=answer) as server:
        settings = config(server, retries=0, attempts=1)
        synthesise_dataset(settings, tmp_path, 0, lambda *_: None)
        stats = json.loads((tmp_path / "stats.json").read_text())
        assert stats["outcomes"]["infra_error"] == 1 and first.id not in (tmp_path / "trajectories.jsonl").read_text()
        assert json.loads((tmp_path / "endpoints.json").read_text())["again/infra_error"] == 1
        broken, told = False, []
        synthesise_dataset(settings, tmp_path, 0, lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)], "only the shard with the gap is made again"
    assert (tmp_path / "trajectories.jsonl").read_text() == "".join(shard.lines for shard in faultless[0])


def test_the_last_blueprint_alone_in_its_shard_does_not_end_the_work(quick, tmp_path):
    oracle = Oracle(blueprints(3))
    *_, system = oracle.begun

    def answer(request):
        return [] if request["messages"][0]["content"] == system else oracle(request)

    with ScriptedServer(answer=answer) as server:
        synthesise_dataset(config(server, blueprints=3, shard=2, retries=0, attempts=1), tmp_path, 0, lambda *_: None)
    assert json.loads((tmp_path / "stats.json").read_text())["outcomes"]["infra_error"] == 1
    assert "train-0" in (tmp_path / "trajectories.jsonl").read_text()


def test_a_request_that_a_server_will_not_take_is_an_outcome_and_not_asked_for_again(tmp_path):
    oracle = Oracle(blueprints(4), mistakes=0.3)
    system = next(iter(oracle.begun))

    class Strict(ScriptedServer):
        """Refuses what is about the first home."""

        def drawn(self, request):
            return "refusals" if request["messages"][0]["content"] == system else None

    with Strict(answer=oracle) as server:
        settings = config(server, blueprints=4, shard=4)
        synthesise_dataset(settings, tmp_path, 0, lambda *_: None)
        asked, told = len(server.requests), []
        synthesise_dataset(settings, tmp_path, 0, lambda done, total: told.append(done))
        assert told == [1] and len(server.requests) == asked
    line = json.loads((tmp_path / "blueprints.jsonl").read_text().splitlines()[0])
    assert line["outcome"] == "refused" and line["fault"].startswith("status 400")
    assert json.loads((tmp_path / "stats.json").read_text())["outcomes"]["refused"] == 1


@pytest.mark.parametrize("reason", ["no such thing", "the prompt exceeds the context size"])
def test_a_dialogue_that_outgrows_a_server_costs_itself_alone(faultless, reason):
    class Short(ScriptedServer):
        """Takes no more than five messages."""

        def drawn(self, request):
            return "refusals" if len(request["messages"]) > 5 else None

    with Short(answer=Oracle(blueprints(), mistakes=0.3), reason={"message": reason}) as server:
        made = shards(config(server))
    lines = [line for shard in made for line in shard.stats["blueprints"]]
    kept = "".join(shard.lines for shard in made).splitlines()
    assert server.served["refusals"] and {line["outcome"] for line in lines} <= {"success", "agent_failure", "user_error"}
    assert 0 < len(kept) <= sum(len(shard.lines.splitlines()) for shard in faultless[0])


def test_a_key_that_is_not_taken_ends_the_run_and_leaves_no_gap(faultless, tmp_path):
    class Locked(ScriptedServer):
        def drawn(self, request):
            return "refusals" if len(self.requests) in range(20, 40) else None

    with Locked(answer=Oracle(blueprints(), mistakes=0.3), refusal=401) as server:
        settings = config(server)
        with pytest.raises(InputError, match="status 401"):
            synthesise_dataset(settings, tmp_path, 0, lambda *_: None)
        server.requests *= 3  # now it is open
        synthesise_dataset(settings, tmp_path, 0, lambda *_: None)
    assert (tmp_path / "trajectories.jsonl").read_text() == "".join(shard.lines for shard in faultless[0])


def test_one_slow_blueprint_keeps_no_other_waiting(monkeypatch):
    began, slow = [], asyncio.Event()

    class Clocked(BlueprintSynthesiser):
        async def synthesise_blueprint(self, index):
            began.append(index)
            if index == 0:
                await slow.wait()
            if index == 320:  # so many shards may wait for the first
                slow.set()
            return BlueprintResult([], self._line(index, "success"))

    monkeypatch.setattr("homerl.synth.shards.BlueprintSynthesiser", Clocked)
    settings = SynthesisConfig(blueprints=400, shard=10, in_flight=20)
    made = list(synthesise_shards(settings, [range(i, i + 10) for i in range(0, 400, 10)], 20))
    assert [shard.blueprints.start for shard in made] == list(range(0, 400, 10)) and len(began) == 400


def test_what_a_served_model_answers_by_is_part_of_the_dataset():
    def agent(**serve):
        return AgentSettings(model="assistant", serve={"model": "Qwen/Qwen3-8B", "gpus": [0]} | serve).answer_settings

    assert agent() == agent(gpu_memory=0.5, gpus=[0, 1], port=9000) != agent(model="Qwen/Qwen3-32B")
    assert agent(max_length=512) != agent()
    named = AgentSettings(serve={"model": "Qwen/Qwen3-8B", "gpus": [0]})
    assert named.answer_settings == AgentSettings(model="Qwen/Qwen3-8B", url="http://host/v1").answer_settings


@pytest.mark.parametrize(
    ("agent", "address", "says"),
    [
        ({"url": "http://localhost:8000/v1"}, "10.0.0.1:6379", "this machine alone"),
        ({"serve": {"model": "m", "gpus": [0]}}, "10.0.0.1:6379", "this machine alone"),
        ({"url": "http://10.0.0.2:8000/v1"}, "127.0.0.1:9", "no Ray cluster answers"),
    ],
)
def test_a_cluster_is_refused_what_could_only_hang(agent, address, says, tmp_path):
    settings = SynthesisConfig(blueprints=2, agent={"model": "m"} | agent)
    with pytest.raises(InputError, match=says):
        synthesise_dataset(settings, tmp_path, 1, lambda *_: None, ray=address)


def test_where_models_answer_is_no_part_of_the_dataset():
    with ScriptedServer() as one, ScriptedServer() as other:
        settings = config(one)
        assert settings.digest == config(other, in_flight=3, attempts=9).digest
        assert settings.digest != config(one, search={"rollouts": 4}).digest
        louder = settings.agent.model_copy(update={"temperature": 0.1})
        assert settings.digest != settings.model_copy(update={"agent": louder}).digest


def grown(answer, users, search_config):
    """(trajectories, statistics) of a blueprint's tree with an LLM assistant."""
    blueprint = blueprints(1)[0]
    with ScriptedServer(answer=answer) as server:

        async def run():
            endpoint = Endpoint([server.url], "scripted")
            found = await search_tree(blueprint, LLMAgent(endpoint, seed=0), users(server), search_config)
            await endpoint.close()
            return found

        return asyncio.run(run())


def test_candidates_that_do_the_same_are_merged():
    """Three ways to write the same calls have one effect; another wording of words has another."""
    oracle = Oracle(blueprints(1))

    def three_ways(request):
        (message,) = oracle.candidates(request | {"n": 1})
        if not message.get("tool_calls"):
            return [message] * 3
        call = message["tool_calls"][0]
        code = json.loads(call["function"]["arguments"])["code"]
        written = [code, f"# at once\n{code}", code + "\n"]
        return [
            message | {"tool_calls": [call | {"function": call["function"] | {"arguments": json.dumps({"code": text})}}]}
            for text in written
        ]

    found, stats = grown(three_ways, lambda _: [ScriptedUser(0)], SearchConfig(rollouts=9))
    assert stats.rollouts == len(found) == 1 and stats.merged >= 2 and stats.sampled > stats.calls
    words = iter(range(1000))
    three_words = lambda request: [{"content": f"Which one is number {next(words)}?"} for _ in range(3)]  # noqa: E731
    _, stats = grown(three_words, lambda _: [ScriptedUser(i) for i in range(2)], SearchConfig(rollouts=4))
    assert stats.rollouts == 4 and stats.merged == 0


def test_a_user_who_leaves_its_role_is_replaced_and_charged_to_nobody():
    from homerl.models.endpoint.endpoint_settings import UserSettings
    from homerl.worlds.users import LLMUser, SharedEndpoint

    oracle = Oracle(blueprints(1))

    def users(server):
        settings = UserSettings(kind="llm", url=server.url, model="scripted")
        line = SharedEndpoint(settings)
        return [LLMUser(line, 0), ScriptedUser(0), ScriptedUser(1)]

    def quits(request):
        return oracle(request) if request.get("tools") else content(stop=True)

    found, stats = grown(quits, users, SearchConfig(rollouts=2))
    assert found and stats.successes == stats.rollouts and stats.user_errors["gave_up"] >= 1

    found, stats = grown(quits, lambda server: users(server)[:1], SearchConfig(rollouts=2))
    assert not found and stats.rollouts == 0 and stats.user_errors == {"gave_up": 1}


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_a_thousand_blueprints_outlive_a_faulty_server(tmp_path):
    """10 % errors, 5 % stalls, 5 % garbage, one death and rebirth: complete, and equal to the faultless run's."""
    made = Oracle(blueprints(1000), mistakes=0.3)
    files = ("trajectories.jsonl", "blueprints.jsonl", "stats.json")
    contents = {}
    for name, faults in {"faultless": Faults(), "faulty": Faults(errors=0.1, stalls=0.05, garbage=0.05)}.items():
        with ScriptedServer(answer=made, faults=faults, keep=False) as server:
            if name == "faulty":
                threading.Timer(20, lambda server=server: (server.die(), time.sleep(8), server.start())).start()
            settings = config(server, timeout=2, blueprints=1000, shard=50, attempts=6)
            out = tmp_path / name
            synthesise_dataset(settings, out, 2 if name == "faulty" else 1, lambda *_: None)
            contents[name] = [(out / file).read_bytes() for file in files]
    assert contents["faulty"] == contents["faultless"]
    assert json.loads((tmp_path / "faulty/stats.json").read_text())["outcomes"].get("infra_error", 0) == 0
    transport = json.loads((tmp_path / "faulty/endpoints.json").read_text())
    assert sum(count for kind, count in transport.items() if "/faults/" in kind) > 1000
