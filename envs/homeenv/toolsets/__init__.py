"""Toolsets: the tools an agent sees, chosen in the recipe. One file a toolset."""

from envs.homeenv.tools import Tool
from envs.homeenv.toolsets import direct, homeflow, smh

TOOLSETS: dict[str, tuple[Tool, ...]] = {"homeflow": homeflow.TOOLS, "smh": smh.TOOLS, "direct": direct.TOOLS}

__all__ = ["TOOLSETS"]
