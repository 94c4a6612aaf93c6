"""`homerl check-plugin`: the contract of a plug-in file, checked in a process that has this one plug-in beside homerl's own.

`python -m homerl.app.plugin_check NAME FILE` is that process. It ends with 0 if the contract holds, else with 2.
"""

from __future__ import annotations

import ast
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from typing import Any

from homerl.envs.core.documents import InputError
from homerl.envs.core.plugins import VARIABLES
from homerl.envs.core.world import ContractError
from homerl.host.exit_codes import run_to_end
from homerl.host.terminal import say


@dataclass(frozen=True)
class PluginKind:
    """A kind of plug-in: what it is in words, the kind of its folder (None: no folder), its package, and its page."""

    words: str
    folder: str | None
    package: str
    page: str


KINDS = {  # by the name that a file defines
    "WORLD": PluginKind("a world", "worlds", "homerl.envs", "docs/worlds.md"),
    "REWARD": PluginKind("a reward", "rewards", "homerl.rewards", "docs/recipes.md, Rewards"),
    "MODE": PluginKind("a credit mode", "credit", "homerl.train.credit", "docs/training.md, A mode of your own"),
    "LOSS": PluginKind("a loss", "losses", "homerl.train.losses", "docs/training.md, A loss of your own"),
    "TOOLSET": PluginKind("a toolset", "toolsets", "", "docs/homes.md, Toolsets"),
    "USER": PluginKind("a user", None, "", "docs/interop.md, Check your plug-in"),
}


def check_plugin_file(path: Path) -> str:
    """Check the plug-in of a file, or of a world's folder. Returns a line that says what was checked.

    Raises `InputError` with the clause that is broken.
    """
    file = path / "adapter.py" if path.is_dir() else path
    if not file.is_file():
        raise InputError("there is no such file", str(file), "name a plug-in's file, or the folder of a world's adapter.py")
    attribute = find_plugin_attribute(file)
    kind = KINDS[attribute]
    source = file.parent.resolve() if attribute == "WORLD" else file.resolve()
    with tempfile.TemporaryDirectory() as folder:
        # The folder holds this plug-in alone, and the helpers beside it: a neighbour that fails is not its fault.
        for beside in {source, *source.parent.glob("_*.py")}:
            (Path(folder).resolve() / beside.name).symlink_to(beside)
        more = {VARIABLES[kind.folder]: str(Path(folder).resolve())} if kind.folder else {}
        command = [sys.executable, "-m", __name__, attribute, str(source)]
        done = subprocess.run(command, env=os.environ | more, capture_output=True, text=True)
        said = done.stdout.replace(str(Path(folder).resolve()), str(source.parent)).strip()
        errors = done.stderr.replace(str(Path(folder).resolve()), str(source.parent)).strip()
    if done.returncode:
        what = said or errors.removeprefix("homerl: ") or f"the check ended with code {done.returncode}"
        raise _error_of_failed_check(kind, path, what)
    return f"{path}: {kind.words} that keeps its contract"


def _error_of_failed_check(kind: PluginKind, path: Path, said: str) -> InputError:
    """The error for what the process of a check said: what is wrong, and in a second line what to do, if it knew that."""
    what, *remedies = [said] if "Traceback" in said else said.splitlines()
    return InputError(f"{kind.words}: {what}", str(path), "; ".join(dict.fromkeys([*remedies, f"see {kind.page}"])))


def find_plugin_attribute(file: Path) -> str:
    """What a plug-in file defines, such as `REWARD`, without running it. Raises `InputError` if it is none or several."""
    try:
        tree = ast.parse(file.read_text("utf-8"))
    except (SyntaxError, UnicodeDecodeError) as error:
        at = getattr(error, "lineno", None)
        where = f"{file}:{at}" if at else str(file)
        raise InputError(f"the file is no Python: {error}", where, "correct the file") from None
    targets = (target for node in tree.body if isinstance(node, ast.Assign) for target in node.targets)
    typed = (node.target for node in tree.body if isinstance(node, ast.AnnAssign))
    names = {target.id for target in (*targets, *typed) if isinstance(target, ast.Name)}
    found = sorted(names & KINDS.keys())
    if len(found) != 1:
        what = f"the file defines {' and '.join(found)}" if found else "the file defines no plug-in that can be checked"
        known = ", ".join(f"{name} ({kind.words})" for name, kind in KINDS.items())
        raise InputError(what, str(file), f"define one of these: {known}")
    return found[0]


def check_loaded_plugin(attribute: str, file: Path) -> None:
    """Check the plug-in of a file that this process has loaded, or loads now. Raises `ContractError` or `InputError`."""
    if attribute == "TOOLSET":  # its world loads it by its name
        from homerl.worlds.registry import known_worlds

        for world in known_worlds().values():
            if check := world.plugin_checks.get("toolsets"):
                check(file.stem)
        return
    for plugin in _load_plugins(attribute, file):
        _checks()[attribute](plugin)


def _load_plugins(attribute: str, file: Path) -> list[Any]:
    """Each plug-in that a file defines."""
    name, kind = file.stem, KINDS[attribute]
    if attribute == "USER":
        spec = spec_from_file_location(name, file)
        assert spec and spec.loader
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        _discover(attribute)
        module = import_module(f"{kind.package}.{name}" + (".adapter" if attribute == "WORLD" else ""))
    found = getattr(module, attribute)
    return [*found] if isinstance(found, tuple) else [found]


def _discover(attribute: str) -> None:
    """Read all plug-ins of a kind, as a run does: a file that cannot be used, or whose name is taken, is refused."""
    if attribute == "WORLD":
        from homerl.worlds.registry import known_worlds

        known_worlds()
    elif attribute == "REWARD":
        from homerl.rewards.composite import RewardWeights

        RewardWeights()
    else:
        from homerl.train.recipe import RLVESettings

        RLVESettings()


def _checks() -> Mapping[str, Callable[[Any], object]]:
    """The check of each kind whose plug-ins are loaded."""
    from homerl.rewards.reward import check_reward
    from homerl.train.credit.contract import check_credit_mode
    from homerl.train.losses.contract import check_loss
    from homerl.train.recipe import RLVESettings
    from homerl.worlds.plugin_checks import check_user, check_world_adapter

    return {
        "WORLD": check_world_adapter,
        "REWARD": check_reward,
        "MODE": lambda mode: check_credit_mode(mode, RLVESettings()),
        "LOSS": lambda loss: check_loss(loss, RLVESettings()),
        "USER": check_user,
    }


def main(attribute: str, file: Path) -> int:
    """Check a plug-in that is loaded, and say what is wrong."""
    try:
        check_loaded_plugin(attribute, file)
    except ContractError as error:
        say(f"it breaks its contract: {error}")
        return 2
    except InputError:
        raise
    except Exception as error:
        frames = [frame for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename).name == file.name]
        where = f" (line {frames[-1].lineno})" if frames else ""
        say(f"it fails: {type(error).__name__}: {error}{where}")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(run_to_end(lambda: main(sys.argv[1], Path(sys.argv[2]))))
