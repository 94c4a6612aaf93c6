"""A real llama.cpp reads an export as transformers does: scripts/check_gguf."""

import math
from pathlib import Path

import httpx
import pytest
import torch
import xllamacpp
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_agent import DIALOGUE, TOOLS, make_agent, on_smollm2, prompts
from transformers import AutoModelForCausalLM, AutoTokenizer

from homerl.envs.core.messages import tool_call
from homerl.play.tool_call_parser import parse_reply
from homerl.report.cards.export import export_model

pytestmark = pytest.mark.long
DOCS = Path(__file__).parents[4] / "docs"
NEW_TOKENS = 60
PROBABLE = 10  # tokens whose probabilities are compared


class LlamaCpp:
    """A GGUF file in llama.cpp's own server."""

    def __init__(self, folder: Path) -> None:
        told = xllamacpp.CommonParams()
        (file,) = folder.glob("*.gguf")
        told.model.path, told.n_ctx, told.n_parallel, told.cpuparams.n_threads = str(file), 2048, 1, 1
        self.folder, self._server = folder, xllamacpp.Server(told)
        (self.end,) = self.tokens("<|im_end|>")

    def ask(self, route: str, **body):
        """The answer of a route of the server."""
        answer = httpx.post(self._server.listening_address + route, json=body, timeout=300).raise_for_status()
        return answer.json()

    def tokens(self, text: str) -> list[int]:
        return self.ask("/tokenize", content=text, add_special=False, parse_special=True)["tokens"]

    def greedy(self, prompt: list[int], most: int = NEW_TOKENS) -> list[int]:
        """The model's most likely tokens before the end of the message."""
        found = self.ask("/completion", prompt=prompt, temperature=0, n_predict=most, return_tokens=True)["tokens"]
        return found[: found.index(self.end)] if self.end in found else found

    def probable(self, prompt: list[int]) -> dict[int, float]:
        """The most likely next tokens, with their probabilities."""
        said = self.ask("/completion", prompt=prompt, temperature=0, n_predict=1, n_probs=PROBABLE)
        return {one["id"]: math.exp(one["logprob"]) for one in said["completion_probabilities"][0]["top_logprobs"]}


@pytest.fixture(scope="module", params=["qwen3", "qwen2", "llama"])
def run(request, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp(request.param) / "run"
    return make_agent(folder, steps=150, show_tools=True, family=request.param)


@pytest.fixture(scope="module")
def load(run: Path):
    """Export in a kind, once, and load it into llama.cpp."""
    made = {}

    def loaded(kind: str) -> LlamaCpp:
        if kind not in made:
            made[kind] = LlamaCpp(export_model(run, str(run.parent / f"agent-{kind}"), gguf=kind))
        return made[kind]

    return loaded


def rendered(tokenizer, dialogue: list[dict]) -> str:
    return tokenizer.apply_chat_template(dialogue, tools=TOOLS, tokenize=False, add_generation_prompt=True)


def expected(model, prompt: list[int], end: int, most: int = NEW_TOKENS) -> list[int]:
    """What transformers samples in place of `greedy`."""
    ids = torch.tensor([prompt])
    out = model.generate(ids, attention_mask=torch.ones_like(ids), do_sample=False, max_new_tokens=most)
    return [token for token in out[0, len(prompt) :].tolist() if token != end]


def apart(model, prompt: list[int], found: dict[int, float]) -> float:
    """The largest difference between probabilities in transformers and in llama.cpp, whose cache is in f16."""
    with torch.no_grad():
        ours = model(torch.tensor([prompt])).logits[0, -1].softmax(-1)
    return max(abs(ours[token].item() - said) for token, said in found.items())


@pytest.mark.parametrize(("kind", "dtype"), [("f32", torch.float32), ("f16", torch.float16)])
def test_the_same_greedy_tokens_and_probabilities(load, kind: str, dtype):
    served = load(kind)
    tokenizer = AutoTokenizer.from_pretrained(served.folder)
    ours = AutoModelForCausalLM.from_pretrained(served.folder).to(dtype).float().eval()  # the weights as they are stored
    spoken = []
    for dialogue in prompts():
        prompt = served.tokens(rendered(tokenizer, dialogue))
        wanted = expected(ours, prompt, tokenizer.eos_token_id)
        assert served.greedy(prompt) == wanted
        assert apart(ours, prompt, served.probable(prompt)) < 0.01
        spoken.append(tokenizer.decode(wanted))
    reply = parse_reply(spoken[0])
    message = reply.message
    assert reply.malformed is None
    assert [call["function"]["name"] for call in message["tool_calls"]] == ["query_status", "pyexec"]
    assert len(set(spoken)) == len(spoken)  # it did not say one thing to everything


@pytest.mark.parametrize("kind", ["q8_0", "q4_k_m"])
def test_few_bits_answer(load, kind: str):
    served = load(kind)
    tokenizer = AutoTokenizer.from_pretrained(served.folder)
    said = tokenizer.decode(served.greedy(served.tokens(rendered(tokenizer, prompts()[0]))))
    reply = parse_reply(said)
    message = reply.message
    assert reply.malformed is None
    assert message["tool_calls"][0] == tool_call("query_status", {"did": "1001"})


@pytest.mark.parametrize("family", ["qwen2", "llama"])
def test_blocks_of_256_are_read_as_they_were_written(tmp_path: Path, family: str):
    """Rows of a model of this width are in 4 and 6 bits, which our smaller ones are not."""
    wide = {"hidden_size": 256, "intermediate_size": 256, "layers": 4}
    run = make_agent(tmp_path / "run", steps=60, show_tools=True, family=family, **wide)
    served = LlamaCpp(export_model(run, str(tmp_path / "agent"), gguf="q4_k_m"))
    tokenizer = AutoTokenizer.from_pretrained(served.folder)
    ours = AutoModelForCausalLM.from_pretrained(served.folder).float().eval()
    for dialogue in prompts():
        prompt = served.tokens(rendered(tokenizer, dialogue))
        assert served.greedy(prompt, 12)[:8] == expected(ours, prompt, tokenizer.eos_token_id, 12)[:8]


@pytest.mark.timeout(1800)  # 135 million parameters, on whatever processor there is
def test_an_adapter_on_smollm2_answers_as_in_transformers(tmp_path: Path):
    served = LlamaCpp(export_model(on_smollm2(tmp_path / "run"), str(tmp_path / "agent"), gguf="q8_0"))
    tokenizer = AutoTokenizer.from_pretrained(served.folder)
    ours = AutoModelForCausalLM.from_pretrained(served.folder).float().eval()
    for dialogue in prompts():
        prompt = served.tokens(rendered(tokenizer, dialogue))
        assert prompt == tokenizer(rendered(tokenizer, dialogue))["input_ids"]
        assert apart(ours, prompt, served.probable(prompt)) < 0.05  # of eight bits
        assert served.greedy(prompt, 12)[:8] == expected(ours, prompt, tokenizer.eos_token_id, 12)[:8]


def test_text_becomes_the_same_tokens(load):
    served = load("f32")
    tokenizer = AutoTokenizer.from_pretrained(served.folder)
    texts = [page.read_text() for page in sorted(DOCS.glob("*.md"))]
    texts += [
        rendered(tokenizer, DIALOGUE),
        "a  b\n   c_d __e x==y=1 '  's 12a 1_000\t\t\r\n",
        "打开厨房的灯。Größe 21,5 °C 🙂🙂",
    ]
    for text in texts:
        assert served.tokens(text) == tokenizer(text)["input_ids"]


PIECES = st.sampled_from(["<|im_start|>user\n", "<tool_response>\n", "</tool_response>", "<|im_end|>", '"}}\n</tool_call>'])


@settings(deadline=None)
@given(parts=st.lists(st.one_of(PIECES, st.text(st.characters(max_codepoint=0x24F), max_size=12)), max_size=8))
def test_any_text_becomes_the_same_tokens(load, parts: list[str]):
    served = load("f32")
    text = "".join(parts).replace("\0", "")
    assert served.tokens(text) == AutoTokenizer.from_pretrained(served.folder)(text)["input_ids"]


def test_llama_cpp_renders_the_template(load):
    served = load("f32")
    tokenizer = AutoTokenizer.from_pretrained(served.folder)
    for dialogue in prompts():
        assert served.ask("/apply-template", messages=dialogue, tools=TOOLS)["prompt"] == rendered(tokenizer, dialogue)
