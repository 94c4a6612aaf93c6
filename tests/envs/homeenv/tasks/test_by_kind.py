"""People who call a device by what it is, where nothing else of the kind is in its room."""

import asyncio
import re

from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.language.meaning import is_only_of_kind
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.play.loop import play
from homerl.play.trajectory import Outcome
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.homeenv.tasks.intents import PATIENT

HOME = {"devices": (5, 9), "catalogue": ("homeassistant",), "products": ("ha_light_onoff", "ha_fan", "ha_lock", "ha_switch")}


def made(seed, **changed):
    recipe = {"toolset": "assist", "families": {"atomic/clear": 1.0}, "intents": (1, 1), "home": HOME} | changed
    return make_home_blueprint(BlueprintRecipe(**recipe), "train", seed)


def test_only_what_is_alone_of_its_kind_is_called_by_it_and_the_expert_finds_it():
    by_kind = 0
    for seed in range(16):
        blueprint = made(seed, by_kind=1.0)
        home = home_from_json(blueprint.home, "home")
        (device,) = (home.plan.devices_by_did[did] for did in blueprint.intents[0].devices)
        named = [re.search(rf"\b{re.escape(device.name.lower())}\b", said.lower()) for said in blueprint.intents[0].queries]
        assert is_only_of_kind(device, home) or all(named), blueprint.intents[0].queries
        by_kind += not any(named)
        trajectory = asyncio.run(play(begin_episode(blueprint, PATIENT), Expert(0, 0.0, {"snippet": 1.0}), ScriptedUser(0)))
        assert trajectory.outcome is Outcome.SUCCESS, trajectory.messages
    assert by_kind > 4


def test_a_share_is_called_by_kind_and_each_device_always_so():
    shares = set()
    for seed in range(24):
        said = made(seed, by_kind=0.5, phrasings=4).intents[0].queries
        plain = made(seed, phrasings=4).intents[0].queries
        shares.add(said == plain)
        generic = {bool(re.search(r"the (light|fan|lock) in ", one.lower())) for one in said}
        assert len(generic) == 1, said
    assert shares == {True, False}
