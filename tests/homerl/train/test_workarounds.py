"""Each patch of another library: the fault is there without it, and not with it. A test that says "this workaround can go"
has found a library that needs its patch no more."""

import ast
import gc
import importlib.util
import inspect
import json
import re
import subprocess
import sys
import threading
import weakref
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from forked import python

from homerl.models.policy import faster_decoding as grouped_decoding
from homerl.models.policy import faster_decoding as roomy_layer
from homerl.models.policy import transformers_engine as memory_errors
from homerl.train import workarounds
from homerl.train.parallel.parallel_trainer import ParallelTrainer
from homerl.train.workarounds import CompleteCheckpoints

GO = "this workaround can go: "
TREE = ast.parse(Path(workarounds.__file__).read_text(encoding="utf-8"))
PATCHES = [node for node in TREE.body if isinstance(node, ast.FunctionDef | ast.ClassDef)]
TESTED_WITH = {"forget_zero3_config": "load_unsharded"}  # the same defect
NO_DEEPSPEED = pytest.mark.skipif(importlib.util.find_spec("deepspeed") is None, reason="deepspeed is not installed")
ONE_RANK = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "OMP_NUM_THREADS": "1"}


def ran(code: str, **environment: str) -> dict:
    """What a script says in a process of its own, as its last line."""
    done = python(code, **environment)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("patch", [one for one in PATCHES if one.name not in TESTED_WITH], ids=lambda patch: patch.name)
def test_a_workaround_says_what_it_is_for_and_is_tested(patch):
    said = ast.get_docstring(patch)
    assert "\nVersions: " in said and "\nUpstream: " in said
    assert "https://github.com/" in said or ("no upstream issue known" in said and "To reproduce: " in said)
    tree = ast.parse(Path(__file__).read_text(encoding="utf-8"))
    tests = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
    name = re.sub("(?<!^)(?=[A-Z])", "_", patch.name).lower()
    assert f"test_{name}" in tests


def test_nothing_is_applied_by_importing():
    patched = ("torch", "transformers", "accelerate", "trl", "peft", "deepspeed")
    code = f"import sys, homerl.train.workarounds; print([name for name in {patched} if name in sys.modules])"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip() == "[]"


# TRL


def test_score_labelled_positions():
    """Three prompts without a label cost the head nothing."""
    code = """
import json, torch
from torch.utils.flop_counter import FlopCounterMode
from transformers import Qwen3Config, Qwen3ForCausalLM
from trl.trainer.utils import add_fused_lm_head
from homerl.train.workarounds import score_labelled_positions
model = Qwen3ForCausalLM(Qwen3Config(vocab_size=64, hidden_size=16, intermediate_size=16, num_hidden_layers=1, head_dim=8,
                                     num_attention_heads=2, num_key_value_heads=2))
add_fused_lm_head(model)
ids, counts = torch.ones(3, 10, dtype=torch.long), []
for apply in (lambda: None, score_labelled_positions):
    apply()
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        model(ids, labels=torch.full_like(ids, -100), fused_lm_head=True)
    counts.append(counter.get_total_flops())
print(json.dumps(counts))
"""
    without, patched = ran(code)
    head = 3 * 9 * 64 * 16 * 2
    assert patched < without, GO + "TRL scores labelled positions only"
    assert without - patched == head


# TRL and vLLM


def test_wake_vllm():
    from trl.generation.vllm_generation import VLLMGeneration

    verbs = {name for name, value in vars(VLLMGeneration).items() if callable(value) and not name.startswith("_")}
    assert verbs == {"generate", "sync_weights"}, GO + f"TRL has public verbs for its vLLM: {sorted(verbs)}"
    assert "self._llm_weights_sleeping" in inspect.getsource(VLLMGeneration.generate), "TRL keeps that flag otherwise now"
    calls: list[str] = []
    llm = SimpleNamespace(wake_up=lambda tags: calls.append(f"wake {tags[0]}"), sleep=lambda level: calls.append("sleep"))
    made = SimpleNamespace(llm=llm, sync_weights=lambda: calls.append("weights"), _llm_weights_sleeping=True)
    with workarounds.wake_vllm(made):
        calls.append("samples")
    assert calls == ["weights", "wake kv_cache", "samples", "sleep"] and made._llm_weights_sleeping


def test_add_vllm_options(monkeypatch):
    from trl.generation import vllm_generation

    assert "hf_overrides" not in inspect.signature(vllm_generation.VLLMGeneration).parameters, GO + "TRL passes it on"
    monkeypatch.setattr(vllm_generation, "LLM", lambda **options: options, raising=False)
    plain = vllm_generation.LLM
    with workarounds.add_vllm_options({"hf_overrides": {"head_dtype": "float32"}}):
        assert vllm_generation.LLM(seed=1) == {"seed": 1, "hf_overrides": {"head_dtype": "float32"}}
    assert vllm_generation.LLM is plain
    with workarounds.add_vllm_options({}):
        assert vllm_generation.LLM is plain


def test_send_key_to_vllm(monkeypatch):
    """TRL's own client, whose server answers who brings the key; it tells everybody that it runs."""
    from trl.generation import vllm_client, vllm_generation

    class Keyed(BaseHTTPRequestHandler):
        def do_GET(self):
            known = self.path == "/health" or self.headers["Authorization"] == "Bearer right"
            self.send_response(200 if known else 401)
            self.end_headers()
            self.wfile.write(b'{"data": [{"id": "policy"}], "vllm_config": {"started": true}}')

        do_POST = do_GET

        def log_message(self, *said):
            """Nothing."""

    monkeypatch.setattr(vllm_client, "is_vllm_available", lambda: True)
    plain, server = vllm_generation.VLLMClient, ThreadingHTTPServer(("127.0.0.1", 0), Keyed)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_port}"
    with pytest.raises(Exception, match="401"):
        vllm_generation.VLLMClient(base_url=url)
    assert "api_key" not in inspect.signature(plain).parameters, GO + "TRL sends a key"
    with workarounds.send_key_to_vllm("right"):
        client = vllm_generation.VLLMClient(base_url=url, group_port=1, connection_timeout=5.0)
    assert vllm_generation.VLLMClient is plain and client.model == "policy"
    assert client.get_server_info() == {"started": True}
    client.reset_prefix_cache()
    client._post(f"{url}/update_weights", json={})
    server.shutdown()


# torch, transformers and accelerate


@pytest.mark.parametrize("padded", [False, True])
def test_grouped_decoding(monkeypatch, padded):
    from transformers import Qwen3Config, Qwen3ForCausalLM
    from transformers.integrations import sdpa_attention

    torch.manual_seed(0)
    shape = {"vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 2, "intermediate_size": 48, "head_dim": 8}
    grouped = Qwen3ForCausalLM(Qwen3Config(**shape, num_attention_heads=6, num_key_value_heads=2)).eval()
    whole, copies = sdpa_attention.repeat_kv, []
    monkeypatch.setattr(sdpa_attention, "repeat_kv", lambda *given: copies.append(given) or whole(*given))
    mask = torch.ones(3, 7, dtype=torch.int64)
    mask[1, :4] = 1 - padded
    prompts = {"input_ids": torch.randint(3, 40, (3, 7)), "attention_mask": mask, "max_new_tokens": 5, "pad_token_id": 0}
    asked = {"do_sample": False, "output_logits": True, "return_dict_in_generate": True, "eos_token_id": None}
    plain = grouped.generate(**prompts, **asked)
    copied = len(copies)
    with grouped_decoding.grouped_attention(grouped):
        mended = grouped.generate(**prompts, **asked)
    assert torch.equal(plain.sequences, mended.sequences)
    assert torch.stack(plain.logits) == pytest.approx(torch.stack(mended.logits), abs=1e-5)
    assert copied == 2 * 2 * 5 * padded, GO + "a masked batch of grouped queries is decoded without copies"
    assert len(copies) - copied == 2 * 2 * padded, "the prompt alone"
    assert grouped.config._attn_implementation == "sdpa"


def test_memory_errors():
    from accelerate.utils.memory import should_reduce_batch_size

    for said in memory_errors.UNKNOWN:
        assert not should_reduce_batch_size(RuntimeError(said)), GO + "accelerate knows all errors of memory"
        assert memory_errors.is_out_of_memory(RuntimeError(f"{said} when calling `f`"))
    assert memory_errors.is_out_of_memory(torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2 GiB"))
    assert not memory_errors.is_out_of_memory(RuntimeError("no such kernel"))
    assert not memory_errors.is_out_of_memory(ValueError(memory_errors.UNKNOWN[0]))


def test_roomy_layer():
    from transformers.cache_utils import DynamicLayer

    columns = torch.randn(2, 1, 12, 4).split([5, 1, 1, 1, 4], 2)
    plain, roomy = DynamicLayer(), roomy_layer.roomy_layer_class()(room=3)
    seen: dict[str, list[int]] = {"plain": [], "roomy": []}
    for new in columns:
        for name, layer in (("plain", plain), ("roomy", roomy)):
            layer.update(new, -new)
            seen[name].append(layer.keys.data_ptr())
        assert torch.equal(plain.keys, roomy.keys) and torch.equal(plain.values, roomy.values)
        assert plain.get_seq_length() == roomy.get_seq_length()
    assert len(set(seen["plain"][:4])) > 1, GO + "transformers' own layer has room for new tokens"
    for layer in (plain, roomy):
        layer.batch_select_indices(torch.tensor([1]))
        layer.update(columns[1][1:], columns[2][1:])
    assert torch.equal(plain.keys, roomy.keys) and torch.equal(plain.values, roomy.values)
    assert len(set(seen["roomy"][:4])) == 1 and seen["roomy"][4] != seen["roomy"][3], "it grows when the room is taken"


def test_register_numbered_cpu(tmp_path):
    torch.save(torch.arange(3), tmp_path / "saved.pt")
    said = ran(f"""
import json, torch
from homerl.train.workarounds import register_numbered_cpu
def load():
    try:
        return torch.load({str(tmp_path / "saved.pt")!r}, map_location=torch.device("cpu", 0)).tolist()
    except RuntimeError as error:
        return str(error)
first = load()
register_numbered_cpu(), register_numbered_cpu()
print(json.dumps([first, load()]))
""")
    assert "restore data location" in str(said[0]), GO + "torch loads to `cpu:0`"
    assert said[1] == [0, 1, 2]


class Configured:
    """ZeRO-3, as transformers asks for it."""

    config: dict = {}

    def is_zero3(self) -> bool:
        return True


@pytest.fixture
def zero3(monkeypatch):
    """ZeRO-3 is configured in this process, and DeepSpeed, which would shard a model that is loaded, is not there."""
    from transformers.integrations import deepspeed as integration

    held = Configured()
    monkeypatch.setattr(integration, "_hf_deepspeed_config_weak_ref", weakref.ref(held))
    monkeypatch.setitem(sys.modules, "deepspeed", None)
    yield integration
    del held
    gc.collect()


def test_load_unsharded(zero3, tiny):
    from transformers import AutoModelForCausalLM

    def loads() -> bool:
        try:
            return AutoModelForCausalLM.from_pretrained(tiny) is not None
        except ImportError:  # it asked for DeepSpeed
            return False

    assert not loads(), GO + "a model is loaded whole though ZeRO-3 is configured"
    with workarounds.load_unsharded():
        assert loads()
    assert zero3.is_deepspeed_zero3_enabled() and not loads(), "as before"
    workarounds.forget_zero3_config()
    assert loads()


def test_allow_fsdp_on_cpus(unused_port):
    """One process that was launched is enough for accelerate to call it several on a CPU."""
    said = ran(
        """
import json
from accelerate import Accelerator, FullyShardedDataParallelPlugin
from accelerate.state import AcceleratorState, PartialState
from homerl.train.workarounds import allow_fsdp_on_cpus
def kind():
    made = Accelerator(cpu=True, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
    return str(made.distributed_type.value), made.device.type
first = kind()
AcceleratorState._reset_state()
allow_fsdp_on_cpus()
print(json.dumps([first, kind()]))
""",
        **ONE_RANK,
        MASTER_PORT=unused_port,
    )
    assert said[0] == ["MULTI_CPU", "cpu"], GO + f"accelerate has {said[0]} on several CPUs"
    assert said[1] == ["FSDP", "cpu"]


@pytest.fixture
def unused_port() -> str:
    import socket

    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return str(free.getsockname()[1])


def saving(kinds: tuple[type, ...], folder: Path) -> list[str]:
    """What a trainer of these classes does, in order, from its random numbers to its state."""
    from transformers import TrainerState, TrainingArguments

    done: list[str] = []

    class Recorded(*kinds):
        def _save_rng_state(self, output_dir):
            super()._save_rng_state(output_dir)

    class Linear(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, x, labels):
            return {"loss": (self.layer(x) - labels).square().mean()}

    rows = [{"x": torch.ones(1), "labels": torch.zeros(1)}] * 2
    arguments = TrainingArguments(
        str(folder), max_steps=1, save_steps=1, use_cpu=True, report_to=[], disable_tqdm=True, logging_strategy="no"
    )
    trainer = Recorded(model=Linear(), args=arguments, train_dataset=rows)
    wait, save, write = trainer.accelerator.wait_for_everyone, TrainerState.save_to_json, torch.save
    patch = pytest.MonkeyPatch()
    with patch.context() as patched:
        patched.setattr(trainer.accelerator, "wait_for_everyone", lambda: (done.append("barrier"), wait())[1])
        patched.setattr(TrainerState, "save_to_json", lambda self, path: (done.append("state"), save(self, path))[1])
        patched.setattr(torch, "save", lambda what, to, *rest: (done.append(Path(to).name), write(what, to, *rest))[1])
        trainer.train()
    return done[done.index("rng_state.pth") + 1 : done.index("state") + 1]


def test_complete_checkpoints(tmp_path):
    from transformers import Trainer

    assert saving((Trainer,), tmp_path / "theirs") == ["state"], GO + "a checkpoint's last file waits for all ranks"
    assert saving((CompleteCheckpoints, Trainer), tmp_path / "ours") == ["barrier", "state"]
    assert ParallelTrainer._save_rng_state is CompleteCheckpoints._save_rng_state, "its order of classes hides it"


# DeepSpeed


def test_disable_deepspeed_shm(tmp_path):
    """A lock whose holder was killed."""
    from torch.utils import cpp_extension
    from torch.utils.file_baton import FileBaton

    lock = tmp_path / "lock"
    lock.touch()
    waits = threading.Thread(target=FileBaton(str(lock), wait_seconds=0.01).wait, daemon=True)
    waits.start()
    waits.join(0.3)
    still, used = waits.is_alive(), "FileBaton(" in inspect.getsource(cpp_extension)
    lock.unlink()
    assert still and used, GO + "PyTorch builds under a lock that goes with its holder"


@NO_DEEPSPEED
def test_shm_build_is_left_out():
    said = ran("""
import json, deepspeed.ops
from homerl.train.workarounds import disable_deepspeed_shm
first = "deepspeed_shm_comm" in deepspeed.ops.__compatible_ops__
disable_deepspeed_shm()
print(json.dumps([first, deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"]]))
""")
    assert said == [True, False], "DeepSpeed knows these collectives by another name"


@NO_DEEPSPEED
def test_set_launcher_environment():
    code = """
import json, deepspeed
from homerl.train.workarounds import disable_deepspeed_shm, set_launcher_environment
disable_deepspeed_shm()
def meets():
    try:
        deepspeed.init_distributed("gloo")
    except ImportError as error:
        return error.name
first = meets()
set_launcher_environment()
print(json.dumps([first, meets()]))
"""
    said = ran(code, DS_ACCELERATOR="cpu")
    if importlib.util.find_spec("mpi4py"):
        pytest.skip("mpi4py is installed, so DeepSpeed finds itself by MPI")
    assert said[0] == "mpi4py", GO + "DeepSpeed starts without a launcher"
    assert said[1] is None


@NO_DEEPSPEED
def test_connect_zero_on_cpus(tmp_path, unused_port):
    code = f"""
import json
from datetime import timedelta
from accelerate.state import PartialState
from transformers import TrainingArguments
from homerl.train.workarounds import connect_zero_on_cpus
zero = {{"zero_optimization": {{"stage": 2}}, "train_micro_batch_size_per_gpu": "auto"}}
def kind(**more):
    made = TrainingArguments({str(tmp_path)!r}, use_cpu=True, deepspeed=zero, report_to=[], **more)
    return str(made.distributed_state.distributed_type.value)
first = kind()
PartialState().destroy_process_group()
connect_zero_on_cpus(timedelta(seconds=60))
print(json.dumps([first, kind(accelerator_config={{"use_configured_state": True}})]))
"""
    said = ran(code, **ONE_RANK, MASTER_PORT=unused_port, DS_ACCELERATOR="cpu")
    assert said[0] != "DEEPSPEED", GO + "transformers has DeepSpeed on a CPU"
    assert said[1] == "DEEPSPEED"


KEPT = """
import json, psutil, torch
from homerl.train.workarounds import return_freed_memory

def resident() -> float:
    return psutil.Process().memory_info().rss / 2**20

torch.ones(7_500_000)  # freed at once: from here on, glibc takes blocks of up to 30 MB from its heap
large, small = zip(*[(torch.ones(250_000), torch.ones(100_000)) for _ in range(300)])
whole = resident()
del large
freed = resident()
return_freed_memory()
print(json.dumps([whole, freed, resident()]))
"""


def test_return_freed_memory():
    """300 tensors of 1 MB are freed with smaller ones between them: 286 MiB."""
    whole, freed, given_back = ran(KEPT)
    assert whole - freed < 100, GO + "freed memory goes back by itself"
    assert freed - given_back > 200


FAULTS = """
import json, resource, torch
from homerl.train.workarounds import keep_freed_memory

def page_faults() -> int:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(20):
        torch.ones(16_000_000)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

plain = page_faults()
keep_freed_memory()
page_faults()  # the first tensor grows the heap
print(json.dumps([plain, page_faults()]))
"""


def test_keep_freed_memory():
    """20 tensors of 64 MB, of which each is freed before the next: 16,000 pages each, if these are not huge."""
    plain, kept = ran(FAULTS)
    assert plain > 400, GO + "a tensor has the pages of the one before"
    assert kept < 100


HUGE = """
import re
from pathlib import Path
from homerl.app.runs.launch import set_up_libraries
set_up_libraries()
import torch
from homerl.train.workarounds import keep_freed_memory
keep_freed_memory()
held = torch.ones(64_000_000)
print(re.search(r"AnonHugePages: +([0-9]+)", Path("/proc/self/smaps_rollup").read_text())[1])
"""
PAGES = Path("/sys/kernel/mm/transparent_hugepage/enabled")


@pytest.mark.skipif(not PAGES.exists() or "[never]" in PAGES.read_text(), reason="this machine has no huge pages")
def test_memory_that_is_kept_is_of_huge_pages():
    """A tensor of 256 MB, in kB. torch reads the variable when it is imported, so the process is no fork of this one."""
    done = subprocess.run([sys.executable, "-c", HUGE], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) > 200_000
