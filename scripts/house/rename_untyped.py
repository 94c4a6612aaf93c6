"""Rename what the language server could not type, where it is safe: `.old` when no class of ours has `old` any more."""
import ast,os,re,sys,collections,subprocess
ROOT=os.getcwd(); apply='--apply' in sys.argv
rows=[l.rstrip('\n').split('\t') for l in open('scripts/house/names.tsv') if l.strip()]
new=collections.defaultdict(set)
meth=set()
for f,n,x in rows:
    if '.' in n: new[n.rpartition('.')[2]].add(x); meth.add(n.rpartition('.')[2])
files=[f for f in subprocess.run(['git','ls-files','-co','--exclude-standard'],capture_output=True,text=True).stdout.split('\n') if f and os.path.isfile(f) and not os.path.islink(f) and not f.startswith(('scripts/house/','tests/previous/','envs/assistant/app/','models/'))]
have=collections.Counter()
for f in files:
    if not f.endswith('.py'): continue
    for x in ast.walk(ast.parse(open(f).read())):
        if isinstance(x,(ast.FunctionDef,ast.AsyncFunctionDef)): have[x.name]+=1
        elif isinstance(x,ast.ClassDef):
            for b in x.body:
                if isinstance(b,ast.AnnAssign) and isinstance(b.target,ast.Name): have[b.target.id]+=1
                if isinstance(b,ast.Assign):
                    for t in b.targets:
                        for y in ast.walk(t):
                            if isinstance(y,ast.Name): have[y.id]+=1
        elif isinstance(x,ast.Attribute) and isinstance(x.ctx,ast.Store): have[x.attr]+=1
        elif isinstance(x,ast.Call) and getattr(x.func,'id','') in('SimpleNamespace','namedtuple'):
            for k in x.keywords: have[k.arg]+=1
lib=set()
import pathlib,random,asyncio,subprocess as sp,argparse,json,logging,datetime,threading,socket,io,types,itertools,collections as co,functools,contextlib,html,http,urllib.parse,shutil,time,math,statistics,tempfile,zipfile,gzip,csv
for t in (str,bytes,list,dict,set,tuple,int,float,pathlib.Path,random.Random,re.Pattern,asyncio.AbstractEventLoop,sp.Popen,argparse.Namespace,logging.Logger,datetime.datetime,datetime.timedelta,threading.Thread,threading.Lock,io.StringIO,types.ModuleType,co.Counter,co.deque,os,sys,json,re,math,time,shutil,asyncio,random,itertools,functools,contextlib,subprocess,statistics,socket,html,urllib.parse,tempfile,gzip,csv,types.SimpleNamespace,ast,BaseException,Exception,type(re.match('','')),property,co): lib|=set(dir(t))
try:
    import torch,numpy,rich.console,typer,pydantic,transformers
    for t in (torch,torch.Tensor,torch.nn.Module,numpy,numpy.ndarray,rich.console.Console,typer,pydantic.BaseModel,transformers.PreTrainedTokenizerBase,transformers.Trainer,transformers.PreTrainedModel): lib|=set(dir(t))
except Exception as e: print(e)
import pathlib as _p
lib|={_p.Path(f).stem for f in files}|{q for f in files for q in f.split('/')}
safe={o:next(iter(n)) for o,n in new.items() if len(n)==1 and not have[o] and o not in lib}
print(len(new),'old method names;',len(safe),'safe;', 'kept for they are still ours:',sorted(o for o in new if have[o])[:400])
word=re.compile(r'(?<![\w])\.([A-Za-z_]\w*)')
cnt=collections.Counter()
for f in files:
    if not f.endswith(('.py','.jinja')): continue
    s=open(f).read()
    def sub(m):
        if m[1] in safe: cnt[m[1]]+=1; return '.'+safe[m[1]]
        return m[0]
    t=re.sub(r'(?<=[\w\)\]"\'])\.([A-Za-z_]\w*)\b',sub,s) if f.endswith('.py') else re.sub(r'(?<=[\w\)\]])\.([A-Za-z_]\w*)\b',sub,s)
    if t!=s and apply: open(f,'w').write(t)
print(sum(cnt.values()),cnt.most_common(80))
