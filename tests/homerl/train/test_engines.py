"""Engines beside `generate`: ids in, ids out, versions kept, nobody held up; the server's client against a real HTTP
server that speaks vLLM's dialect of completions, and errs in all ways."""

import asyncio
import copy
import inspect
import json
import math
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from peft import LoraConfig, get_peft_model
from scripted_server import Faults, ScriptedServer

from homerl.app.runs.preflight import _find_missing_engine
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.endpoint.key_guard import VARIABLE, KeyGuard
from homerl.models.policy.transformers_engine import TransformersEngine
from homerl.play.episode import EpisodeLimits
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import RolloutPlayer
from homerl.train.engines import weight_sync as synced
from homerl.train.engines.contract import chosen_engine
from homerl.train.engines.server import ServerEngine, can_freeze_requests
from homerl.train.engines.transformers import SnapshotEngine
from homerl.train.engines.vllm import ColocatedVLLM
from homerl.train.engines.weight_sync import WeightLock, merge_adapter_weights
from homerl.train.recipe import EngineSettings, RLVESettings
from homerl.train.watch.phase_deadlines import PhaseTimer, RunStalled
from homerl.worlds.users import ScriptedUser

PROMPTS = [[5, 6, 7], [8, 9], [10, 11, 12, 13]]


class VLLM(ScriptedServer):
    """`says` maps a prompt to (ids, log-probabilities); held prompts are answered once released; `info` is how it was
    started, which it tells in development mode alone."""

    info: dict | None = None

    def __init__(self, says=None, dialect: str = "ids", **options) -> None:
        super().__init__(**options)
        self.says, self.dialect = says or (lambda prompt: ([len(prompt), 2], [-0.5, -0.25])), dialect
        self.held: list[list[int]] = []

    async def _app(self, scope, receive, send):
        if scope["path"] == "/server_info":
            await super()._send(send, 200 if self.info else 404, json.dumps({"vllm_config": self.info}))
        else:
            await super()._app(scope, receive, send)

    async def _send(self, send, status, text, length=None):
        asked = self.requests[-1]["prompt"] if self.requests else None
        while asked in self.held:
            await asyncio.sleep(0.005)
        await super()._send(send, status, text, length)

    def _completion(self, request):
        ids, logprobs = self.says(request["prompt"])
        names = [f"token_id:{i}" for i in ids] if request["return_tokens_as_token_ids"] else ["text"] * len(ids)
        found = {"tokens": names, "token_logprobs": logprobs, "text_offset": [0] * len(ids), "top_logprobs": None}
        choice = {"index": 0, "text": "", "finish_reason": "stop", "logprobs": found}
        if request["return_token_ids"] and self.dialect == "ids":
            choice |= {"token_ids": ids, "prompt_token_ids": request["prompt"]}
        if self.dialect == "other tokenizer":
            choice |= {"token_ids": ids, "prompt_token_ids": [1, *request["prompt"]]}
        if self.dialect == "no logprobs":
            choice |= {"logprobs": None}
        if self.dialect == "text":
            found["tokens"] = ["Hello"] * len(ids)
        return {"id": "1", "object": "text_completion", "created": 0, "model": "scripted", "choices": [choice]}


@pytest.fixture
def engine(tokenizer):
    def make(server: ScriptedServer, **settings) -> ServerEngine:
        url = server.url.removesuffix("/v1")
        return ServerEngine(tokenizer, 24, 0.8, EngineSettings(kind="server", url=url, **settings), model="scripted")

    return make


def sampled(engine, *prompts):
    async def all_of_them():
        return await asyncio.gather(*map(engine.sample, prompts))

    return asyncio.run(all_of_them())


# The server's client


def test_ids_go_in_and_come_out_with_their_logprobs_and_version(engine, tokenizer):
    with VLLM() as server:
        asked = engine(server)
        asked.version = 7
        found = sampled(asked, *PROMPTS)
    assert [s.ids for s in found] == [(3, 2), (2, 2), (4, 2)]
    assert all(s.logprobs == (-0.5, -0.25) and s.version == 7 for s in found)
    assert sorted(r["prompt"] for r in server.requests) == sorted(PROMPTS)
    [request, *_] = server.requests
    plain = {"max_tokens": 24, "temperature": 0.8, "top_p": 1.0, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0}
    assert plain.items() <= request.items() and request["stop_token_ids"] == [tokenizer.eos_token_id]
    assert request["logprobs"] == 0 and request["model"] == "scripted"


def test_ids_are_read_from_the_tokens_of_servers_that_do_not_return_them_apart(engine):
    with VLLM(dialect="tokens") as server:
        assert sampled(engine(server), [1, 2, 3])[0].ids == (3, 2)


def test_a_logprob_that_the_server_cannot_tell_is_no_number(engine):
    with VLLM(lambda prompt: ([5, 2], [None, -1.0])) as server:
        [found] = sampled(engine(server), [1])
    assert math.isnan(found.logprobs[0]) and found.logprobs[1] == -1.0


@pytest.mark.parametrize(
    ("dialect", "what"),
    [("text", "in text, not in ids"), ("no logprobs", "no log-probabilities"), ("other tokenizer", "another tokenizer")],
)
def test_a_server_that_speaks_otherwise_is_refused_in_words(engine, dialect, what):
    with VLLM(dialect=dialect) as server, pytest.raises(RuntimeError, match=what):
        sampled(engine(server), [1, 2])


def test_a_slow_request_holds_up_no_other(engine):
    with VLLM() as server:
        asked = engine(server)

        async def race():
            slow = asyncio.create_task(asked.sample([1]))
            while not server.requests:
                await asyncio.sleep(0.005)
            others = await asyncio.gather(*(asked.sample([2, i]) for i in range(20)))
            assert not slow.done()
            server.held.clear()
            return [*others, await slow]

        server.held.append([1])
        assert len(asyncio.run(race())) == 21


def test_passing_faults_are_asked_again(engine, monkeypatch):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    faults = Faults(errors=0.2, garbage=0.1, halves=0.1)
    with VLLM(faults=faults, seed=3) as server:
        found = sampled(engine(server, retries=12, deadline=60), *PROMPTS * 6)
    assert len(found) == 18 and all(s.logprobs == (-0.5, -0.25) for s in found)
    assert server.served["errors"] and server.served["garbage"] and server.served["halves"]


def test_a_server_that_is_silent_stops_the_run_and_is_named(engine):
    with VLLM(faults=Faults(stalls=1.0)) as server:
        begin = time.monotonic()
        with pytest.raises(RunStalled, match=rf"the policy server at http://127.0.0.1:{server.port} .* 0.4 s.*in time"):
            sampled(engine(server, timeout=0.2, deadline=0.4), [1])
        assert time.monotonic() - begin < 50


def test_a_server_that_is_gone_stops_the_run(engine, monkeypatch):
    monkeypatch.setattr("homerl.models.endpoint.endpoint.FIRST_WAIT", 0.01)
    server = VLLM()
    with pytest.raises(RunStalled, match="policy server"):
        sampled(engine(server, retries=2, deadline=1), [1])
    with pytest.raises(RunStalled, match="does not answer"):
        ServerEngine(
            SimpleNamespace(eos_token_id=2), 8, 1.0, EngineSettings(kind="server", url=server.url.removesuffix("/v1"))
        )


def test_a_request_that_is_refused_stops_the_run_with_the_servers_words(engine):
    with VLLM(faults=Faults(refusals=1.0)) as server, pytest.raises(RuntimeError, match="refuses what it is asked"):
        sampled(engine(server), [1])


def test_episodes_played_through_the_server_are_those_of_the_model_behind_it(engine, model, tokenizer, task):
    """The server samples greedily from the very model, so a player cannot tell it from one in this process."""
    behind = TransformersEngine(model, tokenizer, 24, temperature=0.0)

    def says(prompt):
        [found] = behind._generate([prompt])
        return list(found.ids), list(found.logprobs)

    def play(asked):
        player = RolloutPlayer(asked, tokenizer, ScriptedUser, EpisodeLimits(turns=2, steps=3), RewardWeights(), 2048)
        return player.play_blueprints([make_home_blueprint(task, "train", seed) for seed in range(4)], list(range(4)))

    with VLLM(says) as server:
        through, direct = play(engine(server)), play(behind)
    for ours, theirs in zip(through, direct, strict=True):
        assert ours.ledger.ids == theirs.ledger.ids and ours.ledger.mask == theirs.ledger.mask
        assert ours.ledger.logprobs == pytest.approx(theirs.ledger.logprobs, abs=1e-5)  # float32, in batches of other sizes
        assert ours.trajectory == theirs.trajectory


# Weights


@pytest.fixture
def sending(monkeypatch) -> Callable[..., SimpleNamespace]:
    """Makes a trainer, as far as engines know it, whose weights are sent by a stand-in of TRL's object."""

    def make(send: Callable[[], Any], wait: Callable[[], Any] = lambda: None) -> SimpleNamespace:
        monkeypatch.setattr(synced, "make_vllm_generation", lambda trainer, **options: SimpleNamespace(sync_weights=send))
        return SimpleNamespace(accelerator=SimpleNamespace(wait_for_everyone=wait, is_main_process=True))

    return make


def test_weights_go_when_no_sample_is_under_way_and_the_next_has_the_new_version(tmp_path, engine, sending):
    """A sync is held back until the request that is under way has its answer, and others wait for it, on all ranks."""
    order: list[str] = []
    trainer = sending(lambda: order.append("weights"), lambda: order.append("all ranks"))
    with VLLM() as server:
        asked = engine(server)
        asked.attach(trainer, PhaseTimer(tmp_path))
        server.held.append([1])

        async def first():
            found = await asked.sample([1])
            order.append("first")
            return found

        results: dict = {}
        thread = threading.Thread(target=lambda: results.update(first=asyncio.run(first())))
        thread.start()
        while not server.requests:
            time.sleep(0.005)
        syncing = threading.Thread(target=asked.sync, args=[3])
        syncing.start()
        time.sleep(0.05)
        assert order == [] and syncing.is_alive()
        server.held.clear()
        thread.join(5), syncing.join(5)
        asked._loop = None
        after = sampled(asked, [2])[0]
    assert sorted(order) == ["all ranks", "first", "weights"] and after.version == 3
    assert [what for what in order if what != "first"] == ["all ranks", "weights"]
    assert results["first"].version == -1


class Freezing(VLLM):
    """Can freeze its requests, by its own list of paths, and has metrics."""

    def __init__(self, order: list[str], parameters=("mode", "reset_running_requests"), metrics: str = "") -> None:
        super().__init__()
        self.order, self.parameters, self.metrics = order, parameters, metrics

    async def _app(self, scope, receive, send):
        path, asked = scope["path"], scope["query_string"].decode()
        if path == "/openapi.json":
            posts = {key: {"post": {"parameters": self._named()}} for key in ("/pause", "/reset_prefix_cache", "/resume")}
            await ScriptedServer._send(self, send, 200, json.dumps({"paths": posts}))
        elif path == "/metrics":
            await ScriptedServer._send(self, send, 200, self.metrics)
        elif path in ("/pause", "/reset_prefix_cache", "/resume"):
            assert scope["method"] == "POST"
            self.order.append(f"{path}?{asked}".rstrip("?"))
            await ScriptedServer._send(
                self, send, 200, json.dumps({"success": True} if "reset" in path else {"status": "ok"})
            )
        else:
            await super()._app(scope, receive, send)

    def _named(self) -> list[dict]:
        return [{"name": name, "in": "query"} for name in self.parameters]


FROZEN = ["/pause?mode=keep", "/reset_prefix_cache?reset_running_requests=true", "weights", "/resume"]


def test_a_server_that_freezes_its_requests_gets_weights_while_they_wait(tmp_path, engine, sending):
    """The request ends after the sync, which would wait for it otherwise, and names the weights with which it began."""
    order: list[str] = []
    trainer = sending(lambda: order.append("weights"), lambda: order.append("all ranks"))
    with Freezing(order) as server:
        asked = engine(server)
        asked.attach(trainer, PhaseTimer(tmp_path))
        asked.version = 2
        server.held.append([1])

        async def through_a_sync() -> list:
            running = asyncio.create_task(asked.sample([1]))
            while not server.requests:
                await asyncio.sleep(0.005)
            await asyncio.to_thread(asked.sync, 3)
            assert not running.done()
            server.held.clear()
            return [await running, await asked.sample([2])]

        found = asyncio.run(through_a_sync())
    assert order == ["all ranks", *FROZEN]
    assert [sample.version for sample in found] == [2, 3]


def test_frozen_requests_go_on_though_the_weights_did_not_arrive(tmp_path, engine, sending):
    order: list[str] = []

    def gone():
        order.append("weights")
        raise ConnectionResetError("reset by peer")

    with Freezing(order) as server:
        asked = engine(server)
        asked.attach(sending(gone), PhaseTimer(tmp_path))
        with pytest.raises(RunStalled, match="takes no weights: reset by peer"):
            asked.sync(3)
    assert order == FROZEN


@pytest.mark.parametrize("parameters", [("mode",), ("reset_running_requests",)])
def test_a_server_that_would_keep_old_caches_is_not_asked_to_freeze(tmp_path, engine, sending, parameters):
    order: list[str] = []
    with Freezing(order, parameters) as server:
        asked = engine(server)
        asked.attach(sending(lambda: order.append("weights")), PhaseTimer(tmp_path))
        asked.sync(3)
    assert order == ["weights"] and not can_freeze_requests("http://127.0.0.1:9")


METRICS = """\
# HELP vllm:prefix_cache_queries_total Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_total counter
vllm:prefix_cache_queries_total{engine="0",model_name="tiny"} 1600.0
vllm:prefix_cache_queries_total{engine="1",model_name="tiny"} 4.0e+02
# HELP vllm:prefix_cache_queries_created Prefix cache queries, in terms of number of queried tokens.
# TYPE vllm:prefix_cache_queries_created gauge
vllm:prefix_cache_queries_created{engine="0",model_name="tiny"} 1.7639e+09
# HELP vllm:prefix_cache_hits_total Prefix cache hits, in terms of number of cached tokens.
# TYPE vllm:prefix_cache_hits_total counter
vllm:prefix_cache_hits_total{engine="0",model_name="tiny"} 1200.0
vllm:prefix_cache_hits_total{engine="1",model_name="tiny"} 0.0
# TYPE vllm:external_prefix_cache_hits_total counter
vllm:external_prefix_cache_hits_total{engine="0",model_name="tiny"} 77.0
"""


def test_the_share_of_cached_prompts_is_that_since_the_last_report(tmp_path, engine, sending):
    with Freezing([], metrics=METRICS) as server:
        asked = engine(server)
        asked.attach(sending(lambda: None), PhaseTimer(tmp_path))
        assert asked.metrics() == {"policy/prefix_hits": 0.6}
        assert asked.metrics() == {}, "nothing was asked since"
        server.metrics = METRICS.replace("1600.0", "1700.0").replace("1200.0", "1225.0")
        assert asked.metrics() == {"policy/prefix_hits": 0.25}
        server.metrics = METRICS.replace("1600.0", "100.0").replace("1200.0", "50.0")
        assert asked.metrics() == {}, "the server was started anew"
        server.metrics = "python_gc_objects_collected_total 1.0"
        assert asked.metrics() == {}
        asked.trainer.accelerator.is_main_process = False
        server.metrics = METRICS
        assert asked.metrics() == {}, "the first process asks for all"
    assert asked.metrics() == {}


def test_an_adapter_is_merged_for_the_sampler_and_the_base_stays_as_it_was(model):
    """In half precision to the bit, where merging in place and taking out again would leave traces."""
    torch.manual_seed(0)
    base = copy.deepcopy(model).to(torch.bfloat16)
    before = {name: weight.clone() for name, weight in base.named_parameters()}
    policy = get_peft_model(base, LoraConfig(r=4, lora_alpha=64, target_modules="all-linear"))
    for name, weight in policy.named_parameters():
        if "lora_" in name:
            weight.data = weight.data.float().normal_(0, 0.1)
    found = {name: weight.clone() for name, weight in merge_adapter_weights(policy)}
    after = {name.replace(".base_layer", ""): weight for name, weight in base.named_parameters() if "lora_" not in name}
    assert found.keys() == before.keys() and all(torch.equal(after[name], before[name]) for name in before)
    merged = dict(copy.deepcopy(policy).merge_and_unload().named_parameters())
    torch.testing.assert_close(found, {name: merged[name].data for name in found}, rtol=1e-2, atol=1e-3)
    assert sum((found[name] != before[name]).any().item() for name in found) > 10


@pytest.fixture
def trl_sends(monkeypatch) -> Callable[..., tuple[Any, list]]:
    """TRL's own object without the vLLM that it drives, and what it sends to a server; `gather` is around each weight."""
    from trl.generation.vllm_generation import VLLMGeneration

    def make(model, gather: Any = nullcontext) -> tuple[Any, list]:
        sent: list = []

        def client(self):
            self._dist = SimpleNamespace(is_fsdp=False, gather_params=gather)
            self.vllm_client = SimpleNamespace(
                update_named_params=lambda told, named: sent.append((told, list(named))), reset_prefix_cache=lambda: None
            )

        monkeypatch.setattr(VLLMGeneration, "_init_vllm", client)
        trainer = SimpleNamespace(model=model, accelerator=Accelerator(cpu=True), processing_class=None)
        return synced.make_vllm_generation(
            trainer, mode="server", server_base_url="http://a:1", group_port=1, server_timeout=1.0
        ), sent

    return make


def test_vllm_reads_its_first_weights_from_a_complete_model(model, monkeypatch, tmp_path):
    """The folder of an adapter holds none; a second adapter may be on the first."""
    from trl.generation.vllm_generation import VLLMGeneration

    named = []
    monkeypatch.setattr(VLLMGeneration, "_init_vllm", lambda self: named.append(self.model.name_or_path))
    for folder, base in (("first", "base"), ("second", str(tmp_path / "first"))):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "adapter_config.json").write_text(json.dumps({"base_model_name_or_path": base}))
    policy = get_peft_model(copy.deepcopy(model), LoraConfig(r=2, target_modules=["q_proj"]))
    policy.get_base_model().name_or_path = str(tmp_path / "second")
    trainer = SimpleNamespace(model=policy, accelerator=Accelerator(cpu=True), processing_class=None)
    synced.make_vllm_generation(trainer, mode="colocate")
    assert named == ["base"] and policy.name_or_path == str(tmp_path / "second")


def test_trl_sends_each_weight_as_it_was_though_it_is_packed_late(model, trl_sends):
    """ZeRO-3 lets go of a weight when the next one is named, and vLLM packs several into a buffer."""
    from trl.generation.vllm_generation import VLLMGeneration

    whole = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    @contextmanager
    def gathered(weights):
        kept = [weight.detach().clone() for weight in weights]
        yield
        for weight, was in zip(weights, kept, strict=True):
            weight.data.zero_()
            weight.data = was

    generation, sent = trl_sends(copy.deepcopy(model), gathered)
    late = dict(list(VLLMGeneration._iter_named_params(generation)))
    assert any(not torch.equal(late[name], whole[name]) for name in whole), "TRL names weights that stay: send no copies"
    generation.sync_weights()
    [(told, packed)] = sent
    assert told == [(name, "float32", list(weight.shape)) for name, weight in whole.items()]
    assert all(torch.equal(found, whole[name]) for name, found in packed) and len(packed) == len(whole)


def test_weights_that_a_server_does_not_take_are_gathered_all_the_same(model, trl_sends):
    """The other ranks gather each of them, and wait for this one."""
    gathered: list[int] = []

    @contextmanager
    def gather(weights):
        gathered.append(len(weights))
        yield

    def lost(told, named):
        next(named)
        raise ConnectionResetError("reset by peer")

    generation, _ = trl_sends(copy.deepcopy(model), gather)
    generation.vllm_client.update_named_params = lost
    with pytest.raises(ConnectionResetError):
        generation.sync_weights()
    assert len(gathered) == 2 * len(list(model.named_parameters())), "names and shapes first, then the weights"


def test_a_server_that_is_lost_as_it_is_connected_stops_the_run_and_is_named(tmp_path, engine, sending, monkeypatch):
    ports: list[int] = []

    def gone(trainer, group_port, **options):
        ports.append(group_port)
        raise ConnectionRefusedError("connection refused")

    with VLLM() as server:
        asked, trainer = engine(server), sending(lambda: None)
        monkeypatch.setattr(synced, "make_vllm_generation", gone)
        for _ in range(2):
            with pytest.raises(RunStalled, match=rf"127.0.0.1:{server.port} takes no weights: connection refused"):
                asked.attach(trainer, PhaseTimer(tmp_path))
    assert all(1024 < port < 1 << 16 for port in ports)


def test_trl_sends_an_adapter_merged_and_leaves_the_base_as_it_was(model, trl_sends):
    """TRL merges it in place, and takes it out again with a trace in half precision."""
    from trl.generation.vllm_generation import VLLMGeneration

    def adapted():
        torch.manual_seed(0)
        policy = get_peft_model(copy.deepcopy(model).to(torch.bfloat16), LoraConfig(r=4, target_modules="all-linear"))
        for name, weight in policy.named_parameters():
            if "lora_" in name:
                weight.data = weight.data.float().normal_(0, 0.1).to(weight.dtype)
        return policy, {name: weight.clone() for name, weight in policy.named_parameters()}

    def changed(policy, before) -> int:
        return sum(not torch.equal(weight, before[name]) for name, weight in policy.named_parameters())

    policy, before = adapted()
    theirs = [name for name, _ in VLLMGeneration._iter_named_params(trl_sends(policy)[0])]
    assert changed(policy, before), "TRL takes an adapter out of its base without a trace: let it merge"
    policy, before = adapted()
    generation, sent = trl_sends(policy)
    generation.sync_weights()
    assert [name for name, _ in sent[0][1]] == theirs and not changed(policy, before)


def test_a_server_that_takes_no_weights_stops_the_run_and_is_named(tmp_path, engine, sending):
    def gone():
        raise ConnectionRefusedError("connection refused")

    with VLLM() as server:
        asked = engine(server)
        asked.attach(sending(gone), PhaseTimer(tmp_path))
        with pytest.raises(RunStalled, match=rf"127.0.0.1:{server.port} takes no weights: connection refused"):
            asked.sync(3)


STARTED = {
    "weight_transfer_config": {"backend": "nccl"},
    "model_config": {"logprobs_mode": "processed_logprobs", "max_model_len": 9000},
}
LACKS = [
    (None, "VLLM_SERVER_DEV_MODE=1"),
    (STARTED | {"weight_transfer_config": None}, "--weight-transfer-config"),
    (STARTED | {"model_config": STARTED["model_config"] | {"logprobs_mode": "raw_logprobs"}}, "--logprobs-mode processed_"),
    (STARTED | {"model_config": STARTED["model_config"] | {"max_model_len": 4096}}, "--max-model-len 8704"),
    (STARTED | {"cache_config": {"enable_prefix_caching": False}}, "--enable-prefix-caching"),
]


@pytest.mark.parametrize("head", ["model", "float32"])
def test_vllm_computes_logits_in_the_format_of_the_trainers_head(head, model, tokenizer, monkeypatch):
    from trl.generation import vllm_generation

    made = []
    monkeypatch.setattr(vllm_generation, "is_vllm_available", lambda: True)
    monkeypatch.setattr(vllm_generation, "LLM", lambda **options: made.append(options), raising=False)
    for name, value in {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "::", "MASTER_PORT": "1"}.items():
        monkeypatch.setenv(name, value)  # TRL writes them
    recipe = RLVESettings(head=head, engine={"kind": "vllm", "sleep": False})
    engine = chosen_engine(recipe).make(recipe, tokenizer, 0, in_shards=False)
    engine.attach(SimpleNamespace(model=model, accelerator=Accelerator(cpu=True), processing_class=tokenizer), None)
    assert made[0].get("hf_overrides") == ({"head_dtype": "float32"} if head == "float32" else None)
    assert made[0]["logprobs_mode"] == "processed_logprobs"


def test_a_server_with_another_head_than_the_trainers_is_refused():
    with VLLM() as server:
        engine = {"kind": "server", "url": server.url[:-3]}
        recipe = SimpleNamespace(rlve=RLVESettings(max_tokens=512, max_episode_tokens=8192, engine=engine, head="float32"))
        server.info = STARTED
        assert "--hf-overrides" in _find_missing_engine(recipe)[0]
        server.info = STARTED | {"model_config": STARTED["model_config"] | {"hf_overrides": {"head_dtype": "float32"}}}
        assert _find_missing_engine(recipe) == []


@pytest.mark.parametrize(("info", "lacks"), LACKS)
def test_a_server_that_was_started_otherwise_is_refused_before_any_work(info, lacks):
    with VLLM() as server:
        settings = {"max_tokens": 512, "max_episode_tokens": 8192, "engine": {"kind": "server", "url": server.url[:-3]}}
        recipe = SimpleNamespace(rlve=RLVESettings.model_validate(settings))
        server.info = STARTED
        assert _find_missing_engine(recipe) == []
        server.info = info
        [found] = _find_missing_engine(recipe)
    assert lacks in found and server.url[:-3] in found
    assert "does not answer" in _find_missing_engine(recipe)[0]


class Closed(Freezing):
    """A server behind the guard that `vllm serve --middleware` takes."""

    info = STARTED

    async def _app(self, scope, receive, send):
        await KeyGuard(super()._app if scope["path"] != "/health" else self._healthy)(scope, receive, send)

    async def _healthy(self, scope, receive, send):
        await ScriptedServer._send(self, send, 200, "")

    def status(self, path: str, method: str = "GET", **headers: str) -> int:
        """The status of an answer to a stranger."""
        request = urllib.request.Request(f"{self.url[:-3]}{path}", method=method, headers=headers)
        try:
            return urllib.request.urlopen(request, timeout=5).status
        except urllib.error.HTTPError as error:
            return error.code


def test_a_closed_server_trains_with_who_has_its_key_and_refuses_all_others(tmp_path, engine, sending, monkeypatch):
    monkeypatch.setenv(VARIABLE, "right")
    monkeypatch.setenv("HOMERL_POLICY_KEY", "right")
    order: list[str] = []
    with Closed(order, metrics=METRICS) as server:
        settings = {"max_tokens": 512, "max_episode_tokens": 8192, "engine": {"kind": "server", "url": server.url[:-3]}}
        recipe = SimpleNamespace(rlve=RLVESettings.model_validate(settings))
        assert _find_missing_engine(recipe) == []
        asked = engine(server)
        asked.attach(sending(lambda: order.append("weights")), PhaseTimer(tmp_path))
        asked.sync(3)
        assert order == FROZEN and sampled(asked, [1, 2])[0].ids and asked.metrics() == {"policy/prefix_hits": 0.6}
        asks = ["/v1/models", "/server_info", "/metrics", "/openapi.json", "/nowhere"]
        tells = ["/v1/completions", "/pause?mode=keep", "/resume", "/update_weights", "/invocations", "/collective_rpc"]
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Authorization": "Basic right"}):
            assert {server.status(path, **headers) for path in asks} == {401}
            assert {server.status(path, "POST", **headers) for path in tells} == {401}
        assert server.status("/health") == 200 and order == FROZEN
        monkeypatch.setenv("HOMERL_POLICY_KEY", "wrong")
        assert _find_missing_engine(recipe) == [
            f"the policy server at {server.url[:-3]} refuses the key in $HOMERL_POLICY_KEY (status 401)"
        ]
        with pytest.raises(RunStalled, match=r"refuses the key in \$HOMERL_POLICY_KEY"):
            ServerEngine(SimpleNamespace(eos_token_id=2), 8, 1.0, recipe.rlve.engine)
        monkeypatch.delenv(VARIABLE)
        assert server.status("/v1/models", Authorization="Bearer right") == server.status("/health") == 500, "it has no key"


def test_a_gate_that_is_closed_keeps_samples_out():
    lock, passed = WeightLock(), []

    async def enter():
        await lock.begin_sample()
        passed.append(True)

    with lock.hold_exclusively(), pytest.raises(TimeoutError):
        asyncio.run(asyncio.wait_for(enter(), 0.05))
    assert not passed
    asyncio.run(enter())
    assert passed


# vLLM in process, by the two verbs of its engine


class Engine:
    """As vLLM's: a token of every running request a step; each is as long as its prompt."""

    def __init__(self) -> None:
        self.running: dict[str, list] = {}
        self.most = self.steps = 0
        self.cached = lambda length: length - 1

    def add_request(self, name, prompt, parameters) -> None:
        self.running[name] = [len(prompt["prompt_token_ids"]), []]

    def step(self):
        self.steps += 1
        self.most = max(self.most, len(self.running))
        found = []
        for name, (length, ids) in list(self.running.items()):
            ids.append(100 + len(ids))
            finished = len(ids) == length
            logprobs = [{i: SimpleNamespace(logprob=-i / 100)} for i in ids]
            found.append(
                SimpleNamespace(
                    request_id=name,
                    finished=finished,
                    outputs=[SimpleNamespace(token_ids=ids, logprobs=logprobs)],
                    num_cached_tokens=self.cached(length),
                    prompt_token_ids=[1] * length,
                )
            )
            if finished:
                del self.running[name]
        return found


@pytest.fixture
def colocated(tokenizer, monkeypatch, tmp_path):
    """The engine with a stand-in of what TRL makes."""
    calls: list[str] = []
    llm = SimpleNamespace(
        llm_engine=Engine(), wake_up=lambda tags: calls.append(f"wake {tags[0]}"), sleep=lambda level: calls.append("sleep")
    )
    made = SimpleNamespace(llm=llm, sync_weights=lambda: calls.append("weights"), _llm_weights_sleeping=False)
    monkeypatch.setattr(synced, "make_vllm_generation", lambda trainer, **options: made)
    monkeypatch.setattr(ColocatedVLLM, "_parameters", lambda self: None)
    engine = ColocatedVLLM(tokenizer, 16, 1.0, sleep=True)
    engine.attach(SimpleNamespace(), PhaseTimer(tmp_path))
    return engine, made, calls


def test_requests_join_and_leave_the_running_batch_one_by_one(colocated):
    engine, generation, _ = colocated

    async def episodes():
        async def one(length, late):
            for _ in range(late):
                await asyncio.sleep(0)
            return await engine.sample([1] * length)

        return await asyncio.gather(one(9, 0), one(2, 0), one(3, 5))

    found = asyncio.run(episodes())
    assert [len(s.ids) for s in found] == [9, 2, 3] and generation.llm.llm_engine.steps < 12
    assert found[1].logprobs == (-1.0, -1.01)
    assert asyncio.run(episodes())[0].ids == found[0].ids, "another loop, the same engine"


def test_the_share_of_cached_prompts_is_that_of_all_requests_since_the_last_report(colocated):
    engine, generation, _ = colocated
    sampled(engine, [1, 2], [1, 2, 3, 4, 5, 6, 7, 8])
    assert engine.metrics() == {"policy/prefix_hits": 0.8} and engine.metrics() == {}
    generation.llm.llm_engine.cached = lambda length: None
    sampled(engine, [1, 2])
    assert engine.metrics() == {}, "vLLM does not tell"


def test_memory_is_given_back_and_weights_brought_anew(colocated):
    engine, _, calls = colocated
    engine.sync(4)
    with engine.awake():
        sampled(engine, [1, 2])
    with engine.awake():
        sampled(engine, [1, 2])
    assert calls == ["weights", "wake kv_cache", "sleep", "weights", "wake kv_cache", "sleep"] and engine.version == 4


def test_what_breaks_in_the_engine_reaches_who_waits(colocated, monkeypatch):
    engine, *_ = colocated
    monkeypatch.setattr(Engine, "step", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        sampled(engine, [1], [2])


# The trainer's own weights, and a copy


def test_a_copy_samples_with_its_own_weights_until_the_next_sync(model, tokenizer, tmp_path):
    """The head that the trainer gets afterwards runs the model that it was put on."""
    from trl.trainer.utils import add_fused_lm_head

    trained = copy.deepcopy(model)
    accelerator = SimpleNamespace(unwrap_model=lambda model: model, device="cpu", is_fsdp2=False, distributed_type="NO")
    engine = SnapshotEngine(tokenizer, 8, 1.0, 4)
    engine.attach(SimpleNamespace(accelerator=accelerator, model=trained, model_wrapped=trained), PhaseTimer(tmp_path))
    add_fused_lm_head(trained)
    engine.sync(0)
    torch.manual_seed(0)
    [before] = sampled(engine, [5, 6, 7])
    with torch.no_grad():
        trained.get_input_embeddings().weight.normal_()
    torch.manual_seed(0)
    assert sampled(engine, [5, 6, 7]) == [before], "the trainer's weights have changed, and no sync has brought them"
    engine.sync(1)
    torch.manual_seed(0)
    [after] = sampled(engine, [5, 6, 7])
    assert after.version == 1 and after.logprobs != before.logprobs


# By recipe


@contextmanager
def served():
    with VLLM() as server:
        yield server.url.removesuffix("/v1")


def test_the_recipe_chooses(tokenizer):
    def make(**settings):
        recipe = RLVESettings(**settings)
        return type(chosen_engine(recipe).make(recipe, tokenizer, 0, in_shards=False)).__name__

    assert make() == "InPlace" and make(async_rollouts=1) == "SnapshotEngine"
    assert make(engine={"kind": "vllm"}) == "ColocatedVLLM"
    with served() as url:
        assert make(engine={"kind": "server", "url": url}) == "ServerEngine"
    with pytest.raises(ValueError, match="`url` goes with"):
        EngineSettings(kind="server")


def test_trls_object_takes_what_engines_give_it(tokenizer):
    """Each option is an argument of `VLLMGeneration`."""
    from trl.generation.vllm_generation import VLLMGeneration

    known = inspect.signature(VLLMGeneration).parameters.keys()
    with served() as url:
        for engine in ({"kind": "vllm"}, {"kind": "server", "url": url}):
            recipe = RLVESettings(engine=engine)
            asked = chosen_engine(recipe).make(recipe, tokenizer, 0, in_shards=False).transfer
            assert asked and asked.keys() <= known
