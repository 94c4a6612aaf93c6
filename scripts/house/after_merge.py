from pathlib import Path
import re,subprocess,os
def sub(p,a,b,n=0):
    s=Path(p).read_text(); assert re.search(a,s,re.S),(p,a); Path(p).write_text(re.sub(a,b,s,count=n,flags=re.S))
for d in ('terminal','processes','web','recipe','pages','measure'):
    p=Path(f'homerl/host/{d}/__init__.py')
    if p.exists(): p.unlink()
for f in ('base.css','glossary.yaml'):
    if Path(f'homerl/host/pages/{f}').exists(): os.rename(f'homerl/host/pages/{f}',f'homerl/host/{f}')
for d in ('terminal','processes','web','recipe','pages','measure'):
    p=Path(f'homerl/host/{d}')
    if p.is_dir():
        subprocess.run(['rm','-rf',str(p/'__pycache__')])
        try: p.rmdir()
        except OSError as e: print(p,list(p.iterdir()))
sub('homerl/train/credit/registry.py',r'NOT_MODES = \([^)]*\)','NOT_MODES = ("advantages", "contract", "registry")')
sub('homerl/train/engines/registry.py',r'NOT_ENGINES = \([^)]*\)','NOT_ENGINES = ("contract", "registry", "weight_sync")')
sub('envs/homeenv/tasks/intents/__init__.py',r'PARTS = \(\n.*?\)  # fmt: skip','PARTS = ("complaints_and_scenes", "device_choice", "draft", "earlier_dialogue", "operations", "questions")')
O='envs/core/old_names.py'
s=Path(O).read_text()
a=s.index('NEW_NAMES = {'); b=s.index('}\n',a)+2
s=s[:a]+'''NEW_NAMES = {
    "envs": "homerl.envs",
    **{f"envs.{name}": f"homerl.envs.core.{name}" for name in ("documents", "messages", "model", "plugins", "spaces", "world")},
    "envs.homeenv": "homerl.envs.homeenv.sim",
    "envs.homemaker": "homerl.envs.homeenv.maker",
    "envs.personalhome": "homerl.envs.personalhome.sim",
    "envs.personalhome.shown": "homerl.envs.personalhome.sim.household_view",
    "envs.simuhome": "homerl.envs.simuhome.sim",
    "envs.simuhome.evaluate": "homerl.envs.simuhome.sim.evaluation",
    "rewards": "homerl.rewards",
    "homerl.agents": "homerl.models.policy",
    "homerl.language": "homerl.play.words",
    "homerl.llm": "homerl.models.endpoint",
    "homerl.play.candidates": "homerl.play.loop",
    "homerl.terminal": "homerl.host",
    "homerl.terminal.commands": "homerl.host.terminal",
    "homerl.terminal.console": "homerl.host.terminal",
    "homerl.terminal.endings": "homerl.host.exit_codes",
    "homerl.terminal.progress": "homerl.host.progress_bar",
    "homerl.users": "homerl.worlds.users",
    "homerl.worlds.visits": "homerl.worlds.home_visits",
    "homerl.worlds": "homerl.envs",  # a world of a folder of one's own
    "homerl.worlds.homeenv.blueprints": "homerl.envs.homeenv.tasks",
    "homerl.worlds.homeenv.language": "homerl.envs.homeenv.language",
}
'''+s[b:]
s=s.replace('''    ("homerl.play.candidates", "candidates"): "draw_candidates",
''','''    ("homerl.play.candidates", "candidates"): "draw_candidates",
    ("envs.personalhome.shown", "shown"): "household_shown",
    ("envs.simuhome.evaluate", "evaluate"): "evaluate_episode",
''')
import re as _re
s=_re.sub(r'OWN_OF_WORLDS = \([^)]*\)','OWN_OF_WORLDS = ("contract", "home_visits", "paraphraser", "registry", "sources")',s)
Path(O).write_text(s)
s=Path('tests/test_previous_plugins.py').read_text()
s=s.replace('homerl.terminal.commands is homerl.host.terminal.commands now','homerl.terminal.commands is homerl.host.terminal now')
Path('tests/test_previous_plugins.py').write_text(s)
