from homerl.tasks.load_tasks import load_suite as load_suite
from homerl.tasks.load_tasks import load_tasks as load_tasks
from homerl.tasks.task_env import Task as Task
from homerl.tasks.task_env import TaskEnv as TaskEnv
from homerl.tasks.task_env import TaskList as TaskList
from homerl.tasks.task_env import Turn as Turn

__version__: str
