"""How transformers reads what a model that homerl trained has written: its `response_template`.

A chat template writes messages; a response template reads them. Both are saved with a tokenizer. TRL's trainers with tools
and `transformers serve` read by it, and know no template of homerl's by heart.

Invariants:
- What it reads is what `parse_reply` reads, where all calls are well formed.
- A tokenizer without homerl's template keeps the response template that it has.
"""

from __future__ import annotations

import re
from typing import Any

from homerl.models.policy.chat_template import USER, chat_format_of, is_homerl_template


def set_response_template(tokenizer: Any) -> None:
    """Let transformers read the replies of a tokenizer whose chat template is homerl's."""
    if not is_homerl_template(str(tokenizer.chat_template)):
        return
    form = chat_format_of(tokenizer)
    asked = form.render_dialogue(tokenizer, [USER], add_generation_prompt=True)
    before = asked.rpartition(USER["content"])[2]  # between what was heard and what the assistant says
    if form.own or not before:
        return
    tokenizer.response_template = {
        "defaults": {"role": "assistant"},
        "start_anchor": before,
        "fields": {
            "reasoning_content": {"open": "<think>", "close_pattern": r"</think>\s*", "content": "text"},
            "tool_calls": {
                "open_pattern": r"\s*<tool_call>",
                "close_pattern": r"</tool_call>\s*",
                "repeats": True,
                "content": "json",
                "transform": {"type": "function", "function": "{content}"},
            },
            "content": {"close_pattern": re.escape(form.end), "content": "text"},
        },
    }
