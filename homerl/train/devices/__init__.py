"""Weights on devices: sharding, optimizers and complete checkpoints."""
