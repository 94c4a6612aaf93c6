"""What a user's words are blamed for, by rule: leaks, foreign devices and numbers, the contrary of a wish."""

import re

import pytest

from homerl.envs.homeenv.tasks.author import BlueprintRecipe, intent_families, make_home_blueprint
from homerl.envs.homeenv.tasks.persona import (
    HomePersona,
    find_contradiction,
    find_leaked_word,
    numbers_in_text,
    texts_told_to_person,
)
from homerl.play.situation import Reply
from homerl.play.words.user_manner import load_manner
from homerl.worlds.registry import begin_episode


@pytest.fixture
def blueprint(task):
    return make_home_blueprint(task, "train", 3)


def test_another_device_or_value_is_a_contradiction(task):
    found = 0
    for seed in range(60):
        blueprint = make_home_blueprint(task, "train", seed)
        episode = begin_episode(blueprint)
        devices = episode.situation.home.plan.devices
        first, spared = blueprint.intents[0], [d for d in devices if d.did not in blueprint.changeable_devices]
        assert not faults(first.clarification, episode, [first])
        for device in spared:
            if device.spec.category not in {
                episode.situation.home.plan.devices_by_did[d].spec.category for d in first.devices
            }:
                assert faults(f"turn on the {device.room.name} {device.name}", episode, [first])
                found += 1
        if number := re.search(r"\b\d{2,}\b", first.clarification):
            wrong = first.clarification.replace(number[0], str(int(number[0]) + 7))
            assert faults(wrong, episode, [first]) == str(int(number[0]) + 7)
            found += 1
    assert found > 20


def faults(text, episode, intents):
    own = texts_told_to_person(episode.blueprint, [i.model_copy(update={"queries": (i.clarification,)}) for i in intents])
    return find_contradiction(text, own, episode, intents, load_manner("en"))


def test_what_the_assistant_brought_up_may_be_objected_to_but_not_agreed_with(blueprint):
    episode = begin_episode(blueprint)
    episode.add_utterance("hello", 1)
    episode.apply_reply(Reply({"role": "assistant", "content": "I have set it to 93."}))
    assert faults("yes, 93 is right", episode, episode.open_intents()) == "93"
    assert not faults("no, I did not say 93", episode, episode.open_intents())
    assert faults("no, I said 94", episode, episode.open_intents()) == "94"


def test_who_corrects_himself_may_name_what_he_takes_back(task):
    blueprint = next(
        b
        for b in (make_home_blueprint(task, "train", s) for s in range(99))
        if re.search(r"\d\d", b.intents[0].clarification)
    )
    episode, (intent, *_) = begin_episode(blueprint), blueprint.intents
    number = re.search(r"\d\d+", intent.clarification)[0]
    assert not faults(f"make it 987, no, {number}", episode, [intent]) and faults("make it 987, no, 986", episode, [intent])
    device = next(d for d in episode.situation.home.plan.devices if d.did not in intent.devices)
    mine = episode.situation.home.plan.devices_by_did[intent.devices[0]]
    assert not faults(f"the {device.room.name} {device.name} sorry the {mine.room.name} {mine.name}", episode, [intent])


def test_the_contrary_of_a_wish_is_a_contradiction(blueprint):
    wish = {
        "clarification": "turn on the lamp",
        "queries": ("turn on the lamp",),
        "devices": blueprint.intents[0].devices[:1],
    }
    intent = blueprint.intents[0].model_copy(update=wish)
    episode = begin_episode(blueprint)
    assert faults("please turn it off", episode, [intent]) and not faults("turn it on", episode, [intent])
    assert not faults("it is still off, turn it on", episode, [intent])


def test_ones_own_words_are_no_leak(blueprint):
    home = begin_episode(blueprint).situation.home
    assert find_leaked_word("play simulation radio", "play simulation radio", home, load_manner("en")) is None


@pytest.mark.parametrize(
    ("text", "language", "found"),
    [
        ("set it to 45 percent", "en", {45}),
        ("twenty-five degrees", "en", {25}),
        ("fifty please", "en", {50}),
        ("that one, the 2nd", "en", set()),
        ("at 19:30", "en", set()),
        ("1,500 kelvin", "en", {1500}),
        ("one hundred and twenty", "en", set()),
        ("调到二十五度", "zh", {25}),
        ("百分之五十", "zh", {50}),
        ("十分亮", "zh", set()),
        ("二楼的灯", "zh", set()),
        ("一百二十", "zh", set()),
    ],
)
def test_numbers_are_read_in_digits_and_words(text, language, found):
    assert numbers_in_text(text, load_manner(language)) == found


def test_no_way_of_saying_a_wish_is_charged_and_every_other_wish_is():
    recipe = BlueprintRecipe.model_validate({"home": {"devices": (6, 20)}, "intents": (2, 3)})
    charged = {True: [], False: []}
    for seed in range(40):
        episode = begin_episode(make_home_blueprint(recipe, "train", seed))
        intents = episode.blueprint.intents
        for intent in intents:
            assert not any(HomePersona(episode).fault(query, intents) for query in intent.queries)
            for other in intents:
                charged[other is intent] += [bool(faults(query, episode, [intent])) for query in other.queries]
    assert sum(charged[True]) <= 0.01 * len(charged[True]) and sum(charged[False]) >= 0.9 * len(charged[False])


LEAKS = {
    "en": (
        "I’m an AI, I have no home", "I'm just an AI", "I am a bot", "As an LLM I cannot", "I'm ChatGPT", "this is a test",
        "I am a virtual user", "as the user in this scenario, light please", "Assistant: Done.", "User: turn on the light",
        "<stop>", "my second wish is light", "I have no wishes left", "turn on device1001", "call turnOn", "state: on",
        "power: true", "set brightness=50", "according to my instruction",
    ),
    "zh": (
        "我是AI助手", "我只是个模拟用户", "第二个愿望是开灯", "用户：打开灯", "作为一个AI我没有家",
        "打开device1001", "<stop>",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("text", "language"), [(text, language) for language in LEAKS for text in LEAKS[language]])
def test_words_that_no_person_says_are_leaks(text, language, task):
    home = begin_episode(make_home_blueprint(task, "train", 3)).situation.home
    assert find_leaked_word(text.replace("1001", home.plan.devices[0].did), "", home, load_manner(language))


def test_attributes_are_known_in_any_case(task):
    for seed in range(20):
        home = begin_episode(make_home_blueprint(task, "train", seed)).situation.home
        dotted = [path for device in home.plan.devices for path in device.spec.attribute_index if path.count(".") == 1]
        if dotted:
            assert find_leaked_word(f"{dotted[0].title()} to max", "", home, load_manner("en"))
            return
    pytest.fail("no device with a component")


@pytest.mark.parametrize(
    "text", ["turn on my task light", "I have no wish to wait", "as you wish", "use the tv as a virtual fireplace",
             "at 19:30, it is half past seven: turn it on", "put my iPhone playlist on", "it's only a bit too dark",
             "I wish one of the lamps were brighter", "that's not my instruction", "as an AI engineer I work late",
             "start the simulated sunrise", "switch the lamp(s) off", "thanks =)"],
)  # fmt: skip
def test_what_people_say_is_no_leak(text, task):
    assert (
        find_leaked_word(text, "", begin_episode(make_home_blueprint(task, "train", 3)).situation.home, load_manner("en"))
        is None
    )


@pytest.mark.parametrize("text", ["我是程序员，把灯打开", "AI助手，帮我开灯", "我是AI公司的工程师，请开灯"])
def test_what_people_say_in_chinese_is_no_leak(text, task):
    assert (
        find_leaked_word(text, "", begin_episode(make_home_blueprint(task, "train", 3)).situation.home, load_manner("zh"))
        is None
    )


@pytest.mark.parametrize("language", ["en", "zh"])
def test_no_sentence_of_the_scripted_user_is_a_leak_and_most_are_on_topic(language):
    recipe = BlueprintRecipe.model_validate(
        {
            "home": {"devices": (5, 20), "language": language},
            "intents": (1, 3),
            "toolset": "smh",
            "families": dict.fromkeys(intent_families(), 1.0),
        }
    )
    topics = []
    for seed in range(15):
        episode = begin_episode(make_home_blueprint(recipe, "train", seed))
        for intent in episode.blueprint.intents:
            for text in (*intent.queries, intent.clarification):
                assert find_leaked_word(text, "", episode.situation.home, load_manner(language)) is None, text
            topics.append(HomePersona(episode).on_topic(intent.queries[0], intent))
            assert not HomePersona(episode).on_topic("Done.", intent)
    judged = [topic for topic in topics if topic is not None]
    assert sum(judged) > 0.6 * len(judged) > 0


@pytest.mark.parametrize("text", ["把1001打开", "把set_brightness设为20", "调用device(灯)"])
def test_leaks_are_found_between_chinese_characters(text, task):
    episode = begin_episode(make_home_blueprint(task, "train", 3))
    text = text.replace("1001", episode.situation.home.plan.devices[0].did)
    assert find_leaked_word(text, "", episode.situation.home, load_manner("zh"))
