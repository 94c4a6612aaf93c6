"""The number format of a model that this process loads for chats, benchmarks and served agents."""

from pathlib import Path

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from homerl.app.served import model_agents


@pytest.mark.parametrize("stored", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("multiplies", [False, True])
def test_a_processor_that_multiplies_bfloat16_takes_models_in_it(
    stored: torch.dtype, multiplies: bool, tiny: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    AutoModelForCausalLM.from_pretrained(tiny, dtype=stored).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(tiny).save_pretrained(tmp_path)
    monkeypatch.setattr(model_agents, "has_bfloat16_cpu", lambda: multiplies)
    engine = model_agents.load_local_engine(str(tmp_path), cpu=True, max_tokens=8)
    assert engine.model.dtype == (torch.bfloat16 if multiplies and stored == torch.bfloat16 else torch.float32)
