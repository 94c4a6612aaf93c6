"""A real llama.cpp reads an export as transformers does. Skipped unless its binding is installed: scripts/check_gguf."""

from pathlib import Path

import pytest

llama_cpp = pytest.importorskip("llama_cpp", reason="scripts/check_gguf brings it")

import torch  # noqa: E402
from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402
from llama_cpp.llama_chat_format import Jinja2ChatFormatter  # noqa: E402
from tiny_agent import DIALOGUE, TOOLS, make_agent, prompts  # noqa: E402
from transformers import AutoModelForCausalLM, AutoTokenizer  # noqa: E402

from envs.messages import tool_call  # noqa: E402
from homerl.play.messages import parse_reply  # noqa: E402
from homerl.publish.export import export  # noqa: E402

DOCS = Path(__file__).parents[3] / "docs"
NEW_TOKENS = 60


@pytest.fixture(scope="module", params=["qwen3", "llama"])
def run(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    return make_agent(folder, steps=150, show_tools=True, llama=request.param == "llama")


@pytest.fixture(scope="module")
def load(run: Path):
    """Export in a kind, once, and load it into llama.cpp: (folder, model)."""
    made = {}

    def loaded(kind: str):
        if kind not in made:
            folder = export(run, str(run.parent / f"agent-{kind}"), gguf=kind)
            (path,) = folder.glob("*.gguf")
            made[kind] = folder, llama_cpp.Llama(str(path), n_ctx=2048, n_threads=1, verbose=False)
        return made[kind]

    return loaded


def rendered(tokenizer, dialogue: list[dict]) -> str:
    return tokenizer.apply_chat_template(dialogue, tools=TOOLS, tokenize=False, add_generation_prompt=True)


def tokens(model, text: str) -> list[int]:
    return model.tokenize(text.encode(), add_bos=False, special=True)


def greedy(model, prompt: list[int]) -> list[int]:
    """The model's most likely tokens up to the end of the message."""
    model.reset()
    found = []
    for token in model.generate(prompt, temp=0.0, repeat_penalty=1.0):
        if token == model.token_eos() or len(found) == NEW_TOKENS:
            break
        found.append(token)
    return found


@pytest.mark.parametrize(("kind", "dtype"), [("f32", torch.float32), ("f16", torch.float16)])
def test_the_same_greedy_tokens(load, kind: str, dtype):
    folder, model = load(kind)
    tokenizer = AutoTokenizer.from_pretrained(folder)
    ours = AutoModelForCausalLM.from_pretrained(folder).to(dtype).float().eval()  # the weights as they are stored
    spoken = []
    for dialogue in prompts():
        prompt = tokens(model, rendered(tokenizer, dialogue))
        inputs = torch.tensor([prompt])
        out = ours.generate(inputs, attention_mask=torch.ones_like(inputs), do_sample=False, max_new_tokens=NEW_TOKENS)
        expected = [token for token in out[0, len(prompt) :].tolist() if token != tokenizer.eos_token_id]
        assert greedy(model, prompt) == expected
        spoken.append(tokenizer.decode(expected))
    message, malformed = parse_reply(spoken[0])
    assert malformed is None
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["query_status", "pyexec"]
    assert len(set(spoken)) == len(spoken)  # it did not say one thing to everything


def test_eight_bits_answer(load):
    folder, model = load("q8_0")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    said = tokenizer.decode(greedy(model, tokens(model, rendered(tokenizer, prompts()[0]))))
    message, malformed = parse_reply(said)
    assert malformed is None
    assert message["tool_calls"][0] == tool_call("query_status", {"did": "1001"})


def test_text_becomes_the_same_tokens(load):
    folder, model = load("f32")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    texts = [page.read_text() for page in sorted(DOCS.glob("*.md"))]
    texts += [
        rendered(tokenizer, DIALOGUE),
        "a  b\n   c_d __e x==y=1 '  's 12a 1_000\t\t\r\n",
        "打开厨房的灯。Größe 21,5 °C 🙂🙂",
    ]
    for text in texts:
        assert tokens(model, text) == tokenizer(text)["input_ids"]


PIECES = st.sampled_from(["<|im_start|>user\n", "<tool_response>\n", "</tool_response>", "<|im_end|>", '"}}\n</tool_call>'])


@settings(deadline=None)
@given(parts=st.lists(st.one_of(PIECES, st.text(st.characters(max_codepoint=0x24F), max_size=12)), max_size=8))
def test_any_text_becomes_the_same_tokens(load, parts: list[str]):
    folder, model = load("f32")
    text = "".join(parts).replace("\0", "")
    assert tokens(model, text) == AutoTokenizer.from_pretrained(folder)(text)["input_ids"]


def test_the_binding_renders_the_template(load):
    folder, model = load("f32")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    template = model.metadata["tokenizer.chat_template"]
    formatter = Jinja2ChatFormatter(template=template, eos_token="<|im_end|>", bos_token="")
    for dialogue in prompts():
        found = formatter(messages=dialogue, tools=[]).prompt
        assert found == tokenizer.apply_chat_template(dialogue, tokenize=False, add_generation_prompt=True)
