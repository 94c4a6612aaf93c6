"""The lamp as an environment, and as an episode sees it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

from homerl.envs.lamp.blueprint import LampBlueprint

from homerl.envs.core.messages import Message
from homerl.envs.core.world import Action, World
from homerl.play.situation import Situation

TELL = "You run a home with one lamp. Set its level with the tool, then say that it is done."
LEVEL = {"type": "integer", "minimum": 0, "maximum": 100}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "set_level",
            "description": "Dim the lamp; 0 is off.",
            "parameters": {"type": "object", "properties": {"level": LEVEL}, "required": ["level"]},
        },
    }
]


class LampEnv(World):
    """A lamp at a level from 0 to 100."""

    tools = TOOLS

    def __init__(self, level: int, wanted: int) -> None:
        self.level, self.wanted = level, wanted

    def fork(self) -> Self:
        return type(self)(self.level, self.wanted)

    def state_key(self) -> str:
        return f"lamp {self.level}"

    def step(self, action: Action) -> tuple[str, float, bool, bool, dict[str, Any]]:
        before, old = self._progress(), self.level
        blocked = self._refusal(action)
        if blocked is None:
            self.level = action["level"]
        info = {
            "progress": self._progress(),
            "blocked": blocked,
            "error": None,
            "changed": ("lamp.level",) * (old != self.level),
        }
        text = f"refused: {blocked['rule']}: {blocked['message']}" if blocked else "ok"
        return text, self._progress() - before, self._progress() == 1.0, False, info

    def _progress(self) -> float:
        return float(self.level == self.wanted)

    def _refusal(self, action: Action) -> dict[str, str] | None:
        if action.get("name") != "set_level":
            return {"rule": "unknown_tool", "message": "there is no such tool"}
        level = action.get("level")
        if type(level) is not int or not 0 <= level <= 100:
            return {"rule": "out_of_range", "message": "a level is a whole number from 0 to 100"}
        return None


@dataclass
class LampSituation(Situation):
    """See `homerl.play.situation.Situation`."""

    blueprint: LampBlueprint
    world: LampEnv

    @classmethod
    def begin(cls, blueprint: LampBlueprint) -> LampSituation:
        return cls(blueprint, LampEnv(blueprint.start, blueprint.wanted[0]))

    def opening(self) -> list[Message]:
        return [{"role": "system", "content": TELL}]

    def fork(self) -> LampSituation:
        return LampSituation(self.blueprint, self.world.fork())

    def met(self) -> tuple[bool, ...]:
        return (self.world.level == self.world.wanted,)

    def open_intents(self) -> list[Any]:
        return [] if all(self.met()) else list(self.blueprint.intents)

    def mark(self) -> int:
        return self.world.level

    def changed_since(self, mark: int) -> tuple[str, ...]:
        return ("lamp.level",) if mark != self.world.level else ()
