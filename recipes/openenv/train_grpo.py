"""TRL's GRPO on a server of tasks, by OpenEnv's own client. The trainer's environment needs no homerl:

homerl serve-env --openenv tasks.yaml                  # in the one environment
python train_grpo.py http://127.0.0.1:8000             # in the other one, with trl, datasets and openenv
"""

import json
import sys

from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from openenv.core import GenericEnvClient

URL = sys.argv[1] if len(sys.argv) > 1 else "http://127.0.0.1:8000"


class Home:
    """A home on the server. Its methods are the model's tools."""

    def __init__(self):
        self._client = GenericEnvClient(URL).sync().connect()

    def reset(self, index: int, **_):
        self.earned, self.done = 0.0, self._client.reset(index=index).done

    def _step(self, **message):
        if self.done:
            return "the episode is over"
        result = self._client.step(message)
        self.earned, self.done = self.earned + result.reward, result.done
        return result.observation["messages"][-1]["content"]

    def _call(self, name, **arguments):
        return self._step(tool_calls=[{"function": {"name": name, "arguments": json.dumps(arguments)}}])

    def query_status(self, did: str) -> str:
        """Read the state of a device.

        Args:
            did: The id of the device.
        """
        return self._call("query_status", did=did)

    def query_spec(self, did: str) -> str:
        """Read what a device can do.

        Args:
            did: The id of the device.
        """
        return self._call("query_spec", did=did)

    def pyexec(self, code: str) -> str:
        """Run Python code in which `device(did)` is a device, whose services can be called.

        Args:
            code: The code.
        """
        return self._call("pyexec", code=code)


def score_homes(completions, environments, **_):
    """The reward of a rollout: that of all steps, the last of which are the model's words."""
    for completion, home in zip(completions, environments):
        home._step(content=completion[-1]["content"] or "")
    return [home.earned for home in environments]


def make_trainer(model: str, tasks: int = 200, **settings) -> GRPOTrainer:
    """A trainer on the first tasks of the server."""
    with GenericEnvClient(URL).sync() as client:
        prompts = [client.reset(index=at).observation["messages"] for at in range(tasks)]
    rows = [{"prompt": prompt, "index": at} for at, prompt in enumerate(prompts)]
    return GRPOTrainer(model, score_homes, GRPOConfig(**settings), Dataset.from_list(rows), environment_factory=Home)


if __name__ == "__main__":
    make_trainer("Qwen/Qwen3-0.6B", output_dir="runs/grpo", num_generations=8, max_completion_length=512).train()
