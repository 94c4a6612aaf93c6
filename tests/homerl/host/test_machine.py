"""`auto` in a recipe: what it becomes on this machine."""

import pytest

from homerl.app.runs.recipe import load_recipe
from homerl.host import recipe_files as machine

RECIPE = "homerl: 1\nrun: sft\nout: out\ndata: data\ncpu: auto\nmodel: {name: org/model, dtype: auto}\n"


@pytest.mark.parametrize(
    ("flags", "gpu", "cpu", "dtype"),
    [
        ("flags\t\t: fpu avx2 avx512f", False, True, "float32"),
        ("flags\t\t: fpu avx512_bf16", False, True, "bfloat16"),
        ("flags\t\t: fpu amx_bf16 amx_tile", False, True, "bfloat16"),
        ("Features\t: fp asimd bf16", False, True, "bfloat16"),
        ("flags\t\t: fpu", True, False, "bfloat16"),
    ],
)
def test_auto_is_what_the_machine_has(tmp_path, monkeypatch, flags, gpu, cpu, dtype):
    (tmp_path / "cpuinfo").write_text(f"processor\t: 0\n{flags}\n")
    (tmp_path / "driver").touch()
    known = machine.has_bfloat16_cpu.__wrapped__
    monkeypatch.setattr(machine, "has_bfloat16_cpu", lambda: known(str(tmp_path / "cpuinfo")))
    monkeypatch.setattr(machine, "GPUS", (str(tmp_path / ("driver" if gpu else "none")),))
    (tmp_path / "recipe.yaml").write_text(RECIPE)
    recipe = load_recipe(tmp_path / "recipe.yaml")
    assert (recipe.cpu, recipe.model.dtype) == (cpu, dtype)
    given = load_recipe(tmp_path / "recipe.yaml", ["--cpu", "false", "--model.dtype", "float32"])
    assert (given.cpu, given.model.dtype) == (False, "float32")


def test_a_system_that_tells_nothing_of_its_processor_has_no_bfloat16(tmp_path):
    assert not machine.has_bfloat16_cpu.__wrapped__(str(tmp_path / "none"))
