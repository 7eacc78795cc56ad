import sys, warnings, logging
logging.disable(logging.CRITICAL)
warnings.simplefilter("ignore")
import kmill
from sklearn.utils.estimator_checks import check_estimator
names=[n for n in kmill.__all__ if n[0].isupper() and n!="Error"]
names=sys.argv[1:] or names
for n in names:
    r=check_estimator(getattr(kmill,n)(), on_fail=None, on_skip=None)
    c={}
    for x in r: c[x["status"]]=c.get(x["status"],0)+1
    print(n,c,flush=True)
    for x in r:
        if x["status"]=="failed": print("   ",x["check_name"],type(x["exception"]).__name__,str(x["exception"])[:300].replace("\n"," | "))
