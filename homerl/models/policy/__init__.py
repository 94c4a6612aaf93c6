"""Agents: they propose candidate messages in a dialogue."""
