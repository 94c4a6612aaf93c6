"""The toolset `assist`: its API is the recorded one, it acts as the recorded one did, and no call breaks anything."""

import json
import random
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from draws import few
from hypothesis import assume, given
from hypothesis import strategies as st

from homerl.envs.core.world import check_world, tool_call_to_action
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.assist.api_and_prompt import assist_prompt, latest_recorded_api
from homerl.envs.homeenv.sim.assist.assist_tools import PLAYED, TOOLS
from homerl.envs.homeenv.sim.assist.assist_writer import AssistWriter
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan, entity_shapes, floors_of_plan, is_out_of_reach
from homerl.envs.homeenv.sim.assist.value_translation import SHARES, colour_codes, to_service_value, translation_table
from homerl.envs.homeenv.sim.assist.value_translation import to_slot_value as given_value
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device
from homerl.envs.homeenv.sim.devices.rooms import HOME, OUTDOORS, Room
from homerl.envs.homeenv.sim.env import HomeEnv
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.home_plan import FixedPlan
from homerl.envs.homeenv.sim.toolset import Limits, parse_turn_tool_calls

RECORDED = Path(__file__).parents[2] / "assistant/listing/recorded"
AIR = {"temperature": 21.0, "humidity": 45.0, "brightness": 150.0}
WHITE, RED = {"state": "on", "brightness": 71, "hs_color": (0.0, 0.0)}, "#ff0000"
PLAYING = {"player.playing": True, "player.volume": 100, "player.muted": False, "player.source": "music"}
DEMO = {  # recorded entity: our product, its name and room, and how it begins
    "light.bed_light": ("100001", "Bed Light", "bedroom", WHITE | {"brightness": 70}),
    "light.kitchen_lights": ("100001", "Kitchen Lights", "kitchen", WHITE),
    "light.ceiling_lights": ("100007", "Ceiling Lights", "living_room",
                             {"state": "on", "mode": "white", "brightness": 71, "color_temperature": 2700, "color": RED}),
    "lock.kitchen_door": ("101101", "Kitchen Door", "kitchen", {"state": "unlocked", "battery": 90}),
    "cover.hall_window": ("100501", "Hall Window", "hall", {"position": 10}),
    "fan.living_room_fan": ("100201", "Living Room Fan", "living_room",
                            {"state": "off", "speed": 1, "oscillation": False, "mode": "normal"}),
    "climate.heatpump": ("102502", "HeatPump", "hall",
                         {"state": "on", "target_temperature": 20.0, "current_temperature": 25.0, "window_open": False,
                          "battery": 80}),
    "humidifier.hygrostat": ("100801", "Hygrostat", "bathroom", {"state": "on", "target_humidity": 50, "mode": "auto"}),
    "media_player.walkman": ("100601", "Walkman", "office", PLAYING),
    "vacuum.demo_vacuum_0_ground_floor": ("101301", "Demo vacuum 0 ground floor", "garden",
                                          {"state": "docked", "suction": "quiet", "water_level": "off", "battery": 70}),
}  # fmt: skip
ROOMS = {
    "kitchen": ("Kitchen", 0),
    "living_room": ("Living Room", 0),
    "hall": ("Hall", 0),
    "garden": ("Garden", 0),
    "bedroom": ("Bedroom", 1),
    "bathroom": ("Bathroom", 1),
    "office": ("Office", 1),
}


def demo() -> Home:
    """The recorded home, as far as our catalogue has its devices."""
    rooms = {id: Room(id, "storage", name, floor) for id, (name, floor) in ROOMS.items()}
    specs = Catalogue.load_shipped()
    devices = [Device(id, name, rooms[room], specs[spid]) for id, (spid, name, room, _) in DEMO.items()]
    state = {id: values for id, (*_, values) in DEMO.items()}
    return Home.build_home(list(rooms.values()), devices, {OUTDOORS: AIR, **dict.fromkeys(rooms, AIR), **state}, 0)


def recorded(name: str):
    return json.loads((RECORDED / f"{name}.json").read_text("utf-8"))


def call(env: HomeEnv, tool: str, **arguments):
    text, _, _, _, info = env.step(tool_call_to_action(tool, arguments, tool in env.tools_with_name))
    return text, info


def test_the_tools_are_those_of_the_real_one():
    real = {tool["name"]: tool for tool in recorded("tools")["tools"]}
    assert latest_recorded_api().tools.keys() == real.keys()
    assert {tool.name for tool in TOOLS} == PLAYED & real.keys()
    for tool in TOOLS:
        shown = tool.function_schema()["function"]
        assert shown["description"] == real[tool.name]["description"]
        assert sorted_words(shown["parameters"]) == sorted_words(real[tool.name]["inputSchema"])


def sorted_words(schema):
    """A schema whose enumerations are sorted, for their order is not the same in each start of Home Assistant."""
    if isinstance(schema, dict):
        return {key: sorted(part) if key == "enum" else sorted_words(part) for key, part in schema.items()}
    return [sorted_words(part) for part in schema] if isinstance(schema, list) else schema


def test_the_prompt_is_composed_as_the_real_one():
    real = recorded("tools")["prompts"][0]["messages"][0]["content"]["text"]
    ours = assist_prompt(demo())
    assert ours.startswith(latest_recorded_api().before) and ours.endswith(latest_recorded_api().after)
    assert real.startswith(latest_recorded_api().before) and real.endswith(latest_recorded_api().after)
    for id, (_, name, room, _) in DEMO.items():
        domain = id.partition(".")[0]
        assert f"- names: {name}\n  domain: {domain}\n  areas: {ROOMS[room][0]}" in ours
    assert "- names: Kitchen Lights\n  domain: light\n  areas: Kitchen" in real


@pytest.mark.parametrize(("seed", "storeys_are"), [(3, 1), (4, 2)])
def test_the_prompt_names_the_area_of_the_device_that_is_spoken_to(seed, storeys_are):
    home = make_home(seed, HomeRecipe(scale="complex" if storeys_are > 1 else "simple", entrance=True))
    assert len({room.floor for room in home.plan.rooms}) >= storeys_are
    room = home.plan.devices_by_did[home.plan.entrance].room
    floors = [floor.name for floor in floors_of_plan(home.plan) if room.id in floor.rooms]
    where = f"{room.name} (floor {floors[0]})" if floors else room.name
    assert f"\nYou are in area {where} and all generic commands" in assist_prompt(home)
    assert "Living Room" not in assist_prompt(home)


COMPARABLE = [
    one
    for one in recorded("assist")["calls"]
    if one["arguments"].get("name") in {name for _, name, *_ in DEMO.values()}
    and "text" in one
    and not one["tool"].startswith("vacuum__HassVacuumCleanArea")
]
OTHERWISE = {  # what our devices do differently, and why
    ("intent__HassTurnOn", "Demo vacuum 0 ground floor"): None,
    ("media_player__HassMediaNext", "Walkman"): "our speaker has no next item",
    ("media_player__HassMediaPrevious", "Walkman"): "our speaker has no previous item",
    ("humidifier__HassHumidifierMode", "Hygrostat"): "our humidifier has other modes",
}


def test_it_answers_as_the_real_one_did():
    env, same = HomeEnv(demo(), (), "assist"), 0
    for one in COMPARABLE:
        if OTHERWISE.get((one["tool"], one["arguments"]["name"])):
            continue
        text, info = call(env, one["tool"], **one["arguments"])
        assert info["error"] is None
        if one["tool"].endswith("GetLiveContext"):
            continue
        assert text == one["text"], one
        assert bool(info["blocked"]) == one["failed"]
        same += 1
    assert same >= 20


def test_every_tool_is_executed_and_its_answer_has_the_recorded_form():
    env = HomeEnv(demo(), (), "assist")
    forms = {one["tool"]: one for one in recorded("assist")["calls"] if not one.get("failed") and "text" in one}
    for tool in TOOLS:
        if tool.name in env.tools_with_name or tool.name in {t["function"]["name"] for t in env.tools}:
            one = forms.get(tool.name)
            text, info = call(env, tool.name, **(one["arguments"] if one else {}))
            assert info["error"] is None
            if one and not info["blocked"]:
                assert json.loads(text).keys() == json.loads(one["text"]).keys(), tool.name


@pytest.mark.parametrize("area", ["Kitchen", "kitchen", " KITCHEN "])
def test_names_match_without_case(area):
    env = HomeEnv(demo(), (), "assist")
    text, _ = call(env, "intent__HassTurnOff", area=area, domain=["light"])
    assert [one["name"] for one in json.loads(text)["data"]["success"]] == ["Kitchen", "Kitchen Lights"]
    assert env.engine.home.read_value("light.kitchen_lights", "state") == "off"


ERRORS = [  # each as a real one said it
    ("intent__HassTurnOn", {"floor": "nowhere"}, "The floor does not exist (given floor 'nowhere')"),
    ("intent__HassTurnOn", {"name": 7}, "No entities matched the name (given name '7')"),
    ("intent__HassTurnOn", {"name": "  ", "domain": []}, "Service handler cannot target all devices"),
    ("intent__HassTurnOn", {"domain": ["spaceship"]}, "No entities matched the domain (given domains spaceship)"),
    ("intent__HassTurnOn", {"floor": "First floor", "name": "Kitchen Lights"},
     "No entities were on the floor (given name 'Kitchen Lights', floor 'First floor')"),
    ("light__HassLightSet", {"area": "Kitchen", "domain": ["fan"], "brightness": 3},
     "Received invalid slot info for HassLightSet"),
    ("climate__HassClimateSetTemperature", {"name": "HeatPump", "temperature": "warm"},
     "Received invalid slot info for HassClimateSetTemperature"),
    ("climate__HassClimateSetTemperature", {"name": "HeatPump"}, "Received invalid slot info for HassClimateSetTemperature"),
    ("humidifier__HassHumidifierSetpoint", {"name": "nothing", "humidity": 40},
     "No entities matched the name (given name 'nothing', domains humidifier)"),
    ("intent__HassSetPosition", {"name": "Bed Light", "position": 4}, "Domain not supported: light"),
    ("media_player__HassMediaPause", {"name": "Bed Light"},
     "No entities matched the name (given name 'Bed Light', domains media_player, states playing, features 1)"),
    ("vacuum__HassVacuumStart", {"area": "Kitchen"},
     "No entities were in the area (given area 'Kitchen', domains vacuum, features 8192)"),
    ("homeassistant__GetLiveContext", {"domain": "light", "foo": 1}, "not a valid option at 'foo'"),
    ("HassTurnOn", {"name": "Bed Light"}, 'Tool "HassTurnOn" not found'),
]  # fmt: skip


@pytest.mark.parametrize(("tool", "arguments", "said"), ERRORS)
def test_errors_are_those_of_the_real_one_and_change_nothing(tool, arguments, said):
    env = HomeEnv(demo(), (), "assist")
    before = env.state_key()
    text, info = call(env, tool, **arguments)
    assert text == f"Error calling tool: {said}" and info["blocked"]
    assert env.state_key() == before


def test_arguments_are_read_as_freely_as_the_real_one_reads_them():
    env = HomeEnv(demo(), (), "assist")
    _, info = call(env, "light__HassLightSet", name="Bed Light", domain="light", brightness="40", nonsense=3)
    assert not info["blocked"] and env.engine.home.read_value("light.bed_light", "brightness") == 40
    call(env, "light__HassLightSet", name="Bed Light", brightness=0)
    assert env.engine.home.read_value("light.bed_light", "state") == "off"
    call(env, "light__HassLightSet", name="Bed Light", color="Light Blue")
    assert env.engine.home.read_value("light.bed_light", "state") == "on"
    assert env.engine.home.read_value("light.bed_light", "hs_color") == (194.737, 24.783)


def test_a_tool_is_offered_if_the_home_has_its_domain():
    lock = [device for device in demo().plan.devices if device.did == "lock.kitchen_door"]
    home = Home.build_home([lock[0].room], lock, {OUTDOORS: AIR, "kitchen": AIR, lock[0].did: DEMO[lock[0].did][3]}, 0)
    assert [tool["function"]["name"].rpartition("__")[2] for tool in HomeEnv(home, (), "assist").tools] == [
        "HassBroadcast",
        "GetLiveContext",
        "HassTurnOn",
        "HassTurnOff",
        "HassCancelAllTimers",
        "GetDateTime",
    ]


def test_each_category_of_the_catalogue_is_in_the_table_or_only_measures():
    kinds = {kind for spec in Catalogue.load_shipped().values() for _, kind in spec.part_kinds if spec.service_index}
    unnamed = {kind for kind in kinds if kind not in translation_table().kinds}
    assert unnamed == {
        "contact_sensor",
        "doorbell",
        "motion_sensor",
        "pet_feeder",
        "refrigerator",
        "smoke_sensor",
        "temperature_humidity_sensor",
    }
    lost = {spec.name for spec in Catalogue.load_shipped().values() if is_out_of_reach(spec)}
    assert lost == {"alarm_panel", "named_contact_sensor", "human_sensor", "pet_feeder", "climate_sensor"}


def test_an_attribute_belongs_to_one_entity_and_ids_are_unique():
    for seed in range(5):
        found = entities_of_plan(make_home(seed, HomeRecipe(scale="complex")).plan)
        assert len({entity.id for entity in found}) == len(found)
    for spec in Catalogue.load_shipped().values():
        paths = [path for shape in entity_shapes(spec) for path in {shape.state, shape.mode, *shape.shows.values()} if path]
        assert len(paths) == len(set(paths)), spec.name


def test_ids_are_unique_where_a_name_has_a_number_and_what_is_in_no_room_is_on_no_floor():
    rooms = [Room(f"r{i}", "bedroom", f"room {i}", floor=1) for i in range(2)] + [Room(HOME, HOME, HOME)]
    names = [(0, "lamp"), (1, "lamp"), (1, "lamp 2"), (0, "lamp 2"), (2, "lamp")]
    spec = Catalogue.load_shipped()["100001"]
    devices = [Device(str(i), name, rooms[at], spec) for i, (at, name) in enumerate(names)]
    plan = FixedPlan(tuple(rooms), tuple(devices))
    ids = [entity.id for entity in entities_of_plan(plan)]
    assert ids[:2] == ["light.lamp", "light.lamp_2"] and len(set(ids)) == len(ids) == 5
    assert floors_of_plan(plan) == ()


def test_a_value_goes_to_a_service_and_back():
    for spec in Catalogue.load_shipped().values():
        for shape in entity_shapes(spec):
            for what, setting in shape.sets.items():
                tried = range(101) if what in SHARES else sorted(colour_codes()) if what == "color" else []
                for value in tried:
                    try:
                        ours = to_service_value(what, value, setting.kind)
                    except Exception as refused:
                        assert type(refused).__name__ == "Refused"
                        continue
                    back = given_value(what, ours, setting.kind)
                    assert back is not None and to_service_value(what, back, setting.kind) == ours, (spec.name, what, value)


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["Kitchen", "light", "up"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)
SLOTS = ["name", "area", "floor", "domain", "device_class", "brightness", "color", "temperature", "position", "percentage",
         "volume_level", "volume_step", "humidity", "mode", "message", "x"]  # fmt: skip
NAMES = st.sampled_from([*(name for _, name, *_ in DEMO.values()), "Kitchen", "all", ""])


@few(40, 300)
@given(
    tool=st.sampled_from([tool.name for tool in TOOLS]),
    name=NAMES,
    slots=st.dictionaries(st.sampled_from(SLOTS), ANYTHING, max_size=4),
)
def test_no_call_breaks_anything_and_a_refused_one_changes_nothing(tool, name, slots):
    env = HomeEnv(demo(), (), "assist")
    check_world(env, [tool_call_to_action(tool, {"name": name} | slots, takes_name=True)])


class Made(NamedTuple):
    """A service call of a plan."""

    did: str
    service: str
    args: tuple[Any, ...]


@cache
def rooms_of_lights_and_fans() -> Home:
    """A home in which some rooms have several lights, and some devices refuse a call before another one was made."""
    kinds = ("light", "fan", "humidifier", "dishwasher")
    return make_home(3, HomeRecipe(catalogue=("homeassistant",), categories=kinds, devices=(9, 9)))


def drawn_call(home: Home, rng: random.Random) -> Made:
    device = rng.choice([device for device in home.plan.devices if device.spec.service_index][:4])
    path, compiled = rng.choice(list(device.spec.service_index.items()))
    wanted = (argument for argument in compiled.service.arguments if argument.required)
    return Made(device.did, path, tuple(argument.sample_value(rng) for argument in wanted))


@few(40, 300)
@given(rng=st.randoms(use_true_random=False), count=st.integers(2, 6), way=st.sampled_from([None, True, False]))
def test_a_plan_has_its_effect_as_it_is_written_also_where_calls_are_joined(rng, count, way):
    home = rooms_of_lights_and_fans()
    writer, calls = AssistWriter(home), [drawn_call(home, rng) for _ in range(count)]
    assume(writer.unfit(calls, ()) is None)
    wanted, played, tools = home.fork(), home.fork(), {tool.name: tool for tool in TOOLS}
    for one in calls:
        wanted.call(one.did, one.service, one.args)
    message = writer.write_calls(calls) if way is None else writer.write_calls_on_all(calls, way)
    refused = [tools[name].run(played, slots, Limits()).refusal for name, slots in parse_turn_tool_calls([message])]
    assert not any(refused) and played.state_key() == wanted.state_key(), (calls, message)
