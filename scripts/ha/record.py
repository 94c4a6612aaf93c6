"""Writes what a real Home Assistant answers: `python -m ha.record URL` with its token in HA_TOKEN.

It wants a Home Assistant that was just furnished, for the calls change it.

It takes four minutes and leaves, in tests/envs/assistant/listing/recorded:

- `listing`: floors, areas, labels, devices, entities, states and services, as an importer asks for them;
- `tools`: the Assist tools with their schemas, and the prompt, as an agent gets them by MCP;
- `assist`: tool calls and spoken sentences (assist.yaml), each with its answer and the states that it changed;
- `services`: service calls (services.yaml), each with its outcome, and the entity's state before, right after and at rest.

It also writes a file named by the version into envs/homeenv/sim/assist/dumps, of which the toolset `assist` reads the
newest. Times, ids and secrets become fixed values, so two records of one version are equal; only the position of a
cover that still moves may differ. What the demo draws at random is left out. After a change of the version, read the
difference before you commit it.
"""

from __future__ import annotations

import asyncio
import gzip
import json
import sys
from pathlib import Path
from typing import Any

import httpx

from ha.assist import assist, dump, tools
from ha.normal import Normal
from ha.services import services
from homerl.envs.assistant.listing.homeassistant_client import connect_client, read_token

FOLDER = Path(__file__).parents[2] / "tests/envs/assistant/listing/recorded"
LARGE = 200_000  # bytes from which on a record is packed


async def record(url: str) -> None:
    """Ask what the home is first, then what Assist does in it, then what its services do."""
    token, normal = read_token("HA_TOKEN"), Normal()
    head = {"Authorization": f"Bearer {token.get_secret_value()}"}
    rest = httpx.AsyncClient(base_url=url, headers=head, trust_env=False, timeout=60)
    async with connect_client(url, token) as client, rest as http:
        write("listing", normal((await client.read_listing()).model_dump(mode="json")))
        write("tools", normal(await tools(http), sort=False))
        print(f"the Assist API: {await dump(http, client)}")
        write("assist", normal(await assist(http, client)))
        write("services", normal(await services(url, token, http, client)))


def write(name: str, answer: Any) -> None:
    """A record as JSON, packed if it is large."""
    data = json.dumps(answer, indent=1, ensure_ascii=False, sort_keys=False).encode() + b"\n"
    for old in FOLDER.glob(f"{name}.json*"):
        old.unlink()
    FOLDER.mkdir(parents=True, exist_ok=True)
    if len(data) > LARGE:
        (FOLDER / f"{name}.json.gz").write_bytes(gzip.compress(data, mtime=0))
    else:
        (FOLDER / f"{name}.json").write_bytes(data)
    print(f"{name}: {len(data)} bytes")


if __name__ == "__main__":
    asyncio.run(record(sys.argv[1]))
