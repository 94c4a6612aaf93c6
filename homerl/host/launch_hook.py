"""Lets Python run a recipe as a program: `python recipes/smoke.yaml --train.steps 3`.

Before `python PATH` reads PATH as a script, it asks every entry of `sys.path_hooks` whether it can import from PATH. (This
is how Python runs zip files.) `homerl.pth`, in site-packages, registers `claim` as such an entry. Every program that starts
a script (`accelerate launch`, `torchrun`, `deepspeed`) can therefore start a recipe.

Invariants:
- The hook claims only a .yaml or .yml file that has the line `homerl: 1`, the name of a recipe that came with this
  installation, or a name in `recipes/` that no file has, so that homerl says which it may be. It declines everything else by
  ImportError, the only exception that `claim` raises.
- Only `__main__` can be imported from a recipe, so a recipe shadows no module.
- The name in `__main__.__spec__` is `__main__`. Child processes of multiprocessing see it and do not run the recipe again.
- Starting the interpreter reads nothing of homerl but the line of the .pth. This file is first opened for a path that ends
  in .yaml or .yml, and the package `homerl` only when a recipe runs.
"""

import os

# The code of a recipe's `__main__`. Python put the recipe on `sys.path`, where it puts the folder of a script, so the code
# removes it. `sys.argv` holds the words of the command line; all but the first are overrides of recipe keys.
PROGRAM = """
import sys
sys.path[:] = [path for path in sys.path if path != {entry!r}]
from homerl.app.runs.launch import main
sys.exit(main({recipe!r}, sys.argv[1:]))
"""
ENDINGS = ("", ".yaml", ".yml")  # a recipe may be named without its ending
HEAD = 4096  # bytes in which the declaration must occur, so that a large YAML file is not read as a whole


def claim(path: str) -> "RecipeImporter":
    """The importer of the recipe at `path`. Raises ImportError, as `sys.path_hooks` demands, if there is none."""
    try:
        if recipe := recipe_at(path):
            return RecipeImporter(path, recipe)
    except (OSError, ValueError) as error:  # unreadable, or no valid path: the interpreter reports it
        raise ImportError(path) from error
    raise ImportError(path)


def recipe_at(path: str) -> "str | None":
    """The recipe that a path means: a file, or a name in `recipes/` that no file has; None if it means anything else."""
    if file := find_recipe_file(path):
        return file if declares_recipe(file) else None
    missing = path.endswith((".yaml", ".yml")) and "\0" not in path and not os.path.lexists(path)
    name = os.path.relpath(path) if missing else ""
    return name if name.startswith("recipes" + os.sep) else None


def find_recipe_file(path: str) -> str | None:
    """The absolute path of a file or, if it does not exist, of the shipped recipe `recipes/NAME`; None if neither exists."""
    if os.path.isfile(path):
        return os.path.abspath(path)
    name = os.path.relpath(path)  # Python hands over absolute paths
    return find_shipped_recipe(name) if name.startswith("recipes" + os.sep) else None


def find_shipped_recipe(name: str) -> str | None:
    """The path of a recipe that came with this installation, by its name with or without `recipes/` and its ending."""
    known = os.path.join(shipped_folder("recipes"), name.removeprefix("recipes" + os.sep))
    return next((known + ending for ending in ENDINGS if os.path.isfile(known + ending)), None)


def shipped_folder(folder: str) -> str:
    """A folder that came with this installation, `recipes` or `models`, in a wheel or in the source tree."""
    here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # an editable installation reaches it by a link
    packaged = os.path.join(here, f"_{folder}")
    return packaged if os.path.isdir(packaged) else os.path.join(os.path.dirname(here), folder)


def declares_recipe(path: str) -> bool:
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

        return ModuleSpec(name, self, origin=self.recipe)  # type: ignore[arg-type]

    def get_code(self, name: str) -> object:
        """The compiled code that launches the recipe. `runpy` calls this method."""
        return compile(PROGRAM.format(entry=self.entry, recipe=self.recipe), "<recipe>", "exec")
