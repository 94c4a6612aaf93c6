"""The catalogue of appliances: the kinds and methods of the paper, each callable and each able to refuse."""

import json
import random
from functools import lru_cache

import pytest
from draws import some_arguments
from personal_homes import home_of

from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.envs.homeenv.maker.layout_and_furniture import shipped_priors
from homerl.envs.homeenv.sim.devices.device_lint import lint_device_files
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.types_and_ranges import NUMBERS
from homerl.envs.personalhome.sim.appliance_catalogue import (
    FOLDER,
    USUAL_FILE,
    appliance_kinds,
    is_sensor,
    load_appliance_catalogue,
    read_usual_values,
    rooms_for_kind,
    sensor_kinds,
    usual_state,
)

# PersonalHomeBench Table 16: the number of methods of each kind.
PRINTED = {
    "air-purifier": 4, "bidet": 4, "blinds": 3, "coffee-maker": 5, "dishwasher": 6, "faucet": 4, "garage-door-opener": 2,
    "humidifier": 4, "lighting": 4, "lock": 5, "massage-chair": 2, "mattress": 4, "microwave": 5, "mirror": 3, "oven": 4,
    "refrigerator": 6, "robot-lawn-mower": 3, "robot-vacuum-mop": 6, "scale": 3, "security-camera": 3, "sensor_hub": 3,
    "shower": 3, "speaker": 6, "sprinklers": 3, "steam-closet-dry-cleaner": 4, "thermostat": 4, "trash-bin": 5, "tv": 8,
    "video-doorbell": 3, "washer-dryer": 5, "water-purifier": 4,
}  # fmt: skip
OURS = {"stove", "kitchen_hood", "smart_display", "kettle", "fan", "air_conditioner", "plug", "pet_feeder", "smoke_alarm"}
METHODS = [(kind, service.name) for kind, spec in appliance_kinds().items() for service in spec.services]


def test_the_catalogue_has_no_slips_and_takes_no_spid_of_the_shipped_one():
    report = lint_device_files(FOLDER, shipped_priors().categories, Catalogue.load_shipped())
    assert len(report.specs) == len(load_appliance_catalogue()) == 48
    # The thermostat and the air conditioner are not wired to the air of a room: a household's air does not depend on them.
    assert len(report.findings) == 2
    assert all(found.warning and "warms or cools the room" in found.what for found in report.findings)


def test_it_has_the_printed_kinds_with_all_their_methods_and_passes_forty():
    counted = {kind: len(spec.services) for kind, spec in appliance_kinds().items()}
    assert PRINTED.items() <= counted.items() and sum(PRINTED.values()) == 128
    assert counted.keys() - PRINTED.keys() == OURS and len(counted) == 40
    assert list(appliance_kinds())[:31] == sorted(PRINTED, key=str.lower)


def test_products_are_named_by_their_kinds_and_sensors_take_no_orders():
    for spec in load_appliance_catalogue().values():
        assert spec.name == spec.category.replace("-", "_")
        assert is_sensor(spec) == (spec.category in sensor_kinds()) == (not spec.services)
        assert rooms_for_kind(spec.category) and spec.attributes
    assert set(rooms_for_kind("sprinklers")) == {"balcony", "garage"}


@lru_cache(maxsize=60)  # those of a kind, whose methods follow one another
def home_of_kind(kind, seed):
    return home_of([kind], seed)


@pytest.mark.parametrize(("kind", "method"), METHODS)
def test_every_method_can_be_called_and_can_be_refused(kind, method):
    """It is called in ordinary, random and lowest states with legal arguments; a refusal leaves the home as it was."""
    spec = appliance_kinds()[kind]
    service = spec.service_index[method]
    rng, calls, refusals = random.Random(f"{kind} {method}"), 0, 0
    bounded = [a for a in service.service.arguments if a.options or a.range or a.items]
    for seed in range(60):
        home = home_of_kind(kind, seed).fork()
        for path, (_, attribute) in spec.attribute_index.items() if seed % 3 else ():
            lowest = seed % 3 == 1 and attribute.type in NUMBERS and attribute.range
            value = (
                attribute.check_value(int(attribute.range[0]) if attribute.type == "int" else attribute.range[0])
                if lowest
                else attribute.sample_value(rng)
            )
            home.write_slot(home.plan.slot_of(f"den_{spec.name}", path), value)
        before = home.state_key()
        try:
            answer = home.call(f"den_{spec.name}", method, some_arguments(service, rng, 0))
        except Refused as refused:
            refusals += 1
            assert refused.rule in ("precondition", "out_of_range") and home.state_key() == before
        else:
            calls += 1
            assert answer is not None and json.loads(json.dumps(answer)) == answer
    assert calls, "nothing can call it"
    assert refusals or bounded, "nothing can be wrong with a call"


def test_every_method_works_in_an_ordinary_home_or_names_what_it_lacks():
    home, worked = home_of(list(appliance_kinds()), 4), 0
    for kind, method in METHODS:
        service = appliance_kinds()[kind].service_index[method]
        try:
            home.fork().call(f"den_{appliance_kinds()[kind].name}", method, kwargs=_legal(service))
            worked += 1
        except Refused as refused:
            assert refused.rule == "precondition" and f"{method} needs" in refused.message, (kind, method)
    assert worked > 0.75 * len(METHODS)


def _legal(service):
    rng = random.Random(0)
    required = [argument for argument in service.service.arguments if argument.required]
    return {a.name: "some words" if a.type == "str" else a.sample_value(rng) for a in required}


def test_a_leak_is_found_and_shut_off():
    home = home_of(["dishwasher"])
    slot = home.plan.slot_of("den_dishwasher", "leak")
    home.call("den_dishwasher", "start_smart_cycle")
    assert home.call("den_dishwasher", "run_leak_diagnostic") == {"leak": False, "inlet_open": True, "alert_sent": False}
    home.write_slot(slot, True)
    assert home.call("den_dishwasher", "run_leak_diagnostic") == {"leak": True, "inlet_open": False, "alert_sent": True}
    with pytest.raises(Refused, match="now .*leak is true"):
        home.call("den_dishwasher", "start_smart_cycle")


def test_questions_for_an_assistant_are_answered_from_the_device_alone():
    home = home_of(["refrigerator", "tv", "speaker"])
    home.write_slot(home.plan.slot_of("den_refrigerator", "contents"), ("milk", "chicken", "vegetables"))
    ask = {"request": "something warm"}
    assert home.call("den_refrigerator", "recommend_recipe", kwargs=ask)["recipe"] == "chicken_soup"
    ask["diet"] = "vegetarian"
    assert home.call("den_refrigerator", "recommend_recipe", kwargs=ask)["recipe"] == "vegetable_stew"
    home.call("den_speaker", "notify", ["dinner is ready"])
    answer = home.call("den_speaker", "complex_query", ["what did you say?"])
    assert answer["last_notification"] == "dinner is ready"


# The ordinary state


def test_an_ordinary_state_is_complete_possible_and_of_its_seed():
    for spec in load_appliance_catalogue().values():
        state = usual_state(spec, random.Random("one"))
        assert list(state) == [attribute.name for attribute in spec.attributes]
        assert all(
            attribute.check_value(state[attribute.name], "it") == state[attribute.name] for attribute in spec.attributes
        )
        assert state == usual_state(spec, random.Random("one"))
        drawn = [attribute.name for attribute in spec.attributes if attribute.type in ("bool", "str", "list", "tuple")]
        listed = read_usual_values(read_yaml(USUAL_FILE))[spec.category]
        assert set(drawn) <= listed.keys(), f"{spec.name}: random letters and alarms are no ordinary state"


def test_in_an_ordinary_home_nothing_burns_leaks_or_stands_open_and_nobody_was_told_anything():
    harm = {"leak", "smoke", "wet", "door_ajar", "sounding", "burner_power", "opened", "last_notification", "leak_alert"}
    for seed in range(20):
        home = home_of([*appliance_kinds(), *sensor_kinds()], seed)
        found = [
            (device.did, name)
            for device in home.plan.devices
            for name, value in home.state_of(device.did).items()
            if name in harm and value
        ]
        assert not found


@pytest.mark.parametrize(
    ("kind", "put", "says"),
    [
        ("stove", {"burner_power": 12}, "outside 0..9"),
        ("stove", {"flame": 1}, "no 'flame'"),
        ("stove", {"burner_power": [5, 1]}, "lower bound"),
        ("dragon", {}, "no kind of the catalogue"),
        ("stove", None, "not listed"),
    ],
)
def test_a_wrong_file_of_ordinary_states_is_refused_with_the_place(kind, put, says):
    document = read_yaml(USUAL_FILE)
    data = {name: value for name, value in document.data.items() if name != kind} | ({} if put is None else {kind: put})
    with pytest.raises(InputError) as error:
        read_usual_values(Document(document.path, data, document.lines))
    assert says in error.value.what and "usual.yaml" in error.value.where and error.value.remedy
