"""Prints what the integrations of the tests' home need, with versions. It runs beside Home Assistant, in its Python."""

from __future__ import annotations

import json
from pathlib import Path

from homeassistant import bootstrap, components

ROOT = Path(components.__path__[0])
OURS = {"assist_pipeline", "config", "demo", "history", "llama_cpp", "local_todo", "mcp_server", "recorder", "shopping_list"}


def requirements() -> list[str]:
    """Of ours, of the demo's platforms, of those that always start, and of what these build on."""
    wanted = OURS | bootstrap.DEFAULT_INTEGRATIONS | {file.stem for file in (ROOT / "demo").glob("*.py")}
    reached: set[str] = set()
    needed: set[str] = set()
    while wanted:
        name = wanted.pop()
        manifest = ROOT / name / "manifest.json"
        if name in reached or not manifest.exists():
            continue
        reached.add(name)
        said = json.loads(manifest.read_text())
        needed |= set(said.get("requirements", ()))
        wanted |= set(said.get("dependencies", ()))
    return sorted(needed)


if __name__ == "__main__":
    print("\n".join(requirements()))
