import ast,os,re,subprocess,sys,collections
sys.path.insert(0,'scripts/house')
import rename as R
rows=R.read_table(R.Path('scripts/house/names.tsv'))
# families on the OLD tree are gone; use table rows by (file, qualname), plus by method name
names={(r.file,r.name):r.new for r in rows}
bymeth=collections.defaultdict(set)
for r in rows:
    if '.' in r.name: bymeth[r.old].add(r.new)
files=[f for f in subprocess.run(['git','ls-files','*.py'],capture_output=True,text=True).stdout.split()+['tests/helpers/forking.py'] if os.path.isfile(f) and not f.startswith(('tests/previous','scripts/house','envs/assistant/app'))]
def fileof(m):
    p=re.sub(r'^homerl/(envs|rewards)(/|$)',r'\1\2',m.replace('.','/'))
    for c in (p+'.py',p+'/__init__.py'):
        if os.path.exists(c): return c
def defs(f): return {n for n,_ in R.definitions(ast.parse(open(f).read()))}
cache={}
def D(f):
    if f not in cache: cache[f]=defs(f)
    return cache[f]
oldcls={}  # new class name -> old
for r in rows:
    if '.' not in r.name: oldcls[(r.file,r.new)]=r.name
def newpath(f,path):
    """path: list of old or new names inside file f -> list of new names"""
    out=[]; oldq=[]
    for p in path:
        q='.'.join(oldq+[p])
        if (f,q) in names:
            out.append(names[f,q]); oldq.append(p)
        else:
            o=oldcls.get((f,p),p); oldq.append(o); out.append(p)
            # inherited method
            if len(out)>1 and '.'.join(out) not in D(f) and len(bymeth.get(p,()))==1 : out[-1]=next(iter(bymeth[p]))
            elif len(out)>1 and '.'.join(out) not in D(f) and p in bymeth:
                c=[x for x in bymeth[p] if '.'.join(out[:-1]+[x]) in D(f)]
                if len(c)==1: out[-1]=c[0]
    return out
total=0
for f in sorted(set(files)):
    s=open(f).read(); t=ast.parse(s); edits=[]
    imp={}
    for x in ast.walk(t):
        if isinstance(x,ast.ImportFrom) and x.module and x.module.startswith('homerl'):
            for a in x.names:
                m=fileof(x.module+'.'+a.name)
                if m: imp[a.asname or a.name]=(m,[])
                elif fileof(x.module): imp[a.asname or a.name]=(fileof(x.module),[a.name])
    def const(node,new):
        if node.value!=new: edits.append((node,new))
    for x in ast.walk(t):
        if isinstance(x,ast.Call):
            fn=getattr(x.func,'id',None) or getattr(x.func,'attr',None)
            if fn=='late' and len(x.args)==2 and all(isinstance(a,ast.Constant) for a in x.args):
                g=fileof(x.args[0].value)
                if g: const(x.args[1],'.'.join(newpath(g,x.args[1].value.split('.'))))
            if fn in('setattr','getattr','hasattr','delattr','object') and len(x.args)>=2 and isinstance(x.args[1],ast.Constant) and isinstance(x.args[1].value,str):
                base=ast.unparse(x.args[0]).split('.')
                if base[0] in imp:
                    g,pre=imp[base[0]]
                    n=newpath(g,pre+base[1:]+[x.args[1].value])
                    const(x.args[1],n[-1])
                elif x.args[1].value in bymeth and fn!='setattr': print('CHECK',f,x.lineno,ast.unparse(x)[:100],bymeth[x.args[1].value])
        if isinstance(x,ast.Constant) and isinstance(x.value,str) and re.fullmatch(r'homerl(\.\w+)+',x.value):
            parts=x.value.split('.')
            for k in range(len(parts),1,-1):
                g=fileof('.'.join(parts[:k]))
                if g:
                    if k<len(parts): const(x,'.'.join(parts[:k]+newpath(g,parts[k:])))
                    break
    if edits:
        lines=s.split('\n')
        for n,new in sorted(edits,key=lambda e:(-e[0].lineno,-e[0].col_offset)):
            l=lines[n.lineno-1].encode(); seg=l[n.col_offset:n.end_col_offset].decode()
            assert n.value in seg,(f,n.lineno,seg)
            print(f,n.lineno,n.value,'->',new); total+=1
            lines[n.lineno-1]=(l[:n.col_offset]+seg.replace(n.value,new).encode()+l[n.end_col_offset:]).decode()
        open(f,'w').write('\n'.join(lines))
print(total)
