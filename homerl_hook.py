"""Lets Python run a recipe as a program: `python recipes/smoke.yaml --train.steps 3`.

Before `python PATH` reads PATH as a script, it asks every entry of `sys.path_hooks` whether it can import from PATH. (This
is how Python runs zip files.) `homerl.pth`, in site-packages, registers `claim` as such an entry. Every program that starts
a script (`accelerate launch`, `torchrun`, `deepspeed`) can therefore start a recipe.

Invariants:
- The hook claims only a .yaml or .yml file that has the line `homerl: 1`, or the name of a recipe that came with this
  installation. It declines everything else by ImportError, the only exception that `claim` raises.
- Only `__main__` can be imported from a recipe, so a recipe shadows no module.
- The name in `__main__.__spec__` is `__main__`. Child processes of multiprocessing see it and do not run the recipe again.
- Starting the interpreter reads nothing of homerl but the .pth line. This file is first opened for a path that ends in .yaml
  or .yml, and the package `homerl` only when a recipe runs.
"""

import os

# The code of a recipe's `__main__`. Python put the recipe on `sys.path`, where it puts the folder of a script, so the code
# removes it. `sys.argv` holds the words of the command line; all but the first are overrides of recipe keys.
PROGRAM = """
import sys
sys.path[:] = [path for path in sys.path if path != {entry!r}]
from homerl.run.launch import main
sys.exit(main({recipe!r}, sys.argv[1:]))
"""
HEAD = 4096  # bytes in which the declaration must occur, so that a large YAML file is not read as a whole


def claim(path: str) -> "RecipeImporter":
    """The importer of the recipe at `path`. Raises ImportError, as `sys.path_hooks` demands, if there is none."""
    try:
        recipe = find(path)
        if recipe and declares(recipe):
            return RecipeImporter(path, recipe)
    except (OSError, ValueError) as error:  # unreadable, or no valid path: the interpreter reports it
        raise ImportError(path) from error
    raise ImportError(path)


def find(path: str) -> str | None:
    """The absolute path of a file or, if it does not exist, of the shipped recipe `recipes/NAME`; None if neither exists."""
    if os.path.isfile(path):
        return os.path.abspath(path)
    folder, _, name = os.path.relpath(path).partition(os.sep)  # relative: Python hands over absolute paths
    shipped = os.path.join(shipped_recipes(), name)
    return shipped if folder == "recipes" and os.path.isfile(shipped) else None


def shipped_recipes() -> str:
    """The folder of the recipes that came with this installation, in a wheel or in the source tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    packaged = os.path.join(here, "homerl", "_recipes")
    return packaged if os.path.isdir(packaged) else os.path.join(here, "recipes")


def declares(path: str) -> bool:
    """Whether the first `HEAD` bytes of the file hold the line `homerl: 1`. Raises OSError if it cannot be read."""
    with open(path, "rb") as file:
        lines = file.read(HEAD).removeprefix(b"\xef\xbb\xbf").splitlines()
    tops = (line.partition(b"#")[0] for line in lines if line.startswith(b"homerl:"))
    return any(top.split() == [b"homerl:", b"1"] for top in tops)


class RecipeImporter:
    """An importer and loader for the single module `__main__`, whose code launches the recipe.

    `entry` is the path as it stands on `sys.path`, and `recipe` is the file to run.
    """

    def __init__(self, entry: str, recipe: str) -> None:
        self.entry, self.recipe = entry, recipe

    def find_spec(self, name: str, target: object = None) -> object | None:
        """The module spec of `__main__`; None for any other name."""
        if name != "__main__":
            return None  # before the import below, which itself calls this method
        from importlib.machinery import ModuleSpec

        return ModuleSpec(name, self, origin=self.recipe)

    def get_code(self, name: str) -> object:
        """The compiled code that launches the recipe. `runpy` calls this method."""
        return compile(PROGRAM.format(entry=self.entry, recipe=self.recipe), "<recipe>", "exec")
