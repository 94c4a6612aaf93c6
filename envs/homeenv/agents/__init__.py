"""Agents of HomeEnv that need no language model."""
