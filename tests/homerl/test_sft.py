"""SFT: the loss falls on what the assistant said and on nothing else, no dialogue is cut, and something is learned."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from envs.documents import InputError
from homerl.play.messages import IM_END
from homerl.play.trajectory import write_rows
from homerl.train.recipe import SFTRecipe
from homerl.train.sft import bucketed, train_sft
from homerl.train.tiny import TinyConfig, make_tokenizer

SIZES = {"hidden_size": 64, "layers": 2, "heads": 2, "kv_heads": 2, "head_dim": 32, "intermediate_size": 128}
SETTINGS = {
    "learning_rate": 5e-3,
    "batch": 4,
    "max_steps": 1,
    "max_length": 1024,
    "packing": False,
    "gradient_checkpointing": False,
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
    import trl

    made: list[Any] = []

    class Watched(trl.SFTTrainer):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            super().__init__(*args, **kwargs)
            made.append(self)

    monkeypatch.setattr(trl, "SFTTrainer", Watched)
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


def test_the_loss_falls_on_assistant_tokens_alone(recipe, rows, trainers):
    train_sft(recipe(in_order=True))
    [trainer] = trainers
    tokenizer = trainer.processing_class
    texts = sorted(spoken(row, tokenizer) for row in rows)
    learned = []
    for start in range(0, len(rows), 4):
        batch = trainer.data_collator([trainer.train_dataset[i] for i in range(start, min(start + 4, len(rows)))])
        for ids, labels, attention in zip(batch["input_ids"], batch["labels"], batch["attention_mask"], strict=True):
            kept = labels != -100
            assert torch.equal(labels[kept], ids[kept]) and not kept[attention == 0].any()
            learned.append(tokenizer.decode(ids[kept]))
            assert tokenizer.decode(ids[attention == 1]).startswith("<|im_start|>system\n")
    assert sorted(learned) == texts
    assert all(text.endswith(IM_END) and "<tool_response>" not in text for text in learned)


def test_a_dialogue_over_the_limit_is_refused_by_name(recipe, rows, tokenizer):
    lengths = [len(tokenizer.apply_chat_template(row["messages"], tokenize=True)["input_ids"]) for row in rows]
    longest = max(lengths)
    number = lengths.index(longest) + 1
    made = recipe(max_length=longest - 1)
    with pytest.raises(InputError, match=f"trajectories.jsonl:{number}: .*{longest} tokens.*sft.max_length {longest - 1}"):
        train_sft(made)
    assert not (made.out / "model").exists() and not (made.out / "checkpoints").exists()


def test_a_dialogue_at_the_limit_is_whole(recipe, rows, tokenizer, trainers):
    lengths = [len(tokenizer.apply_chat_template(row["messages"], tokenize=True)["input_ids"]) for row in rows]
    train_sft(recipe(max_length=max(lengths)))
    assert sorted(len(row["input_ids"]) for row in trainers[0].train_dataset) == sorted(lengths)


def test_the_loss_falls_with_adamw_and_with_muon(recipe):
    for name, settings in {"adamw": {}, "muon": {"muon": 0.02}}.items():
        made = recipe(out=name, max_steps=30, **settings)
        folder = train_sft(made)
        first, *_, last = losses(made.out)
        assert first == pytest.approx(math.log(len(load(folder)[1])), abs=0.5), "an untrained model guesses"
        assert last < 0.4 * first
        assert [p.name for p in made.out.glob("*.making")] == []


def load(folder: Path) -> tuple[Any, Any]:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    return AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32), AutoTokenizer.from_pretrained(folder)


def test_packing_changes_the_batches_not_the_loss(recipe, rows, tmp_path):
    """Eight dialogues as eight rows and as one: the packed ones do not see each other."""
    some = tmp_path / "some"
    some.mkdir()
    write_rows(some / "trajectories.jsonl", rows[:8])
    made = [recipe(out="rows", data=some, batch=8), recipe(out="packed", data=some, batch=1, packing=True, max_length=8192)]
    for one in made:
        train_sft(one)
    [apart], [packed] = (losses(one.out) for one in made)
    assert packed == pytest.approx(apart, abs=1e-5)


def test_the_recipes_order_is_the_datasets_but_for_length(recipe, trainers):
    train_sft(recipe(in_order=True, max_steps=1))
    sampler = trainers[0]._get_train_sampler()
    assert list(sampler) == list(range(len(trainers[0].train_dataset)))


def test_buckets_hold_every_row_once_and_windows_stay_in_order():
    lengths = [(i * 37) % 100 for i in range(1000)]
    order = bucketed(lengths, 8, seed=1, window=200)
    assert sorted(order) == list(range(1000)) and order == bucketed(lengths, 8, seed=1, window=200)
    for start in range(0, 1000, 200):
        assert sorted(order[start : start + 200]) == list(range(start, start + 200))
        for batch in range(start, start + 200, 8):
            of_like_length = [lengths[i] for i in order[batch : batch + 8]]
            assert max(of_like_length) - min(of_like_length) <= 8


def test_an_adapter_is_trained_kept_and_merged(recipe, tiny):
    """LoRA: the base stays, the adapter is written with the tokenizer, and loads merged."""
    from homerl.train.common import load_policy

    made = recipe(model={"name": str(tiny), "dtype": "float32", "lora": {"r": 4, "alpha": 8}}, max_steps=3)
    folder = train_sft(made)
    assert (folder / "adapter_config.json").exists() and (folder / "tokenizer.json").exists()
    base, merged = load(tiny)[0].state_dict(), load_policy(made.model, str(folder)).state_dict()
    changed = {name for name in base if not torch.equal(base[name], merged[name])}
    assert changed and all("_proj" in name for name in changed)
    assert all(p.requires_grad for p in load_policy(made.model, str(folder)).parameters())


def test_training_stops_by_the_clock_and_leaves_a_model(recipe):
    made = recipe(max_steps=200, seconds=0.001, save_steps=None)
    assert (train_sft(made) / "model.safetensors").exists()
    assert len(losses(made.out)) == 1 and not list((made.out / "checkpoints").glob("checkpoint-*"))


def test_data_is_a_folder_or_a_file(recipe, dialogues):
    folder, file = (
        recipe(out=name, data=data) for name, data in (("a", dialogues), ("b", dialogues / "trajectories.jsonl"))
    )
    train_sft(folder)
    train_sft(file)
    assert losses(folder.out) == losses(file.out)


def test_words_that_a_recipe_names_are_one_token_each():
    config = TinyConfig(words=("[a-z]+_room", r"(?:_[a-z]+)+_\d"))
    text = "living_room_air_purifier_1 kitchen_fan_2"
    whole, plain = (make_tokenizer([text] * 3, [], one) for one in (config, TinyConfig()))
    assert [whole.decode(i) for i in whole(text)["input_ids"]] == ["living_room", "_air_purifier_1", " kitchen", "_fan_2"]
    assert len(plain(text)["input_ids"]) > 4 and all(one.decode(one(text)["input_ids"]) == text for one in (whole, plain))
