"""Situations: none is settled at its start, its plan settles it, and nothing less does."""

import contextlib
import itertools
import random

import pytest
from draws import some_arguments
from personal_homes import ROOMS, home_of

from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.envs.homeenv.sim.devices import cost
from homerl.envs.homeenv.sim.values.audit import Refused
from homerl.envs.homeenv.sim.values.expressions import ExpressionError
from homerl.envs.personalhome.sim.appliances import kinds, sensors
from homerl.envs.personalhome.sim.predicates import compile_predicate
from homerl.envs.personalhome.sim.reference import after, reference_calls, together
from homerl.envs.personalhome.sim.situations import (
    FILE,
    NOTIFIERS,
    Condition,
    Step,
    read_situations,
    settled,
    situations,
    verdicts,
)
from homerl.envs.personalhome.sim.vocabulary import vocabulary

ALL = list(situations().values())
EACH = pytest.mark.parametrize("situation", ALL, ids=[situation.key for situation in ALL])
HERE = ROOMS[0].id


def small_home(situation, seed=0):
    """A home with what the situation needs, a speaker and a television, in one room."""
    return home_of(list(dict.fromkeys([*situation.needs, "speaker", "tv"])), seed, [situation], ROOMS[:1])


def test_every_situation_is_described_and_urgency_falls_in_the_order_of_the_vocabulary():
    assert [situation.key for situation in ALL] == [key for keys in vocabulary().situations.values() for key in keys]
    assert len(ALL) == 37 and len({situation.urgency for situation in ALL}) == 37
    categories = [category for category, _ in itertools.groupby(ALL, lambda situation: situation.category)]
    assert categories == ["ACCIDENT_RESPONSE", "ANOMALY", "WELL_BEING", "ROUTINE"]
    assert [situation.urgency for situation in ALL] == sorted((situation.urgency for situation in ALL), reverse=True)
    assert {situation.domain for situation in ALL} == vocabulary().domains.keys()


@EACH
def test_nothing_that_counts_is_true_at_the_start(situation):
    for seed in range(5):
        for home in (small_home(situation, seed), home_of([*kinds(), *sensors()], seed, [situation])):
            assert not any(verdicts(situation, home, HERE)) and not any(verdicts(situation, home))


@EACH
def test_the_plan_settles_it_in_few_steps_and_none_can_be_left_out(situation):
    assert 1 <= len(situation.plan) <= 5
    for seed in range(3):
        home = small_home(situation, seed)
        calls = reference_calls(situation, home, HERE)
        assert settled(situation, after(home, calls), HERE)
        for left_out in range(len(calls)):
            less = [call for at, call in enumerate(calls) if at != left_out]
            assert not settled(situation, _as_far_as_it_goes(home, less), HERE), calls[left_out]


@pytest.mark.parametrize("situation", [s for s in ALL if len(s.plan) > 1], ids=lambda situation: situation.key)
def test_no_single_call_settles_what_takes_several_steps(situation):
    """Any service of the home, with many draws of legal arguments."""
    home, rng = small_home(situation), random.Random(situation.key)
    for (did, path), (service, _) in home.plan.services.items():
        for _ in range(15):
            after_it = home.fork()
            with contextlib.suppress(Refused):
                after_it.call(did, path, some_arguments(service, rng, 0))
            assert not settled(situation, after_it, HERE), path


@EACH
def test_the_plan_settles_it_among_all_kinds_in_two_rooms(situation):
    home = home_of([*kinds(), *sensors()], 1, [situation])
    for room in situation.rooms(home):
        assert settled(situation, after(home, reference_calls(situation, home, room)), room)
    assert situation.rooms(home) == tuple(room.id for room in ROOMS)


@EACH
def test_words_alone_settle_nothing(situation):
    home = home_of(
        [*situation.needs, *(kind for kind in NOTIFIERS if kind not in situation.needs)], 2, [situation], ROOMS[:1]
    )
    for kind, feature in zip(NOTIFIERS, ("notify", "visual_notification", "show_message"), strict=True):
        home.call(f"{HERE}_{kind}", feature, ["look here"])
    assert not settled(situation, home, HERE)
    assert all(home.get(f"{HERE}_{kind}", "last_notification") == "look here" for kind in NOTIFIERS)


def _as_far_as_it_goes(home, calls):
    """The home after the calls, without those that are refused."""
    for call in calls:
        try:
            home = after(home, [call])
        except Refused:
            continue
    return home


def test_a_condition_counts_the_devices_of_the_room_of_all_rooms_or_of_any():
    home = home_of(["lighting"])
    for room, brightness in zip(ROOMS, (10, 90), strict=True):
        home.call(f"{room.id}_lighting", "set_brightness", [brightness])
    dim = {
        which: Condition(kind="lighting", holds="self.brightness <= 20", which=which) for which in ("all", "here", "some")
    }
    assert [dim[which].holds_in(home, "den") for which in dim] == [False, True, True]
    assert [dim[which].holds_in(home, "attic") for which in dim] == [False, False, True]
    assert not Condition(kind="stove", holds="self.burner_power == 0").holds_in(home, None), (
        "no stove, nothing to be true of"
    )


def test_situations_go_together_unless_one_undoes_the_other():
    known = situations()
    pairs = {
        ("smoke", "dirty_floor"): True,
        ("migraine", "door_unlocked_at_night"): True,
        ("leaving_home", "bedtime"): False,  # away or asleep
        ("fall", "stranger_at_door"): False,  # the door is open or locked
        ("smoke", "stove_left_on"): False,  # the stove is switched off once
    }
    for keys, fit in pairs.items():
        home = home_of(list(kinds()), 0, [known[key] for key in keys])
        assert together(dict.fromkeys(keys, HERE), known, home) is fit, keys


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
    assert Step(appliance="stove", feature="turn_off").args == {}
    with pytest.raises(ValueError, match="no kind of the catalogue"):
        Step(appliance="dragon", feature="roar")


def test_a_condition_of_an_appliance_has_a_bound_of_its_cost(monkeypatch):
    monkeypatch.setattr(cost, "MOST_STEPS", 2000)  # that of all is reached by megabytes of text
    spec = next(iter(kinds().values()))
    path = next(path for path, (_, attribute) in spec.attribute_index.items() if attribute.type in ("bool", "enum"))
    compile_predicate(spec, f"self.{path} == self.{path}")
    listed = f"[{', '.join([f'self.{path}'] * 20)}]"
    with pytest.raises(ExpressionError, match="steps"):
        compile_predicate(spec, " and ".join([f"{listed} == {listed}"] * 50))
