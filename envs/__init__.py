"""Worlds: simulated homes that agents act in. This package imports nothing from `rewards` or `homerl`.

A world can be stepped, forked, hashed and checked: `envs.world` states the contract.
"""
