#!/usr/bin/env python3
"""Tests the exchange of tables: kmill must read what pyarrow, pandas, numpy and scikit-learn write, and the reverse.

    scripts/interop.py [--kmill target/release/kmill] [--keep FOLDER]

Every file is read with `kmill inspect --json` and rewritten with `kmill convert` to each format that kmill writes; the
results are read back with the library of that format and compared value by value, bit for bit if the format allows
it. Formats that this build of kmill does not support are reported as skipped. Prints a table; exit code 1 on a difference.
"""

import argparse
import csv
import json
import pathlib
import shutil
import subprocess
import sys
import tempfile
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.ipc
import pyarrow.parquet as pq
from sklearn.datasets import dump_svmlight_file

# newer versions of pandas round correctly by default, and warn about the option
warnings.filterwarnings("ignore", message=".*float_precision.*")

ROWS = 5000
UNKNOWN = "unknown file format"


def columns(rows=ROWS, seed=0):
    """Returns a column of each type, with extreme values."""
    rng = np.random.default_rng(seed)
    f8 = rng.standard_normal(rows) * 10.0 ** rng.integers(-300, 300, rows)
    f8[:4] = [0.1, -0.0, np.finfo(np.float64).max, 5e-324]
    i8 = rng.integers(-(2**63), 2**63 - 1, rows, dtype=np.int64)
    i8[:2] = [2**53 + 1, -(2**63)]
    words = np.array(["Ulm", "Bonn, am Rhein", 'say "x"', "two\nlines", "ä", " spaced "], dtype=object)
    return {
        "f4": rng.standard_normal(rows).astype(np.float32),
        "f8": f8,
        "i1": rng.integers(-128, 127, rows, dtype=np.int8),
        "i2": rng.integers(-(2**15), 2**15 - 1, rows, dtype=np.int16),
        "i4": rng.integers(-(2**31), 2**31 - 1, rows, dtype=np.int32),
        "i8": i8,
        "u1": rng.integers(0, 255, rows, dtype=np.uint8),
        "u4": rng.integers(0, 2**32 - 1, rows, dtype=np.uint32),
        "flag": rng.integers(0, 2, rows).astype(bool),
        "word": words[rng.integers(0, len(words), rows)],
    }


class Runner:
    """Runs kmill and collects the table of results."""

    def __init__(self, kmill, folder):
        self.kmill, self.folder, self.lines, self.failed = kmill, folder, [], 0

    def run(self, *arguments):
        done = subprocess.run([self.kmill, *map(str, arguments)], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout, done.stderr.strip()

    def note(self, writer, variant, reader, outcome):
        self.lines.append((writer, variant, reader, outcome))
        self.failed += outcome.startswith("FAILED")

    def check(self, writer, variant, path, expected, options=(), targets=("parquet", "csv")):
        """Reads `path`, converts it to each target, and compares with the expected columns."""
        code, out, err = self.run("inspect", path, "--json", "--quiet", *options)
        if code and UNKNOWN in err:
            return self.note(writer, variant, "kmill", "skipped: this build does not read it")
        if code:
            return self.note(writer, variant, "kmill inspect", f"FAILED {err}")
        report = json.loads(out)
        names = [column["name"] for column in report["columns"]]
        if report["rows"] != len(next(iter(expected.values()))) or any(name not in names for name in expected):
            return self.note(writer, variant, "kmill inspect", f"FAILED {report['rows']} rows of {names}")
        for target in targets:
            self.convert(writer, variant, path, expected, options, target)

    def convert(self, writer, variant, path, expected, options, target):
        out = self.folder / f"out.{target}"
        reader = {"parquet": "pyarrow", "csv": "pandas", "npy": "numpy", "arrow": "pyarrow"}[target]
        where = f"kmill -> .{target} -> {reader}"
        code, _, err = self.run(
            "convert", path, "-o", out, "--missing", "keep", "--quiet", "--features", ",".join(expected), *options
        )
        if code and UNKNOWN in err:
            return self.note(writer, variant, where, "skipped: this build does not write it")
        if code:
            return self.note(writer, variant, where, f"FAILED {err}")
        try:
            got = read(out, list(expected))
        except Exception as error:  # any error of a reader is a failure
            return self.note(writer, variant, where, f"FAILED {type(error).__name__}: {error}")
        wrong = [name for name in expected if not same(expected[name], got[name])]
        self.note(writer, variant, where, f"FAILED different: {', '.join(wrong)}" if wrong else "same values")

    def rejects(self, writer, variant, path, part, options=()):
        """Checks that kmill rejects a file with a message that contains `part`."""
        code, _, err = self.run("inspect", path, "--json", *options)
        fine = code == 1 and part in err
        self.note(writer, variant, "kmill inspect", f"rejected: {part}" if fine else f"FAILED {code}: {err}")


def read(path, names):
    """Reads the columns of a file that kmill wrote, with the library of its format."""
    if path.suffix == ".parquet":
        table = pq.read_table(path)
    elif path.suffix == ".arrow":
        table = pa.ipc.open_file(path).read_all()
    elif path.suffix == ".npy":
        array = np.load(path)
        return {name: array.reshape(len(array), -1)[:, i] for i, name in enumerate(names)}
    else:
        frame = pd.read_csv(path, float_precision="round_trip", keep_default_na=False, na_values=["", "NaN"])
        arrow = pyarrow.csv.read_csv(path, parse_options=pyarrow.csv.ParseOptions(newlines_in_values=True))
        assert list(frame.columns) == arrow.column_names and len(frame) == len(arrow), "pandas and pyarrow disagree"
        return {name: frame[name].to_numpy() for name in names}
    return {name: table[name].to_pandas().to_numpy() for name in names}


def same(expected, got):
    """Returns whether values and missing values are equal; floats bit for bit, up to the payload of NaN."""
    expected, got = np.asarray(expected), np.asarray(got)
    if len(expected) != len(got):
        return False
    missing = pd.isna(expected)
    if (missing != pd.isna(got)).any():
        return False
    expected, got = expected[~missing], got[~missing]
    if expected.dtype == object:
        return all(str(a) == str(b) for a, b in zip(expected, got))
    if np.issubdtype(expected.dtype, np.floating):
        # text formats convert a float32 to the equal float64
        return np.array_equal(expected.astype(np.float64).view(np.int64), got.astype(np.float64).view(np.int64))
    if np.issubdtype(got.dtype, np.floating):
        exact = np.abs(expected.astype(np.float64)) <= 2**53
        return bool(exact.all()) and np.array_equal(expected.astype(np.float64), got)
    return np.array_equal(expected.astype(np.int64), np.asarray(got).astype(np.int64))


def parquet(run, folder):
    everything = columns()
    table = pa.table(everything)
    path = folder / "in.parquet"
    numbers = {name: values for name, values in everything.items() if name in ("f4", "f8", "u1")}
    variants = {f"{codec}, row groups of {group}, pages {page}": dict(
        compression=codec, row_group_size=group, data_page_version=page, use_dictionary=dictionary)
        for codec, group, page, dictionary in [
            ("none", 100, "1.0", False), ("snappy", 1000, "1.0", True), ("zstd", 5000, "2.0", True),
            ("lz4", 777, "2.0", False), ("gzip", 5000, "1.0", True)]}
    for name, options in variants.items():
        pq.write_table(table, path, **options)
        run.check("pyarrow", f"Parquet: {name}", path, everything)
    pq.write_table(pa.table(numbers), path, use_dictionary=False, use_byte_stream_split=["f4", "f8"])
    run.check("pyarrow", "Parquet: byte stream split", path, numbers, targets=("parquet", "csv", "npy", "arrow"))
    pq.write_table(pa.table(numbers), path, data_page_size=512, write_page_index=True)
    run.check("pyarrow", "Parquet: small pages, page index", path, numbers)
    incomplete = {name: np.where(np.arange(ROWS) % 7 == 0, None, values) for name, values in everything.items()}
    arrays = {name: pa.array(values, from_pandas=True, type=table.schema.field(name).type)
              for name, values in incomplete.items()}
    pq.write_table(pa.table(arrays), path)
    for name in incomplete:
        run.check("pyarrow", f"Parquet: nulls in {name}", path, {name: arrays[name].to_pandas().to_numpy()},
                  targets=("parquet",))
    large = pa.table({"word": pa.array(everything["word"], pa.large_string()), "f8": everything["f8"]})
    pq.write_table(large, path)
    run.check("pyarrow", "Parquet: large strings", path, {name: everything[name] for name in ("word", "f8")})
    coded = pa.table({"word": pa.array(everything["word"]).dictionary_encode(), "f8": everything["f8"]})
    pq.write_table(coded, path)
    run.check("pyarrow", "Parquet: dictionary type", path, {name: everything[name] for name in ("word", "f8")})
    stamps = pa.array(np.arange(ROWS, dtype="int64") * 1000, pa.timestamp("ms"))
    pq.write_table(pa.table({"f8": everything["f8"], "time": stamps}), path)
    run.check("pyarrow", "Parquet: a timestamp beside numbers", path, {"f8": everything["f8"]})
    lists = pa.array(list(np.arange(2.0 * ROWS).reshape(ROWS, 2)), pa.list_(pa.float64()))
    fixed = pa.FixedSizeListArray.from_arrays(pa.array(np.arange(2.0 * ROWS)), 2)
    for name, values in [("list", lists), ("fixed-size list", fixed)]:
        pq.write_table(pa.table({"f8": everything["f8"], "v": values}), path)
        run.check("pyarrow", f"Parquet: a {name} beside numbers", path, {"f8": everything["f8"]})
        code, out, _ = run.run("inspect", path, "--json", "--quiet")
        names = [column["name"] for column in json.loads(out)["columns"]] if code == 0 else []
        if "v[0]" in names:
            run.check("pyarrow", f"Parquet: a {name} of numbers", path,
                      {"v[0]": np.arange(0.0, 2.0 * ROWS, 2), "v[1]": np.arange(1.0, 2.0 * ROWS, 2)},
                      targets=("parquet", "csv"))
        else:
            run.note("pyarrow", f"Parquet: a {name} of numbers", "kmill", "skipped: this build does not read it")
    frame = pd.DataFrame({"f8": everything["f8"], "i8": everything["i8"]}, index=np.arange(ROWS) * 2)
    frame.to_parquet(path)
    run.check("pandas", "Parquet: with an index", path, {name: everything[name] for name in ("f8", "i8")})


def arrow(run, folder):
    everything = columns(seed=1)
    path = folder / "in.arrow"
    for codec in [None, "lz4", "zstd"]:
        options = pa.ipc.IpcWriteOptions(compression=codec)
        with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, pa.table(everything).schema, options=options) as out:
            out.write_table(pa.table(everything), max_chunksize=777)
        run.check("pyarrow", f"Arrow IPC: {codec or 'no'} compression", path, everything,
                  targets=("arrow", "parquet", "csv"))
    path = folder / "in.feather"
    pyarrow.feather.write_feather(pd.DataFrame(everything), path)
    run.check("pandas", "Feather", path, everything)


def npy(run, folder):
    rng = np.random.default_rng(2)
    path = folder / "in.npy"
    types = ["<f2", "<f4", "<f8", "i1", "<i2", "<i4", "<i8", "u1", "<u2", "<u4", "?", ">f4"]
    for dtype in types:
        values = rng.integers(0, 2 if dtype == "?" else 100, (ROWS, 3)).astype(dtype)
        for order in ["C", "F"]:
            np.save(path, np.asarray(values, order=order))
            label = f".npy: {dtype}, {order} order"
            _, _, err = run.run("inspect", path)
            if "array.astype" in err or "ascontiguousarray" in err:
                run.note("numpy", label, "kmill", "skipped: rejected, with advice how to save it")
                continue
            expected = {f"x{i}": np.ascontiguousarray(values[:, i]).astype(values.dtype.newbyteorder("=")) for i in range(3)}
            if dtype == "<f2":
                expected = {name: column.astype(np.float32) for name, column in expected.items()}
            run.check("numpy", label, path, expected, targets=("npy", "parquet"))
    np.save(path, rng.standard_normal(ROWS))
    run.check("numpy", ".npy: one dimension", path, {"x0": np.load(path)}, targets=("npy", "csv"))


def text(run, folder):
    everything = columns(seed=3)
    # write each float32 as the equal float64, because its shortest float32 digits are a different float64
    frame = pd.DataFrame(everything).astype({"f4": float})
    path = folder / "in.csv"
    for name, options in {
        "plain": {}, "semicolons": {"sep": ";"}, "tabs": {"sep": "\t"}, "CRLF": {"lineterminator": "\r\n"},
        "bar": {"sep": "|"}, "everything quoted": {"quoting": csv.QUOTE_ALL},
        "texts quoted": {"quoting": csv.QUOTE_NONNUMERIC}, "byte order mark": {"encoding": "utf-8-sig"},
    }.items():
        frame.to_csv(path, index=False, **options)
        run.check("pandas", f"CSV: {name}", path, everything)
    frame.to_csv(path, index=False, header=False)
    expected = {f"x{i}": values for i, values in enumerate(everything.values())}
    run.check("pandas", "CSV: no header", path, expected, options=["--no-header"])
    frame.to_csv(path)
    run.check("pandas", "CSV: with an index", path, everything)
    incomplete = frame[["f8", "word", "i4"]].copy().astype({"i4": "Int64"})
    incomplete.loc[::5, :] = pd.NA
    for na in ["", "NA", "NaN", "null"]:
        # in text columns only an empty field is missing
        kept = incomplete if na == "" else incomplete.drop(columns="word")
        kept.to_csv(path, index=False, na_rep=na)
        expected = {name: kept[name].to_numpy(dtype=object) for name in kept}
        run.check("pandas", f"CSV: missing as {na!r}", path, {
            name: pd.array(values, dtype="Float64").to_numpy(dtype=float, na_value=np.nan) if name != "word" else values
            for name, values in expected.items()})
    pyarrow.csv.write_csv(pa.Table.from_pandas(frame), path)
    run.check("pyarrow", "CSV", path, everything)
    matrix = np.random.default_rng(4).standard_normal((ROWS, 3))
    np.savetxt(path, matrix, delimiter=",")
    run.check("numpy", "CSV: savetxt", path, {f"x{i}": matrix_column(path, i) for i in range(3)}, options=["--no-header"],
              targets=("csv", "npy"))
    run.rejects("numpy", "CSV: savetxt, read with a header", path, "add --no-header")
    frame[["f8"]].to_csv(path, index=False, encoding="utf-16")
    run.rejects("pandas", "CSV: UTF-16", path, "UTF-16")


def matrix_column(path, i):
    return np.loadtxt(path, delimiter=",")[:, i]


def svmlight(run, folder):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((ROWS, 6)) * (rng.random((ROWS, 6)) < 0.5)
    x[0, 5] = 1.0
    x += 0.0  # zeros are not written, so their sign is lost
    y = rng.choice([-1.0, 1.0], ROWS)
    path = folder / "in.svm"
    for zero, comment, qid in [(False, None, None), (True, "a comment", None), (False, None, np.arange(ROWS) // 10)]:
        with open(path, "wb") as out:
            dump_svmlight_file(x, y, out, zero_based=zero, comment=comment, query_id=qid)
        label = f"svmlight: {'from 0' if zero else 'from 1'}{', comment' if comment else ''}{', qid' if qid is not None else ''}"
        expected = {f"x{i}": np.array([float(f"{v:.16g}") for v in x[:, i]]) for i in range(6)} | {"y": y}
        run.check("sklearn", label, path, expected, options=["--zero-based"] if zero else [], targets=("parquet", "csv", "npy"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    root = pathlib.Path(__file__).resolve().parent.parent
    parser.add_argument("--kmill", default=root / "target/release/kmill", help="the binary [target/release/kmill]")
    parser.add_argument("--keep", type=pathlib.Path, help="keep the files in this folder")
    arguments = parser.parse_args()
    folder = arguments.keep or pathlib.Path(tempfile.mkdtemp())
    folder.mkdir(parents=True, exist_ok=True)
    run = Runner(arguments.kmill, folder)
    for subject in (parquet, arrow, npy, text, svmlight):
        subject(run, folder)
    if not arguments.keep:
        shutil.rmtree(folder)
    versions = ", ".join(f"{m.__name__} {m.__version__}" for m in (pa, pd, np))
    print(f"{run.run('--version')[1].strip()}; {versions}\n")
    width = [max(len(line[i]) for line in run.lines) for i in range(3)]
    for line in run.lines:
        print("  ".join(text.ljust(size) for text, size in zip(line, width)) + "  " + line[3])
    skipped = sum(line[3].startswith("skipped") for line in run.lines)
    print(f"\n{len(run.lines)} checks, {run.failed} failed, {skipped} skipped")
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
