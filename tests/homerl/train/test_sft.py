"""SFT: the loss falls on what the assistant said and on nothing else, no dialogue is cut, and something is learned."""

import asyncio
import itertools
import json
import math
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import InputError
from homerl.models.policy.chat_template import IM_END
from homerl.play.trajectory import find_unlearnt_messages, write_rows
from homerl.synth.blueprint_synthesis import BlueprintSynthesiser
from homerl.synth.mcts import SearchConfig
from homerl.synth.recipe import SynthesisConfig
from homerl.train.data.sft_dialogues import (
    RankBatches,
    RankBatchSampler,
    balance_over_ranks,
    count_map_processes,
    label_learnt_tokens,
    load_dialogues,
    number_homes,
    tokenize_dialogues,
)
from homerl.train.memory_estimate import estimate_training_memory
from homerl.train.packing.packed_updates import IGNORE_INDEX
from homerl.train.recipe import SFTRecipe
from homerl.train.tiny_model import TinyConfig, make_tokenizer
from homerl.train.update import sft
from homerl.train.update.held_out_loss import split_held_out
from homerl.train.update.sft import make_token_sequence, train_sft
from homerl.train.watch.lost_signal import SignalLost
from homerl.worlds.contract import ExpertConfig

SIZES = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
SETTINGS = {
    "learning_rate": 5e-3,
    "dialogues_per_update": 4,
    "max_steps": 1,
    "max_length": 1024,
    "save_steps": 1000,
    "log_steps": 1,
    "warmup": 0.0,
    "lr_scheduler": "constant",
}


@pytest.fixture
def recipe(dialogues, tmp_path) -> Callable[..., SFTRecipe]:
    def make(out: str = "run", data: Path = dialogues, model: dict[str, Any] | None = None, **settings: Any) -> SFTRecipe:
        return SFTRecipe.model_validate(
            {
                "homerl": 1,
                "run": "sft",
                "cpu": True,
                "parallel": "none",
                "out": tmp_path / out,
                "data": str(data),
                "model": model or {"dtype": "float32", "from_scratch": SIZES},
                "wandb": {"mode": "disabled"},
                "sft": SETTINGS | settings,
            }
        )

    return make


@pytest.fixture
def trainers(monkeypatch) -> list[Any]:
    """Every trainer that `train_sft` makes."""
    made: list[Any] = []

    class Watched(sft.PackedSFTTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(sft, "PackedSFTTrainer", Watched)
    return made


def losses(out: Path) -> list[float]:
    lines = [json.loads(line) for line in (out / "metrics.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "loss" in line]


def spoken(row: dict[str, Any], tokenizer: Any) -> str:
    """What the assistant said in a dialogue, as it is to say it."""
    text = ""
    for message in row["messages"]:
        if message["role"] == "assistant":
            whole = tokenizer.apply_chat_template([{"role": "user", "content": ""}, message], tokenize=False)
            text += whole.partition("<|im_start|>assistant\n")[2].removesuffix("\n")
    return text


def test_a_model_from_scratch_learns_rows_whose_messages_have_calls_only_if_they_call(recipe, tmp_path):
    tools = [{"type": "function", "function": {"name": "set_lamp", "parameters": {"properties": {"share": {}}}}}]
    lines = []
    for share in range(8):
        calls = [{"id": "1", "type": "function", "function": {"name": "set_lamp", "arguments": f'{{"share": {share}}}'}}]
        messages = [
            {"role": "user", "content": f"lamp to {share}"},
            {"role": "assistant", "content": None, "tool_calls": calls},
            {"role": "tool", "tool_call_id": "1", "content": "ok"},
            {"role": "assistant", "content": f"It is at {share}."},
        ]
        lines.append(json.dumps({"messages": messages, "tools": json.dumps(tools)}) + "\n")
    data = tmp_path / "rows.jsonl"
    data.write_text("".join(lines))
    train_sft(recipe(data=data))
    assert losses(tmp_path / "run")


def test_the_loss_falls_on_assistant_tokens_alone(recipe, rows, tokenizer, trainers):
    """And on all of them, though the longest dialogue is as long as is allowed."""
    lengths = [len(tokenizer.apply_chat_template(row["messages"], tokenize=True)["input_ids"]) for row in rows]
    train_sft(recipe(in_order=True, max_length=max(lengths)))
    [trainer] = trainers
    tokenizer = trainer.processing_class
    texts = sorted(spoken(row, tokenizer) for row in rows)
    learned = []
    for dialogue in trainer.train_dataset:
        whole, sequence = np.array(dialogue["input_ids"]), make_token_sequence(dialogue)
        assert list(sequence.ids) == whole[: len(sequence.ids)].tolist()
        assert all(label == IGNORE_INDEX for label in dialogue["labels"][len(sequence.ids) :])
        learned.append(tokenizer.decode(whole[sequence.targets]))
        assert tokenizer.decode(whole).startswith("<|im_start|>system\n")
    assert sorted(learned) == texts
    assert all(text.endswith(IM_END) and "<tool_response>" not in text for text in learned)


def test_several_processes_tokenize_as_one_does(dialogues, rows, tokenizer, monkeypatch):
    monkeypatch.setattr("datasets.fingerprint._CACHING_ENABLED", False)  # else the second would be the first's

    def made(few: int) -> list[dict[str, Any]]:
        monkeypatch.setattr("homerl.train.data.sft_dialogues.FEW", few)
        monkeypatch.setattr("os.cpu_count", lambda: 3)
        assert count_map_processes(rows) == (3 if few == 1 else None)
        return list(tokenize_dialogues(load_dialogues(str(dialogues)), tokenizer, "assistant", str(dialogues)))

    alone, several = made(1000), made(1)
    assert alone == several and len(alone) > 3
    assert all(row["length"] == len(row["input_ids"]) == len(row["labels"]) for row in alone)


def test_a_dialogue_that_the_chat_template_cannot_write_is_named_by_its_line(rows, tokenizer, tmp_path):
    spoilt = tmp_path / "spoilt.jsonl"
    said = [{**m, "content": "never" if m["role"] == "user" else m["content"]} for m in rows[1]["messages"]]
    write_rows(spoilt, [rows[0], {**rows[1], "messages": said}])
    told, refusing = load_dialogues(str(spoilt)), deepcopy(tokenizer)
    refused = "{% for m in messages %}{% if m.content == 'never' %}{{ raise_exception('no such role') }}{% endif %}"
    refusing.chat_template = refused + "{% endfor %}" + tokenizer.chat_template
    with pytest.raises(InputError) as caught:
        tokenize_dialogues(told, refusing, "assistant", str(spoilt))
    assert caught.value.where == f"{spoilt}:2" and "no such role" in caught.value.what


EARLIER = [("user", "turn on the lamp"), ("assistant", "Certainly, it is done.")]


@pytest.mark.parametrize("loss_on", ["assistant", pytest.param("all", marks=pytest.mark.long)])
def test_what_was_said_before_the_dialogue_is_not_learnt(rows, tokenizer, tmp_path, loss_on):
    """An earlier "Done." has no calls: learnt, it would teach to promise and not to act."""
    earlier = [{"role": role, "content": said, "tool_calls": [], "tool_call_id": ""} for role, said in EARLIER]
    told = [{**row, "messages": [row["messages"][0], *earlier, *row["messages"][1:]]} for row in rows[:8]]
    data = tmp_path / "told"
    data.mkdir()
    write_rows(data / "trajectories.jsonl", [*told, *rows[8:]])
    dialogues = tokenize_dialogues(load_dialogues(str(data)), tokenizer, loss_on, str(data))  # which `train_sft` trains on
    for row, dialogue in zip([*told, *rows[8:]], dialogues.with_format("numpy"), strict=True):
        sequence = make_token_sequence(dialogue)
        learnt = tokenizer.decode(np.array(dialogue["input_ids"])[sequence.targets])
        assert "Certainly" not in learnt and learnt.endswith(IM_END)
        assert ("turn on the lamp" in learnt) == (loss_on == "all" and row in told)
        if loss_on == "assistant":
            assert learnt == spoken({"messages": row["messages"][3 * (row in told) :]}, tokenizer)


@pytest.mark.parametrize("loss_on", [pytest.param("assistant", marks=pytest.mark.long), "all"])
def test_a_refused_message_is_not_learnt_but_what_put_it_right(recipe, task, trainers, tmp_path, loss_on):
    """The refusal itself is the tools', and so learnt with `all` alone; without its text, as in M1, nobody knows of it."""
    config = SynthesisConfig(
        recipe=task, expert=ExpertConfig(mistakes=0.4), search=SearchConfig(recoveries=1.0), per_blueprint=1
    )
    made = asyncio.run(rows_of(config, 12))
    kept = [(row, find_unlearnt_messages(row)) for row in made]
    assert len(made) > 8 and sum(map(bool, (unlearnt for _, unlearnt in kept))) > len(made) / 4
    write_rows(tmp_path / "trajectories.jsonl", made)
    train_sft(recipe(data=tmp_path, in_order=True, loss_on=loss_on))
    [trainer] = trainers
    for (row, unlearnt), dialogue in zip(kept, trainer.train_dataset, strict=True):
        said = [message for message in row["messages"] if message["role"] == "assistant"]
        right = [message for number, message in enumerate(said) if number not in unlearnt]
        sequence = make_token_sequence(dialogue)
        learnt = trainer.processing_class.decode(np.array(dialogue["input_ids"])[sequence.targets])
        if loss_on == "assistant":
            assert learnt == spoken({"messages": right}, trainer.processing_class)
        else:
            assert learnt.count("<tool_call>") == len([message for message in right if message["tool_calls"]])
            assert ("refused" in learnt) == any("refused" in m["content"] for m in row["messages"] if m["role"] == "tool")
        silent = [{**m, "content": "ok"} if m["role"] == "tool" else m for m in row["messages"]]
        assert find_unlearnt_messages({**row, "messages": silent}) == []


async def rows_of(config, blueprints):
    """The rows of a synthesis of the first blueprints."""
    return [
        row for index in range(blueprints) for row in (await BlueprintSynthesiser(config).synthesise_blueprint(index)).rows
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=8), st.data())
def test_labels_fall_on_all_messages_but_those_that_are_not_to_be_learnt(sizes, data):
    """Messages of the assistant, of these sizes, each after one token of others."""
    unlearnt = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=len(sizes) - 1, unique=True))
    number = np.repeat(np.arange(len(sizes)), [size + 1 for size in sizes])
    said = np.concatenate([[False] + [True] * size for size in sizes])
    ids = np.arange(len(said))

    last = max(set(range(len(sizes))) - set(unlearnt))

    def learnt(loss_on):
        labels = np.array(label_learnt_tokens(ids, said, unlearnt, loss_on))
        assert set(labels - ids) <= {0} | set(IGNORE_INDEX - ids)
        return (labels != IGNORE_INDEX).tolist()

    assert learnt("assistant") == (said & ~np.isin(number, unlearnt)).tolist()
    assert learnt("all") == ((~said | ~np.isin(number, unlearnt)) & (number <= last)).tolist()


def test_a_dialogue_over_the_limit_is_refused_by_name(recipe, rows, tokenizer):
    lengths = [len(tokenizer.apply_chat_template(row["messages"], tokenize=True)["input_ids"]) for row in rows]
    longest = max(lengths)
    number = lengths.index(longest) + 1
    made = recipe(max_length=longest - 1)
    with pytest.raises(InputError, match=f"trajectories.jsonl:{number}: .*{longest} tokens.*sft.max_length {longest - 1}"):
        train_sft(made)
    assert not (made.out / "model").exists() and not (made.out / "checkpoints").exists()


@pytest.mark.parametrize("loss_on", ["assistant", "all"])
def test_a_dialogue_in_which_the_assistant_says_nothing_is_refused_by_name(recipe, rows, tmp_path, loss_on):
    silent = {**rows[3], "messages": [message for message in rows[3]["messages"] if message["role"] in ("system", "user")]}
    write_rows(tmp_path / "trajectories.jsonl", [*rows[:3], silent, *rows[4:]])
    with pytest.raises(InputError, match="in dialogue 4 the assistant says nothing") as refused:
        train_sft(recipe(data=tmp_path, loss_on=loss_on))
    assert refused.value.where == f"{tmp_path / 'trajectories.jsonl'}:4"


@pytest.mark.long  # the loss on assistant tokens, above, is at this limit too
def test_a_dialogue_at_the_limit_is_whole(recipe, rows, tokenizer, trainers):
    lengths = [len(tokenizer.apply_chat_template(row["messages"], tokenize=True)["input_ids"]) for row in rows]
    train_sft(recipe(max_length=max(lengths)))
    assert sorted(len(row["input_ids"]) for row in trainers[0].train_dataset) == sorted(lengths)


@pytest.mark.parametrize("settings", [{}, pytest.param({"muon": 0.02}, marks=pytest.mark.long)], ids=["adamw", "muon"])
def test_the_loss_falls_with_adamw_and_with_muon(recipe, settings):
    made = recipe(max_steps=30, **settings)
    folder = train_sft(made)
    first, *_, last = losses(made.out)
    assert first == pytest.approx(math.log(len(load(folder)[1])), abs=0.5), "an untrained model guesses"
    assert last < 0.4 * first
    assert [p.name for p in made.out.glob("*.making")] == []


def test_the_loss_on_dialogues_that_are_kept_apart_chooses_the_best_model(recipe):
    """It is that of the model that is kept, and none of these dialogues is trained on."""
    made = recipe(max_steps=6, held_out={"share": 0.2, "every": 2})
    assert "held_out" not in recipe(max_steps=6).sft.model_dump()
    train_sft(made)
    rows = [json.loads(line) for line in (made.out / "metrics.jsonl").read_text().splitlines()]
    measured = {row["step"]: row["eval/loss"] for row in rows if "eval/loss" in row}
    assert list(measured) == [2, 4, 6] and measured[6] < measured[2]
    best = json.loads((made.out / "best/score.json").read_text())
    assert best == {"update": min(measured, key=measured.get), "loss": min(measured.values())}
    model, tokenizer = load(made.out / "best/model")
    data = tokenize_dialogues(load_dialogues(made.data), tokenizer, "assistant", made.data)
    kept, apart = split_held_out(len(data), made.sft.held_out, made.seed, 4)
    assert not set(kept) & set(apart) and len(kept) + len(apart) == len(data) and len(apart) == round(0.2 * len(data))
    losses = []
    with torch.no_grad():
        for dialogue in data.select(apart):
            ids, labels = torch.tensor([dialogue["input_ids"]]), torch.tensor(dialogue["labels"][1:])
            logps = torch.log_softmax(model(input_ids=ids).logits[0, :-1].float(), -1)
            learnt = labels != IGNORE_INDEX
            losses += (-logps[learnt].gather(1, labels[learnt, None])).flatten().tolist()
    assert best["loss"] == pytest.approx(sum(losses) / len(losses), rel=1e-4)
    speeds = [row for row in rows if "loss" in row]
    assert [row["step"] for row in speeds] == [1, 2, 3, 4, 5, 6]
    assert all(row["perf/tokens_per_second"] > 0 and row["perf/samples_per_second"] > 0 for row in speeds)
    assert not {"perf/mfu", "perf/peak_memory_gb"} & {name for row in rows for name in row}, "none is measured on a CPU"
    with pytest.raises(InputError, match="sft.held_out.share"):
        split_held_out(len(data), made.sft.held_out, 0, len(data))


def load(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


@pytest.mark.long  # packing/test_updates.py and test_spread_updates.py compare updates in few and in many passes
def test_packing_changes_the_passes_not_the_loss(recipe, rows, tmp_path):
    """Four dialogues in four passes and in one: packed ones do not see each other."""
    some = tmp_path / "some"
    some.mkdir()
    write_rows(some / "trajectories.jsonl", rows[:4])
    made = [recipe(out=str(n), data=some, dialogues_per_update=4, tokens_per_step=n) for n in (1, 100_000)]
    for one in made:
        train_sft(one)
    [apart], [packed] = (losses(one.out) for one in made)
    assert packed == pytest.approx(apart, abs=1e-5)


@given(st.lists(st.integers(1, 500), min_size=1, max_size=80), st.integers(1, 4), st.integers(1, 5), st.integers(0, 3))
def test_an_epoch_has_every_dialogue_once_over_all_processes(lengths, processes, each, epoch):
    def updates(in_order: bool) -> list[list[int]]:
        batches = RankBatches(lengths, processes * each, processes, seed=1, in_order=in_order)
        ranks = [list(RankBatchSampler(batches, rank, lambda: epoch * len(batches))) for rank in range(processes)]
        assert {len(rank) for rank in ranks} == {len(batches)}, "no rank waits for another"
        assert all(max(map(len, update)) <= min(map(len, update)) + 1 for update in zip(*ranks, strict=True))
        return [sorted(itertools.chain(*update)) for update in zip(*ranks, strict=True)]

    shuffled, size = updates(False), processes * each
    assert sorted(itertools.chain(*shuffled)) == list(range(len(lengths))) and shuffled == updates(False)
    starts = range(0, len(lengths), size)
    assert updates(True) == [list(range(start, min(start + size, len(lengths)))) for start in starts]


def test_epochs_differ_and_one_that_is_resumed_is_the_same():
    batches = RankBatches([1] * 50, 10, 2, seed=1, in_order=False)

    def epoch(updates_done: int) -> list[list[int]]:
        return list(RankBatchSampler(batches, 0, lambda: updates_done))

    assert epoch(0) != epoch(5) and epoch(5) == epoch(7)


def test_processes_get_as_many_dialogues_with_about_as_many_tokens():
    lengths = [(i * 37) % 100 + 1 for i in range(64)]
    batches = np.array(lengths)[np.array(balance_over_ranks([[i] for i in range(64)], lengths, 8))]
    assert np.ptp(batches.sum(1)) < 0.05 * batches.sum(1).mean()


@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.integers(1, 3), st.integers(1, 4), st.integers(0, 2))
def test_dialogues_of_a_home_are_learnt_together_by_one_process(homes, processes, together, epoch):
    updates = list(RankBatches([1] * len(homes), 4 * together, processes, 1, False, homes, together).epoch_batches(epoch))
    assert sorted(itertools.chain(*itertools.chain(*updates))) == list(range(len(homes)))
    batches = itertools.chain(*updates)
    parts = [home for batch in batches for home, _ in itertools.groupby(batch, homes.__getitem__)]
    whole = sum(-(-homes.count(home) // together) for home in set(homes))
    assert len(parts) <= whole + len(updates), "but for the ends of updates no part is split"


def test_prompts_of_a_home_are_told_from_those_of_others_whatever_follows_them():
    homes = ["You run a home.\n" + "".join(f"- {name} lamp {i}\n" for i in range(20)) for name in ("blue", "red")]
    prompts = [f"{home}It is {hour} o'clock." for hour in range(3) for home in homes]
    first, second, *_ = found = number_homes(prompts)
    assert first != second and found == [first, second] * 3


def test_every_epoch_of_a_run_is_shuffled_anew(recipe, trainers, monkeypatch):
    seen: list[Any] = []
    step = sft.PackedSFTTrainer.training_step

    def watched(self: Any, model: Any, inputs: Any, *rest: Any) -> Any:
        seen.append([one["input_ids"].tolist() for one in inputs])
        return step(self, model, inputs, *rest)

    monkeypatch.setattr(sft.PackedSFTTrainer, "training_step", watched)
    train_sft(recipe(max_steps=-1, epochs=2, dialogues_per_update=20))
    epochs = [[ids for batch in half for ids in batch] for half in (seen[: len(seen) // 2], seen[len(seen) // 2 :])]
    assert sorted(epochs[0]) == sorted(epochs[1]) and epochs[0] != epochs[1]


def test_an_adapter_is_trained_kept_and_merged(recipe, tiny):
    """LoRA: the base stays, the adapter is written with the tokenizer, and loads merged."""
    from homerl.train.training_setup import load_policy

    made = recipe(model={"name": str(tiny), "dtype": "float32", "lora": {"r": 4, "alpha": 8}}, max_steps=3)
    folder = train_sft(made)
    assert (folder / "adapter_config.json").exists() and (folder / "tokenizer.json").exists()
    base, merged = load(tiny)[0].state_dict(), load_policy(made.model, str(folder)).state_dict()
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert changed and all("_proj" in name for name in changed)
    assert all(p.requires_grad for p in load_policy(made.model, str(folder)).parameters())


@pytest.mark.parametrize(
    ("dtype", "lora"),
    [
        ("float32", None),
        pytest.param("bfloat16", {"r": 64}, marks=pytest.mark.long),
        pytest.param("bfloat16", None, marks=pytest.mark.long),
        pytest.param("float32", {"r": 64}, marks=pytest.mark.long),
    ],
)
def test_the_disk_of_a_run_is_estimated(recipe, tiny, dtype, lora):
    own = recipe(model={"name": str(tiny), "dtype": dtype, "lora": lora}, max_steps=3, save_steps=1, keep_checkpoints=2)
    expected = estimate_training_memory(own).disk
    train_sft(own)
    written = sum(path.stat().st_size for path in own.out.rglob("*.safetensors"))
    written += sum(path.stat().st_size for path in own.out.rglob("optimizer.pt"))
    *_, one = own.out.glob("checkpoints/checkpoint-*/optimizer.pt")
    adapter = next(own.out.glob("model/*.safetensors"))
    written += one.stat().st_size + adapter.stat().st_size  # a third checkpoint was there for a while
    assert sum(expected.parts.values()) * 1e9 == pytest.approx(written, rel=0.03)


@pytest.mark.long
def test_training_stops_by_the_clock_and_leaves_a_model(recipe):
    made = recipe(max_steps=200, seconds=0.001, save_steps=None)
    assert (train_sft(made) / "model.safetensors").exists()
    assert len(losses(made.out)) == 1 and not list((made.out / "checkpoints").glob("checkpoint-*"))


def test_a_loss_that_is_no_number_stops_the_run(recipe):
    """Else it would end with a model of no numbers, and with the losses of before in its metrics."""
    made = recipe(max_steps=4, learning_rate=1e30)
    with pytest.raises(SignalLost, match=r"^loss is not finite"):
        train_sft(made)
    assert not (made.out / "model").exists()


def test_data_is_a_folder_or_a_file(dialogues):
    folder, file = (list(load_dialogues(str(data))) for data in (dialogues, dialogues / "trajectories.jsonl"))
    assert folder == file and folder


@pytest.mark.parametrize(
    ("text", "said"),
    [("", "there is no dialogue in it"), ("\n", "not a JSON line"), ('{"a": 1}\n', "no column `messages`")],
)
def test_data_without_dialogues_is_refused(text, said, recipe, tmp_path):
    """A synthesis in which nothing succeeded writes an empty file."""
    data = tmp_path / "trajectories.jsonl"
    data.write_text(text)
    with pytest.raises(InputError, match=said) as refused:
        train_sft(recipe(data=data))
    assert str(data) in refused.value.where


def test_words_that_a_recipe_names_are_one_token_each():
    config = TinyConfig(words=("[a-z]+_room", r"(?:_[a-z]+)+_\d"))
    text = "living_room_air_purifier_1 kitchen_fan_2"
    whole, plain = (make_tokenizer([text] * 3, [], one) for one in (config, TinyConfig()))
    assert [whole.decode(i) for i in whole(text)["input_ids"]] == ["living_room", "_air_purifier_1", " kitchen", "_fan_2"]
    assert len(plain(text)["input_ids"]) > 4 and all(one.decode(one(text)["input_ids"]) == text for one in (whole, plain))


def test_apart_a_word_has_the_same_tokens_in_a_sentence_and_in_an_id():
    """Also one that the data never had, so it can be copied piece by piece."""
    texts = ["turn on the kitchen lamp", 'device("kitchen_lamp").turn_on()'] * 3
    tokenizer = make_tokenizer(texts, [], TinyConfig(split="apart"))
    said, named = (tokenizer.encode(text, add_special_tokens=False) for text in ("the velmo hesk", "velmo_hesk"))
    velmo, hesk = (tokenizer.encode(word, add_special_tokens=False) for word in ("velmo", "hesk"))
    assert said[-len(velmo) - len(hesk) - 1 :] == [*velmo, said[-len(hesk) - 1], *hesk]
    assert named == [*velmo, named[len(velmo)], *hesk] and tokenizer.decode(named) == "velmo_hesk"
