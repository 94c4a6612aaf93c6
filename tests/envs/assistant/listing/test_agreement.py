"""The imported demo home beside the recorded one: every call that was recorded, made in both."""

from __future__ import annotations

from collections import Counter

import pytest

from homerl.envs.assistant.home_import import ImportedHome, import_home
from homerl.envs.assistant.listing.exposure import select_entities
from homerl.envs.assistant.listing.home_listing import Listing
from homerl.envs.assistant.listing.import_agreement import ComparedCall, agreement_share, compare_recorded_calls
from tests.envs.assistant.listing.replay import listing, recorded

LEAST = 0.97  # of the calls have the same main state after them


@pytest.fixture(scope="module")
def imported() -> ImportedHome:
    return import_home(listing())


@pytest.fixture(scope="module")
def compared(imported: ImportedHome) -> list[ComparedCall]:
    return list(compare_recorded_calls(imported.home, recorded("services")))


def tell(done: list[ComparedCall]) -> None:
    """Print how well two homes agree, and where they do not."""
    alike = sum(not one.attributes for one in done) / len(done)
    main = agreement_share(done)
    print(f"{len(done)} calls, main state equal in {main:.1%}, all further attributes in {alike:.1%}; main states:")
    print(*(f"- {one}" for one in done if not one.is_equal), sep="\n")


def test_each_exposed_entity_is_imported_with_its_services(imported: ImportedHome) -> None:
    devices = imported.home.plan.devices_by_did
    assert devices.keys() == {one.entity_id for one in select_entities(listing())} and len(devices) > 100
    noted = {(note.entity, note.part.rpartition(".")[2]) for note in imported.notes}
    hidden = {"browse_media", "search_media", "delete", "clean_spot", "send_command", "set_fan_speed"}
    for entity in select_entities(listing()):
        own = {one.partition(".")[2] for one in entity.services if one.startswith(f"{entity.domain}.")}
        missing = own - hidden - devices[entity.entity_id].spec.service_index.keys()
        assert all((entity.entity_id, name) in noted for name in missing), (entity.entity_id, missing)


def test_the_same_calls_give_the_same_states(compared: list[ComparedCall]) -> None:
    tell(compared)
    assert len(compared) > 1400 and agreement_share(compared) >= LEAST


def test_no_kind_of_device_is_mostly_wrong(compared: list[ComparedCall]) -> None:
    every, equal = Counter(), Counter()
    for one in compared:
        every[one.entity.partition(".")[0]] += 1
        equal[one.entity.partition(".")[0]] += one.is_equal
    assert {domain: equal[domain] / every[domain] for domain in every if equal[domain] / every[domain] < 0.75} == {}


def test_a_home_that_is_no_demo_does_the_same_too() -> None:
    """A home in Spanish, with helpers, groups, scripts and template devices, recorded by `check_homeassistant --casa`."""
    made = import_home(Listing.model_validate(recorded("casa_listing")))
    done = list(compare_recorded_calls(made.home, recorded("casa_services")))
    tell(done)
    assert len(made.home.plan.devices) >= 60 and len(done) > 800 and agreement_share(done) >= LEAST
    assert sum(not one.attributes for one in done) / len(done) >= 0.95
    assert not [note for note in made.notes if note.part == "automation"] and len(made.home.rules) > 20


def test_a_difference_says_what_is_there_and_here() -> None:
    one = ComparedCall("lock.a", "lock.open", {}, "open", "locked", ours="precondition: no")
    assert (
        not one.is_equal and str(one) == "lock.a lock.open {}: 'open' there, 'locked' here; ours refuses: precondition: no"
    )
    assert agreement_share([one, ComparedCall("lock.a", "lock.lock", {}, "locked", "locked")]) == 0.5
