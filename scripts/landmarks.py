#!/usr/bin/env python3
"""Measures the test errors of the landmark schemes, with and without a learned metric, on real tables.

    scripts/landmarks.py --data FOLDER [--kmill PATH] [--sets pol,protein] [--schemes uniform,rpcholesky]
                         [--ranks 100,400,1600] [--seeds 3] --results FILE.jsonl [--table FILE.md]

`kmill tune` learns a metric and a kernel for each table at a small rank. Then every scheme chooses landmarks for ridge
regression at every rank, without a metric (Gaussian kernel, median length scale) and with that metric; lambda is chosen by
5-fold cross-validation. The error is that of the test rows: mean squared error or error rate. `mixed` chooses half of the
landmarks with rpcholesky and half at random. Results that are in the file are not computed again.
"""

import argparse
import json
import statistics
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# first test row of each table; None if fold 0 is the test fold
TESTS = {"pol": None, "elevators": None, "bike": None, "protein": None, "kin40k": None, "keggundirected": None,
         "beijing-pm25": 284_217, "dsa": 427_500, "kddcup99": 494_021, "fashion-mnist": 60_000}
CLASSES = {"dsa", "kddcup99", "fashion-mnist"}
SCHEMES = "uniform,rpcholesky,mixed,leverage,kmeans,greedy,bless,predictive"


def halves(name):
    """Returns the options that select training and test rows."""
    first = TESTS[name]
    return (["--where", "fold != 0"], ["--where", "fold == 0"]) if first is None else \
        (["--rows", f"0..{first}"], ["--rows", f"{first}.."])


def kmill(a, *arguments):
    """Runs the command and returns its report."""
    command = [a.kmill, *map(str, arguments), "--json", "--quiet", "--threads", str(a.threads)]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr}")
    return json.loads(done.stdout)


def learned_metric(a, name, folder):
    """Returns a model file with the learned metric of a table, and the kernel."""
    path, kernel = folder / f"{name}.safetensors", folder / f"{name}.kernel"
    if not path.exists():
        task = ["--task", "classification"] if name in CLASSES else []
        report = kmill(a, "tune", "ridge", a.data / f"{name}.parquet", "--target", "y", "--features", "x*", *halves(name)[0],
                       "--rank", 500, "--landmarks", "uniform", *task, "-o", path)
        kernel.write_text(report["kernel"])
    return path, kernel.read_text()


def rows_of(model):
    """Returns the row indices of the landmarks of a model."""
    import numpy as np

    with model.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        first, end = json.loads(file.read(length))["landmark_rows"]["data_offsets"]
        file.seek(8 + length + first)
        return np.frombuffer(file.read(end - first), "<u8").astype(np.int64)


def mixed(a, name, options, rank, seed, folder):
    """Writes a table of landmarks, half chosen by rpcholesky, half at random, in the units of the table."""
    import pyarrow.parquet as pq
    import numpy as np

    model = folder / "mixed.safetensors"
    kmill(a, *options, "--rank", rank // 2, "--landmarks", "rpcholesky", "--seed", seed, "-o", model)
    pivots = rows_of(model)
    table = pq.read_table(a.data / f"{name}.parquet")
    keep = np.flatnonzero(table.column("fold").to_numpy() != 0) if TESTS[name] is None else np.arange(TESTS[name])
    others = np.setdiff1d(keep, pivots)
    random = np.random.default_rng(seed).choice(others, rank - len(pivots), replace=False)
    columns = [c for c in table.column_names if c.startswith("x")]
    path = folder / "mixed.parquet"
    pq.write_table(table.select(columns).take(np.concatenate([pivots, random])), path)
    return path


def error(a, name, scheme, rank, seed, metric, folder):
    """Returns the test error of a fit, the seconds of its choice of landmarks, and its trace error."""
    data = a.data / f"{name}.parquet"
    options = ["fit", "ridge", data, "--target", "y", "--features", "x*", *halves(name)[0]]
    options += ["--task", "classification"] if name in CLASSES else []
    if metric:
        model, kernel = learned_metric(a, name, folder)
        has = "metric" in kmill(a, "inspect", model)
        options += ["--kernel", kernel, *(["--metric", model] if has else [])]
    landmarks = mixed(a, name, options, rank, seed, folder) if scheme == "mixed" else scheme
    path = folder / "fit.safetensors"
    report = kmill(a, *options, "--rank", rank, "--landmarks", landmarks, "--seed", seed, "-o", path)
    scores = kmill(a, "evaluate", path, data, "--target", "y", *halves(name)[1])
    seconds = sum(s for stage, s in report["seconds"].items() if "landmark" in stage or "sampling" in stage)
    return scores["error" if name in CLASSES else "mse"], seconds, report.get("certificate", {}).get("trace_error")


def table(results):
    """Returns Markdown: a row for each data set, rank and metric; a column for each scheme; medians over seeds, the least in bold."""
    cells = {}
    for r in results:
        cells.setdefault((r["set"], r["metric"], r["rank"]), {}).setdefault(r["scheme"], []).append(r["error"])
    schemes = list(dict.fromkeys(r["scheme"] for r in results))
    lines = ["| table | metric | m | " + " | ".join(schemes) + " |", "| --- | --- | ---: |" + " ---: |" * len(schemes)]
    for (name, metric, rank), errors_by_scheme in sorted(cells.items(), key=lambda c: (list(TESTS).index(c[0][0]), c[0][1:])):
        medians = {scheme: statistics.median(errors) for scheme, errors in errors_by_scheme.items()}
        least = min(medians.values())
        shown = [f"**{m:.4g}**" if m == least else f"{m:.4g}" for m in (medians.get(s, float("nan")) for s in schemes)]
        lines.append(f"| {name} | {'learned' if metric else 'none'} | {rank} | " + " | ".join(shown) + " |")
    return "\n".join(lines) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", type=Path, required=True)
    p.add_argument("--kmill", default=str(HERE.parent / "target/release/kmill"))
    p.add_argument("--sets", default=",".join(TESTS))
    p.add_argument("--schemes", default=SCHEMES)
    p.add_argument("--ranks", default="400,1600,100")
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--results", type=Path, required=True)
    p.add_argument("--table", type=Path)
    a = p.parse_args()
    results = [json.loads(line) for line in a.results.read_text().splitlines()] if a.results.exists() else []
    done = {(r["set"], r["scheme"], r["rank"], r["seed"], r["metric"]) for r in results}
    folder = Path(str(a.results) + ".models")
    folder.mkdir(exist_ok=True)
    every = [(name, scheme, int(rank), seed, metric) for seed in range(a.seeds) for rank in a.ranks.split(",")
             for name in a.sets.split(",") for metric in (False, True) for scheme in a.schemes.split(",")]
    for name, scheme, rank, seed, metric in every:
        if (name, scheme, rank, seed, metric) in done:
            continue
        try:
            test_error, seconds, trace = error(a, name, scheme, rank, seed, metric, folder)
        except RuntimeError as problem:
            print(problem, file=sys.stderr)
            continue
        results.append({"set": name, "scheme": scheme, "rank": rank, "seed": seed, "metric": metric, "error": test_error,
                        "seconds": seconds, "trace_error": trace})
        with a.results.open("a") as out:
            out.write(json.dumps(results[-1]) + "\n")
    if a.table:
        a.table.write_text(table(results))


if __name__ == "__main__":
    main()
