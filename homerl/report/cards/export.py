"""Exports a trained run as a Hugging Face model: safetensors, tokenizer, chat template, generation config, card; and GGUF.

Invariants:
- An exported model was loaded, is complete and finite, and its tokenizer can render a dialogue.
- It answered the example of its card, or the card says why not.
- The folder appears under its name as a whole or not at all.
- Only content of that folder is uploaded.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

import yaml
from safetensors import SafetensorError

from homerl import __version__
from homerl.bench.stored_scores import read_complete_scores
from homerl.envs.core.documents import InputError, name_path_in_errors, read_json, write_atomic
from homerl.host.html_pages import fold_long_text
from homerl.host.recipe_files import OF_TASKS, find_stage_of_model, refuse_unloaded_run_plugins
from homerl.models.policy.chat_template import OWN, shows_tools, without_generation_tags
from homerl.models.policy.response_template import set_response_template
from homerl.report.cards.gguf_and_ollama import KINDS, check_convertible, render_modelfile, require_gguf, write_gguf
from homerl.report.cards.model_card import (
    HUB_ID,
    MOST,
    ModelCardFacts,
    Tools,
    card_of_world,
    gather_card_facts,
    is_hub_id,
    recipe_files,
    render_model_card,
)
from homerl.report.cards.model_lineage import find_trained_stage, read_step_of_model
from homerl.report.cards.push_to_hub import (
    check_hub_token,
    choose_license,
    first_error_line,
    strip_file_names,
    upload_to_hub,
)
from homerl.report.cards.whole_folder import refuse_other_content, write_whole_folder
from homerl.train.model_sources import (
    ADAPTER,
    FACTS,
    TEMPLATE,
    TOKENIZER,
    find_adapter_base,
    hash_model_files,
    hash_model_weights,
    is_adapter,
    is_model_folder,
    load_model_tokenizer,
    read_adapter_base,
    read_export_facts,
    refuse_changed_export,
    resolve_model_source,
)
from homerl.train.whole_weights import load_adapter_on, load_whole_model, refuse_partial_adapter
from homerl.worlds.contract import Card

OF_ADAPTER = (ADAPTER, "adapter_model.safetensors", TEMPLATE, TOKENIZER, "tokenizer.json")  # read of its folder
STALE = """*.safetensors *.safetensors.index.json *.bin *.bin.index.json
adapter_config.json *.gguf Modelfile recipes/*""".split()  # files of an earlier export on the hub
OTHER_CHECKPOINT = "train again, or export an earlier checkpoint"
RIGHT_TOKENIZER = "copy the tokenizer that the model was trained with here"
LOAD_ERRORS = (OSError, ValueError, RuntimeError, KeyError, SafetensorError)  # of a folder whose model is broken
SENTENCE = "Turn on the light."
ANSWERED = """When this card was made, the example printed:

````text
{said}
````"""
NOT_RUN = "The example was not run when this card was made: {why}."
ON_CPU = 1_000_000_000  # parameters of a model that answers an example on the CPU in seconds


def export_model(
    run: Path,
    to: str,
    push: bool = False,
    private: bool = True,
    base: str | None = None,
    adapter: bool = False,
    license: str | None = None,
    gguf: str | None = None,
    scores: Sequence[Path] = (),
) -> Path:
    """Write the model of `run` as a Hugging Face folder, and return that folder.

    `run` is a stage's folder, a flywheel's (then its last trained stage is used), a checkpoint's or the best model's, an
    earlier export's, or a shipped model's name. `to` is a folder, which is made with
    those above it; with `push` it is a hub id `org/name`, and the folder that is uploaded is RUN/export/name. A missing
    repository is created, private or public; an existing one of the other kind is refused. An earlier export in the
    folder is replaced; other content is refused. A LoRA adapter is merged into its base, unless `adapter`. `base` is the
    hub id or folder of the model that training started from, if the run's own record leads nowhere. `license` is as the hub
    names it, by default the base's. `gguf` adds a GGUF file of this kind, such as `q8_0`, and a Modelfile for Ollama.
    `scores` are folders of `homerl bench run` with this model, for the card. Raises `InputError` for everything that cannot
    be exported.
    """
    run = Path(os.path.normpath(Path.cwd() / resolve_model_source(str(run))))  # `.` has no name, and nothing lies beside it
    check_gguf(gguf, adapter)
    refuse_changed_export(run)
    is_export = is_model_folder(run) and bool(read_export_facts(run))
    is_model = is_export or (is_model_folder(run) and find_stage_of_model(run) is not None)
    trained = run if is_model else find_trained_stage(run) / "model"
    stage = None if is_export else find_stage_of_model(trained)  # an export may lie anywhere, and was written by no stage
    if stage:
        refuse_unloaded_run_plugins(stage, OF_TASKS)
    folder, repo = resolve_destination((stage if is_model else None) or run, to, push)
    refuse_other_content(folder, FACTS)
    if repo:
        check_hub_token(repo)
    facts = _read_facts(trained, stage, repo or folder.name, base, license)
    facts = replace(facts, scores=facts.scores | read_complete_scores(scores, trained))
    tokenizer = load_exported_tokenizer(trained)
    if is_adapter(trained):
        _, source = find_adapter_chain(trained, base)
        is_same = False
        if adapter:
            from transformers import AutoTokenizer

            # The tokenizer may be the base's as others load it, but for the chat template.
            both = tokenizer, AutoTokenizer.from_pretrained(source)
            ours, theirs = ((one.special_tokens_map, one.backend_tokenizer.to_str()) for one in both)
            is_same = bool(ours == theirs)
        facts = replace(facts, base_weights=hash_model_weights(source), base_tokenizer=is_same)
    model = load_adapter(trained, base, push) if adapter else load_model(trained, base)
    check_exported_model(model, tokenizer, trained)
    # Generation stops at the end of a message in the template of the training, whatever the base model did.
    config = model.generation_config
    ends = config.eos_token_id if isinstance(config.eos_token_id, list) else [config.eos_token_id]
    config.eos_token_id = list(dict.fromkeys(end for end in (*ends, tokenizer.eos_token_id) if end is not None))
    if config.pad_token_id is None:
        config.pad_token_id = tokenizer.pad_token_id
    if gguf:
        check_convertible(model.config, tokenizer, str(trained))
    _write_export(model, tokenizer, facts, adapter, folder, gguf)
    if repo and push:
        upload_to_hub(folder, repo, private, f"Export by homerl {__version__}", delete=STALE)
    return folder


# From where, to where


def _read_facts(trained: Path, stage: Path | None, name: str, base: str | None, license: str | None) -> ModelCardFacts:
    """What the card of a model says: of a stage's model, what its run says; of an export, what was said before."""
    if stage:
        step = None if trained == stage / "model" else read_step_of_model(trained)
        return gather_card_facts(stage, name, base, license or choose_license(stage, base), step)
    said = read_export_facts(trained)
    said |= {"name": name, "license": license or said["license"], "played": said["talk"].get("recipe") or {}}
    known = {one.name: said[one.name] for one in fields(ModelCardFacts) if one.name in said}
    return ModelCardFacts(**known | {"recipes": tuple(said["recipes"])})


def resolve_destination(run: Path, to: str, push: bool) -> tuple[Path, str | None]:
    """(folder, hub id or None): what is pushed goes to a hub id, and all else to a folder of that path."""
    if not push:
        return Path(to).expanduser().absolute(), None
    if not HUB_ID.fullmatch(to):
        remedy = "give --to org/name, or leave --push out to write a folder"
        raise InputError("this is no hub id, and only a hub id can be pushed to", to, remedy)
    return run / "export" / to.split("/")[1], to


def check_gguf(kind: str | None, adapter: bool) -> None:
    """Refuse, before any work, a GGUF file that could not be written."""
    if kind is None:
        return
    if kind not in KINDS:
        raise InputError(f"there is no kind {kind!r} of GGUF here", "--gguf", f"give one of {', '.join(KINDS)}")
    if adapter:
        raise InputError("a GGUF file holds a whole model", "--gguf", "export the model merged, without --adapter")
    require_gguf()


# The model


def load_exported_tokenizer(folder: Path) -> Any:
    """The tokenizer; `InputError` if it cannot encode and decode, or has no chat template."""
    try:
        tokenizer = load_model_tokenizer(str(folder))
    except InputError:
        raise
    except (OSError, ValueError, KeyError, TypeError) as error:
        what = f"the tokenizer cannot be loaded ({first_error_line(error)})"
        raise InputError(what, str(folder), RIGHT_TOKENIZER) from None
    if SENTENCE not in tokenizer.decode(tokenizer(SENTENCE)["input_ids"]):
        raise InputError("the tokenizer's files are missing or broken", str(folder), RIGHT_TOKENIZER)
    if not tokenizer.chat_template:
        template = "homerl.models.policy.chat_template.build_chat_template()"
        remedy = f"save the template of its training, {template}, as its chat_template.jinja"
        raise InputError("the tokenizer has no chat template", str(folder), remedy)
    return tokenizer


def load_model(folder: Path, base: str | None = None) -> Any:
    """The whole model; a LoRA adapter is merged into its base, which may be an adapter on another model."""
    if not is_adapter(folder):
        return _load_whole_model(str(folder))
    return _load_on_base(folder, base).merge_and_unload()


def load_adapter(folder: Path, base: str | None, push: bool) -> Any:
    """The adapter on its complete base; `InputError` if others could not apply it to their copy of the base.

    An adapter that stands on others, as RLVE's on SFT's, becomes one with them, whose rank is the sum of theirs.
    """
    if not is_adapter(folder):
        raise InputError("the model is whole, it has no adapter", str(folder), "export it without --adapter")
    adapters, source = find_adapter_chain(folder, base)
    *above, lowest = adapters
    if push and Path(source).exists() and not base:
        remedy = "give the base's hub id as --base, or export it merged"
        raise InputError("the adapter's base is a folder here", source, remedy)
    if above and any(read_json(one / ADAPTER).data.get("target_parameters") for one in adapters):
        what = "peft makes no single adapter of those of experts that stand on each other"
        raise InputError(what, str(folder), "export the model merged, without --adapter")
    model = _load_on_base(lowest, base, as_base=True, name=str(lowest) if above else "default")
    if above:
        for one in above:
            model.load_adapter(str(one), str(one), autocast_adapter_dtype=False)
            refuse_partial_adapter(model, str(one), str(one))
        names = list(map(str, adapters))
        # "cat" stacks the factors, so that their product is exactly the sum of the adapters; "linear" would mix the factors.
        model.add_weighted_adapter(names, [1.0] * len(names), "default", combination_type="cat")
        model.set_adapter("default")
        for name in names:
            model.delete_adapter(name)
    named = str(read_json(lowest / ADAPTER).data.get("base_model_name_or_path"))
    model.active_peft_config.base_model_name_or_path = base or (named if is_hub_id(named) else source)
    return model


def find_adapter_chain(folder: Path, base: str | None) -> tuple[list[Path], str]:
    """An adapter and those that it stands on, the lowest last, and the complete model below them."""
    below = _resolve_adapter_base(folder, base)
    lower, source = find_adapter_chain(Path(below), base) if is_adapter(below) else ([], below)
    return [folder, *lower], source


def _load_on_base(folder: Path, base: str | None, as_base: bool = False, name: str = "default") -> Any:
    """The adapter on its base: in the base's number format, or in float32, in which it is merged best."""
    source = _resolve_adapter_base(folder, base)
    whole = load_model(Path(source), base) if Path(source).is_dir() else _load_whole_model(source)
    try:
        return load_adapter_on(whole, str(folder), name, autocast_adapter_dtype=not as_base)
    except InputError:
        raise
    except LOAD_ERRORS as error:
        what = f"the adapter does not fit its base {source} ({first_error_line(error)})"
        raise InputError(what, str(folder), "give the base that it was trained on as --base") from None


def _resolve_adapter_base(folder: Path, base: str | None) -> str:
    """The adapter's base: a folder that still exists, else `base`, else the hub id that the adapter names."""
    if base and (read_export_facts(folder) or not Path(read_adapter_base(folder)).is_dir()):
        return resolve_model_source(base)
    return find_adapter_base(folder, "give its folder or hub id as --base")


def _load_whole_model(source: str) -> Any:
    """A model in its stored dtype; a model with missing weights is refused, since they would be random."""
    remedy = OTHER_CHECKPOINT if Path(source).exists() else "check the name and the network"
    try:
        return load_whole_model(source, remedy, dtype="auto")
    except InputError:
        raise
    except LOAD_ERRORS as error:
        raise InputError(f"the model cannot be loaded ({first_error_line(error)})", source, remedy) from None


def check_exported_model(model: Any, tokenizer: Any, folder: Path) -> None:
    """Raise `InputError` if a weight is not finite, or a token has no embedding."""
    import torch

    for name, weight in model.state_dict().items():
        if weight.is_floating_point() and not torch.isfinite(weight).all():
            remedy = f"training diverged: {OTHER_CHECKPOINT}, with a smaller learning rate"
            raise InputError(f"the weight {name} holds NaN or infinity", str(folder), remedy)
    embeddings = model.get_input_embeddings().weight.shape[0]
    if len(tokenizer) > embeddings:
        what = f"the tokenizer has {len(tokenizer)} tokens, the model knows {embeddings}"
        raise InputError(what, str(folder), RIGHT_TOKENIZER)


def _write_export(model: Any, tokenizer: Any, facts: ModelCardFacts, adapter: bool, folder: Path, gguf: str | None) -> None:
    with write_whole_folder(folder) as making:
        file = f"{folder.name}-{gguf}.gguf" if gguf else None
        with name_path_in_errors(folder):
            _fill_folder(making, model, tokenizer, facts, adapter, file)
        if gguf and file:
            with name_path_in_errors(folder / file):
                write_gguf(making, making / file, gguf, model.config, tokenizer)
            text = render_modelfile(file, tokenizer.chat_template, model.config.max_position_embeddings)
            write_atomic(making / "Modelfile", text)


def _fill_folder(folder: Path, model: Any, tokenizer: Any, facts: ModelCardFacts, adapter: bool, gguf: str | None) -> None:
    model.save_pretrained(folder)
    model.generation_config.save_pretrained(folder)
    if adapter:  # peft writes a set of names in any order, and equal exports have equal bytes
        settings = json.loads((folder / ADAPTER).read_text(encoding="utf-8"))
        if isinstance(settings["target_modules"], list):  # else a pattern
            settings["target_modules"].sort()
        write_atomic(folder / ADAPTER, json.dumps(settings, indent=2, sort_keys=True))
    for file in folder.glob("*.safetensors"):  # safetensors 0.8 lets the owner alone read what it writes
        shutil.copymode(folder / "generation_config.json", file)
    tokenizer.chat_template = without_generation_tags(tokenizer.chat_template)
    if facts.base_tokenizer:
        write_atomic(folder / TEMPLATE, tokenizer.chat_template)
    else:
        set_response_template(tokenizer)  # runs of earlier versions have none
        tokenizer.save_pretrained(folder)
        for file in folder.glob("tokenizer.json"):  # half of it would be spaces, before each of 150,000 merges
            whole = json.loads(file.read_text(encoding="utf-8"))
            write_atomic(file, json.dumps(whole, ensure_ascii=False, separators=(",", ":")))
    kind = "LoRA adapter" if adapter else f"{model.config.model_type}, {model.num_parameters():,} parameters"
    answer = answer_card_example(model, tokenizer, card_of_world(facts))
    template = tokenizer.chat_template
    tools: Tools = "own" if template.startswith(OWN) else "shown" if shows_tools(template) else "by heart"
    write_atomic(folder / "README.md", render_model_card(facts, kind, adapter, gguf, answer, tools))
    for name, recipe in recipe_files(facts).items():
        write_atomic(folder / name, yaml.safe_dump(recipe, sort_keys=False, allow_unicode=True))
    known = {"homerl": __version__} | asdict(facts)
    del known["played"]  # it may be a whole home, or name its file
    known["weights"] = hash_model_files(folder / name for name in OF_ADAPTER if (folder / name).is_file()) if adapter else {}
    known["talk"] = facts.talk | {"recipe": strip_file_names(facts.talk.get("recipe") or {})}
    write_atomic(folder / FACTS, json.dumps(known, indent=1) + "\n")


def answer_card_example(model: Any, tokenizer: Any, card: Card) -> str:
    """What the model answers to the example of its card, or why it was not asked, in Markdown."""
    import torch

    messages = [{"role": "system", "content": card.system}, {"role": "user", "content": card.utterance}]
    form = {"add_generation_prompt": True, "return_tensors": "pt", "return_dict": True}
    asked = tokenizer.apply_chat_template(messages, tools=list(card.tools), **form)
    length, longest = asked["input_ids"].shape[1], getattr(model.config, "max_position_embeddings", None)
    if longest and length >= longest:
        return NOT_RUN.format(why=f"its prompt has {length:,} tokens, and the model takes {longest:,}")
    # A large model visits the GPU for the example alone: it is stored from where it was.
    large, device = model.num_parameters() > ON_CPU, model.device
    if large and not torch.cuda.is_available():
        return NOT_RUN.format(why=f"the model has {model.num_parameters():,} parameters, and this machine has no GPU")
    on = "cuda" if large else device
    output = model.to(on).generate(**asked.to(on), max_new_tokens=MOST, do_sample=False)
    model.to(device)
    head, rest = fold_long_text(tokenizer.decode(output[0, length:]).strip())
    return ANSWERED.format(said=f"{head}\n[... {len(rest):,} more signs]" if rest else head)
