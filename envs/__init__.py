"""Worlds: homes that can be stepped, forked, hashed and checked. Imports nothing from `rewards` or `homerl`."""
