"""Every product of the shipped catalogue does what its specification says, and refuses the rest unchanged."""

import random
from collections import Counter

import pytest

from homerl.envs.homeenv.sim.devices.attributes_and_services import CompiledService
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device, DeviceSpec
from homerl.envs.homeenv.sim.devices.rooms import OUTDOORS, ROOM_STATE, Room
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused

SPECS = list(Catalogue.load_shipped().values())
NAMES = [spec.name for spec in SPECS]
ILLEGAL = {
    "int": (1.5, "3", True, None, 10**9),
    "float": ("3", True, None, 1e9, float("nan")),
    "bool": (1, "true", None),
    "enum": (3, None, "no such option"),
    "tuple": (3, (), (1, 2, 3), ("a", "b")),
    "str": (3, None, "far longer than any name that a person would give to a thing"),
    "hex": ("red", 3, None),
}
# SMH-Bench Table 8: the subcategories that a catalogue of this kind covers, and where ours stand.
TABLE_8 = {
    "light": {"light", "color_light", "color_temperature_light", "light_strip"},
    "temperature_humidity_sensor": {"climate_sensor"},
    "motion_sensor": {"human_sensor"},
    "ceiling_fan": {"fan_light"},
    "smart_screen": {"smart_screen"},
    "speaker": {"universal_speaker"},
    "ac_gateway": {"ac_gateway"},
    "air_conditioner": {"air_cube", "floor_ac"},
    "vacuum": {"vacuum_cleaner", "robot_cleaner"},
    "water_heater": {"electric_water_heater"},
    "lock": {"smart_lock"},
    "curtain": {"curtain", "blind"},
    "fan": {"smart_fan"},
    "washer": {"compound_washer"},
    "oven": {"built_in_oven"},
}


STUDY = Room("study", "study", "study")


def home_of(spec: DeviceSpec, rng: random.Random) -> Home:
    air = {path: kind.sample_value(rng) for path, kind in ROOM_STATE.items()}
    values = {path: attribute.sample_value(rng) for path, (_, attribute) in spec.attribute_index.items()}
    return Home.build_home(
        [STUDY],
        [Device("1", "it", STUDY, spec)],
        {OUTDOORS: air, "study": air, "1": values},
    )


def ready(spec: DeviceSpec, path: str, rng: random.Random) -> Home:
    """A home whose device obeys the service."""
    compiled = spec.service_index[path]
    for _ in range(500):
        home = home_of(spec, rng)
        try:
            home.fork().call("1", path, sample(compiled, rng))
        except Refused as refused:
            assert refused.rule == "precondition"
        else:
            return home
    raise AssertionError(f"{spec.name} never obeys {path}")


def sample(compiled: CompiledService, rng: random.Random) -> list:
    return [argument.sample_value(rng) for argument in compiled.service.arguments]


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_every_service_takes_legal_arguments_and_does_what_its_name_says(spec):
    rng = random.Random(1)
    for path, compiled in spec.service_index.items():
        for _ in range(10):
            home = ready(spec, path, rng)
            arguments = sample(compiled, rng)
            home.call("1", path, arguments)
            prefix, _, name = path.rpartition(".")
            if name.startswith("set_"):
                assert home.read_value("1", f"{prefix}.{name[4:]}".lstrip(".")) == arguments[0]


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_illegal_arguments_are_refused_and_change_nothing(spec):
    rng = random.Random(2)
    for path, compiled in spec.service_index.items():
        home = ready(spec, path, rng)
        before, key = home.fork(), home.state_key()
        declared, legal = compiled.service.arguments, sample(compiled, rng)
        wrong = [[*legal[:i], value, *legal[i + 1 :]] for i, a in enumerate(declared) for value in ILLEGAL[a.type]]
        calls = [(args, {}) for args in (*wrong, [*legal, 1], *([legal[:-1]] if declared else []))]
        for args, kwargs in [*calls, (legal, {"nonsense": 1})]:
            with pytest.raises(Refused):
                home.call("1", path, args, kwargs)
            assert home.state_key() == key and not home.diff(before)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_bounds_are_taken_and_what_lies_beyond_is_out_of_range(spec):
    rng = random.Random(3)
    for path, compiled in spec.service_index.items():
        home = ready(spec, path, rng)
        names = [argument.name for argument in compiled.service.arguments]
        for argument in compiled.service.arguments:
            if argument.range and argument.type in ("int", "float"):
                others = dict(zip(names, sample(compiled, rng)))
                low, high = (int(bound) if argument.type == "int" else bound for bound in argument.range)
                for bound in (low, high):
                    home.fork().call("1", path, (), {**others, argument.name: bound})
                for beyond in (low - 100, high + 100):
                    with pytest.raises(Refused) as refused:
                        home.call("1", path, (), {**others, argument.name: beyond})
                    assert refused.value.rule == "out_of_range"


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_what_an_off_device_refuses_names_the_precondition(spec):
    rng = random.Random(4)
    for path, compiled in spec.service_index.items():
        prefix = path.removesuffix(compiled.service.name)
        if 'self.state == "on"' in (compiled.service.requires or "") and prefix + "turn_off" in spec.service_index:
            home = home_of(spec, rng)
            home.call("1", prefix + "turn_off")
            key = home.state_key()
            with pytest.raises(Refused) as refused:
                home.call("1", path, sample(compiled, rng))
            assert refused.value.rule == "precondition" and home.state_key() == key
            assert 'state == "on"' in refused.value.message and 'state is "off"' in refused.value.message


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_a_settable_attribute_has_one_setter_of_its_own_type(spec):
    for prefix, part in spec.parts_by_prefix():
        attributes = {attribute.name: attribute for attribute in part.attributes}
        for service in part.services:
            assert service.description, f"{prefix}{service.name} has no description"
            if service.name.startswith("set_"):
                assert [service.name[4:]] == [argument.name for argument in service.arguments]
            for argument in service.arguments:
                if argument.name != "code":  # what the alarm panel asks for and does not show
                    assert argument.describe_type() == attributes[argument.name].describe_type()
        for attribute in part.attributes:
            assert attribute.description, f"{prefix}{attribute.name} has no description"


def test_functional_attributes_need_a_device_that_is_on():
    at_any_time = {"set_child_lock", "set_overload_protection", "set_night_light"}
    for spec in SPECS:
        for _, part in spec.parts_by_prefix():
            if any(service.name == "turn_on" for service in part.services):
                for service in part.services:
                    if service.name.startswith("set_") and service.name not in at_any_time:
                        assert service.requires and 'self.state == "on"' in service.requires, f"{spec.name} {service.name}"


def test_what_is_read_only_is_what_no_service_writes():
    for spec in SPECS:
        offset = 0
        written = {at for compiled in spec.service_index.values() for at, *_ in compiled.writes}
        for _, part in spec.parts_by_prefix():
            for attribute in part.attributes:
                assert attribute.read_only == (offset not in written), f"{spec.name}.{attribute.name}"
                offset += 1


def test_the_catalogue_is_wide_enough():
    controllable = {spec.category for spec in SPECS if spec.service_index}
    assert len(controllable) >= 35 and len({spec.category for spec in SPECS}) >= 40
    assert sum(bool(spec.components) for spec in SPECS) >= 12 and sum(not spec.service_index for spec in SPECS) >= 6
    assert all(spec.spid.isdigit() and len(spec.spid) == 6 for spec in SPECS)
    assert "light.brightness" in Catalogue.load_shipped()["100101"].attribute_index
    variants = Counter(spec.category for spec in SPECS)
    common = ("light", "air_conditioner", "fan", "heater", "curtain", "lock", "vacuum", "speaker", "tv", "plug", "oven")
    assert all(variants[category] >= 3 for category in common)
    for category in common:
        of_it = [spec for spec in SPECS if spec.category == category]
        abilities = {tuple((path, a.describe_type()) for path, (_, a) in spec.attribute_index.items()) for spec in of_it}
        assert len(abilities) >= 3, f"{category}: variants differ in ranges, modes or functions"
        assert len({spec.userdata.brand for spec in of_it}) >= 2


def test_every_product_says_what_it_is():
    for spec in SPECS:
        about = spec.userdata
        assert about.category and about.subcategory and about.brand and about.tags, spec.name
    found = {(spec.category, spec.userdata.subcategory) for spec in SPECS}
    assert not {(category, sub) for category, subs in TABLE_8.items() for sub in subs} - found


def device(spid: str, **state) -> Home:
    """A device in a state that is fully given or drawn."""
    home = home_of(Catalogue.load_shipped()[spid], random.Random(0))
    for path, value in state.items():
        home.write_slot(home.plan.slot_of("1", path), value)
    return home


@pytest.mark.parametrize(
    ("spid", "state", "call", "rule", "says"),
    [
        (
            "101902",
            {"state": "on"},
            ("start_heating", ["quick"]),
            "missing_argument",
            "'target_water_quantity' and 'target_water_temperature'",
        ),
        ("101902", {"state": "on"}, ("start_heating", ["quick", 40, 90]), "out_of_range", "35..75"),
        ("100203", {"state": "off"}, ("set_speed_level", ["low"]), "precondition", 'state is "off"'),
        (
            "100303",
            {"state": "on", "ac_mode": "fan_only"},
            ("set_target_temperature", [22]),
            "precondition",
            'ac_mode is "fan_only"',
        ),
        ("101102", {"defend_enabled": True, "battery_level": 80}, ("unlock", []), "precondition", "defend_enabled is true"),
        ("101102", {"defend_enabled": False, "battery_level": 5}, ("unlock", []), "precondition", "battery_level is 5"),
        ("103601", {"state": "armed"}, ("disarm", ["12"]), "out_of_range", "4..6"),
        ("103601", {"state": "armed"}, ("disarm", []), "missing_argument", "'code'"),
        ("102801", {"obstructed": True}, ("close", []), "precondition", "obstructed is true"),
        ("101702", {}, ("set_current_temperature", [20]), "unknown_service", "set_alias"),
        ("101602", {"state": "on", "door_open": False}, ("start_microwave", [600]), "missing_argument", "'cooking_time'"),
    ],
)
def test_what_agents_stumble_on_is_refused_in_words_that_help(spid, state, call, rule, says):
    home = device(spid, **state)
    key = home.state_key()
    with pytest.raises(Refused) as refused:
        home.call("1", *call)
    assert refused.value.rule == rule and says in refused.value.message and home.state_key() == key


def test_light_100001_has_the_abilities_of_the_papers_listing():
    light = Catalogue.load_shipped()["100001"]
    assert list(light.attribute_index) == ["state", "brightness", "hs_color"]
    assert list(light.service_index) == ["turn_on", "turn_off", "set_brightness", "set_hs_color"]
    device = light.rand(0)
    device.turn_on()
    device.set_brightness(80)
    device.set_hs_color((120, 50.0))
    assert (device.state, device.brightness, device.hs_color) == ("on", 80, (120.0, 50.0))
