"""Gymnasium's registry. It reads no entry points, so the package of an environment makes its entry when it is imported."""

from __future__ import annotations

from importlib.util import find_spec


def register_environment(name: str, entry_point: str) -> None:
    """Register an environment so that `gymnasium.make` returns it without Gymnasium's default wrappers.

    The papers' users read `env.engine` and step before the first reset, which the wrappers do not allow. Where Gymnasium is
    not installed, nobody can ask for the environment.
    """
    if find_spec("gymnasium") is None:
        return
    import gymnasium

    if name not in gymnasium.registry:
        gymnasium.register(id=name, entry_point=entry_point, order_enforce=False, disable_env_checker=True)
