"""Model selection with kmill.tune."""

import numpy as np
import pytest

import kmill

SMALL = {"rank": 60, "work": "30,3", "sample": 500}


def rows(n=700, d=4):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, d))
    return X, np.sin(2 * X[:, 0]) + X[:, 1] + 0.05 * rng.normal(size=n)


def listed(table, column):
    return list(table[column])


def test_regression_with_any_solver():
    X, y = rows()
    model = kmill.tune(X, y, **SMALL)
    assert type(model) is kmill.KernelRidge and model.score(X, y) > 0.95
    assert set(listed(model.kernels_, "kernel")) and set(listed(model.kernels_, "kept")) == {True, False}
    means = listed(model.leaderboard_, "mean")
    assert means == sorted(means) and sum(listed(model.leaderboard_, "chosen")) == 1
    assert model.choice_["work"] == "30,3" and 0.0 < model.choice_["test"]["apart"]["error"] < 0.3
    assert model.choice_["metric"] in ("full", "diagonal", "low-rank") or model.choice_["metric"] is None
    # the result does not depend on the number of threads, bit for bit
    assert kmill.tune(X, y, n_jobs=1, **SMALL).model_.to_bytes() == model.model_.to_bytes()
    # fewer steps try fewer kernels
    other = kmill.tune(X, y, **{**SMALL, "work": "1,2"})
    assert len(listed(other.kernels_, "kernel")) < len(listed(model.kernels_, "kernel"))


def test_classes_keep_their_labels():
    X, y = rows()
    labels = np.where(y > 0, "up", "down")
    model = kmill.tune(X, labels, **SMALL)
    assert list(model.classes_) == ["down", "up"] and model.score(X, labels) > 0.9
    assert {text.split(",")[0] for text in listed(model.leaderboard_, "solver")} <= {"ridge", "svm", "logistic"}
    whole = kmill.tune(X, (y > 0).astype(np.int32), task="classification", **SMALL)
    assert whole.classes_.dtype == np.int32 and set(whole.predict(X)) == {0, 1}
    assert kmill.tune(X, (y > 0).astype(np.int32), **SMALL).classes_.tolist() == [0, 1]
    assert type(kmill.tune(X, (y > 0).astype(np.int32), task="regression", **SMALL)) is kmill.KernelRidge


def test_files_and_arrays_give_the_same_model(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    X, y = rows()
    table = arrow.table({f"x{j}": X[:, j] for j in range(4)} | {"y": y, "kind": np.where(y > 0, "up", "down")})
    pyarrow.parquet.write_table(table, tmp_path / "all.parquet")
    model = kmill.tune(tmp_path / "all.parquet", "y", features=["x*"], clip=False, **SMALL)
    assert model.model_.to_bytes() == kmill.tune(X, y, clip=False, **SMALL).model_.to_bytes()
    model.save(tmp_path / "m.safetensors")
    assert np.array_equal(kmill.load(tmp_path / "m.safetensors").model_.predict(X), model.model_.predict(X))
    some = kmill.tune(tmp_path / "all.parquet", "kind", features=["x*"], rows="..500", **SMALL)
    assert list(some.classes_) == ["down", "up"] and some.report_["rows"] == 500


def test_one_solver_with_selected_kernels():
    X, y = rows()
    model = kmill.tune(X, y, "svr", kernels=["laplacian", "matern(nu=2.5)"], metric="none", scale="none", **SMALL)
    assert type(model) is kmill.SVR and model.kernel_.startswith(("laplacian", "matern"))
    assert {kernel.split("(")[0] for kernel in listed(model.kernels_, "kernel")} == {"laplacian", "matern"}
    assert set(listed(model.kernels_, "metric")) == {"none"} and model.choice_["scale"] == "none"


def test_a_time_limit_selects_the_rank():
    X, y = rows(1100)
    small = {"sample": 500, "kernels": ["exponential()"], "metric": "none"}
    model = kmill.tune(X, y, time=60.0, landmarks="uniform", **small)
    assert sorted(set(model.surface_["rank"])) == [500, 1000]


def test_the_exact_kernel_is_used_if_time_permits():
    X, y = rows(300)
    small = {"sample": 200, "kernels": ["exponential()"], "metric": "none"}
    model = kmill.tune(X, y, time=60.0, **small)
    assert "on the exact kernel" in model.leaderboard_["solver"][list(model.leaderboard_["chosen"]).index(True)]
    again = kmill.tune(X, y, work=model.choice_["work"], map="exact", **small)
    assert np.array_equal(model.predict(X), again.predict(X))


def test_invalid_arguments_raise_errors():
    X, y = rows(100)
    with pytest.raises(TypeError, match="arguments for files were passed with rows in memory: .*where"):
        kmill.tune(X, y, where="x0 > 0")
    with pytest.raises(ValueError, match="score"):
        kmill.tune(X, y, score="other")
    with pytest.raises(ValueError, match="4,12"):
        kmill.tune(X, y, work="many")
    with pytest.raises(kmill.Error, match="no estimator"):
        kmill.tune(X, y, "other")


def test_a_ranking_of_files_is_tested_on_whole_groups(tmp_path):
    random = np.random.default_rng(5)
    x, groups = random.normal(size=(2000, 2)), np.arange(2000) // 10
    grades = np.digitize(x[:, 0] + 0.1 * random.normal(size=2000), [-1, 0, 1])
    path = tmp_path / "searches.csv"
    path.write_text("a,b,search,grade\n" + "".join(f"{a},{b},{g},{y}\n" for (a, b), g, y in zip(x, groups, grades)))
    model = kmill.tune(path, "grade", "ranking", group="search", rank=40, work="1,2")
    assert type(model).__name__ == "KernelRanker"
    apart = model.choice_["test"]["apart"]
    # the test rows are 40 whole groups of 10 rows, with up to 45 pairs each; test rows drawn one by one would form few pairs
    assert apart["rows"] == 400 and apart["pairs"] > 1000 and apart["error"] < 0.1


def test_integers_with_few_distinct_values_are_classes():
    X, y = rows(300, 2)
    options = {"rank": 30, "work": "1,2", "kernels": ["gaussian"]}
    with pytest.warns(UserWarning, match="2 distinct integer values with many rows each"):
        model = kmill.tune(X, (y > 0).astype(int), **options)
    assert list(model.classes_) == [0, 1] and model.score(X, (y > 0).astype(int)) > 0.85
    assert type(kmill.tune(X, (y > 0).astype(int), task="regression", **options)) is kmill.KernelRidge
    # counts have many distinct values with few rows each
    assert type(kmill.tune(X, np.floor(np.exp(y)).astype(int), **options)) is kmill.KernelRidge
