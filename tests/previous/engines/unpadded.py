"""`unpadded`: `generate` on few prompts at a time, so that little is padded."""

from pydantic import Field

from envs.model import Model
from homerl.train.engines.contract import EngineKind, MemoryUse
from homerl.train.engines.transformers import InPlace


class UnpaddedKeys(Model):
    prompts: int = Field(1, ge=1, description="Of `unpadded`: number of prompts that are sampled at a time.")


class Unpadded(EngineKind):
    name, keys = "unpadded", UnpaddedKeys
    sentence = "`generate` on few prompts at a time"
    exact = True  # the trainer's own forward pass, with the weights in training

    def make(self, settings, tokenizer, seed, in_shards):
        return InPlace(tokenizer, settings.max_tokens, settings.temperature, settings.engine.prompts)

    def refuse(self, recipe, spread):
        if spread in ("zero3", "fsdp2"):
            yield f"engine unpadded needs whole weights, and {spread} shards them", "rlve.engine", "use `transformers`"

    def memory(self, settings, sizes):
        return MemoryUse(sampling={"cache": sizes.cache * settings.engine.prompts})


ENGINE = Unpadded()
