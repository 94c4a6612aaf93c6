"""Lets Python run a recipe as a program: `python recipes/smoke.yaml --train.steps 3`.

`python PATH` asks every `sys.path_hooks` entry whether it can import from PATH before it reads PATH as a
script (so zip files run). `homerl.pth`, in site-packages, registers `claim` there; whatever starts a script
(`accelerate launch`, `torchrun`, `deepspeed`) therefore starts a recipe.

Invariants:
- nothing is claimed but a .yaml or .yml file that declares `homerl: 1` at its top, or the name of one that
  came with this installation; all else is declined by ImportError, the only exception that `claim` raises;
- only `__main__` can be imported from a recipe, so it shadows no module;
- the name in `__main__.__spec__` is `__main__`, by which multiprocessing's children know not to run it again;
- interpreter start-up reads nothing of ours but the .pth line: this file is first opened for a path that ends
  like a recipe's, and the package `homerl` only when a recipe runs.
"""

import os

# What a recipe's `__main__` does. Python put the recipe on `sys.path`, where a script's folder goes; `sys.argv` is as typed,
# so its tail are the recipe's overrides.
PROGRAM = """
import sys
sys.path[:] = [path for path in sys.path if path != {entry!r}]
from homerl.run.launch import main
sys.exit(main({recipe!r}, sys.argv[1:]))
"""
HEAD = 4096  # bytes within which the declaration stands: a large YAML file is not read whole to be declined


def claim(path: str) -> "RecipeImporter":
    """The importer of the recipe at `path`; ImportError, as `sys.path_hooks` demands, if there is none."""
    try:
        recipe = find(path)
        if recipe and declares(recipe):
            return RecipeImporter(path, recipe)
    except (OSError, ValueError) as error:  # unreadable or no path at all: the interpreter will say so
        raise ImportError(path) from error
    raise ImportError(path)


def find(path: str) -> str | None:
    """`path` made absolute or, where there is no such file, the shipped recipe `recipes/NAME`."""
    if os.path.isfile(path):
        return os.path.abspath(path)
    folder, _, name = os.path.relpath(path).partition(os.sep)  # relative: Python hands over absolute paths
    shipped = os.path.join(shipped_recipes(), name)
    return shipped if folder == "recipes" and os.path.isfile(shipped) else None


def shipped_recipes() -> str:
    """The folder of the recipes that came with this installation: a wheel's, or the source tree's."""
    here = os.path.dirname(os.path.abspath(__file__))
    packaged = os.path.join(here, "homerl", "_recipes")
    return packaged if os.path.isdir(packaged) else os.path.join(here, "recipes")


def declares(path: str) -> bool:
    """Whether the file's head holds the line `homerl: 1`."""
    with open(path, "rb") as file:
        lines = file.read(HEAD).removeprefix(b"\xef\xbb\xbf").splitlines()
    tops = (line.partition(b"#")[0] for line in lines if line.startswith(b"homerl:"))
    return any(top.split() == [b"homerl:", b"1"] for top in tops)


class RecipeImporter:
    """Importer and loader in one: finds the single module `__main__`, whose code launches the recipe."""

    def __init__(self, entry: str, recipe: str) -> None:
        self.entry, self.recipe = entry, recipe

    def find_spec(self, name: str, target: object = None) -> object | None:
        if name != "__main__":
            return None  # before the import below, whose own search passes here
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, origin=self.recipe)

    def get_code(self, name: str) -> object:
        return compile(PROGRAM.format(entry=self.entry, recipe=self.recipe), "<recipe>", "exec")
