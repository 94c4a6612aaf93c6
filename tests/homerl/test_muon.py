"""Muon with AdamW behind one interface: right parameters to each, a schedule that reaches both, exact resume."""

from __future__ import annotations

import copy

import torch

from homerl.train.muon import MuonWithAdamW, is_hidden_matrix
from homerl.train.tiny import TinyConfig, make_model


def model() -> torch.nn.Module:
    return make_model(TinyConfig(hidden_size=16, layers=1, heads=2, kv_heads=1, head_dim=8, intermediate_size=16), 50, 0)


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


def test_a_loaded_state_goes_on_exactly() -> None:
    net = model()
    optimizer = make(net)
    step(net, optimizer)
    twin = model()
    twin.load_state_dict(net.state_dict())
    other = make(twin)
    other.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    step(net, optimizer)
    step(twin, other)
    assert all(torch.equal(a, b) for a, b in zip(net.parameters(), twin.parameters(), strict=True))
