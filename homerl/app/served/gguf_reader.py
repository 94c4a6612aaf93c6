"""A GGUF file as a model's folder: the other direction of `homerl/report/cards/gguf_and_ollama.py`.

Plain transformers could read these files too. It reads the vocabulary five times over, which takes minutes, takes
`<tool_call>` for words, keeps the names of unused ids, and mixes up the ends of a text and of a turn.

Invariants:
- The bytes of the weights depend on the GGUF file alone. They are read a few rows at a time.
- Text is split as the file says, the control tokens are those that it marks as such, and ids that stand for nothing have no
  token.
- Where a tied model has its embeddings twice, the copy that predicts tokens, which is rounded less, stands for both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from homerl.envs.core.documents import InputError
from homerl.report.cards.gguf_and_ollama import ARCHITECTURES, DIGITS, SPLITS, WORDS, require_gguf

if TYPE_CHECKING:
    import torch
    from transformers import PretrainedConfig, PreTrainedTokenizerFast

WEIGHTS = "model.safetensors"
ROWS = 8192  # that are read at a time: 30 MB in float32 where a row has 896 numbers
EMBEDDINGS, HEAD = "token_embd.weight", "output.weight"  # GGUF's names
SIZES = {  # transformers' names of what GGUF says of an architecture
    "num_hidden_layers": "block_count",
    "max_position_embeddings": "context_length",
    "hidden_size": "embedding_length",
    "intermediate_size": "feed_forward_length",
    "num_attention_heads": "attention.head_count",
    "num_key_value_heads": "attention.head_count_kv",
    "head_dim": "attention.key_length",
    "rms_norm_eps": "attention.layer_norm_rms_epsilon",
}
COMPOSED = ("qwen2",)  # splits before which text is brought into NFC


class GGUFModel:
    """A GGUF file, whose fields are read once. Raises `InputError` if it is of a family that is not known here."""

    def __init__(self, path: Path) -> None:
        self.gguf, self.path = require_gguf(), path
        try:
            reader = self.gguf.GGUFReader(path)
        except ValueError as error:
            raise InputError(f"this is no GGUF file: {error}", str(path), "take another one") from None
        self.fields = reader.fields
        self.tensors = {tensor.name: tensor for tensor in reader.tensors}
        self.architecture = str(self._find("general.architecture"))
        if self.architecture not in (*ARCHITECTURES, "qwen2"):
            raise InputError(f"its architecture {self.architecture} is not known here", str(path), "take another file")

    def _find(self, key: str) -> Any:
        """What the file says under a key; None if it says nothing."""
        return self.fields[key].contents() if key in self.fields else None

    def _name_token(self, role: str) -> str | None:
        number = self._find(f"tokenizer.ggml.{role}_token_id")
        return None if number is None else str(self._find("tokenizer.ggml.tokens")[number])

    def read_tokenizer(self, end_of_turn: str, padding: str) -> PreTrainedTokenizerFast:
        """The tokenizer, with the chat template of the file, and with these tokens at ends."""
        from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers
        from transformers import PreTrainedTokenizerFast

        split = str(self._find("tokenizer.ggml.pre"))
        if self._find("tokenizer.ggml.model") != "gpt2" or split not in SPLITS:
            raise InputError(f"its way to split text, {split}, is not known here", str(self.path), "take another file")
        texts, kinds = self._find("tokenizer.ggml.tokens"), self._find("tokenizer.ggml.token_type")
        kind_of, unknown = self.gguf.TokenType, self._name_token("unknown")
        vocabulary = {text: number for number, text in enumerate(texts) if kinds[number] != kind_of.UNUSED}
        merges = [tuple(merge.split(" ")) for merge in self._find("tokenizer.ggml.merges")]
        tokenizer = Tokenizer(models.BPE(vocabulary, merges, unk_token=unknown))
        if split in COMPOSED:
            tokenizer.normalizer = normalizers.NFC()
        tokenizer.pre_tokenizer, tokenizer.decoder = make_pre_tokenizer(split), decoders.ByteLevel()
        marked = [*zip(texts, kinds, strict=True)]
        tokenizer.add_special_tokens(
            [AddedToken(text, normalized=False) for text, kind in marked if kind == kind_of.CONTROL]
        )
        tokenizer.add_tokens([AddedToken(text, normalized=False) for text, kind in marked if kind == kind_of.USER_DEFINED])
        ends = {"eos_token": end_of_turn, "pad_token": padding, "bos_token": self._name_token("bos"), "unk_token": unknown}
        made = PreTrainedTokenizerFast(
            tokenizer_object=tokenizer,
            **{role: text for role, text in ends.items() if text is not None},
            clean_up_tokenization_spaces=False,
            model_max_length=self._find(f"{self.architecture}.context_length"),
        )
        made.chat_template = self._find("tokenizer.chat_template")
        return made

    def read_config(self, tied: bool) -> PretrainedConfig:
        """The configuration of the model."""
        from transformers import AutoConfig

        said = {name: self._find(f"{self.architecture}.{key}") for name, key in SIZES.items()}
        said["rms_norm_eps"] = float(str(np.float32(said["rms_norm_eps"])))  # the file has 9.999999974752427e-07 of 1e-06
        rope = {"rope_type": "default", "rope_theta": self._find(f"{self.architecture}.rope.freq_base")}
        config: PretrainedConfig = AutoConfig.for_model(
            self.architecture,
            **{name: value for name, value in said.items() if value is not None},
            rope_parameters=rope,
            vocab_size=len(self.fields["tokenizer.ggml.tokens"].data),
            tie_word_embeddings=tied or HEAD not in self.tensors,
            bos_token_id=self._find("tokenizer.ggml.bos_token_id"),
        )
        return config

    def read_weights(
        self, shapes: Mapping[str, tuple[int, ...]], config: Any, told: Callable[[int, int], None]
    ) -> dict[str, torch.Tensor]:
        """The weights of these names and shapes in bfloat16. `told` hears how many bytes of how many were read.

        Raises `InputError` if the file lacks one, or has it in another shape.
        """
        names = self.gguf.get_tensor_name_map(self.gguf.MODEL_ARCH[self.architecture.upper()], config.num_hidden_layers)
        found, read = {name: names.get_name(name, try_suffixes=(".weight", ".bias")) for name in shapes}, 0
        if config.tie_word_embeddings and HEAD in self.tensors:
            found = {name: HEAD if at == EMBEDDINGS else at for name, at in found.items()}
        for name, at in found.items():
            if at not in self.tensors or tuple(reversed(self.tensors[at].shape)) != shapes[name]:
                what = f"the weight {name} of shape {list(shapes[name])} is not in it"
                raise InputError(what, str(self.path), "take another file")
        whole = sum(int(self.tensors[at].n_bytes) for at in found.values())
        made = {}
        for name, at in found.items():
            heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}.get(name.split(".")[-2])
            weight = self._read_tensor(self.tensors[at])
            made[name] = put_rotary_rows_back(weight, heads) if heads and self.architecture == "llama" else weight
            told(read := read + int(self.tensors[at].n_bytes), whole)
        return made

    def _read_tensor(self, tensor: Any) -> torch.Tensor:
        import torch

        made = torch.empty(tuple(reversed(tensor.shape.tolist())), dtype=torch.bfloat16)
        for start in range(0, len(made), ROWS):
            rows = self.gguf.quants.dequantize(tensor.data[start : start + ROWS], tensor.tensor_type)
            made[start : start + ROWS] = torch.from_numpy(np.array(rows))
        return made


def make_pre_tokenizer(name: str) -> Any:
    """The steps that split text before BPE, by llama.cpp's name for them. Letters become bytes in the last one."""
    from tokenizers import Regex
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence, Split

    steps = [
        Digits(individual_digits=True) if step == DIGITS else Split(Regex(step), "isolated")
        for step in SPLITS[name]
        if step != WORDS
    ]
    return Sequence([*steps, ByteLevel(add_prefix_space=False, use_regex=WORDS in SPLITS[name])])


def put_rotary_rows_back(weight: torch.Tensor, heads: int) -> torch.Tensor:
    """The queries or keys of a Llama with rows as transformers has them: positions turn the halves of a head, and in
    llama.cpp neighbours."""
    return weight.reshape(heads, -1, 2, *weight.shape[1:]).transpose(1, 2).reshape(weight.shape)


def make_model_folder(
    path: Path, out: Path, tied: bool, end_of_turn: str, padding: str, told: Callable[[int, int], None] = lambda *_: None
) -> None:
    """Write the model of a GGUF file into the folder `out`, in bfloat16, as plain transformers loads it."""
    import torch
    from safetensors.torch import save_file
    from transformers import AutoModelForCausalLM, GenerationConfig

    model = GGUFModel(path)
    tokenizer, config = model.read_tokenizer(end_of_turn, padding), model.read_config(tied)
    config.eos_token_id, config.pad_token_id, config.dtype = tokenizer.eos_token_id, tokenizer.pad_token_id, torch.bfloat16
    with torch.device("meta"):  # for its names and shapes alone
        empty = AutoModelForCausalLM.from_config(config)
    twice = set(empty.all_tied_weights_keys) if config.tie_word_embeddings else set()
    shapes = {name: tuple(weight.shape) for name, weight in empty.state_dict().items() if name not in twice}
    out.mkdir(parents=True, exist_ok=True)
    save_file(model.read_weights(shapes, config, told), out / WEIGHTS, metadata={"format": "pt"})
    config.architectures = [type(empty).__name__]
    config.save_pretrained(out)
    GenerationConfig.from_model_config(config).save_pretrained(out)
    tokenizer.save_pretrained(out)
