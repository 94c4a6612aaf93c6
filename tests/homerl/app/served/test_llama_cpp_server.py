"""`homerl serve FILE.gguf`: llama.cpp's own server answers for the file, with a key if it has one."""

from __future__ import annotations

from pathlib import Path

import openai
import pytest
from agent_served import free_port
from tiny_agent import make_agent
from transformers import AutoConfig

from homerl.app.served.llama_cpp_server import start_gguf_server
from homerl.app.served.model_agents import find_served_model
from homerl.envs.core.documents import InputError
from homerl.host.web_server import ServerAddress
from homerl.report.cards.gguf_and_ollama import write_gguf
from homerl.train.training_setup import load_chat_tokenizer


@pytest.fixture(scope="module")
def gguf(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = make_agent(tmp_path_factory.mktemp("gguf") / "run") / "model"
    file = folder.parent / "my-agent-f16.gguf"
    write_gguf(folder, file, "f16", AutoConfig.from_pretrained(folder), load_chat_tokenizer(str(folder)))
    return file


def test_it_answers_under_the_name_of_the_file_and_wants_its_key(gguf: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = start_gguf_server(gguf, ServerAddress(port=free_port(), key="secret"), max_tokens=4)
    url = f"{server.listening_address}/v1"
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert find_served_model(url) == "my-agent-f16"
    asked = [{"role": "user", "content": "Turn on the light."}]
    with openai.OpenAI(base_url=url, max_retries=0) as client:
        answer = client.chat.completions.create(model="my-agent-f16", messages=asked, temperature=0)
        assert answer.usage and 1 <= answer.usage.completion_tokens <= 4
    with openai.OpenAI(base_url=url, api_key="another", max_retries=0) as client, pytest.raises(openai.AuthenticationError):
        client.chat.completions.create(model="my-agent-f16", messages=asked)


def test_what_is_no_gguf_file_is_refused_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "words.gguf").write_text("Words, and no model.")
    (tmp_path / "cut.gguf").write_bytes(b"GGUF\x03\x00\x00\x00")
    for name, why in (("none", "no such file"), ("words", "no GGUF file"), ("cut", "cannot load it")):
        with pytest.raises(InputError, match=why) as raised:
            start_gguf_server(tmp_path / f"{name}.gguf", ServerAddress(port=free_port()), 4)
        assert f"{name}.gguf" in str(raised.value)
