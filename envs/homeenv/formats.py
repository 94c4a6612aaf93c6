"""HomeEnv's files that have a JSON Schema: blueprints, homes and devices."""

from __future__ import annotations

from homerl.envs.homeenv.sim.devices.device_spec import DeviceSpec
from homerl.envs.homeenv.sim.home_file import FORMAT as HOME
from homerl.envs.homeenv.sim.home_file import HomeRecord
from homerl.envs.homeenv.tasks.blueprint import FORMAT as BLUEPRINT
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.worlds.contract import FileFormat

FORMATS = {
    "blueprint": FileFormat(BLUEPRINT, Blueprint, {("properties", "home"): "home"}),
    "home": FileFormat(HOME, HomeRecord, {("properties", "specs", "additionalProperties"): "device"}),  # or a digest
    "device": FileFormat(1, DeviceSpec),
}
