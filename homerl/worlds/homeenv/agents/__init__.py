"""Scripted agents of HomeEnv."""
