"""`homerl check-plugin`: what homerl ships keeps its contracts, and planted faults of each kind are named.

The plug-ins that are right are homerl's own.
"""

from dataclasses import replace
from pathlib import Path

import pytest

from homerl.app.plugin_check import check_plugin_file, find_plugin_attribute
from homerl.envs.core.documents import InputError
from homerl.envs.core.model import Model
from homerl.envs.core.world import ContractError
from homerl.play.situation import Utterance
from homerl.rewards.composite import REWARDS
from homerl.rewards.reward import check_reward
from homerl.train.credit.contract import CreditMode, check_credit_mode, list_credit_modes
from homerl.train.losses.contract import Loss, TokenLosses, check_loss, list_losses
from homerl.train.recipe import RLVESettings
from homerl.worlds.plugin_checks import check_user, check_world_adapter
from homerl.worlds.registry import default_world, known_worlds
from homerl.worlds.users import ScriptedUser

ROOT = Path(__file__).parents[3]
SETTINGS = RLVESettings()
TOOLSETS = default_world().plugin_checks["toolsets"]


@pytest.mark.parametrize("name", REWARDS)
def test_rewards_keep_their_contract(name):
    check_reward(REWARDS[name])


@pytest.mark.parametrize("name", list_credit_modes())
def test_credit_modes_keep_their_contract(name):
    check_credit_mode(list_credit_modes()[name], SETTINGS)


@pytest.mark.parametrize("name", list_losses())
def test_losses_keep_their_contract(name):
    check_loss(list_losses()[name], SETTINGS)


SLOW = {name: (pytest.mark.long,) for name in known_worlds() if name != default_world().name}


@pytest.mark.parametrize("name", [pytest.param(name, marks=SLOW.get(name, ())) for name in known_worlds()])
def test_worlds_keep_their_contract(name):
    check_world_adapter(known_worlds()[name])


def test_the_scripted_user_and_a_toolset_keep_their_contracts():
    check_user(ScriptedUser)
    TOOLSETS("homeflow")


def earns(function):
    return replace(next(iter(REWARDS.values())), earn=function, switches={}, older={})


CALLS = iter(range(1000))


@pytest.mark.parametrize(
    ("reward", "told"),
    [
        (earns(lambda facts: float("nan")), "it earns nan, which is no finite number"),
        (earns(lambda facts: None), "it earns None, which is no finite number"),
        (earns(lambda facts: float(next(CALLS))), "the same step earns 0.0, and 1.0 the second time"),
        (
            earns(lambda facts: 1 / len(facts.blocked)),
            r"test_check_plugin.py:\d+: .*ZeroDivisionError.*\(step 1 of 6: turn=1\)",
        ),
        (
            earns(lambda facts: 1 / (2 - facts.turn)),
            r"ZeroDivisionError.*\(step 3 of 6: turn=2, .*blocked=\('unknown_device',\)",
        ),
        (earns(lambda facts, most: 0.0), "the setting 'most' lacks a type or a default"),
        (replace(earns(lambda facts: 0.0), weight=-1.0), "the weight is below 0"),
    ],
)
def test_a_planted_fault_of_a_reward_is_named(reward, told):
    with pytest.raises(ContractError, match=told):
        check_reward(reward)


def changes(group):
    group[0].rewards[0] = 7.0
    return [[0.0] * len(played.rewards) for played in group]


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (lambda group: [[0.0]], "gives 1 rollouts for 2"),
        (lambda group: [[0.0] for _ in group], "gives 1 advantages for 3 steps"),
        (lambda group: [[float("inf")] * len(played.rewards) for played in group], "no finite number"),
        (lambda group: [[float(next(CALLS))] * len(played.rewards) for played in group], "something else the second time"),
        (changes, "changed the group that it was given"),
    ],
)
def test_a_planted_fault_of_a_credit_mode_is_named(rule, told):
    class Planted(CreditMode[Model]):
        name, sentence = "planted", "A fault."

        def rule(self, group, settings):
            return rule(group)

    with pytest.raises(ContractError, match=told):
        check_credit_mode(Planted(), SETTINGS)


@pytest.mark.parametrize(
    ("losses", "weight", "told"),
    [
        (lambda tokens: tokens.logps[:-1], 1.0, r"has the shape \(7,\) for 8 tokens"),
        (lambda tokens: tokens.logps.detach(), 1.0, "have no gradient"),
        (lambda tokens: 0 * tokens.logps, 1.0, "the gradient for `tokens.logps` is zero"),
        (lambda tokens: tokens.logps / 0, 1.0, "a loss is no finite number"),
        (lambda tokens: tokens.logps * tokens.logps.mean(), 1.0, "depends on other rollouts"),
        (lambda tokens: -tokens.logps, -1.0, "a token's weight is -1.0"),
    ],
)
def test_a_planted_fault_of_a_loss_is_named(losses, weight, told):
    class Planted(Loss[Model]):
        name, sentence = "planted", "A fault."

        def losses(self, tokens, settings):
            none = tokens.logps.new_zeros(len(tokens.logps), dtype=bool)
            return TokenLosses(losses(tokens), none, none)

        def weight(self, count, totals):
            return weight

    with pytest.raises(ContractError, match=told):
        check_loss(Planted(), SETTINGS)


def forgets_turn(user, episode, said):
    episode.messages.append({"role": "user", "content": "x"})
    return said


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (lambda user, episode, said: said.text, "gives no `Utterance`"),
        (lambda user, episode, said: Utterance(said.text, 99), "`intent_id` is none of the intents"),
        (lambda user, episode, said: Utterance(f"{said.text} {next(CALLS)}", said.intent_id), "says something else"),
        (forgets_turn, "`speak` changed the episode"),
    ],
)
def test_a_planted_fault_of_a_user_is_named(fault, told):
    class Planted(ScriptedUser):
        async def speak(self, episode):
            return fault(self, episode, await super().speak(episode))

    with pytest.raises(ContractError, match=told):
        check_user(Planted)


def test_planted_faults_of_a_world_are_named(monkeypatch):
    world = default_world()
    kind = world.begin(world.make_blueprint(world.recipe.model_validate({}), "train", 0)).__class__
    monkeypatch.setattr(kind, "met", lambda self: (True,))
    with pytest.raises(ContractError, match="all goals are met before anybody acts"):
        check_world_adapter(world)
    monkeypatch.setattr(kind, "met", lambda self: (False,))
    with pytest.raises(ContractError, match="the expert does not succeed: "):
        check_world_adapter(world)


def test_planted_faults_of_a_toolset_are_named(monkeypatch):
    from homerl.envs.homeenv.sim.toolsets import TOOLSETS as KNOWN

    name = next(iter(KNOWN))
    monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], offer=lambda home: ()))
    with pytest.raises(ContractError, match="a home has no tools"):
        TOOLSETS(name)
    monkeypatch.setitem(KNOWN, name, replace(KNOWN[name], offer=None, instruction={"en": 5}))
    with pytest.raises(ContractError, match="an instruction is no text"):
        TOOLSETS(name)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("x = 1\n", "the file defines no plug-in that can be checked"),
        ("REWARD = 1\nLOSS = 2\n", "the file defines LOSS and REWARD"),
        ("REWARD = (\n", "the file is no Python"),
    ],
)
def test_a_file_that_is_no_plugin_is_refused_without_running_it(tmp_path, text, told):
    (tmp_path / "mine.py").write_text(text)
    with pytest.raises(InputError, match=told):
        find_plugin_attribute(tmp_path / "mine.py")


GOOD = "from homerl.rewards.reward import Reward\nREWARD = Reward(lambda facts: {earned}, weight=0.0, card='nothing')\n"


@pytest.mark.long  # processes that load all
def test_a_file_is_checked_in_a_process_of_its_own(tmp_path):
    file = tmp_path / "mine.py"
    (tmp_path / "other.py").write_text("a neighbour that is no plug-in")
    file.write_text(GOOD.format(earned="1 / 0"))
    told = rf"{file}:2: it fails with ZeroDivisionError: division by zero \(step 1 of 6: turn=1\)"
    with pytest.raises(InputError, match=told) as error:
        check_plugin_file(file)
    assert str(file) in str(error.value) and "docs/recipes.md" in str(error.value)
    file.write_text(GOOD.format(earned="0.0"))
    assert check_plugin_file(file) == f"{file}: a reward that keeps its contract"


@pytest.mark.long
def test_a_worlds_folder_is_checked():
    assert "a world that keeps its contract" in check_plugin_file(ROOT / "tests/worlds/lamp")


@pytest.mark.long
def test_a_users_file_is_checked(tmp_path):
    file = tmp_path / "mine.py"
    file.write_text("from homerl.worlds.users import ScriptedUser\n\nUSER = ScriptedUser\n")
    assert "a user that keeps its contract" in check_plugin_file(file)
    file.write_text("class Mute:\n    def __init__(self, seed): ...\n\n\nUSER = Mute\n")
    with pytest.raises(InputError, match="a user: it breaks its contract: it has no `name`, a text"):
        check_plugin_file(file)


@pytest.mark.parametrize(
    ("reward", "lines"),
    [
        ("Reward(earn)", ("missing 2 required positional arguments: 'weight' and 'card'", "correct the file")),
        (
            "Reward(lax, weight=0.1, card='x')",
            ("the setting 'strength' lacks a type or a default", "see docs/recipes.md, Rewards"),
        ),
    ],
)
def test_a_refusal_is_what_is_wrong_and_in_a_second_line_what_to_do(tmp_path, reward, lines):
    head = "from homerl.rewards.reward import Reward\nearn = lambda facts: 0.0\nlax = lambda facts, strength=2: 0.0\n"
    (tmp_path / "mine.py").write_text(f"{head}REWARD = {reward}\n")
    with pytest.raises(InputError) as caught:
        check_plugin_file(tmp_path / "mine.py")
    what, remedy = str(caught.value).splitlines()
    assert what.endswith(lines[0]) and remedy.startswith(lines[1])
    assert str(caught.value).count("see docs/recipes.md, Rewards") == 1
