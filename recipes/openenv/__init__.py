"""Smart homes by OpenEnv's protocol: the client and its types."""

from homerl.tasks.openenv.client import TaskClient
from homerl.tasks.openenv.messages import TaskAction, TaskObservation, TaskState

__all__ = ["TaskAction", "TaskClient", "TaskObservation", "TaskState"]
