"""Memories: what happened in the two years before now (PersonalHomeBench 3.1).

A theme is a fact that repeats with other values and on other days, such as what one person cooked. So there is something to
count, to compare and to look up last.

Invariants:
- Memories are in the order of time; none breaks a rule of `checks.py`. What would is dropped and counted.
- A text says its fact and no more; `additional_information` says the weekday and part of the day that `time` says already.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta

from homerl.envs.homeenv.maker.lexicon import Half
from homerl.envs.personalhome.sim.generate import facts
from homerl.envs.personalhome.sim.generate.checks import REACH, DatedFact, fact_problem, find_fact_clash
from homerl.envs.personalhome.sim.generate.facts import FactDraft, Maker
from homerl.envs.personalhome.sim.generate.life import Life
from homerl.envs.personalhome.sim.household import Fact, Memory
from homerl.envs.personalhome.sim.words import FactCast, FactWords

# Kinds of themes: weight, and the weights of 1, 2, .. facts of a theme.
THEMES: dict[str, tuple[Maker, float, tuple[float, ...]]] = {
    "used": (facts.draw_use, 4, (0, 1, 2, 2, 1)),
    "cooked": (facts.draw_cooking, 3, (1, 2, 2, 1)),
    "adjusted": (facts.draw_adjustment, 3, (0, 1, 2, 2, 1)),
    "complained": (facts.draw_complaint, 1.5, (2, 2, 1)),
    "bought": (facts.draw_purchase, 1.5, (2, 2, 1)),
    "visited": (facts.draw_visit, 1.2, (3, 1)),
    "travelled": (facts.draw_trip, 1.5, (2, 2, 1)),
    "ill": (facts.draw_illness, 1.2, (3, 2)),
    "cared": (facts.draw_pet_care, 1.5, (1, 2, 2, 1)),
    "broke": (facts.draw_breakdown, 1.2, (3, 1)),
    "celebrated": (facts.draw_celebration, 1.5, (3, 1)),
    "learned": (facts.draw_learning, 0.8, (1,)),
}
SHORTEST = 2  # days that everything must be over before now
TRIES = 40  # themes for each memory that is wanted


def draw_memories(count: int, life: Life, rng: random.Random, dropped: Counter[str]) -> tuple[DatedFact, ...]:
    """About `count` facts of the past, in the order of time. What contradicts itself is counted in `dropped`."""
    kept: list[DatedFact] = []
    for _ in range(TRIES * count):
        if len(kept) >= count:
            break
        for told in _theme(life, rng):
            problem = memory_problem(told, kept, life)
            if problem is None and len(kept) < count:
                kept.append(told)
            elif problem is not None:
                dropped[problem] += 1
    return tuple(sorted(kept, key=lambda told: told.time))


def memory_problem(told: DatedFact, kept: Sequence[DatedFact], life: Life) -> str | None:
    """The rule that a memory breaks, by itself or beside those that are kept; None if it breaks none."""
    if not life.now - REACH <= told.time <= told.end_time < life.now - timedelta(days=SHORTEST):
        return "out_of_reach"
    return fact_problem(told, life) or next((rule for other in kept if (rule := find_fact_clash(told, other))), None)


def _theme(life: Life, rng: random.Random) -> Iterator[DatedFact]:
    """The facts of one theme: of one person and thing, or of one thing and several people."""
    kind = rng.choices(list(THEMES), [weight for _, weight, _ in THEMES.values()])[0]
    maker, _, lengths = THEMES[kind]
    first = maker(life, rng, None)
    if first is None:
        return
    told = _dated(first, life, rng)
    yield told
    if kind == "broke" and rng.random() < 0.7:
        yield from _repair(told, life, rng)
    shared = rng.random() < 0.35
    for _ in range(rng.choices(range(len(lengths)), lengths)[0]):
        like = first.fact.model_copy(update={"who": None}) if shared else first.fact
        if (again := maker(life, rng, like)) is not None:
            yield _dated(again, life, rng)


def _repair(broken: DatedFact, life: Life, rng: random.Random) -> Iterator[DatedFact]:
    """A repair within two weeks of a fault."""
    draft = facts.draw_repair(life, rng, broken.fact)
    if draft is not None:
        day = broken.time.date() + timedelta(days=rng.randint(1, 14))
        yield _dated(FactDraft(draft.fact, draft.hours, day), life, rng)


def _dated(draft: FactDraft, life: Life, rng: random.Random) -> DatedFact:
    """The fact at a time: on its day, or on any day that memories reach, in its hours."""
    day = draft.day or life.now.date() - timedelta(days=rng.randint(SHORTEST, REACH.days - 1))
    return DatedFact(draft.fact, datetime(day.year, day.month, day.day, rng.randint(*draft.hours), rng.randrange(0, 60, 5)))


def fact_to_memory(told: DatedFact, cast: FactCast, words: FactWords, half: Half, rng: random.Random) -> Memory:
    """The memory of a fact in words."""
    return Memory(
        memory=words.say_fact(told.fact, cast, rng, half),
        subjects=fact_subjects(told.fact),
        additional_information=words.moment_text(told.time.weekday(), told.time.hour),
        time=told.time,
        fact=told.fact,
    )


def fact_subjects(fact: Fact) -> tuple[str, ...]:
    """Whom a fact is about: member ids and the pet's name, or the appliance's or sensor's if there is none."""
    people = (*((fact.who,) if fact.who else ()), *fact.others, *((fact.pet,) if fact.pet else ()))
    return people or tuple(filter(None, (fact.appliance, fact.sensor)))
