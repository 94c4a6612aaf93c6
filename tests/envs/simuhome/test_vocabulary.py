"""Our cluster, attribute, command and enumeration names against the Matter SDK's own (home-assistant-chip-clusters)."""

from __future__ import annotations

import pytest

from homerl.envs.simuhome.sim.device_catalogue import all_clusters, all_enumerations, device_types

RENAMED = {
    "RTCCMode": "RefrigeratorAndTemperatureControlledCabinetMode",
    "RVCRunMode": "RvcRunMode",
    "RVCCleanMode": "RvcCleanMode",
    "RVCOperationalState": "RvcOperationalState",
}


def matter(name: str):
    """A cluster of the SDK, whose import takes seconds: not while tests are collected."""
    return getattr(pytest.importorskip("chip.clusters.Objects"), RENAMED.get(name, name))


def plain(name: str) -> str:
    """Names without case: the SDK writes `PIROccupied...` and the like in its own way."""
    return name.lower().replace("_", "")


@pytest.mark.parametrize("name", all_clusters())
def test_clusters_have_matters_attributes_and_commands(name):
    ours, theirs = all_clusters()[name], matter(name)
    attributes = {plain(key) for key in vars(theirs.Attributes)}
    assert [key for key in ours.attributes if plain(key) not in attributes] == []
    commands = {plain(key) for key in vars(theirs.Commands)} if ours.commands else set()
    assert [key for key in ours.commands if plain(key) not in commands] == []


@pytest.mark.parametrize("name", device_types())
def test_devices_add_matters_attributes_alone(name):
    for key in device_types()[name].initial:
        _, cluster, attribute = key.split(".")
        known = {plain(one) for one in vars(matter(cluster).Attributes)}
        assert attribute.startswith("#") or plain(attribute) in known, key


@pytest.mark.parametrize(
    ("name", "cluster", "theirs"),
    [
        ("FanMode", "FanControl", "FanModeEnum"),
        ("FanModeSequence", "FanControl", "FanModeSequenceEnum"),
        ("OperationalStateEnum", "OperationalState", "OperationalStateEnum"),
        ("PlaybackStateEnum", "MediaPlayback", "PlaybackStateEnum"),
        ("SystemMode", "Thermostat", "SystemModeEnum"),
        ("ControlSequenceOfOperationEnum", "Thermostat", "ControlSequenceOfOperationEnum"),
        ("PowerSourceStatusEnum", "PowerSource", "PowerSourceStatusEnum"),
        ("PowerModeEnum", "ElectricalPowerMeasurement", "PowerModeEnum"),
        ("ESATypeEnum", "DeviceEnergyManagement", "ESATypeEnum"),
        ("ESAStateEnum", "DeviceEnergyManagement", "ESAStateEnum"),
        ("WindowCoveringType", "WindowCovering", "Type"),
        ("EndProductType", "WindowCovering", "EndProductType"),
    ],
)
def test_enumerations_number_as_matter_does(name, cluster, theirs):
    known = {int(one) for one in getattr(matter(cluster).Enums, theirs)}
    assert {int(one) for one in all_enumerations()[name]} - known == set()
