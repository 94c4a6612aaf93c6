"""What a user says."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Utterance:
    """What a user says, and the intent it is about. An empty text means that the user stops.

    `tokens` and `prompt_tokens` are what the utterance and its prompts took, `requests` the number of model requests.
    """

    text: str
    intent_id: int | None = None
    tokens: int = field(default=0, compare=False)
    prompt_tokens: int = field(default=0, compare=False)
    requests: int = field(default=1, compare=False)
