"""The recipe's `agent`: the program that plays in place of homerl's own loop."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from homerl.envs.core.model import Model


class ProgramSettings(Model):
    """A program that plays; the policy in training is the model that it asks."""

    command: list[Annotated[str, Field(min_length=1)]] = Field(
        min_length=1, description="The program with its arguments, which is started for each turn of the user."
    )
    env: dict[str, str] = Field({}, description="Variables of its environment, with their values.")
    pass_env: list[Annotated[str, Field(min_length=1)]] = Field(
        [],
        description="Names of variables that it gets from the run's environment, such as keys. It always gets PATH, HOME "
        "and others that a program needs to start.",
    )
    seconds: float = Field(600.0, gt=0, description="Seconds that a turn may take; after that the agent has failed.")
    at_once: int = Field(16, ge=1, description="Most programs that a rank runs at the same time.")
