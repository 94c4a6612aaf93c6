"""Muon with AdamW behind one interface: right parameters to each, a schedule that reaches both, masters, exact resume."""

from __future__ import annotations

import copy

import pytest
import torch

from homerl.train.parallel.adamw import use_float32_masters
from homerl.train.parallel.muon import MuonWithAdamW, is_hidden_matrix
from homerl.train.tiny_model import TinyConfig, make_random_model


def model() -> torch.nn.Module:
    return make_random_model(
        TinyConfig(hidden_size=16, layers=1, heads=2, kv_heads=1, head_dim=8, intermediate_size=16), 50, 0
    )


def step(net: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    ids = torch.arange(12).reshape(2, 6)
    net(input_ids=ids, labels=ids).loss.backward()
    optimizer.step()
    optimizer.zero_grad()


def make(net: torch.nn.Module) -> MuonWithAdamW:
    return MuonWithAdamW(net, lr=0.02, adam_lr=3e-3, adam_beta2=0.99, weight_decay=0.0)


def test_hidden_matrices_alone_go_to_muon() -> None:
    net = model()
    muon, adam = make(net).parts
    hidden = {id(p) for name, p in net.named_parameters() if is_hidden_matrix(name, p)}
    assert {id(p) for group in muon.param_groups for p in group["params"]} == hidden
    assert len(hidden) == 7
    everything = {id(p) for p in net.parameters()}
    assert {id(p) for group in adam.param_groups for p in group["params"]} == everything - hidden


def test_a_schedule_scales_both_rates() -> None:
    optimizer = make(model())
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: 0.5)
    schedule.step()
    assert [part.param_groups[0]["lr"] for part in optimizer.parts] == [0.01, 1.5e-3]


def test_float32_weights_are_torchs_to_the_bit() -> None:
    net, twin = model(), model()
    optimizer, (muon, adam) = make(net), make(twin).parts
    theirs = [
        torch.optim.Muon(muon.param_groups[0]["params"], lr=0.02, weight_decay=0.0),
        torch.optim.AdamW(adam.param_groups[0]["params"], lr=3e-3, betas=(0.9, 0.99), weight_decay=0.0),
    ]
    for _ in range(5):
        step(net, optimizer)
        ids = torch.arange(12).reshape(2, 6)
        twin(input_ids=ids, labels=ids).loss.backward()
        for part in theirs:
            part.step()
        twin.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters(), strict=True))


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_masters_move_as_float32_weights(decay: float) -> None:
    """On the same gradients: small steps, which weights in bfloat16 alone would lose."""
    whole, half = model().bfloat16().float(), model().bfloat16()
    optimizers = [MuonWithAdamW(net, 1e-5, 1e-5, 0.99, decay) for net in (whole, half)]
    start = [weight.detach().clone() for weight in half.parameters()]
    for number in range(20):
        torch.manual_seed(number)
        for one, other in zip(whole.parameters(), half.parameters(), strict=True):
            other.grad = torch.randn(other.shape).bfloat16()
            one.grad = other.grad.float()
        for optimizer in optimizers:
            optimizer.step()
    held = list(half.parameters())
    with use_float32_masters(held, [optimizers[1].state[weight]["residual"] for weight in held]) as found:
        for master, weight, began in zip(found, whole.parameters(), start, strict=True):
            torch.testing.assert_close(master, weight.detach(), rtol=1e-6, atol=1e-8)
            assert not torch.equal(master, began.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_loaded_state_goes_on_exactly(dtype: torch.dtype) -> None:
    net = model().to(dtype)
    optimizer = make(net)
    step(net, optimizer)
    twin = model().to(dtype)
    twin.load_state_dict(net.state_dict())
    other = make(twin)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    step(net, optimizer)
    step(twin, other)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters(), strict=True))
