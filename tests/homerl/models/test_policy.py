"""The token ledger and the sampler: what was sampled is what is trained on, whatever the dialogue and the batch."""

import asyncio
import copy
import json
import os
from collections.abc import Sequence

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer
from tokenizers.models import BPE
from transformers import GenerationConfig, PreTrainedTokenizerFast

from homerl.envs.core.documents import InputError
from homerl.envs.core.messages import tool_call
from homerl.envs.homeenv.sim.toolsets.homeflow import pyexec_message
from homerl.envs.homeenv.tasks.author import make_home_blueprint
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.models.policy.chat_template import TOOLS, build_chat_template, encode_messages, render_new_messages
from homerl.models.policy.policy_agent import (
    GuestAgent,
    PolicyAgent,
    Sample,
    TokenLedger,
    agent_factory_for,
    encode_guest_prompt,
)
from homerl.models.policy.transformers_engine import TransformersEngine, fitting_tokens, left_pad
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.faults import InfraError
from homerl.play.loop import play
from homerl.play.situation import Observation, Utterance
from homerl.play.tool_call_parser import parse_reply
from homerl.play.trajectory import Outcome, Trajectory, read_rows, trajectory_from_row, trajectory_to_row, write_rows
from homerl.rewards.composite import RewardWeights
from homerl.train.data.rollout import RolloutPlayer
from homerl.train.tiny_model import PAD
from homerl.train.training_setup import load_chat_tokenizer
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

LONG = EpisodeLimits(turns=99, steps=99, steps_per_turn=99)


class Script:
    """An engine that samples what it is told: the ids of a text, and the end of the turn unless it is cut."""

    def __init__(self, tokenizer, *texts: str, cut: Sequence[int] = ()) -> None:
        self.tokenizer, self.texts, self.cut, self.said = tokenizer, texts, cut, 0

    async def sample(self, prompt: Sequence[int]) -> Sample:
        index, self.said = min(self.said, len(self.texts) - 1), self.said + 1
        ids = self.tokenizer.encode(self.texts[index], add_special_tokens=False)
        ids += [] if index in self.cut else [self.tokenizer.eos_token_id]
        return Sample(tuple(ids), tuple(-0.5 for _ in ids), version=7)


EMPTY = "<think>\n\n</think>\n\n"


class Speaks:
    """A user with a fixed list of utterances."""

    name = "speaks"

    def __init__(self, *texts: str) -> None:
        self.texts = list(texts)

    async def speak(self, episode: Episode) -> Utterance:
        return Utterance(self.texts.pop(0) if self.texts else "", episode.blueprint.intents[0].id)


@pytest.fixture(scope="module")
def blueprint(task) -> Blueprint:
    return make_home_blueprint(task, "train", 3)


@pytest.fixture(scope="module", params=[(False, False), (True, False), (True, True)], ids=["short", "with tools", "silent"])
def speaker(request, tokenizer):
    """The tiny tokenizer, with tool schemas left out of its template, with them in it, and with empty thoughts."""
    found = copy.deepcopy(tokenizer)
    found.chat_template = build_chat_template(*request.param)
    return found


def converse(
    tokenizer, blueprint, said: Sequence[str], heard: Sequence[str], cut=(), limits=LONG
) -> tuple[TokenLedger, Trajectory]:
    agent = PolicyAgent(Script(tokenizer, *said, cut=cut), tokenizer)
    return agent.ledger, asyncio.run(play(begin_episode(blueprint, limits), agent, Speaks(*heard)))


def spoken(tokenizer, message) -> str:
    """An assistant message as the template writes it."""
    text = tokenizer.apply_chat_template([{"role": "user", "content": ""}, message], tokenize=False)
    return text.partition("<|im_start|>assistant\n")[2].removeprefix(EMPTY).removesuffix("<|im_end|>\n")


def rendered(tokenizer, trajectory: Trajectory) -> tuple[list[int], list[int]]:
    """(ids, assistant mask) of the dialogue up to the assistant's last word."""
    last = max(i for i, message in enumerate(trajectory.messages) if message["role"] == "assistant")
    whole = tokenizer.apply_chat_template(
        list(trajectory.messages[: last + 1]),
        tools=list(trajectory.tools),
        tokenize=True,
        return_dict=True,
        return_assistant_tokens_mask=True,
    )
    newline = len(tokenizer.encode("\n"))
    return whole["input_ids"][:-newline], whole["assistant_masks"][:-newline]


def same_as_rendered(tokenizer, ledger: TokenLedger, trajectory: Trajectory) -> None:
    ids, mask = rendered(tokenizer, trajectory)
    assert ledger.ids == ids
    assert ledger.mask == mask
    assert len(ledger.spans) == len(trajectory.steps)
    assert [i for start, end in ledger.spans for i in range(start, end)] == [i for i, one in enumerate(mask) if one]
    assert [v for v, one in zip(ledger.versions, mask, strict=True) if one] == [7] * sum(mask)
    assert all(p == 0 for p, one in zip(ledger.logprobs, mask, strict=True) if not one)
    assert ledger.prompt_length == mask.index(1)


# The ledger is the dialogue


def test_the_ledger_of_every_synthesised_dialogue_is_its_rendering(speaker, trajectories):
    for stored in trajectories:
        said = [spoken(speaker, step.message) for step in stored.steps]
        heard = [message["content"] for message in stored.messages if message["role"] == "user"]
        blueprint = Blueprint.model_validate(stored.blueprint)
        ledger, played = converse(speaker, blueprint, said, heard)
        assert played.messages == stored.messages and played.outcome is Outcome.SUCCESS
        same_as_rendered(speaker, ledger, played)


def test_several_calls_words_refusals_and_turns(speaker, blueprint):
    did = blueprint.home["devices"][0]["did"]
    several = {
        "role": "assistant",
        "content": "Let me see.",
        "tool_calls": [
            tool_call("query_status", {"did": did}),
            tool_call("query_spec", {"did": "9999"}),
            tool_call("nothing", {}),
        ],
    }
    said = [
        spoken(speaker, several),
        spoken(speaker, pyexec_message(f'device("{did}").é“\\n\\\\"\nüñ(\t)')),
        "Which one?",
        '<tool_call>\n{"name": pyexec}\n</tool_call>',
        '<tool_call>\n{"name": "pyexec", "arguments": {"code": "',
        spoken(speaker, pyexec_message("import os")),
        "Two words\n\nand more 🙂.",
    ]
    ledger, played = converse(
        speaker, blueprint, said, ["do it", "this one", "no, that  one\n", "well?"], limits=EpisodeLimits(steps=7)
    )
    assert played.outcome is Outcome.STEP_LIMIT
    observed = [len(step.observations) for step in played.steps]
    assert observed == [3, 1, 0, 1, 1, 1, 0]
    assert [bool(step.facts.blocked) for step in played.steps] == [True, True, False, True, True, True, False]
    same_as_rendered(speaker, ledger, played)


TEXT = st.text(max_size=40).filter(lambda text: "<|" not in text)  # the template itself takes marks in words for marks


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=20)
@given(st.lists(TEXT, min_size=1, max_size=3), TEXT)
def test_any_words_of_the_user_keep_the_prefix(tokenizer, blueprint, heard, code):
    heard = [text + "." for text in heard]
    said = [spoken(tokenizer, pyexec_message(code)), "Done."]
    ledger, played = converse(tokenizer, blueprint, said, heard, limits=EpisodeLimits(turns=len(heard)))
    same_as_rendered(tokenizer, ledger, played)


def test_an_alien_template_is_refused(tokenizer):
    alien = copy.deepcopy(tokenizer)
    alien.chat_template = build_chat_template().replace("'<|im_start|>assistant\\n'", "'<|im_start|>assistant\\n<think>\\n'")
    with pytest.raises(ValueError, match="not homerl's training template"):
        render_new_messages(alien, [{"role": "user", "content": "and now?"}], (), first=False)


def test_a_models_own_template_and_end_give_way_to_ours(tokenizer, tmp_path):
    """As with a base model, whose end of text ends no turn, or with Qwen3's template, which drops what was thought."""
    stock = copy.deepcopy(tokenizer)
    stock.chat_template, stock.eos_token = "{{ messages[0].content }}", PAD
    stock.save_pretrained(tmp_path)
    loaded = load_chat_tokenizer(str(tmp_path))
    assert (loaded.eos_token, loaded.chat_template, loaded.eos_token_id) == (
        "<|im_end|>",
        build_chat_template(),
        tokenizer.eos_token_id,
    )


THINKING = """{%- for m in messages -%}<|im_start|>{{ m.role }}
{{ m.content }}{% for c in m.tool_calls or [] %}<tool_call>
{{ c.function | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor -%}
{%- if add_generation_prompt -%}<|im_start|>assistant
{% if enable_thinking is defined and not enable_thinking %}<think>

</think>

{% endif %}{%- endif -%}"""


@pytest.fixture
def guest(tokenizer, tmp_path):
    """The folder of a tokenizer whose template can switch thinking off, as Qwen3's can."""
    stock = copy.deepcopy(tokenizer)
    stock.chat_template = THINKING
    stock.save_pretrained(tmp_path)
    return str(tmp_path)


def test_a_model_that_can_think_is_trained_to_begin_after_an_empty_thought(guest):
    found = load_chat_tokenizer(guest)
    assert found.chat_template == build_chat_template(silent=True)
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": "Hello."}]
    assert found.apply_chat_template(messages, tokenize=False).endswith(f"<|im_start|>assistant\n{EMPTY}Hello.<|im_end|>\n")
    trained = found.apply_chat_template(messages, return_dict=True, return_assistant_tokens_mask=True)
    said = [i for i, kept in zip(trained["input_ids"], trained["assistant_masks"], strict=True) if kept]
    assert found.decode(said) == "Hello.<|im_end|>", "the thought is read and not learnt"


def test_a_model_that_homerl_did_not_train_is_asked_by_its_own_template(guest, blueprint):
    found = load_chat_tokenizer(guest, own=True)
    assert found.chat_template == THINKING and found.eos_token == "<|im_end|>"
    call = '<tool_call>\n{"name": "pyexec", "arguments": {"code": "x = 1"}}\n</tool_call>'
    asked: list[str] = []

    class Listens(Script):
        async def sample(self, prompt: Sequence[int]) -> Sample:
            asked.append(found.decode(prompt))
            return await super().sample(prompt)

    agent = agent_factory_for(Listens(found, f"<think>hm</think>\n{call}", "Done."), found)()
    assert isinstance(agent, GuestAgent)
    played = asyncio.run(
        play(begin_episode(blueprint, EpisodeLimits(turns=1, steps=9, steps_per_turn=9)), agent, Speaks("do it"))
    )
    assert [step.message["content"] for step in played.steps] == ["", "Done."] and played.steps[0].facts.code == "x = 1"
    assert all(text.endswith(f"<|im_start|>assistant\n{EMPTY}") for text in asked)
    assert "<think>hm" not in asked[1] and '"arguments": {"code": "x = 1"}' in asked[1], "an object, not a quoted text"


@pytest.mark.parametrize("one_answer", [False, True])
def test_a_guest_that_gives_one_answer_is_told_of_no_tools(tokenizer, one_answer):
    stock = copy.deepcopy(tokenizer)
    stock.chat_template = "{% for tool in tools or () %}[{{ tool.function.name }}]{% endfor %}{{ messages[0].content }}"
    tools = ({"type": "function", "function": {"name": "answer", "parameters": {"type": "object"}}},)
    seen = Observation("b", ({"role": "system", "content": "Answer."},), tools, one_answer)
    assert stock.decode(encode_guest_prompt(stock, seen)) == ("Answer." if one_answer else "[answer]Answer.")


def test_a_model_that_homerl_trained_is_asked_as_it_was_trained(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    assert isinstance(
        agent_factory_for(Script(tokenizer, "hi"), load_chat_tokenizer(str(tmp_path), own=True))(), PolicyAgent
    )


def test_a_prompt_may_show_the_names_of_tools_alone(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    (tmp_path / "chat_template.jinja").unlink()
    named = load_chat_tokenizer(str(tmp_path), named=True)
    assert named.chat_template == build_chat_template(named=True) == load_again(named, tmp_path).chat_template
    text = named.apply_chat_template([{"role": "system", "content": "You run a home."}], tools=TOOLS, tokenize=False)
    assert "<tools>\nset_lamp\n</tools>" in text and "Sets a lamp" not in text and "JSON object" in text


def load_again(tokenizer, folder):
    tokenizer.save_pretrained(folder)
    return load_chat_tokenizer(str(folder))


def test_names_of_tools_alone_need_chatml(tmp_path):
    plain = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE()), eos_token="</s>")
    plain.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"only ChatML shows names of tools alone"):
        load_chat_tokenizer(str(tmp_path), named=True)


def test_a_template_of_ours_stays_as_it_was_saved(tokenizer, tmp_path):
    tokenizer.save_pretrained(tmp_path)
    assert (
        load_chat_tokenizer(str(tmp_path)).chat_template == tokenizer.chat_template == build_chat_template(show_tools=False)
    )


@pytest.mark.parametrize("end", ["</s>", None])
def test_a_tokenizer_that_no_template_can_be_written_in_is_refused(tmp_path, end):
    alien = PreTrainedTokenizerFast(tokenizer_object=Tokenizer(BPE()), eos_token=end)
    alien.save_pretrained(tmp_path)
    with pytest.raises(InputError, match=r"no <\|im_end\|>, .*template.*\n.*ChatML"):
        load_chat_tokenizer(str(tmp_path))


# Masks


def test_a_cut_turn_gets_a_masked_end(tokenizer, blueprint):
    ledger, _ = converse(
        tokenizer, blueprint, ["I would like", "Done."], ["one", "two"], cut=[0], limits=EpisodeLimits(turns=2)
    )
    end = tokenizer.eos_token_id
    (start, stop), (again, last) = ledger.spans
    assert tokenizer.decode(ledger.ids[start:stop]) == "I would like"
    assert (ledger.ids[stop], ledger.mask[stop], ledger.logprobs[stop], ledger.versions[stop]) == (end, 0, 0.0, -1)
    assert ledger.ids[last - 1] == end and ledger.mask[last - 1] == 1 and last == len(ledger.ids)
    assert sum(ledger.mask) == (stop - start) + (last - again)
    assert tokenizer.decode(ledger.ids[stop:again]) == "<|im_end|>\n<|im_start|>user\ntwo<|im_end|>\n<|im_start|>assistant\n"


def test_a_turn_cut_at_the_very_end_still_ends(tokenizer, blueprint):
    ledger, _ = converse(tokenizer, blueprint, ["I would"], ["one"], cut=[0], limits=EpisodeLimits(turns=1))
    assert (ledger.ids[-1], ledger.mask[-1]) == (tokenizer.eos_token_id, 0) and ledger.spans[-1][1] == len(ledger.ids) - 1


def test_an_empty_reply_is_its_end_alone(tokenizer, blueprint):
    ledger, played = converse(tokenizer, blueprint, [""], ["one", "two"], limits=EpisodeLimits(turns=2))
    assert [ledger.ids[start:end] for start, end in ledger.spans] == [[tokenizer.eos_token_id]] * 2
    assert sum(ledger.mask) == 2 and [step.message["content"] for step in played.steps] == ["", ""]
    same_as_rendered(tokenizer, ledger, played)


def test_a_dialogue_that_outgrows_its_limit_ends_on_a_whole_turn(tokenizer, blueprint):
    agent = PolicyAgent(Script(tokenizer, "no " * 30), tokenizer, max_tokens=150)
    played = asyncio.run(play(begin_episode(blueprint, LONG), agent, Speaks(*["yes?"] * 50)))
    assert played.outcome is Outcome.AGENT_FAILURE and played.steps[-1].facts.last
    assert len(agent.ledger.spans) == len(played.steps) >= 1
    assert agent.ledger.ids[-1] == tokenizer.eos_token_id and agent.ledger.mask[-1] == 1
    assert agent.ledger.spans[-1][0] < 150


def test_a_first_prompt_that_is_too_long_is_not_the_policys_fault(tokenizer, blueprint):
    """Nor does it reach the engine, which may take no prompt so long."""
    player = RolloutPlayer(Fails(), tokenizer, ScriptedUser, LONG, RewardWeights(), 10)
    [rollout] = player.play_blueprints([blueprint], [1])
    assert rollout.trajectory.outcome is Outcome.INFRA_ERROR
    assert "the first prompt has" in rollout.trajectory.fault.reason


class NoUser:
    """A user whose server is gone."""

    name = "nobody"

    def __init__(self, seed: int) -> None:
        self.seed = seed

    async def speak(self, episode: Episode) -> Utterance:
        raise InfraError("gone")


class Fails:
    """An engine whose server is gone."""

    async def sample(self, prompt: Sequence[int]) -> Sample:
        raise InfraError("gone")


@pytest.mark.parametrize("make_user", [NoUser, ScriptedUser])
def test_an_episode_without_a_word_of_the_policy_still_has_a_prompt_and_a_completion(tokenizer, blueprint, make_user):
    player = RolloutPlayer(Fails(), tokenizer, make_user, LONG, RewardWeights(), 512)
    [rollout] = player.play_blueprints([blueprint], [1])
    ledger = rollout.ledger
    assert rollout.trajectory.outcome is Outcome.INFRA_ERROR and rollout.rewards_by_step == []
    assert ledger.ids[ledger.prompt_length :] == [tokenizer.eos_token_id] and ledger.prompt_length > 0
    assert not any(ledger.mask) and len(ledger.ids) == len(ledger.mask) == len(ledger.logprobs) == len(ledger.versions)


def test_ids_of_single_messages_are_those_of_the_dialogue(tokenizer, trajectories):
    for stored in trajectories[:8]:
        text = tokenizer.apply_chat_template(list(stored.messages), tools=list(stored.tools), tokenize=False)
        assert encode_messages(tokenizer, text) == tokenizer.encode(text, add_special_tokens=False)


def test_rollouts_in_forks_of_one_world_are_those_in_worlds_of_their_own(model, tokenizer, task):
    """A group shares its blueprint, whose world is made once."""
    found = []
    for blueprints in (
        [make_home_blueprint(task, "train", 2)] * 4,
        [make_home_blueprint(task, "train", 2) for _ in range(4)],
    ):
        torch.manual_seed(0)
        limits = EpisodeLimits(turns=2, steps=4)
        player = RolloutPlayer(
            TransformersEngine(model, tokenizer, 24), tokenizer, ScriptedUser, limits, RewardWeights(), 2048
        )
        played = player.play_blueprints(blueprints, list(range(4)))
        found.append([(trajectory_to_row(one.trajectory), one.ledger) for one in played])
    assert found[0] == found[1]


# The sampler


def prompts(tokenizer, trajectories, count: int = 6) -> list[list[int]]:
    """Prompts of different lengths."""
    found = []
    for i, stored in enumerate(trajectories[:count]):
        messages = [*stored.messages[:2], {"role": "user", "content": "please " * (3 * i)}]
        found.append(tokenizer.encode(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)))
    assert len({len(prompt) for prompt in found}) == count
    return found


def sample(engine: TransformersEngine, *some: Sequence[int]) -> list[Sample]:
    async def all_of_them() -> list[Sample]:
        return list(await asyncio.gather(*map(engine.sample, some)))

    return asyncio.run(all_of_them())


def forward(model, prompt: Sequence[int], ids: Sequence[int], temperature: float = 1.0) -> torch.Tensor:
    """Log-probabilities of `ids` after `prompt`, by one plain pass."""
    with torch.no_grad():
        logits = model(torch.tensor([[*prompt, *ids]])).logits[0, len(prompt) - 1 : -1].float() / temperature
    return torch.log_softmax(logits, -1)[torch.arange(len(ids)), torch.tensor(ids)]


@pytest.mark.parametrize("temperature", [1.0, 0.7, 0.0])
def test_log_probabilities_are_a_plain_forwards(model, tokenizer, trajectories, temperature):
    torch.manual_seed(5)
    asked = prompts(tokenizer, trajectories)
    for prompt, found in zip(asked, sample(TransformersEngine(model, tokenizer, 12, temperature), *asked), strict=True):
        assert len(found.ids) == len(found.logprobs) and 1 <= len(found.ids) <= 12
        expected = forward(model, prompt, found.ids, temperature or 1.0)
        torch.testing.assert_close(torch.tensor(found.logprobs), expected, atol=1e-5, rtol=0)


def test_greedy_samples_do_not_depend_on_the_batch(model, tokenizer, trajectories):
    asked = prompts(tokenizer, trajectories)
    alone = [sample(TransformersEngine(model, tokenizer, 16, 0.0), prompt)[0].ids for prompt in asked]
    together = sample(TransformersEngine(model, tokenizer, 16, 0.0), *asked)
    by_two = sample(TransformersEngine(model, tokenizer, 16, 0.0, batch=2), *reversed(asked))
    assert [found.ids for found in together] == alone == [found.ids for found in reversed(by_two)]
    assert len(set(alone)) > 1


def test_a_sample_ends_with_its_first_end(model, tokenizer, trajectories):
    torch.manual_seed(1)
    end = tokenizer.eos_token_id
    biased = copy.deepcopy(model)
    with torch.no_grad():
        biased.lm_head.weight = torch.nn.Parameter(biased.lm_head.weight * 0.01)
    found = sample(TransformersEngine(biased, tokenizer, 100), *prompts(tokenizer, trajectories) * 4)
    assert any(one.ids[-1] == end for one in found)
    assert all(end not in one.ids[:-1] and len(one.ids) == len(one.logprobs) for one in found)
    assert all(one.ids[-1] == end or len(one.ids) == 100 for one in found)


def test_a_models_own_generation_config_is_left_out_and_left_alone(model, tokenizer, trajectories):
    own = GenerationConfig(
        repetition_penalty=5.0, top_k=1, no_repeat_ngram_size=1, min_p=0.5, temperature=0.1, do_sample=True
    )
    fussy = copy.deepcopy(model)
    fussy.generation_config = own
    asked = prompts(tokenizer, trajectories)
    seen = []
    for one in (model, fussy):
        torch.manual_seed(9)
        one.train()
        seen.append(sample(TransformersEngine(one, tokenizer, 12), *asked))
        assert one.training
        one.eval()
    assert seen[0] == seen[1] and fussy.generation_config is own


def test_what_is_sampled_depends_on_the_seed_alone(model, tokenizer, trajectories):
    asked = prompts(tokenizer, trajectories)
    seen = []
    for seed in (3, 3, 4):
        torch.manual_seed(seed)
        seen.append(sample(TransformersEngine(model, tokenizer, 8, version=2), *asked))
    assert seen[0] == seen[1] != seen[2] and seen[0][0].version == 2


def test_a_failing_model_fails_everyone_who_waits(model, tokenizer):
    engine = TransformersEngine(model, tokenizer, 4)
    engine._generate = lambda some: 1 / 0
    with pytest.raises(ZeroDivisionError):
        sample(engine, [1, 2], [3])


def short_of_memory(model, above: int, error: str = "CUDA out of memory. Tried"):
    """A copy of the model that has no memory for more tokens than `above`, in its cache and this pass together."""
    short, asked = copy.deepcopy(model), []

    def check(module, arguments, keywords):
        rows, new = keywords["input_ids"].shape
        held = rows * keywords["past_key_values"].get_seq_length()
        asked.append((rows, new))
        torch.rand(3)  # what a pass may draw before it fails
        if held + rows * new > above:
            raise torch.OutOfMemoryError(f"{error} to allocate {held + rows * new} GiB.")

    short.register_forward_pre_hook(check, with_kwargs=True)
    return short, asked


@pytest.mark.parametrize(  # test_workarounds.py knows both
    "error",
    [
        "CUDA out of memory. Tried",
        pytest.param("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when trying", marks=pytest.mark.long),
    ],
)
def test_no_rollout_is_lost_when_memory_runs_out(model, tokenizer, trajectories, caplog, error):
    """Halved until it fits, in the cache or in the pass over the prompts, and smaller from then on."""
    asked = prompts(tokenizer, trajectories)
    longest = max(map(len, asked))
    short, passes = short_of_memory(model, 2 * (longest + 12), error)
    engine = TransformersEngine(short, tokenizer, 12, 0.0)
    plain = sample(TransformersEngine(model, tokenizer, 12, 0.0), *asked)
    assert [found.ids for found in sample(engine, *asked)] == [found.ids for found in plain]
    assert "sampling ran out of memory on 6 prompts" in caplog.text and f"at most {engine.tokens} tokens" in caplog.text
    passes.clear()
    warned = len(caplog.records)
    sample(engine, *asked)
    assert max(rows for rows, _ in passes) < 6 and len(caplog.records) == warned, "it keeps to what fits"


def test_a_batch_that_failed_leaves_no_trace_in_the_random_numbers(model, tokenizer, trajectories):
    asked = prompts(tokenizer, trajectories)
    above = 3 * max(map(len, asked))
    engine = TransformersEngine(short_of_memory(model, above)[0], tokenizer, 8)
    torch.manual_seed(4)
    found = sample(engine, *asked)
    settled = TransformersEngine(short_of_memory(model, above=10**9)[0], tokenizer, 8, tokens=engine.tokens)
    settled.prefill = engine.prefill
    torch.manual_seed(4)
    assert engine.tokens < above and sample(settled, *asked) == found


def test_memory_for_not_even_one_prompt_is_an_error(model, tokenizer):
    short, _ = short_of_memory(model, above=2)
    with pytest.raises(torch.OutOfMemoryError):
        sample(TransformersEngine(short, tokenizer, 4), [5, 6, 7], [5, 6, 7, 8])


@pytest.mark.parametrize(("tokens", "most"), [(1, 1), (60, 2), (10**9, 4)])
def test_a_batch_keeps_to_its_budget_of_tokens(model, tokenizer, tokens, most):
    watched, passes = short_of_memory(model, above=10**9)
    engine = TransformersEngine(watched, tokenizer, 4, batch=4, tokens=tokens)
    sample(engine, *([5] * length for length in (20, 21, 22, 23) * 2))
    assert max(rows for rows, _ in passes) == most


def test_prompts_are_read_in_pieces_where_they_are_long(model, tokenizer, trajectories):
    asked = prompts(tokenizer, trajectories)
    watched, passes = short_of_memory(model, above=10**9)
    engine = TransformersEngine(watched, tokenizer, 12, 1.0)
    engine.prefill = 60
    for prompt, found in zip(asked, sample(engine, *asked), strict=True):
        expected = forward(model, prompt, found.ids)
        torch.testing.assert_close(torch.tensor(found.logprobs), expected, atol=1e-5, rtol=0)
    assert max(rows * new for rows, new in passes) <= 60


def test_the_budget_is_a_share_of_the_devices_memory(model):
    config = model.config
    token = 2 * config.num_hidden_layers * config.num_key_value_heads * config.head_dim * 4
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert fitting_tokens(model) == pytest.approx(memory / 4 / token, rel=1e-3)


def test_left_pad():
    ids, attention = left_pad([[5], [6, 7, 8]], 0, "cpu")
    assert ids.tolist() == [[0, 0, 5], [6, 7, 8]] and attention.tolist() == [[0, 0, 1], [1, 1, 1]]


# Whatever is sampled can be played, stored and read again

JUNK = st.one_of(
    st.text(max_size=60),
    st.recursive(
        st.none() | st.booleans() | st.floats() | st.integers() | st.text(max_size=8),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
        max_leaves=6,
    ).map(json.dumps),
    st.fixed_dictionaries(
        {},
        optional={
            "name": st.sampled_from(["pyexec", "query_spec", "nothing", "", "step"]),
            "arguments": st.dictionaries(
                st.sampled_from(["code", "did", "name", "self", ""]),
                st.none() | st.integers() | st.text(max_size=12) | st.lists(st.text(max_size=3)),
                max_size=3,
            ),
        },
    ).map(json.dumps),
)
FRAMES = st.sampled_from(
    [
        "<tool_call>{}</tool_call>",
        "<tool_call>\n{}\n",
        "{}</tool_call>",
        "so <tool_call>{}</tool_call> and {}",
        "{}",
        "<tool_call><tool_call>{}</tool_call></tool_call>",
        "<tool_call>{}</tool_call>\n<tool_call>{}</tool_call>",
    ]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], deadline=None, max_examples=80)
@given(FRAMES, JUNK, JUNK)
def test_no_sampled_text_raises(tokenizer, blueprint, frame, one, other):
    text = frame.replace("{}", one, 1).replace("{}", other)
    ledger, played = converse(tokenizer, blueprint, [text, "Done."], ["go"], limits=EpisodeLimits(turns=1, steps=2))
    assert played.outcome.is_counted
    assert trajectory_from_row(json.loads(json.dumps(trajectory_to_row(played)))) == played
    assert ledger.mask.count(1) == sum(end - start for start, end in ledger.spans)


def call(name: str, arguments: str) -> str:
    return f'<tool_call>{{"name": {name}, "arguments": {arguments}}}</tool_call>'


@pytest.mark.parametrize(
    "text",
    [
        call('"pyexec"', '{"code": "' + "\\u0000" + '"}'),
        call('"pyexec"', '{"code": 3}'),
        call('"pyexec"', '{"code": NaN}'),
        call('"pyexec"', '{"code": "' + "(" * 5000 + '"}'),
        call('"pyexec"', '"' + "{" * 10 + '"'),
        call('"pyexec"', "[" * 100_000),
        call('"query_status"', '{"did": {"did": []}}'),
        call('"query_status"', "{}"),
        call('"fork"', "{}"),
        pytest.param(call('"pyexec"', '{"code": ' + "9" * 5000 + "}"), id="number without end"),
        pytest.param(call("5", "{}"), id="a number for a name"),
        pytest.param(call('["pyexec"]', "{}"), id="a list for a name"),
        pytest.param(call("null", "{}"), id="no name"),
        pytest.param(call('"pyexec"', '{"code": "x = \\"\\ud800\\""}'), id="half a character in code"),
        pytest.param(call('"query_spec"', '{"did": "\\udfff"}'), id="half a character in an id"),
        pytest.param(call('"\\ud800"', "{}"), id="half a character in a name"),
    ],
)
def test_hostile_calls_are_refused_and_kept(tokenizer, blueprint, tmp_path, text):
    _, played = converse(tokenizer, blueprint, [text, "Done."], ["go"], limits=EpisodeLimits(turns=1, steps=2))
    assert played.steps[0].facts.blocked or played.steps[0].facts.error
    tokenizer.apply_chat_template([_plain(message) for message in played.messages], tokenize=True)
    write_rows(tmp_path / "rows.jsonl", [trajectory_to_row(played)])
    assert trajectory_from_row(next(read_rows(tmp_path / "rows.jsonl"))) == played


def _plain(message):
    return {"content": "", **message}


def test_parse_reply_and_the_template_are_inverse(tokenizer, trajectories):
    for stored in trajectories:
        for step in stored.steps:
            reply = parse_reply(spoken(tokenizer, step.message))
            message = reply.message
            assert reply.malformed is None
            assert {**message, "tool_calls": message.get("tool_calls", [])} == {
                "role": "assistant",
                "content": step.message["content"],
                "tool_calls": step.message.get("tool_calls", []),
            }


def test_tools_are_shown_to_a_dialogue_that_begins_with_the_user(tokenizer):
    """As clients of a served model send it: homerl's template writes tools into the system message."""
    shown = copy.deepcopy(tokenizer)
    shown.chat_template = build_chat_template()
    asked = [{"role": "user", "content": "lamp to half"}]
    with_system = [{"role": "system", "content": ""}, *asked]
    written = render_new_messages(shown, asked, TOOLS, first=True)
    assert written == render_new_messages(shown, with_system, TOOLS, first=True) and "Sets a lamp." in written
    assert "system" not in render_new_messages(shown, asked, [], first=True)
