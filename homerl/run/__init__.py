"""Runs: recipes of every kind, checked and started."""
