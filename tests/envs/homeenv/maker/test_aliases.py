"""Aliases of made homes: the same from the same seed, apart in a home, and read and matched as Home Assistant's are."""

import pytest
from draws import few
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import InputError, read_yaml, validate_document
from homerl.envs.homeenv.maker.home_names import NAMES, Lexicon
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.assist.api_and_prompt import OWN_TOOLS, static_context
from homerl.envs.homeenv.sim.assist.entities_of_home import areas_of_plan, entities_of_plan
from homerl.envs.homeenv.sim.assist.intents import EntityConstraints, match_entities
from homerl.envs.homeenv.sim.home_file import home_from_json, home_to_json

RECIPES = st.builds(
    HomeRecipe,
    devices=st.just((4, 9)),
    aliased=st.sampled_from([0.4, 1.0]),
    catalogue=st.sampled_from([(), ("homeassistant",)]),
    lexicon=st.sampled_from(["train", "heldout"]),
    titled=st.sampled_from([0.0, 1.0]),
    coined=st.sampled_from([0.0, 0.5]),
)


@few(12, 25)
@given(st.integers(0, 10_000), RECIPES)
def test_an_alias_is_the_name_of_one_thing(seed, recipe):
    home = make_home(seed, recipe)
    rooms = [name.lower() for area in areas_of_plan(home.plan) for name in area.names]
    devices = [(name, entity) for entity in entities_of_plan(home.plan) for name in entity.names[1:]]
    called = [name.lower() for name, _ in devices]
    own = [device.name.lower() for device in home.plan.devices]
    assert len(set(rooms)) == len(rooms) and len(set(called)) == len(called)
    assert not set(called) & {*rooms, *own, *(f"{one.room.name} {one.name}".lower() for one in home.plan.devices)}
    assert not set(rooms) & set(own)
    for name, entity in devices:
        assert match_entities(home, EntityConstraints(name.upper())).entities == (entity,)


@few(12, 25)
@given(st.integers(0, 10_000), st.sampled_from(["en", "zh"]))
def test_a_document_keeps_the_aliases_and_agents_read_them(seed, language):
    home = make_home(seed, HomeRecipe(devices=(4, 9), language=language, aliased=0.7, catalogue=("homeassistant",)))
    again = home_from_json(home_to_json(home), "home")
    listed = static_context(again)
    assert listed == static_context(home)
    for entity in entities_of_plan(home.plan):
        assert entity.domain in OWN_TOOLS or f"names: {', '.join(entity.names)}" in listed.replace("'", "")
        assert entity.area is None or f"areas: {', '.join(entity.area.names)}" in listed.replace("'", "")


def test_a_share_has_aliases_and_by_default_none_has():
    plain, some, all_ = (
        [make_home(seed, HomeRecipe(devices=(6, 9), catalogue=("homeassistant",), aliased=share)) for seed in range(12)]
        for share in (0.0, 0.4, 1.0)
    )
    shares = [_share(homes) for homes in (plain, some, all_)]
    assert shares[0] == (0.0, 0.0) and all(0.25 < share < 0.5 for share in shares[1]) and min(shares[2]) > 0.85
    assert all(home.plan.origin is None for home in plain) and "aliased" not in HomeRecipe().model_dump()


def test_some_outlets_are_called_by_what_hangs_on_them():
    recipe = HomeRecipe(devices=(1, 2), aliased=1.0, catalogue=("homeassistant",), products=("ha_switch_outlet",))
    devices = [device for seed in range(12) for device in make_home(seed, recipe).plan.devices]
    assert {"outlet"} < {device.name for device in devices}


def _share(homes):
    named = [area for home in homes for area in areas_of_plan(home.plan)]
    main = [entity for home in homes for entity in entities_of_plan(home.plan) if not entity.shape.suffix]
    return tuple(sum(len(one.names) > 1 for one in things) / len(things) for things in (named, main))


def test_an_alias_of_the_other_half_is_refused(tmp_path):
    text = NAMES.find_path("en").read_text()
    (tmp_path / "names.yaml").write_text(text.replace("[family room, sitting room,", "[lounge, sitting room,"))
    with pytest.raises(InputError, match="the half train has the alias 'lounge', which is of the half heldout"):
        validate_document(Lexicon, read_yaml(tmp_path / "names.yaml"))
