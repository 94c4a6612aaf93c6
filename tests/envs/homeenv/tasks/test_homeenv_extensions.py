"""What is added to HomeEnv without an edit elsewhere: a toolset and a family, each one file in a folder of one's own; a
language, which is one folder, for SimuHome too. The family and the copies of a language are those of docs/language.md."""

import itertools
import json
import re
import subprocess
from pathlib import Path

import forked
import pytest
import yaml
from forked import homerl

from homerl.envs.homeenv.language import home_grammar, list_home_languages, missing_language_files
from homerl.envs.homeenv.maker.home_names import load_lexicon
from homerl.envs.homeenv.sim.toolsets import TOOLSETS
from homerl.envs.homeenv.tasks.author import load_people_words
from homerl.envs.homeenv.tasks.blueprint import Blueprint
from homerl.envs.homeenv.tasks.prompts import agent_prompts, toolset_instruction
from homerl.play.trajectory import Outcome
from homerl.play.words.user_manner import load_manner
from homerl.worlds.registry import world_of
from tests.envs.homeenv.tasks.intents import idle_plays

ROOT = Path(__file__).parents[4]
SWITCH = '''
"""One tool that switches a device on or off."""

from homerl.envs.homeenv.sim.toolset import RunResult, StructuredWriter, Tool, Toolset
from homerl.envs.core.messages import tool_call


def switch(home, arguments, limits):
    home.call(arguments["did"], "turn_on" if arguments["on"] else "turn_off")
    return RunResult("")


class SwitchWriter(StructuredWriter):
    def call(self, call):
        return tool_call("switch", {"did": call.did, "on": call.service == "turn_on"})


TOOLS = (Tool("switch", "Switch a device.", {"did": "a device id", "on": {"type": "boolean"}}, ("did", "on"), switch),)
TOOLSET = Toolset(TOOLS, {"en": "You switch devices with `switch`."}, SwitchWriter)
'''
PAGE = (ROOT / "docs/language.md").read_text(encoding="utf-8")
LEAVING = re.findall(r"```python\n(.*?)```", PAGE, re.S)[0]
LIGHTS = {"devices": [4, 6], "products": ["100005"]}  # they can be switched on and off, and nothing else


def python(text: str, *arguments: object, code: int = 0, often: bool = False, **environment: str) -> str:
    """What Python says of this text in a process of its own."""
    done = forked.python(text, *arguments, often=often, **environment)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr


def synthesised(tmp_path: Path, recipe: dict, **environment: str) -> list[dict]:
    """The rows of a small synthesis, all of which replay."""
    out, file = tmp_path / "out", tmp_path / "recipe.yaml"
    synth = {"blueprints": 6, "recipe": recipe, "expert": {"mistakes": 0.3, "styles": {"stepwise": 1, "query_first": 1}}}
    file.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "out": str(out), "processes": 0, "synth": synth}))
    done = homerl("run", file, often=True, **environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "all as recorded" in homerl("reverify", out / "trajectories.jsonl", often=True, **environment).stdout
    return [json.loads(line) for line in (out / "trajectories.jsonl").read_text().splitlines()]


# A toolset


@pytest.fixture(scope="module")
def switch(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("toolsets")
    (folder / "switch.py").write_text(SWITCH)
    return {"HOMERL_TOOLSETS": str(folder)}


def test_a_toolset_is_one_file(tmp_path, switch):
    recipe = {"home": LIGHTS, "families": {"atomic": 1}, "toolset": "switch", "prompt": "full"}
    rows = synthesised(tmp_path, recipe, **switch)
    assert len(rows) >= 6
    for row in rows:
        messages = json.loads(row["messages"]) if isinstance(row["messages"], str) else row["messages"]
        calls = [call["function"]["name"] for message in messages for call in message.get("tool_calls") or ()]
        assert calls and set(calls) == {"switch"} and "with `switch`." in messages[0]["content"]


@pytest.mark.long
def test_its_model_card_shows_its_tools_and_its_instruction(switch):
    shown = "from homerl.worlds.registry import world_of; print(world_of({}).card({'toolset': 'switch', 'prompt': 'full'}))"
    card = python(shown, often=True, **switch)
    assert "'name': 'switch'" in card and "with `switch`." in card and "pyexec" not in card


@pytest.mark.long
def test_it_is_served(tmp_path, switch):
    names = (
        "import asyncio; from homerl.envs.homeenv.sim.env import HomeEnv;"
        "from homerl.envs.homeenv.maker.make import HomeSampler;"
        "from homerl.envs.homeenv.mcp_server import HomeServer;"
        "served = HomeServer(HomeEnv(HomeSampler.sample_test(), toolset='switch'));"
        "print([tool.name for tool in asyncio.run(served._list_tools(None, None)).tools])"
    )
    assert "['switch']" in python(names, often=True, **switch)
    said = homerl("serve-env", "--mcp", "--toolset", "swich", often=True, **switch)
    assert said.returncode == 2 and "did you mean switch?" in said.stderr


@pytest.mark.long
def test_what_a_toolset_lacks_is_refused_by_name(tmp_path, switch):
    def refusal(**recipe: object) -> str:
        file = tmp_path / "r.yaml"
        file.write_text(yaml.safe_dump({"homerl": 1, "run": "synth", "synth": {"recipe": recipe}}))
        done = homerl("check", file, often=True, **switch)
        assert done.returncode == 2, done.stdout
        return " ".join(done.stderr.split())

    assert "did you mean switch?" in refusal(toolset="swich")
    assert "'switch' has no automations; set `toolset: smh` or `direct`" in refusal(
        toolset="switch", families={"automation": 1}
    )
    told = "from homerl.envs.homeenv.tasks.prompts import toolset_instruction; toolset_instruction('switch', 'zh')"
    assert "the toolset 'switch' has no instruction in 'zh'" in python(told, code=1, often=True, **switch)


def test_the_papers_toolsets_come_first(tmp_path):
    for name in ("switch", "a_first"):
        (tmp_path / f"{name}.py").write_text(SWITCH)
    found = python("from homerl.envs.homeenv.sim.toolsets import TOOLSETS; print(*TOOLSETS)", HOMERL_TOOLSETS=str(tmp_path))
    assert found.split() == ["homeflow", "smh", "direct", "assist", "a_first", "switch"]


# A family


@pytest.mark.parametrize(
    ("language", "opening"), [("en", "i am going out"), pytest.param("zh", "我要出门了", marks=pytest.mark.long)]
)
def test_a_family_is_one_file(tmp_path, language, opening):
    (tmp_path / "intents").mkdir()
    (tmp_path / "intents/leaving.py").write_text(LEAVING)
    home = {"devices": [4, 9], "language": language}
    recipe = {"home": home, "families": {"leaving/for_long": 1}, "wordings": {"clear": 1}}
    rows = synthesised(tmp_path, recipe, HOMERL_INTENTS=str(tmp_path / "intents"))
    blueprints = [Blueprint.model_validate_json(row["blueprint"]) for row in rows]
    intents = [intent for blueprint in blueprints for intent in blueprint.intents]
    assert len({blueprint.id for blueprint in blueprints}) == 6
    assert {(intent.family, intent.subcategory) for intent in intents} == {("leaving", "for_long")}
    assert all(opening in query for intent in intents for query in intent.queries)
    assert all(idle_plays(blueprint) is not Outcome.SUCCESS for blueprint in blueprints)


MADE = """
import sys
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint

recipe = BlueprintRecipe.model_validate_json(sys.argv[1])
for seed in range(6):
    print(make_home_blueprint(recipe, "train", seed).model_dump_json())
"""


@pytest.mark.long
def test_a_draw_more_in_a_family_moves_nothing_after_it(tmp_path):
    """A family has a stream of its own: what it draws beyond its wish changes no sentence and no later wish."""
    drawing = LEAVING.replace(
        "            return draft_of_actions(", "            rng.random()\n            return draft_of_actions("
    )
    assert drawing != LEAVING
    recipe = {"home": {"devices": [6, 9]}, "families": {"leaving": 1, "atomic": 1}, "intents": [2, 2]}
    made = []
    for name, family in (("as_it_is", LEAVING), ("drawing", drawing)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "leaving.py").write_text(family)
        made.append(python(MADE, json.dumps(recipe), HOMERL_INTENTS=str(tmp_path / name)))
    assert made[0] == made[1] and made[0].count('"family":"leaving"') > 2


# A language

NUMBERS = itertools.count()
COPIES = re.findall(r"```\n(mkdir -p languages/de\n.*?)```", PAGE, re.S)[0]
HOME = {"language": "de", "devices": [6, 9]}
PLAYED = """
import asyncio
from homerl.play.loop import play
from homerl.worlds.users import ScriptedUser
from homerl.envs.homeenv.agents.expert import Expert
from homerl.envs.homeenv.tasks.author import BlueprintRecipe, make_home_blueprint
from homerl.worlds.registry import begin_episode, world_of

for toolset in ("homeflow", "smh", "direct"):
    parts = {"home": {"language": "de", "devices": [6, 9]}, "toolset": toolset, "prompt": "full"}
    recipe = BlueprintRecipe.model_validate(parts | {"families": {"atomic": 1, "query": 1, "multi_turn": 1}})
    for seed in range(2):
        played = asyncio.run(play(begin_episode(make_home_blueprint(recipe, "train", seed)), Expert(0), ScriptedUser(0)))
        print(toolset, played.outcome, played.messages[0]["content"][:18])
    print(world_of({}).card(parts).utterance)
print(world_of({"world": "simuhome"}).card({"language": "de"}).utterance)
"""


def asked(world: str, language: str) -> object:
    """A recipe of homes in a language."""
    said = {"home": {"language": language}} if world == "homeenv" else {"world": world, "language": language}
    return world_of({"world": world}).recipe.model_validate(said)


def refusal(world: str, language: str) -> str:
    with pytest.raises(ValueError) as refused:
        asked(world, language)
    return str(refused.value)


def edited(path: Path, **changes: object) -> None:
    """Merge mappings into the mappings of a YAML file."""
    data = yaml.safe_load(path.read_text(encoding="utf-8"))
    for key, value in changes.items():
        data[key] = data.get(key, {}) | value if isinstance(value, dict) else value
    path.write_text(yaml.safe_dump(data))


@pytest.fixture
def german(tmp_path) -> Path:
    """A folder with German, which is English but for its instructions, its examples and one reply."""
    for package in ("homerl", "envs"):
        (tmp_path / package).symlink_to(ROOT / package)
    subprocess.run(["bash", "-ec", COPIES], cwd=tmp_path, check=True)
    folder = tmp_path / "languages/de"
    told = dict.fromkeys(("homeflow", "smh", "direct"), "Du führst ein Haus.")
    edited(folder / "homeenv/prompts.yaml", toolsets=told, example={"says": "Mach das Licht in der Küche an."})
    absent = {"reply.absent": ["Gibt es nicht: {kind} {number}, {room}."]}
    edited(folder / "simuhome.yaml", example="Bitte Licht.", frames=absent, signs={"absent": ["gibt es nicht"]})
    return folder


@pytest.fixture
def partial(german, monkeypatch) -> Path:
    """The same folder, with a code that this process has not read yet. A test takes something away from it."""
    monkeypatch.setenv("HOMERL_LANGUAGES", str(german.parent))
    return german.rename(german.with_name(f"de_{next(NUMBERS)}"))


def added(german: Path) -> dict[str, str]:
    return {"HOMERL_LANGUAGES": str(german.parent)}


@pytest.mark.long
def test_a_language_is_one_folder(german):
    lines = python(PLAYED, **added(german)).splitlines()
    for toolset in ("homeflow", "smh", "direct"):
        assert lines.count(f"{toolset} success Du führst ein Haus") == 2, lines
    assert lines.count("Mach das Licht in der Küche an.") == 3 and lines[-1] == "Bitte Licht."


@pytest.mark.long
@pytest.mark.parametrize(
    "recipe",
    [
        {"home": HOME},
        {"world": "simuhome", "language": "de", "types": {"qt1/infeasible": 1, "qt4-1": 1}},
    ],
)
def test_blueprints_are_synthesised_in_it(tmp_path, german, recipe):
    rows = synthesised(tmp_path, recipe, **added(german))
    assert {json.loads(row["blueprint"])["language"] for row in rows} == {"de"} and len(rows) >= 6
    assert ("world" in recipe) == any("Gibt es nicht: " in str(row["messages"]) for row in rows)


@pytest.mark.parametrize("lacking", ["names.yaml", "manner.yaml", "homeenv/prompts.yaml", "homeenv/people.yaml", "homeenv"])
def test_a_part_that_a_language_lacks_is_refused_by_its_path(partial, lacking):
    (partial / lacking).rename(partial.parents[1] / "aside")
    said = refusal("homeenv", partial.name)
    assert f"the language '{partial.name}' has no" in said and f"{partial}/{lacking}" in said and "translate " in said


def test_a_world_that_a_language_lacks_is_refused_there_alone(partial):
    (partial / "simuhome.yaml").unlink()
    said = refusal("simuhome", partial.name)
    assert f"{partial}/simuhome.yaml: the language '{partial.name}' has no simuhome.yaml" in said
    assert f"translate {ROOT}/homerl/envs/simuhome/tasks/language/en.yaml" in said
    assert asked("homeenv", partial.name)


def test_simuhome_asks_for_the_manner_of_its_users_too(partial):
    (partial / "manner.yaml").unlink()
    said = refusal("simuhome", partial.name)
    assert f"{partial}/manner.yaml: the language '{partial.name}' has no manner.yaml" in said


def changed_simuhome(folder: Path, **changes: object) -> str:
    """Change this file of a language. Returns a new code, by which it is read anew."""
    file = yaml.safe_load((folder / "simuhome.yaml").read_text()) | changes
    (folder / "simuhome.yaml").write_text(yaml.safe_dump({key: value for key, value in file.items() if value is not None}))
    return folder.rename(folder.with_name(f"de_{next(NUMBERS)}")).name


def test_signs_may_have_flags_of_their_own(german):
    file = yaml.safe_load((german / "simuhome.yaml").read_text())
    file["signs"]["absent"] = ["wo ist das", "(?x) gibt \\s es \\s nicht"]
    (german / "simuhome.yaml").write_text(yaml.safe_dump(file))
    code = "from homerl.envs.simuhome.tasks.sentences import shows_sign; print(*(shows_sign('absent', text) for text in {}))"
    texts = ["Das gibt es nicht.", "There is no lamp.", "gibtesnicht"]
    assert python(code.format(texts), **added(german)).split() == ["True", "True", "False"]


def test_what_is_missing_in_a_file_is_refused_by_name(partial):
    (partial / "homeenv/grammar/memory.yaml").unlink()
    said = "has no memory\\.[^\n]*others"
    with pytest.raises(ValueError, match=said):
        home_grammar(partial.name)
    frames = yaml.safe_load((partial / "simuhome.yaml").read_text())["frames"]
    code = changed_simuhome(partial, frames={name: frame for name, frame in frames.items() if name != "reply.done"})
    assert f"{code}/simuhome.yaml: the grammar of '{code}' has no reply.done" in refusal("simuhome", code)
    assert "signs is missing" in refusal("simuhome", changed_simuhome(partial.with_name(code), signs=None))


@pytest.mark.parametrize("world", ["homeenv", "simuhome"])
def test_an_unknown_language_names_the_known_ones(partial, world):
    said = refusal(world, "du")
    assert "du.yaml: 'du' is no known language" in said or "/du: 'du' is no known language" in said
    assert f"known: {partial.name}, en, zh; HOMERL_LANGUAGES adds languages" in said


def test_every_language_has_every_part():
    assert set(list_home_languages()) >= {"en", "zh"}
    for language in list_home_languages():
        assert missing_language_files(language) == []
        assert home_grammar(language).keys() == home_grammar("en").keys()
        assert load_people_words(language).habits.keys() == load_people_words("en").habits.keys()
        assert load_lexicon(language).rooms.keys() == load_lexicon("en").rooms.keys()
        assert load_manner(language).language and agent_prompts(language).example.says
        assert all(toolset_instruction(toolset, language) for toolset in TOOLSETS)
