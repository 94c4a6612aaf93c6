"""vLLM on a CPU as trainers use it on GPUs: its layers keep the weights that they are sent, and what travels over NCCL
there goes through a TCP store here. All else is vLLM's and TRL's own.

`python vllm_on_cpu.py RECIPE` trains; a server is given it as `--worker-extension-cls vllm_on_cpu.Worker`.
"""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import torch
from vllm.distributed.utils import StatelessProcessGroup
from vllm.distributed.weight_transfer import nccl_common, packed_tensor
from vllm.model_executor.layers import utils


class Communicator:
    """The part of `PyNcclCommunicator` that a transfer of weights needs."""

    def __init__(self, host: str, port: int, rank: int, size: int, device: object) -> None:
        self.group = StatelessProcessGroup.create(host=host, port=port, rank=rank, world_size=size)

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        tensor.copy_(self.group.broadcast(tensor, src))


class Worker:
    """vLLM imports it in a server's worker: that is all that it is for."""


def plain_linear(layer: torch.nn.Module, remove_weight: bool) -> None:
    layer.cpu_linear = torch.nn.functional.linear


utils.dispatch_cpu_unquantized_gemm = plain_linear
nccl_common.stateless_init_process_group = Communicator
packed_tensor._get_streams = lambda device, n: tuple(SimpleNamespace(synchronize=lambda: None) for _ in range(n))
torch.cuda.stream = lambda stream: nullcontext()
torch.accelerator.current_device_index = lambda: 0

if __name__ == "__main__":
    from trl.generation.vllm_client import VLLMClient

    from homerl.run import launch
    from homerl.train import refusals

    connect = VLLMClient.init_communicator
    VLLMClient.init_communicator = lambda self, device: connect(self, "cuda")
    refusals._of_rlve = lambda recipe: iter(())  # `cpu: true` with vLLM
    sys.exit(launch.main(sys.argv[1], sys.argv[2:]))
