"""Intent families: one file a query type. A family proposes an intent for a home, or None."""

from homerl.blueprints.intents import atomic, multi_device
from homerl.blueprints.intents.draft import Ask, Draft, Family

FAMILIES: dict[str, Family] = {"atomic": atomic.propose, "multi_device": multi_device.propose}

__all__ = ["FAMILIES", "Ask", "Draft", "Family"]
