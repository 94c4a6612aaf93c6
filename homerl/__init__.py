"""homerl: a training stack for smart-home agents.

What a program of your own needs is here: `load_suite`, `load_tasks`, and the types `Task`, `TaskEnv`, `TaskList` and `Turn`
(`homerl/tasks/`). They are imported when they are first asked for, so that `import homerl` costs nothing. Type checkers read
`__init__.pyi`.
"""

from importlib import import_module
from typing import Any

__version__ = "1.0.0"
__all__ = ["Task", "TaskEnv", "TaskList", "Turn", "__version__", "load_suite", "load_tasks"]

_MODULES = {
    **dict.fromkeys(("load_suite", "load_tasks"), "homerl.tasks.load_tasks"),
    **dict.fromkeys(("Task", "TaskEnv", "TaskList", "Turn"), "homerl.tasks.task_env"),
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'homerl' has no attribute '{name}'")
    return getattr(import_module(_MODULES[name]), name)
