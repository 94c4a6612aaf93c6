"""Programs as agents: what they sample is captured with its tokens, and what they do is judged."""

import asyncio
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.models.policy.policy_agent import Sample
from homerl.play.episode import EpisodeLimits
from homerl.play.faults import Boundary, InfraError
from homerl.play.trajectory import Outcome
from homerl.rewards.composite import RewardWeights
from homerl.train.agents.program_settings import ProgramSettings
from homerl.train.data.rollout import Rollout, RolloutPlayer
from homerl.train.recipe import RLVERecipe, refuse_untrainable
from homerl.train.update.objective import collect_sampled_tokens
from homerl.train.update.rlve import train_rlve
from homerl.worlds.users import ScriptedUser

pytest.importorskip("mcp")

EXAMPLE = Path(__file__).parents[3] / "interop/examples/openai_agent.py"
LIMITS = EpisodeLimits(turns=2, steps=6, steps_per_turn=3)
CALL = '<tool_call>\n{"name": "pyexec", "arguments": {"code": "x = 1"}}\n</tool_call>'
BOTH = f"{CALL}\n{CALL.replace('x = 1', 'y = 2')}"
ASK = """
import json, os, urllib.error, urllib.request
def ask(*messages, url=os.environ["OPENAI_BASE_URL"] + "/chat/completions", **more):
    body = json.dumps({"model": "any", "messages": messages, **more}).encode()
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    return json.load(urllib.request.urlopen(request))["choices"][0]["message"]
def say(role, content): return {"role": role, "content": content}
"""


class Says:
    """An engine that says these texts, one after the other, and the last one from then on."""

    def __init__(self, tokenizer: Any, *texts: str) -> None:
        self.tokenizer, self.texts, self.prompts = tokenizer, list(texts), list[list[int]]()

    async def sample(self, prompt: Any) -> Sample:
        self.prompts.append(list(prompt))
        text = self.texts.pop(0) if len(self.texts) > 1 else self.texts[0]
        ids = (*self.tokenizer.encode(text, add_special_tokens=False), self.tokenizer.eos_token_id)
        return Sample(ids, tuple(-0.25 - 0.001 * i for i in range(len(ids))), version=4)


@pytest.fixture
def play(tokenizer, task) -> Callable[..., Rollout]:
    def plays(engine: Any, program: ProgramSettings | str | None, limits: EpisodeLimits = LIMITS) -> Rollout:
        if isinstance(program, str):
            program = ProgramSettings(command=[sys.executable, "-c", ASK + program], seconds=20)
        player = RolloutPlayer(engine, tokenizer, ScriptedUser, limits, RewardWeights(), 4096, program=program)
        (found,) = player.play_blueprints([make_home_blueprint(task, "train", 3)], [0])
        return found

    return plays


def test_a_loop_on_the_openai_package_is_captured_token_by_token_as_the_policy_itself(tokenizer, play):
    """Two turns, two calls in one message, and a refused one: the same ids, the same steps, the same credit."""
    texts = (BOTH, "What do you mean?", CALL.replace("x = 1", "import os"), "Done.")
    own = play(Says(tokenizer, *texts), None)
    found = play(Says(tokenizer, *texts), ProgramSettings(command=[sys.executable, str(EXAMPLE)], seconds=60))
    assert found.trajectory.fault is None and len(own.trajectory.steps) == 4 and not found.others
    ids, same = found.ledger, own.ledger
    assert (ids.ids, ids.logprobs, ids.mask, ids.versions) == (same.ids, same.logprobs, same.mask, same.versions)
    assert ids.spans == same.spans and ids.steps == [0, 1, 2, 3] and found.sampled_lengths == own.sampled_lengths
    assert found.trajectory.messages == own.trajectory.messages and found.trajectory.outcome == own.trajectory.outcome
    assert [step.facts for step in found.trajectory.steps] == [step.facts for step in own.trajectory.steps]
    assert found.rewards_by_step == own.rewards_by_step
    ours, theirs = (collect_sampled_tokens([(one, [1.0, 2.0, 3.0, 4.0])]) for one in (own, found))
    assert ours.advantages.tolist() == theirs.advantages.tolist() and ours.starts.tolist() == theirs.starts.tolist()


def test_an_agent_on_pydantic_ai_earns_what_the_policy_itself_earns(tokenizer, play):
    """Its requests go on in one dialogue, over two turns and a refused call."""
    pytest.importorskip("pydantic_ai", reason="scripts/check_interop runs it")
    texts = (BOTH, "What do you mean?", CALL.replace("x = 1", "import os"), "Done.")
    own = play(Says(tokenizer, *texts), None)
    program = ProgramSettings(command=[sys.executable, str(EXAMPLE.with_name("pydantic_ai_agent.py"))], seconds=240)
    found = play(Says(tokenizer, *texts), program)
    assert found.trajectory.fault is None, found.trajectory.fault
    assert not found.others and found.ledger.steps == [0, 1, 2, 3]
    assert [step.facts for step in found.trajectory.steps] == [step.facts for step in own.trajectory.steps]
    assert found.rewards_by_step == own.rewards_by_step
    sampled = [[one for one, mask in zip(rollout.ledger.ids, rollout.ledger.mask) if mask] for rollout in (own, found)]
    assert sampled[0] == sampled[1]


def test_a_dialogue_that_is_rewritten_begins_another_ledger_and_every_sample_has_its_steps_credit(tokenizer, play):
    """A plan and a summary are of the step that they led to. The context is masked, what the model once wrote of it too."""
    program = """
plan = ask(say("user", "Plan."))
more = ask(say("user", "Plan."), plan, say("user", "Go on."))
print(ask(say("user", "Sum up: " + plan["content"]))["content"])
"""
    found = play(Says(tokenizer, "First.", "Then.", "Is that all?", "First.", "Then.", "Done."), program)
    assert found.trajectory.fault is None and len(found.trajectory.steps) == 2
    assert [one.steps for one in found.ledgers] == [[0, 0], [0], [1, 1], [1]]
    second = found.ledgers[1]
    assert tokenizer.decode([i for i, mask in zip(second.ids, second.mask) if mask]) == f"Is that all?{tokenizer.eos_token}"
    assert "Sum up: First." in tokenizer.decode(second.ids[: second.prompt_length])
    assert sum(found.trained_lengths) == sum(sum(one.mask) for one in found.ledgers)
    tokens = collect_sampled_tokens([(found, [5.0, 7.0])])
    credit = [set(tokens.advantages[a:b]) for a, b in zip(tokens.starts, tokens.starts[1:])]
    assert credit == [{5.0}, {5.0}, {7.0}, {7.0}] and set(tokens.versions) == {4}


CALLS = """
def rpc(method, **params):
    body = json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).encode()
    headers = {"content-type": "application/json", "accept": "application/json, text/event-stream"}
    request = urllib.request.Request(os.environ["HOMERL_MCP_URL"], body, headers)
    return json.load(urllib.request.urlopen(request))["result"]
def act(code): return rpc("tools/call", name="pyexec", arguments={"code": code})
"""


def test_what_a_program_does_between_two_samples_is_one_step_and_calls_before_the_first_have_no_tokens(tokenizer, play):
    program = """
act("a = 1")
ask(say("user", "Write code."))
assert [act(code)["isError"] for code in ("b = 2", "import os")] == [False, True]
print(*(tool["name"] for tool in rpc("tools/list")["tools"]))
"""
    found = play(Says(tokenizer, "b = 2; import os"), CALLS + program, EpisodeLimits(turns=1, steps=6, steps_per_turn=4))
    assert found.trajectory.fault is None, found.trajectory.fault
    first, second, words = found.trajectory.steps
    assert found.ledger.steps == [1] and not found.others
    assert [call["function"]["arguments"] for call in second.message["tool_calls"]] == [
        '{"code": "b = 2"}',
        '{"code": "import os"}',
    ]
    assert len(second.observations) == 2 and second.facts.blocked and not first.facts.blocked
    offered = [tool["function"]["name"] for tool in found.trajectory.tools]
    assert words.message["content"].split() == offered and words.facts.closes
    assert found.sampled_lengths[0] == found.sampled_lengths[2] == 0 < found.sampled_lengths[1]


def test_a_program_gets_no_key_of_the_run_that_its_recipe_does_not_name(tokenizer, play, monkeypatch):
    secrets = ("HF_TOKEN", "WANDB_API_KEY", "AWS_SECRET_ACCESS_KEY", "HOMERL_POLICY_KEY", "OPENAI_ORG_ID", "GITHUB_TOKEN")
    for name in (*secrets, "WEATHER_KEY", "https_proxy", "CUDA_VISIBLE_DEVICES", "LC_TIME", "PYTHONUTF8"):
        monkeypatch.setenv(name, "1")
    command = [sys.executable, "-c", "import json, os; print(json.dumps(dict(os.environ)))"]
    program = ProgramSettings(command=command, env={"MODE": "brief", "TZ": "UTC"}, pass_env=["WEATHER_KEY"])
    found = play(Says(tokenizer, "Hm."), program, EpisodeLimits(turns=1))
    got = json.loads(found.trajectory.steps[0].message["content"])
    assert not got.keys() & {*secrets}
    assert {"PATH", "HOME", "https_proxy", "CUDA_VISIBLE_DEVICES", "LC_TIME", "PYTHONUTF8", "WEATHER_KEY"} <= got.keys()
    assert (got["MODE"], got["TZ"], got["OPENAI_API_KEY"]) == ("brief", "UTC", "homerl")


ENDS = {
    "code": ("import sys; sys.exit('I am lost')", "ended with code 1: I am lost"),
    "time": ("import time; time.sleep(60)", "took more than 1 seconds"),
    "garbage": ("import sys; sys.stdout.buffer.write(bytes([255, 254]))", "no text in UTF-8"),
    "flood": ("while True: print('x' * 10000)", "printed more than"),
    "crash": ("import os, signal; os.kill(os.getpid(), signal.SIGKILL)", "ended with code -9"),
}


@pytest.mark.parametrize("how", ENDS)
def test_a_program_that_breaks_is_the_agents_failure(tokenizer, play, how):
    program, why = ENDS[how]
    seconds = 1 if how == "time" else 20
    found = play(Says(tokenizer, "Hm."), ProgramSettings(command=[sys.executable, "-c", program], seconds=seconds))
    assert found.trajectory.outcome is Outcome.AGENT_FAILURE and found.credit_input.counts
    assert found.trajectory.fault.boundary is Boundary.AGENT and why in found.trajectory.fault.reason
    assert not any(found.ledger.mask) and len(found.ledger.ids) >= 2


def test_a_fault_of_the_engine_is_no_fault_of_the_program(tokenizer, play):
    class Fails:
        async def sample(self, prompt: Any) -> Sample:
            raise InfraError("the engine is gone")

    found = play(Fails(), "ask(say('user', 'Hello?'))")
    assert found.trajectory.outcome is Outcome.INFRA_ERROR and found.trajectory.fault.reason == "the engine is gone"


def test_a_program_that_goes_on_after_a_limit_is_ended_and_what_it_did_counts(tokenizer, play):
    program = CALLS + "while True: ask(say('user', 'More.')); act('x = 1')"
    found = play(Says(tokenizer, CALL), program, EpisodeLimits(turns=1, steps=2, steps_per_turn=2))
    assert found.trajectory.outcome is Outcome.STEP_LIMIT and found.trajectory.fault is None
    assert len(found.trajectory.steps) == 2 and [step for one in found.ledgers for step in one.steps] == [0, 1]


def test_a_session_is_reached_by_its_key_alone_and_only_while_it_is_played(tokenizer, play, tmp_path):
    program = """
base = os.environ["OPENAI_BASE_URL"]
key = base.split("/")[3]
for url, body in ((base.replace(key, "x" * len(key)), b"{}"), (base, b"{"), (base, b'{"messages": []}')):
    request = urllib.request.Request(url + "/chat/completions", body, {"content-type": "application/json"})
    try:
        urllib.request.urlopen(request)
    except urllib.error.HTTPError as error:
        print(error.code, json.load(error)["error"]["message"])
open(FILE, "w").write(base)
"""
    found = play(Says(tokenizer, "Hm."), program.replace("FILE", repr(str(tmp_path / "url"))), EpisodeLimits(turns=1))
    lines = found.trajectory.steps[0].message["content"].splitlines()
    assert lines[0] == "404 no episode has this key" and [line[:3] for line in lines] == ["404", "400", "400"]
    with pytest.raises(httpx.ConnectError):  # the server has ended with the rollouts
        httpx.get((tmp_path / "url").read_text() + "/models")


def test_after_its_episode_a_key_is_told_so(tokenizer, task):
    from homerl.train.agents.capture_proxy import open_capture_proxy
    from homerl.train.agents.captured_dialogues import CapturedDialogues
    from homerl.train.agents.program_session import ProgramSession
    from homerl.worlds.registry import begin_episode

    async def ask() -> list[httpx.Response]:
        session = ProgramSession(
            begin_episode(make_home_blueprint(task, "train", 3)), CapturedDialogues(Says(tokenizer, "Hm."), tokenizer, 4096)
        )
        body = {"messages": [{"role": "user", "content": "Hello?"}]}
        async with open_capture_proxy() as proxy, httpx.AsyncClient() as client:
            async with proxy.open_session(session) as url:
                before = await client.post(f"{url}/v1/chat/completions", json=body)
                session.begin_turn()
                within = await client.post(f"{url}/v1/chat/completions", json=body)
                await session.end_turn()
            after = await client.post(f"{url}/v1/chat/completions", json=body)
        return [before, within, after]

    before, within, after = asyncio.run(ask())
    assert [one.status_code for one in (before, within, after)] == [409, 200, 409]
    assert before.json()["error"]["message"] == "the program's turn is over"
    assert after.json()["error"]["message"] == "the episode is over"
    assert json.loads(within.text)["usage"]["completion_tokens"] > 0


def test_a_run_trains_on_all_dialogues_of_its_programs_and_again_on_what_it_has_stored(model, tokenizer, task, tmp_path):
    """Two dialogues an episode: a plan, and what is said. The second run plays nothing and makes the same model."""
    model.save_pretrained(tmp_path / "policy")
    tokenizer.save_pretrained(tmp_path / "policy")
    program = "print(ask(say('user', 'Say it: ' + ask(say('user', 'Plan.'))['content'][:20]))['content'])"

    def train(out: str, **settings: Any) -> list[dict[str, Any]]:
        sizes = {"updates": 1, "blueprints_per_update": 1, "group": 2, "max_tokens": 8, "max_episode_tokens": 512}
        recipe = RLVERecipe.model_validate({
            "homerl": 1, "run": "rlve", "cpu": True, "seed": 6, "out": tmp_path / out, "parallel": "none",
            "model": {"name": str(tmp_path / "policy"), "dtype": "float32"}, "wandb": {"mode": "disabled"},
            "blueprints": {"recipe": task.model_dump(), "count": 4}, "limits": {"turns": 2},
            "agent": {"command": [sys.executable, "-c", ASK + program]},
            "rlve": {**sizes, "learning_rate": 1e-3, "log_steps": 1, "kl": 0.1, **settings},
        })  # fmt: skip
        train_rlve(recipe)
        return [json.loads(line) for line in (recipe.out / "metrics.jsonl").read_text().splitlines()]

    first, *_ = train("first", store_tokens=True)
    again, *_ = train("again", from_rollouts=str(tmp_path / "first"))
    (file,) = (tmp_path / "first/rollouts/tokens").iterdir()
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    assert all(row["trajectory"]["agent"] == "program" and len(row["others"]) >= 1 for row in rows)
    sampled = sum(sum(ledger["mask"]) for row in rows for ledger in (row["ledger"], *row["others"]))
    assert first["episode/sampled_tokens"] * 2 == sampled and "outcome/infra_error" not in first
    weights = [(tmp_path / out / "model/model.safetensors").read_bytes() for out in ("first", "again")]
    assert weights[0] == weights[1] and first["loss"] == again["loss"]


def test_a_recipe_whose_program_cannot_play_is_refused_by_its_key(tmp_path):
    def refused(command: str, names: tuple[str, ...] = (), **rlve: Any) -> str:
        agent = {"command": [command], "pass_env": names}
        recipe = {"homerl": 1, "run": "rlve", "model": {"name": "m"}, "agent": agent, "rlve": rlve}
        with pytest.raises(InputError) as error:
            refuse_untrainable(RLVERecipe.model_validate(recipe))
        return str(error.value)

    assert "there is no program no_such_program" in refused("no_such_program")
    assert "rlve.curriculum.prefix" in refused(sys.executable, curriculum={"prefix": {}})
    assert "agent.pass_env: the environment has no WEATHER_KEY" in refused(sys.executable, ("PATH", "WEATHER_KEY"))
