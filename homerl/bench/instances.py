"""The instances of a suite as episodes to play."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from homerl.bench.runner import EpisodeSpec
from homerl.bench.suites import instance_to_line, suite_of_instance
from homerl.play.course import AT_ONCE, Behaviours
from homerl.worlds.contract import SuiteInstance
from homerl.worlds.registry import blueprint_with_behaviours, world_of


class SuiteInstances:
    """The instances of a suite in one setting, each played `runs` times, with a user of these behaviours."""

    def __init__(self, found: Sequence[SuiteInstance], setting: str, runs: int, behaviours: Behaviours = AT_ONCE) -> None:
        self.found, self.setting, self.runs, self.behaviours = found, setting, runs, behaviours
        digest = hashlib.sha256("".join(map(instance_to_line, found)).encode()).hexdigest()
        self.identity = f"{digest} {setting}" + ("" if behaviours == AT_ONCE else f" {behaviours.model_dump_json()}")

    def __len__(self) -> int:
        return len(self.found) * self.runs

    def __getitem__(self, index: int) -> EpisodeSpec:
        run, at = divmod(index, len(self.found))
        instance = self.found[at]
        blueprint = instance.blueprint_for(self.setting)
        suite = suite_of_instance(instance.id, world_of(blueprint))
        return EpisodeSpec(
            blueprint_with_behaviours(
                blueprint.model_copy(update={"id": instance.id, "seed": blueprint.seed + run}), self.behaviours
            ),
            instance.limits_for(self.setting),
            {name: getattr(instance, name) for name in suite.labels} | {"run": run},
        )
