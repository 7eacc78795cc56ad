#!/usr/bin/env python3
"""Benchmarks kmill against the programs that a user would otherwise use, on the same rows and machine, one after the other.

    scripts/compare.py --data FOLDER [--kmill PATH] [--jobs ridge,svc] [--repeats 3] [--quick] [--table FILE.md]

FOLDER contains the tables of datasets/README.md that the jobs name. Every row of the result table is one or two separate
processes. A job runs --repeats times, all rows in turn, with a different seed each time; the table shows the medians of
the seconds of the whole process (with start, reading and prediction), the seconds of the fit alone, the peak resident
memory, and the error. The other programs are in scripts/peers.py. A program that is not installed is reported as such; one
that takes longer than --limit is stopped, and not run again.

Finished rows are stored in --results (one JSON line each) and not run again, so that a comparison can be interrupted, and
run job by job. A dagger marks a row during which other processes used more than 5 % of the processor time. Variables that
make OpenBLAS use slower kernels are removed (scripts/blas.py), and the table names the kernels that ran. --quick uses few
rows and small ranks, to test this script; its figures are meaningless.
"""

import argparse
import fnmatch
import json
import multiprocessing
import os
import platform
import shlex
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import blas

HERE = Path(__file__).resolve().parent
MARKS = ("<!-- comparison: begin -->", "<!-- comparison: end -->")

# relative difference below which errors count as equal
EQUAL = 0.01

# number of training rows, which come first, in the data sets without folds
SPLITS = {"beijing-pm25": 284_217, "dsa": 427_500, "kddcup99": 494_021, "fashion-mnist": 60_000}

# numbers of training and test rows of the data sets with published folds; fold 0 is the test fold
FOLDS = {"pol": (13_500, 1_500), "protein": (41_157, 4_573), "elevators": (14_940, 1_659), "kin40k": (36_000, 4_000),
         "bike": (15_642, 1_737), "keggundirected": (57_248, 6_360)}

# fraction of the processor time that other processes may use
DISTURBED = 0.05


@dataclass
class Row:
    """One row of the table: a program of peers.py, or a fit and an evaluation of kmill."""

    who: str
    arguments: str
    # index of the row of kmill that a peer is compared with
    against: int = 0


@dataclass
class Job:
    """Rows of the table on one set of rows of one file."""

    name: str
    title: str
    data: str
    # unit of the error
    unit: str
    train: int
    test: int = 0
    # draw these numbers of training and test rows at random
    sample: bool = False
    # rank of a normal and of a quick run
    ranks: tuple = (2000, 100)
    # thresholds that convert the target to relevance grades, ranked within groups of this many consecutive rows
    grades: tuple = ()
    group: int = 0
    # quantity to compare: the whole process, or the fit alone if kmill's process does more than that of its peers
    by: str = "seconds"
    rows: list = field(default_factory=list)


def jobs():
    """Returns all jobs. {m} is the rank; rows of kmill start with a subcommand and come first."""
    gaussian = lambda sigma: f"--kernel gaussian(sigma={sigma})"
    air_rows, sport_rows = SPLITS["beijing-pm25"], SPLITS["dsa"]
    air = f"fit ridge DATA --target y --features x* --rank {{m}} --lambda 1e-6 {gaussian(5)}"
    air_peer = "--rank {m} --sigma 5 --penalty 1e-6"
    sport = f"DATA --target y --features x* --rank {{m}} --landmarks uniform {gaussian(6)}"
    sport_peer = "--rank {m} --sigma 6"
    trace = f"curve DATA --features x* --repeats 1 --ranks {{m}} {gaussian(6)} --methods"
    return [
        Job("ridge", "Ridge regression, m = {m}, lambda 1e-6, sigma 5", "beijing-pm25", "mse", air_rows, 97_951, rows=[
            Row("kmill, uniform landmarks", f"{air} --landmarks uniform"),
            Row("kmill, default landmarks", air),
            Row("kmill, conjugate gradient, 4 GiB", f"{air} --landmarks uniform --method pcg --memory 4GiB"),
            Row("kmill, random features", f"{air} --map fourier"),
            Row("scikit-learn Nystroem + Ridge", f"nystroem-ridge {air_peer}"),
            Row("the same in float64", f"nystroem-ridge {air_peer} --dtype float64"),
            Row("scikit-learn RBFSampler + Ridge", f"rbfsampler-ridge {air_peer}", against=3),
            Row("FALKON", f"falkon {air_peer}"),
        ]),
        Job("stream", "Out of core, m = {m}", "beijing-pm25", "mse", air_rows, 97_951, ranks=(1000, 100), rows=[
            Row("kmill, 512 MiB", f"{air} --landmarks uniform --memory 512MiB"),
            Row("NumPy, batch by batch", f"stream {air_peer}"),
            Row("scikit-learn Nystroem + Ridge (in memory)", f"nystroem-ridge {air_peer}"),
        ]),
        Job("dsa", "19 classes, m = {m}, sigma 6", "dsa", "wrong", sport_rows, 142_500, ranks=(1000, 100), rows=[
            Row("kmill ridge", f"fit ridge {sport} --task classification --lambda 1e-6"),
            Row("kmill svm", f"fit svm {sport} --loss squared-hinge --C 1"),
            Row("kmill logistic", f"fit logistic {sport} --C 1"),
            Row("scikit-learn Nystroem + RidgeClassifier", f"nystroem-ridgeclassifier {sport_peer} --penalty 1e-6"),
            Row("scikit-learn Nystroem + LinearSVC", f"nystroem-linearsvc {sport_peer} -C 1", against=1),
            Row("scikit-learn Nystroem + LogisticRegression", f"nystroem-logistic {sport_peer} -C 1", against=2),
            Row("scikit-learn Nystroem + SGDClassifier", f"nystroem-sgd {sport_peer} --penalty 1e-6", against=1),
        ]),
        Job("kpca", "10 kernel principal components, m = {m}, sigma 6", "dsa", "left of tr K", sport_rows, rows=[
            Row("kmill kpca", f"fit kpca {sport}".replace(" --target y", "") + " --components 10"),
            Row("scikit-learn Nystroem + PCA", f"nystroem-pca {sport_peer}"),
        ]),
        Job("kpca-subset", "The same on 10,000 random rows", "dsa", "left of tr K", 10_000, sample=True, rows=[
            Row("kmill kpca", f"fit kpca {sport}".replace(" --target y", "") + " --components 10"),
            Row("scikit-learn KernelPCA", "kernelpca --sigma 6"),
        ]),
        Job("exact", "Exact kernel ridge, lambda 1e-7, sigma 2", "kin40k", "mse", 10_000, 4_000, sample=True, rows=[
            Row("kmill, exact", f"fit ridge DATA --target y --features x* {gaussian(2)} --map exact --lambda 1e-7"),
            Row("scikit-learn KernelRidge", "kernelridge --sigma 2 --penalty 1e-7 --dtype float64"),
        ]),
        Job("svc", "Kernel support vector machine, C = 10, sigma 6", "dsa", "wrong", 20_000, 20_000, sample=True, rows=[
            Row("kmill svm, m = {m}", f"fit svm {sport} --C 10"),
            Row("kmill svm for pairs, m = {m}", f"fit svm {sport} --C 10 --multiclass one-vs-one"),
            Row("kmill svm for pairs, exact", f"fit svm DATA --target y --features x* {gaussian(6)} --C 10 --multiclass one-vs-one --map exact"),
            Row("scikit-learn SVC", "svc --sigma 6 -C 10", against=2),
            Row("LIBSVM", "libsvm --sigma 6 -C 10", against=2),
        ]),
        *[Job(f"lowrank-{m}", "Low-rank approximation, k = {m}, sigma 6", "dsa", "trace", 20_000, sample=True,
              ranks=(m, 100), by="learning", rows=[
                  Row("kmill rpcholesky", f"{trace} rpcholesky"),
                  Row("kmill uniform", f"{trace} uniform"),
                  Row("RPCholesky, the authors' program", "rpcholesky-authors --rank {m} --sigma 6 --dtype float64"),
                  Row("RPCholesky in NumPy, pivot by pivot", "rpcholesky-numpy --rank {m} --sigma 6 --dtype float64"),
                  Row("uniform landmarks in NumPy", "uniform-numpy --rank {m} --sigma 6 --dtype float64", against=1),
                  Row("scikit-learn Nystroem", "nystroem-trace --rank {m} --sigma 6 --dtype float64", against=1),
              ]) for m in (1000, 2000)],
        # the thresholds are limits of Chinese law for a day; 24 consecutive rows are the stations in two to four hours
        Job("ranking", "The worst of 24 consecutive rows, m = {m}", "beijing-pm25", "wrong pairs", air_rows, 97_951,
            grades=(35, 75, 115, 150), group=24, ranks=(1000, 100), rows=[
                Row("kmill ranking", "fit ranking DATA --target y --features x* --group qid --rank {m} --lambda 1e-6"),
                Row("kmill ranking, logistic",
                    "fit ranking DATA --target y --features x* --group qid --rank {m} --lambda 1e-6 --loss logistic"),
                Row("kmill ridge on the grades", "fit ridge DATA --target y --features x* --rank {m} --lambda 1e-6"),
                Row("LightGBM, lambdarank", "lambdarank"), Row("LightGBM on the grades", "lightgbm-grades", against=2),
            ]),
        *[trees(name, "mse", *rows, sample=True) for name, rows in FOLDS.items()],
        trees("beijing-pm25", "mse", air_rows, 97_951),
        trees("dsa", "wrong", sport_rows, 142_500),
        trees("kddcup99", "wrong", SPLITS["kddcup99"], 311_029),
        trees("fashion-mnist", "wrong", SPLITS["fashion-mnist"], 10_000),
    ]


def trees(name, unit, train, test, sample=False):
    """Returns a job that compares kmill tune with gradient boosting, without any option except the time limit."""
    task = " --task classification" if unit == "wrong" else ""
    seconds = 60 if sample else 240
    return Job(f"trees-{name}", f"A model without options: {name}", name, unit, train, test, sample=sample, rows=[
        Row("kmill tune", f"tune any DATA --target y --features x* --time {seconds}s{task}"),
        Row("scikit-learn HistGradientBoosting", "hgb"), Row("XGBoost", "xgboost"),
        Row("LightGBM", "lightgbm"), Row("LightGBM, tuned for as long", f"lightgbm-tuned --time {seconds}"),
        Row("CatBoost", "catboost"), Row("CatBoost, tuned for as long", f"catboost-tuned --time {seconds}"),
        Row("xRFM, tuned for as long", f"xrfm --time {seconds}"),
    ])


def grade(job, table):
    """Returns the table with relevance grades instead of the target, and a group column."""
    import numpy as np
    import pyarrow as pa

    grades = np.searchsorted(job.grades, table.column("y").to_numpy(), side="right").astype(np.float64)
    table = table.set_column(table.column_names.index("y"), "y", pa.array(grades))
    return table.append_column("qid", pa.array(np.arange(len(table)) // job.group))


def draw(job, source, target, n, t):
    """Writes a file with the rows of the job: all rows for a ranking, otherwise n training rows and t test rows, drawn at random."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = pq.read_table(source)
    if job.grades:
        first = SPLITS[job.data] - n
        return pq.write_table(grade(job, table.slice(first, n + t)), target)
    if "fold" in table.column_names:
        test = table.column("fold").to_numpy() == 0
    else:
        test = np.arange(len(table)) >= SPLITS[job.data]
    random = np.random.default_rng(0)
    pick = lambda rows, count: np.sort(random.choice(rows, min(count, len(rows)), replace=False))
    rows = np.concatenate([pick(np.flatnonzero(~test), n), pick(np.flatnonzero(test), t)])
    pq.write_table(table.take(pa.array(rows)), target)


def prepared(job, a, folder):
    """Returns the file of a job, training rows first, and the number of training rows."""
    source = Path(a.data) / f"{job.data}.parquet"
    if not (job.sample or job.grades or a.quick):
        return source, job.train
    n, t = (min(job.train, 4000), min(job.test, 1000)) if a.quick else (job.train, job.test)
    target = folder / f"{job.data}-{n}-{t}.parquet"
    # in a separate process, because a measured child starts with the peak memory of its parent
    child = multiprocessing.Process(target=draw, args=(job, source, target, n, t))
    child.start()
    child.join()
    if child.exitcode != 0:
        sys.exit(f"{source} cannot be sampled")
    return target, n


def processor_seconds():
    """Returns the processor time of all processes of the machine."""
    with open("/proc/stat", encoding="ascii") as stat:
        times = [int(t) for t in stat.readline().split()[1:9]]
    return (sum(times) - times[3] - times[4]) / os.sysconf("SC_CLK_TCK")


def measured(command, threads, limit):
    """Runs a process, and returns its resources, and its output or the reason of its failure."""
    blas.set_threads(threads)
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        busy, start = processor_seconds(), time.perf_counter()
        process = subprocess.Popen(command, stdout=out, stderr=err)
        timer = threading.Timer(limit, process.kill)
        timer.start()
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - start
        timer.cancel()
        process.returncode = os.waitstatus_to_exitcode(status)
        others = processor_seconds() - busy - usage.ru_utime - usage.ru_stime
        resources = {
            "seconds": seconds,
            "peak": usage.ru_maxrss * 1024,
            "others": max(0.0, others) / (seconds * os.cpu_count()),
        }
        out.seek(0)
        err.seek(0)
        if process.returncode == 0:
            return resources, json.loads(out.read())
        lines = err.read().decode(errors="replace").strip().splitlines() or [f"exit code {process.returncode}"]
        return resources, {"failed": f"not done in {limit:.0f} s" if seconds >= limit else lines[-1][:200]}


def kmill_row(row, job, data, n, m, repeat, a, folder):
    """Runs a fit, and an evaluation if the job has test rows, as separate processes."""
    model = folder / "model.safetensors"
    parts = row.arguments.replace("{m}", str(m)).split()
    at = parts.index("DATA")
    verb, options = parts[:at], ["--rows", f"..{n}", *parts[at + 1 :], "--seed", str(repeat)]
    common = ["--threads", str(a.threads), "--json", "--quiet"]
    output = [] if verb[0] == "curve" else ["-o", str(model)]
    resources, fit = measured([a.kmill, *verb, str(data), *options, *output, *common], a.threads, a.limit)
    shown = f"kmill {shlex.join([*verb, data.name, *options])}" + (" -o MODEL" if output else "")
    result = resources | {"command": shown}
    if "failed" in fit:
        return result | fit
    if verb[0] == "curve":
        cell = fit["rows"][0]
        return result | {"error": cell["trace_error"], "learning": cell["seconds"]}
    result["learning"] = sum(fit["seconds"].values())
    if not job.test:
        variances = next(figure["values"] for figure in fit["figures"] if figure["name"] == "variance")
        return result | {"error": 1 - sum(variances)}
    evaluate = ["evaluate", str(model), str(data), "--rows", f"{n}..", *(["--group", "qid"] if job.grades else [])]
    more, score = measured([a.kmill, *evaluate, *common], a.threads, a.limit)
    if "failed" in score:
        return result | score
    return result | {
        "command": f"{shown} && kmill evaluate MODEL {data.name} {shlex.join(evaluate[3:])}",
        "seconds": resources["seconds"] + more["seconds"],
        "peak": max(resources["peak"], more["peak"]),
        "others": max(resources["others"], more["others"]),
        "error": score[{"mse": "mse", "wrong pairs": "wrong_pairs"}.get(job.unit, "error")],
    }


def peer_row(row, data, n, m, repeat, a):
    """Runs peers.py."""
    peer, *options = row.arguments.replace("{m}", str(m)).split()
    options = ["--train", str(n), *options, "--seed", str(repeat)]
    more = ["--threads", str(a.threads), "--rpcholesky", a.rpcholesky]
    command = [sys.executable, str(HERE / "peers.py"), peer, str(data), *options, *more]
    resources, outcome = measured(command, a.threads, a.limit)
    result = resources | {"command": f"scripts/peers.py {shlex.join([peer, data.name, *options])}"}
    if "error" not in outcome:
        return result | outcome
    stages = outcome.pop("stages")
    return result | outcome | {"learning": sum(s for stage, s in stages.items() if stage not in ("read", "predict"))}


def run(a, folder, results):
    """Runs every unfinished row, the rows of a job in turn."""
    done = {(r["job"], r["who"], r["repeat"]) for r in results}
    for job in selected(a):
        m = job.ranks[a.quick]
        data, n = prepared(job, a, folder)
        warm(data)
        for repeat in range(a.repeats):
            for row in job.rows:
                who = row.who.format(m=m)
                if not any(fnmatch.fnmatchcase(who, pattern) for pattern in a.who):
                    continue
                given_up = any((r["job"], r["who"]) == (job.name, who) and "error" not in r for r in results)
                if (job.name, who, repeat) in done or given_up:
                    continue
                if is_kmill(row):
                    outcome = kmill_row(row, job, data, n, m, repeat, a, folder)
                else:
                    outcome = peer_row(row, data, n, m, repeat, a)
                result = {"job": job.name, "who": who, "repeat": repeat, "quick": a.quick, "rows": n} | outcome
                results.append(result)
                with open(a.results, "a", encoding="utf-8") as file:
                    file.write(json.dumps(result) + "\n")
                summary = outcome.get("failed") or outcome.get("missing") or f"error {outcome['error']:.4g}"
                print(f"{job.name}: {who}: {outcome['seconds']:.1f} s, {summary}", file=sys.stderr, flush=True)


def warm(path):
    """Reads a file into the cache of the system, so that all programs start alike."""
    with open(path, "rb") as file:
        while file.read(1 << 20):
            pass


def is_kmill(row):
    return row.arguments.split()[0] in ("fit", "tune", "curve")


def selected(a):
    """Returns the requested jobs."""
    every = jobs()
    if not a.jobs:
        return every
    matches = {pattern: fnmatch.filter([job.name for job in every], pattern) for pattern in a.jobs.split(",")}
    unknown = [pattern for pattern, names in matches.items() if not names]
    if unknown:
        sys.exit(f"unknown job {', '.join(unknown)}; expected one of {', '.join(job.name for job in every)}")
    return [job for job in every if any(job.name in names for names in matches.values())]


def median(results):
    """Returns the median of each number over the repeats of a row, or the first repeat that failed."""
    for result in results:
        if "error" not in result:
            return result
    numbers = ("seconds", "learning", "peak", "error")
    middle = {name: statistics.median(result[name] for result in results) for name in numbers}
    return results[0] | middle | {"others": max(result["others"] for result in results)}


def verdict(mine, peer, by):
    """Returns the ratio of a peer to kmill, and the verdict about kmill."""
    ratio = peer[by] / mine[by]
    times = f"{ratio:.1f}" if ratio < 20 else f"{ratio:.0f}"
    gap = peer["error"] - mine["error"]
    same = abs(gap) <= EQUAL * abs(mine["error"])
    error = "equal error" if same else f"kmill's error {'lower' if gap > 0 else 'higher'}"
    if ratio < 1 and (same or gap < 0):
        return times, "**faster than kmill at equal or better error**"
    return times, f"kmill {'faster' if ratio >= 1 else 'slower'}, {error}"


def table(a, results):
    """Returns a Markdown table for every job that ran."""
    lines = []
    for job in jobs():
        m = job.ranks[a.quick]
        rows = [[r for r in results if (r["job"], r["who"]) == (job.name, row.who.format(m=m))] for row in job.rows]
        if not any(rows):
            continue
        medians = [median(row) if row else None for row in rows]
        n = next(row["rows"] for row in medians if row)
        lines += [
            "",
            f"**{job.name}.** {job.title.format(m=m)}: {n:,} rows of {job.data}",
            "",
            f"| who | seconds | learning | peak GiB | {job.unit} | ratio | |",
            "| --- | ---: | ---: | ---: | ---: | ---: | --- |",
        ]
        for row, result in zip(job.rows, medians):
            if result is None:
                lines.append(f"| {row.who.format(m=m)} | | | | | | not run |")
                continue
            who, why = result["who"], result.get("missing") or result.get("failed")
            if why:
                lines.append(f"| {who} | | | | | | {why} |")
                continue
            against = medians[row.against]
            compared = not is_kmill(row) and against and "error" in against
            ratio, says = verdict(against, result, job.by) if compared else ("", "")
            if compared and row.against:
                says += f" ({against['who']})"
            dagger = " †" if result["others"] > DISTURBED else ""
            lines.append(
                f"| {who} | {result['seconds']:.1f}{dagger} | {result['learning']:.1f} | {result['peak'] / 2**30:.2f} "
                f"| {result['error']:.4g} | {ratio} | {says} |"
            )
        lines += ["", "```sh", *[result["command"] for result in medians if result and "missing" not in result], "```"]
    return "\n".join(lines)


def machine(a, results):
    """Returns a description of the machine and of the versions."""
    with open("/proc/cpuinfo", encoding="ascii") as cpu:
        names = (line.split(":")[1].strip() for line in cpu if line.startswith("model name"))
        model = next(names, platform.processor())
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    version = subprocess.run([a.kmill, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    git = ["git", "-C", str(HERE), "describe", "--always", "--dirty"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    versions = {}
    for result in results:
        versions |= result.get("versions", {})
    kernels = sorted({kernel for result in results for kernel in result.get("blas", [])})
    listed = ", ".join(f"{name} {number}" for name, number in sorted(versions.items()))
    return (
        f"{time.strftime('%Y-%m-%d')}, {model}, {os.cpu_count()} cores, {memory:.0f} GiB, {a.threads} threads each. "
        f"{version} {commit}; Python {platform.python_version()}, {listed}. BLAS of the peers: {', '.join(kernels) or 'none'}."
    )


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True, help="folder of the Parquet files")
    p.add_argument("--kmill", default=str(HERE.parent / "target" / "release" / "kmill"))
    p.add_argument("--jobs", default="", help="comma-separated names or patterns such as 'trees-*' [default: all]")
    p.add_argument("--who", nargs="+", default=["*"], help="run only these rows of a job, such as 'kmill*' 'LightGBM, tuned*'")
    p.add_argument("--repeats", type=int, default=1)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--limit", type=float, default=1800, help="time limit of a row in seconds")
    p.add_argument("--rpcholesky", default="", help="folder of the RPCholesky authors' program")
    p.add_argument("--results", default="compare.jsonl", help="file of the finished rows")
    p.add_argument("--table", default="", help="file whose comparison is replaced [default: print to standard output]")
    p.add_argument("--quick", action="store_true", help="few rows and small ranks")
    a = p.parse_args()
    results = []
    if Path(a.results).exists():
        with open(a.results, encoding="utf-8") as file:
            results = [r for r in map(json.loads, file) if r["quick"] == a.quick]
    with tempfile.TemporaryDirectory() as folder:
        run(a, Path(folder), results)
    text = f"{machine(a, results)}\n{table(a, results)}\n"
    if not a.table:
        print(text)
        return
    path = Path(a.table)
    before, rest = path.read_text(encoding="utf-8").split(MARKS[0])
    path.write_text(f"{before}{MARKS[0]}\n{text}{MARKS[1]}{rest.split(MARKS[1])[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
