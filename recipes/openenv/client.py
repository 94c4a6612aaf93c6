"""The client, where OpenEnv's programs look for it."""

from homerl.tasks.openenv.client import TaskClient

__all__ = ["TaskClient"]
