"""Recipes: the keys of every recipe, and how a file is read."""
