"""The types of the wire, where OpenEnv's programs look for them."""

from homerl.tasks.openenv.messages import TaskAction, TaskObservation, TaskState

__all__ = ["TaskAction", "TaskObservation", "TaskState"]
