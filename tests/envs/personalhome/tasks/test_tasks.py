"""Properties of the tasks of PersonalHome: answers are computed and unique, and a lazy policy gains nothing."""

from __future__ import annotations

import asyncio
import json
import random
import re
from collections import Counter
from contextlib import suppress
from functools import cache
from hashlib import sha256
from itertools import islice
from statistics import fmean

import pytest
from crossed import crossed
from forked import python

from homerl.envs.core.messages import call_message, text_message, tool_call
from homerl.envs.homeenv.sim.home_file import home_from_json
from homerl.envs.personalhome.bench.suite import FAMILIES, make_filmed_household
from homerl.envs.personalhome.sim.appliance_catalogue import rank_features
from homerl.envs.personalhome.sim.generate import HouseholdRecipe, make_household
from homerl.envs.personalhome.sim.household_state import HouseholdState
from homerl.envs.personalhome.sim.household_view import weather_shown
from homerl.envs.personalhome.sim.scene.scene_scripts import DOMAINS
from homerl.envs.personalhome.sim.vocabulary import load_vocabulary
from homerl.envs.personalhome.tasks.answer_parser import decide_by_rules, matches_variant
from homerl.envs.personalhome.tasks.author import MARGIN, draw_task, make_personalhome_blueprint, make_question_task
from homerl.envs.personalhome.tasks.blueprint import KINDS, PersonalHomeRecipe
from homerl.envs.personalhome.tasks.expert import BASELINES, ConstantAgent, PersonalHomeExpert, evidence_calls, right_answer
from homerl.envs.personalhome.tasks.plan_rules import household_needs, judge_plan, reference_plan
from homerl.envs.personalhome.tasks.questions.counterfactual_edits import draw_edits
from homerl.envs.personalhome.tasks.questions.families import question_candidates
from homerl.envs.personalhome.tasks.questions.question_maker import (
    QuestionWording,
    answer_candidate,
    draw_counterfactuals,
    draw_distractors,
    draw_questions,
    is_answer_stated,
    load_phrases,
)
from homerl.envs.personalhome.tasks.questions.question_programs import NoAnswer, count_operations, make_household_tables
from homerl.envs.personalhome.tasks.situation import PersonalHomeSituation, answer_goals
from homerl.envs.personalhome.tasks.text_normal_form import normal_form
from homerl.play.episode import Episode, EpisodeLimits
from homerl.play.loop import play
from homerl.play.situation import Reply
from homerl.rewards.composite import step_rewards
from homerl.worlds.users import ScriptedUser

LANGUAGES = ("en", "zh")
HOUSEHOLDS = range(12)
LIMITS = EpisodeLimits(1, 16, 16)
USES = ("times", "last_used", "usually_used", "more_often", "place_of_last_used", "last_used_event")  # families about use
BOUNDS = {"simple": (1, 3), "medium": (4, 5), "hard": (6, 10)}
both = pytest.mark.parametrize("language", LANGUAGES)
either = pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.long)])  # where words play no part


@cache
def household(seed: int, language: str, half: str = "train"):
    return make_household(seed, HouseholdRecipe(language=language, lexicon=half))


@cache
def blueprint(kind: str, language: str, seed: int, split: str = "train", setting: str = "agentic"):
    data = {"world": "personalhome", "tasks": {kind: 1}, "household": {"language": language}, "setting": setting}
    return make_personalhome_blueprint(PersonalHomeRecipe.model_validate(data), split, seed)


def blueprints(kind: str, language: str, count: int = 20):
    return [blueprint(kind, language, seed) for seed in range(count)]


@cache
def asked(language: str):
    """(household, wording, question) of some questions of some households."""
    found = []
    for seed in HOUSEHOLDS:
        home, rng = household(seed, language), random.Random(seed)
        wording = QuestionWording(home, seed % 2 == 0)
        found += [(home, wording, question) for question, _ in zip(draw_questions(home, rng), range(25), strict=False)]
    return found


@cache
def scenes_asked(language: str):
    """(household, wording, question) of questions about scenes."""
    found = []
    for seed, domain in enumerate(DOMAINS):
        home = make_filmed_household(seed, language, domain)
        wording = QuestionWording(home, True)
        found += [(home, wording, one) for one in islice(draw_questions(home, random.Random(seed), FAMILIES), 25)]
    return found


# Questions


@both
def test_every_question_assumption_and_answer_has_words(language):
    frames: set[str] = set()
    for seed in HOUSEHOLDS[:8]:
        home, rng = household(seed, language), random.Random(seed)
        tables, wording = make_household_tables(home), QuestionWording(home, seed % 2 == 0)
        for candidate in question_candidates(tables):
            assert all(wording.question_texts(candidate))
            if (question := answer_candidate(candidate, tables)) is not None:
                texts = wording.answer_texts(candidate.answer, question.answer)
                assert texts and all(texts) and len(set(texts)) == len(texts)
        assumptions = [edit for _, edit in draw_edits(tables, rng)]
        assert all(wording.assumption_text(edit, rng) for edit in assumptions)
        frames |= {edit.frame for edit in assumptions}
    assert frames == set(load_phrases(language)["edits"])


def test_english_agrees_with_things_in_the_plural_and_needs_no_article():
    """The blinds and the lights have no form of their own, and "accountant" stands without an article."""
    texts, things = set(), set()
    for seed in range(20):
        home = household(seed, "en")
        wording, tables = QuestionWording(home), make_household_tables(home)
        texts |= {text for one in question_candidates(tables) for text in wording.question_texts(one)}
        drawn = draw_edits(tables, random.Random(seed))
        texts |= {wording.assumption_text(edit, random.Random(seed)) for _, edit in drawn}
        things |= {name for name in wording.fact_cast.devices.values() if name.endswith(("blinds", "lights", "sprinklers"))}
    many = "|".join(map(re.escape, things))
    singular = re.compile(rf"\b(?:is|was|does) the (?:{many})\b")
    assert len(things) > 1 and not [text for text in texts if singular.search(text)]
    jobs = "|".join(load_vocabulary().group_keys("occupations"))
    assert not [text for text in texts if re.search(rf"\b(?:as|Who is) (?:{jobs})\b", text)]


@either
def test_a_program_gives_the_same_single_answer_again_and_its_difficulty_is_its_steps(language):
    for home, _, question in asked(language):
        found = question.candidate.program.run_on(make_household_tables(home))
        assert found.value == question.answer and tuple(sorted(found.evidence)) == question.evidence
        low, high = BOUNDS[question.difficulty]
        assert low <= count_operations(question.candidate.program) <= high
        assert question.evidence, "an answer that no row says"


def by_hand(question, home):
    """The answer of a question of some families, computed from the household's facts without its program."""
    slots = {name: value for name, (_, value) in question.candidate.slots.items()}
    facts = [(memory.time, memory.fact) for memory in home.memories]
    family, who = question.candidate.family, slots.get("who")
    members = {member.member_id: member for member in home.members}
    if family in ("times", "last_day"):
        deed = slots["deed"]
        column = "appliance" if deed.kind in ("used", "repaired") else "what"
        times = [t for t, f in facts if (f.kind, f.who, getattr(f, column)) == (deed.kind, who, deed.object)]
        return len(times) if family == "times" else max(times).date()
    if family.startswith("total_"):
        return sum(f.value for _, f in facts if f.kind == family.removeprefix("total_") and f.who == who and f.value)
    if family == "last_bought":
        return max((t, f.what) for t, f in facts if f.kind == "bought" and f.who == who)[1]
    if family == "who_has_hobby":
        return next(one.member_id for one in home.members if slots["what"] in one.hobbies)
    if family == "shared_hobby":
        one, other = (set(members[id].hobbies) for id in (who, slots["other"]))
        return next(iter(one & other))
    if family == "age_of_last":
        deed = slots["deed"]
        column = "appliance" if deed.kind in ("used", "repaired") else "what"
        done = [(t, f.who) for t, f in facts if f.kind == deed.kind and getattr(f, column) == deed.object and f.who]
        return members[max(done)[1]].age(home.now.date())
    return question.answer


@either
def test_answers_agree_with_answers_by_hand(language):
    families: Counter[str] = Counter()
    for home, _, question in asked(language):
        assert by_hand(question, home) == question.answer, question
        families[question.candidate.family] += 1
    for name in ("times", "last_day", "total_used", "last_bought", "who_has_hobby", "age_of_last"):
        assert families[name]


def used_by_hand(question, home):
    """The answer of a question about use, by all that the household is told: who cooks or adjusts uses an appliance."""
    what = {name: value for name, (_, value) in question.candidate.slots.items()}
    family, who = question.candidate.family, what.get("who")
    told = home.context.events if family == "last_used_event" else (*home.memories, *home.context.events)
    uses = [(one.time, one.fact.who, one.fact.appliance) for one in told if one.fact.kind in ("used", "cooked", "adjusted")]
    uses = sorted(use for use in uses if use[2] is not None)
    if family == "last_used_event":
        return next(by for _, by, appliance in reversed(uses) if appliance == what["what"])
    by_who = [appliance for _, by, appliance in uses if by == who]
    if family in ("last_used", "place_of_last_used"):
        rooms = {device.did: device.room.id for device in home_from_json(home.home).plan.devices}
        return by_who[-1] if family == "last_used" else rooms[by_who[-1]]
    if family == "times":
        return by_who.count(what["deed"].object)
    if family == "usually_used":
        return Counter(by_who).most_common(1)[0][0]
    return abs(len(by_who) - sum(by == what["other"] for _, by, _ in uses))


@either
def test_who_cooks_or_adjusts_has_used_the_appliance(language):
    families: Counter[str] = Counter()
    for seed in range(40):
        home = household(seed, language)
        tables = make_household_tables(home)
        for candidate in question_candidates(tables):
            family, deed = candidate.family, candidate.slots.get("deed")
            about_use = deed[1].kind == "used" if deed else family.endswith(("_used", "used_event"))
            if about_use and family in USES and (question := answer_candidate(candidate, tables)):
                assert used_by_hand(question, home) == question.answer, (seed, question.candidate)
                families[family] += 1
    assert all(families[name] > 3 for name in USES), families


@either
def test_no_question_states_its_answer(language):
    for kind in ("grounding", "choice"):
        for made in blueprints(kind, language):
            variants = (
                made.task.parts[0].variants if kind == "grounding" else (made.task.choices["ABCDE".index(made.task.right)],)
            )
            assert not is_answer_stated(made.task.question, variants)


@both
def test_what_a_tool_shows_is_a_right_answer(language):
    """The weather is shown as text with units, and a state as a bare number."""
    shown_numbers = 0
    for seed in HOUSEHOLDS:
        home = household(seed, language)
        wording, tables = QuestionWording(home), make_household_tables(home)
        for candidate in question_candidates(tables):
            family, question = candidate.family, answer_candidate(candidate, tables)
            if question is None or not family.startswith(("weather_", "state_of_")):
                continue
            shown_numbers += 1
            variants = wording.answer_texts(candidate.answer, question.answer)
            shown = str(question.answer)
            if family.startswith("weather_"):
                _, side, quantity = family.split("_")
                shown = str(weather_shown(HouseholdState(home))[side][quantity])
            assert matches_variant(shown, variants), (shown, variants)
    assert shown_numbers > 200


@both
def test_a_share_is_said_in_percent_as_well(language):
    home = household(0, language)
    question = next(draw_questions(home, random.Random(0), ["weather_outdoor_sunny"]))
    variants = QuestionWording(home).answer_texts(question.candidate.answer, 0.27)
    for said, verdict in ((0.27, "right"), ("27%", "right"), ("27 percent", "right"), ("28 %", "wrong"), ("0.28", "wrong")):
        assert decide_by_rules(said, variants) == verdict, said


# Counterfactuals


@either
def test_one_of_two_counterfactuals_changes_the_answer(language):
    pairs = 0
    for home, wording, question in asked(language)[::5]:
        pair = draw_counterfactuals(question, wording, random.Random(3))
        if pair is None:
            continue
        pairs += 1
        assert sorted(one.changed for one in pair) == [False, True]
        for one in pair:
            program, edited = question.candidate.program, one.edit.tables
            value = program.run_on(edited).value
            assert {row["id"] for row in edited.rows["memories"]} <= {row["id"] for row in edited.told["memories"]}
            assert program.run_on(edited.with_told_rows()).value == value, "events and companions make no difference"
            assert value == one.answer and (value != question.answer) is one.changed
            assert (
                len(set(map(id, one.edit.tables.rows.values())) - set(map(id, make_household_tables(home).rows.values())))
                >= 1
            )
    assert pairs > 20


DATES = re.compile(r"\d+ [A-Z][a-z]+ \d{4}|\d{4}年\d+月\d+日|\d+:\d+")


def named(condition, variants):
    """Whether a condition has one of the variants in it, as whole words in English; the digits of a date are no number."""
    plain = DATES.sub("", condition)
    texts = [(plain if one.isdecimal() else condition, one) for one in variants]
    found = ((text, one) for text, one in texts if one.lower() in text.lower())  # most are not: no pattern is made of them
    return any(re.search(rf"(?<![0-9A-Za-z_.]){re.escape(one)}(?![0-9A-Za-z_]|\.\d)", text, re.I) for text, one in found)


@crossed(filmed=[False, True], language=LANGUAGES)
def test_an_assumption_names_its_answer_only_if_none_can_be_found_that_does_not(language, filmed):
    """Asked what somebody cooked last, "assume that it was soup" leaves no question; another memory's date does."""
    found = Counter()
    for _, wording, question in scenes_asked(language)[::2] if filmed else asked(language)[::10]:
        rng, program, base = random.Random(1), question.candidate.program, question.answer
        pair = draw_counterfactuals(question, wording, rng)
        silent = set()
        for _, edit in draw_edits(question.tables, random.Random(1)):
            with suppress(NoAnswer):
                answer = program.run_on(edit.tables).value
                stated = named(wording.assumption_text(edit, rng), wording.answer_texts(question.candidate.answer, answer))
                silent |= set() if stated else {answer != base}
        for one in pair or ():
            stated = named(one.condition, wording.answer_texts(question.candidate.answer, one.answer))
            found[stated] += 1
            assert not stated or one.changed not in silent, (question.candidate, one.condition)
    assert found[False] > 20 and found[True]


@pytest.mark.parametrize("language", ["en", pytest.param("zh", marks=pytest.mark.long)])
def test_an_assumption_about_what_one_looks_up_goes_by_another_row_which_is_evidence(language):
    """The occupation of a person who lives alone can only be named."""
    looked_up = ("occupation_of", "place_of_appliance", "place_of_sensor", "date_of_life_event", "state_of_appliance")
    found, recipe = Counter[tuple[str, bool]](), PersonalHomeRecipe(world="personalhome")
    for seed in HOUSEHOLDS[::2]:
        home = household(seed, language)
        wording, jobs = QuestionWording(home), {member.occupation for member in home.members}
        for question in draw_questions(home, random.Random(seed), looked_up):
            family = question.candidate.family
            if question.answer == 0 or (family == "occupation_of" and len(jobs) == 1):
                continue
            task = make_question_task("grounding", question, "?", wording, recipe, random.Random(seed))
            if task is None:
                continue
            changed = next(part for part in task.parts if part.changed)
            found[family, named(changed.condition, changed.variants)] += 1
            if family.startswith(("occupation", "place")):
                assert len(task.evidence) == 2 and {*question.evidence} < {*task.evidence}
    assert all(found[family, False] > 2 for family in looked_up), found
    assert {family for family, stated in found if stated} <= {"state_of_appliance"}, "50 lower by 25"


@both
def test_parts_of_a_grounding_task_agree_with_changed(language):
    for made in blueprints("grounding", language):
        original, *others = made.task.parts
        assert [part.key for part in others] == ["counterfactual_1", "counterfactual_2"] and original.changed is None
        assert sorted(part.changed for part in others) == [False, True]
        for part in others:
            assert part.condition and matches_variant(part.variants[0], original.variants) is not part.changed
            assert part.changed or part.variants == original.variants


# Choices


@both
def test_wrong_choices_are_four_of_one_type_and_none_is_right(language):
    found = 0
    for _, wording, question in asked(language)[::3]:
        wrong = draw_distractors(question, wording, random.Random(1))
        if wrong is None:
            continue
        found += 1
        right = wording.answer_texts(question.candidate.answer, question.answer)
        assert len(wrong) == 4 and len({normal_form(text) for text in (*wrong, right[0])}) == 5
        assert not any(matches_variant(text, right) for text in wrong), (wrong, right)
        numbers = [any(character.isdigit() for character in text) for text in (*wrong, right[0])]
        if question.candidate.answer.startswith(("number", "share", "date", "times", "years", "span")):
            assert all(numbers)
    assert found > 40


@cache
def choices():
    """300 choice tasks: five of each of 30 households in each language."""
    found = []
    for seed in range(150):
        for language in LANGUAGES:
            recipe = PersonalHomeRecipe.model_validate({"world": "personalhome", "household": {"language": language}})
            home, rng = household(seed % 30, language), random.Random(f"{language} {seed}")
            found.append(draw_task("choice", ("simple", "medium", "hard")[seed % 3], home, recipe, "train", rng))
    return [task for task in found if task is not None]


def test_the_right_letter_cannot_be_guessed():
    tasks = choices()
    letters = Counter(task.right for task in tasks)
    assert len(tasks) > 280 and all(0.14 <= letters[letter] / len(tasks) <= 0.26 for letter in "ABCDE"), letters
    assert all(len({normal_form(choice) for choice in task.choices}) == 5 for task in tasks)


def test_the_form_of_a_choice_says_nothing():
    """Neither the longest nor the middle one of the choices is right much more often than one time in five."""
    longest = [max(range(5), key=lambda at, task=task: len(task.choices[at])) for task in choices()]
    assert fmean("ABCDE"[at] == task.right for at, task in zip(longest, choices(), strict=True)) < 0.3
    middles = [(task, at) for task in choices() if (at := middle(task)) is not None]
    assert len(middles) > 60 and fmean("ABCDE"[at] == task.right for task, at in middles) < 0.4


def middle(task) -> int | None:
    """The choice whose number is the median, or None if the choices are no numbers."""
    numbers = [normal_form(choice).split()[0] for choice in task.choices]
    if not all(number.lstrip("-").replace(".", "", 1).isdigit() for number in numbers):
        return None
    values = [float(number) for number in numbers]
    return values.index(sorted(values)[2])


# Features


@either
def test_features_lie_in_three_tiers_with_margins(language):
    for made in blueprints("features", language):
        task, home = made.task, made.household
        needs = household_needs(home)
        weight = {
            feature.name: weight for feature, weight in rank_features({key: need.weight for key, need in needs.items()})
        }
        weights = [weight[key] for key in task.ranking]
        owned = {device["spid"] for device in home.home["devices"]}
        assert owned and weights == sorted(weights, reverse=True)
        for at in (0, 1, 2, 5):
            assert weights[at] - weights[at + 1] >= MARGIN, weights
        assert sorted(task.titles) == sorted(task.ranking) and len(set(task.titles.values())) == 10


def test_the_order_in_which_features_are_shown_says_nothing():
    ranks = [list(made.task.titles).index(made.task.ranking[0]) for language in LANGUAGES
             for made in blueprints("features", language, 40)]  # fmt: skip
    assert 3.3 <= fmean(ranks) <= 5.7


# Plans


def goals(made, plan) -> tuple[bool, ...]:
    return judge_plan(made.household, made.task.situations, plan).goals_met()


@either
def test_a_reference_plan_is_right_and_every_step_of_it_counts(language):
    several = 0
    for made in blueprints("plans", language, 30):
        plan = reference_plan(made)
        assert all(goals(made, plan))
        for at, program in enumerate(plan):
            for step in program["steps"]:
                fewer = {**program, "steps": [one for one in program["steps"] if one is not step]}
                assert not all(goals(made, [*plan[:at], fewer, *plan[at + 1 :]])), step
        if len(plan) > 1:
            several += 1
            assert not all(goals(made, plan[::-1]))
        assert not any(goals(made, [])) and not any(goals(made, [{"program_id": "p", "steps": []}]))
    assert several >= 1


@both
def test_writing_that_a_situation_is_over_settles_nothing(language):
    for made in blueprints("plans", language):
        told = [
            {
                **step, "appliance": "toolbox", "feature": "update_appliance_status",
                "args": {"appliance_name": step["appliance"], "status": "off and safe"},
            }
            for program in reference_plan(made) for step in program["steps"]
        ]  # fmt: skip
        plan = [{"program_id": "told", "steps": told[:5]}]
        assert not any(goals(made, plan))


# Policies


class ReadsAll:
    """Calls everything that needs no argument, then gives up."""

    name = "reads all"

    async def consult(self, episode, n=1):
        tools = [tool["function"] for tool in episode.world.tools]
        free = [tool["name"] for tool in tools if not tool["parameters"].get("required")]
        done = sum(1 for message in episode.messages if message.get("tool_calls"))
        if done < min(len(free), 14):
            return [Reply(call_message(tool_call(free[done], {})))]
        return [Reply(text_message('{"answer": "unknown"}'))]


class ReadsAndIsSilent:
    """Reads the evidence as the expert does, and goes on reading for ever."""

    name = "silent"

    async def consult(self, episode, n=1):
        done = sum(1 for message in episode.messages if message.get("tool_calls"))
        calls = evidence_calls(episode.blueprint)
        name, arguments = calls[done] if done < len(calls) else ("get_household_profile", {})
        return [Reply(call_message(tool_call(name, arguments)))]


def as_shown(made) -> str:
    titles = getattr(made.task, "titles", {})
    return json.dumps({"ranked_features": list(titles)})


def letter(made) -> str:
    return json.dumps({"answer": "A"})


LAZY = {
    "nothing": BASELINES["nothing"],
    "unknown": BASELINES["unknown"],
    "first": BASELINES["first"],
    "as shown": lambda: ConstantAgent("as shown", as_shown),
    "letter": lambda: ConstantAgent("letter", letter),
    "reads all": ReadsAll,
    "silent": ReadsAndIsSilent,
}


def played(made, agent):
    return asyncio.run(play(Episode.from_situation(PersonalHomeSituation.begin(made), LIMITS), agent, ScriptedUser()))


def total_reward(trajectory) -> float:
    """The sum of all rewards of all steps, with the default weights: 2 for an episode without a fault."""
    return sum(sum(step_rewards(step.facts).values()) for step in trajectory.steps)


@crossed(kind=KINDS, setting=["agentic", "sole"])
def test_the_expert_succeeds_and_lazy_policies_gain_nothing(kind, setting):
    made = [blueprint(kind, language, seed, "train", setting) for language in LANGUAGES for seed in range(6)]
    for one in made:
        trajectory = played(one, PersonalHomeExpert())
        assert trajectory.success and trajectory.progress == 1 and not any(step.facts.blocked for step in trajectory.steps)
        assert all(answer_goals(one, right_answer(one))) and total_reward(trajectory) == pytest.approx(2)
    bounds = {"grounding": 0.02, "choice": 0.9, "features": 0.2, "plans": 0.0}  # a letter is right one time in five
    for name, lazy in LAZY.items():
        gains = [total_reward(played(one, lazy())) for one in made]
        assert fmean(gains) <= bounds[kind] + 1e-9, (name, gains)


# Bytes and splits

MAKE = """
import hashlib
from homerl.envs.personalhome.tasks.author import make_personalhome_blueprint
from homerl.envs.personalhome.tasks.blueprint import PersonalHomeRecipe
for language in ("en", "zh"):
    recipe = PersonalHomeRecipe.model_validate({"world": "personalhome", "household": {"language": language}})
    for seed in range(4):
        print(hashlib.sha256(make_personalhome_blueprint(recipe, "train", seed).model_dump_json().encode()).hexdigest())
"""


@pytest.mark.long
def test_the_same_seed_gives_the_same_bytes_in_another_process():
    done = python(MAKE)
    recipes = [{"world": "personalhome", "household": {"language": language}} for language in LANGUAGES]
    here = [
        sha256(
            make_personalhome_blueprint(PersonalHomeRecipe.model_validate(recipe), "train", seed).model_dump_json().encode()
        )
        for recipe in recipes
        for seed in range(4)
    ]
    assert done.stdout.split() == [digest.hexdigest() for digest in here]


@either
def test_the_splits_share_no_question_and_no_name(language):
    names, said = {}, {}
    for split in ("train", "heldout"):
        made = [blueprint(kind, language, seed, split) for kind in ("grounding", "choice") for seed in range(10)]
        people = {member.name for one in made for member in one.household.members}
        names[split] = people | {pet.name for one in made for pet in one.household.pets}
        said[split] = {one.task.question for one in made}
    assert not names["train"] & names["heldout"] and not said["train"] & said["heldout"]
