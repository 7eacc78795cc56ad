"""Every row type in the fit with every row type in the prediction; damaged rows, and rows with missing values."""

import logging
import warnings

import numpy as np
import pytest
from scipy import sparse

import kmill

logging.disable(logging.WARNING)
pandas = pytest.importorskip("pandas")
arrow = pytest.importorskip("pyarrow")
N = 200


def numbers():
    """Returns two numeric columns, the second with three distinct values, and their sum."""
    random = np.random.default_rng(0)
    X = np.column_stack([random.normal(size=N), np.array([10.0, 20.0, 30.0])[random.integers(0, 3, N)]])
    return X, X[:, 0] + X[:, 1]


def kinds(X):
    """Returns the rows as every type of table and array."""
    frame = pandas.DataFrame({"x0": X[:, 0], "x1": X[:, 1]})
    every = {"array": X, "float32": X.astype(np.float32), "fortran": np.asfortranarray(X), "list": X.tolist(), "csr": sparse.csr_matrix(X),
             "csc": sparse.csc_array(X), "coo": sparse.coo_matrix(X), "pandas": frame, "whole": frame.astype({"x1": int}),
             "arrow": arrow.table(frame), "batches": arrow.table(frame).to_reader(50)}
    try:
        import polars

        every["polars"] = polars.from_pandas(frame)
    except ImportError:
        pass
    return every


MODELS = {
    "values": lambda **more: kmill.KernelRidge(rank=50, scale="none", kernel="gaussian(sigma=2)", lambdas=1e-6, clip=False, **more),
    "classes": lambda **more: kmill.SVC(rank=50, scale="none", kernel="gaussian(sigma=2)", clip=False, probability=True, **more),
    "components": lambda **more: kmill.KernelPCA(2, rank=50, scale="none", kernel="gaussian(sigma=2)", clip=False, **more),
}


def outputs(model, X):
    names = ["predict", "decision_function", "predict_proba", "transform"]
    # a stream can be read only once, so each call gets a new one
    return [getattr(model, name)(kinds(numbers()[0])["batches"] if hasattr(X, "read_next_batch") else X) for name in names if hasattr(model, name)]


@pytest.mark.parametrize("what", MODELS)
@pytest.mark.parametrize("categories", [None, "x1"])
def test_all_row_types_give_the_same_predictions_or_an_error(what, categories):
    X, y = numbers()
    target = {"values": y, "classes": y > 20, "components": None}[what]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = outputs(MODELS[what](categories=categories).fit(arrow.table({"x0": X[:, 0], "x1": X[:, 1]}), target), kinds(X)["arrow"])
        if what == "values":
            assert np.abs(expected[0] - y).max() < 0.1
        for fitted_with, rows in kinds(X).items():
            model = MODELS[what](categories=categories).fit(rows, target)
            accepted = []
            for name, new in kinds(X).items():
                try:
                    actual = outputs(model, new)
                except (ValueError, TypeError) as error:
                    assert categories is not None and "table" in str(error), (fitted_with, name, error)
                    continue
                accepted.append(name)
                for ours, theirs in zip(actual, expected):
                    assert ours.shape == theirs.shape, (fitted_with, name)
                    if ours.dtype.kind == "f":
                        # float32 rounds the rows themselves
                        np.testing.assert_allclose(ours, theirs, atol=2e-2 if "float32" in (fitted_with, name) else 1e-4, err_msg=f"{fitted_with}, {name}")
                    else:
                        assert np.array_equal(ours, theirs), (fitted_with, name)
            # the row type of the fit is always accepted; all types are accepted without categories
            assert fitted_with in accepted and (categories is not None or set(accepted) == set(kinds(X))), (fitted_with, accepted)


def test_a_wrong_number_of_columns_raises_an_error():
    X, y = numbers()
    model = MODELS["values"](categories="x1").fit(X, y)
    # X has as many columns as the model has encoded features
    with pytest.raises(ValueError, match="features"):
        model.predict(np.zeros((3, 4)))
    with pytest.raises(ValueError, match="3 columns: the model has 4 features"):
        model.model_.predict(np.zeros((4, 3)))


def damaged():
    X = sparse.random(60, 8, density=0.3, format="csr", random_state=0)
    changes = {
        "indptr far": ("csr", lambda X: X.indptr.__setitem__(5, 10**7)),
        "indptr back": ("csr", lambda X: X.indptr.__setitem__(5, -1)),
        "indptr end": ("csc", lambda X: X.indptr.__setitem__(-1, 10**6)),
        "index": ("csr", lambda X: X.indices.__setitem__(3, 10**8)),
        "index below": ("csc", lambda X: X.indices.__setitem__(3, -5)),
        "block": ("bsr", lambda X: X.indptr.__setitem__(2, 10**7)),
        "row": ("coo", lambda X: X.row.__setitem__(3, 10**8)),
        "column": ("coo", lambda X: X.col.__setitem__(3, -2)),
    }
    for name, (format, change) in changes.items():
        matrix = X.asformat(format).copy()
        change(matrix)
        yield name, matrix


def test_sparse_matrices_with_invalid_indices_raise_errors():
    X, y = sparse.random(60, 8, density=0.3, format="csr", random_state=0), np.arange(60.0)
    fitted = kmill.KernelRidge(rank=20).fit(X, y)
    for name, matrix in damaged():
        for use in [lambda: kmill.KernelRidge(rank=20).fit(matrix, y), lambda: fitted.predict(matrix), lambda: kmill.Nystroem(n_components=5).fit(matrix),
                    lambda: kmill.plot(fitted, matrix)]:
            with pytest.raises(ValueError, match="damaged"):
                use()
        assert name


def test_arrays_in_use_cannot_be_resized():
    whole = np.arange(40.0)
    part = whole.reshape(20, 2)
    table = kmill._kmill.Table.from_array(part, ["a", "b"])
    with pytest.raises(ValueError, match="resize"):
        whole.resize(10**6, refcheck=False)
    X = sparse.random(60, 8, density=0.3, format="csr", random_state=0)
    stored = X.data if X.data.base is None else X.data.base
    rows = kmill._kmill.Table.from_sparse(X.data, X.indices, X.indptr.astype(np.int64), [f"x{j}" for j in range(8)])
    with pytest.raises(ValueError, match="resize"):
        stored.resize(10**6, refcheck=False)
    del table, rows, part
    whole.resize(10**3, refcheck=False)


def test_negative_distances_of_new_rows_raise_an_error():
    at = np.arange(30.0)
    D = np.abs(at[:, None] - at)
    model = kmill.KernelRidge(kernel="distances", rank=5).fit(D, at)
    with pytest.raises(ValueError, match="at least 0: row 0, column 3"):
        model.predict(np.where(np.arange(30) == 3, -1.0, D[:2]))


@pytest.mark.parametrize("what", MODELS)
def test_rows_that_the_fit_would_drop_have_no_prediction(what, tmp_path):
    X, y = numbers()
    target = {"values": y, "classes": y > 20, "components": None}[what]
    X[::9, 0] = np.nan
    incomplete = np.isnan(X[:, 0])
    for rows in [X, pandas.DataFrame(X, columns=["x0", "x1"]), arrow.table({"x0": X[:, 0], "x1": X[:, 1]})]:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            model = MODELS[what](missing="drop").fit(rows, target)
            actual = [getattr(model, name)(rows) for name in ("decision_function", "predict_proba", "transform") if hasattr(model, name)]
        assert any("have a missing value and no prediction" in str(text.message) for text in told) or what == "values"
        for values in actual:
            assert len(values) == N and np.array_equal(np.isnan(np.reshape(values, (N, -1))).any(axis=1), incomplete)
        if what == "values":
            assert np.array_equal(np.isnan(model.predict(rows)), incomplete)
            alone = np.isnan(model.predict(rows[:1] if not isinstance(rows, arrow.Table) else rows.slice(0, 1)))
            assert alone.tolist() == [True]
        if what == "classes":
            with pytest.raises(ValueError, match="rows 0, 9, 18, 27, 36, … have missing values"):
                model.predict(rows)


def test_messages_of_fits_and_predictions_are_warnings(tmp_path):
    random = np.random.default_rng(0)
    n = 300
    X = pandas.DataFrame({"a": random.normal(size=n), "s": np.array(["u", "v"])[random.integers(0, 2, n)], "id": [f"id{i}" for i in range(n)],
                          "k": np.arange(n)})
    y = X.a + (X.s == "u")

    def told(work):
        with warnings.catch_warnings(record=True) as texts:
            warnings.simplefilter("always")
            work()
        return " ".join(str(text.message) for text in texts)

    model = kmill.KernelRidge(rank=30)
    said = told(lambda: model.fit(X, y))
    assert "KernelRidge: column id is left out" in said and "column k is left out" in said
    assert list(model.feature_names_in_) == ["a", "s"] and any("column id" in text for text in model.report_["warnings"])
    assert "column s: 300 of 300 rows have a value that did not occur in the fit" in told(lambda: model.predict(X.assign(s="zz")))
    both = told(lambda: kmill.KernelRidge(rank=30).fit(X.assign(t=X.s), y).predict(X.assign(s="zz", t="zz")))
    assert "2 columns have values that did not occur in the fit (of 300 rows: 300 in s, 300 in t)" in both and both.count("did not occur") == 1
    words = told(lambda: kmill.KernelRidge(rank=30).fit(X.assign(s=X.s.where(X.k > 9, "NA")), y))
    assert "if it means a missing value, replace it by one, such as None" in words and "missing_words" not in words
    with pytest.raises(ValueError, match="the table in memory"):
        kmill.KernelRidge(rank=30).fit(X.assign(s=X.s.where(X.k > 9)), y)
    far = told(lambda: model.predict(X.assign(a=1e6)))
    assert "300 of 300 rows have values outside the training range" in far and "clip=False" in far
    assert told(lambda: model.predict(X)) == ""
    X.assign(s="zz").to_csv(tmp_path / "u.csv", index=False)
    assert "column s: 300 of 300" in told(lambda: model.predict_files(tmp_path / "u.csv", tmp_path / "p.csv"))
    # purely numeric frames
    plain = kmill.KernelRidge(rank=30).fit(X[["a"]], y)
    assert "outside the training range" in told(lambda: plain.predict(pandas.DataFrame({"a": [1e6, 0.0]}))) and told(lambda: plain.predict(X[["a"]])) == ""


def test_the_message_about_missing_values_names_the_parameter():
    X, y = numbers()
    X[3, 0] = np.nan
    for model in [kmill.KernelRidge(), kmill.SVC(), kmill.KernelPCA()]:
        with pytest.raises(ValueError, match="(?s)Input X contains NaN.*missing='indicator'.*missing='drop'"):
            model.fit(X, y > 20)
    fitted = kmill.KernelRidge(rank=20).fit(numbers()[0], y)
    with pytest.raises(ValueError, match="missing='indicator'"):
        fitted.predict(X)
