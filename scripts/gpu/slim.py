"""Takes out of an installed folder what a Hopper GPU, a training run and its rollouts never use.

Invariants: what is removed is listed here with its reason; a library that vLLM needs keeps code for `SM`; a library whose
symbols cannot be stripped safely is left as it was.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

from gpu.fatbin import code_sizes, kept

SM = 90  # H100, H200
REMOVED = {  # patterns below the folder, and why they are not needed
    "vllm/third_party/deep_gemm": "matrix products in FP8",
    "vllm/third_party/fmha_sm100": "attention for other GPUs",
    "vllm/third_party/tml_fa4": "attention for other GPUs",
    "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so": "FlashAttention 2, built for sm_80 alone; 3 serves Hopper",
    "vllm/vllm-rs": "a server's front end",
    "vllm/**/fused_moe/configs/*.json": "tuned tables for mixtures of experts",
    "vllm/**/quantization/utils/configs/*.json": "tuned tables for FP8",
    "vllm/kernels/helion/configs": "tuned tables for quantized models",
    "*.dist-info/sboms": "lists of components",
    "mistral_common/data": "tokenizers of other models",
    "pycountry/locales": "names of countries",
    "tvm_ffi/3rdparty": "sources",
    "tvm_ffi/include": "sources",
    "pvlib/data/*": "examples; homerl reads the typical years in KEPT",
    "*/tests": "tests",
    "tests": "tests",
    "**/__pycache__": "made again",
}
KEPT = ("703165TY.csv", "723170TYA.CSV", "12839.tm2", "__init__.py")  # of pvlib/data
# FlashAttention 3's kernels: the size of their heads, and their number format; those of the recipes that are measured
ATTENDS = re.compile(rb"FlashAttnFwdSm90\w+?Li(\d+)ENS_\d+([a-z_0-9]+_t)EfNS_4arch4Sm90")
ATTENDED = {(b"64", b"bfloat16_t"), (b"128", b"bfloat16_t")}
NEEDED = ("_C_stable_libtorch.abi3.so", "_moe_C_stable_libtorch.abi3.so", "_vllm_fa3_C.abi3.so")  # must have code for SM


def remove_unused(site: Path) -> None:
    """Delete the files and folders of `REMOVED`."""
    for pattern in REMOVED:
        for path in sorted(site.glob(pattern)):
            if path.is_dir():
                shutil.rmtree(path)
            elif path.name not in KEPT:
                path.unlink(missing_ok=True)


def used(code: bytes) -> bool:
    """Whether machine code has kernels that the parts of gpu_report start."""
    attends = set(ATTENDS.findall(code))
    return not attends or not attends.isdisjoint(ATTENDED)


def slim_libraries(site: Path) -> dict[str, tuple[int, int]]:
    """Empty the kernels of vLLM's libraries for other GPUs and other uses, and strip symbols.

    Returns bytes of machine code before and after, by file. Raises `ValueError` if a library that vLLM needs has none for
    `SM`.
    """
    sizes = {}
    for path in sorted(site.glob("vllm/**/*.so")):
        before = path.read_bytes()
        after = kept(before, SM, used)
        left = code_sizes(after)
        if path.name in NEEDED and not left.get(SM):
            raise ValueError(f"{path.name} has no machine code for sm_{SM}: this vLLM does not run on such a GPU")
        path.write_bytes(after)
        strip_symbols(path)
        if code_sizes(path.read_bytes()) != left:
            raise ValueError(f"{path.name} lost machine code when it was stripped: use another version of binutils")
        if total := sum(code_sizes(before).values()):
            sizes[path.name] = (total, sum(left.values()))
    return sizes


def strip_symbols(path: Path) -> None:
    """Strip a library's symbols with binutils, if they are installed: vLLM finds its operators without them."""
    if shutil.which("strip") is None:
        return
    stripped = path.with_suffix(".stripped")
    done = subprocess.run(["strip", "--strip-all", "-o", stripped, path], capture_output=True)
    if done.returncode == 0:
        shutil.copyfile(stripped, path)  # keeps the mode of the original
    stripped.unlink(missing_ok=True)
