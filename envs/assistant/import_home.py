"""The work behind `homerl import-ha`: a listing from an address or a folder, the home, and the files beside it.

Invariant: the token is read from the environment, and is in no file.
"""

from __future__ import annotations

import asyncio
from pathlib import Path

from homerl.envs.assistant.automations.reading import with_automations
from homerl.envs.assistant.importing import Imported, import_home
from homerl.envs.assistant.listing import fixtures
from homerl.envs.assistant.listing.client import connect, token_from
from homerl.envs.assistant.listing.errors import HomeAssistantError
from homerl.envs.assistant.listing.history import with_history
from homerl.envs.assistant.listing.listing import Listing
from homerl.envs.assistant.listing.report import report_path, write_report
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.home_file import save_home

ADDRESS = ("http://", "https://")


def fetched(source: str, variable: str) -> Listing:
    """The listing of a Home Assistant at an address, or of a folder of its files. Raises `InputError`."""
    if not source.startswith(ADDRESS):
        return fixtures.load(Path(source))
    try:
        return asyncio.run(_asked(source, variable))
    except HomeAssistantError as error:
        raise InputError(str(error), where=source) from None


async def _asked(url: str, variable: str) -> Listing:
    async with connect(url, token_from(variable)) as client:
        return await with_history(client, await with_automations(client, await client.listing()))


def import_ha(source: str, out: Path, variable: str, everything: bool, save: Path | None) -> Imported:
    """Import a home, and write its file, the report beside it, and the listing if a folder is given to save it."""
    imported = import_home(fetched(source, variable), everything)
    if save is not None:
        fixtures.save(imported.listing, save)
    write_report(imported, report_path(out))
    save_home(imported.home, out)
    return imported
