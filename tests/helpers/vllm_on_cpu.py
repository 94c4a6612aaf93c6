"""Makes vLLM on a CPU usable as the sampler of a trainer. Two things are patched; the rest is unchanged vLLM and TRL:
its linear layers keep the weights that they are sent, and weights travel through a TCP store, which replaces NCCL.

`python vllm_on_cpu.py RECIPE` trains. A vLLM server loads the patches by `--worker-extension-cls vllm_on_cpu.Worker`.
"""

import sys
from contextlib import nullcontext
from types import SimpleNamespace

import torch
from vllm.distributed.utils import StatelessProcessGroup
from vllm.distributed.weight_transfer import nccl_common, packed_tensor
from vllm.model_executor.layers import utils


class Communicator:
    """The part of `PyNcclCommunicator` that the transfer of weights needs."""

    def __init__(self, host: str, port: int, rank: int, size: int, device: object) -> None:
        self.group = StatelessProcessGroup.create(host=host, port=port, rank=rank, world_size=size)

    def broadcast(self, tensor: torch.Tensor, src: int) -> None:
        """Send or receive a tensor through the TCP store."""
        tensor.copy_(self.group.broadcast(tensor, src))


class Worker:
    """An empty extension. vLLM imports it in the workers of a server, and the import applies the patches."""


def plain_linear(layer: torch.nn.Module, remove_weight: bool) -> None:
    """Use torch's linear function, which reads the current weights, in place of a packed copy of them."""
    layer.cpu_linear = torch.nn.functional.linear


utils.dispatch_cpu_unquantized_gemm = plain_linear
nccl_common.stateless_init_process_group = Communicator
packed_tensor._get_streams = lambda device, n: tuple(SimpleNamespace(synchronize=lambda: None) for _ in range(n))
torch.cuda.stream = lambda stream: nullcontext()
torch.accelerator.current_device_index = lambda: 0

if __name__ == "__main__":
    from trl.generation.vllm_client import VLLMClient

    from homerl.app.runs import launch
    from homerl.train import recipe as refusals

    connect = VLLMClient.init_communicator
    VLLMClient.init_communicator = lambda self, device: connect(self, "cuda")
    refusals._find_rlve_refusals = lambda recipe: iter(())  # `cpu: true` with vLLM
    sys.exit(launch.main(sys.argv[1], sys.argv[2:]))
