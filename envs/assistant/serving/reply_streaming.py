"""What of an answer is spoken before its last word.

The rule: a sentence of the model is spoken as soon as it is whole, if guard and honesty have nothing to say about it,
whatever comes after it. So nothing was called yet and nothing was tried in vain; `ReplyWriter.is_certain` says that it is
heard in any case; and it holds no sign of a call, a thought or a secret. A sentence that may not be spoken waits for those
after it, and they for it. What follows from calls is told at the end alone.

Invariant: what was spoken is the beginning of the reply.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Protocol, cast, runtime_checkable

from homerl.envs.assistant.serving.live_situation import LiveSituation
from homerl.envs.assistant.serving.secret_masking import mask_secrets, secrets_in_reply
from homerl.play.episode import Episode
from homerl.play.situation import Reply

SENTENCE = re.compile(r"\s*\S.*?(?:[.!?…][\"'”’)]*(?=\s)|[。！？]|(?=\n))", re.DOTALL)
SIGNS = re.compile(r"[<>{}\[\]|`=]|\w_\w")  # of calls and thoughts, and of ids


@runtime_checkable
class StreamingAgent(Protocol):
    """An agent whose messages can be heard as they are written."""

    told: Callable[[str], None] | None


def is_free_of_calls(text: str, episode: Episode, fields: frozenset[str]) -> bool:
    """Whether no call has to do with a text of the agent, and no secret is in it. `fields` are those of passwords."""
    situation, message = cast(LiveSituation, episode.situation), {"role": "assistant", "content": text}
    tried = any(step.has_failed for step in episode.steps) or any(one.rule or one.refused for one in situation.attempts)
    hidden = mask_secrets(text, secrets_in_reply(Reply(message), fields)) != text
    return not (situation.made_calls or tried or hidden)


class SentenceSpeaker:
    """Speaks whole sentences of a model's messages. `may` tells whether the text so far, with the next sentence, is fit."""

    def __init__(self, speak: Callable[[str], None], may: Callable[[str], bool]) -> None:
        self._speak, self._may = speak, may
        self.spoken = self.begun = self._rest = ""  # of all messages; of the present one, and what waits
        self._whole = 0  # where the whole sentences of `_rest` end, which wait

    def start_message(self) -> None:
        """Hear the next message."""
        self.begun, self._rest, self._whole = "", "", 0

    def hear_text(self, text: str) -> None:
        """Hear the next part of a message."""
        self._rest += text
        while found := SENTENCE.match(self._rest, self._whole):
            self._whole = found.end()
            told = self._rest[: self._whole]
            told = told if self.begun else told.lstrip()
            gap = " " if self.spoken and not self.begun else ""
            if SIGNS.search(told) or not self._may(self.spoken + gap + told):
                continue
            self._rest, self._whole = self._rest[self._whole :], 0
            self.begun, self.spoken = self.begun + told, self.spoken + gap + told
            self._speak(gap + told)

    def hear_again(self) -> None:
        """Speak what has waited, if it may be spoken now."""
        self._whole = 0
        self.hear_text("")

    def complete_reply(self, reply: str) -> str:
        """The reply with what was spoken: the last message goes on, or the reply follows. What precedes it comes last."""
        if self.begun and self.begun in reply:
            before, _, rest = reply.partition(self.begun)
            return " ".join(filter(None, (f"{self.spoken}{rest}", before.strip())))
        return f"{self.spoken} {reply}".strip() if self.spoken else reply
