"""Data sets in folders: what `datasets` reads, what TRL learns, and what is refused."""

import json
from pathlib import Path

import pytest
from datasets import load_dataset
from typer.testing import CliRunner

from homerl.app.cli.app import app
from homerl.envs.core.documents import InputError
from homerl.models.policy.chat_template import without_generation_tags
from homerl.play.trajectory import read_rows, trajectory_from_row
from homerl.report.cards.exported_data import FACTS, write_data_export
from homerl.synth.recipe import SynthesisConfig
from homerl.synth.shards import join_shards, make_shard
from homerl.train.data.dialogue_forms import read_dialogue_row
from homerl.train.data.sft_dialogues import without_nones
from homerl.train.training_setup import load_chat_tokenizer

SMALL = {"toolset": "assist", "intents": [1, 1], "home": {"devices": [3, 5]}}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """A finished synthesis, with a dialogue of a recovery."""
    config = SynthesisConfig.model_validate({"blueprints": 8, "recipe": SMALL, "search": {"recoveries": 1.0}})
    out = tmp_path_factory.mktemp("synth")
    make_shard(config, range(8), out / "shards")
    join_shards(config, out / "shards", [range(8)], out, lambda *_: None)
    return out


@pytest.fixture(scope="module")
def exported(made, tmp_path_factory) -> Path:
    return write_data_export(str(made), tmp_path_factory.mktemp("exports") / "mine", test_share=0.4).folder


def load(folder: Path, **options):
    return load_dataset(str(folder), cache_dir=str(folder.parent / "cache"), **options)


def test_datasets_reads_the_folder_and_no_row_has_lost_anything(made, exported):
    found = load(exported)
    assert set(found) == {"train", "test"}
    of_split = {split: {row["id"] for row in rows} for split, rows in found.items()}
    assert not of_split["train"] & of_split["test"], "dialogues of one task are in one split"
    stored = {json.dumps(row["messages"]): row for row in read_rows(made / "trajectories.jsonl")}
    rows = [without_nones(row) for part in found.values() for row in part]
    assert len(rows) == len(stored)
    for row in rows:
        original = stored[json.dumps([without_nones(message) for message in row["messages"]])]
        assert trajectory_from_row(row) == trajectory_from_row(original)
        assert row["difficulty"] == original["difficulty"]


def test_openais_form_has_the_same_rows_and_says_what_is_not_learnt(exported):
    unlearnt = 0
    for split, rows in load(exported).items():
        lines = [*read_rows(exported / f"openai/{split}.jsonl")]
        assert len(lines) == len(rows)
        for line, row in zip(lines, rows):
            assert line.keys() == {"messages", "tools"} and line["tools"] == json.loads(row["tools"])
            theirs = read_dialogue_row(line, "row")
            assert theirs["unlearnt"] == row["unlearnt"]
            unlearnt += len(row["unlearnt"])
            for message, other in zip(row["messages"], theirs["messages"], strict=True):
                assert (message["role"], message["content"]) == (other["role"], other["content"])
                for call, said in zip(message["tool_calls"], other["tool_calls"], strict=True):
                    function, told = call["function"], said["function"]
                    assert told["name"] == function["name"]
                    malformed = json.dumps({"malformed": function["arguments"]}, ensure_ascii=False, separators=(",", ":"))
                    assert told["arguments"] in (function["arguments"], malformed)
            ids = [call["id"] for message in line["messages"] for call in message.get("tool_calls", ())]
            assert len(ids) == len({*ids}) and ids == [
                message["tool_call_id"] for message in line["messages"] if message["role"] == "tool"
            ]
    assert unlearnt, "a recovery has a refused call"


@pytest.mark.parametrize(
    "template", ["trained", pytest.param("exported", marks=pytest.mark.long), pytest.param("qwen3", marks=pytest.mark.long)]
)
def test_trls_sft_learns_what_the_assistant_said_and_nothing_else(exported, tiny: Path, tmp_path: Path, template):
    """With the template of a model that homerl has trained, of one that it has exported, and with one that TRL knows."""
    import trl
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(tiny)
    if template == "qwen3":
        tokenizer.chat_template = (Path(trl.__file__).parent / "chat_templates/qwen3.jinja").read_text("utf-8")
    elif template == "exported":
        tokenizer.chat_template = without_generation_tags(tokenizer.chat_template)
        tokenizer.save_pretrained(tmp_path / "exported")
        tokenizer = load_chat_tokenizer(str(tmp_path / "exported"))  # as docs/interop.md says
    settings = trl.SFTConfig(
        str(tmp_path / "run"), assistant_only_loss=True, max_length=None, max_steps=1, per_device_train_batch_size=2,
        use_cpu=True, bf16=False, report_to=[], logging_steps=1, save_strategy="no",
    )  # fmt: skip
    rows = load(exported, split="train").select_columns(["messages", "tools"])
    trainer = trl.SFTTrainer(
        AutoModelForCausalLM.from_pretrained(tiny), settings, train_dataset=rows, processing_class=tokenizer
    )
    row = next(iter(trainer.train_dataset))
    learnt = tokenizer.decode([label for label in row["labels"] if label != -100])
    assert 0 < sum(label != -100 for label in row["labels"]) < len(row["input_ids"]) / 2
    for message in rows[0]["messages"]:
        if message["role"] == "assistant":
            assert message["content"] in learnt
            assert all(call["function"]["name"] in learnt for call in message["tool_calls"])
        else:
            assert message["content"] not in learnt
    trainer.train()
    assert trainer.state.log_history[0]["loss"] > 0


def test_the_same_source_gives_the_same_bytes_and_no_path_of_the_machine(made, exported, tmp_path):
    again = write_data_export(str(made), tmp_path / "mine", test_share=0.4).folder
    files = [path.relative_to(exported) for path in exported.rglob("*") if path.is_file()]
    assert len(files) == 6 and all((exported / name).read_bytes() == (again / name).read_bytes() for name in files)
    assert not any(str(made).encode() in (exported / name).read_bytes() for name in files)


def test_tasks_of_a_recipe_are_prompts_to_learn_on_and_some_that_are_held_out(tmp_path):
    (tmp_path / "own.yaml").write_text(json.dumps({"homerl": 1, "run": "rlve", "out": "x", "blueprints": {"recipe": SMALL}}))
    done = write_data_export(str(tmp_path / "own.yaml"), tmp_path / "out", tasks=4, test_share=0.5)
    assert dict(done.rows) == {"train": 4, "test": 2} and done.kind == "tasks"
    found = load(done.folder)
    for split, of in (("train", "train"), ("test", "heldout")):
        assert {json.loads(row["blueprint"])["split"] for row in found[split]} == {of}
    row = found["train"][0]
    assert [message["role"] for message in row["prompt"]] == ["system", "user"] and json.loads(row["tools"])


def test_a_suite_is_all_to_test(tmp_path):
    done = CliRunner().invoke(app, ["export-data", "smarthome-bench", "--to", str(tmp_path / "out"), "--tasks", "3"])
    assert done.exit_code == 0 and "tasks (test 3)" in " ".join(done.output.split()), done.output
    (rows,) = load(tmp_path / "out").values()
    assert {json.loads(row["labels"])["category"] for row in rows} > {"QT1"}


def test_what_replaces_an_export_is_read_although_the_first_one_was_kept(made, tmp_path, monkeypatch):
    """`datasets` keeps what it reads by the names of a folder and its files."""
    monkeypatch.setattr("datasets.config.HF_DATASETS_CACHE", tmp_path / "cache")
    for tasks in (2, 1):
        write_data_export("smarthome-bench", tmp_path / "out", tasks=tasks)
        assert len(load_dataset(str(tmp_path / "out"), split="test", cache_dir=str(tmp_path / "cache"))) == tasks


def test_other_content_stays_and_an_earlier_export_goes(made, exported, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/photo").write_text("dear")
    for folder in (tmp_path / "mine", made):
        before = {path: path.stat().st_mtime for path in folder.rglob("*")}
        with pytest.raises(InputError, match="no earlier export"):
            write_data_export(str(made), folder)
        assert {path: path.stat().st_mtime for path in folder.rglob("*")} == before
    write_data_export("smarthome-bench", tmp_path / "out", tasks=1)
    write_data_export(str(made), tmp_path / "out")
    assert json.loads((tmp_path / "out" / FACTS).read_text())["kind"] == "dialogues"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["mine", "out"]


def test_a_broken_source_is_refused_whole_and_the_earlier_export_stays(made, tmp_path):
    write_data_export(str(made), tmp_path / "out")
    before = (tmp_path / "out" / FACTS).read_bytes()
    file = tmp_path / "cut.jsonl"
    lines = (made / "trajectories.jsonl").read_text().splitlines()
    file.write_text("\n".join([*lines, lines[0][:500]]))
    for source, said in (
        (str(file), f"cut.jsonl:{len(lines) + 1}"),
        (str(tmp_path), "there is no trajectories.jsonl here"),
        ("smarthome-banch", "smarthome-banch"),
    ):
        with pytest.raises(InputError, match=said):
            write_data_export(source, tmp_path / "out")
    with pytest.raises(InputError, match="no share"):
        write_data_export(str(made), tmp_path / "out", test_share=1.5)
    assert (tmp_path / "out" / FACTS).read_bytes() == before
