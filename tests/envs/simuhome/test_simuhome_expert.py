"""The expert of SimuHome meets every episode that can be met, in both modes, and its answers are taken by the rules."""

from __future__ import annotations

import asyncio
import random

import pytest
from crossed import crossed
from hypothesis import given, settings
from hypothesis import strategies as st

from homerl.envs.simuhome.sim import home_loading as load
from homerl.envs.simuhome.sim.device_catalogue import device_types
from homerl.envs.simuhome.sim.env import SimuHome
from homerl.envs.simuhome.sim.episode_file import EpisodeFile, read_episode
from homerl.envs.simuhome.tasks.answer_checks import expected_answers, expert_reply, goals_answered, states_value
from homerl.envs.simuhome.tasks.blueprint import GROUPS, blueprint_from_episode
from homerl.envs.simuhome.tasks.episode_generator import generate_episode
from homerl.envs.simuhome.tasks.expert import SimuHomeExpert
from homerl.envs.simuhome.tasks.sentences import reasons_in, simuhome_grammar
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.trajectory import Outcome
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser
from tests.envs.simuhome.conftest import some_samples

BASE_TIME = "2025-08-23 10:00:00"
ON = {"1.OnOff.OnOff": True}
CLEANING = {
    "1.RVCRunMode.CurrentMode": 2,
    "1.RVCOperationalState.OperationalState": 1,
    "1.RVCOperationalState.CountdownTime": 900,
    "1.RVCOperationalState.CurrentPhase": 0,
    "1.RVCOperationalState.PhaseList": ["Cleaning", "SeekingCharger", "Docked"],
}
CHANNELS = [
    {
        "MajorNumber": major,
        "MinorNumber": minor,
        "Name": f"C{major}{minor}",
        "CallSign": f"C{major}{minor}",
        "AffiliateCallSign": "",
        "Identifier": f"c{major}{minor}",
        "Type": 2,
    }
    for major in (4, 5)
    for minor in (0, 1, 2)
]
each_mode = pytest.mark.parametrize("strict", [True, False])


def episode(query_type, goals, *devices, temperature=2600):
    """A feasible episode in a kitchen with these devices (kind, attributes), d0, d1 and so on."""
    given = [{"device_id": f"d{n}", "device_type": kind, "attributes": more} for n, (kind, more) in enumerate(devices)]
    config = {"base_time": BASE_TIME, "rooms": {"kitchen": {"state": {"temperature": temperature}, "devices": given}}}
    parts = {"meta": {"query_type": query_type, "case": "feasible"}, "query": "Please.", "user_location": "kitchen"}
    return EpisodeFile.model_validate(parts | {"eval": {"goals": goals}, "initial_home_config": config})


def wants(device="d0", **asserts):
    """A device and what must hold of it, by cluster and attribute joined by `__`."""
    listed = [{"attribute": key.replace("__", "."), "value": value} for key, value in asserts.items()]
    listed = [one | {"attribute": f"1.{one['attribute']}"} for one in listed]
    return {"device_id": device, "room_id": "kitchen", "asserts": listed}


def due(minutes, *targets):
    return {"when": {"at_tick": int(600 * minutes), "tolerance_ticks": 10}, "targets": targets}


def outcome(file, strict, style="stepwise"):
    home = load.start_home(file.initial_home_config, strict)
    blueprint = blueprint_from_episode(file, "x", strict=strict, reply=expert_reply(file, home, "en"))
    episode = begin_episode(blueprint, EpisodeLimits(1, 20, 20))
    return asyncio.run(play(episode, SimuHomeExpert(styles={style: 1.0}), ScriptedUser()))


def heats(*wanted):
    """A heat pump, whose thermostat is on its fourth endpoint, and what must hold of it."""
    asserts = [{"attribute": f"4.Thermostat.{key}", "value": value} for key, value in wanted]
    return {"device_id": "d0", "room_id": "kitchen", "asserts": asserts}


VACUUM, MACHINE = "RVCOperationalState__OperationalState", "OperationalState__OperationalState"
PLAYS = {"MediaPlayback__CurrentState": 0}
STOPPED = {"RVCOperationalState__OperationalState": 0}
REACHABLE = {
    "play on a TV that is off": episode("qt3", [wants(**PLAYS)], ("tv", {})),
    "pause on a TV that is off": episode("qt3", [wants(MediaPlayback__CurrentState=1)], ("tv", {})),
    "play, and leave it off": episode("qt3", [wants(**PLAYS, OnOff__OnOff=False)], ("tv", {})),
    "loud on a TV that is off": episode("qt3", [wants(LevelControl__CurrentLevel=40)], ("tv", {})),
    "a level of a light that is off": episode("qt3", [wants(LevelControl__CurrentLevel=90)], ("dimmable_light", {})),
    "a TV that is off by then": episode("qt4-1", [due(2, wants(OnOff__OnOff=False)), due(4, wants(**PLAYS))], ("tv", ON)),
    "a vacuum that stops": episode("qt4-1", [due(3, wants(**STOPPED))], ("rvc", CLEANING)),
    "a paused vacuum that stops": episode(
        "qt4-1", [due(2, wants(RVCOperationalState__OperationalState=2)), due(5, wants(**STOPPED))], ("rvc", CLEANING)
    ),
    "a vacuum that starts and stops": episode(
        "qt4-1", [due(2, wants(RVCOperationalState__OperationalState=1)), due(5, wants(**STOPPED))], ("rvc", {})
    ),
    "a vacuum that seeks its charger": episode("qt3", [wants(RVCOperationalState__OperationalState=64)], ("rvc", CLEANING)),
    "how a vacuum cleans": episode("qt3", [wants(RVCCleanMode__CurrentMode=2)], ("rvc", {})),
    "a cold freezer": episode("qt3", [wants(RTCCMode__CurrentMode=16384)], ("freezer", {})),
    "cooler": episode("qt3", [wants(Thermostat__OccupiedCoolingSetpoint=2300)], ("air_conditioner", {})),
    "cooler to the hundredth": episode("qt3", [wants(Thermostat__OccupiedCoolingSetpoint=2345)], ("air_conditioner", ON)),
    "heat": episode(
        "qt3", [wants(Thermostat__OccupiedHeatingSetpoint=2300, Thermostat__SystemMode=4)], ("air_conditioner", ON)
    ),
    "cool the room": episode("qt2", [{"room_id": "kitchen", "room_state": "temperature", "direction": "decrease"}],
                             ("air_conditioner", {})),
    "both setpoints": episode("qt3", [wants(Thermostat__OccupiedCoolingSetpoint=2400,
                                            Thermostat__OccupiedHeatingSetpoint=2200)], ("air_conditioner", ON)),
    "both setpoints of an air conditioner that is off": episode(
        "qt3", [wants(Thermostat__OccupiedHeatingSetpoint=2200, Thermostat__OccupiedCoolingSetpoint=2400)],
        ("air_conditioner", {})),
    "warm the room with a heat pump that was never loaded": episode(
        "qt2", [{"room_id": "kitchen", "room_state": "temperature", "direction": "increase"}], ("heat_pump", {})),
    "how a vacuum cleans that runs": episode("qt3", [wants(RVCCleanMode__CurrentMode=2)], ("rvc", CLEANING)),
    "a vacuum that stops at once": episode("qt3", [wants(**STOPPED)], ("rvc", CLEANING)),
    "a vacuum that cleans, and shall map": episode("qt3", [wants(RVCRunMode__CurrentMode=3)], ("rvc", CLEANING)),
    "a vacuum that cleans, and shall map by then": episode(
        "qt4-1", [due(3, wants(RVCRunMode__CurrentMode=3))], ("rvc", CLEANING)),
    "a vacuum that docks": episode("qt4-1", [due(3, wants(RVCOperationalState__OperationalState=66))], ("rvc", CLEANING)),
    "a vacuum that has stopped": episode("qt4-1", [due(3, wants(**STOPPED))], ("rvc", {})),
    "a TV that does not play": episode("qt4-1", [due(3, wants(MediaPlayback__CurrentState=2))], ("tv", ON)),
    "an idle vacuum that seeks its charger": episode("qt3", [wants(**{VACUUM: 64})], ("rvc", {})),
    "an idle vacuum that docks": episode("qt4-1", [due(3, wants(**{VACUUM: 66}))], ("rvc", {})),
    "a vacuum that docks at once": episode("qt3", [wants(**{VACUUM: 66})], ("rvc", CLEANING)),
    "an idle vacuum that docks at once": episode("qt3", [wants(**{VACUUM: 66})], ("rvc", {})),
    "a vacuum that cleans, and how": episode(
        "qt3", [wants(RVCRunMode__CurrentMode=2, RVCCleanMode__CurrentMode=2)], ("rvc", {})),
    "a vacuum that runs, and how": episode("qt3", [wants(**{VACUUM: 1}, RVCCleanMode__CurrentMode=2)], ("rvc", {})),
    "a vacuum that pauses on its map": episode("qt3", [wants(**{VACUUM: 2}, RVCRunMode__CurrentMode=3)], ("rvc", {})),
    "a vacuum that starts, stops and starts": episode(
        "qt4-1", [due(2, wants(**{VACUUM: 1})), due(3, wants(**STOPPED)), due(5, wants(**{VACUUM: 1}))], ("rvc", {})),
    "a vacuum that stops and starts": episode(
        "qt4-1", [due(3, wants(**STOPPED)), due(5, wants(**{VACUUM: 1}))], ("rvc", CLEANING)),
    "a dishwasher that runs, and how": episode(
        "qt3", [wants(**{MACHINE: 1}, DishwasherMode__CurrentMode=2)], ("dishwasher", ON)),
    "a dishwasher that runs by then, and how": episode(
        "qt4-1", [due(3, wants(**{MACHINE: 1}, DishwasherMode__CurrentMode=2))], ("dishwasher", ON)),
    "a washer that runs, and spins": episode(
        "qt3", [wants(**{MACHINE: 1}, LaundryWasherControls__SpinSpeedCurrent=2)], ("laundry_washer", ON)),
    "a washer that runs, and rinses": episode(
        "qt3", [wants(**{MACHINE: 1}, LaundryWasherControls__NumberOfRinses=2)], ("laundry_washer", ON)),
    "a washer that pauses, and spins": episode(
        "qt3", [wants(**{MACHINE: 2}, LaundryWasherControls__SpinSpeedCurrent=2)], ("laundry_washer", ON)),
    "warmer to the hundredth": episode("qt3", [wants(Thermostat__OccupiedHeatingSetpoint=2255)], ("air_conditioner", ON)),
    "a heat pump that heats": episode(
        "qt3", [heats(("SystemMode", 4), ("OccupiedHeatingSetpoint", 2400))], ("heat_pump", {})),
    "both setpoints of a heat pump": episode(
        "qt3", [heats(("OccupiedCoolingSetpoint", 1800), ("OccupiedHeatingSetpoint", 1200))], ("heat_pump", {})),
    "a fan's speed and mode": episode("qt3", [wants(FanControl__PercentSetting=50, FanControl__FanMode=2)], ("fan", ON)),
    "how fast a fan turns": episode("qt3", [wants(FanControl__PercentCurrent=50)], ("fan", ON)),
    "a dryer that is off, and how dry": episode(
        "qt3", [wants(LaundryDryerControls__SelectedDrynessLevel=2, OnOff__OnOff=False)], ("laundry_dryer", ON)),
    "a light that is off, and its level": episode(
        "qt3", [wants(LevelControl__CurrentLevel=40, OnOff__OnOff=False)], ("dimmable_light", ON)),
    "where a blind is": episode(
        "qt3", [wants(WindowCovering__CurrentPositionLiftPercent100ths=5000)], ("window_covering_controller", {})),
    "a light that is on for three seconds": episode(
        "qt4-1", [due(2, wants(OnOff__OnOff=True)), due(2.05, wants(OnOff__OnOff=False))], ("on_off_light", {})),
    "nothing of a fan": episode("qt3", [wants()], ("fan", ON)),
    "nothing of a fan by then": episode("qt4-1", [due(2, wants())], ("fan", ON)),
    "two goals of a dishwasher": episode(
        "qt3", [wants(**{MACHINE: 1}), wants(DishwasherMode__CurrentMode=2)], ("dishwasher", ON)),
    "a TV that plays": episode("qt4-1", [due(3, wants(**PLAYS))], ("tv", ON | {"1.MediaPlayback.CurrentState": 0})),
}  # fmt: skip


@crossed(name=list(REACHABLE), style=["stepwise", "snippet"], strict=[True, False])
def test_what_can_be_met_is_met(name, strict, style):
    trajectory = outcome(REACHABLE[name], strict, style)
    assert trajectory.outcome is Outcome.SUCCESS, [step.observations for step in trajectory.steps]
    assert not any(step.facts.blocked for step in trajectory.steps)


# What endpoints are, what time changes, what a mode offers and sets in a washer, a blind on its way.
NOT_SOUGHT = (
    "Descriptor", "Identify", "Time", "Phase", "LocalTemperature", "MeasuredValue", "CurrentFrequency", "OperationalStatus",
    "OperationalError", "SpinSpeeds", "Rinses", "CurrentPositionLift", "NumberOfActuations",
)  # fmt: skip
VALUES = (0, 1, 2, 3, 4, 5, 50, 2300, True)


@settings(print_blob=True)
@given(seed=st.integers(0, 2**32 - 1), strict=st.booleans(), query_type=st.sampled_from(["qt3", "qt4-1"]))
def test_what_came_of_any_life_can_be_met(seed, strict, query_type):
    """A device takes random calls. What they changed can therefore be reached, and the expert reaches it."""
    rng = random.Random(seed)
    kind = rng.choice(sorted(device_types()))
    given = dict(ON) if "1.OnOff.OnOff" in device_types()[kind].initial and rng.random() < 0.5 else {}
    world = SimuHome(episode("qt3", [], (kind, given)), strict)
    before = states(world)
    for _ in range(rng.choice((2, 4, 8))):
        world.step(any_call(rng, kind))
    world.wait_ticks(200 if query_type == "qt4-1" else 5)
    after = states(world)
    changed = [key for key in after if after[key] != before[key] and not any(part in key for part in NOT_SOUGHT)]
    picked = rng.sample(changed, min(rng.choice((1, 2, 3)), len(changed)))
    if not picked or {"1.WindowCovering.CurrentPositionLiftPercent100ths", "1.LaundryWasherControls.NumberOfRinses"} & {
        *picked
    }:
        return
    target = {"device_id": "d0", "room_id": "kitchen", "asserts": [{"attribute": k, "value": after[k]} for k in picked]}
    goal = due(5, target) if query_type == "qt4-1" else target
    trajectory = outcome(episode(query_type, [goal], (kind, given)), strict)
    assert trajectory.outcome is Outcome.SUCCESS and not any(step.facts.blocked for step in trajectory.steps), target


def states(world):
    home = world.state.home
    return dict(home.shown_attributes(home.find_device("d0")))


def any_call(rng, kind):
    """A command or a write with arguments that may or may not be taken."""
    endpoint, cluster = rng.choice(device_types()[kind].cluster_places)
    place = {"device_id": "d0", "endpoint_id": endpoint, "cluster_id": cluster.name}
    if cluster.commands and rng.random() < 0.75:
        command, names = rng.choice(list(cluster.commands.items()))
        args = {name: rng.choice(VALUES[:-1]) for name in names if rng.random() < 0.9}
        return {"name": "execute_command", **place, "command_id": command, "args": args}
    attribute = rng.choice(list(cluster.attributes))
    return {"name": "write_attribute", **place, "attribute_id": attribute, "value": rng.choice(VALUES)}


@each_mode
@pytest.mark.parametrize("tenths", range(-20, 21))
def test_cooling_is_never_refused_whatever_the_air_and_the_setpoints_are(tenths, strict):
    """Setpoints move by tenths of a degree, so the one that lands off its goal must find the other one out of its way."""
    setpoints = {"1.Thermostat.OccupiedHeatingSetpoint": 3000, "1.Thermostat.OccupiedCoolingSetpoint": 2800}
    goal = {"room_id": "kitchen", "room_state": "temperature", "direction": "decrease"}
    file = episode("qt2", [goal], ("air_conditioner", setpoints), temperature=2405 + tenths)
    trajectory = outcome(file, strict)
    assert trajectory.outcome is Outcome.SUCCESS and not any(step.facts.blocked for step in trajectory.steps)


def test_a_minor_channel_number_is_no_major_one():
    """In strict mode no assert on a part of a structure is ever true, so nobody can meet it."""
    number = {"Channel__CurrentChannel__MajorNumber": 5, "Channel__CurrentChannel__MinorNumber": 2}
    for order in (number, dict(reversed(number.items()))):
        tv = ON | {"1.Channel.ChannelList": CHANNELS, "1.Channel.CurrentChannel": CHANNELS[0]}
        file = episode("qt3", [wants(**order)], ("tv", tv))
        assert outcome(file, strict=False).outcome is Outcome.SUCCESS
        assert outcome(file, strict=True).outcome is Outcome.AGENT_FAILURE


@each_mode
@some_samples
def test_every_released_sample_is_met(path, strict):
    assert outcome(read_episode(path), strict).outcome is Outcome.SUCCESS


@pytest.mark.parametrize("group", GROUPS)
def test_generated_episodes_are_met_in_mended_mode(group):
    for number in (2, 4):
        trajectory = outcome(generate_episode(*group.split("/"), number), strict=False)
        assert trajectory.outcome is Outcome.SUCCESS and not any(step.facts.blocked for step in trajectory.steps)


@crossed(kind=list(device_types()), strict=[True, False])
def test_the_answer_to_every_question_about_an_attribute_is_right(kind, strict):
    file = episode("qt1", [], (kind, {}))
    home = load.start_home(file.initial_home_config, strict)
    place = {"variant": "device_attribute", "device_id": "d0", "room_id": "kitchen", "device_type": kind}
    for language in ("en", "zh"):
        for attribute in home.shown_attributes(home.plan.devices["d0"]):
            asked = episode("qt1", [place | {"attribute": attribute}], (kind, {}))
            (goal,) = asked.eval.goals
            reply = expert_reply(asked, home, language)
            assert states_value(goal, home, reply), reply


def test_a_vendor_who_is_called_as_the_device_is_no_answer_by_the_device_s_name_alone():
    place = {"variant": "device_attribute", "device_id": "d0", "room_id": "kitchen", "device_type": "heat_pump"}
    file = episode("qt1", [place | {"attribute": "0.BasicInformation.VendorName"}], ("heat_pump", {}))
    home, (goal,) = load.start_home(file.initial_home_config, True), file.eval.goals
    assert states_value(goal, home, "Its vendor is Heat Pump.")
    assert not states_value(goal, home, "I do not know the vendor of the heat pump in the kitchen.")
    assert not states_value(goal, home, "The vendor name of heat pump d0 in the kitchen is Acme.")


LISTS = [
    ("laundry_washer", "1.OperationalState.PhaseList"),
    ("laundry_washer", "1.LaundryWasherControls.SpinSpeeds"),
    ("laundry_washer", "1.LaundryWasherControls.SupportedRinses"),
    ("dishwasher", "1.DishwasherMode.SupportedModes"),
    ("rvc", "1.RVCRunMode.SupportedModes"),
    ("tv", "1.Channel.ChannelList"),
    ("tv", "1.Channel.CurrentChannel"),
    ("laundry_dryer", "1.LaundryDryerControls.SupportedDrynessLevels"),
]


@each_mode
@pytest.mark.parametrize(("kind", "attribute"), LISTS)
@pytest.mark.parametrize("language", ["en", "zh"])
def test_a_list_is_told_by_the_names_of_its_items(kind, attribute, language, strict):
    goal = {"variant": "device_attribute", "device_id": "d0", "room_id": "kitchen", "device_type": kind}
    file = episode(
        "qt1", [goal | {"attribute": attribute}], (kind, ON if "1.OnOff.OnOff" in device_types()[kind].initial else {})
    )
    home, (goal,) = load.start_home(file.initial_home_config, strict), file.eval.goals
    reply = expert_reply(file, home, language)
    assert states_value(goal, home, reply), reply
    *_, names = expected_answers(goal, home)
    if len(names.accepted) > 1:
        assert not states_value(goal, home, reply.replace(names.accepted[-1][0], "").replace("  ", " "))
    if names.distractors:
        assert not states_value(goal, home, f"{reply[:-1]} and {names.distractors[0]}.")


@pytest.mark.parametrize("kind", sorted(device_types()))
def test_what_is_not_there_is_said_in_every_language(kind):
    for language, sentence in (("en", "There is no {} in the kitchen."), ("zh", "厨房没有{}1。")):
        for name in simuhome_grammar(language).plain_texts(f"kind.{kind}"):
            assert reasons_in(sentence.format(name)) == {"absent"}, name


@each_mode
def test_an_answer_may_end_in_a_number_before_the_next(strict):
    """Of two devices of one kind, each with a number in its name: 228。 ends a sentence, and 46.9 does not."""
    given = [(kind, {"1.LevelControl.CurrentLevel": level, **ON}) for kind, level in (("dimmable_light", 228), ("tv", 46))]
    goals = [
        {"device_id": f"d{n}", "room_id": "kitchen", "device_type": kind, "attribute": "1.LevelControl.CurrentLevel"}
        for n, (kind, _) in enumerate(given)
    ]
    file = episode("qt1", goals, *given)
    home = load.start_home(file.initial_home_config, strict)
    for language, full, marks in (("en", ".", "!?;."), ("zh", "。", "！？；。")):
        said = expert_reply(file, home, language)
        assert said.count(full) == 2
        for mark in marks:
            assert goals_answered(file, home, home, said.replace(full, mark)) == (True, True), mark
