"""The loop between a model and a home: a message of the model is a step, and the person's answer is part of it."""

from __future__ import annotations

from typing import cast

import verifiers.v1 as vf
from openai import APIStatusError, AsyncOpenAI, omit

from homerl_homes.taskset import HomeData, find_home_task


class HomeHarnessConfig(vf.HarnessConfig):
    pass


class HomeHarness(vf.Harness[HomeHarnessConfig]):
    """Plays in this process. All calls of the model go to the endpoint of verifiers, which records them."""

    APPENDS_SYSTEM_PROMPT = True  # the prompt of a home has its system message
    EXECUTES_CODE = False  # what agents may run, the home runs in its own sandbox
    NEEDS_CONTAINER = False

    async def launch(
        self,
        ctx: vf.ModelContext,
        trace: vf.Trace,
        runtime: vf.Runtime,
        endpoint: str,
        secret: str,
        mcp_urls: dict[str, str],
        data: vf.TaskData,
    ) -> vf.ProgramResult:
        row = cast(HomeData, data)
        env = await find_home_task(row).start_async(row.seed)
        messages, step_rewards, total = env.messages, list[dict[str, float]](), 0.0
        turn_rewards: list[float | None] = []
        counts, outcome = True, None
        trace.info |= {"step_rewards": step_rewards, "turn_rewards": turn_rewards, "outcome": None, "progress": env.progress}
        async with AsyncOpenAI(base_url=endpoint, api_key=secret, timeout=None) as model:
            while not env.done:
                try:
                    reply = await model.chat.completions.create(model=ctx.model, messages=messages, tools=env.tools or omit)
                except APIStatusError:
                    if trace.stop_condition is None:
                        raise
                    break  # a limit of the run
                said = reply.choices[0].message.model_dump(exclude_none=True)
                turn = await env.step_async(said)
                messages += [said, *turn.new_messages[1:]]
                total += turn.reward
                step_rewards.append(dict(turn.rewards))
                turn_rewards.append(total)
                counts, outcome = turn.counts, turn.outcome
                trace.info |= {"outcome": outcome, "progress": env.progress}
        if not counts:
            raise RuntimeError(f"the episode says nothing about the agent ({outcome}): play it again")
        return vf.ProgramResult(exit_code=0, stdout="", stderr="")
