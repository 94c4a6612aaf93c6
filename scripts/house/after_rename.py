"""What the language server missed in the run of names.tsv of 29 November 2026, as edits: run after rename.py --apply."""
import glob
import re
from pathlib import Path


def edit(file: str, *pairs: tuple[str, str]) -> None:
    text = Path(file).read_text()
    for old, new in pairs:
        if not re.search(old, text):
            print("NOT THERE", file, old)
        text = re.sub(old, new, text)
    Path(file).write_text(text)


edit("envs/assistant/automations/actions.py", (r"scope\.test\b", "scope.read_condition"), (r"scope\.value\b", "scope.read_template_value"),
     (r"scope\.template\b", "scope.read_template_condition"), (r"\.by_did\b", ".devices_by_did"), (r"facts\.members\b", "facts.group_members"),
     (r"devices\.action_of", "devices.rewrite_device_action"), (r"names=names\)\.value\(", "names=names).read_template_value("))
edit("envs/homeenv/tasks/intents/adjust.py", (r"FELT\[dial\.attribute\]", "FELT[dial.attribute_name]"))
edit("envs/personalhome/bench/clips.py", (r"def parts\(", "def image_parts("))
edit("homerl/worlds/registry.py", (r'getattr\(source, "take", None\)  # .*', 'getattr(source, "blueprint_of_seed", None)  # only a `BlueprintFile` has it'))
edit("envs/homeenv/tasks/intents/binding.py", (r"type\.check\(", "type.check_value("))
edit("homerl/app/runs/checks/preflight.py", (r"dict\(synth\.endpoints\)", "dict(synth.model_endpoints)"))
edit("envs/homeenv/adapter.py", (r'getattr\(recipe, "voice", None\)', 'getattr(recipe, "user_voice", None)'))
edit("envs/homeenv/sim/assist/match.py", (r"entity\.state\b", "entity.state_text"))
edit("tests/homerl/synth/test_mcts.py", (r'setattr\(mcts, "Node"', 'setattr(mcts, "TreeNode"'))
edit("tests/envs/homeenv/tasks/test_blueprints.py", (r'tasks\.author\.utter"', 'tasks.author.write_utterance"'))
edit("tests/homerl/synth/test_synthesis_llm.py", (r'synth\.work\.Maker"', 'synth.work.BlueprintSynthesiser"'))

# Members that templates name, by the variable that holds the object there.
VARIABLES = {"BenchReport": ["report"], "Comparison": ["found"], "DeviceView": ["view"], "EpisodeView": ["episode"],
             "HouseholdPage": ["page"], "Marks": ["marks"], "Timeline": ["line"], "Page": ["page"], "Home": ["start"],
             "Tile": ["t"], "HomeView": ["view"], "Day": ["day"], "Line": ["line"], "Entry": ["e"]}
TEMPLATED = """
homerl/report/pages/bench_results.py|BenchReport.suite|suite_name
homerl/report/pages/bench_results.py|BenchReport.model|model_name
homerl/report/pages/bench_results.py|BenchReport.setting|setting_name
homerl/report/pages/bench_results.py|BenchReport.part|played_part
homerl/report/pages/bench_results.py|BenchReport.left_out|left_out_count
homerl/report/pages/bench_results.py|BenchReport.faults|fault_counts
homerl/report/pages/bench_results.py|BenchReport.metrics|metric_texts
homerl/report/pages/bench_results.py|BenchReport.cost|token_cost
homerl/report/pages/compare.py|Comparison.sentence|verdict_sentence
homerl/report/pages/compare.py|Comparison.differences|recipe_differences
homerl/app/runs/checks/preflight.py|template_of|describe_chat_template
envs/assistant/serving/page.py|Line.compared|is_as_expected
envs/assistant/serving/page.py|lines|device_lines
envs/assistant/serving/page.py|badges|exchange_badges
envs/assistant/serving/page.py|Day.counts|badge_counts
envs/assistant/serving/page.py|days|journal_days
homerl/host/pages/templates.py|template|load_template
envs/personalhome/bench/tables.py|Line.numbers|case_counts
envs/personalhome/pages/household_page.py|DeviceView.planned|is_planned
envs/personalhome/pages/household_page.py|StepView.changed|changed_names
envs/personalhome/pages/household_page.py|EpisodeView.kind|task_name
envs/personalhome/pages/household_page.py|EpisodeView.answer|answer_text
envs/personalhome/pages/household_page.py|EpisodeView.goals|goal_results
envs/personalhome/pages/household_page.py|EpisodeView.evidence|needed_evidence
envs/personalhome/pages/household_page.py|EpisodeView.read|evidence_read_count
envs/personalhome/pages/household_page.py|EpisodeView.steps|step_views
envs/personalhome/pages/household_page.py|EpisodeView.answers|answer_views
envs/personalhome/pages/household_page.py|EpisodeView.options|option_views
envs/personalhome/pages/household_page.py|EpisodeView.ranking|ranked_features
envs/personalhome/pages/household_page.py|EpisodeView.plans|plan_views
envs/personalhome/pages/household_page.py|HouseholdPage.marks|fact_marks
envs/personalhome/pages/household_page.py|HouseholdPage.told|shown_household
envs/personalhome/pages/household_page.py|HouseholdPage.people|member_names
envs/personalhome/pages/household_page.py|HouseholdPage.situations|situation_names
envs/personalhome/pages/household_page.py|HouseholdPage.memories|memory_entries
envs/personalhome/pages/household_page.py|HouseholdPage.events|event_entries
envs/personalhome/pages/household_page.py|HouseholdPage.months|memory_timeline
envs/personalhome/pages/household_page.py|HouseholdPage.hours|event_timeline
envs/personalhome/pages/household_page.py|HouseholdPage.kinds|kind_counts
envs/personalhome/pages/household_page.py|HouseholdPage.rooms|room_devices
envs/personalhome/pages/household_page.py|HouseholdPage.bare|empty_rooms
envs/personalhome/pages/household_page.py|HouseholdPage.scene|scene_rows
envs/personalhome/pages/replay.py|Marks.of|mark_of
envs/personalhome/pages/timeline.py|Entry.anchor|html_anchor
envs/personalhome/pages/timeline.py|Timeline.groups|column_groups
envs/simuhome/pages/episode.py|Page.tones|drawn_tones
envs/simuhome/pages/episode.py|Page.about|call_subjects
envs/simuhome/pages/episode.py|Page.query|user_request
envs/simuhome/pages/episode.py|Page.answer|final_answer
envs/simuhome/sim/home.py|Home.now|clock_text
envs/homeenv/pages/episode.py|StepView.set|made_changes
envs/homeenv/pages/episode.py|StepView.measured|measured_changes
envs/homeenv/pages/episode.py|Page.steps|all_steps
envs/homeenv/pages/episode.py|Page.reward|total_reward
envs/homeenv/pages/home.py|Tile.summary|tile_summary
envs/homeenv/pages/home.py|Tile.kind|category_words
envs/homeenv/pages/home.py|Tile.product|product_words
envs/homeenv/pages/home.py|Tile.icon|icon_name
envs/homeenv/pages/home.py|Tile.found_by|search_text
envs/homeenv/pages/home.py|Tile.attributes|attribute_rows
envs/homeenv/pages/home.py|Tile.services|service_rows
envs/homeenv/pages/home.py|HomeView.tiles|room_tiles
envs/homeenv/pages/home.py|HomeView.rooms|rooms_by_id
envs/homeenv/pages/home.py|HomeView.active|active_count
envs/homeenv/pages/home.py|HomeView.outdoors|outdoor_air
envs/homeenv/pages/home.py|HomeView.when|date_and_time
envs/homeenv/pages/home.py|HomeView.sky|sky_phase
envs/homeenv/pages/home.py|HomeView.air|rounded_air
envs/homeenv/pages/home.py|HomeView.exact|exact_air
envs/homeenv/pages/home.py|HomeView.glow|room_glow
envs/homeenv/pages/home.py|HomeView.floors|floor_views
envs/homeenv/pages/home.py|HomeView.weight|count_nested_devices
"""
for row in TEMPLATED.strip().splitlines():
    file, name, new = row.split("|")
    kind, _, old = name.rpartition(".")
    variables = VARIABLES.get(kind, [])
    if kind == "StepView":
        variables = ["step"] if "homeenv" in file else ["s"]
    top = "/".join(file.split("/")[:2])
    for template in glob.glob(f"{top}/**/*.jinja", recursive=True):
        text = Path(template).read_text()
        for variable in variables:
            text = re.sub(rf"(?<![\w.])((?:\w+\.)*{variable})\.{old}\b", lambda m, new=new: f"{m[1]}.{new}", text)
        Path(template).write_text(text)
