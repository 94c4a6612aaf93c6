"""Fix AttributeErrors of a pytest log by the table: python autofix.py LOG"""
import re,sys,collections,subprocess,os
rows=[l.rstrip('\n').split('\t') for l in open('scripts/house/names.tsv') if l.strip()]
bymeth=collections.defaultdict(dict)
for f,n,x in rows:
    if '.' in n: bymeth[n.rpartition('.')[2]][n.rpartition('.')[0].rpartition('.')[2]]=x
bytop=collections.defaultdict(dict)
for f,n,x in rows:
    if '.' not in n: bytop[n][f]=x
log=open(sys.argv[1]).read()
clsnew={}
for f,n,x in rows:
    if '.' not in n: clsnew[x]=n
fixed=collections.Counter(); unk=collections.Counter()
def fix(file,line,attr,new):
    if not os.path.exists(file): return False
    L=open(file).read().split('\n')
    # search near the line
    for d in (0,1,-1,2,-2,3,-3,4,5,6):
        i=line-1+d
        if 0<=i<len(L) and re.search(r'\.'+attr+r'\b',L[i]):
            L[i]=re.sub(r'\.'+attr+r'\b','.'+new,L[i]); open(file,'w').write('\n'.join(L)); return True
    return False
# split into failure blocks
for block in re.split(r'\n_{5,} .*? _{5,}\n',log):
    for m in re.finditer(r"AttributeError: (?:'(\w+)' object|type object '(\w+)') has no attribute '(\w+)'",block):
        cls=m[1] or m[2]; attr=m[3]
        old=clsnew.get(cls,cls)
        cand=bymeth.get(attr,{})
        new=cand.get(old) or (next(iter(set(cand.values()))) if len(set(cand.values()))==1 else None)
        if not new: unk[cls,attr,tuple(sorted(set(cand.items())))]+=1; continue
        after=block[m.end():m.end()+400]; before=block[:m.start()]
        locs=re.findall(r'\n([\w/.-]+\.py):(\d+): (?:AttributeError|in )',after[:200])
        if not locs: locs=re.findall(r'File "([^"]+\.py)", line (\d+)',before)[-1:]
        for file,line in locs[:1]:
            file=file.replace('/work/main/.editable/','').replace('/work/main/','')
            file=re.sub(r'^homerl/(envs|rewards)/',r'\1/',file)
            key=(file,int(line),attr,new)
            if key in fixed: continue
            if fix(file,int(line),attr,new): fixed[key]+=1
            else: unk['nofix',key]+=1
    for m in re.finditer(r"AttributeError: (?:module '([\w.]+)'|<module '([\w.]+)' from '[^']+'>) has no attribute '(\w+)'",block):
        unk['module',m[1] or m[2],m[3]]+=1
    for m in re.finditer(r"ImportError: cannot import name '(\w+)' from '([\w.]+)'",block): unk['import',m[2],m[1]]+=1
for k in fixed: print('FIXED',*k)
for k,v in unk.most_common(60): print(v,k)
