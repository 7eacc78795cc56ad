"""The same rows in any container give the same model; invalid rows raise errors."""

import hashlib
import json
import logging

import numpy as np
import pytest

import kmill

logging.disable(logging.WARNING)
D = 5
NAMES = [f"x{j}" for j in range(D)]


def rows(n=3000):
    X = np.random.default_rng(0).normal(size=(n, D))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def model(**more):
    return kmill.KernelRidge(kernel="gaussian(sigma=median)", scale="standard", rank=100, lambdas="1e-8..1e-3", clip=False, **more)


def digest(fitted):
    return hashlib.sha256(fitted.model_.to_bytes()).hexdigest()


def test_arrays_of_all_layouts():
    X, y = rows()
    expected = digest(model().fit(X, y))
    readonly = X.copy()
    readonly.setflags(write=False)
    others = [np.asfortranarray(X), np.repeat(X, 2, axis=0)[::2], X.astype(">f8"), readonly, X.tolist(),
              np.ma.array(X), X.astype(object)]
    for other in others:
        assert digest(model().fit(other, y)) == expected
    single = X.astype(np.float32)
    assert digest(model().fit(single, y)) == digest(model().fit(single.astype(np.float64), y))
    half = X.astype(np.float16)
    assert digest(model().fit(half, y)) == digest(model().fit(half.astype(np.float64), y))
    whole = np.arange(3000 * D).reshape(3000, D) % 97
    assert digest(model().fit(whole, y)) == digest(model().fit(whole.astype(float), y))


def test_frames_streams_and_files(tmp_path):
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    import pyarrow.parquet

    X, y = rows()
    expected = digest(model().fit(X, y))
    table = arrow.table({name: X[:, j] for j, name in enumerate(NAMES)} | {"y": y})
    features = table.drop_columns(["y"])
    assert digest(model().fit(pandas.DataFrame(X, columns=NAMES), y)) == expected
    assert digest(model().fit(features, y)) == expected
    assert digest(model().fit(table, "y")) == expected
    assert digest(model().fit(features.to_reader(500), y)) == expected
    for name, size in [("all.parquet", 700), ("small.parquet", 64)]:
        pyarrow.parquet.write_table(table, tmp_path / name, row_group_size=size)
        fitted = model().fit_files(tmp_path / name, "y", memory="1GiB")
        assert digest(fitted) == expected
    np.save(tmp_path / "x.npy", X)
    mapped = np.load(tmp_path / "x.npy", mmap_mode="r")
    assert digest(model().fit(mapped, y)) == expected
    assert np.array_equal(fitted.predict(features), model().fit(X, y).predict(X))


def test_duckdb_relations_are_streams():
    duckdb = pytest.importorskip("duckdb")
    query = """select sin(i * 1.7) as a, cos(i * 2.3) as b, (i % 13)::float as c, sin(i * 1.7) * cos(i * 2.3) as y
               from range(2000) rows(i) order by i"""
    relation = duckdb.sql(query)
    values = relation.fetchnumpy()
    X = np.column_stack([values[name] for name in "abc"])
    own = {"kernel": "gaussian(sigma=1)", "rank": 50, "lambdas": 1e-6, "scale": "none"}
    fitted = kmill.KernelRidge(**own).fit(duckdb.sql(query), "y")
    assert list(fitted.feature_names_in_) == ["a", "b", "c"]
    again = kmill.KernelRidge(**own).fit(X, values["y"])
    # the models differ only in the names of the columns
    assert fitted.trace_error_ == again.trace_error_
    features = duckdb.sql(f"select a, b, c from ({query})")
    assert np.array_equal(fitted.predict(features), again.predict(X))


def test_polars_frames_are_streams():
    polars = pytest.importorskip("polars")
    X, y = rows()
    frame = polars.DataFrame(X, schema=NAMES)
    fitted = model().fit(frame, y)
    assert digest(fitted) == digest(model().fit(X, y))
    assert list(fitted.feature_names_in_) == NAMES
    labels = np.where(y > 0, "high", "low")
    ours = kmill.SVC(rank=50).fit(frame, labels)
    assert list(ours.classes_) == ["high", "low"] and set(ours.predict(frame)) == {"high", "low"}
    by_name = kmill.SVC(rank=50).fit(frame.with_columns(label=polars.Series(labels)), "label")
    assert list(by_name.classes_) == ["high", "low"]
    assert np.array_equal(by_name.predict(frame), ours.predict(frame))


@pytest.mark.parametrize("kind", [np.int32, np.uint8, bool, str, object, float])
def test_labels_of_all_types(kind, tmp_path):
    X, y = rows(400)
    labels = np.where(y > 0, "up", "down").astype(object) if kind is object else (y > 0).astype(kind)
    fitted = kmill.KernelRidgeClassifier(rank=50).fit(X, labels)
    assert fitted.predict(X).dtype == fitted.classes_.dtype == labels.dtype
    assert fitted.score(X, labels) > 0.9
    fitted.save(tmp_path / "m.safetensors")
    loaded = kmill.load(tmp_path / "m.safetensors")
    assert np.array_equal(loaded.model_.predict(X), fitted.model_.predict(X))


def test_invalid_rows_raise_errors():
    X, y = rows(50)
    bad = X.copy()
    bad[3, 2] = np.nan
    cases = [
        (bad, y, ValueError, "Input X contains NaN"),
        (np.where(np.isnan(bad), np.inf, bad), y, ValueError, "contains infinity"),
        (X, np.where(np.arange(50) == 7, np.nan, y), ValueError, "Input y contains NaN"),
        (X[:0], y[:0], ValueError, "0 sample"),
        (X[:1], y[:1], ValueError, "1 sample"),
        (X[0], y, ValueError, "Expected 2D array"),
        (X, y[:-1], ValueError, "inconsistent numbers of samples"),
        (np.full((50, D), "a"), y, ValueError, "could not convert string|dtype"),
        (X + 1j, y, ValueError, "[Cc]omplex"),
        (np.ma.array(X, mask=np.arange(50 * D).reshape(50, D) == 7), y, ValueError, "X contains masked values"),
        (X, np.ma.array(y, mask=np.arange(50) == 7), ValueError, "y contains masked values"),
        ([[10**400] * D] * 50, y, (ValueError, OverflowError), "too large|infinity"),
        (X, [10**400] * 50, (ValueError, OverflowError), "too large|infinity"),
        ([[{}] * D] * 50, y, TypeError, "dict"),
        (X[:, :, None], y, ValueError, "dim 3|<= 2"),
        (X[:, :0], y, ValueError, "0 feature"),
    ]
    for wrong, target, kind, text in cases:
        with pytest.raises(kind, match=text):
            model().fit(wrong, target)
    fitted = model().fit(X, y)
    masked = np.ma.array(X, mask=np.arange(50 * D).reshape(50, D) == 7)
    for wrong, kind, text in [(bad, ValueError, "NaN"), (masked, ValueError, "X contains masked values"), (X[:, :3], ValueError, "3 features"), (X[:0], ValueError, "0 sample")]:
        with pytest.raises(kind, match=text):
            fitted.predict(wrong)
    with pytest.raises(ValueError, match="lie|finite|overflow"):
        kmill.KernelRidge(kernel="poly", degree=9, rank=10).fit(1e200 * X, y)


def test_single_rows_and_large_integers():
    X, y = rows(60)
    fitted = model().fit(X, y)
    alone = [fitted.predict(X[i : i + 1])[0] for i in range(60)]
    assert np.array_equal(alone, fitted.predict(X))
    # integers beyond the exact range of float64 and int64
    large = np.full((60, 2), 2**64 - 1, dtype=np.uint64)
    large[::2] -= np.uint64(1) << np.uint64(60)
    assert digest(model().fit(large, y)) == digest(model().fit(large.astype(np.float64), y))
    labels = np.where(y > 0, 2**64 - 1, 7).astype(np.uint64)
    actual = kmill.SVC(rank=50).fit(X, labels).predict(X)
    assert actual.dtype == np.uint64 and set(actual) == {2**64 - 1, 7}


def test_invalid_files_raise_errors(tmp_path):
    with pytest.raises(FileNotFoundError, match="no such file"):
        model().fit_files(tmp_path / "none.parquet", "y")
    (tmp_path / "d.csv").write_text("a,b,y\n1,2,3\n2,1,4\n0,1,5\n")
    with pytest.raises(ValueError, match="no column"):
        model().fit_files(tmp_path / "d.csv", "z")
    with pytest.raises(MemoryError, match="budget"):
        model().fit_files(tmp_path / "d.csv", "y", memory="1MiB")
    with pytest.raises(ValueError, match="lambdas"):
        kmill.KernelRidge().fit_files(tmp_path / "d.csv", "y", where="a != 1")
    (tmp_path / "bad.safetensors").write_bytes(b"\x00" * 40)
    with pytest.raises((ValueError, OSError, kmill.Error)):
        kmill.load(tmp_path / "bad.safetensors")


def test_column_names_do_not_collide():
    pandas = pytest.importorskip("pandas")
    X, y = rows(200)
    frame = pandas.DataFrame(X, columns=["y", "sample_weight", "a*", "b?", "x0"])
    fitted = kmill.KernelRidge(rank=50).fit(frame, y, sample_weight=np.linspace(1, 2, 200))
    card = json.loads(fitted.model_.card())
    assert card["features"] == list(frame.columns) and card["targets"] == ["y_"]
    assert fitted.score(frame, y) > 0.5


def test_an_endless_stream_raises_a_memory_error():
    pa = pytest.importorskip("pyarrow")
    batch = pa.record_batch({"a": np.arange(1000.0), "y": np.arange(1000.0)})
    read = 0

    def batches():
        nonlocal read
        while True:
            read += 1
            yield batch

    with pytest.raises(MemoryError, match=r"holds more than 64\.0 MiB, `memory`; write it to files"):
        model(memory="64MiB").fit(pa.RecordBatchReader.from_batches(batch.schema, batches()), "y")
    assert read < 64 * 2**20 // batch.nbytes + 2
    # a frame is in memory already: the budget limits the fit, not the frame
    fitted = model().fit(pa.Table.from_batches([batch]), "y")
    with pytest.raises(MemoryError, match="`memory`"):
        fitted.set_params(memory="64MiB").predict(pa.RecordBatchReader.from_batches(batch.schema, batches()))
