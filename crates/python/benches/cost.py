"""Measures the cost of a fit of kmill or scikit-learn, each in its own process: ``python cost.py kmill|sklearn ridge|class|kpca x.npy y.npy``."""

import os
import resource
import sys
import time

for name in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):
    os.environ.pop(name, None)  # they make OpenBLAS use the kernels of another processor; it reads them when numpy is loaded

import numpy as np

RANK = 1000


def cpu() -> float:
    """Returns the processor time of this process in seconds."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def ours(task: str):
    import kmill

    shared = {"kernel": "gaussian(sigma=5)", "scale": "standard", "rank": RANK}
    match task:
        case "ridge":
            return kmill.KernelRidge(lambdas=1e-6, **shared)
        case "class":
            return kmill.KernelRidgeClassifier(lambdas=1e-6, **shared)
    return kmill.KernelPCA(10, **shared)


def theirs(task: str, rows: int):
    from sklearn.decomposition import PCA
    from sklearn.kernel_approximation import Nystroem
    from sklearn.linear_model import Ridge, RidgeClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    last = {"ridge": Ridge(alpha=1e-6 * rows), "class": RidgeClassifier(alpha=1e-6 * rows), "kpca": PCA(10)}[task]
    return make_pipeline(StandardScaler(), Nystroem(gamma=1 / 50, n_components=RANK, random_state=0), last)


def main() -> None:
    who, task, x, y = sys.argv[1:]
    X, y = np.load(x), np.load(y)
    if task == "class":
        y = (y > np.median(y)).astype(int)
    model = ours(task) if who == "kmill" else theirs(task, len(X))
    used, began = cpu(), time.perf_counter()
    model.fit(X, y)
    seconds, used = time.perf_counter() - began, cpu() - used
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"{who} {task}: {seconds:.2f} s, {used:.2f} s of processor time, peak {peak:.2f} GiB")


if __name__ == "__main__":
    main()
