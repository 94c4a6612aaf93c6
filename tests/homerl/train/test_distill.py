"""Distillation: advantages by hand, that folder and server judge alike, and that a student comes nearer."""

import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from accelerate import Accelerator
from scripted_server import ScriptedServer

from homerl.app.runs.preflight import check_machine
from homerl.envs.core.documents import InputError
from homerl.play.replay import read_rows
from homerl.train.memory_estimate import count_recipe_model, estimate_training_memory, teacher_model_settings
from homerl.train.packing.packed_updates import TokenSequence
from homerl.train.packing.pass_budget import MemoryHeadroom
from homerl.train.recipe import DistillSettings, RLVERecipe
from homerl.train.tiny_model import TinyConfig, make_tiny_model
from homerl.train.update import rlve
from homerl.train.update.distillation import LocalTeacher, ServedTeacher, add_teacher_advantages, refuse_other_tokenizer
from homerl.train.update.objective import SampledTokens
from homerl.train.update.rlve import train_rlve

SIZES = {"hidden_size": 96, "layers": 3, "heads": 3, "kv_heads": 1, "head_dim": 32, "intermediate_size": 192}


def repeating(folder: Path, often: float) -> Path:
    """The model in the folder, with embeddings so spread that it says its last token again, the more `often`."""
    from transformers import AutoModelForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32)
    torch.manual_seed(1)
    with torch.no_grad():
        loaded.get_input_embeddings().weight.normal_(0, often)
    loaded.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def teacher(rows, tmp_path_factory) -> Path:
    """A larger model of the same data, and so with the same tokenizer."""
    folder = tmp_path_factory.mktemp("teacher")
    return repeating(make_tiny_model(rows, json.loads(rows[0]["tools"]), TinyConfig(**SIZES), 1, folder), 0.1)


@pytest.fixture(scope="module")
def loaded(teacher):
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(teacher, dtype=torch.float32).eval()


def plain(model, sequence: TokenSequence) -> list[float]:
    """The log-probabilities of the targets by one plain forward pass."""
    with torch.no_grad():
        logits = model(input_ids=torch.tensor(sequence.ids)[None]).logits[0].log_softmax(-1)
    return logits[sequence.targets - 1, sequence.ids[sequence.targets]].tolist()


class Judge(ScriptedServer):
    """A server that computes the log-probabilities of prompts, and answers as vLLM does to `echo`."""

    def __init__(self, model, tokenizer, echoes: bool = True) -> None:
        super().__init__()
        self.judge, self.tokenizer, self.echoes = model, tokenizer, echoes

    def _completion(self, request):
        assert request["echo"] and request["logprobs"] == 0 and request["return_token_ids"] and request["max_tokens"] == 1
        ids = np.array(request["prompt"])
        known = [None, *plain(self.judge, TokenSequence.from_ids(ids, np.arange(1, len(ids)))), -0.5]
        words = [*map(self.tokenizer.decode, ids), "more"]
        found = {"tokens": words, "token_logprobs": known, "text_offset": [0] * len(words), "top_logprobs": None}
        choice = {"index": 0, "text": "", "finish_reason": "length", "logprobs": found if self.echoes else None}
        return {"id": "1", "object": "text_completion", "created": 0, "model": "scripted", "choices": [choice]}


def tokens_of(advantages: list[float], counts: list[int]) -> SampledTokens:
    size = len(advantages)
    arrays = np.array(advantages), np.zeros(size), np.zeros(size, int)
    return SampledTokens((), np.cumsum([0, *counts]), *arrays)


def test_advantages_by_hand():
    """v A + w d; no gap where it is unknown, and none of a rollout that does not count."""
    tokens, settings = tokens_of([1.0, 1.0, -1.0, 2.0], [2, 1, 1]), DistillSettings(model="x", weight=0.5, reward=2.0)
    teacher, policy = np.array([-1.5, np.nan, -0.25, -9.0]), np.array([-1.0, -2.0, -0.75, -1.0])
    found, sums = add_teacher_advantages(tokens, [True, True, False], teacher, policy, settings)
    assert found.advantages.tolist() == [2 - 0.25, 2.0, -2 + 0.25, 4.0]
    assert sums.tolist() == [0.0, 2.0]  # -0.5 and +0.5
    cut, sums = add_teacher_advantages(tokens, [True] * 3, teacher, policy, settings.model_copy(update={"bound": 1.5}))
    assert cut.advantages.tolist() == [2 - 0.25, 2.0, -2 + 0.25, 4 - 0.75] and sums.tolist() == [-8.0, 3.0]
    alone, _ = add_teacher_advantages(tokens, [True] * 3, teacher, policy, settings.model_copy(update={"reward": 0.0}))
    assert alone.advantages.tolist() == [-0.25, 0.0, 0.25, -4.0]


def test_gaps_go_down_the_reverse_divergence():
    """Samples of the policy times ∇ log π give -∇ KL(policy ‖ teacher), of three tokens, exactly."""
    logits = torch.tensor([0.2, -0.4, 0.9], dtype=torch.float64, requires_grad=True)
    teacher, policy = torch.tensor([0.5, 0.1, 0.3], dtype=torch.float64).log_softmax(0), logits.log_softmax(0)
    found, _ = add_teacher_advantages(
        tokens_of([0.0] * 3, [3]), [True], teacher.numpy(), policy.detach().numpy(), DistillSettings(model="x")
    )
    pull = torch.tensor(found.advantages)
    (ours,) = torch.autograd.grad((policy.exp().detach() * pull * policy).sum(), logits, retain_graph=True)
    (wanted,) = torch.autograd.grad(-(policy.exp() * (policy - teacher)).sum(), logits)
    assert torch.allclose(ours, wanted, atol=1e-12)


def test_a_server_judges_as_a_plain_pass_does(loaded, tokenizer):
    ids = [tokenizer.encode(text, add_special_tokens=False) for text in ("turn on the lamp", "Done. Which one?", "hm")]
    sequences = [TokenSequence.from_ids(ids[0], np.array([2, 3])), TokenSequence.from_ids(ids[1], np.arange(1, len(ids[1])))]
    sequences.insert(1, TokenSequence.from_ids(ids[2], np.zeros(0, int)))
    with Judge(loaded, tokenizer) as server:
        found = ServedTeacher(server.url, "scripted", tokenizer).score_targets(sequences)
    assert found == pytest.approx(plain(loaded, sequences[0]) + plain(loaded, sequences[2]), abs=1e-5)


@pytest.fixture(scope="module")
def stranger(rows, tmp_path_factory) -> Path:
    """A model whose tokenizer has another word in the place of one."""
    folder = make_tiny_model(rows, json.loads(rows[0]["tools"]), TinyConfig(**SIZES), 1, tmp_path_factory.mktemp("stranger"))
    file = folder / "tokenizer.json"
    data = json.loads(file.read_text())
    vocabulary = data["model"]["vocab"]
    first, second = [word for word in vocabulary if word.isalpha() and len(word) == 1][:2]
    vocabulary[first], vocabulary[second] = vocabulary[second], vocabulary[first]
    file.write_text(json.dumps(data))
    return folder


def test_another_tokenizer_is_refused_by_name(teacher, stranger, loaded, tokenizer):
    from homerl.train.training_setup import load_chat_tokenizer

    refuse_other_tokenizer(str(teacher), tokenizer)
    with pytest.raises(InputError, match=r"rlve\.distill\.model: .*stranger.* has another tokenizer .*: 2 tokens differ"):
        refuse_other_tokenizer(str(stranger), tokenizer)
    with (
        Judge(loaded, load_chat_tokenizer(str(stranger))) as server,
        pytest.raises(InputError, match=rf"(?s)url: {server.url} has another tokenizer .*token \d+ is '\w', not"),
    ):
        ServedTeacher(server.url, "scripted", tokenizer)


def test_a_server_that_echoes_nothing_is_refused(loaded, tokenizer):
    with (
        Judge(loaded, tokenizer, echoes=False) as server,
        pytest.raises(InputError, match="no log-probabilities of a prompt"),
    ):
        ServedTeacher(server.url, "scripted", tokenizer)


@pytest.fixture
def recipe(tiny, task, tmp_path):
    student = repeating(shutil.copytree(tiny, tmp_path / "student"), 0.09)

    def make(out: str, distill: dict | None, **keys) -> RLVERecipe:
        return RLVERecipe.model_validate(
            {
                "homerl": 1, "run": "rlve", "cpu": True, "seed": 6, "out": tmp_path / out, "parallel": "none",
                "model": {"name": str(student), "dtype": "float32"}, "wandb": {"mode": "disabled"},
                "blueprints": {"recipe": task.model_dump(), "count": 16},
                "limits": {"turns": 3, "steps": 4, "steps_per_turn": 2},
                "rewards": {"audit": 0.0},  # an untrained model writes half a call now and then
                "sentinel": {"patience": 2},
                "rlve": {
                    "updates": 4, "blueprints_per_update": 2, "group": 4, "max_tokens": 12, "max_episode_tokens": 512,
                    "save_steps": None, "log_steps": 1, "learning_rate": 3e-3, "lr_scheduler": "constant", "warmup": 0.0,
                    "kl": 0.0, "curriculum": {"refill": 1}, "distill": distill, **keys,
                },
            }
        )  # fmt: skip

    return make


def metrics(folder: Path, name: str) -> list[float]:
    lines = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [line[name] for line in lines if name in line]


@pytest.fixture
def judged(monkeypatch) -> list:
    """What each update judged: the tokens after it, and the teacher's log-probabilities."""
    seen = []

    class Watched(rlve.RLVETrainer):
        def _add_teacher(self, tokens, known):
            taught = super()._add_teacher(tokens, known)
            logps = self.teacher.score_targets(tokens.sequences) if self.teacher else None
            seen.append((taught, logps, [one.trajectory.outcome.is_counted for one in self.batch_rollouts]))
            return taught

    monkeypatch.setattr(rlve, "RLVETrainer", Watched)
    return seen


@pytest.mark.parametrize(
    "keys",
    [
        pytest.param({}, marks=pytest.mark.long, id="whole"),
        pytest.param({"tokens_per_step": 300}, marks=pytest.mark.long, id="in passes"),
        pytest.param({"tokens_per_step": 300, "temperature": 0.8}, id="cooler, in passes"),
    ],
)
def test_a_folder_judges_as_a_plain_pass_does(recipe, teacher, loaded, judged, keys):
    train_rlve(recipe("run", {"model": str(teacher)}, updates=1, **keys))
    ((tokens, logps, counts),) = judged
    assert all(counts) and len(logps) > 50
    with torch.no_grad():
        cool = [loaded(input_ids=torch.tensor(s.ids)[None]).logits[0] / keys.get("temperature", 1) for s in tokens.sequences]
    wanted = [
        logits.log_softmax(-1)[s.targets - 1, s.ids[s.targets]] for logits, s in zip(cool, tokens.sequences, strict=True)
    ]
    assert logps == pytest.approx(torch.cat(wanted).numpy(), abs=1e-4)
    assert tokens.advantages == pytest.approx(logps - tokens.logps, abs=1e-6)  # the untrained policy earns nothing


def test_a_teacher_is_asked_in_passes_that_its_own_layers_allow(recipe, teacher, tokenizer):
    """It is larger than the policy, and is never trained."""
    settings = recipe("run", {"model": str(teacher)})
    trains, judges = (
        count_recipe_model(settings, 64, model).token
        for model in (None, teacher_model_settings(settings.model, str(teacher)))
    )
    headroom = MemoryHeadroom(settings.rlve, trains, 1e3 * judges.layer, cpu=False)
    updates = SimpleNamespace(accelerator=Accelerator(cpu=True), profiler=SimpleNamespace(headroom=headroom))
    made = LocalTeacher(str(teacher), settings, tokenizer, updates).passes.budget.without_gradients()
    assert made.most == 896 < headroom.make_budget().without_gradients().most  # nine tenths of 1,000, in steps of 128


def test_a_policy_that_earns_nothing_comes_nearer_to_its_teacher(recipe, teacher, judged):
    """No group varies, so none would teach: none is replaced, the sentinel stops nothing, and the divergence falls."""
    train_rlve(recipe("run", {"model": str(teacher), "reward": 0.0}, updates=6, learning_rate=1e-2))
    folder = recipe("run", None).out
    kl = metrics(folder, "distill/kl")
    assert len(kl) == 6 and kl[-1] < 0.85 * kl[0]
    assert metrics(folder, "curriculum/left_zero_variance") == [1.0] * 6, "some group varied: the test proves little"
    first = [row["id"] for row in read_rows(folder / "rollouts/update_000001.jsonl")]
    train_rlve(recipe("plain", None, updates=1, curriculum={"refill": 0}))
    assert first == [row["id"] for row in read_rows(recipe("plain", None).out / "rollouts/update_000001.jsonl")]


@pytest.mark.long  # a server and a folder are each compared with a plain pass
def test_a_server_teaches_as_its_folder_does(recipe, teacher, loaded, tokenizer, judged):
    train_rlve(recipe("folder", {"model": str(teacher), "weight": 0.5}, updates=1))
    with Judge(loaded, tokenizer) as server:
        train_rlve(recipe("server", {"url": server.url, "model": "scripted", "weight": 0.5}, updates=1))
    (one, *_), (other, *_) = judged
    assert one.advantages == pytest.approx(other.advantages, abs=1e-4) and one.advantages.any()


def test_recipes_name_a_teacher_and_the_machine_must_have_it(recipe, teacher, tmp_path):
    gone = "http://127.0.0.1:9/v1"
    for distill in ({}, {"url": gone}):
        with pytest.raises(ValueError, match="`model` is missing"):
            recipe("run", distill)
    with pytest.raises(ValueError, match="at temperature 1"):
        recipe("run", {"url": gone, "model": "a"}, temperature=0.8)
    for distill, what in (
        ({"model": str(tmp_path / "none")}, "no model folder"),
        ({"url": gone, "model": "a"}, f"the teacher at {gone} does not answer"),
    ):
        with pytest.raises(InputError, match=what):
            check_machine(recipe("run", distill), "mine.yaml")
    assert "teacher" in estimate_training_memory(recipe("run", {"model": str(teacher)}), 1).always
    named = recipe("run", {"model": "org/teacher-32B"})
    said = named.model_copy(update={"model": named.model.model_copy(update={"parameters": 0.6})})  # the policy's
    assert estimate_training_memory(said, 1).always["teacher"] == estimate_training_memory(named, 1).always["teacher"]
    assert "teacher" not in estimate_training_memory(recipe("run", {"url": gone, "model": "a"}), 1).always
