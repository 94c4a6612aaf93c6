"""Lets Python run a recipe as a program: `python recipes/smoke.yaml --train.steps 3`.

Before `python PATH` reads PATH as a script, it asks every entry of `sys.path_hooks` whether it can import from PATH. (This
is how Python runs zip files.) `homerl.pth`, in site-packages, registers `claim` as such an entry. Every program that starts
a script (`accelerate launch`, `torchrun`, `deepspeed`) can therefore start a recipe.

`homerl.pth` also calls `quieten` in the process of `accelerate launch`, which would say of every recipe that it used its
defaults, and would print a traceback of its own below the message of a run that failed. It uses what Python documents for
programs: filters of loggers, and `sys.excepthook`.

Invariants:
- The hook claims only a .yaml or .yml file that has the line `homerl: 1`, the name of a recipe that came with this
  installation, or a name in `recipes/` that no file has, so that homerl says which it may be. It declines everything else by
  ImportError, the only exception that `claim` raises.
- Only `__main__` can be imported from a recipe, so a recipe shadows no module.
- The name in `__main__.__spec__` is `__main__`. Child processes of multiprocessing see it and do not run the recipe again.
- Starting the interpreter reads nothing of homerl but the .pth lines. This file is first opened for a path that ends in
  .yaml or .yml, or by `accelerate`, and the package `homerl` only when a recipe runs.
- `quieten` raises nothing, and touches nothing but an `accelerate launch` of a recipe. What a run did not say itself, such
  as that the system killed it, is still said.
"""

import os
import sys

# The code of a recipe's `__main__`. Python put the recipe on `sys.path`, where it puts the folder of a script, so the code
# removes it. `sys.argv` holds the words of the command line; all but the first are overrides of recipe keys.
PROGRAM = """
import sys
sys.path[:] = [path for path in sys.path if path != {entry!r}]
from homerl.app.runs.launch import main
sys.exit(main({recipe!r}, sys.argv[1:]))
"""
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
    if file := find(path):
        return file if declares(file) else None
    missing = path.endswith((".yaml", ".yml")) and "\0" not in path and not os.path.lexists(path)
    name = os.path.relpath(path) if missing else ""
    return name if name.startswith("recipes" + os.sep) else None


def find(path: str) -> str | None:
    """The absolute path of a file or, if it does not exist, of the shipped recipe `recipes/NAME`; None if neither exists."""
    if os.path.isfile(path):
        return os.path.abspath(path)
    folder, _, name = os.path.relpath(path).partition(os.sep)  # relative: Python hands over absolute paths
    known = os.path.join(shipped("recipes"), name)
    return known if folder == "recipes" and os.path.isfile(known) else None


def shipped(folder: str) -> str:
    """A folder that came with this installation, `recipes` or `models`, in a wheel or in the source tree."""
    here = os.path.dirname(os.path.dirname(os.path.realpath(__file__)))  # an editable installation reaches it by a link
    packaged = os.path.join(here, f"_{folder}")
    return packaged if os.path.isdir(packaged) else os.path.join(os.path.dirname(here), folder)


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

        return ModuleSpec(name, self, origin=self.recipe)  # type: ignore[arg-type]

    def get_code(self, name: str) -> object:
        """The compiled code that launches the recipe. `runpy` calls this method."""
        return compile(PROGRAM.format(entry=self.entry, recipe=self.recipe), "<recipe>", "exec")


# Processes of `accelerate launch`

LAUNCH = ("accelerate-launch", "accelerate.commands.launch")  # programs that launch; `accelerate` does so by `launch`
UNASKED = {  # beginnings of messages, by the loggers that write them: what was left at its default, and what runs said
    "accelerate.commands.launch": ("The following values were not passed",),
    "__main__": ("The following values were not passed",),  # the same, for `python -m accelerate.commands.launch`
    "torch.distributed.elastic.multiprocessing.api": ("failed (exitcode:", "Sending process"),
    "torch.distributed.elastic.agent.server.api": ("Received %s death signal", "Received Signals.SIGINT"),
}


def quieten(argv: "list[str]") -> None:
    """Keep `accelerate launch` quiet about a recipe. `argv` is the command line of this process (`sys.orig_argv`)."""
    if not _launches_recipe(argv):
        return
    import logging

    for logger, beginnings in UNASKED.items():
        logging.getLogger(logger).addFilter(lambda record, beginnings=beginnings: not _unasked(record, beginnings))  # type: ignore[misc]
    say = sys.excepthook
    sys.excepthook = lambda kind, error, trace: None if _was_said(error) else say(kind, error, trace)


def _launches_recipe(argv: "list[str]") -> bool:
    """Whether a command line is an `accelerate launch` whose script is a recipe."""
    words = [word for word in argv[1:] if word != "-m"]
    names = [os.path.basename(word) for word in words[:2]]
    if not ((names[:1] and names[0] in LAUNCH) or names == ["accelerate", "launch"]):
        return False
    try:
        return any(word.endswith((".yaml", ".yml")) and recipe_at(word) for word in words)
    except (OSError, ValueError):
        return False


def _unasked(record: object, beginnings: "tuple[str, ...]") -> bool:
    """Whether a message is unasked. That a process was killed by a signal (exit code below 0) is not."""
    killed = record.msg.startswith("failed") and not _said_why(record.args[0])  # type: ignore[attr-defined]
    return str(record.msg).startswith(beginnings) and not killed  # type: ignore[attr-defined]


def _was_said(error: BaseException) -> bool:
    """Whether the runs themselves said why they ended: by an exit code of theirs, or because they were interrupted."""
    kind = type(error).__name__
    if kind == "CalledProcessError":
        return _said_why(error.returncode)  # type: ignore[attr-defined]
    if kind == "ChildFailedError":
        return _said_why(error.get_first_failure()[1].exitcode)  # type: ignore[attr-defined]  # it ended the others
    return kind in ("KeyboardInterrupt", "SignalException")


def _said_why(code: int) -> bool:
    """Whether a process with this exit code ended by itself. homerl then has printed a message, or Python a traceback."""
    return code > 0
