"""What samples the policy, chosen by recipe. All take token ids and give token ids.

Invariants: an engine samples with the weights of the last `sync`, says so in every sample's version, and a sample is of
one version whole; sampling is plain (the recipe's temperature, no cut-offs), so that its log-probabilities are the
loss's.
"""

from __future__ import annotations

from typing import Any

from homerl.train.recipe import RLVESettings


def make_engine(settings: RLVESettings, tokenizer: Any, seed: int, in_shards: bool = False) -> Any:
    """The recipe's engine; `attach` gives it the trainer, whose weights may be in shards."""
    sampling = (tokenizer, settings.max_tokens, settings.temperature)
    match settings.engine.kind:
        case "transformers":
            from homerl.train.engines.generate import InPlace, Snapshot

            kind = Snapshot if settings.async_rollouts or in_shards else InPlace
            return kind(*sampling, settings.engine.batch)
        case "continuous":
            from homerl.train.engines.continuous import Continuous

            return Continuous(*sampling, settings.engine.gpu_memory, seed)
        case "vllm":
            from homerl.train.engines.colocated import Colocated

            return Colocated(*sampling, settings.engine.sleep)
        case "server":
            from homerl.train.engines.server import Server

            return Server(*sampling, settings.engine)


def engine_arguments(settings: RLVESettings) -> dict[str, Any]:
    """TRL's arguments for the engines whose weights it syncs."""
    engine = settings.engine
    if engine.kind not in ("vllm", "server"):
        return {}
    shared = {"use_vllm": True, "vllm_max_model_length": settings.max_episode_tokens + settings.max_tokens}
    if engine.kind == "vllm":
        own = {"vllm_gpu_memory_utilization": engine.gpu_memory, "vllm_enable_sleep_mode": engine.sleep}
        return shared | own | {"vllm_mode": "colocate"}
    own = {"vllm_server_base_url": engine.url, "vllm_group_port": engine.group_port, "vllm_server_timeout": engine.deadline}
    return shared | own | {"vllm_mode": "server"}
