"""The bundle for a GPU machine without network: which kernels stay, what is packed, and how it is set up there."""

import json
import os
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu import fatbin, pack, ready, slim
from gpu.bundle import conflicts, install, merge

ROOT = Path(__file__).parents[3]
PYTHON = f"{sys.version_info.major}.{sys.version_info.minor}"


# Kernels


def container(*entries: tuple[int, int, bytes], padding: int = 0) -> bytes:
    """A container of entries (kind, architecture, content), with headers as CUDA 13 writes them."""
    body = b""
    for kind, sm, content in entries:
        body += fatbin.ENTRY.pack(kind, 0x101, 64, len(content), 0, 0, 1, 13, sm).ljust(64, b"\1") + content
    body += bytes(padding)
    return fatbin.CONTAINER.pack(fatbin.MAGIC, 1, 16, len(body)) + body


IMAGES = st.tuples(st.sampled_from([fatbin.PTX, fatbin.CUBIN]), st.sampled_from([80, 90, 100]), st.binary(min_size=1))


@given(st.lists(st.lists(IMAGES, max_size=4), max_size=4), st.binary(max_size=40), st.integers(0, 24))
def test_only_code_for_the_gpu_stays_and_nothing_moves(kernels, between, padding):
    between = between.replace(fatbin.MAGIC, b"")
    library = between + between.join(container(*entries, padding=padding) for entries in kernels) + between
    slimmer = fatbin.kept(library, 90)
    assert len(slimmer) == len(library)
    before, after = ([entry for found in fatbin.containers(data) for entry in found] for data in (library, slimmer))
    assert [(image.kind, image.content) for image in after] == [(image.kind, image.content) for image in before]
    assert len(before) == sum(map(len, kernels))
    for old, new in zip(before, after, strict=True):
        same = old.kind == fatbin.CUBIN and old.sm == 90
        assert slimmer[new.content] == (library[old.content] if same else bytes(old.size))
        assert not (new.kind == fatbin.PTX and new.sm <= 90), "emptied PTX would be offered to the GPU"
    assert slimmer == fatbin.kept(slimmer, 90)


def test_bytes_that_only_look_like_a_container_stay():
    library = b"text " + fatbin.MAGIC + b"\1\0\x10\0" + struct.pack("<Q", 10**6) + b" more" + container((2, 80, b"code"))
    slimmer = fatbin.kept(library, 90)
    assert slimmer == library.replace(b"code", bytes(4))
    assert fatbin.code_sizes(library) == {80: 4} and fatbin.code_sizes(slimmer) == {}


def library_of(*entries: tuple[int, int, bytes]) -> bytes:
    return b"\x7fELF" + container(*entries)


def test_a_library_without_code_for_the_gpu_is_refused_if_it_is_needed(tmp_path):
    (tmp_path / "vllm").mkdir()
    other, needed = tmp_path / "vllm/_other.so", tmp_path / "vllm/_C_stable_libtorch.abi3.so"
    other.write_bytes(library_of((2, 100, b"blackwell")))
    needed.write_bytes(library_of((2, 80, b"ampere"), (2, 90, b"hopper")))
    assert slim.slim_libraries(tmp_path) == {other.name: (9, 0), needed.name: (12, 6)}
    assert b"hopper" in needed.read_bytes() and b"ampere" not in needed.read_bytes()
    needed.write_bytes(library_of((2, 80, b"ampere")))
    with pytest.raises(ValueError, match="_C_stable_libtorch.abi3.so has no machine code for sm_90"):
        slim.slim_libraries(tmp_path)


def attention(size: int, number: str) -> bytes:
    """Machine code with a kernel of FlashAttention 3, as its name is mangled."""
    tile = f"CollectiveMainloopFwdSm90ILi2EN4cute5tupleIJNS5_1CILi1EEES8_S8_EEES9_ELi{size}ENS_{len(number)}{number}"
    return f"\0.text._ZN5flash16FlashAttnFwdSm90INS1_25{tile}EfNS_4arch4Sm90ELb0E\0".encode()


def test_attention_stays_for_the_heads_and_the_format_of_the_recipes(tmp_path):
    stay = [
        attention(64, "bfloat16_t"),
        attention(128, "bfloat16_t"),
        b"no attention",
        attention(96, "half_t") + attention(128, "bfloat16_t"),
    ]
    go = [attention(128, "half_t"), attention(128, "float_e4m3_t"), attention(256, "bfloat16_t")]
    (tmp_path / "vllm").mkdir()
    library = tmp_path / "vllm/_vllm_fa3_C.abi3.so"
    library.write_bytes(library_of(*((2, 90, code) for code in (*stay, *go))))
    assert slim.slim_libraries(tmp_path) == {library.name: (sum(map(len, stay + go)), sum(map(len, stay)))}
    (entries,) = fatbin.containers(slimmer := library.read_bytes())
    assert [slimmer[entry.content] for entry in entries] == [*stay, *(bytes(len(code)) for code in go)]


def test_what_is_not_needed_is_removed_and_the_weather_stays(tmp_path):
    stay = ["pvlib/data/12839.tm2", "pvlib/solarposition.py", "vllm/model.py", "vllm/vllm_flash_attn/_vllm_fa3_C.abi3.so"]
    go = ["pvlib/data/other.csv", "dill/tests/test.py", "vllm/a/fused_moe/configs/x.json", "vllm/__pycache__/model.pyc"]
    go += ["vllm/third_party/deep_gemm/x.so", "vllm/vllm_flash_attn/_vllm_fa2_C.abi3.so", "tests/test.py"]
    for name in (*stay, *go):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    slim.remove_unused(tmp_path)
    assert sorted(path.relative_to(tmp_path).as_posix() for path in tmp_path.rglob("*") if path.is_file()) == sorted(stay)


# Packing


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder with what a bundle holds: libraries, modules, and a program: the sandbox, as it is installed here."""
    from pydantic_monty._binary import find_monty_binary

    site = tmp_path / "site"
    for name in ("vllm/_C.so", "vllm/model.py", "package/module.py"):
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_text(f"# {name}\n")
    (site / "bin").mkdir()
    shutil.copy(find_monty_binary(), site / "bin/monty")
    return site


def files(folder: Path) -> dict[str, tuple[bytes, bool]]:
    found = (path for path in folder.rglob("*") if path.is_file() and path.name != pack.ABOUT)
    return {str(path.relative_to(folder)): (path.read_bytes(), os.access(path, os.X_OK)) for path in found}


def small(site: Path) -> Path:
    """The folder without the program of many megabytes."""
    (site / "bin/monty").write_text("#!/bin/sh\n")
    return site


def test_a_bundle_unpacks_to_what_was_packed_and_is_made_again_byte_for_byte(site, tmp_path):
    first, second = tmp_path / "first", tmp_path / "second"
    about = pack.pack(small(site), first, {"python": PYTHON})
    os.utime(site / "vllm/model.py", (1, 1))
    pack.pack(site, second, {"python": PYTHON})
    assert {name: data for name, (data, _) in files(first).items()} == {n: data for n, (data, _) in files(second).items()}
    assert sorted(about["files"]) == ["programs.tar.xz", "sources.tar.xz", "vllm_libraries.tar.xz"]
    assert pack.unpack(first, tmp_path / "again") == about
    assert files(tmp_path / "again") == files(site)


def test_a_bundle_is_unpacked_once(site, tmp_path):
    pack.pack(small(site), tmp_path / "bundle", {})
    pack.unpack(tmp_path / "bundle", tmp_path / "again")
    (tmp_path / "again/package/module.py").write_text("mine")
    pack.unpack(tmp_path / "bundle", tmp_path / "again")
    assert (tmp_path / "again/package/module.py").read_text() == "mine"


def test_a_damaged_or_missing_bundle_is_named(site, tmp_path):
    bundle = tmp_path / "bundle"
    with pytest.raises(ValueError, match=r"bundle holds no bundle\.json: name the folder"):
        pack.unpack(bundle, tmp_path / "again")
    pack.pack(small(site), bundle, {})
    data = bytearray((bundle / "sources.tar.xz").read_bytes())
    data[-1] ^= 1
    (bundle / "sources.tar.xz").write_bytes(data)
    with pytest.raises(ValueError, match=r"sources\.tar\.xz is missing or damaged: copy the bundle again"):
        pack.unpack(bundle, tmp_path / "again")
    assert not (tmp_path / "again").exists()


def wheel(folder: Path, name: str, version: str, requires: str = "") -> None:
    """A wheel with a module, a program as a file, and a program by its entry point."""
    folder.mkdir(exist_ok=True)
    info = f"{name}-{version}.dist-info"
    with zipfile.ZipFile(folder / f"{name}-{version}-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{name}.py", "def main():\n    print('said')\n")
        archive.writestr(f"{name}-{version}.data/scripts/{name}-tool", "#!python\nprint('told')\n")
        required = f"Requires-Dist: {requires}\n" if requires else ""
        archive.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{required}")
        archive.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        archive.writestr(f"{info}/entry_points.txt", f"[console_scripts]\n{name} = {name}:main\n")
        archive.writestr(f"{info}/RECORD", "")


def wheels_of(folder: Path) -> list[str]:
    return ["--no-index", "--find-links", str(folder / "wheels")]


@pytest.mark.long
def test_lists_are_installed_apart_and_merged(tmp_path):
    for name in ("thing", "other"):
        wheel(tmp_path / "wheels", name, "1.0")
        install(tmp_path / name, PYTHON, *wheels_of(tmp_path), name)
    install(tmp_path / "both", PYTHON, *wheels_of(tmp_path), "thing", "other")
    merge(tmp_path / "other", tmp_path / "thing")
    assert files(tmp_path / "thing") == files(tmp_path / "both")


@pytest.mark.long
def test_programs_start_wherever_the_folder_is(tmp_path):
    wheel(tmp_path / "wheels", "thing", "1.0")
    install(tmp_path / "made", PYTHON, *wheels_of(tmp_path), "thing")
    install(tmp_path / "twice", PYTHON, *wheels_of(tmp_path), "thing")
    assert files(tmp_path / "twice") == files(tmp_path / "made")
    moved = (tmp_path / "made").rename(tmp_path / "moved")
    variables = ready.environment(moved, os.environ)
    for program, says in (("thing", "said"), ("thing-tool", "told")):
        assert (moved / "bin" / program).read_text().startswith("#!/usr/bin/env python3\n")
        done = subprocess.run([moved / "bin" / program], env=variables, capture_output=True, text=True)
        assert done.stdout.strip() == says, done.stderr


def test_versions_that_do_not_fit_together_are_named(tmp_path):
    wheel(tmp_path / "wheels", "thing", "1.0", "other>=2")
    wheel(tmp_path / "wheels", "other", "1.5", "absent>3")
    install(tmp_path / "made", PYTHON, *wheels_of(tmp_path), "thing", "other")
    assert conflicts(tmp_path / "made", PYTHON) == ["thing 1.0 requires other>=2, and 1.5 is there"]


# The GPU machine

ABOUT = {"python": PYTHON, "lists": ["homerl"]}


def run(bundle: Path, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, ROOT / "scripts/gpu_run", bundle, "--site", folder / "again", "--out", folder / "out"]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", "PYTHONPATH": "", "MONTY_BIN": "wrong"}
    return subprocess.run([*command, *arguments], env=environment, capture_output=True, text=True, cwd=folder)


def test_the_sandbox_of_the_bundle_starts_and_a_missing_one_is_told(site, capsys):
    variables = ready.environment(site, os.environ | {"MONTY_BIN": "wrong"})
    assert ready.passes("monty", ABOUT, variables)
    (site / "bin/monty").unlink()
    assert not ready.passes("monty", ABOUT, variables)
    told = capsys.readouterr().out
    assert "homerl: monty, the sandbox, starts\n" in told and "MONTY_BIN must name the program bin/monty" in told


@pytest.mark.parametrize(
    ("lists", "tiny", "checked"),
    [
        (["homerl", "vllm"], False, ["python", "torch", "monty", "homerl", "engine", "vllm"]),
        (["homerl"], False, ["python", "torch", "monty", "homerl"]),
        (["homerl", "vllm"], True, ["python", "monty", "homerl", "engine"]),
    ],
)
def test_what_is_used_is_checked(monkeypatch, lists, tiny, checked):
    asked = []
    monkeypatch.setattr(ready, "passes", lambda name, *_: asked.append(name) or name != "monty")
    assert ready.failing({"lists": lists}, tiny, {}) == ["monty"] and sorted(asked) == sorted(checked)


def test_another_python_is_told_at_once(site, tmp_path):
    pack.pack(small(site), tmp_path / "bundle", {"python": "3.9", "lists": ["homerl"]})
    done = run(tmp_path / "bundle", tmp_path, "--check")
    assert done.returncode == 1 and "run it with Python 3.9, or make the bundle with --python" in done.stdout
    assert done.stderr == "homerl: nothing was measured. Failed: python\n"


def test_the_packages_of_the_bundle_come_before_those_of_the_machine():
    found = ready.environment(Path("/site"), {"PATH": "/usr/bin", "PYTHONPATH": "/mine", "HOME": "/root"})
    assert found["PATH"].split(os.pathsep) == ["/site/bin", "/usr/bin"]
    assert found["PYTHONPATH"].split(os.pathsep) == [str(ROOT), "/site", "/mine"]
    assert found["MONTY_BIN"] == "/site/bin/monty" and found["HF_HUB_OFFLINE"] == "1" and found["HOME"] == "/root"


@pytest.mark.long
@pytest.mark.timeout(600)
def test_one_command_checks_measures_and_leaves_the_results(site, tmp_path):
    shutil.rmtree(site / "vllm")
    pack.pack(site, tmp_path / "bundle", ABOUT)
    done = run(tmp_path / "bundle", tmp_path, "--tiny", "generate_transformers")
    assert done.returncode == 0, done.stdout + done.stderr
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["gpu_report.json", "logs.tar.gz"]
    found = json.loads((tmp_path / "out/gpu_report.json").read_text())
    assert found["generate_transformers"]["tokens_per_second"] > 0
