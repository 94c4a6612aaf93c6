"""Run an RLVE recipe whose policy is on a `PolicyServer`: TRL gathers and sends weights as to vLLM, over HTTP for NCCL."""

import sys
import urllib.request
from collections.abc import Iterable
from typing import Any

import torch
from safetensors.torch import save
from trl.generation import vllm_generation

from homerl.launch import run
from homerl.recipe import load_recipe
from homerl.train import refusals


class Client:
    """TRL's client of vLLM, as far as weights go."""

    def __init__(self, base_url: str, **_: Any) -> None:
        self.url = base_url

    def init_communicator(self, device: Any) -> None:
        """Each update's weights come in one request."""

    def update_named_params(self, metadata: Iterable[tuple], weights: Iterable[tuple[str, torch.Tensor]]) -> None:
        whole = {name: weight.detach().clone().contiguous() for name, weight in weights}
        said = {name: (dtype, shape) for name, dtype, shape in metadata}
        assert said == {name: (str(w.dtype).removeprefix("torch."), list(w.shape)) for name, w in whole.items()}
        urllib.request.urlopen(urllib.request.Request(f"{self.url}/weights", save(whole), method="POST")).read()

    def reset_prefix_cache(self) -> None:
        """There is none."""


refusals._of_rlve = lambda recipe: iter(())  # `cpu: true` with a server
vllm_generation.is_vllm_available = lambda *_, **__: True
vllm_generation.VLLMClient = Client
run(load_recipe(sys.argv[1], sys.argv[2:]))
