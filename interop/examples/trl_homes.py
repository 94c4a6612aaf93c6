"""TRL's GRPO on homes in its own process: python interop/examples/trl_homes.py --model_name_or_path MODEL"""

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser

import homerl
from homerl.tasks.tool_methods import make_tool_environment, score_tool_environments

SOURCE = {"toolset": "homeflow", "prompt": "full", "intents": [1, 1], "families": {"atomic": 1}}

settings, model = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()
tasks = homerl.load_tasks(SOURCE, count=200)
rows = [{"prompt": task.messages, "task": at} for at, task in enumerate(tasks)]  # `task` tells `reset` which one
trainer = GRPOTrainer(
    model.model_name_or_path,
    score_tool_environments,
    settings,
    Dataset.from_list(rows),
    environment_factory=make_tool_environment(tasks),
)
trainer.train()
