#!/usr/bin/env python3
"""Test errors of the landmark schemes, with and without a learned metric, on real tables.

    scripts/landmarks.py --data FOLDER [--kmill PATH] [--sets pol,protein] [--schemes uniform,rpcholesky]
                         [--ranks 100,400,1600] [--seeds 3] --results FILE.jsonl [--table FILE.md]

A metric and a kernel are learned once for each table by `kmill tune` at a small rank. Then every scheme chooses landmarks for
ridge regression at every rank, before the features as they are (Gaussian, median length) and behind that metric; lambda is
chosen by five folds. The error is that of the test rows: squared error, or the share of wrong classes. `mixed` takes half of
the landmarks by rpcholesky and half at random. A result that is in the file is not computed again.
"""

import argparse
import json
import statistics
import struct
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent

# the test rows of each table: a fold, or the rows from a number on
TESTS = {"pol": None, "elevators": None, "bike": None, "protein": None, "kin40k": None, "keggundirected": None,
         "beijing-pm25": 284_217, "dsa": 427_500, "kddcup99": 494_021, "fashion-mnist": 60_000}
CLASSES = {"dsa", "kddcup99", "fashion-mnist"}
SCHEMES = "uniform,rpcholesky,mixed,leverage,kmeans,greedy,bless,predictive"


def halves(name):
    """The options that choose training and test rows."""
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


def learned(a, name, folder):
    """A model that holds the metric of a table, and its kernel."""
    path, kernel = folder / f"{name}.safetensors", folder / f"{name}.kernel"
    if not path.exists():
        task = ["--task", "classification"] if name in CLASSES else []
        report = kmill(a, "tune", "ridge", a.data / f"{name}.parquet", "--target", "y", "--features", "x*", *halves(name)[0],
                       "--rank", 500, "--landmarks", "uniform", *task, "-o", path)
        kernel.write_text(report["kernel"])
    return path, kernel.read_text()


def rows_of(model):
    """The numbers of the stored rows that are the landmarks of a model."""
    import numpy as np

    with model.open("rb") as file:
        (length,) = struct.unpack("<Q", file.read(8))
        first, end = json.loads(file.read(length))["landmark_rows"]["data_offsets"]
        file.seek(8 + length + first)
        return np.frombuffer(file.read(end - first), "<u8").astype(np.int64)


def mixed(a, name, options, rank, seed, folder):
    """A table of landmarks: half by rpcholesky, half at random, in the units of the table."""
    import pyarrow.parquet as pq
    import numpy as np

    model = folder / "mixed.safetensors"
    kmill(a, *options, "--rank", rank // 2, "--landmarks", "rpcholesky", "--seed", seed, "-o", model)
    chosen = rows_of(model)
    table = pq.read_table(a.data / f"{name}.parquet")
    keep = np.flatnonzero(table.column("fold").to_numpy() != 0) if TESTS[name] is None else np.arange(TESTS[name])
    others = np.setdiff1d(keep, chosen)
    random = np.random.default_rng(seed).choice(others, rank - len(chosen), replace=False)
    columns = [c for c in table.column_names if c.startswith("x")]
    path = folder / "mixed.parquet"
    pq.write_table(table.select(columns).take(np.concatenate([chosen, random])), path)
    return path


def error(a, name, scheme, rank, seed, metric, folder):
    """The test error of a fit, and its seconds of choosing landmarks."""
    data = a.data / f"{name}.parquet"
    options = ["fit", "ridge", data, "--target", "y", "--features", "x*", *halves(name)[0]]
    options += ["--task", "classification"] if name in CLASSES else []
    if metric:
        model, kernel = learned(a, name, folder)
        has = "metric" in kmill(a, "inspect", model)
        options += ["--kernel", kernel, *(["--metric", model] if has else [])]
    landmarks = mixed(a, name, options, rank, seed, folder) if scheme == "mixed" else scheme
    path = folder / "fit.safetensors"
    report = kmill(a, *options, "--rank", rank, "--landmarks", landmarks, "--seed", seed, "-o", path)
    scores = kmill(a, "evaluate", path, data, "--target", "y", *halves(name)[1])
    seconds = sum(s for stage, s in report["seconds"].items() if "landmark" in stage or "sampling" in stage)
    return scores["error" if name in CLASSES else "mse"], seconds, report.get("certificate", {}).get("trace_error")


def table(results):
    """Markdown: a row for each set, rank and metric; a column for each scheme; medians over seeds, the least in bold."""
    cells = {}
    for r in results:
        cells.setdefault((r["set"], r["metric"], r["rank"]), {}).setdefault(r["scheme"], []).append(r["error"])
    schemes = list(dict.fromkeys(r["scheme"] for r in results))
    lines = ["| table | metric | m | " + " | ".join(schemes) + " |", "| --- | --- | ---: |" + " ---: |" * len(schemes)]
    for (name, metric, rank), found in sorted(cells.items(), key=lambda c: (list(TESTS).index(c[0][0]), c[0][1:])):
        medians = {scheme: statistics.median(errors) for scheme, errors in found.items()}
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
            found, seconds, trace = error(a, name, scheme, rank, seed, metric, folder)
        except RuntimeError as problem:
            print(problem, file=sys.stderr)
            continue
        results.append({"set": name, "scheme": scheme, "rank": rank, "seed": seed, "metric": metric, "error": found,
                        "seconds": seconds, "trace_error": trace})
        with a.results.open("a") as out:
            out.write(json.dumps(results[-1]) + "\n")
    if a.table:
        a.table.write_text(table(results))


if __name__ == "__main__":
    main()
