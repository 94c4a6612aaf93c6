"""Home Assistant's matcher first, and another agent for the rest.

The matcher knows whole sentences, in a few milliseconds, but neither what was said before nor what a person may have meant.
So it takes a sentence only if

- the agent has not just asked something: the answer to a question is no new wish;
- the sentence names the device or the place itself. Where the person speaks counts in the first sentence of a dialogue:
  after talk of another room, "turn on the lights" may mean that one;
- no other device of the kind may be meant: beside a Ceiling Fan, "the fan" is not surely the one that is just called Fan;
- what it would write on a list is a name alone: "milk and eggs" are two items, and "no milk" is none. In a language whose
  words for "no" are not listed (`serving/consent.yaml`), it writes nothing;
- the home refuses none of the calls.

Questions are never taken, and neither are several wishes, exceptions, times or conditions, nor what refers to something
("it", "the other one"): Home Assistant has no sentences for these. `docs/results/matcher_first.md` has what that costs and
saves.

Invariant: an episode sees the matcher's calls as those of any agent, so guard, consent, exposure and modes hold alike.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from homerl.envs.assistant.listing.room_and_device_names import SPACELESS, full_device_names, normalize_text, room_names
from homerl.envs.assistant.serving.consent import denying_words
from homerl.envs.assistant.serving.kind_words import kind_words, split_words
from homerl.envs.assistant.serving.reply_text import QUESTION_MARKS
from homerl.envs.homeenv.sim.home import Home
from homerl.envs.homeenv.sim.values.auditor import Refused
from homerl.envs.homeenv.tasks.blueprint import Call
from homerl.envs.homeenv.tasks.situation import home_situation_of, writer_of
from homerl.play.episode import Episode
from homerl.play.loop import Agent, replies_from
from homerl.play.situation import Reply
from homerl.worlds.contract import FirstAgent, FirstAgentTally


class MatcherFirst:
    """Takes what the matcher understands for sure. `language` is that of the people; None is that of the task."""

    def __init__(self, agent: Agent, language: str | None = None, tally: FirstAgentTally | None = None) -> None:
        self.agent, self.language, self.tally = agent, language, tally or FirstAgentTally()
        self.took = False

    @property
    def name(self) -> str:
        """The name in records."""
        return f"hassil, then {self.agent.name}"

    async def consult(self, episode: Episode, n: int = 1) -> Sequence[Reply]:
        """The matcher's calls and then its "Done.", or what the other agent says."""
        begun = time.perf_counter()
        if episode.messages[-1]["role"] == "user":
            calls = calls_for_matcher(episode, self.language or episode.blueprint.language)
            self.took = bool(calls)
            self.tally.asked += 1
            self.tally.first.append(time.perf_counter() - begun)
            if calls:
                self.tally.took.append(episode.blueprint.id)
                return [Reply(writer_of(episode).write_calls(calls))]
        elif self.took and not episode.steps[-1].has_failed:
            return [Reply(writer_of(episode).write_reply("Done."))]
        self.took = False
        try:
            return await replies_from(self.agent, episode, n)
        finally:
            self.tally.other.append(time.perf_counter() - begun)


def _put_matcher_first(agents: Callable[[], Agent], tally: FirstAgentTally) -> Callable[[], MatcherFirst]:
    from homerl.envs.homeenv.agents.matcher_agent import HassilAgent

    HassilAgent()  # which may lack its package
    return lambda: MatcherFirst(agents(), tally=tally)


FIRST = FirstAgent("hassil", "homeenv", _put_matcher_first)


def calls_for_matcher(episode: Episode, language: str) -> list[Call]:
    """The calls of the last sentence if it is the matcher's to take; none if it is the other agent's."""
    said, before = episode.messages[-1]["content"], [one for one in episode.messages if one["role"] == "assistant"]
    if before and str(before[-1].get("content") or "").rstrip().endswith(QUESTION_MARKS):
        return []
    return match_certain_calls(home_situation_of(episode).home, said, language, placed=not before)


def match_certain_calls(home: Home, said: str, language: str, placed: bool = True) -> list[Call]:
    """The calls that a sentence means for sure. `placed` says whether it may be about where the person speaks."""
    from homerl.envs.homeenv.tasks.sentences.matching import calls_of_sentence  # its package comes with an extra

    calls = calls_of_sentence(home, said, language, placed)
    if not calls or _may_mean_another(home, calls, said) or not all(_is_name_alone(call, said, language) for call in calls):
        return []
    twin = home.fork()
    try:
        for call in calls:
            twin.call(call.did, call.service, call.args)
    except Refused:
        return []
    return calls


def _is_name_alone(call: Call, said: str, language: str) -> bool:
    """Whether what a call adds to a list stands in the sentence in whole words, none of which any sentence may have, and the
    sentence denies nothing."""
    if call.service.rpartition(".")[2] != "add_item":
        return True
    heard, denying = split_words(said), denying_words(language)
    spaced = f" {' '.join(heard)} "
    if not denying or any(f" {one} " in spaced or (SPACELESS.search(one) and one in "".join(heard)) for one in denying):
        return False
    item, common = " ".join(split_words(str(call.args[0]))), kind_words(language).common
    if SPACELESS.search(item):
        return True
    return f" {item} " in spaced and common.isdisjoint(item.split())


def _may_mean_another(home: Home, calls: Sequence[Call], said: str) -> bool:
    """Whether one device is called by a word that ends what another of its kind is called, and the place does not tell."""
    if len(dids := {call.did for call in calls}) > 1:
        return False
    device, heard = home.plan.devices_by_did[dids.pop()], normalize_text(said)
    if device.room == home.plan.entrance_room or any(normalize_text(room) in heard for room in room_names(home, device)):
        return False
    own = {name for name in map(normalize_text, full_device_names(home, device)) if name in heard}
    others = [one for one in home.plan.devices if one.did != device.did and one.spec.category == device.spec.category]
    names = [normalize_text(name) for one in others for name in full_device_names(home, one)]
    return bool(own) and all(any(name.endswith(f" {one}") for name in names) for one in own)
