"""Tasks for whoever has a trainer or an agent of their own: `homerl.load_suite`, `homerl.load_tasks`.

Importing this package registers environments of Gymnasium: `homerl/NAME-v0` for each suite, and `homerl/tasks-v0`.
"""

from __future__ import annotations

import re

from homerl.envs.core.world import register_environment
from homerl.worlds.registry import known_suites

_ENTRY_POINT = "homerl.tasks.gymnasium_env:GymnasiumTaskEnv"
register_environment("homerl/tasks-v0", _ENTRY_POINT)
for _name in known_suites():
    if re.fullmatch(r"[\w.-]+", _name):  # Gymnasium takes no other names
        register_environment(f"homerl/{_name}-v0", _ENTRY_POINT, suite=_name)
