"""Situations: none is settled at its start, its plan settles it, and nothing less does."""

import contextlib
import itertools
import random

import pytest
from draws import some_arguments
from personal_homes import ROOMS, home_of

from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.envs.homeenv.sim.devices import expression_cost as cost
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.sim.values.expressions import ExpressionError
from homerl.envs.personalhome.sim.appliance_catalogue import appliance_kinds, sensor_kinds
from homerl.envs.personalhome.sim.scene.scene_scripts import DOMAINS
from homerl.envs.personalhome.sim.situations import (
    FILE,
    NOTIFIERS,
    SettlingCondition,
    SituationPlanStep,
    compile_predicate,
    condition_verdicts,
    is_situation_settled,
    load_situations,
    read_situations,
    settling_calls,
)
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary

ALL = list(load_situations().values())
EACH = pytest.mark.parametrize("situation", ALL, ids=[situation.key for situation in ALL])
HERE = ROOMS[0].id


def apply_calls_to_home(home, calls):
    """A copy of the home after some calls. Raises `Refused` at the first that is refused."""
    copy = home.fork()
    for did, step in calls:
        copy.call(did, step.feature, kwargs=step.args)
    return copy


def can_happen_together(keys, known, home):
    """Whether some situations can go on in a home at once: no condition holds yet, and their plans settle them all."""
    if any(any(condition_verdicts(known[key], home, HERE)) for key in keys):
        return False
    end = home
    try:
        for key in keys:
            end = apply_calls_to_home(end, settling_calls(known[key], end, HERE))
    except Refused:
        return False
    return all(is_situation_settled(known[key], end, HERE) for key in keys)


def rooms_of(situation, home):
    """The ids of the rooms where a situation can happen: those that have all kinds with `which: here`."""
    here = {part.kind for part in situation.parts() if part.which == "here"}
    standing = {(device.room.id, device.spec.category) for device in home.plan.devices}
    return tuple(room.id for room in home.plan.rooms if all((room.id, kind) in standing for kind in here))


def small_home(situation, seed=0):
    """A home with what the situation needs, a speaker and a television, in one room."""
    return home_of(list(dict.fromkeys([*situation.needs, "speaker", "tv"])), seed, [situation], ROOMS[:1])


def test_every_situation_is_described_and_urgency_falls_in_the_order_of_the_vocabulary():
    assert [situation.key for situation in ALL] == [key for keys in load_vocabulary().situations.values() for key in keys]
    assert len(ALL) == 37 and len({situation.urgency for situation in ALL}) == 37
    categories = [category for category, _ in itertools.groupby(ALL, lambda situation: situation.category)]
    assert categories == ["ACCIDENT_RESPONSE", "ANOMALY", "WELL_BEING", "ROUTINE"]
    assert [situation.urgency for situation in ALL] == sorted((situation.urgency for situation in ALL), reverse=True)
    assert {situation.domain for situation in ALL} == {*DOMAINS}


@EACH
def test_nothing_that_counts_is_true_at_the_start(situation):
    for seed in range(3):
        for home in (small_home(situation, seed), home_of([*appliance_kinds(), *sensor_kinds()], seed, [situation])):
            assert not any(condition_verdicts(situation, home, HERE)) and not any(condition_verdicts(situation, home))


@EACH
def test_the_plan_settles_it_in_few_steps_and_none_can_be_left_out(situation):
    assert 1 <= len(situation.plan) <= 5
    for seed in range(3):
        home = small_home(situation, seed)
        calls = settling_calls(situation, home, HERE)
        assert is_situation_settled(situation, apply_calls_to_home(home, calls), HERE)
        for left_out in range(len(calls)):
            less = [call for at, call in enumerate(calls) if at != left_out]
            assert not is_situation_settled(situation, _as_far_as_it_goes(home, less), HERE), calls[left_out]


@pytest.mark.parametrize("situation", [s for s in ALL if len(s.plan) > 1], ids=lambda situation: situation.key)
def test_no_single_call_settles_what_takes_several_steps(situation):
    """Any service of the home, with many draws of legal arguments."""
    home, rng = small_home(situation), random.Random(situation.key)
    for (did, path), (service, _) in home.plan.compiled_services.items():
        for _ in range(15):
            after_it = home.fork()
            with contextlib.suppress(Refused):
                after_it.call(did, path, some_arguments(service, rng, 0))
            assert not is_situation_settled(situation, after_it, HERE), path


@EACH
def test_the_plan_settles_it_among_all_kinds_in_two_rooms(situation):
    home = home_of([*appliance_kinds(), *sensor_kinds()], 1, [situation])
    for room in rooms_of(situation, home):
        assert is_situation_settled(situation, apply_calls_to_home(home, settling_calls(situation, home, room)), room)
    assert rooms_of(situation, home) == tuple(room.id for room in ROOMS)


@EACH
def test_words_alone_settle_nothing(situation):
    home = home_of(
        [*situation.needs, *(kind for kind in NOTIFIERS if kind not in situation.needs)], 2, [situation], ROOMS[:1]
    )
    for kind, feature in zip(NOTIFIERS, ("notify", "visual_notification", "show_message"), strict=True):
        home.call(f"{HERE}_{kind}", feature, ["look here"])
    assert not is_situation_settled(situation, home, HERE)
    assert all(home.read_value(f"{HERE}_{kind}", "last_notification") == "look here" for kind in NOTIFIERS)


def _as_far_as_it_goes(home, calls):
    """The home after the calls, without those that are refused."""
    for call in calls:
        try:
            home = apply_calls_to_home(home, [call])
        except Refused:
            continue
    return home


def test_a_condition_counts_the_devices_of_the_room_of_all_rooms_or_of_any():
    home = home_of(["lighting"])
    for room, brightness in zip(ROOMS, (10, 90), strict=True):
        home.call(f"{room.id}_lighting", "set_brightness", [brightness])
    dim = {
        which: SettlingCondition(kind="lighting", holds="self.brightness <= 20", which=which)
        for which in ("all", "here", "some")
    }
    assert [dim[which].holds_in(home, "den") for which in dim] == [False, True, True]
    assert [dim[which].holds_in(home, "attic") for which in dim] == [False, False, True]
    assert not SettlingCondition(kind="stove", holds="self.burner_power == 0").holds_in(home, None), (
        "no stove, nothing to be true of"
    )


def test_situations_go_together_unless_one_undoes_the_other():
    known = load_situations()
    pairs = {
        ("smoke", "dirty_floor"): True,
        ("migraine", "door_unlocked_at_night"): True,
        ("leaving_home", "bedtime"): False,  # away or asleep
        ("fall", "stranger_at_door"): False,  # the door is open or locked
        ("smoke", "stove_left_on"): False,  # the stove is switched off once
    }
    for keys, fit in pairs.items():
        home = home_of(list(appliance_kinds()), 0, [known[key] for key in keys])
        assert can_happen_together(keys, known, home) is fit, keys


@pytest.mark.parametrize(
    ("path", "put", "says"),
    [
        (("smoke", "needs"), ["fireplace"], "no kind of appliance"),
        (("smoke", "starts"), {"stove": {"burner_power": 99}}, "outside 0..9"),
        (("smoke", "starts"), {"stove": {"flame": 1}}, "no attribute 'flame'"),
        (("smoke", "events"), [{"kind": "noticed", "what": "dragon"}], "takes as `what` a key of signs"),
        (("smoke", "events"), [{"kind": "dreamt"}], "no kind of fact"),
        (("smoke", "settled_when"), [{"kind": "stove", "holds": "self.flame"}], "no attribute 'flame'"),
        (("smoke", "settled_when"), [{"kind": "stove"}], "`kind` and `holds`, or `any`, or `told: true`"),
        (("smoke", "plan"), [{"appliance": "stove", "feature": "explode"}], "no feature 'explode'"),
        (("smoke", "plan"), [{"appliance": "stove", "feature": "set_timer"}], "needs 'minutes'"),
        (("smoke",), None, "smoke"),
        (("dragon",), {}, "dragon"),
    ],
)
def test_a_wrong_file_is_refused_with_the_place(path, put, says):
    document = read_yaml(FILE)
    data = dict(document.data)
    if len(path) == 1 and put is None:
        del data["smoke"]
    elif len(path) == 1:
        data["dragon"] = data["smoke"]
    else:
        data["smoke"] = {**data["smoke"], path[1]: put}
    with pytest.raises(InputError) as error:
        read_situations(Document(document.path, data, document.lines))
    assert says in str(error.value) and "situations.yaml" in error.value.where


def test_a_step_of_a_plan_can_be_called():
    assert SituationPlanStep(appliance="stove", feature="turn_off").args == {}
    with pytest.raises(ValueError, match="no kind of the catalogue"):
        SituationPlanStep(appliance="dragon", feature="roar")


def test_a_condition_of_an_appliance_has_a_bound_of_its_cost(monkeypatch):
    monkeypatch.setattr(cost, "MOST_STEPS", 2000)  # that of all is reached by megabytes of text
    spec = next(iter(appliance_kinds().values()))
    path = next(path for path, (_, attribute) in spec.attribute_index.items() if attribute.type in ("bool", "enum"))
    compile_predicate(spec, f"self.{path} == self.{path}")
    listed = f"[{', '.join([f'self.{path}'] * 20)}]"
    with pytest.raises(ExpressionError, match="steps"):
        compile_predicate(spec, " and ".join([f"{listed} == {listed}"] * 50))
