"""Runs: recipes of every kind are started here, stage by stage, each in a folder that is whole."""
