"""Questions about all or any of a kind: "are all doors locked?", "is any window open?", "are any lights on upstairs?".

Invariants: the answer is computed from the home and does not depend on what counts as the kind; nothing may change.
"""

from __future__ import annotations

import random
from collections.abc import Callable

from homerl.envs.homeenv.language.speaker import frame_meaning
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.intents import Ask, Draft, Propose
from homerl.envs.homeenv.tasks.intents.device_choice import TRAITS, DeviceMatches, Read, match_devices, possible_members
from homerl.envs.homeenv.tasks.intents.questions import make_question_draft, place_meaning, yes_no_reply
from homerl.play.words.answer_rules import Answer

TRIED = 12  # kinds and places tried in a home
OPENINGS = ("opener", "garage_door")  # categories that people may call windows or doors beside contact sensors


def _draw_matches(home: Home, rng: random.Random) -> DeviceMatches | None:
    """At least two devices of a kind with the state that is asked about, in a room or the home."""
    kinds = [kind for kind in TRAITS if len(possible_members(home, kind)) > 1]
    for _ in range(TRIED if kinds else 0):
        kind = rng.choice(kinds)
        room = rng.choice((None, rng.choice(possible_members(home, kind)).room))
        matches = match_devices(home, kind, (rng.choice(TRAITS[kind]),), room)
        everything = match_devices(home, kind, (), room)
        if matches is None or everything is None or len(everything.met) < 2:
            continue
        if {device.did for device in everything.met} == {did for did, _ in matches.reads}:  # each shows it
            return matches
    return None


def _contact_reads(home: Home) -> tuple[Read, ...]:
    """The contacts of all doors and windows; none if one is null, or if openings have no contact sensor."""
    if any(device.spec.category in OPENINGS for device in home.plan.devices):
        return ()
    reads = tuple((device.did, "contact") for device in home.plan.devices if "contact" in device.spec.attribute_index)
    return () if any(home.read_value(*read) is None for read in reads) else reads


def _ask_about_count(subcategory: str, holds: Callable[[int, int], bool]) -> Propose:
    """A question whose answer follows from how many devices have the state, and how many there are."""

    def propose(home: Home, rng: random.Random, ask: Ask) -> Draft | None:
        """Doors and windows by their contacts, or a kind of device."""
        reads = _contact_reads(home)
        if reads and rng.random() < 0.3:
            state = rng.choice(("open", "closed"))
            value = holds(sum(home.read_value(*read) == state for read in reads), len(reads))
            meaning = frame_meaning(f"survey.{subcategory}.contacts.{state}")
        elif matches := _draw_matches(home, rng):
            (trait,), reads = matches.traits, matches.reads
            value = holds(len(matches.met), len({did for did, _ in reads}))
            if matches.kind == "lock" and matches.room is None:
                meaning = frame_meaning(f"survey.{subcategory}.doors.{trait.name}")
            else:
                many, said = frame_meaning(f"query.kind.{matches.kind}.many"), frame_meaning(f"query.trait.{trait.name}")
                place = place_meaning(matches.room, "survey.place")
                meaning = frame_meaning(f"survey.{subcategory}", many=many, trait=said, place=place)
        else:
            return None
        return make_question_draft(meaning, Answer(type="boolean", value=value), reads, yes_no_reply(value), subcategory)

    return propose


SUBCATEGORIES: dict[str, Propose] = {
    "all": _ask_about_count("all", lambda met, count: met == count),
    "any": _ask_about_count("any", lambda met, count: met > 0),
}
