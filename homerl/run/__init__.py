"""Runs: recipes of every kind are checked and started here."""
