"""HomeEnv as the paper prints it, and the contract of worlds."""

import copy
import itertools

import gymnasium as gym
import pytest

from homerl.envs.core.world import ContractError, check_world
from homerl.envs.homeenv.maker.make import HomeRecipe, HomeSampler, make_home
from homerl.envs.homeenv.sim import Entity
from homerl.envs.homeenv.sim.conditions import ConditionError
from homerl.envs.homeenv.sim.env import HomeEnv

# The abilities of the paper's light (HomeFlow A.1), in a file of one's own.
LIGHT = """
- name: light
  userdata: {category: light, brand: of-ones-own, spid: "910001"}
  attributes:
    - {name: state, type: str, options: ["on", "off"]}
    - {name: brightness, type: int, range: [1, 100], unit: percentage}
    - {name: hs_color, type: tuple, items: [{type: float, range: [0.0, 360]}, {type: float, range: [0, 100]}]}
  services:
    - name: turn_on
      code: self.state = "on"
    - name: turn_off
      code: self.state = "off"
    - name: set_brightness
      arguments: [{name: brightness, type: int, range: [1, 100]}]
      code: self.brightness = brightness
    - name: set_hs_color
      arguments:
        - {name: hs_color, type: tuple, items: [{type: float, range: [0.0, 360]}, {type: float, range: [0, 100]}]}
      code: self.hs_color = hs_color
"""


def test_listings_1_and_2_a_device_from_its_file(tmp_path):
    (tmp_path / "light.yaml").write_text(LIGHT)
    with (tmp_path / "light.yaml").open() as file:
        light_spec = Entity.load(file)[0]
    light = light_spec.rand()
    assert light.state in ("on", "off") and 1 <= light.brightness <= 100
    light.turn_off()
    light.turn_on()
    light.set_brightness(80)
    light.set_hs_color((120, 50))
    assert (light.state, light.brightness, light.hs_color) == ("on", 80, (120.0, 50.0))
    twins = light_spec.rand(5), light_spec.rand(5)
    assert twins[0].brightness == twins[1].brightness and twins[0].hs_color == twins[1].hs_color
    with pytest.raises(Exception, match="read_only"):
        light.brightness = 3
    with pytest.raises(Exception, match="out_of_range"):
        light.set_brightness(101)
    with pytest.raises(AttributeError, match="no attribute or service 'dim'"):
        light.dim()
    assert light.brightness == 80


def test_listing_3_a_home_to_act_in():
    env = gym.make("HomeEnv-v0", home=HomeSampler.sample_test())
    assert type(env) is HomeEnv and env.engine, "no wrapper hides the engine"
    observation, reward, terminated, truncated, info = env.step(
        {
            "name": "pyexec",
            "code": """
device("1001").set_brightness(80)
print(f"brightness of light is {device('1001').brightness}")
""",
        }
    )
    assert observation == "brightness of light is 80"
    assert (reward, terminated, truncated) == (0.0, False, False)
    assert info == {"progress": 0.0, "blocked": None, "error": None, "changed": ("1001.brightness",)}


def test_listing_4_tasks_that_the_home_checks():
    env = gym.make("HomeEnv-v0", home=HomeSampler.sample_test())
    for condition in ("device('1001').state == 'on'", "device('1001').brightness > 60"):
        env.engine.task.add_task(condition)
    told = [(task.id, task.finished, task.condition) for task in env.engine.task.tasks]
    assert told == [(1, True, "device('1001').state == 'on'"), (2, False, "device('1001').brightness > 60")]
    _, reward, terminated, _, info = env.step({"name": "pyexec", "code": "device('1001').set_brightness(61)"})
    assert (reward, terminated, info["progress"]) == (0.5, True, 1.0)
    assert all(task.finished for task in env.engine.task.tasks)
    with pytest.raises(ConditionError):
        env.engine.task.add_task("device('9').state == 'on'")
    env.reset()
    assert [task.finished for task in env.engine.task.tasks] == [True, False]


def test_gymnasium_finds_it_by_module_name_too():
    assert type(gym.make("homerl.envs.homeenv.sim:HomeEnv-v0", home=HomeSampler.sample_test())) is HomeEnv


def test_the_home_that_was_given_is_not_touched():
    home = HomeSampler.sample_test()
    env = HomeEnv(home)
    env.step({"name": "pyexec", "code": "device('1001').turn_off()"})
    assert home.read_value("1001", "state") == "on" and env.engine.home.read_value("1001", "state") == "off"


def test_progress_goes_back_when_what_was_done_is_undone():
    env = HomeEnv(HomeSampler.sample_test(), ("device('1003').state == 'on'", "device('1004').position == 0"))
    gains = [env.step({"name": "pyexec", "code": f"device('1003').turn_{way}()"})[1] for way in ("on", "off", "on")]
    assert gains == [0.5, -0.5, 0.5]


@pytest.mark.parametrize(
    ("action", "rule"),
    [
        ({}, "unknown_tool"),
        ({"name": None}, "unknown_tool"),
        ({"name": ["pyexec"]}, "unknown_tool"),
        ("pyexec", "unknown_tool"),
        (None, "unknown_tool"),
        ({"name": "pyexec"}, "missing_argument"),
        ({"name": "pyexec", "code": 5}, "wrong_type"),
        ({"name": "pyexec", "code": "1", "timeout": "9"}, "unknown_argument"),
        ({"name": "query_spec", "did": "9"}, "unknown_device"),
        ({"name": "query_status"}, "missing_argument"),
        ({"name": "query_status", "room": "attic"}, "unknown_room"),
        ({"name": "query_status", "did": "9"}, "unknown_device"),
    ],
    ids=str,
)
def test_no_action_raises_and_each_wrong_one_is_blocked_by_its_rule(action, rule):
    env = HomeEnv(HomeSampler.sample_test())
    key = env.state_key()
    observation, reward, terminated, truncated, info = env.step(action)
    assert info["blocked"]["rule"] == rule and observation.startswith(f"refused: {rule}")
    assert env.state_key() == key and (reward, terminated, truncated) == (0.0, False, False)


def test_an_observation_holds_only_what_the_call_returned():
    env = HomeEnv(HomeSampler.sample_test())
    assert env.step({"name": "pyexec", "code": "device('1001').turn_off()"})[0] == "ok"
    status = env.step({"name": "query_status", "did": "1004"})[0]
    assert status.startswith("1004 curtain:") and "100" in status and "1001" not in status
    room = env.step({"name": "query_status", "room": "master bedroom"})[0]
    assert {line.split()[0] for line in room.splitlines()} == {"1003", "1004"}
    spec = env.step({"name": "query_spec", "did": "1001"})[0]
    assert "set_brightness(brightness: int 1..100 percentage)" in spec and "ceiling" not in spec


ACTIONS = [
    {"name": "pyexec", "code": "device('1001').turn_off()\nprint(1)"},
    {"name": "pyexec", "code": "device('1001').turn_off()"},
    {"name": "pyexec", "code": "device('1001').set_brightness(5)"},
    {"name": "pyexec", "code": "device('1003').turn_on()\ndevice('9').turn_on()"},
    {"name": "pyexec", "code": "1 / 0"},
    {"name": "pyexec", "code": "import os"},
    {"name": "query_status", "did": "1001"},
    {"name": "query_spec", "did": "1002"},
    {"name": "pyexec"},
    {},
]


def test_home_env_keeps_the_contract_of_worlds():
    check_world(
        HomeEnv(HomeSampler.sample_test(), ("device('1003').state == 'on'", "device('1001').state == 'off'")),
        ACTIONS,
    )
    for seed, recipe in enumerate((HomeRecipe(), HomeRecipe(devices=(25, 25)), HomeRecipe(lexicon="heldout"))):
        home = make_home(seed, recipe)
        codes = (
            f"device('{d.did}').{path}()"
            for d in home.plan.devices
            for path in d.spec.service_index
            if path.endswith("turn_on")
        )
        check_world(HomeEnv(home), ({"name": "pyexec", "code": code} for code in itertools.islice(codes, 6)))


class Shares(HomeEnv):
    def fork(self):
        twin = super().fork()
        twin.engine = self.engine
        return twin


class ForgetsOnFork(HomeEnv):
    def fork(self):
        twin = super().fork()
        twin.engine.home.clock += 1
        return twin


class Wavers(HomeEnv):
    count = itertools.count()

    def step(self, action):
        observation, *rest = super().step(action)
        return (f"{observation} {next(self.count)}", *rest)


class LiesAboutChange(HomeEnv):
    def step(self, action):
        *rest, info = super().step(action)
        return (*rest, info | {"changed": ("1001.state",)})


class TakesUnknownTools(HomeEnv):
    def step(self, action):
        *rest, info = super().step(action)
        return (*rest, info | {"blocked": None})


class ActsOnRefusal(HomeEnv):
    def step(self, action):
        *rest, info = super().step(action)
        if info["blocked"]:
            self.engine.home.clock += 1
            info = info | {"changed": ("clock",)}
        return (*rest, info)


class GivesAwayReward(HomeEnv):
    def step(self, action):
        observation, reward, *rest = super().step(action)
        return (observation, reward + 0.5, *rest)


class WritesOnActions(HomeEnv):
    def step(self, action):
        result = super().step(action)
        action["seen"] = "1"
        return result


class SaysNothing(HomeEnv):
    def step(self, action):
        return (None, *super().step(action)[1:])


class WholeRewards(HomeEnv):
    def step(self, action):
        observation, _, *rest = super().step(action)
        return (observation, 0, *rest)


class TellsLess(HomeEnv):
    def step(self, action):
        *rest, info = super().step(action)
        return (*rest, {key: info[key] for key in ("progress", "blocked", "error")})


class RepeatsTools(HomeEnv):
    @property
    def tools(self):
        return super().tools * 2


@pytest.mark.parametrize(
    ("broken", "clause"),
    [
        (Shares, "equal keys behaved differently|a fork"),
        (ForgetsOnFork, "a fork has another state key"),
        (Wavers, "equal keys behaved differently"),
        (LiesAboutChange, "`changed` and the state key disagree"),
        (TakesUnknownTools, "an unknown tool was not blocked"),
        (ActsOnRefusal, "a refused call changed something"),
        (GivesAwayReward, "the reward is not the gain in progress"),
        (WritesOnActions, "step changed its action"),
        (SaysNothing, "the observation is not text"),
        (WholeRewards, "the reward is not a float"),
        (TellsLess, "info lacks a key"),
        (RepeatsTools, "tool names are missing or repeated"),
    ],
)
def test_a_world_that_breaks_the_contract_is_caught(broken, clause):
    with pytest.raises(ContractError, match=clause):
        check_world(broken(HomeSampler.sample_test()), copy.deepcopy(ACTIONS[:2]))
