from pathlib import Path
import re,subprocess
def sub(p,a,b,n=0):
    s=Path(p).read_text(); assert re.search(a,s),(p,a); Path(p).write_text(re.sub(a,b,s))
sub('envs/simuhome/sim/clusters/onoff.py',r'\b_set_power\b','_switch_power')
sub('envs/homeenv/tasks/intents/scenes.py',r'\b_drafted\b','_draft_scene')
sub('envs/homeenv/tasks/intents/complaints.py',r'\b_drafted\b','_draft_complaint')
sub('envs/personalhome/sim/generate/memories.py',r'\bTRIES\b','MEMORY_TRIES')
sub('envs/personalhome/sim/generate/events.py',r'\bTRIES\b','EVENT_TRIES')
sub('envs/personalhome/tasks/questions/scene_tables.py',r'\bRow\b','SceneRow')
sub('envs/assistant/listing/lights.py',r'\bPLAIN\b','WITHOUT_BRIGHTNESS')
sub('envs/assistant/listing/codes.py',r'\b_service\b','_service_with_code')
sub('homerl/models/policy/controls.py',r'\bMARK\b','CONTROL_MARK')
for p in ('homerl/train/data/balance.py','homerl/train/data/curriculum.py'): pass
sub('envs/assistant/automations/text.py',r'\bSTATES\b','CHANGE_KEYS')
sub('homerl/report/pages/seeds.py' if Path('homerl/report/pages/seeds.py').exists() else 'homerl/bench/seeds.py',r'\bMODELS\b','SEED_MODELS')
