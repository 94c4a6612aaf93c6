"""HomeEnv's files that have a JSON Schema: blueprints, homes and devices."""

from __future__ import annotations

from envs.homeenv.devices.spec import DeviceSpec
from envs.homeenv.home_file import FORMAT as HOME
from envs.homeenv.home_file import HomeRecord
from homerl.worlds.contract import FileFormat
from homerl.worlds.homeenv.blueprints.blueprint import FORMAT as BLUEPRINT
from homerl.worlds.homeenv.blueprints.blueprint import Blueprint

FORMATS = {
    "blueprint": FileFormat(BLUEPRINT, Blueprint, {("properties", "home"): "home"}),
    "home": FileFormat(HOME, HomeRecord, {("properties", "specs", "additionalProperties"): "device"}),  # or a digest
    "device": FileFormat(1, DeviceSpec),
}
