"""Every product of the shipped catalogue does what its specification says, and refuses the rest unchanged."""

import random

import pytest

from envs.homeenv.audit import Refused
from envs.homeenv.home import OUTDOORS, ROOM_STATE, Device, Home, Room
from envs.homeenv.spec import Catalogue, DeviceSpec

SPECS = list(Catalogue.shipped().values())
NAMES = [spec.name for spec in SPECS]
ILLEGAL = {
    "int": (1.5, "3", True, None, 10**9),
    "float": ("3", True, None, 1e9, float("nan")),
    "bool": (1, "true", None),
    "enum": (3, None, "no such option"),
    "tuple": (3, (), (1, 2, 3), ("a", "b")),
}


def home_of(spec: DeviceSpec, rng: random.Random) -> Home:
    air = {path: kind.sample(rng) for path, kind in ROOM_STATE.items()}
    values = {path: attribute.sample(rng) for path, (_, attribute) in spec.attribute_index.items()}
    return Home.build(
        [Room("study", "study")],
        [Device("1", "it", "study", spec)],
        {OUTDOORS: air, "study": air, "1": values},
    )


def make_ready(home: Home, path: str) -> None:
    """Bring a device, or the part that holds the service, into the state in which it obeys."""
    spec, prefix = home.plan.by_did["1"].spec, path.rpartition(".")[0]
    prefix += "." if prefix else ""
    ways = {"pause": ("start",)}.get(path, ("turn_on", "stop") if "stop" in spec.service_index else ("turn_on",))
    for way in ways:
        if prefix + way in spec.service_index:
            home.call("1", prefix + way)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_every_service_takes_legal_arguments_and_does_what_its_name_says(spec):
    rng = random.Random(1)
    for path, compiled in spec.service_index.items():
        for _ in range(10):
            home = home_of(spec, rng)
            make_ready(home, path)
            arguments = [argument.sample(rng) for argument in compiled.service.arguments]
            home.call("1", path, arguments)
            prefix, _, name = path.rpartition(".")
            if name.startswith("set_"):
                assert home.get("1", f"{prefix}.{name[4:]}".lstrip(".")) == arguments[0]


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_illegal_arguments_are_refused_and_change_nothing(spec):
    rng = random.Random(2)
    for path, compiled in spec.service_index.items():
        home = home_of(spec, rng)
        make_ready(home, path)
        before, key = home.fork(), home.state_key()
        declared = compiled.service.arguments
        wrong = [[value] for value in ILLEGAL[declared[0].type]] if declared else []
        calls = [(args, {}) for args in (*wrong, [1, 2, 3], *([[]] if declared else []))] + [([], {"nonsense": 1})]
        for args, kwargs in calls:
            with pytest.raises(Refused):
                home.call("1", path, args, kwargs)
            assert home.state_key() == key and not home.diff(before)


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_bounds_are_taken_and_what_lies_beyond_is_out_of_range(spec):
    for path, compiled in spec.service_index.items():
        for argument in compiled.service.arguments:
            if argument.range and argument.type in ("int", "float"):
                low, high = (int(bound) if argument.type == "int" else bound for bound in argument.range)
                home = home_of(spec, random.Random(3))
                make_ready(home, path)
                home.call("1", path, [low])
                home.call("1", path, [high])
                for beyond in (low - 1, high + 1):
                    with pytest.raises(Refused) as refused:
                        home.call("1", path, [beyond])
                    assert refused.value.rule == "out_of_range"


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_what_an_off_device_refuses_names_the_precondition(spec):
    for path, compiled in spec.service_index.items():
        off = path.rpartition(".")[0] + "." if "." in path else ""
        if compiled.service.requires and off + "turn_off" in spec.service_index:
            home = home_of(spec, random.Random(4))
            home.call("1", off + "turn_off")
            key = home.state_key()
            with pytest.raises(Refused) as refused:
                home.call("1", path, [argument.sample(random.Random(5)) for argument in compiled.service.arguments])
            assert refused.value.rule == "precondition" and home.state_key() == key


@pytest.mark.parametrize("spec", SPECS, ids=NAMES)
def test_a_settable_attribute_has_one_setter_of_its_own_type(spec):
    for prefix, part in spec.parts():
        attributes = {attribute.name: attribute for attribute in part.attributes}
        for service in part.services:
            assert service.description, f"{prefix}{service.name} has no description"
            if service.arguments:
                (argument,) = service.arguments
                assert service.name == f"set_{argument.name}"
                assert argument.describe() == attributes[argument.name].describe()
        for attribute in part.attributes:
            assert attribute.description, f"{prefix}{attribute.name} has no description"


def test_functional_attributes_need_a_device_that_is_on():
    for spec in SPECS:
        for _, part in spec.parts():
            if any(service.name == "turn_on" for service in part.services):
                for service in part.services:
                    if service.name.startswith("set_") and service.name != "set_child_lock":
                        assert service.requires and 'self.state == "on"' in service.requires, f"{spec.name} {service.name}"


def test_the_catalogue_is_wide_enough():
    controllable = {spec.category for spec in SPECS if spec.service_index}
    assert len(controllable) >= 12 and len({spec.category for spec in SPECS}) >= 14
    assert any(spec.components for spec in SPECS) and any(not spec.service_index for spec in SPECS)
    assert all(spec.spid.isdigit() and len(spec.spid) == 6 for spec in SPECS)
    assert "light.brightness" in Catalogue.shipped()["100101"].attribute_index


def test_light_100001_has_the_abilities_of_the_papers_listing():
    light = Catalogue.shipped()["100001"]
    assert list(light.attribute_index) == ["state", "brightness", "hs_color"]
    assert list(light.service_index) == ["turn_on", "turn_off", "set_brightness", "set_hs_color"]
    device = light.rand(0)
    device.turn_on()
    device.set_brightness(80)
    device.set_hs_color((120, 50.0))
    assert (device.state, device.brightness, device.hs_color) == ("on", 80, (120.0, 50.0))
