"""The `homerl` command."""

from homerl.cli.app import app, main

__all__ = ["app", "main"]
