#!/usr/bin/env python3
"""Compares the flop rate of kmill's Gram pass with that of the machine: sgemm of NumPy's BLAS, measured in the same minute.

    scripts/rates.py [--kmill PATH] [--threads 2] [--repeats 3]
    scripts/rates.py --solvers [--kmill PATH] [--threads 2] [--rows 200000] [--rank 1000]

A row of the pass takes 2dm flops for kernel values, m² for the triangular solve that makes features, and m² for the Gram matrix of the
features. The time per row is the difference of the times of two fits, of 2n and of n rows, divided by n, which excludes start,
landmarks and the final solve. The fraction is (flops per row at the rate of sgemm)/(time per row): exponentials, sums in f64, reading and
scaling count in the time, but not in the flops. The last two columns are the time per row of the same three products of the same shapes with
SciPy's BLAS, and its fraction of kmill's time. The last line names the kernels that OpenBLAS selected. Needs numpy, scipy, pyarrow and
threadpoolctl.

With --solvers, the table has one row per solver, for a whole fit of a generated table. Flops are those of the products: 2dm + m² per row
for features, m² for a Gram matrix, and 2mk (values of k functions) or 4mk (values and gradients) per row and pass. Landmarks, factors,
Newton's equations, exponentials and reading count in the time, but not in the flops. `fraction` is the time of the same products of the
same shapes with SciPy's BLAS, divided by the time of the fit.
"""

import argparse
import json
import resource
import statistics
import subprocess
import tempfile
import time
from pathlib import Path

import blas  # before numpy

parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--kmill", default=str(Path(__file__).resolve().parent.parent / "target/release/kmill"))
parser.add_argument("--threads", type=int, default=2)
parser.add_argument("--repeats", type=int, default=3)
parser.add_argument("--dimensions", default="10,45,128,784")
parser.add_argument("--ranks", default="500,1000,2000,4000,8000")
parser.add_argument("--solvers", action="store_true", help="one row per solver")
parser.add_argument("--rows", type=int, default=200_000, help="with --solvers")
parser.add_argument("--rank", type=int, default=1000, help="with --solvers")
a = parser.parse_args()
blas.set_threads(a.threads)
import numpy as np  # after set_threads
import pyarrow as pa
from scipy.linalg.blas import sgemm as product, ssyrk, strsm

# flops of the shorter fit
FLOPS = 4e11


def sgemm(order=4096):
    """Returns the flops per second of a square product in f32, best of three."""
    x = np.random.default_rng(0).standard_normal((order, order), dtype=np.float32)
    best = 1e9
    for _ in range(3):
        start = time.perf_counter()
        x @ x
        best = min(best, time.perf_counter() - start)
    return 2 * order**3 / best


def same_shapes(d, m, rows=8192, parts=False):
    """Returns the seconds per row of the three products of the pass (kernel values, triangular solve, symmetric product), each the best of four;
    their sum, or each if `parts`."""
    random = np.random.default_rng(0)
    matrix = lambda *shape: np.asfortranarray(random.random(shape, dtype=np.float32))
    x, z, features, sums = matrix(rows, d), matrix(d, m), matrix(rows, m), matrix(m, m)
    lower = np.asfortranarray(np.tril(sums) / m + np.eye(m, dtype=np.float32))
    calls = (
        lambda: product(1.0, x, z),
        lambda: strsm(1.0, lower, features, side=1, lower=1, trans_a=1),
        lambda: ssyrk(1.0, features, beta=1.0, c=sums, trans=1, lower=1, overwrite_c=1),
    )
    seconds = [seconds_of(call) / rows for call in calls]
    return seconds if parts else sum(seconds)


def fit(data, rows, rank, sigma, folder):
    """Returns the seconds of a fit."""
    command = [a.kmill, "fit", "ridge", data, "--rows", f"..{rows}", "--target", "y", "--features", "x*", "--rank", str(rank), "--landmarks", "uniform",
               "--candidates", str(2 * rank), "--kernel", f"gaussian(sigma={sigma})", "--lambda", "1e-3", "--folds", "none", "--threads", str(a.threads),
               "--scale", "none", "-q", "-o", str(folder / "model")]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


# the solvers of --solvers: arguments, Gram matrices, functions, and products with all functions in a pass
CLASSES, FEATURES, LAMBDA = 10, 45, "--lambda 1e-5"
SOLVERS = {
    "ridge": (f"ridge --target y {LAMBDA} --folds none", 1, 0, 0),
    "ridge, pcg": (f"ridge --target y {LAMBDA} --method pcg", 0, 1, 2),
    "kpca": ("kpca --components 10", 1, 0, 0),
    "fisher": ("fisher --target c", 1, 0, 0),
    "svm, 2 classes": (f"svm --target b {LAMBDA}", 0, 1, 1),
    f"svm, {CLASSES} classes": (f"svm --target c {LAMBDA}", 0, CLASSES, 1),
    "svr": (f"svr --target y {LAMBDA}", 0, 1, 1),
    "logistic, 2 classes": (f"logistic --target b {LAMBDA}", 1, 1, 2),
    f"logistic, {CLASSES} classes": (f"logistic --target c {LAMBDA}", 1, CLASSES, 2),
    f"kmeans, {CLASSES} clusters": (f"kmeans --clusters {CLASSES}", 0, CLASSES, 1),
}


def seconds_of(call):
    """Returns the seconds of a call, best of four."""
    times = []
    for _ in range(4):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def thin_products(m, columns, rows=8192):
    """Returns the seconds per row of a product of features with a few columns."""
    random = np.random.default_rng(0)
    features, weights = random.random((rows, m), dtype=np.float32), random.random((m, columns), dtype=np.float32)
    return seconds_of(lambda: features @ weights) / rows


def solver_table():
    n, d, m = a.rows, FEATURES, a.rank
    print(f"{n:,} rows, {d} features, rank {m:,}\n")
    print("| solver | passes | TFLOP | s | GFLOP/s | user s | system s | page faults | fraction |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    random = np.random.default_rng(0)
    x = random.standard_normal((n, d), dtype=np.float32)
    scores = np.tanh(x @ random.standard_normal((d, CLASSES), dtype=np.float32)) + 0.3 * random.standard_normal((n, CLASSES), dtype=np.float32)
    columns = {f"x{j}": x[:, j] for j in range(d)}
    columns |= {"y": scores[:, 0], "c": scores.argmax(1).astype(np.int32), "b": (scores[:, 0] > scores[:, 1]).astype(np.int32)}
    kernel, triangular, symmetric = same_shapes(d, m, parts=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        with pa.OSFile(str(folder / "t.arrow"), "wb") as out:
            table = pa.table(columns)
            with pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table, max_chunksize=65536)
        for name, (arguments, grams, functions, products) in SOLVERS.items():
            solver, *options = arguments.split()
            command = [a.kmill, "fit", solver, str(folder / "t.arrow"), *options, "--features", "x*", "--rank", str(m), "--landmarks", "uniform",
                       "--kernel", f"gaussian(sigma={d**0.5})", "--threads", str(a.threads), "--json", "-q", "-o", str(folder / "model")]
            before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            report = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
            seconds, after = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
            user, system, faults = (getattr(after, field) - getattr(before, field) for field in ("ru_utime", "ru_stime", "ru_minflt"))
            products *= report["passes"]
            # conjugate gradient reads kernel values and computes no features
            solves = 0 if "pcg" in arguments else 1
            flops = n * (2 * d * m + (solves + grams) * m * m + products * 2 * functions * m)
            same = kernel + solves * triangular + grams * symmetric + (products * thin_products(m, functions) if products else 0)
            print(f"| {name} | {report['passes']} | {flops / 1e12:.2f} | {seconds:.1f} | {flops / seconds / 1e9:.0f} | {user:.1f} | {system:.1f} | {faults:,} | {n * same / seconds:.2f} |", flush=True)
    print(f"\nsgemm {sgemm() / 1e9:.0f} GFLOP/s, {', '.join(blas.kernels())}, {a.threads} threads")


def main():
    print("| features | rank | rows | us per row | GFLOP/s | sgemm GFLOP/s | fraction | same shapes, us | fraction |")
    print("| ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for d in map(int, a.dimensions.split(",")):
            ranks = [int(m) for m in a.ranks.split(",")]
            rows = {m: max(2 * m, int(FLOPS / (2 * d * m + 2 * m * m))) for m in ranks}
            most = 2 * max(rows.values())
            random = np.random.default_rng(d)
            x = random.standard_normal((most, d + 1), dtype=np.float32)
            data = folder / "t.arrow"
            names = [f"x{j}" for j in range(d)] + ["y"]
            table = pa.table({name: x[:, j] for j, name in enumerate(names)})
            with pa.OSFile(str(data), "wb") as out, pa.ipc.new_file(out, table.schema) as writer:
                writer.write_table(table, max_chunksize=65536)
            del x, table
            for m in ranks:
                n, shares = rows[m], []
                for _ in range(a.repeats):
                    rate = sgemm()
                    row = (fit(str(data), 2 * n, m, d**0.5, folder) - fit(str(data), n, m, d**0.5, folder)) / n
                    shares.append((row, rate, same_shapes(d, m)))
                row, rate, same = (statistics.median(column) for column in zip(*shares))
                flops = 2 * d * m + 2 * m * m
                print(f"| {d} | {m} | {n:,} | {1e6 * row:.2f} | {flops / row / 1e9:.0f} | {rate / 1e9:.0f} | {flops / row / rate:.2f} | {1e6 * same:.2f} | {same / row:.2f} |", flush=True)
    print(f"\n{', '.join(blas.kernels())}, {a.threads} threads")


if __name__ == "__main__":
    solver_table() if a.solvers else main()
