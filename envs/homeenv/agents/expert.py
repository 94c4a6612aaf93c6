"""The scripted expert, an oracle that reads the blueprint's plan. It makes training data, and is never a policy.

Invariants: the candidates are distinct, and a pure function of seed and dialogue; with `mistakes` 0, each first candidate
leads to success without a refused call. The expert reads what an agent must know before it acts or answers, so that a
policy can learn from its dialogues. Its mistakes are those that models make, so that a search has something to prune.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import takewhile
from typing import Any

from homerl.envs.core.messages import Message
from homerl.envs.homeenv.language import home_grammar
from homerl.envs.homeenv.language.meaning import aliases_of
from homerl.envs.homeenv.sim.devices.device_spec import Catalogue
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.blueprint import Call, Intent
from homerl.envs.homeenv.tasks.situation import home_situation_of, writer_of
from homerl.play.episode import Episode
from homerl.play.loop import draw_candidates
from homerl.play.situation import Reply


class Expert:
    """Plays the plan of the intent that the user last spoke of.

    `styles` are the weights of its ways to work: `snippet` makes all calls at once, `stepwise` one call in each message,
    and `query_first` reads the device before it acts. `mistakes` is the probability that a candidate is wrong. With
    `minimal`, it leaves out calls that would change nothing, unless its style is `sweeping`. A policy cannot see which
    calls these are, so RL has to close that gap. `slips` is the probability that the first call of a turn means a device
    by a name that nothing has, which is refused and then put right.
    """

    name = "expert"

    def __init__(
        self,
        seed: int = 0,
        mistakes: float = 0.0,
        styles: Mapping[Any, float] | None = None,
        minimal: bool = False,
        slips: float = 0.0,
    ) -> None:
        self.seed, self.mistakes, self.minimal, self.slips = seed, mistakes, minimal, slips
        self.styles = styles or {"snippet": 1.0}

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """`n` distinct candidates for the next message, or fewer if there are not as many."""
        return [Reply(message) for message in draw_candidates(self._next_message, episode, n, self.seed)]

    def _next_message(self, episode: Episode, rng: random.Random) -> Message:
        intent = next(i for i in episode.blueprint.intents if i.id == episode.speaking_of)
        writer = writer_of(episode)
        if intent not in episode.open_intents():
            return writer.write_reply(intent.reply or done_text(episode, rng))
        if rng.random() < self.mistakes:
            calls = intent.automation.actions if intent.automation else intent.plan
            return rng.choice(MISTAKES)(list(calls), intent, episode, rng)
        style = rng.choices(list(self.styles), list(self.styles.values()))[0]
        # The part of the wish's course that the user said last. Without a position of this turn, the user has answered
        # beside the point, so the part is that of the turn before.
        at = episode.course_position(intent.id, episode.turn)
        told = (episode.course_position(intent.id, episode.turn - 1) or 0) if at is None else at
        part, beside = intent.course[told] if told < len(intent.course) else None, at is None
        unclear = intent.clarify and intent.id not in home_situation_of(episode).heard.asked
        if unclear or beside or (part and part.question):
            asked = (part and part.question) or intent.question
            return writer.write_question(asked or home_grammar(episode.blueprint.language).plain_sentence("question"))
        # The intent may mean devices by what they are, such as all lights of a room, and name none of them.
        of_all = intent.factors.scope == "batch_device" or (intent.family, intent.subcategory) in OF_ALL
        if (unread := intent.reads and not writer.has_read_in(messages_of_turn(episode))) and writer.reads:
            return writer.read_all(intent.reads, has_room_name(intent, episode)) if of_all else writer.read(intent.reads)
        if intent.automation is not None:
            return writer.automate(intent.automation)
        if intent.answer is not None and not intent.conditions:
            return writer.write_reply(intent.reply or "")
        plan = (part and part.plan) or intent.plan
        if part and part.plan and not remaining_calls(plan, episode):
            return writer.write_reply(done_text(episode, rng))  # the wish is not complete yet, but all that was said is done
        todo = remaining_calls(plan, episode) or list(plan)  # all calls if none is left, since something undid them
        todo = calls_with_effect(todo, episode) if self.minimal and style != "sweeping" else todo
        if style == "query_first" and not unread and episode.messages[-1]["role"] == "user" and writer.reads:
            return writer.look(todo[0].did)
        if self.slips and not messages_of_turn(episode) and rng.random() < self.slips and writer.reads:
            return writer.write_misnamed_call(todo[0], rng)
        if style == "stepwise" and writer.reads:
            return writer.write_calls(todo[:1], intent.reply)
        if of_all and not intent.reads:
            return writer.write_calls_on_all(todo, has_room_name(intent, episode), intent.reply)
        return writer.write_calls(todo, intent.reply)


def has_room_name(intent: Intent, episode: Episode) -> bool:
    """Whether the plain words of an intent have the name or an alias of a room."""
    home, said = home_situation_of(episode).home, intent.clarification.casefold()
    names = (name for room in home.plan.rooms for name in (room.name, *aliases_of(room, home)))
    return any(name.casefold() in said for name in names)


OF_ALL = {("query", "quantity"), ("survey", "any"), ("survey", "all")}


def done_text(episode: Episode, rng: random.Random) -> str:
    """A random phrase that says "done"."""
    return rng.choice(home_grammar(episode.blueprint.language).plain_texts("done"))


def messages_of_turn(episode: Episode) -> list[Message]:
    """The messages since the user last spoke, the latest first."""
    return list(takewhile(lambda message: message["role"] != "user", reversed(episode.messages)))


def remaining_calls(plan: Sequence[Call], episode: Episode) -> list[Call]:
    """The calls of a plan that the current turn has not made yet, or whose message was refused."""
    accepted = [step.message for step in episode.steps if step.facts.turn == episode.turn and not step.has_failed]
    made = writer_of(episode).was_made_in(accepted)
    return [call for call in plan if not made(call)]


def calls_with_effect(calls: list[Call], episode: Episode) -> list[Call]:
    """The calls that would change the home now; all calls if none would."""
    probe, kept = home_situation_of(episode).home.fork(), []
    for call in calls:
        key = probe.state_key()
        try:
            probe.call(call.did, call.service, call.args)
        except Refused:  # for example, pausing a player that is paused
            continue
        kept += [call] if probe.state_key() != key else []
    return kept or calls


# Mistakes: what an agent writes in place of the calls of a wish. `plan` may be empty, for a wish without calls.


def _wrong_device(plan: list[Call], intent: Intent, episode: Episode, rng: random.Random) -> Message:
    others = [d.did for d in home_situation_of(episode).home.plan.devices if d.did not in intent.devices] or ["0000"]
    other = rng.choice(others)
    calls = [call.model_copy(update={"did": other}) for call in plan]
    return writer_of(episode).write_calls(calls) if calls else _false_claim(plan, intent, episode, rng)


def _wrong_service(plan: list[Call], intent: Intent, episode: Episode, rng: random.Random) -> Message:
    """The right device, but the last call is written as another product has it, such as `player.set_volume` for a TV."""
    device = home_situation_of(episode).home.plan.devices_by_did.get(plan[-1].did) if plan else None
    others = sorted(_similar_services(plan[-1].service) - device.spec.service_index.keys()) if device else []
    if not others:
        return _wrong_device(plan, intent, episode, rng)
    return writer_of(episode).write_calls([*plan[:-1], plan[-1].model_copy(update={"service": rng.choice(others)})])


@lru_cache
def _similar_services(service: str) -> frozenset[str]:
    """The services of all products whose names share a word with this one, as `set_speed` and `fan.set_speed_level` do."""
    words = {*service.rpartition(".")[2].split("_")} - {"set"}
    parts = (part for spec in Catalogue.load_shipped().values() for part in spec.parts_by_prefix())
    written = ((prefix, other.name) for prefix, part in parts for other in part.services)
    return frozenset(prefix + name for prefix, name in written if words & {*name.split("_")})


def _wrong_value(plan: list[Call], intent: Intent, episode: Episode, rng: random.Random) -> Message:
    args = plan[-1].args if plan else ()
    if args and isinstance(args[-1], (int, float)) and not isinstance(args[-1], bool):
        wrong = plan[-1].model_copy(update={"args": (*args[:-1], args[-1] + rng.choice((-10, 7, 500)))})
        return writer_of(episode).write_calls([*plan[:-1], wrong])
    return _wrong_device(plan, intent, episode, rng)


def _only_last_call(plan: list[Call], intent: Intent, episode: Episode, rng: random.Random) -> Message:
    return writer_of(episode).write_calls(plan[-1:]) if plan else _false_claim(plan, intent, episode, rng)


def _false_claim(plan: list[Call], intent: Intent, episode: Episode, rng: random.Random) -> Message:
    return writer_of(episode).write_reply(done_text(episode, rng))


def _garbled_call(plan: list[Call], intent: Intent, episode: Episode, rng: random.Random) -> Message:
    return writer_of(episode).write_garbled_call(plan[0]) if plan else _false_claim(plan, intent, episode, rng)


MISTAKES = (_wrong_device, _wrong_service, _wrong_value, _only_last_call, _false_claim, _garbled_call)
