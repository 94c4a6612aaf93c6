"""Train with Muon on whole weights and on FSDP2's shards, on the same gradients, and save both to the folder named.

Started by torchrun, on gloo. The shards' run is also broken off and resumed through a checkpoint of torch's.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
from torch.distributed.checkpoint import load, save
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import distribute_tensor

from homerl.train.parallel.muon import MuonWithAdamW
from homerl.train.tiny_model import TinyConfig, make_random_model

SIZES = TinyConfig(hidden_size=18, layers=1, heads=3, kv_heads=1, head_dim=6, intermediate_size=17)
VOCABULARY = 50


def made(dtype, sharded=True):
    """A model, sharded if asked for, and its optimizer."""
    model = make_random_model(SIZES, VOCABULARY, 0).to(dtype)
    if sharded:
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        for layer in (*model.model.layers, model):
            fully_shard(layer, mesh=mesh)
    return model, MuonWithAdamW(model, 0.02, 3e-3, 0.99, 0.1)


def train(model, optimizer, steps):
    """Make steps on gradients that depend on their numbers alone."""
    for number in steps:
        torch.manual_seed(number)
        for weight in model.parameters():
            grad = torch.randn(weight.shape).to(weight.dtype)
            weight.grad = (
                distribute_tensor(grad, weight.device_mesh, weight.placements) if hasattr(weight, "placements") else grad
            )
        optimizer.step()


def whole(model):
    """A model's weights, whole."""
    return [weight.full_tensor() if hasattr(weight, "placements") else weight for weight in model.parameters()]


def main(folder):
    dist.init_process_group("gloo")
    for dtype in (torch.float32, torch.bfloat16):
        alone, spread, resumed = made(dtype, sharded=False), made(dtype), made(dtype)
        train(*alone, range(6))
        train(*spread, range(3))
        saved = dict(zip(("model", "optimizer"), get_state_dict(*spread), strict=True))
        save(saved, checkpoint_id=folder / str(dtype))
        train(*spread, range(3, 6))
        found = dict(zip(("model", "optimizer"), get_state_dict(*resumed), strict=True))
        load(found, checkpoint_id=folder / str(dtype))
        set_state_dict(*resumed, model_state_dict=found["model"], optim_state_dict=found["optimizer"])
        train(*resumed, range(3, 6))
        ends = {name: whole(model) for name, (model, _) in {"alone": alone, "spread": spread, "resumed": resumed}.items()}
        if dist.get_rank() == 0:
            torch.save(ends, folder / f"{dtype}.pt")
    dist.barrier()  # a rank that left while the other still worked once died: "terminate called without an active exception"
    dist.destroy_process_group()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
