"""Counts which calls a served agent asks about, since the words may not mean them, in tasks that the rule was not tuned on:

    scripts/unclear_calls smarthome-bench --count 300
    scripts/unclear_calls recipes/qwen_home.yaml --count 300

The right calls of a wish are its plan. A wrong one is the same call on another device of the kind that it would change, or,
for what wants nothing done (a question, talk, a device that is not there), any call that changes something. Calls of guarded
devices are left out, since these always ask.
"""

from __future__ import annotations

import argparse
import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from homerl.envs.assistant.serving.consent import is_guarded
from homerl.envs.assistant.serving.live_situation import TwinCall
from homerl.envs.assistant.serving.meant_devices import find_unclear_devices
from homerl.envs.core.documents import InputError
from homerl.envs.homeenv.sim.assist.entities_of_home import entities_of_plan
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.actions import actions, home_after_calls
from homerl.envs.homeenv.tasks.blueprint import Blueprint, Call
from homerl.envs.homeenv.tasks.situation import home_situation_of
from homerl.host.terminal import say
from homerl.play.confidence_intervals import share_interval
from homerl.tasks.load_tasks import load_suite, load_tasks
from homerl.worlds.registry import begin_episode

ACTS, ELSEWHERE, IDLE = "right calls", "wrong calls: another device of the kind", "wrong calls: nothing was to be done"


@dataclass(frozen=True)
class JudgedCalls:
    """Calls for a sentence in a home. `before` is what was said last before it, and `kind` what is known of the calls."""

    home: Home
    calls: Sequence[Call]
    said: str
    before: str
    kind: str
    family: str

    def is_asked(self, language: str) -> bool:
        """Whether a served agent asks before it makes them."""
        made = [_twin_call(self.home, call) for call in self.calls]
        return bool(find_unclear_devices(self.home, made, self.said, self.before, (language,), {}))


def main() -> None:
    """Judge the calls of tasks, and print the counts by family."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("source", help="a suite or a recipe")
    parser.add_argument("--count", type=int, default=300, help="tasks")
    parser.add_argument("--show", action="store_true", help="print the sentences that are judged wrongly")
    asked = parser.parse_args()
    try:
        tasks = load_suite(asked.source, count=asked.count)
    except InputError:
        tasks = load_tasks(asked.source, count=asked.count, split="heldout")
    held, all_ = Counter[tuple[str, str]](), Counter[tuple[str, str]]()
    for task in tasks:
        if not isinstance(task.blueprint, Blueprint):
            continue
        for one in judged_calls(task.blueprint):
            is_asked = one.is_asked(task.blueprint.language)
            for family in (one.family, "all"):
                all_[one.kind, family] += 1
                held[one.kind, family] += is_asked
            if asked.show and is_asked is (one.kind == ACTS):
                called = ", ".join(f"{call.did} {call.service}{list(call.args)}" for call in one.calls)
                say(f"{one.kind} | {one.family} | {one.before} > {one.said} | {called}")
    for kind in (ACTS, ELSEWHERE, IDLE):
        for (of, family), count in sorted(all_.items(), key=lambda item: (-item[1], item[0])):
            if of == kind:
                low, high = share_interval(np.arange(count) < held[of, family])
                say(f"{kind}; {family}: {held[of, family]} of {count} held back ({100 * low:.1f} to {100 * high:.1f} %)")


def judged_calls(blueprint: Blueprint) -> Iterator[JudgedCalls]:
    """The right calls of each wish of a blueprint, and wrong ones."""
    home = home_situation_of(begin_episode(blueprint)).home
    rng, before = random.Random(blueprint.id), " ".join(past.content for past in blueprint.history[-2:])
    for intent in blueprint.intents:
        said = intent.queries[0]
        family = f"{intent.family}/{intent.subcategory}"
        if intent.clarify:
            said, before = intent.clarification, f"{said} {intent.question or ''}"
        if intent.automation is None and not any(is_guarded(home, call.did) for call in intent.plan):
            if intent.plan:
                yield JudgedCalls(home, intent.plan, said, before, ACTS, family)
            if wrong := _calls_elsewhere(home, intent.plan, rng) if intent.plan else _any_calls(home, rng):
                yield JudgedCalls(home, wrong, said, before, ELSEWHERE if intent.plan else IDLE, family)
        home, before = home_after_calls(home, intent.plan), said


def _calls_elsewhere(home: Home, plan: Sequence[Call], rng: random.Random) -> list[Call]:
    """The last call of a plan, on another device of the kind that it changes; none if there is no such device."""
    domains = {one.device.did: one.domain for one in entities_of_plan(home.plan)}
    taken, last = {call.did for call in plan}, plan[-1]
    others = [one.did for one in home.plan.devices if one.did not in taken and domains.get(one.did) == domains.get(last.did)]
    rng.shuffle(others)
    calls = ([last.model_copy(update={"did": did})] for did in others if not is_guarded(home, did))
    return next((one for one in calls if _changes(home, one)), [])


def _any_calls(home: Home, rng: random.Random) -> list[Call]:
    """A call that changes something that is not guarded."""
    found = (list(action.plan) for action in actions(home, rng) if not is_guarded(home, action.device.did))
    return next((one for one in found if _changes(home, one)), [])


def _changes(home: Home, calls: Sequence[Call]) -> bool:
    try:
        return bool(home.diff(home_after_calls(home, calls)))
    except Refused:
        return False


def _twin_call(home: Home, call: Call) -> TwinCall:
    arguments = home.plan.devices_by_did[call.did].spec.service_index[call.service].service.arguments
    return TwinCall(
        call.did, call.service, {one.name: value for one, value in zip(arguments, call.args) if value is not None}
    )


if __name__ == "__main__":
    main()
