import ast,os,re,subprocess,sys
rows=[l.rstrip('\n').split('\t') for l in open('scripts/house/names.tsv') if l.strip()]
names={(f,n):x for f,n,x in rows}
def fileof(m):
    p=re.sub(r'^homerl/(envs|rewards)(/|$)',r'\1\2',m.replace('.','/'))
    for c in (p+'.py',p+'/__init__.py'):
        if os.path.exists(c): return c
def tops(f): return {n.name for n in ast.parse(open(f).read()).body if isinstance(n,(ast.FunctionDef,ast.AsyncFunctionDef,ast.ClassDef))}
IMP=re.compile(r'from (homerl[\w.]*) import ([\w, ]+)')
def ren(code):
    todo={}
    for m in IMP.finditer(code):
        g=fileof(m[1])
        if not g: continue
        for n in re.split(r'[,\s]+',m[2]):
            if (g,n) in names and n not in tops(g): todo[n]=names[g,n]
    for m in re.finditer(r'import (homerl[\w.]*) as (\w+)',code):
        g=fileof(m[1])
        if g:
            for u in re.findall(r'\b'+m[2]+r'\.(\w+)',code):
                if (g,u) in names and u not in tops(g): code=re.sub(r'\b'+m[2]+r'\.'+u+r'\b',m[2]+'.'+names[g,u],code)
    for m in set(re.findall(r'\bhomerl(?:\.\w+)+',code)):
        parts=m.split('.')
        for k in range(len(parts)-1,1,-1):
            g=fileof('.'.join(parts[:k]))
            if g:
                if (g,parts[k]) in names and parts[k] not in tops(g): code=code.replace(m,'.'.join(parts[:k]+[names[g,parts[k]]]+parts[k+1:]))
                break
    for n,x in todo.items(): code=re.sub(r'(?<![\w."\'])'+n+r'\b(?!["\'=])',x,code)
    return code
for f in subprocess.run(['git','ls-files','tests','scripts','docs','README.md','CONTRIBUTING.md'],capture_output=True,text=True).stdout.split():
    if f.startswith(('tests/previous','scripts/house')) or not os.path.isfile(f): continue
    try: s=open(f).read()
    except UnicodeDecodeError: continue
    if f.endswith('.py'):
        t=ast.parse(s); L=s.split('\n'); ed=[]
        for x in ast.walk(t):
            if isinstance(x,ast.Constant) and isinstance(x.value,str) and 'homerl' in x.value and ('import' in x.value or '.' in x.value):
                a,b=x.lineno-1,x.end_lineno-1
                raw='\n'.join(L[a:b+1]); new=ren(raw)
                if new!=raw: ed.append((a,b,new))
        for a,b,new in sorted(set(ed),reverse=True): L[a:b+1]=new.split('\n')
        n='\n'.join(L)
    elif f.endswith('.md'):
        n=re.sub(r'```.*?```',lambda m:ren(m[0]),s,flags=re.S)
        n=re.sub(r'`homerl[\w.]+`',lambda m:ren(m[0]),n)
    else: n=ren(s) if 'import homerl' in s or 'from homerl' in s else s
    if n!=s: print(f, len(n)-len(s)); open(f,'w').write(n)
