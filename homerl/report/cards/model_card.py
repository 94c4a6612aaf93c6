"""The model card: data, recipe, rewards and scores from a run's own files, and how to use the model.

Invariants: data that a run's folder lacks are left out, and so are scores of another player, and of suites that were not
played to their end; no host, address or absolute path of the training machine is included; the model itself is not needed.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from homerl.bench.stored_scores import is_score_of_stage
from homerl.envs.core.documents import read_json
from homerl.host.recipe_files import RECORD, read_stage_recipe, require_mapping, stage_files, starting_model
from homerl.play.bench_results import METRICS
from homerl.report.cards.model_lineage import last_blueprint_recipe, stage_lineage, talk_terms_of_stage, training_data_folder
from homerl.report.cards.push_to_hub import strip_private_data
from homerl.report.figures import FigureColumn, FigureTable
from homerl.report.pages.flywheel_report import newest_metric, read_training_metrics
from homerl.rewards.composite import REWARDS, SETTINGS
from homerl.synth.recipe import STRATEGIES
from homerl.train.credit.contract import list_credit_modes
from homerl.train.offline_bases import BASES, COMMAND
from homerl.worlds.contract import Card
from homerl.worlds.registry import source_parts, world_of

HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
PROVENANCE = ("homerl", "commit", "seed", "python", "packages")
LOGGED = ("step", "num_tokens", "loss", "reward", "kl")


@dataclass(frozen=True)
class ModelCardFacts:
    """Everything that a card states.

    `recipes` are those of the stages that led to the model, oldest first. `played` is the recipe of the blueprints that it
    was last trained on, or one of them. `talk` says how one talks with it (`talk_terms_of_stage`). `base_weights` are the
    SHA-256 of the weights under an adapter, and `base_tokenizer` says that the base's tokenizer is the adapter's too.
    """

    name: str
    license: str
    base: str | None
    recipes: tuple[dict[str, Any], ...]
    synthesis: dict[str, Any]
    metrics: dict[str, Any]
    provenance: dict[str, Any]
    scores: dict[str, dict[str, Any]]
    played: dict[str, Any]
    talk: dict[str, Any]
    base_weights: dict[str, str] = field(default_factory=dict)
    base_tokenizer: bool = False

    def newest_setting(self, key: str) -> Any:
        """The value of `key` in the last stage's recipe that has one, or an empty mapping."""
        return next((recipe[key] for recipe in reversed(self.recipes) if recipe.get(key)), {})


# Reading a run


def gather_card_facts(stage: Path, name: str, base: str | None, license: str, step: int | None = None) -> ModelCardFacts:
    """Read the files beside a stage's model.

    For a model that was written after a `step` of the optimizer, what was logged later is left out, and so are the scores of
    the last model.
    """
    stages = stage_lineage(stage)
    recipes = [read_stage_recipe(folder) for folder in stages]
    sources = [base, *(starting_model(recipe) for recipe in recipes)]
    scored = sorted(stage.glob("bench/*/score.json")) if step is None else ()
    scores = {path.parent: require_mapping(read_json(path)) for path in scored}
    logged = [row for row in read_training_metrics(stage) if step is None or row.get("step", 0) <= step]
    said = next((require_mapping(read_json(path)) for path in stage_files(stage, RECORD)), {})
    return ModelCardFacts(
        name=name,
        license=license,
        base=next((source for source in sources if source and is_hub_id(source)), None),
        recipes=tuple(strip_private_data(recipe) for recipe in recipes if recipe),
        synthesis=_find_synthesis_stats(stages, recipes),
        metrics={key: value for key in LOGGED if (value := newest_metric(logged, key)) is not None},
        provenance={key: said[key] for key in PROVENANCE if said.get(key) is not None},
        scores={folder.name: score for folder, score in scores.items() if is_score_of_stage(folder, score, stage)},
        played=last_blueprint_recipe(stage),
        talk=talk_terms_of_stage(stage),
    )


def is_hub_id(source: str) -> bool:
    """Whether a name is a hub id; `run/model` is the output of a stage, even if it is gone."""
    return bool(HUB_ID.fullmatch(source)) and not Path(source).exists() and Path(source).name != "model"


def _find_synthesis_stats(stages: list[Path], recipes: list[dict[str, Any]]) -> dict[str, Any]:
    """The statistics of the synthesis whose data trained the model, if they are here."""
    for stage, recipe in zip(stages, recipes, strict=True):
        data = training_data_folder(stage, recipe)
        if data and (data / "stats.json").is_file():
            return require_mapping(read_json(data / "stats.json"))
    return {}


# Writing the card


LIMITS = """Trained and scored in simulated homes. Put a permission check of your own between the model and
real devices, above all locks, ovens and heaters. It knows no device but those that the system prompt or its tools name."""

CARD = """---
{{ card_data }}
---

# {{ name }}

A smart-home agent ({{ kind }}), trained with homerl
{%- if base %} from [{{ base }}](https://huggingface.co/{{ base }}){% endif %}.
It runs a home {{ acts }}; what it earned in training and its scores come from the exact state of
simulated homes.
{% for title, text in sections %}
## {{ title }}

{{ text }}
{% endfor %}"""

MOST = 256  # tokens of the example's answer

USE = """The system prompt {told}. The model answers {answers}.

```python
{imports}

name = {name}  # the hub id or the folder
model = {auto}.from_pretrained(name)
{tokenizer}
tools = [
{tools}
]
messages = [
    {{"role": "system", "content": {system}}},
    {{"role": "user", "content": {utterance}}},
]
inputs = tokenizer.apply_chat_template(
    messages, tools=tools, add_generation_prompt=True, return_tensors="pt", return_dict=True
)
output = model.generate(**inputs, max_new_tokens={most}, do_sample=False)
print(tokenizer.decode(output[0, inputs["input_ids"].shape[1] :]))
```"""

OF_BASE = """tokenizer = AutoTokenizer.from_pretrained(model.active_peft_config.base_model_name_or_path)
with open(cached_file(name, "chat_template.jinja")) as template:
    tokenizer.chat_template = template.read()"""

BASE = """The adapter was trained on weights of {base} with this SHA-256:

{listed}{said}

No other weights of that name were tried with it."""

SERVE = """```bash
vllm serve {model} \\
    --enable-auto-tool-choice --tool-call-parser {parser}
```

The endpoint speaks OpenAI's protocol at `http://localhost:8000/v1`. {answers}"""
Tools = Literal["own", "shown", "by heart"]  # the base's chat template, or homerl's with the tools or without them
CALLS: Mapping[Tools, str] = {
    "own": """The model writes calls as its base does:
PARSER stands for vLLM's parser of the base's family. Send the tools above.""",
    "shown": """The model writes calls in Hermes style,
which that parser turns into `tool_calls`; send the tools above.""",
    "by heart": """The model writes calls in Hermes style,
which that parser turns into `tool_calls`. It does so by the tools of the request: send those above, although the model does
not read them.""",
}
HOW_TO_ASK = """Ask it as in training, with a system prompt of this form and nothing else in it. The model knows its tools by
heart: the chat template leaves them out, and other instructions or tools are new to it."""
ONE_ANSWER = """The model makes no tool calls: its
answer is the message's content. Send the tools above all the same, since its prompts in training had them."""


LOCAL = """`{file}` is the same model for llama.cpp and Ollama; `Modelfile` tells Ollama how. Run them in this folder:

```bash
llama-server --jinja -m {quoted} --port 8080      # http://localhost:8080/v1
ollama create {name} -f Modelfile               # then: ollama run {name}; http://localhost:11434/v1
```"""


def render_model_card(
    facts: ModelCardFacts, kind: str, adapter: bool, gguf: str | None = None, answer: str = "", tools: Tools = "shown"
) -> str:
    """The card: YAML front matter and Markdown.

    `kind` describes the model in a few words; `gguf` names its GGUF file. `answer` says what the model answered to the
    example, or why it was not asked, and `tools` whose chat template it was trained with, and whether that shows the tools.
    """
    from huggingface_hub import ModelCard, ModelCardData

    results = make_eval_results(facts.scores)
    stages = dict.fromkeys(recipe["run"] for recipe in facts.recipes if recipe.get("run"))
    data = ModelCardData(
        library_name="peft" if adapter else "transformers",
        pipeline_tag="text-generation",
        license=facts.license,
        language=card_of_world(facts).language,
        base_model=facts.base,
        tags=["homerl", "smart-home", "agent", "tool-use", *stages],
        model_name=facts.name if results else None,
        eval_results=results or None,
    )
    sections = [(title, text) for title, text in _list_sections(facts, adapter, gguf, answer, tools) if text]
    acts = "in one JSON answer to each request" if card_of_world(facts).one_answer else "by calling tools"
    filled: dict[str, Any] = {"name": facts.name, "base": facts.base, "kind": kind, "acts": acts, "sections": sections}
    return str(ModelCard.from_template(data, template_str=CARD, **filled)).rstrip() + "\n"


def make_eval_results(scores: Mapping[str, Mapping[str, Any]]) -> list[Any]:
    """For the model index: each suite's success with its interval, and its share of met conditions."""
    from huggingface_hub import EvalResult

    return [
        EvalResult(
            task_type="text-generation",
            task_name="smart-home control",
            dataset_type=f"homerl-{suite}",
            dataset_name=f"homerl {suite}",
            metric_type=f"{key}_rate",
            metric_name=name,
            metric_value=round(score[key], 4),
            metric_args={"n": score["n"]} | ({"interval_95": score["interval"]} if key == "success" else {}),
        )
        for suite, score in scores.items()
        for key, name in (("success", "success"), ("phi", METRICS["phi"].heading))
        if key in score
    ]


def _list_sections(
    facts: ModelCardFacts, adapter: bool, gguf: str | None, answer: str, tools: Tools
) -> Iterator[tuple[str, str]]:
    yield "Scores", _describe_scores(facts.scores)
    yield "Base", _describe_base(facts)
    parts = _describe_use(facts, adapter), HOW_TO_ASK if tools == "by heart" else "", answer
    yield "Use", "\n\n".join(filter(None, parts))
    yield "Serve", _describe_serving(facts, adapter, tools)
    if gguf:
        name = re.sub(r"[^a-z0-9._-]+", "-", facts.name.split("/")[-1].lower()).strip("-._")  # as Ollama wants names
        yield "Run at home", LOCAL.format(file=gguf, quoted=shlex.quote(gguf), name=name or "agent")
    yield "Data", _describe_data(facts)
    yield "Rewards", _describe_rewards(facts.newest_setting("rewards"))
    yield "Training", _describe_training(facts)
    yield "Limits", LIMITS


def _describe_scores(scores: Mapping[str, Mapping[str, Any]]) -> str:
    if not scores:
        return ""
    shown = [metric for metric in METRICS.values() if any(metric.format_score(score) for score in scores.values())]
    headings = ("episodes", "success", "95 %", *(metric.heading for metric in shown))
    rows = []
    for suite, score in scores.items():
        interval = " to ".join(_format_percent(bound) for bound in score.get("interval", ()))
        figures = (metric.format_score(score) for metric in shown)
        rows.append((suite, score.get("n", 0), _format_percent(score.get("success")), interval, *figures))
    lines = [FigureTable((FigureColumn("suite", right=False), *map(FigureColumn, headings)), [rows]).to_markdown()]
    for suite, score in scores.items():
        families = [f"{family} {_format_percent(share)}" for family, share in score.get("by_family", {}).items()]
        lines += ["", f"{suite}, success by family: {', '.join(families)}."] if families else []
    lines += ["", "Intervals are percentile bootstraps over episodes, or Wilson's where all ended alike. Where a task"]
    lines += ["says so, success also asks that nothing else was changed."]
    return "\n".join(lines)


def _format_percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f} %"


def _describe_base(facts: ModelCardFacts) -> str:
    if not facts.base_weights:
        return ""
    known = next((base for base in BASES.values() if base.weights == facts.base_weights), None)
    listed = "\n".join(f"- `{name}`: `{digest}`" for name, digest in facts.base_weights.items())
    said = f"\n\nThese weights are {known.about}. `{COMMAND} {known.name}` makes their folder." if known else ""
    return BASE.format(base=facts.base or "its base", listed=listed, said=said)


def _describe_use(facts: ModelCardFacts, adapter: bool) -> str:
    card = card_of_world(facts)
    auto = "AutoPeftModelForCausalLM" if adapter else "AutoModelForCausalLM"
    peft = f"from peft import {auto}\nfrom transformers import AutoTokenizer"
    peft += "\nfrom transformers.utils import cached_file" if facts.base_tokenizer else ""
    return USE.format(
        told=card.told,
        answers=card.answers,
        name=json.dumps(facts.name, ensure_ascii=False),
        most=MOST,
        auto=auto,
        tokenizer=OF_BASE if facts.base_tokenizer else "tokenizer = AutoTokenizer.from_pretrained(name)",
        imports=peft if adapter else f"from transformers import {auto}, AutoTokenizer",
        tools="\n".join(f"    {dict(tool)!r}," for tool in card.tools),  # Python's own words: JSON's true and false are none
        system=repr(card.system),
        utterance=repr(card.utterance),
    )


def card_of_world(facts: ModelCardFacts) -> Card:
    """What the card shows of the world that the model was last trained on; of a mixture, of its first part."""
    played = source_parts(facts.played)[0]
    return world_of(played).card(played)


def _describe_serving(facts: ModelCardFacts, adapter: bool, tools: Tools) -> str:
    name = shlex.quote(facts.name)
    # A tokenizer of its own writes tokens that no training of the base has seen in ordinary ones.
    reads = "--chat-template chat_template.jinja" if facts.base_tokenizer else f"--tokenizer {name}"
    on_base = f"{facts.base or 'BASE'} --enable-lora --lora-modules agent={name} \\\n    {reads}"
    parser = "PARSER" if tools == "own" else "hermes"
    answers = ONE_ANSWER if card_of_world(facts).one_answer else CALLS[tools]
    return SERVE.format(model=on_base if adapter else name, parser=parser, answers=answers)


def _describe_data(facts: ModelCardFacts) -> str:
    parts = []
    if stats := facts.synthesis:
        parts.append(
            f"{STRATEGIES[stats.get('strategy', 'm3')]}"
            f"\n{stats.get('successes')} of {stats.get('rollouts')} rollouts succeeded, and "
            f"{_format_percent(stats.get('generation_success'))} of {stats.get('blueprints')} tasks were solved."
        )
    elif isinstance(data := facts.newest_setting("data"), str):
        parts.append(f"Verified dialogues: `{data}`.")
    if facts.newest_setting("rlve") and (blueprints := facts.newest_setting("blueprints")):
        count, first = blueprints.get("count"), blueprints.get("first_seed")
        each = facts.newest_setting("rlve").get("blueprints_per_update")
        some = f"each update on {each} of " if each else ""
        parts.append(f"Reinforcement learning, {some}{count} simulated tasks, by seed from {first} on.")
    return "\n\n".join(parts)


def _describe_rewards(weights: Mapping[str, Any]) -> str:
    rows = [(f"`{name}`", weights[name], reward.card) for name, reward in REWARDS.items() if name in weights]
    if not rows:
        return ""
    columns = FigureColumn("part", right=False), FigureColumn("weight"), FigureColumn("", right=False)
    text = f"A step earns the sum of:\n\n{FigureTable(columns, [rows]).to_markdown()}"
    limits = [f"{name} {weights[name]}" for name in SETTINGS if name in weights]
    return f"{text}\n\nLimits: {', '.join(limits)}." if limits else text


def _describe_training(facts: ModelCardFacts) -> str:
    said = facts.provenance | {f"last {key}": value for key, value in facts.metrics.items()}
    parts = ["\n".join(f"- {key}: {_format_inline(value)}" for key, value in said.items())] if said else []
    for name, recipe in recipe_files(facts).items():
        if mode := list_credit_modes().get((recipe.get("rlve") or {}).get("credit", "")):
            parts.append(f"Credit `{mode.name}`: {mode.sentence}")
        parts.append(f"Recipe: [{name}]({name})")
    return "\n\n".join(parts)


def recipe_files(facts: ModelCardFacts) -> dict[str, dict[str, Any]]:
    """The recipes of the stages by the names of their files beside the card."""
    return {f"recipes/{number}_{one.get('run', 'run')}.yaml": one for number, one in enumerate(facts.recipes, 1)}


def _format_inline(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {_format_inline(item)}" for key, item in value.items())
    if isinstance(value, float):
        return f"{value:.0f}" if value.is_integer() else f"{value:.4g}"
    return str(value)
