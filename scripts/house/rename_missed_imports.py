import ast,os,re,subprocess,sys
rows=[l.rstrip('\n').split('\t') for l in open('scripts/house/names.tsv') if l.strip()]
names={(f,n):x for f,n,x in rows}
files=[f for f in subprocess.run(['git','ls-files','*.py'],capture_output=True,text=True).stdout.split() if os.path.isfile(f) and not f.startswith(('tests/previous','scripts/house','envs/assistant/app'))]
def fileof(m):
    p=m.replace('.','/')
    p=re.sub(r'^homerl/(envs|rewards)/',r'\1/',p)
    for c in (p+'.py',p+'/__init__.py'):
        if os.path.exists(c): return c
for f in files:
    s=open(f).read(); t=ast.parse(s); todo={}
    for x in ast.walk(t):
        if isinstance(x,ast.ImportFrom) and x.module and x.module.startswith('homerl'):
            g=fileof(x.module)
            if not g: continue
            tops={n.name for n in ast.parse(open(g).read()).body if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef))}
            for a in x.names:
                if (g,a.name) in names and a.name not in tops: todo[a.name]=(names[g,a.name],a.asname)
    if not todo: continue
    print(f,todo)
    lines=s.split('\n'); edits=[]
    for x in ast.walk(t):
        if isinstance(x,ast.Name) and x.id in todo and not todo[x.id][1]: edits.append((x.lineno,x.col_offset,x.id))
        if isinstance(x,ast.ImportFrom):
            for a in x.names:
                if a.name in todo: edits.append((a.lineno,a.col_offset,a.name))
    for ln,co,n in sorted(set(edits),reverse=True):
        l=lines[ln-1]; b=l.encode(); assert b[co:co+len(n)].decode()==n,(f,ln,l)
        lines[ln-1]=(b[:co]+todo[n][0].encode()+b[co+len(n):]).decode()
    open(f,'w').write('\n'.join(lines))
