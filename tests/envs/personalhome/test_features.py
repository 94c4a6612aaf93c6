"""Features: one for each method, wanted for known reasons, ranked by what a household needs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.envs.personalhome.sim.appliance_catalogue import (
    FEATURES_FILE,
    appliance_kinds,
    feature_need_keys,
    load_features,
    rank_features,
    read_features,
)
from homerl.envs.personalhome.sim.situations import load_situations

KEYS = st.sampled_from(sorted(feature_need_keys()))


def test_every_method_has_a_feature_with_titles_of_its_own():
    methods = [f"{kind}.{service.name}" for kind, spec in appliance_kinds().items() for service in spec.services]
    assert list(load_features()) == methods
    for language in ("en", "zh"):
        titles = [getattr(feature.title, language) for feature in load_features().values()]
        assert len(set(titles)) == len(titles) and all(titles)
    assert all(feature.name == key for key, feature in load_features().items())


def test_each_situation_wants_a_feature_of_each_appliance_that_it_needs_and_of_its_plan():
    for situation in load_situations().values():
        wanted = {feature.kind for feature in load_features().values() if situation.key in feature.wanted_when}
        planned = {step.appliance for step in situation.plan} - {"speaker", "tv"}
        assert planned <= wanted, situation.key


@given(st.dictionaries(KEYS, st.floats(0, 10), max_size=6), KEYS, st.floats(1, 10))
def test_a_need_raises_the_features_that_are_wanted_for_it_and_no_others(needs, key, weight):
    before = {feature.name: score for feature, score in rank_features(needs)}
    after = {feature.name: score for feature, score in rank_features({**needs, key: needs.get(key, 0) + weight})}
    raised = {name for name in before if after[name] > before[name]}
    assert raised == {name for name, feature in load_features().items() if key in feature.wanted_when}
    assert all(after[name] == before[name] for name in before.keys() - raised)


def test_the_ranking_holds_every_feature_once_and_falls():
    ranked = rank_features({"smoke": 8, "forgetful": 4})
    assert sorted(feature.name for feature, _ in ranked) == sorted(load_features())
    scores = [score for _, score in ranked]
    assert scores == sorted(scores, reverse=True)
    assert [feature.name for feature, score in ranked if score == 12] == ["speaker.notify", "stove.turn_off"]
    assert [feature.name for feature, _ in rank_features({})] == list(load_features())


@pytest.mark.parametrize(
    ("key", "put", "says"),
    [
        ("wanted_when", ["dragons"], "'dragons' is no key"),
        ("wanted_when", ["smoke", "smoke"], "given twice"),
        ("wanted_when", [], "wanted_when"),
        ("attention", "smell", "smell"),
        ("title", {"en": "Off"}, "zh"),
    ],
)
def test_a_wrong_feature_is_refused_with_its_line(key, put, says):
    document = read_yaml(FEATURES_FILE)
    data = {**document.data, "stove.turn_off": {**document.data["stove.turn_off"], key: put}}
    with pytest.raises(InputError) as error:
        read_features(Document(document.path, data, document.lines))
    assert says in str(error.value) and "features.yaml:" in error.value.where


def test_a_method_without_a_feature_and_a_feature_without_a_method_are_refused():
    document = read_yaml(FEATURES_FILE)
    less = {key: value for key, value in document.data.items() if key != "stove.turn_off"}
    for data in (less, {**document.data, "stove.explode": document.data["stove.turn_off"]}):
        with pytest.raises(InputError, match=r"stove\.(turn_off' is not described|explode' is no method)"):
            read_features(Document(document.path, data, document.lines))
