"""What clusters do, one file for each or for a few that belong together.

Every module of this folder is imported here and registers its functions with `envs.simuhome.registry`: a new cluster is
one new file. Modules may use functions of one another; none imports this package itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from envs.simuhome.registry import COMMANDS, PASSES, WRITES

for _found in iter_modules(__path__):
    import_module(f"{__name__}.{_found.name}")

__all__ = ["COMMANDS", "PASSES", "WRITES"]
