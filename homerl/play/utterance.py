"""What a user says."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Utterance:
    """What a user says, and of which intent. An empty text means that the user stops. `tokens` is what saying it took,
    `prompt_tokens` that of what it was made from, `requests` how often a model was asked for it."""

    text: str
    intent_id: int | None = None
    tokens: int = field(default=0, compare=False)
    prompt_tokens: int = field(default=0, compare=False)
    requests: int = field(default=1, compare=False)
