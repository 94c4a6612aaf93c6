"""Writes the forms of Home Assistant's services that homerl comes with: `python -m ha.forms`, from the recorded listing."""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from typing import Any

from ha.record import FOLDER

OUT = FOLDER.parents[4] / "envs" / "assistant" / "listing" / "services.json"
KEPT = ("fields", "filter", "required", "selector", "target", "response")
SYSTEM = frozenset(
    "backup demo ffmpeg frontend group homeassistant logger lovelace persistent_notification system_log tts zone".split()
)  # services of the installation, not of a home


def forms() -> dict[str, Any]:
    """What the file holds."""
    listing = json.loads(gzip.decompress((FOLDER / "listing.json.gz").read_bytes()))
    services = listing["sources"]["get_services"]
    kept = {
        domain: {name: _kept(form) for name, form in sorted(named.items()) if form.get("target")}
        for domain, named in sorted(services.items())
        if domain not in SYSTEM
    }
    return {"version": listing["version"], "services": {domain: named for domain, named in kept.items() if named}}


def _kept(part: Mapping[str, Any]) -> dict[str, Any]:
    """A form or a field without examples and words."""
    kept = {key: part[key] for key in KEPT if key in part}
    if "fields" in kept:
        kept["fields"] = {name: _kept(field) for name, field in kept["fields"].items()}
    return kept


if __name__ == "__main__":
    OUT.write_text(json.dumps(forms(), indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    print(f"{OUT.name}: {OUT.stat().st_size} bytes")
