"""TRL's GRPO on homes behind a server: HOMES=http://127.0.0.1:8000 python train_grpo.py --model_name_or_path MODEL"""

import os

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, ModelConfig, TrlParser

from openenv.core import GenericEnvClient


class Home:
    def __init__(self):
        self._client = GenericEnvClient(os.environ["HOMES"]).sync().connect()

    def reset(self, index, **_):
        self.earned, self.done = 0.0, self._client.reset(index=index).done

    def _step(self, **message):
        result = self._client.step(message)
        self.earned, self.done = self.earned + result.reward, result.done
        return result.observation["messages"][-1]["content"]

    def pyexec(self, code: str) -> str:
        """Run Python code, in which `device(did)` is a device with attributes and services, and return what it prints.

        Args:
            code: The code."""
        return self._step(tool_calls=[{"function": {"name": "pyexec", "arguments": {"code": code}}}])


def score_homes(completions, environments, **_):  # the model's last words are a step of their own
    for said, home in zip(completions, environments):
        home.done or home._step(content=said[-1]["content"] or "" if said[-1]["role"] == "assistant" else "")
    return [home.earned for home in environments]


settings, model = TrlParser((GRPOConfig, ModelConfig)).parse_args_and_config()
client = GenericEnvClient(os.environ["HOMES"]).sync().connect()
rows = [{"prompt": client.reset(index=at).observation["messages"], "index": at} for at in range(200)]
GRPOTrainer(model.model_name_or_path, score_homes, settings, Dataset.from_list(rows), environment_factory=Home).train()
