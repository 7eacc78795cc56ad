#!/usr/bin/env python3
"""Compares the flop rate of kmill's Gram pass with that of the machine: sgemm of NumPy's BLAS, measured in the same minute.

    scripts/rates.py [--kmill PATH] [--threads 2] [--repeats 3]

A row of the pass takes 2dm flops for kernel values, m² for the triangular solve that makes features, and m² for the Gram matrix of the
features. The time per row is the difference of the times of two fits, of 2n and of n rows, divided by n, which excludes start,
landmarks and the final solve. The fraction is (flops per row at the rate of sgemm)/(time per row): exponentials, sums in f64, reading and
scaling count in the time, but not in the flops. The last two columns are the time per row of the same three products of the same shapes with
SciPy's BLAS, and its fraction of kmill's time. The last line names the kernels that OpenBLAS selected. Needs numpy, scipy, pyarrow and
threadpoolctl.
"""

import argparse
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


def same_shapes(d, m, rows=8192):
    """Returns the seconds per row of the three products of the pass (kernel values, triangular solve, symmetric product), each the best of four."""
    random = np.random.default_rng(0)
    matrix = lambda *shape: np.asfortranarray(random.random(shape, dtype=np.float32))
    x, z, features, sums = matrix(rows, d), matrix(d, m), matrix(rows, m), matrix(m, m)
    lower = np.asfortranarray(np.tril(sums) / m + np.eye(m, dtype=np.float32))
    calls = (
        lambda: product(1.0, x, z),
        lambda: strsm(1.0, lower, features, side=1, lower=1, trans_a=1),
        lambda: ssyrk(1.0, features, beta=1.0, c=sums, trans=1, lower=1, overwrite_c=1),
    )
    seconds = 0.0
    for call in calls:
        times = []
        for _ in range(4):
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
        seconds += min(times)
    return seconds / rows


def fit(data, rows, rank, sigma, folder):
    """Returns the seconds of a fit."""
    command = [a.kmill, "fit", "ridge", data, "--rows", f"..{rows}", "--target", "y", "--features", "x*", "--rank", str(rank), "--landmarks", "uniform",
               "--candidates", str(2 * rank), "--kernel", f"gaussian(sigma={sigma})", "--lambda", "1e-3", "--folds", "none", "--threads", str(a.threads),
               "--scale", "none", "-q", "-o", str(folder / "model")]
    start = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - start


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
    main()
