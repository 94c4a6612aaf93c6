"""The Modelfile: its template writes the dialogues that ours writes. Go renders it, where Go is installed."""

import json
import shutil
import subprocess
from pathlib import Path

import jinja2
import pytest
from tiny_agent import DIALOGUE, TOOLS, prompts

from homerl.models.policy.chat_template import build_chat_template, without_generation_tags
from homerl.report.cards.gguf_and_ollama import go_chat_template, render_modelfile

RENDERER = Path(__file__).parents[3] / "helpers/go_template/main.go"
HTML = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"}


def go_json(value) -> str:
    """JSON as Go's encoder writes it."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    return "".join(HTML.get(sign, sign) for sign in text)


def parsed(message: dict) -> dict:
    """A message with its calls' arguments as objects."""
    calls = [call["function"] for call in message.get("tool_calls", ())]
    functions = [{"function": {**call, "arguments": json.loads(call["arguments"])}} for call in calls]
    return {**message, "tool_calls": functions}


@pytest.mark.parametrize(
    ("shown", "silent", "named"), [(True, False, False), (False, False, False), (True, True, False), (True, False, True)]
)
@pytest.mark.skipif(shutil.which("go") is None, reason="scripts/check_gguf brings Go")
def test_go_writes_what_jinja_writes(shown: bool, silent: bool, named: bool, tmp_path: Path):
    (tmp_path / "template").write_text(go_chat_template(build_chat_template(shown, silent, named)))
    dialogues = [
        {"Messages": [parsed(message) for message in dialogue], "Tools": tools}
        for dialogue in (DIALOGUE, *prompts())
        for tools in (TOOLS, [])
    ]
    command = ["go", "run", str(RENDERER), str(tmp_path / "template")]
    done = subprocess.run(command, input=json.dumps(dialogues), capture_output=True, text=True, timeout=280)
    assert done.returncode == 0, done.stderr
    tag, *texts = json.loads(done.stdout)
    environment = jinja2.Environment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = go_json
    template = environment.from_string(without_generation_tags(build_chat_template(shown, silent, named)))
    assert texts == [
        template.render(messages=each["Messages"], tools=each["Tools"], add_generation_prompt=True) for each in dialogues
    ]
    assert tag.split("{")[0].strip() == "<tool_call>"


def test_a_silent_model_writes_after_an_empty_thought_in_ollama_too():
    text = render_modelfile("a.gguf", build_chat_template(silent=True), 40_960)
    assert text.count("<|im_start|>assistant\n<think>\n\n</think>\n\n") == text.count("<|im_start|>assistant") == 2
    assert "<think>" not in render_modelfile("a.gguf", build_chat_template(), 40_960)


def test_tools_are_shown_where_training_showed_them():
    shown, hidden = (render_modelfile("a.gguf", build_chat_template(show), 40_960) for show in (True, False))
    assert "You may call the functions below" in shown
    assert "You may call the functions below" not in hidden
    assert "{{ if $.Tools }}{{ end }}" in hidden  # Ollama refuses tools where a template never names them
    for text in (shown, hidden):
        assert text.startswith("FROM ./a.gguf\n")
        assert text.endswith('PARAMETER stop "<|im_end|>"\nPARAMETER num_ctx 16384\n')
    assert render_modelfile("a.gguf", build_chat_template(), 2048).endswith("num_ctx 2048\n")
