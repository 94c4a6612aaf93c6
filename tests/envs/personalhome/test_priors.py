"""The priors name what there is, and leave out nothing."""

from __future__ import annotations

from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, sensor_kinds
from homerl.envs.personalhome.sim.generate.household_priors import load_household_priors
from homerl.envs.personalhome.sim.generate.memories_and_events import READINGS
from homerl.envs.personalhome.sim.vocabulary import load_fact_words, load_vocabulary


def test_each_group_of_keys_has_its_priors() -> None:
    known, usual = load_vocabulary(), load_household_priors()
    groups = {
        "occupations": usual.occupations, "hobbies": usual.hobbies, "traits": usual.traits, "tastes": usual.tastes,
        "life_events": usual.life_events, "activities": usual.activities, "dishes": usual.dishes, "things": usual.prices,
        "places": usual.trips, "ailments": usual.illness, "skills": usual.skills, "pet_care": usual.pet_care,
        "pet_acts": usual.pet_acts, "faults": usual.faults, "repairs": usual.repairs, "situations": usual.situations,
    }  # fmt: skip
    assert {group: {*entries} for group, entries in groups.items()} == {
        group: {*known.group_keys(group)} for group in groups
    }


def test_every_kind_of_device_that_is_named_exists() -> None:
    usual = load_household_priors()
    equipment = usual.appliances
    assert {*equipment.weights} | {*equipment.mandatory} == {*appliance_kinds()}
    assert {*equipment.sensor_weights} == {*sensor_kinds()}
    named = [entry.kinds for entry in (*usual.activities.values(), *usual.dishes.values())]
    assert {kind for group in (*named, *usual.faults.values(), usual.adjustments) for kind in group} <= {*appliance_kinds()}
    assert {*usual.signs.values()} | {*usual.gauges.values()} <= {*sensor_kinds()}
    for quantity, kind in usual.gauges.items():
        attribute, unit = READINGS[quantity]
        assert attribute in sensor_kinds()[kind].attribute_index and unit in load_fact_words().units


def test_every_fault_can_be_repaired_and_every_liking_exists() -> None:
    usual, known = load_household_priors(), load_vocabulary()
    assert {fault for faults in usual.repairs.values() for fault in faults} == {*known.faults}
    likings = {*known.tastes, *known.traits, *known.hobbies}
    assert {liking for kind in usual.appliances.weights.values() for liking in kind.because} <= likings
    assert {trait for taste in usual.tastes.values() for trait in taste.because} <= {*known.traits}
