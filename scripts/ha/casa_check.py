"""Plays what people do in the home of scripts/ha/casa, there and in the twin: `python -m ha.casa_check URL`.

After each call both go on for some seconds, and the states are compared. So each thing that automations are made of is seen
to do the same in both. What sensors of templates show is copied: no automation makes it.
"""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from ha.casa_home import with_a_past
from homerl.envs.assistant.home_import import import_home
from homerl.envs.assistant.listing.homeassistant_client import connect_client, read_token
from homerl.envs.assistant.listing.homeassistant_mapping import (
    device_link,
    from_homeassistant,
    refresh_home,
    values_from_state,
)
from homerl.envs.homeenv.sim.home import Home

PLAYED: list[list[Any]] = yaml.safe_load((Path(__file__).parent / "casa/played.yaml").read_text("utf-8"))
SENSORS = ("binary_sensor.", "sensor.")
LINKED = (*SENSORS, "button.", "climate.", "cover.persianas", "event.", "group.", "humidifier.", "input_button.", "scene.",
          "sun.", "switch.enchufes", "light.luces_de_abajo", "zone.")  # fmt: skip
REAL = "_real"  # ends the name of a helper that a template drives, or that drives one
EARLY = 0.4  # seconds before a step ends at which the real home is looked at


async def main(url: str) -> int:
    """Play all steps. Returns how many of them left a difference."""
    async with connect_client(url, read_token("HA_TOKEN")) as client:
        listing = await with_a_past(client, [row["entity_id"] for row in await client.read_states()])
        home = refresh_home(import_home(listing, everything=True).home, await client.read_states(), datetime.now(UTC))
        wrong = 0
        for entity, service, data, seconds in PLAYED:
            begin = time.monotonic()
            domain, _, name = service.partition(".")
            await client.call_service(domain, name, data, {"entity_id": entity})
            ours, arguments = from_homeassistant(home, entity, service, data)
            home.call(entity, ours, (), arguments)
            _copy(home, await client.read_states(), SENSORS)
            home.advance(0)
            await asyncio.sleep(max(0.0, seconds - EARLY - (time.monotonic() - begin)))
            rows = await client.read_states()
            home.advance(seconds)
            differs = list(_differing(home, rows))
            wrong += bool(differs)
            print(f"{entity} {service} {data}, {seconds} s: {'; '.join(differs) or 'the same'}")
            await asyncio.sleep(max(0.0, seconds - (time.monotonic() - begin)))
    print(f"{wrong} of {len(PLAYED)} steps left a difference")
    return wrong


def _shown(home: Home, row: Mapping[str, Any]) -> dict[str, Any]:
    device = home.plan.devices_by_did.get(row["entity_id"])
    return values_from_state(device, row["state"], row["attributes"], device_link(home, device.did)) if device else {}


def _copy(home: Home, rows: list[dict[str, Any]], kinds: tuple[str, ...]) -> None:
    for row in rows:
        if row["entity_id"].startswith(kinds):
            for path, value in _shown(home, row).items():
                home.write_slot(home.plan.slot_of(row["entity_id"], path), value)


def _differing(home: Home, rows: list[dict[str, Any]]) -> Iterator[str]:
    for row in rows:
        name, shown = row["entity_id"], _shown(home, row)
        if "state" not in shown or name.startswith(LINKED) or name.endswith(REAL):
            continue
        if shown["state"] != (ours := home.read_value(name, "state")):
            yield f"{name} is {shown['state']!r} there, {ours!r} here"


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1])) > 0)
