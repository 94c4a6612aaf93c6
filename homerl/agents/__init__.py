"""Agents: they answer a dialogue with candidate messages."""
