"""The language: a linter of its frames, what speakers say with them, what noise may do, Chinese throughout."""

import asyncio
import random
import re
from collections import Counter
from functools import cache
from itertools import product
from pathlib import Path

import pytest
from crossed import crossed
from hypothesis import given
from hypothesis import strategies as st

from homerl.app.runs.recipe import load_recipe
from homerl.envs.core.documents import Document, InputError, read_yaml
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.diversity import blueprint_recipe, equal_family_weights, measure_diversity, mixed_recipe
from homerl.envs.homeenv.language import LANGUAGES as PLACES
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language import utterances as noise
from homerl.envs.homeenv.language.meaning import Act, SpokenCommand, Target
from homerl.envs.homeenv.language.speaker import Speaker, number_in_words
from homerl.envs.homeenv.language.utterances import draw_sentence
from homerl.envs.homeenv.maker.home_names import load_lexicon
from homerl.envs.homeenv.maker.make import HomeRecipe, make_home
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue, Device
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.tasks.actions import actions, propose_action
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.envs.homeenv.tasks.drawn_behaviours import draw_courses_of_wishes
from homerl.envs.homeenv.tasks.prompts import episode_system_prompt
from homerl.models.endpoint.endpoint_settings import Behaviours
from homerl.play.episode import EpisodeLimits
from homerl.play.loop import play
from homerl.play.trajectory import Outcome
from homerl.play.words.grammar import FEWEST, PIECES, Frame, Grammar, Voice, Writing, normalise_spaces
from homerl.play.words.numbers_and_times import find_numbers
from homerl.play.words.text_diversity import self_bleu
from homerl.worlds.registry import begin_episode
from homerl.worlds.users import ScriptedUser

LANGUAGES = ("en", "zh")
STYLES = ("clear", "colloquial")
# Keys of words, not of sentences, may have few: one thing has few names, and nothing is to be held out of them.
WORDS = ("name.", "option.", "unit.", "value.", "noun.", "kind.", "when.", "state.", "where.")
FEW = 4


@cache
def files(language: str) -> dict[str, dict]:
    return {path.stem: read_yaml(path).data for path in sorted((PLACES.find_path(language) / "grammar").glob("*.yaml"))}


def both() -> list[str]:
    """Files that stand in both languages."""
    return [name for name in files("en") if name in files("zh")]


def keys_of(name: str, language: str) -> set[str]:
    return set(files(language)[name].get("frames", {}))


def frames_of(key: str, language: str) -> list[Frame]:
    return [frame for style in STYLES for frame in home_grammar(language).frames_of(key, style)]


def slots_of(frame: Frame) -> set[str]:
    return set(re.findall(r"\{(\w+)\}", frame.text))


def required(key: str) -> set[str]:
    """The slots that a frame of a key must fill: who, and with what value unless the key says it."""
    kind, _, rest = key.partition(".")
    fixed = {
        "act._plain": {"target", "name"}, "act._enum": {"target", "name", "value"}, "act._bool": {"target", "name", "value"},
        "act._setter": {"target", "name", "value"}, "result._bool": {"value", "name"}, "request": {"act"},
        "wish": {"target", "result"}, "join": {"first", "second"}, "and": {"first", "second"}, "room": {"room"},
        "device": {"room", "device"}, "device.owner": {"room", "device"}, "device.branded": {"room", "device", "brand"},
        "part": {"device", "part"}, "noise.open": {"text"}, "noise.close": {"text"}, "noise.correct": {"wrong", "right"},
    }  # fmt: skip
    if key in fixed:
        return fixed[key]
    service, _, narrow = rest.partition(".")
    value = {"value"} if takes_value(service) and narrow not in said_of(service) else set()
    match kind:
        case "act":
            return {"target"} | value
        case "result":
            return value
        case "unit":
            return set() if narrow.lstrip("-").isdigit() else {"value"}
    return set()


@cache
def services() -> dict[str, list]:
    """The arguments of services that can be asked for, by name: of one argument at most, and that people can say."""
    found: dict[str, list] = {}
    for spec in Catalogue.load_shipped().values():
        for path, compiled in spec.service_index.items():
            arguments = compiled.service.arguments
            sayable = all(a.type in ("enum", "bool", "int", "float") for a in arguments)
            if len(arguments) <= 1 and sayable:
                found.setdefault(path.rpartition(".")[2], []).extend(arguments)
    return found


def takes_value(service: str) -> bool:
    return bool(services().get(service))


def said_of(service: str) -> set[str]:
    options = {str(option) for argument in services().get(service, ()) for option in argument.options or ()}
    return options | {"true", "false"}


# The linter


def test_the_languages_have_the_same_files_and_keys():
    assert "acts" in both()
    for name in both():
        assert keys_of(name, "en") == keys_of(name, "zh"), name


@pytest.mark.parametrize("language", LANGUAGES)
def test_frames_fill_the_slots_of_their_key_and_no_others(language):
    for key in keys_of("acts", language):
        for frame in frames_of(key, language):
            extra = {"name"} if key.startswith(("act.", "result.")) else {"value"} if key.startswith("unit.") else set()
            must, has = required(key), slots_of(frame)
            assert must <= has <= must | extra or key.startswith("act._"), (key, frame.text)
            assert key.startswith("noise") or all(has and frame.text.count(f"{{{s}}}") == 1 for s in has), (key, frame.text)


def test_other_files_fill_the_same_slots_in_both_languages():
    """Of sentences: within nouns and times each language has forms of its own (measure words, copulas, numerals)."""
    keys = [key for name in both() if name != "acts" for key in keys_of(name, "en")]
    for key in (key for key in keys if not key.startswith(("noun.", "when."))):
        here, there = (set().union(*map(slots_of, frames_of(key, one))) for one in ("en", "zh"))
        assert here == there - {"each"}, (key, here ^ there)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_key_has_frames_enough_and_none_twice(language):
    for key in keys_of("acts", language):
        given = files(language)["acts"]["frames"][key]
        groups = given.values() if isinstance(given, dict) else [given]
        assert all(len(set(group)) == len(group) for group in groups), key
        assert len({frame.text for frame in frames_of(key, language)}) >= (
            1 if key.startswith(WORDS) or PIECES.match(key) else FEW
        ), key


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_quarter_is_held_out_and_both_pools_can_speak(language):
    known, counts = home_grammar(language), Counter()
    for key, style in product(known.keys(), STYLES):
        for pool in ("train", "heldout"):
            assert known.frames_of(key, style, pool)
        frames = known.frames_of(key, style)
        if len(frames) >= FEWEST and not (key.startswith(WORDS) or PIECES.match(key)):
            counts.update(frame.pools for frame in frames)
    share = counts["heldout",] / counts.total()
    assert 0.2 <= share <= 0.34
    for key in keys_of("acts", language):
        by_text = {}
        for frame in frames_of(key, language):
            assert by_text.setdefault(frame.text, frame.pools) == frame.pools, key


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_service_attribute_component_and_option_has_its_words(language):
    known = home_grammar(language)
    for service, arguments in services().items():
        bools = arguments and all(argument.type == "bool" for argument in arguments)
        wanted = [f"act.{service}.true", f"act.{service}.false"] if bools else [f"act.{service}", f"result.{service}"]
        assert all(key in known for key in wanted), service
    for spec in Catalogue.load_shipped().values():
        for prefix, part in spec.parts_by_prefix():
            names = [a.name for a in part.attributes] + [s.name for s in part.services if not s.name.startswith("set_")]
            names += [prefix[:-1]] if prefix else []
            assert all(f"name.{name}" in known for name in names), (spec.name, names)
            for attribute in part.attributes:
                for option in attribute.options or ():
                    keys = (f"option.{option}", f"option.{attribute.name}.{option}")
                    assert not isinstance(option, str) or any(key in known for key in keys), (spec.name, option)
                assert attribute.unit is None or f"unit.{attribute.unit}" in known, attribute.unit


@pytest.mark.parametrize("language", LANGUAGES)
def test_the_options_of_a_choice_share_no_word(language):
    known = home_grammar(language)
    for spec in Catalogue.load_shipped().values():
        for attribute in (a for _, part in spec.parts_by_prefix() for a in part.attributes if a.type == "enum"):
            said = []
            for option in attribute.options:
                keys = (f"option.{attribute.name}.{option}", f"option.{option}")
                said += known.plain_texts(next(key for key in keys if key in known))
            assert len(set(said)) == len(said), (spec.name, attribute.name, said)


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_template_can_be_parsed_and_has_its_rules(language):
    home_grammar(language).check_templates()


def test_a_file_with_a_bad_frame_is_refused(tmp_path: Path):
    path = tmp_path / "x.yaml"
    for text, message in (
        ('frames: {a: ["turn (on {x}"]}', "cannot be parsed as a template"),
        ('frames: {a: ["<b> {x}"]}', "there is no rule <b>"),
        ("frames: {a: 7}", "frames.a"),
    ):
        path.write_text(text)
        with pytest.raises(InputError, match=re.escape(message)):
            Grammar("en", [read_yaml(path)])
    path.write_text('frames: {a: ["turn (on {x}", "on"]}')
    own = Grammar("en", [read_yaml(path)], ours=True)  # it refuses what it draws
    assert own.plain_texts("a") == ["turn (on {x}", "on"]
    with pytest.raises(InputError, match=re.escape(f"{path}:1")):
        own.plain_sentence("a")


# What is said


@cache
def homes(language: str) -> tuple[Home, ...]:
    recipes = [HomeRecipe(language=language, devices=(20, 40), lexicon=half) for half in ("train", "heldout")]
    return tuple(make_home(seed, recipe) for recipe in recipes for seed in range(5))


def acts_in(home: Home, rng: random.Random) -> list[Act]:
    return [action.act() for action in actions(home, rng)]


@crossed(language=LANGUAGES, wording=["clear", "colloquial"])
def test_requests_name_their_device_and_keep_to_their_language(language, wording):
    rng = random.Random(0)
    for home in homes(language):
        for act in acts_in(home, rng):
            (device,) = act.target.devices
            text = draw_sentence(SpokenCommand((act,)), home, Voice(language), wording, rng)
            assert device.name in text and device.room.name in text and device.did not in text
            assert "{" not in text and "_" not in text and "  " not in text
            chinese = re.findall(r"[\u4e00-\u9fff]", text)
            assert bool(chinese) == (language == "zh") and home_grammar(language).fit_spaces(text) == text
            if language == "zh":
                assert set(re.findall(r"[A-Za-z]+", text)) <= {"HDMI", "USB", "U", "K", "L", "W", "PM"}, text


@crossed(wording=["clear", "colloquial", "noisy"], language=LANGUAGES)
def test_names_of_another_script_are_set_as_words_of_the_sentences_own_language(language, wording):
    rng, (others,) = random.Random(0), {*LANGUAGES} - {language}
    for home in homes(others):
        for act in acts_in(home, rng):
            text = draw_sentence(SpokenCommand((act,)), home, Voice(language), wording, rng)
            beside = re.findall(r"[\u4e00-\u9fff](\s*)[a-z]|[a-z](\s*)[\u4e00-\u9fff]", text)
            assert beside and set(map("".join, beside)) == {" " if language == "en" else ""}, text
            names = {act.target.devices[0].name, act.target.devices[0].room.name}
            glued = [name for name in names if re.search(rf"[a-z]{re.escape(name)}|{re.escape(name)}[a-z]", text)]
            assert wording == "noisy" or not glued, text


def test_a_text_is_tight_as_its_language_is():
    english, chinese = home_grammar("en"), home_grammar("zh")
    mixed = " switch the  厨房 灯 on , please"
    assert english.fit_spaces(mixed) == normalise_spaces(mixed) == "switch the 厨房 灯 on, please"
    assert chinese.fit_spaces("请打开 厨房灯 。") == normalise_spaces("请打开 厨房灯 。") == "请打开厨房灯。"
    assert (
        chinese.fit_spaces("打开 Living Room 的 灯") == "打开Living Room的灯" and normalise_spaces("厨房 Lamp") == "厨房Lamp"
    )
    frame = Grammar("xx", [Document("xx.yaml", {"frames": {"device": ["打开{room}{device}"], "unit": ["{n}K"]}}, {})])
    said = [
        frame.draw_sentence("device", {"room": room, "device": "Lamp 2"}, random.Random(0), "clear", "any", 0)
        for room in ("Hall", "厅")
    ]
    assert said == ["打开Hall Lamp 2", "打开厅Lamp 2"]
    assert frame.draw_sentence("unit", {"n": "3000"}, random.Random(0), "clear", "any", 0) == "3000K"


def named_alike(home: Home) -> list[tuple[Device, Device]]:
    pairs = product(home.plan.devices, repeat=2)
    return [(a, b) for a, b in pairs if a.did < b.did and a.name == b.name]


@pytest.mark.parametrize("language", LANGUAGES)
def test_a_noun_phrase_fits_one_device_alone(language):
    """Two devices never share a phrase, whatever their names, rooms and brands."""
    for home in homes(language):
        phrases: dict[str, str] = {}
        for device in home.plan.devices:
            speaker = Speaker(home, Voice(language), "colloquial", random.Random(1))
            for _ in range(20):
                assert phrases.setdefault(speaker.say_device(device), device.did) == device.did


def test_at_temperature_zero_the_most_usual_is_said():
    (home, *_) = homes("en")
    light = next(d for d in home.plan.devices if "set_brightness" in d.spec.service_index and not d.spec.components)
    said = {
        draw_sentence(
            SpokenCommand((propose_action(home, light, "set_brightness", random.Random(1)).act(),)),
            home,
            Voice("en", 0.0),
            "clear",
            random.Random(seed),
        )
        for seed in range(20)
    }
    assert len(said) == 1 and re.fullmatch(rf"set the {light.room.name} {light.name} to \d+ percent", said.pop())


@pytest.mark.parametrize(
    ("language", "value", "words"),
    [
        ("en", 25, "twenty five"),
        ("en", 22.5, "twenty two point five"),
        ("zh", 25, "二十五"),
        ("zh", 0, "零"),
        ("en", -18, "minus eighteen"),
        ("en", -7.8, "minus seven point eight"),
        ("en", -0.4, "minus zero point four"),
        ("zh", -39.5, "负三十九点五"),
    ],
)
def test_numbers_in_words(language, value, words):
    assert number_in_words(value, language) == words


@given(st.sampled_from(LANGUAGES), st.decimals(-99999, 99999, places=2).map(float))
def test_a_number_in_words_is_read_as_it_was_meant(language, value):
    (read,) = find_numbers(number_in_words(value, language))
    assert read.value == pytest.approx(value)


@pytest.mark.parametrize(
    ("text", "value"), [("两万五", 25000), ("一万零五瓦", 10005), ("万一下雨", None), ("千万别关", None)]
)
def test_ten_thousand_is_read_in_numbers_alone(text, value):
    assert [one.value for one in find_numbers(text)] == ([value] if value else [])


@pytest.mark.parametrize("count", [2, 3, 4])
def test_both_is_said_of_two(count):
    home = next(home for home in homes("en") if len(lights_in(home)) >= count)
    meaning, rng = SpokenCommand(tuple(lights_in(home)[:count])), random.Random(0)
    said = [draw_sentence(meaning, home, Voice("en"), "clear", rng) for _ in range(60)]
    assert any("both" in text for text in said) == (count == 2) and all(text.count("both") <= 1 for text in said)


def lights_in(home: Home) -> list[Act]:
    return [Act("turn_off", Target.of_device(device)) for device in home.plan.devices if device.spec.category == "light"]


# Only slips of speech put these there: marks after a space or at the end, words said twice, a wrong article.
FLAWS = {
    "en": r"\s[,.;:?!]|[,;:]$|\b(the|a|an|to|of|in|and|or|both|when|please) \1\b|\ba (?!one\b)(?=[aeio])",
    "zh": r"\s|[，、；：]$|的的|[，、。]{2}",
}


@pytest.mark.parametrize("count", [20, pytest.param(50, marks=pytest.mark.long)])
@pytest.mark.parametrize("language", LANGUAGES)
def test_sentences_have_no_flaws_of_form(language, count):
    recipe = mixed_recipe(language, 1.0).model_copy(update={"wordings": {"clear": 1.0, "colloquial": 1.0}, "phrasings": 6})
    # Noise repeats words, and foreign sentences are of other grammars.
    spoken = {name: weight for name, weight in recipe.families.items() if name not in ("atomic/noisy", "foreign/command")}
    recipe = recipe.model_copy(update={"families": spoken})
    short = recipe.model_copy(update={"writing": Writing(short=1.0)})
    rates = Behaviours(self_correction=1.0)
    for seed in range(count):
        for one in (recipe, short):
            blueprint = draw_courses_of_wishes(make_home_blueprint(one, "train", seed), rates, one)
            for intent in blueprint.intents:
                for text in (*intent.queries, intent.clarification, *(part.text for part in intent.course)):
                    assert not re.search(FLAWS[language], text), (intent.family, intent.subcategory, text)


def test_clauses_are_imperatives():
    frames = [
        frame
        for key in home_grammar("en").keys("act.")
        for style in STYLES
        for frame in home_grammar("en").frames_of(key, style)
    ]
    assert not [frame.text for frame in frames if frame.text.startswith(("no ", "not "))]


def test_numbers_in_words_never_stand_beside_symbols():
    (home, *_) = homes("zh")
    rng = random.Random(3)
    for act in acts_in(home, rng):
        for _ in range(5):
            text = draw_sentence(SpokenCommand((act,)), home, Voice("zh"), "clear", rng)
            assert not re.search(r"[一二三四五六七八九十百]+[%℃°]", text)


def test_brands_are_said_where_they_tell_devices_apart_and_in_their_half_alone():
    for language in LANGUAGES:
        lexicon = load_lexicon(language)
        train, heldout = (set(lexicon.brands[half].values()) for half in ("train", "heldout"))
        assert train and heldout and not train & heldout
        for home in homes(language):
            half = "train" if lexicon.brand_name("lumen", home.plan.rooms[0].name) else "heldout"
            other = heldout if half == "train" else train
            speaker = Speaker(home, Voice(language), "clear", random.Random(2))
            said = " ".join(speaker.say_device(device) for device in home.plan.devices for _ in range(10))
            names = " ".join(device.name for device in home.plan.devices)
            assert not any(re.search(rf"(?<![a-z]){brand}(?![a-z])", said) for brand in other if brand not in names)


# Noise


@pytest.mark.parametrize("language", LANGUAGES)
def test_noise_never_touches_values_and_takes_back_only_what_is_not_meant(language):
    rng = random.Random(5)
    changed = Counter()
    for home in homes(language):
        for act in acts_in(home, rng):
            speaker = Speaker(home, Voice(language), "clear", rng)
            text = speaker.act(act)
            values = [piece.text for piece in speaker.pieces if piece.device is None and piece.text in text]
            for change in (noise.add_stutter, noise.add_filler, noise.garble_word):
                found = change(text, speaker)
                changed[change.__name__] += found != text
                assert all(value in found for value in values), (text, found)
            taken = noise.add_self_correction(text, speaker)
            if taken != text:
                changed["corrected"] += 1
                assert any(taken.endswith(text[i:]) for i in range(len(text))) and len(taken) > len(text)
                assert all(piece.text in taken for piece in speaker.pieces if piece.text in text)
    assert all(count > 20 for count in changed.values()) and len(changed) == 4


@pytest.mark.parametrize("language", LANGUAGES)
def test_what_is_misheard_is_no_name_and_no_number(language):
    known, lexicon = home_grammar(language).noise, load_lexicon(language)
    names = {n for group in (lexicon.rooms, lexicon.devices) for x in group.values() for n in (*x.train, *x.heldout)}
    numbers = {number_in_words(n, language) for n in range(101)} | {"to", "too", "for", "on", "off", "开", "关"}
    for word, heard in known.sounds.items():
        assert word not in numbers
        assert not ({word, *heard} & numbers) and not (set(heard) & names), word


def test_noise_is_heard_in_every_way():
    (home, *_) = homes("en")
    rng = random.Random(0)
    command = SpokenCommand(tuple(acts_in(home, rng)[:2]))
    texts = [draw_sentence(command, home, Voice(), "noisy", rng) for _ in range(200)]
    assert len(set(texts)) == 200 and not any("," in text for text in texts)
    for sign in ("no wait", "sorry", "um", "thanks"):
        assert any(sign in text for text in texts), sign


# Chinese throughout


@pytest.mark.parametrize("toolset", ["homeflow", "smh", "direct"])
@pytest.mark.parametrize("ids", ["number", "slug"])
def test_the_expert_serves_a_chinese_home(toolset, ids):
    home = {"devices": (5, 12), "language": "zh", "ids": ids}
    recipe = BlueprintRecipe.model_validate({"home": home, "toolset": toolset, "prompt": "full"})
    for seed in range(4):
        blueprint = make_home_blueprint(recipe, "train", seed)
        assert all(device["did"].isascii() for device in blueprint.home["devices"])
        limits = EpisodeLimits(turns=9, steps=30)
        played = asyncio.run(play(begin_episode(blueprint, limits), Expert(0), ScriptedUser(0)))
        assert played.outcome is Outcome.SUCCESS
        told, words = played.messages[0]["content"], " ".join(m["content"] for m in played.messages if m["role"] == "user")
        assert "房间有" in told and re.search(r"[\u4e00-\u9fff]", words) and "Done" not in str(played.messages)


def test_briefings_say_the_same_in_both_languages():
    home = make_home(3, HomeRecipe(devices=(9, 9)))
    for style, toolset in product(("brief", "full"), ("homeflow", "smh", "direct")):
        texts = [episode_system_prompt(home, style, toolset, ("22",), language) for language in LANGUAGES]
        for pattern in (r'"[a-z_]+"', r"\b(?:query|control)_\w+", r"=\d{4}\b", r"\d{4}-\d\d-\d\d", r"- 22"):
            found = [Counter(re.findall(pattern, text)) for text in texts]
            assert found[0] == found[1], (style, toolset, pattern)
    with pytest.raises(InputError, match="xx"):
        episode_system_prompt(home, language="xx")


def test_slugs_of_chinese_homes_are_unique():
    home = make_home(1, HomeRecipe(devices=(90, 90), language="zh", ids="slug"))
    dids = [device.did for device in home.plan.devices]
    assert len(set(dids)) == 90 and all(re.fullmatch(r"[a-z0-9_]+", did) for did in dids)


# Diversity


def test_a_survey_counts_what_is_said():
    recipe = mixed_recipe("en", 1.0)
    assert set(recipe.families) == set(equal_family_weights())
    found = measure_diversity(recipe, 3, 60, sample=10)
    assert found == measure_diversity(recipe, 3, 60, sample=10) and found.utterances == 180 == sum(
        f["utterances"] for f in found.by_family.values()
    )
    assert 100 < found.distinct <= 180 and 0 < found.distinct_1 < found.distinct_2 < found.distinct_3 < 1
    plain = measure_diversity(mixed_recipe("en", 0.0), 3, 60, sample=10)
    assert plain.distinct < found.distinct and plain.words < found.words
    shipped = blueprint_recipe(load_recipe("quickstart.yaml"), "quickstart.yaml")
    assert measure_diversity(shipped, 2, 10, sample=2).utterances == 20
    with pytest.raises(InputError, match="no blueprints"):
        blueprint_recipe(load_recipe("sft_8b.yaml"), "sft_8b.yaml")


def test_self_bleu_knows_sameness():
    assert self_bleu(["turn on the light now"] * 5) == pytest.approx(1.0)
    assert self_bleu(["a b c d e", "f g h i j", "k l m n o"]) < 0.1 and self_bleu(["one"]) == 0.0


def test_a_sentence_that_begins_with_a_number_alone_is_left_as_it_is():
    home, *_ = homes("zh")
    speaker = Speaker(home, Voice("zh"), "clear", random.Random(0))
    assert noise.add_stutter("5度", speaker) == "5度"
