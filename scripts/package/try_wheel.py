"""Tries an installed homerl as a user has it: imports, checks and plays. Run it by the Python that has the wheel, anywhere
outside of a clone: `python -I try_wheel.py`.

It needs the extra `env`. Each line says what was tried; it ends with a traceback if something is not as it should be.
"""

import importlib.util
import pkgutil
import subprocess
import sys
from pathlib import Path

import homerl
from homerl.envs.core.documents import InputError
from homerl.host.exit_codes import extra_with_module
from homerl.host.recipe_files import find_recipe, shipped_recipe_folder
from homerl.worlds.registry import known_worlds


def find_missing_packages() -> set[str]:
    """Import every module of homerl; the packages that are not installed, all of which an extra must bring."""
    missing = set[str]()
    for module in pkgutil.walk_packages(homerl.__path__, "homerl.", onerror=lambda name: None):
        if module.name.endswith("__main__"):
            continue
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            package = (error.name or "").partition(".")[0]
            assert extra_with_module(package), f"{module.name} needs {package}, which no extra brings"
            missing.add(package)
        except InputError as error:  # a module that says so itself
            assert "pip install 'homerl[" in str(error), error
            missing.add(module.name)
    return missing


def main() -> None:
    """Try everything."""
    package = Path(homerl.__file__).parent
    assert package.parent.name == "site-packages", f"homerl is not taken from the wheel: {package}"
    python = ".".join(map(str, sys.version_info[:3]))
    size = sum(path.stat().st_size for path in package.rglob("*") if path.is_file() and path.suffix != ".pyc")
    print(f"homerl {homerl.__version__} on Python {python}, {size / 1e6:.0f} MB")

    missing = find_missing_packages()
    print(f"imported every module; left out with their packages: {', '.join(sorted(missing)) or 'none'}")

    recipes = sorted(shipped_recipe_folder().glob("*.yaml"))
    assert find_recipe("quickstart.yaml") in recipes, "the recipes are not in the wheel"
    command = [sys.executable, "-I", "-m", "homerl"]
    trains = importlib.util.find_spec("torch")
    for words in ("init --out shipped", *(("check smoke", "run smoke") if trains else ())):
        subprocess.run([*command, *words.split()], check=True, stdout=subprocess.DEVNULL)
        print(f"homerl {words}: done")
    print(f"{len(recipes)} recipes are inside")

    for suite in ("smarthome-bench", "smh-bench", "simuhome"):
        assert len(homerl.load_suite(suite)), suite
    for world in known_worlds():
        turn = homerl.load_tasks(world, count=1)[0].start().step("Done.")
        assert turn.rewards and turn.counts, world
    print(f"loaded the shipped suites, and played a task of {', '.join(known_worlds())}")


if __name__ == "__main__":
    main()
