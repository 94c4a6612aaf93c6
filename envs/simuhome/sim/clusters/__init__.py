"""The behaviour of clusters: one module for each cluster, or for a few that belong together.

Every module of this folder is imported here, and registers its functions with `cluster_registry.py`. So a new cluster needs
only a new file. Modules may use functions of one another, but must not import this package itself.
"""

from importlib import import_module
from pkgutil import iter_modules

from homerl.envs.simuhome.sim.cluster_registry import COMMANDS, PASSES, WRITES

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")

__all__ = ["COMMANDS", "PASSES", "WRITES"]
