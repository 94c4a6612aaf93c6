"""Homes in verl 0.9: an agent loop. Its data set is what `homerl export-data` writes from the same recipe."""

import json
from uuid import uuid4

from verl.experimental.agent_loop.agent_loop import AgentLoopBase, AgentLoopOutput, register

import homerl

TASKS = {split: homerl.load_tasks("recipes/rlve_full.yaml", split=split) for split in ("train", "heldout")}


@register("homerl_home")
class HomeAgentLoop(AgentLoopBase):
    async def run(self, sampling_params, **row):
        env = await TASKS[json.loads(row["blueprint"])["split"]][int(row["task"])].start_async()
        messages, mask, scores, logprobs = env.messages, [], [], None
        ids = await self.ct_build_initial_tokens(messages, tools=env.tools)
        request, limit = uuid4().hex, self.rollout_config.response_length
        while not env.done and len(mask) < limit:
            said = await self.server_manager.generate(request, prompt_ids=ids, sampling_params=sampling_params)
            known = (logprobs or []) if said.log_probs else None
            merged, mask, logprobs = await self.ct_merge_assistant_token(ids, said.token_ids, mask, known, said.log_probs)
            ids = merged.token_ids
            turn = await env.step_async(self.tokenizer.decode(said.token_ids, skip_special_tokens=True))
            scores.append(turn.reward)
            told, messages = [*messages, turn.new_messages[0]], [*messages, *turn.new_messages]
            if not turn.done:
                merged, mask, logprobs = await self.ct_merge_context_msg(told, messages, ids, mask, logprobs, env.tools)
                ids = merged.token_ids
        start = len(ids) - len(mask)
        return AgentLoopOutput(
            prompt_ids=ids[:start], response_ids=ids[start:][:limit], response_mask=mask[:limit],
            response_logprobs=logprobs[:limit] if logprobs else None, reward_score=sum(scores),
            num_turns=len(scores) + 1, metrics={}, extra_fields={"turn_scores": scores, "tool_rewards": []},
        )  # fmt: skip
