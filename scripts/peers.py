#!/usr/bin/env python3
"""Runs a program that a user would use instead of kmill, one job per call; scripts/compare.py runs these jobs and kmill.

    python3 scripts/peers.py nystroem-ridge beijing-pm25.parquet --train 284217 --rank 2000 --sigma 5 --penalty 1e-6

The first --train rows of a Parquet file with columns x0, x1, ... and y are the training rows, the others are the test rows.
Features are standardised with the mean and the population standard deviation of the training rows. The kernel is exp(-|x-z|^2
/ (2 sigma^2)), --penalty is lambda of (1/n) sum loss + lambda |w|^2, -C the constant of C sum loss + |w|^2 / 2.

Prints one JSON line: seconds of each stage, the error, versions, the kernels of the BLAS; or the reason why the library is missing. Needs numpy, scipy,
scikit-learn, threadpoolctl and pyarrow; libsvm-official, falkon, lightgbm, xgboost, catboost, xrfm and the authors' RPCholesky (--rpcholesky FOLDER) for the peers of
these names. Boosting and xRFM are in tables.py.
"""

import argparse
import importlib.metadata
import importlib.util
import json
import sys
import time

import blas  # before numpy

import numpy as np
import pyarrow.parquet as pq
import scipy.linalg as sl
import tables

BATCH = 8192


class Clock:
    """Measures the seconds of named stages."""

    def __init__(self):
        self.last, self.stages = time.perf_counter(), {}

    def lap(self, name):
        now = time.perf_counter()
        self.stages[name], self.last = now - self.last, now


def names(path):
    """Returns the feature columns in the order of their numbers."""
    columns = pq.ParquetFile(path).schema_arrow.names
    return sorted((c for c in columns if c[0] == "x" and c[1:].isdigit()), key=lambda c: int(c[1:]))


def batches(path, size=65_536):
    """Yields batches of rows and targets of the file, in order."""
    columns = [*names(path), "y"]
    for batch in pq.ParquetFile(path).iter_batches(batch_size=size, columns=columns):
        x = np.empty((len(batch), len(columns) - 1), np.float32)
        for j in range(x.shape[1]):
            x[:, j] = batch.column(j).to_numpy(zero_copy_only=False)
        yield x, batch.column(x.shape[1]).to_numpy(zero_copy_only=False)


def moments(blocks):
    """Returns mean and standard deviation of each column, in double precision."""
    n, total, squares = 0, 0.0, 0.0
    for x in blocks:
        x = x.astype(np.float64)
        n, total, squares = n + len(x), total + x.sum(0), squares + (x * x).sum(0)
    mean = total / n
    deviation = np.sqrt(np.maximum(squares / n - mean * mean, 0))
    return mean, np.where(deviation > 1e-7 * np.abs(mean), deviation, 1)


def load(a):
    """Returns scaled training and test rows, read batch by batch."""
    rows, at = pq.ParquetFile(a.data).metadata.num_rows, 0
    x, y = np.empty((rows, len(names(a.data))), a.dtype), None
    for part, target in batches(a.data):
        y = np.empty(rows, target.dtype) if y is None else y
        x[at : at + len(part)], y[at : at + len(part)] = part, target
        at += len(part)
    mean, deviation = moments(x[i : i + BATCH] for i in range(0, a.train, BATCH))
    x -= mean.astype(x.dtype)
    x /= deviation.astype(x.dtype)
    return x[: a.train], y[: a.train], x[a.train :], y[a.train :]


def gaussian(x, z, sigma):
    """Returns a block of the kernel matrix, computed in place as far as numpy can."""
    k = x @ z.T
    k *= 2
    k -= np.einsum("ij,ij->i", x, x)[:, None]
    k -= np.einsum("ij,ij->i", z, z)[None, :]
    np.minimum(k, 0, out=k)
    k *= 1 / (2 * sigma * sigma)
    return np.exp(k, out=k)


def factor(k):
    """Returns the lower Cholesky factor, with the smallest jitter on the diagonal that makes the matrix positive definite."""
    jitter = len(k) * np.finfo(np.float64).eps
    while True:
        try:
            return sl.cholesky(k + jitter * np.eye(len(k)), lower=True, check_finite=False)
        except sl.LinAlgError:
            jitter *= 10


def mean_squared(prediction, truth):
    return float(np.mean((np.asarray(prediction, np.float64).ravel() - truth) ** 2))


def approximate(a):
    """Returns the feature map of scikit-learn that the peer uses."""
    from sklearn.kernel_approximation import Nystroem, RBFSampler

    map_ = Nystroem if a.peer.startswith("nystroem") else RBFSampler
    return map_(gamma=1 / (2 * a.sigma**2), n_components=a.rank, random_state=a.seed)


def regression(a, clock):
    """Nystroem or RBFSampler, then Ridge."""
    from sklearn.linear_model import Ridge

    x, y, x_test, y_test = load(a)
    centre = y.mean(dtype=np.float64)
    clock.lap("read")
    features = approximate(a).fit(x)
    clock.lap("fit map")
    phi = features.transform(x)
    clock.lap("features")
    model = Ridge(alpha=a.penalty * len(x)).fit(phi, (y - centre).astype(phi.dtype))
    clock.lap("ridge")
    del phi
    error = mean_squared(model.predict(features.transform(x_test)) + centre, y_test)
    clock.lap("predict")
    return error


def classification(a, clock):
    """Nystroem, then a linear classifier."""
    from sklearn.linear_model import LogisticRegression, RidgeClassifier, SGDClassifier
    from sklearn.svm import LinearSVC

    x, y, x_test, y_test = load(a)
    clock.lap("read")
    head = {
        "nystroem-ridgeclassifier": lambda: RidgeClassifier(alpha=a.penalty * len(x)),
        "nystroem-linearsvc": lambda: LinearSVC(C=a.C, dual=False, random_state=a.seed),
        "nystroem-logistic": lambda: LogisticRegression(C=a.C, max_iter=a.iterations),
        "nystroem-sgd": lambda: SGDClassifier(alpha=a.penalty, n_jobs=a.threads, random_state=a.seed),
    }[a.peer]()
    features = approximate(a).fit(x)
    clock.lap("fit map")
    phi = features.transform(x)
    clock.lap("features")
    head.fit(phi, y)
    clock.lap("train")
    del phi
    error = float(np.mean(head.predict(features.transform(x_test)) != y_test))
    clock.lap("predict")
    return error


def exact_regression(a, clock):
    """scikit-learn's KernelRidge."""
    from sklearn.kernel_ridge import KernelRidge

    x, y, x_test, y_test = load(a)
    centre = y.mean(dtype=np.float64)
    clock.lap("read")
    model = KernelRidge(alpha=a.penalty * len(x), kernel="rbf", gamma=1 / (2 * a.sigma**2)).fit(x, y - centre)
    clock.lap("train")
    error = mean_squared(model.predict(x_test) + centre, y_test)
    clock.lap("predict")
    return error


def exact_svm(a, clock):
    """An exact kernel SVM: scikit-learn's SVC or LIBSVM's own Python package."""
    x, y, x_test, y_test = load(a)
    gamma = 1 / (2 * a.sigma**2)
    clock.lap("read")
    if a.peer == "svc":
        from sklearn.svm import SVC

        model = SVC(C=a.C, gamma=gamma, cache_size=1000).fit(x, y)
        clock.lap("train")
        labels = model.predict(x_test)
    else:
        from libsvm import svm, svmutil

        problem = svm.svm_problem(y.astype(np.float64), x.astype(np.float64))
        model = svmutil.svm_train(problem, svm.svm_parameter(f"-s 0 -t 2 -g {gamma!r} -c {a.C!r} -m 1000 -q"))
        clock.lap("train")
        labels = np.array(svmutil.svm_predict(y_test.astype(np.float64), x_test.astype(np.float64), model, "-q")[0])
    error = float(np.mean(labels != y_test))
    clock.lap("predict")
    return error


def components(a, clock):
    """Kernel principal components. The error is the fraction of tr K that the components do not explain, before centring."""
    from sklearn.decomposition import PCA, KernelPCA

    x, _, _, _ = load(a)
    clock.lap("read")
    if a.peer == "kernelpca":
        model = KernelPCA(n_components=a.components, kernel="rbf", gamma=1 / (2 * a.sigma**2), random_state=a.seed)
        model.fit(x)
        values = model.eigenvalues_ / len(x)
    else:
        phi = approximate(a).fit_transform(x)
        clock.lap("features")
        model = PCA(n_components=a.components, random_state=a.seed).fit(phi)
        values = model.explained_variance_ * (len(x) - 1) / len(x)
    clock.lap("train")
    return float(1 - np.sum(values, dtype=np.float64))


def falkon(a, clock):
    """FALKON on the CPU, uniform centres, 20 iterations of preconditioned conjugate gradient."""
    import falkon as package
    import torch

    torch.set_num_threads(a.threads)
    torch.manual_seed(a.seed)
    x, y, x_test, y_test = load(a)
    centre = y.mean(dtype=np.float64)
    clock.lap("read")
    # KeOps, its default, is several times slower without a GPU
    options = package.FalkonOptions(use_cpu=True, keops_active="no")
    kernel = package.kernels.GaussianKernel(sigma=a.sigma)
    model = package.Falkon(kernel=kernel, penalty=a.penalty, M=a.rank, maxiter=20, seed=a.seed, options=options)
    model.fit(torch.from_numpy(x), torch.from_numpy((y - centre).astype(x.dtype)).reshape(-1, 1))
    clock.lap("train")
    error = mean_squared(model.predict(torch.from_numpy(x_test)).numpy() + centre, y_test)
    clock.lap("predict")
    return error


def stream(a, clock):
    """A hand-written stream: rows in batches, uniform landmarks, normal equations summed in double precision."""
    def training():
        left = a.train
        for x, y in batches(a.data, BATCH):
            yield x[:left], y[:left]
            left -= len(x)
            if left <= 0:
                return

    sampled = np.sort(np.random.default_rng(a.seed).choice(a.train, a.rank, replace=False))
    drawn, at, targets = [], 0, 0.0

    def first_pass():
        nonlocal at, targets
        for x, y in training():
            drawn.append(x[sampled[(sampled >= at) & (sampled < at + len(x))] - at])
            at, targets = at + len(x), targets + y.sum(dtype=np.float64)
            yield x

    mean, deviation = moments(first_pass())
    scale = lambda x: ((x - mean) / deviation).astype(np.float32)
    z, centre = scale(np.concatenate(drawn)), targets / a.train
    clock.lap("statistics and landmarks")
    lower = factor(gaussian(z.astype(np.float64), z.astype(np.float64), a.sigma))
    lower32 = lower.astype(np.float32)

    def features(x):
        return sl.solve_triangular(lower32, gaussian(z, scale(x), a.sigma), lower=True, check_finite=False).T

    gram, right, sums = np.zeros((a.rank, a.rank)), np.zeros(a.rank), np.zeros(a.rank)
    for x, y in training():
        phi = features(x)
        gram += phi.T @ phi
        right += phi.T @ (y - centre).astype(np.float32)
        sums += phi.sum(0, dtype=np.float64)
    clock.lap("Gram matrix")
    gram -= np.outer(sums, sums) / a.train
    gram[np.diag_indices(a.rank)] += a.penalty * a.train
    w = sl.solve(gram, right, assume_a="pos", check_finite=False)
    constant = centre - sums @ w / a.train
    clock.lap("solve")
    squares, count, skip = 0.0, 0, a.train
    for x, y in batches(a.data, BATCH):
        if skip < len(x):
            part, truth = x[max(skip, 0) :], y[max(skip, 0) :]
            squares += float(np.sum((features(part) @ w + constant - truth) ** 2))
            count += len(part)
        skip -= len(x)
    clock.lap("predict")
    return squares / count


def pivoted(x, rank, sigma, rng):
    """Randomly pivoted Cholesky, one pivot at a time: Chen, Epperly, Tropp, Webber 2022, algorithm 1."""
    left, f = np.ones(len(x)), np.zeros((rank, len(x)))
    for i in range(rank):
        total = left.sum()
        if total <= 1e-14 * len(x):
            return f[:i]
        pivot = min(int(np.searchsorted(np.cumsum(left), rng.random() * total)), len(x) - 1)
        column = gaussian(x[pivot : pivot + 1], x, sigma)[0]
        column[pivot] = 1
        column -= f[:i, pivot] @ f[:i]
        f[i] = column / np.sqrt(max(column[pivot], np.finfo(np.float64).tiny))
        left = np.maximum(left - f[i] ** 2, 0)
        left[pivot] = 0
    return f


def low_rank(a, clock):
    """A factor F of K = F F^T. The error is the relative trace error, (tr K - |F|^2) / tr K."""
    if a.peer == "rpcholesky-authors":
        sys.path.insert(0, a.rpcholesky)
        import rpcholesky
        from matrix import KernelMatrix
    x, _, _, _ = load(a)
    clock.lap("read")
    if a.peer == "rpcholesky-authors":
        np.random.seed(a.seed)
        matrix = KernelMatrix(x, kernel="gaussian", bandwidth=a.sigma)
        f = rpcholesky.rpcholesky(matrix, a.rank).get_left_factor()
    elif a.peer == "rpcholesky-numpy":
        f = pivoted(x, a.rank, a.sigma, np.random.default_rng(a.seed))
    elif a.peer == "uniform-numpy":
        z = x[np.random.default_rng(a.seed).choice(len(x), a.rank, replace=False)]
        lower = factor(gaussian(z, z, a.sigma))
        f = sl.solve_triangular(lower, gaussian(z, x, a.sigma), lower=True, check_finite=False, overwrite_b=True)
    else:
        f = approximate(a).fit_transform(x)
    clock.lap("train")
    return float(1 - np.sum(np.square(f, dtype=np.float64)) / len(x))


def table(a, clock):
    """Gradient boosting or xRFM on all rows; trees do not depend on the scale of the features."""
    x, y, z, truth = load(a)
    clock.lap("read")
    model = tables.model(a, x, y)
    model.fit(x, y)
    clock.lap("train")
    error = tables.error(model, z, truth)
    clock.lap("predict")
    return error


def ranking(a, clock):
    """LightGBM on relevance grades within groups, pairwise or as regression. The error is the fraction of wrongly ordered pairs."""
    x, y, z, truth = load(a)
    groups = pq.read_table(a.data, columns=["qid"]).column(0).to_numpy()
    clock.lap("read")
    by_pairs = a.peer == "lambdarank"
    make = tables.lightgbm_ranker if by_pairs else tables.lightgbm
    model = make(a, False)
    model.fit(x, y, **({"group": np.unique(groups[: a.train], return_counts=True)[1]} if by_pairs else {}))
    clock.lap("train")
    scores = model.predict(z)
    error = tables.wrong_pairs(scores, truth, groups[a.train :])
    clock.lap("predict")
    return error


PEERS = {
    **{name: (table, library) for name, (_, library) in tables.PEERS.items()},
    "nystroem-ridge": (regression, "scikit-learn"),
    "rbfsampler-ridge": (regression, "scikit-learn"),
    "nystroem-ridgeclassifier": (classification, "scikit-learn"),
    "nystroem-linearsvc": (classification, "scikit-learn"),
    "nystroem-logistic": (classification, "scikit-learn"),
    "nystroem-sgd": (classification, "scikit-learn"),
    "kernelridge": (exact_regression, "scikit-learn"),
    "svc": (exact_svm, "scikit-learn"),
    "libsvm": (exact_svm, "libsvm-official"),
    "kernelpca": (components, "scikit-learn"),
    "nystroem-pca": (components, "scikit-learn"),
    "nystroem-trace": (low_rank, "scikit-learn"),
    "uniform-numpy": (low_rank, "numpy"),
    "rpcholesky-numpy": (low_rank, "numpy"),
    "rpcholesky-authors": (low_rank, "numpy"),
    "lambdarank": (ranking, "lightgbm"),
    "lightgbm-grades": (ranking, "lightgbm"),
    "stream": (stream, "numpy"),
    "falkon": (falkon, "falkon"),
}

# module names that differ from the names of the distributions
MODULES = {"libsvm-official": "libsvm", "scikit-learn": "sklearn"}


def missing(a, library):
    """Returns the reason why a peer cannot run; None if it can."""
    if a.peer == "rpcholesky-authors" and not a.rpcholesky:
        return "not installed (--rpcholesky FOLDER)"
    return None if importlib.util.find_spec(MODULES.get(library, library)) else "not installed"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("peer", choices=PEERS)
    p.add_argument("data")
    p.add_argument("--train", type=int, required=True, help="number of training rows; the others are test rows")
    p.add_argument("--rank", type=int, default=1000)
    p.add_argument("--sigma", type=float, default=1.0)
    p.add_argument("--penalty", type=float, default=1e-6)
    p.add_argument("-C", type=float, default=1.0)
    p.add_argument("--components", type=int, default=10)
    p.add_argument("--iterations", type=int, default=1000, help="maximum number of iterations of LogisticRegression")
    p.add_argument("--dtype", choices=("float32", "float64"), default="float32")
    p.add_argument("--threads", type=int, default=2, help="threads of libraries with such an option; BLAS reads OMP_NUM_THREADS")
    p.add_argument("--time", type=float, default=240, help="seconds of a parameter search; the trials take half of them")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--rpcholesky", default="", help="folder of the RPCholesky authors' program")
    a = p.parse_args()
    run, library = PEERS[a.peer]
    why = missing(a, library)
    if why:
        print(json.dumps({"missing": why}))
        return
    clock = Clock()
    error = run(a, clock)
    versions = {name: importlib.metadata.version(name) for name in {"numpy", "scipy", "pyarrow", library}}
    print(json.dumps({"error": error, "stages": clock.stages, "versions": versions, "blas": blas.kernels()}))


if __name__ == "__main__":
    main()
