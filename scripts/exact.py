#!/usr/bin/env python3
"""Exact kernel ridge regression on a random subset: the dense solution, as a reference for approximations.

Solves (K + lambda·n·I) a = y - mean(y) in float64 by Cholesky; Gaussian kernel exp(-|x-z|^2 / (2 sigma^2)); features
standardised by the mean and the population standard deviation of the training rows. Prints one JSON line.

  python3 scripts/exact.py protein.parquet --sigma 1 --penalty 1e-6 --rows 10000

Needs numpy, scipy and pyarrow. Training rows have fold != 0, test rows have fold == 0.
"""

import argparse
import json

import numpy as np
import pyarrow.parquet as pq
import scipy
import scipy.linalg as sl


def gaussian(x, z, sigma):
    r = (x * x).sum(1)[:, None] + (z * z).sum(1)[None, :] - 2 * x @ z.T
    return np.exp(-np.maximum(r, 0) / (2 * sigma * sigma))


p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
p.add_argument("data")
p.add_argument("--sigma", type=float, required=True)
p.add_argument("--penalty", type=float, required=True, help="regularisation parameter lambda, per row")
p.add_argument("--rows", type=int, default=10_000)
p.add_argument("--seed", type=int, default=0)
a = p.parse_args()

t = pq.read_table(a.data).to_pydict()
names = sorted((n for n in t if n[0] == "x" and n[1:].isdigit()), key=lambda n: int(n[1:]))
x = np.array([t[n] for n in names], np.float64).T
y, test = np.array(t["y"], np.float64), np.array(t["fold"]) == 0
train = np.flatnonzero(~test)
mean, deviation = x[train].mean(0), x[train].std(0)
deviation[deviation == 0] = 1
x = (x - mean) / deviation
pick = np.sort(np.random.default_rng(a.seed).choice(train, min(a.rows, len(train)), replace=False))
k = gaussian(x[pick], x[pick], a.sigma)
k[np.diag_indices(len(pick))] += a.penalty * len(pick)
centre = y[pick].mean()
alpha = sl.cho_solve(sl.cho_factor(k, lower=True, overwrite_a=True, check_finite=False), y[pick] - centre)
error = gaussian(x[test], x[pick], a.sigma) @ alpha + centre - y[test]
print(
    json.dumps(
        {
            "rows": len(pick),
            "sigma": a.sigma,
            "lambda": a.penalty,
            "rmse": float(np.sqrt(np.mean(error**2))),
            "versions": {"numpy": np.__version__, "scipy": scipy.__version__},
        }
    )
)
