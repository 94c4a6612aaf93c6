"""Plays homes by verifiers 0.4 and prints what a trainer gets: the score, and the reward of each message of the agent.

python interop/examples/verifiers_steps.py http://localhost:8000/v1 MODEL 20
"""

import asyncio
import sys

import verifiers.v1 as vf


async def play_homes(url: str, model: str, count: int) -> list[vf.Trace]:
    """The traces of one episode of each task."""
    config = vf.resolve_env_config(
        {
            "taskset": {"id": "homerl-homes", "suite": "smarthome-bench", "count": count},
            "agent": {"runtime": {"type": "subprocess"}},  # the home is in this process, and no container is needed
        }
    )
    env = vf.load_environment(config)
    client = vf.EvalClientConfig(base_url=url, api_key_var="OPENAI_API_KEY")
    ctx = vf.ModelContext(model=model, client=client, sampling=vf.SamplingConfig(temperature=1.0))
    async with env.serving():
        episodes = await asyncio.gather(*(env.run_episode(task, ctx) for task in env.taskset))
    return [trace for episode in episodes for trace in episode.traces]


if __name__ == "__main__":
    for trace in asyncio.run(play_homes(sys.argv[1], sys.argv[2], int(sys.argv[3]))):
        if trace.ok:  # else a server or the person failed, and the episode says nothing about the agent
            steps = [round(sum(parts.values()), 3) for parts in trace.info["step_rewards"]]
            print(f"{trace.reward:.0f}  {steps}  {trace.task.data.description}")
