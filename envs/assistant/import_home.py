"""The work behind `homerl import-ha`: a listing from an address or a folder, the home, and the files beside it.

Invariant: the token is read from the environment, and is in no file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from homerl.envs.assistant.automations.reading import with_automation_texts
from homerl.envs.assistant.importing import ImportedHome, import_home
from homerl.envs.assistant.listing import fixtures
from homerl.envs.assistant.listing.client import connect_client, read_token
from homerl.envs.assistant.listing.errors import HomeAssistantError
from homerl.envs.assistant.listing.history import with_state_history
from homerl.envs.assistant.listing.listing import Listing
from homerl.envs.assistant.listing.report import import_report_path, write_import_report
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home_file import save_home

ADDRESS = ("http://", "https://")


def fetch_listing(source: str, variable: str) -> Listing:
    """The listing of a Home Assistant at an address, or of a folder of its files. Raises `InputError`."""
    if not source.startswith(ADDRESS):
        return fixtures.load_listing(Path(source))
    try:
        return asyncio.run(_asked(source, variable))
    except HomeAssistantError as error:
        raise InputError(str(error), where=source) from None


async def _asked(url: str, variable: str) -> Listing:
    async with connect_client(url, read_token(variable)) as client:
        return await with_state_history(client, await with_automation_texts(client, await client.read_listing()))


def import_home_to_file(source: str, out: Path, variable: str, everything: bool, save: Path | None) -> ImportedHome:
    """Import a home, and write its file, the report beside it, and the listing if a folder is given to save it."""
    imported = import_home(fetch_listing(source, variable), everything)
    if save is not None:
        fixtures.save_listing(imported.listing, save)
    write_import_report(imported, import_report_path(out))
    save_home(imported.home, out)
    return imported
