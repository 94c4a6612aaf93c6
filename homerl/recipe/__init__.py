"""Recipes: what every recipe says, and how the file is read."""
