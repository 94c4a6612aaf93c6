"""Counts the house: rooms, files, lines, names, and the files and folders that six ways cross.

    python scripts/count_house.py [ROOT]

Lines with code are those that are neither blank, nor comments alone, nor docstrings. A name is one word if it has no
underscore between letters; names with two leading underscores are Python's and count nowhere. A public name is defined twice
if two modules define it at their top. A way is a list of functions (`WAYS`), in the order in which a reader meets them. A
file that only passes on counts too, if the way cannot be followed without it. docs/walkthrough.md tells four of the ways.
"""

from __future__ import annotations

import ast
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from statistics import median

TOPS = ("homerl", "envs", "rewards", "homerl_hook.py")
APP = "envs/assistant/app/"  # it runs in Home Assistant's Python
WORLDS = ("envs/homeenv/", "envs/simuhome/", "envs/personalhome/", "envs/assistant/")
OLD_WORLDS = (
    "envs/homemaker/",
    "homerl/worlds/homeenv/",
    "homerl/worlds/simuhome/",
    "homerl/worlds/personalhome/",
    "homerl/homeassistant/",
)

Way = tuple[tuple[str, str], ...]  # (file, function or class)
WAYS: dict[str, Way] = {
    # from the rollouts of an update, which were played, to the new weights, with the credit and the loss of the recipe
    "an update": (
        ("homerl/train/update/rlve.py", "RLVETrainer.training_step"),
        ("homerl/train/data/rollout_batches.py", "RolloutPrefetcher.take_batch"),
        ("homerl/train/data/rollout_batches.py", "RolloutSupply.finish_batch"),
        ("homerl/train/data/rollout_batches.py", "credit_group"),
        ("homerl/train/credit/step.py", "compute_step_credit"),
        ("homerl/train/credit/step.py", "compute_returns_to_go"),
        ("homerl/train/update/objective.py", "collect_sampled_tokens"),
        ("homerl/train/packing/packed_updates.py", "PackedUpdates.train_on_sequences"),
        ("homerl/train/packing/packed_updates.py", "split_into_passes"),
        ("homerl/train/packing/packed_updates.py", "pack_row"),
        ("homerl/train/packing/packed_updates.py", "score_row"),
        ("homerl/train/update/objective.py", "RolloutObjective"),
        ("homerl/train/losses/clipped.py", "clip_token_losses"),
        ("homerl/train/losses/clipped.py", "Grpo.weight"),
    ),
    # from the model's text to the home
    "a tool call": (
        ("homerl/play/tool_call_parser.py", "parse_reply"),
        ("homerl/play/episode.py", "Episode.apply_reply"),
        ("envs/core/world.py", "tool_call_to_action"),
        ("homerl/play/situation.py", "Situation.take"),
        ("envs/homeenv/sim/home_world.py", "HomeWorld.step"),
        ("envs/homeenv/sim/toolset.py", "Tool.run"),
        ("envs/homeenv/sim/sandbox.py", "run_code"),
        ("envs/homeenv/sim/home_state.py", "HomeState.call"),
        ("envs/homeenv/sim/devices/attributes_and_services.py", "CompiledService.compute_outcome"),
    ),
    # from what a step changed in the home, by the goals that it met, to the step's reward
    "a step's reward": (
        ("envs/core/world.py", "StepFacts"),
        ("envs/homeenv/tasks/situation.py", "HomeSituation.met"),
        ("envs/homeenv/sim/conditions.py", "Condition.holds_in"),
        ("homerl/play/replay.py", "add_step_rewards"),
        ("rewards/composite.py", "step_rewards"),
        ("rewards/progress.py", "progress"),
    ),
    # from a seed to conditions that can be checked, and to the expert's calls
    "a blueprint": (
        ("homerl/worlds/registry.py", "make_blueprint_of_seed"),
        ("envs/homeenv/adapter.py", "HomeEnvWorld"),
        ("envs/homeenv/tasks/author.py", "make_home_blueprint"),
        ("envs/homeenv/maker/make.py", "make_home"),
        ("envs/homeenv/tasks/author.py", "sample_profile"),
        ("envs/homeenv/tasks/intents/compositional.py", "propose_explicit"),
        ("envs/homeenv/tasks/actions.py", "try_service"),
        ("envs/homeenv/tasks/intents/__init__.py", "draft_of_actions"),
        ("envs/homeenv/language/utterances.py", "write_utterance"),
        ("envs/homeenv/tasks/blueprint.py", "Blueprint"),
        ("envs/homeenv/tasks/author.py", "first_filter_failure"),
        ("envs/homeenv/sim/conditions.py", "compile_condition"),
        ("envs/homeenv/tasks/goals.py", "compile_goals"),
        ("envs/homeenv/agents/expert.py", "Expert.consult"),
    ),
    # from a request to a call in a person's own home, and to the log
    "a person's sentence": (
        ("envs/assistant/serving/openai_endpoint.py", "AgentEndpoint"),
        ("envs/assistant/serving/openai_endpoint.py", "parse_request_care"),
        ("envs/assistant/serving/caretaker.py", "Caretaker.answer_dialogue"),
        ("envs/assistant/serving/real_home.py", "HomeAssistantHome.refresh_twin"),
        ("envs/assistant/serving/live_situation.py", "LiveSituation.begin_visit"),
        ("homerl/play/episode.py", "Episode.apply_reply_async"),
        ("envs/assistant/serving/live_situation.py", "RecordingHome.call"),
        ("envs/assistant/serving/call_effects.py", "Effects.foresee_effects"),
        ("envs/assistant/serving/call_effects.py", "changes_between"),
        ("envs/assistant/serving/consent.py", "Guard.needs_consent"),
        ("envs/assistant/serving/consent.py", "is_consent"),
        ("envs/assistant/serving/exchange_journal.py", "AgentJournal.append_entry"),
        ("envs/assistant/serving/real_home.py", "carry_out_exchange"),
        ("envs/assistant/serving/real_home.py", "HomeAssistantHome.carry_out_call"),
        ("envs/assistant/listing/homeassistant_mapping.py", "to_homeassistant"),
        ("envs/assistant/serving/real_home.py", "wait_until_settled"),
        ("envs/assistant/serving/reply_text.py", "ReplyWriter.report_outcome"),
    ),
    # from the command to the share of successes with its interval
    "a benchmark's score": (
        ("homerl/app/cli/commands/bench_commands.py", "bench_run"),
        ("homerl/app/play_suite.py", "run_benchmark"),
        ("homerl/bench/suites.py", "read_suite"),
        ("homerl/bench/runner.py", "run_suite"),
        ("homerl/play/loop.py", "play"),
        ("homerl/play/trajectory.py", "Trajectory.success"),
        ("homerl/bench/runner.py", "write_bench_results"),
        ("homerl/bench/scores.py", "build_result_row"),
        ("homerl/bench/scores.py", "score_results"),
        ("homerl/play/bench_results.py", "score_metrics"),
        ("homerl/play/confidence_intervals.py", "mean_interval"),
    ),
}  # fmt: skip
# What comes before a way or after it, and stands in the same story of docs/walkthrough.md
NEIGHBOURS: dict[str, Way] = {
    "an update": (("homerl/train/engines/weight_sync.py", "SyncedEngine.sync"),),  # before the next rollouts
    "a tool call": (  # which sample the text
        ("homerl/play/loop.py", "play"),
        ("homerl/models/policy/policy_agent.py", "PolicyAgent.propose"),
    ),
}


def defined_names(tree: ast.Module) -> set[str]:
    """The functions and classes of a module, and the methods of its classes as `Class.method`."""
    found, kinds = set(), ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef
    for node in tree.body:
        if isinstance(node, kinds):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, kinds)}
    return found


def missing_functions(root: Path, way: Way) -> list[str]:
    """The functions of a way that are not in their files, each as `file: function`."""
    found = []
    for file, name in way:
        path = root / file
        if not path.is_file() or name not in defined_names(ast.parse(path.read_text("utf-8"))):
            found.append(f"{file}: {name}")
    return found


def count_ways(root: Path) -> Iterator[tuple[str, str]]:
    """For each way, how many files and folders it crosses, or which of its functions are not where `WAYS` says."""
    for title, way in WAYS.items():
        crossed = [count_crossed(way)]
        if title in NEIGHBOURS:
            crossed.append(count_crossed((*way, *NEIGHBOURS[title])))
        missing = missing_functions(root, way)
        found = f"not found: {', '.join(missing)}" if missing else "; with its neighbours ".join(crossed)
        yield f"files and folders of {title}", found


def count_crossed(way: Way) -> str:
    """How many files and folders a way crosses, in words."""
    files = {Path(file) for file, _ in way}
    return f"{len(files)} files in {len({file.parent for file in files})} folders"


def source_files(root: Path) -> Iterator[tuple[str, str]]:
    """Every Python file below the tops, by its path, with its text."""
    for top in TOPS:
        found = [root / top] if top.endswith(".py") else sorted((root / top).rglob("*.py"))
        for path in found:
            file = path.relative_to(root).as_posix()
            if path.is_file() and not file.startswith(APP):
                yield file, path.read_text("utf-8")


def docstring_lines(tree: ast.Module) -> set[int]:
    """The numbers of the lines of docstrings."""
    lines: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node):
            lines |= {*range(node.body[0].lineno, (node.body[0].end_lineno or 0) + 1)}
    return lines


def import_lines(tree: ast.Module) -> set[int]:
    """The numbers of the lines of imports."""
    nodes = [node for node in ast.walk(tree) if isinstance(node, ast.Import | ast.ImportFrom)]
    return {line for node in nodes for line in range(node.lineno, (node.end_lineno or 0) + 1)}


def is_one_word(name: str) -> bool:
    """Whether a name is one word."""
    return "_" not in name.strip("_")


def main() -> None:
    """Print the table."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parents[1]
    lines: Counter[str] = Counter()
    functions: list[tuple[str, int]] = []
    defined: defaultdict[str, set[str]] = defaultdict(set)
    used_once = small = files = 0
    for file, text in source_files(root):
        files += 1
        tree = ast.parse(text)
        rows = text.splitlines()
        docs, imports = docstring_lines(tree), import_lines(tree)
        small += len(rows) < 60 and file.startswith("homerl")
        world = file.startswith((*WORLDS, *OLD_WORLDS))
        for number, row in enumerate(rows, 1):
            lines["all"] += 1
            if number in docs:
                lines["docstrings"] += 1
            elif not row.strip():
                lines["blank"] += 1
            elif row.lstrip().startswith("#"):
                lines["comments"] += 1
            else:
                lines["code"] += 1
                lines["code of the core"] += not world
                lines["imports"] += number in imports
                lines["comments behind code"] += "  # " in row
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and not node.name.startswith("__"):
                functions.append((node.name, (node.end_lineno or 0) - node.lineno + 1))
                if node.name.startswith("_") and text.count(node.name) == 2 and not node.decorator_list:
                    used_once += 1
        for node in tree.body:
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and not node.name.startswith("_"):
                defined[node.name].add(file)
    public = [name for name, _ in functions if not name.startswith("_")]
    share = lambda names: f"{sum(map(is_one_word, names)) / len(names):.0%} of {len(names):,}"  # noqa: E731
    figures = {
        "files": files,
        "files below 60 lines in `homerl`": small,
        "lines": lines["all"],
        "lines with code": lines["code"],
        "lines with code, core (no world, no assistant)": lines["code of the core"],
        "lines of imports": f"{lines['imports'] / lines['all']:.1%}",
        "blank lines": f"{lines['blank'] / lines['all']:.1%}",
        "comments, alone and behind code": f"{(lines['comments'] + lines['comments behind code']) / lines['all']:.1%}",
        "functions of one word": share([name for name, _ in functions]),
        "public functions of one word": share(public),
        "public names that several modules define": sum(len(files) > 1 for files in defined.values()),
        "lines of the median function": f"{median(length for _, length in functions):g}",
        "private functions used once in their own file": used_once,
    }
    for name, value in (*figures.items(), *count_ways(root)):
        print(f"| {name} | {value:,} |" if isinstance(value, int) else f"| {name} | {value} |")


if __name__ == "__main__":
    main()
