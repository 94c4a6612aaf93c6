"""homerl: a training stack for smart-home agents.

What a program of your own needs is here: `load_suite`, `load_tasks`, and the types `Task`, `TaskEnv`, `TaskList` and `Turn`
(`homerl/tasks/`). They are imported when they are first asked for, so that `import homerl` costs nothing. Type checkers read
`__init__.pyi`.
"""

import sys
from importlib import import_module
from types import ModuleType
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
    return getattr(_import_and_say_if_slow(_MODULES[name]), name)


_SLOW = 3.0  # seconds


def _import_and_say_if_slow(module: str) -> ModuleType:
    """The module. What imports worlds for the first time may take many seconds, and then says so on stderr."""
    from threading import Timer

    timer = Timer(
        _SLOW, print, ["homerl: importing its worlds, once in each process ..."], {"file": sys.stderr, "flush": True}
    )
    timer.daemon = True
    timer.start()
    try:
        return import_module(module)
    finally:
        timer.cancel()
