"""Scores: cross-validated candidates, evaluation on new rows, and test rows of fits."""

import json
import pickle
import warnings

import numpy as np
import pytest
from sklearn.metrics import (
    accuracy_score,
    average_precision_score,
    classification_report,
    confusion_matrix,
    log_loss,
    mean_absolute_error,
    mean_squared_error,
    r2_score,
    roc_auc_score,
)
from sklearn.model_selection import KFold

import kmill
from kmill import _cv


def rows(n=400, d=4, seed=0):
    random = np.random.default_rng(seed)
    X = random.normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2] + 0.1 * random.normal(size=n)


def test_cv_results_are_those_of_separate_fits():
    X, y = rows(200)
    cv = KFold(4, shuffle=True, random_state=1)
    own = {"gamma": 0.3, "precision": "f64", "landmarks": X[:60]}
    model = kmill.KernelRidge(alphas=[1e-3, 1.0], cv=cv, **own).fit(X, y)
    results = model.cv_results_
    assert results["params"] == [{"alpha": 1e-3}, {"alpha": 1.0}] and list(results["param_alpha"]) == [1e-3, 1.0]
    for i, alpha in enumerate([1e-3, 1.0]):
        for j, (train, test) in enumerate(cv.split(X)):
            # lambda is per row, so that alpha is proportional to the number of rows
            fit = kmill.KernelRidge(alpha=alpha * len(train) / len(X), **own).fit(X[train], y[train])
            assert results[f"split{j}_test_score"][i] == pytest.approx(-mean_squared_error(y[test], fit.predict(X[test])), rel=1e-6)
    splits = np.array([results[f"split{j}_test_score"] for j in range(4)])
    np.testing.assert_allclose(results["mean_test_score"], splits.mean(axis=0), rtol=1e-12)
    np.testing.assert_allclose(results["std_test_score"], splits.std(axis=0), rtol=1e-12)
    assert (model.n_splits_, model.scoring_) == (4, "neg_mean_squared_error")
    assert model.best_score_ == results["mean_test_score"].max() and results["rank_test_score"][model.best_index_] == 1
    again = kmill.KernelRidge(**model.best_params_, **own).fit(X, y)
    np.testing.assert_allclose(again.predict(X), model.predict(X), rtol=1e-9)
    assert pickle.loads(pickle.dumps(model)).best_params_ == model.best_params_
    # a second fit without a comparison has no results of the first
    assert not hasattr(model.set_params(alphas=None, cv="none").fit(X, y), "cv_results_") and not hasattr(model, "best_score_")


@pytest.mark.parametrize(
    "model, scoring",
    [
        (kmill.SVC(C=[0.01, 1.0, 100.0], rank=40), "accuracy"),
        (kmill.SVC(lambdas=[1e-5, 1e-1], map="exact"), "accuracy"),
        (kmill.KernelLogisticRegression(C=[0.01, 1.0], rank=40), "neg_log_loss"),
        (kmill.KernelRidgeClassifier(alphas=[0.1, 10.0], rank=40, select="error"), "accuracy"),
        (kmill.KernelFisher(lambdas=[1e-4, 1e2], rank=40), "accuracy"),
        (kmill.SVR(C=[0.01, 1.0], rank=40), "neg_mean_squared_error"),
        (kmill.KernelQuantileRegressor([0.5], lambdas=[1e-5, 1e1], rank=40), "neg_mean_pinball_loss"),
        (kmill.KernelGLM(rank=40), "neg_mean_deviance"),
        (kmill.KernelRanker(lambdas=[1e-5, 1e1], rank=40), "fraction_of_ordered_pairs"),
        (kmill.KernelPLS(cv=4, rank=40), "neg_mean_squared_error"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_every_solver_that_compares_has_cv_results(model, scoring):
    X, y = rows(300)
    classes = hasattr(model, "predict_proba") or scoring == "accuracy" or type(model).__name__ == "KernelLogisticRegression"
    model.fit(X, np.where(y > 0, "a", "b") if classes else np.round(np.exp(y), 1))
    scores = model.cv_results_["mean_test_score"]
    assert model.scoring_ == scoring and len(scores) == len(model.cv_results_["params"]) > 1
    assert model.best_score_ == scores.max() == scores[model.best_index_] and len(set(scores)) > 1
    # the chosen candidate is the one that the model was fitted with
    name, value = next(iter(model.best_params_.items()))
    chosen = {"lambdas": lambda: model.lambda_, "C": lambda: 1 / (2 * 300 * model.lambda_), "alpha": lambda: 300 * model.lambda_,
              "n_components": lambda: model.transform(X).shape[1]}
    assert chosen[name]() == pytest.approx(value, rel=1e-9)


def test_tune_has_cv_results_of_its_solvers_or_kernels():
    X, y = rows(500)
    model = kmill.tune(X, np.where(y > 0, "up", "down"), work="2,4", rank=40, sample=400, metric="none", kernels=["gaussian"])
    results, board = model.cv_results_, model.leaderboard_
    compared = [mean for mean in board["mean"] if mean == mean and mean is not None]
    np.testing.assert_allclose(sorted(1.0 - results["mean_test_score"]), sorted(compared))
    assert model.scoring_ == "accuracy" and "split0_test_score" in results
    assert model.best_params_["solver"] == model.choice_["solver"]
    assert model.best_score_ == pytest.approx(1.0 - list(board["mean"])[list(board["chosen"]).index(True)])
    one = kmill.tune(X, y, "ridge", work="2,0", rank=40, sample=300, metric="none", kernels=["gaussian", "laplacian"])
    assert one.scoring_ == "neg_mean_squared_error" and one.best_params_["kernel"].split("(")[0] == one.kernel_.split("(")[0]
    assert set(one.cv_results_["n_resources"]) == set(one.kernels_["rows"])


def test_the_best_kernel_of_a_search_is_that_of_its_last_round():
    def entry(kernel, score):
        return {"kernel": kernel, "metric": "none", "scale": "standard", "lambda": 1e-6, "score": score}

    # errors on different numbers of rows are not comparable
    rungs = [{"rows": 100, "entries": [entry("a()", 0.1), entry("b()", 0.5)]}, {"rows": 200, "entries": [entry("a()", 0.4)]}]
    found = _cv.of_search({"select": "error"}, [], rungs, "regression", "cv")
    assert found["best_index_"] == 2 and found["best_score_"] == -0.4 and found["best_params_"]["kernel"] == "a()"
    assert list(found["cv_results_"]["iter"]) == [0, 0, 1] and list(found["cv_results_"]["n_resources"]) == [100, 100, 200]
    assert _cv.of_search({"select": "error"}, [], rungs, "regression", "alignment") == {}


def test_scores_of_a_regression_equal_those_of_scikit_learn(tmp_path):
    X, y = rows(600)
    model = kmill.KernelRidge(gamma=0.2, rank=80).fit(X[:300], y[:300])
    X, y, weight = X[300:], y[300:], 1.0 + np.arange(300) % 3
    predicted = model.predict(X)
    scores = kmill.evaluate(model, X, y)
    assert scores["rows"] == 300 and scores["mse"] == pytest.approx(mean_squared_error(y, predicted))
    assert scores["mae"] == pytest.approx(mean_absolute_error(y, predicted)) and scores["r2"] == pytest.approx(r2_score(y, predicted))
    errors = (y - predicted) ** 2
    assert scores.standard_errors["mse"] == pytest.approx(errors.std(ddof=1) / np.sqrt(300), rel=0.02)
    assert f"rmse          {np.sqrt(errors.mean()):.3g}"[:17] in repr(scores) and "±" in repr(scores)
    assert json.loads(json.dumps(scores.to_dict()))["standard_errors"]["mse"] == scores.standard_errors["mse"]
    weighted = kmill.evaluate(model, X, y, sample_weight=weight)
    assert weighted["mse"] == pytest.approx(mean_squared_error(y, predicted, sample_weight=weight)) and weighted["rows"] == weight.sum()
    assert "iframe" in scores._repr_html_() and "rmse" in scores._repr_html_()
    scores.save(tmp_path / "page.html")
    assert "<html" in (tmp_path / "page.html").read_text()
    with pytest.raises(ValueError, match="does not end with .html"):
        scores.save(tmp_path / "page.txt")
    with pytest.raises(KeyError, match="'rsme' is not a score; the scores are rows, mse"):
        scores["rsme"]
    two = kmill.KernelRidge(gamma=0.2, rank=80).fit(X, np.column_stack([y, -y]))
    assert [target["target"] for target in kmill.evaluate(two, X, np.column_stack([y, -y])).scores["by_target"]] == ["y0", "y1"]
    with pytest.raises(ValueError, match="y has 1 columns, and the model predicts 2 targets"):
        kmill.evaluate(two, X, y)


@pytest.mark.parametrize("labels", [("no", "yes"), (False, True), (3, 7), (1.0, 2.0)], ids=str)
def test_scores_of_classes_equal_those_of_scikit_learn(labels):
    X, y = rows(600)
    labels = np.where(y > 0.3, labels[1], labels[0])
    model = kmill.KernelLogisticRegression(C=10.0, gamma=0.2, rank=60).fit(X[:300], labels[:300])
    X, labels = X[300:], labels[300:]
    predicted, probability = model.predict(X), model.predict_proba(X)
    scores = kmill.evaluate(model, X, labels)
    assert scores["error"] == pytest.approx(1 - accuracy_score(labels, predicted)) and scores["classes"] == model.classes_.tolist()
    assert np.array_equal(scores["confusion"], confusion_matrix(labels, predicted, labels=model.classes_))
    assert scores["log_loss"] == pytest.approx(log_loss(labels, probability, labels=model.classes_), rel=1e-6)
    truth = labels == model.classes_[1]
    assert scores["auc"] == pytest.approx(roc_auc_score(truth, probability[:, 1]))
    assert scores["average_precision"] == pytest.approx(average_precision_score(truth, probability[:, 1]))
    other = kmill.evaluate(model, X, labels, positive=model.classes_[0], cost=(1, 20), top=10)
    assert other["average_precision"] == pytest.approx(average_precision_score(~truth, probability[:, 0])) and other["top"]["rows"] == 10
    assert other["cost"]["least"] <= other["cost"]["now"]
    with pytest.raises(ValueError, match="positive"):
        kmill.evaluate(model, X, labels, positive="maybe")


@pytest.mark.parametrize("model", [kmill.KernelLogisticRegression(C=1.0, gamma=0.2, rank=30), kmill.KernelRidgeClassifier(gamma=0.2, rank=30)],
                         ids=["probabilities", "scores"])
def test_scores_of_several_classes_equal_those_of_scikit_learn(model):
    X, y = rows(600)
    labels = np.array(["low", "middle", "top"])[np.digitize(y + 0.5 * np.random.default_rng(5).normal(size=600), [0.0, 0.8])]
    model.fit(X[:300], labels[:300])
    X, labels, classes = X[300:], labels[300:], model.classes_
    values = model.predict_proba(X) if hasattr(model, "predict_proba") else model.decision_function(X)
    scores = kmill.evaluate(model, X, labels)
    truth = labels[:, None] == classes
    areas = [roc_auc_score(truth[:, k], values[:, k]) for k in range(3)]
    precisions = [average_precision_score(truth[:, k], values[:, k]) for k in range(3)]
    report = classification_report(labels, model.predict(X), output_dict=True, zero_division=0)
    for k, label in enumerate(classes):
        found = scores["by_class"][k]
        assert (found["auc"], found["average_precision"]) == pytest.approx((areas[k], precisions[k])) and found["auc"] < 1.0
        assert [found[name] for name in ("precision", "recall", "f1", "rows")] == pytest.approx(list(report[label].values()))
    expected = {**report["macro avg"], "auc": np.mean(areas), "average_precision": np.mean(precisions), "f1": report["macro avg"]["f1-score"]}
    assert scores["macro"] == pytest.approx({name: expected[name] for name in ("precision", "recall", "f1", "auc", "average_precision")})
    if hasattr(model, "predict_proba"):
        assert scores["macro"]["auc"] == pytest.approx(roc_auc_score(labels, values, multi_class="ovr"))
        assert scores["macro"]["average_precision"] == pytest.approx(average_precision_score(truth, values))


def test_scores_of_outliers_and_rankings():
    X, y = rows(400)
    outliers = np.where(np.arange(100) < 20, -1, 1)
    strange = np.concatenate([X[:20] + 6.0, X[20:100]])
    for model in (kmill.OneClassSVM(nu=0.1, gamma=0.2, rank=60).fit(X), kmill.KernelNovelty(nu=0.1, gamma=0.2, rank=60).fit(X)):
        scores = kmill.evaluate(model, strange, outliers, top=5)
        assert scores["auc"] == pytest.approx(roc_auc_score(outliers == -1, -model.score_samples(strange))) and scores["unusual"] == 20
        assert scores["top"] == 5 and scores.standard_errors["auc"] >= 0.0
        assert kmill.evaluate(model, strange, outliers == -1)["auc"] == scores["auc"]
        np.testing.assert_allclose(model.decision_function(X), model.score_samples(X) - model.offset_)
        assert np.array_equal(model.predict(X) == -1, model.decision_function(X) < 0)
    components = kmill.KernelPCA(3, novelty=True, gamma=0.2, rank=60).fit(X)
    scores = kmill.evaluate(components, strange, outliers, top=5)
    assert scores["auc"] == pytest.approx(roc_auc_score(outliers == -1, components.distance(strange))) and scores["top"] == 5
    with pytest.raises(ValueError, match="an outlier detector has no target; pass y"):
        kmill.evaluate(model, "rows.parquet")
    query, grades = np.arange(400) // 20, np.digitize(y, [-0.5, 0.5])
    ranker = kmill.KernelRanker(rank=60).fit(X, grades, group=query)
    scores = kmill.evaluate(ranker, X, grades, group=query)
    assert 1.0 - scores["wrong_pairs"] == pytest.approx(ranker.score(X, grades, group=query)) and scores["groups"] == 20
    with pytest.raises(ValueError, match="KernelPCA has no target"):
        kmill.evaluate(kmill.KernelPCA(2, rank=20).fit(X), X, y)


def test_score_samples_of_outlier_detectors_are_their_definitions():
    X, _ = rows(150)
    from sklearn.metrics.pairwise import rbf_kernel
    from sklearn.svm import OneClassSVM

    model = kmill.OneClassSVM(nu=0.2, gamma=0.3, map="exact", precision="f64", tol=1e-8).fit(X)
    sklearn = OneClassSVM(nu=0.2, gamma=0.3, tol=1e-8).fit(X)
    np.testing.assert_allclose(model.score_samples(X) * 150 * 0.2, sklearn.score_samples(X), atol=1e-3)
    assert model.offset_ * 150 * 0.2 == pytest.approx(sklearn.offset_[0], rel=1e-3)
    mean = kmill.KernelNovelty(nu=0.2, gamma=0.3, landmarks=X, precision="f64").fit(X)
    kernel = rbf_kernel(X, X, gamma=0.3)
    np.testing.assert_allclose(mean.score_samples(X), -(1.0 - 2.0 * kernel.mean(axis=1) + kernel.mean()), atol=1e-6)


def test_evaluate_reads_tables_and_files(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    pandas = pytest.importorskip("pandas")
    import pyarrow.parquet

    X, y = rows(400)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(city=np.where(X[:, 3] > 0, "Ulm", "Bonn"), y=y, w=1.0 + np.arange(400) % 2)
    path = tmp_path / "rows.parquet"
    pyarrow.parquet.write_table(arrow.Table.from_pandas(frame, preserve_index=False), path)
    model = kmill.KernelRidge(rank=60, lambdas=1e-5).fit_files(path, "y", features=list("abcd") + ["city"], where="a < 1")
    by_files = kmill.evaluate(model, path, where="a >= 1", sample_weight="w")
    rest = frame[frame.a >= 1]

    def scores(evaluation):
        # the rows that exchange their values depend on the row numbers, which differ in a part of a file
        return {name: value for name, value in evaluation.to_dict().items() if name != "importance"}

    for X, target, weight in ((rest, rest.y, rest.w), (arrow.Table.from_pandas(rest, preserve_index=False), "y", "w")):
        assert scores(kmill.evaluate(model, X, target, sample_weight=weight)) == scores(by_files)
    assert by_files["mse"] == pytest.approx(mean_squared_error(rest.y, model.predict(rest), sample_weight=rest.w))
    numbers = kmill.KernelRidge(rank=60, lambdas=1e-5).fit_files(path, "y", features=list("abcd"))
    by_files, frame = kmill.evaluate(numbers, path, sample_weight="w"), frame.drop(columns="city")
    for X, target, weight in ((frame, None, "w"), (frame, "y", frame.w), (frame.drop(columns="y"), y, frame.w), (frame[list("cabd")], y, frame.w)):
        assert kmill.evaluate(numbers, X, target, sample_weight=weight).to_dict() == by_files.to_dict()
    with pytest.raises(ValueError, match="X has no column 'price'; its columns are a, b, c, d, y, w"):
        kmill.evaluate(numbers, frame, "price")
    by_files = kmill.evaluate(model, path, where="a >= 1", sample_weight="w")
    model.save(tmp_path / "m.safetensors")
    assert kmill.evaluate(kmill.load(tmp_path / "m.safetensors"), path, where="a >= 1", sample_weight="w").to_dict() == by_files.to_dict()
    for arguments, message in [({"y": rest.y}, "must be names of columns"), ({"y": "price"}, "price"), ({"test": "20%"}, "test must be 'same'"),
                               ({"test": "same"}, "fitted without `test`")]:
        with pytest.raises(ValueError, match=message):
            kmill.evaluate(model, path, **arguments)
    with pytest.raises(TypeError, match="arguments for files were passed with rows in memory: where"):
        kmill.evaluate(kmill.KernelRidge(rank=20).fit(frame[["a", "b"]].to_numpy(), y), frame[["a", "b"]].to_numpy(), y, where="a > 0")


SPECS = {"20%": 80, 0.2: 80, "last:15%": 60, "last:15%:day": 60, "groups:25%:shop": 100, "where d > 1": None}


@pytest.mark.parametrize("spec", SPECS, ids=str)
def test_a_fit_does_not_read_its_test_rows(spec, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows(400)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(day=np.arange(400), shop=np.arange(400) % 20, y=y)
    frame.to_csv(tmp_path / "rows.csv", index=False)
    options = {"features": list("abcd"), "test": spec}
    model = kmill.KernelRidge(rank=50, lambdas=1e-5).fit_files(tmp_path / "rows.csv", "y", **options)
    scores, test_rows = model.test_scores_, model.test_scores_.test_rows
    assert scores["rows"] == test_rows["rows"] == (SPECS[spec] or int((X[:, 3] > 1).sum()))
    assert test_rows["rows"] + test_rows["training_rows"] == 400 and model.report_["rows"] == test_rows["training_rows"]
    assert kmill.evaluate(model, tmp_path / "rows.csv", test="same").to_dict() == scores.to_dict()
    assert "test rows:" in repr(scores) and "Test rows: scores" in kmill._kmill.page(model.report_._contents)
    # other values in the test rows change the scores, but not the model
    is_test = {"20%": None, 0.2: None, "last:15%": np.arange(400) >= 340, "last:15%:day": np.arange(400) >= 340, "groups:25%:shop": None,
               "where d > 1": X[:, 3] > 1}[spec]
    if is_test is not None:
        assert scores["mse"] == pytest.approx(mean_squared_error(y[is_test], model.predict(frame[list("abcd")][is_test])))
        frame.loc[is_test, "a"], frame.loc[is_test, "y"] = 1e6, -3e7
        frame.to_csv(tmp_path / "changed.csv", index=False)
        changed = kmill.KernelRidge(rank=50, lambdas=1e-5).fit_files(tmp_path / "changed.csv", "y", **options)
        assert changed.model_.to_bytes() == model.model_.to_bytes() and changed.test_scores_["mse"] > 1e12


def test_tests_of_classes_searches_and_invalid_requests(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows(400)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(label=np.where(y > 0.8, "rare", "common"))
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = kmill.SVC(rank=50).fit_files(tmp_path / "rows.csv", "label", test="25%")
    counts = np.sum(model.test_scores_["confusion"], axis=1)
    assert list(counts) == [round(0.25 * np.sum(frame.label == label)) for label in ("common", "rare")]
    small = {"rank": 50, "work": "1,0", "sample": 200, "kernels": ["gaussian"], "metric": "none"}
    tuned = kmill.tune(X, y, "ridge", test="25%", **small)
    assert (tuned.test_scores_["rows"], tuned.report_["rows"]) == (100, 300) and tuned.test_scores_["r2"] > 0.5
    from_file = kmill.tune(tmp_path / "rows.csv", "label", "svm", test="last:10%", **small)
    assert from_file.test_scores_["rows"] == 40 and kmill.evaluate(from_file, tmp_path / "rows.csv", test="same")["rows"] == 40
    assert not hasattr(kmill.tune(X, y, "ridge", **small), "test_scores_")
    fit = kmill.KernelRidge(rank=50, lambdas=1e-5).fit_files
    for spec, message in [("20", "write 20%"), ("last:15%:dya", "no column"), ("where d > 90", "none of the 400 rows"), (["20%"], "a number or text")]:
        with pytest.raises(ValueError, match=message):
            fit(tmp_path / "rows.csv", "a", test=spec)
    with pytest.raises(ValueError, match="KernelPCA learns without a target"):
        kmill.KernelPCA(2, rank=20).fit_files(tmp_path / "rows.csv", features=list("abcd"), test="20%")


@pytest.mark.parametrize("test", ["20%", "last:20%"])
def test_a_feature_of_groups_is_named_and_a_column_of_groups_is_no_feature(test, tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = rows(600)
    frame = pandas.DataFrame({"person": 100 + 3 * (np.arange(600) // 6), "visit": np.arange(600) % 6, "x": X[:, 0], "y": y})
    frame.to_csv(tmp_path / "rows.csv", index=False)
    model = kmill.KernelRidge(rank=30, lambdas=1e-3)
    with pytest.warns(UserWarning, match="column person: .*groups:20%:person"):
        model.fit_files(tmp_path / "rows.csv", "y", test=test)
    assert model.report_["features"] == 3
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message="column person")
        model = kmill.KernelRidge(rank=30, lambdas=[1e-3, 1e-4], cv="groups:5:person").fit_files(tmp_path / "rows.csv", "y", test=test)
    assert model.report_["features"] == 2


def test_pictures_draw_on_given_axes():
    pytest.importorskip("matplotlib").use("Agg")
    import matplotlib.pyplot as plt

    X, y = rows(300)
    errors = kmill.curve(X, ["rpcholesky", "uniform"], [10, 20, 40], repeats=2, gamma=0.2)
    axes = plt.subplots(3, 3)[1].ravel()
    assert errors.plot(ax=axes[0]) is axes[0] and [line.get_label() for line in axes[0].lines] == ["rpcholesky", "uniform"]
    uniform = errors[errors["method"] == "uniform"]
    expected = [uniform["trace_error"][uniform["rank"] == rank].mean() for rank in (10, 20, 40)]
    np.testing.assert_allclose(axes[0].lines[1].get_ydata(), expected)
    assert uniform.plot(error="frobenius", against="seconds", ax=axes[1]) is axes[1] and len(axes[1].lines) == 1
    # pandas' plot has its own arguments
    assert errors.plot(x="rank", y="trace_error", kind="scatter", ax=axes[2]) is axes[2]
    with pytest.raises(ValueError, match="'ranks' is not a column of the comparison"):
        errors.plot(against="ranks")
    regression = kmill.KernelRidge(rank=40, gamma=0.2).fit(X, y)
    points = kmill.evaluate(regression, X, y).plot(ax=axes[3]).collections[0].get_offsets()
    np.testing.assert_allclose(np.sort(points[:, 1]), np.sort(y))
    classifier = kmill.KernelLogisticRegression(rank=40, gamma=0.2).fit(X, y > 0)
    scores = kmill.evaluate(classifier, X, y > 0)
    for kind, ax in zip(("roc", "precision_recall", "calibration", "confusion"), axes[4:8]):
        assert scores.plot(kind, ax=ax) is ax
    roc = scores.plot("roc").lines[0].get_xydata()
    assert np.trapezoid(roc[:, 1], roc[:, 0]) == pytest.approx(scores["auc"], abs=0.01)
    assert sorted(text.get_text() for text in axes[7].texts) == sorted(str(count) for row in scores["confusion"] for count in row)
    with pytest.raises(ValueError, match="no picture 'predictions'; expected roc or precision_recall"):
        scores.plot("predictions")
    explanation = regression.explain(X[:20])
    assert [bar.get_width() for bar in explanation.plot(ax=axes[8]).patches] == sorted(np.abs(explanation.values).mean(axis=0))
    plt.close("all")


def test_importances_of_columns():
    pandas = pytest.importorskip("pandas")
    X, y = rows(400)
    frame = pandas.DataFrame(X, columns=list("abcd")).assign(city=np.where(np.arange(400) % 3 == 0, "Ulm", "Bonn"))
    y = y + np.where(frame.city == "Ulm", 3.0, 0.0)
    learned = kmill.KernelRidge(rank=60, metric="diagonal").fit(frame, y)
    assert list(learned.feature_names_in_) == [*"abcd", "city"] and learned.feature_importances_.shape == (5,)
    assert learned.feature_importances_.sum() == pytest.approx(1.0) and learned.feature_importances_[3] < 0.01
    fractions = dict(learned.model_.importance())
    assert learned.feature_importances_[4] == pytest.approx(fractions["city=Bonn"] + fractions["city=Ulm"])
    # slopes of a linear model are its weights, here per standard deviation of the column
    linear = kmill.KernelRidge(kernel="linear", rank=4, importance=True, alpha=1e-6).fit(X, X @ [3.0, 1.0, 0.0, 0.0])
    squares = X.var(axis=0) * np.square([3.0, 1.0, 0.0, 0.0])
    np.testing.assert_allclose(linear.feature_importances_, squares / squares.sum(), atol=1e-6)
    with pytest.raises(AttributeError, match="metric='diagonal'.*importance=True"):
        kmill.KernelRidge(rank=20).fit(X, y).feature_importances_


def test_importance_on_rows_is_the_permutation_importance_of_scikit_learn():
    inspection = pytest.importorskip("sklearn.inspection")
    X, y = rows(400)
    for model, target, scoring, score in [
        (kmill.SVR(rank=60), y, "neg_root_mean_squared_error", "rmse"),
        (kmill.KernelLogisticRegression(rank=60), y > np.median(y), "neg_log_loss", "log-loss"),
    ]:
        importance = kmill.evaluate(model.fit(X, target), X, target)["importance"]
        assert (importance["score"], importance["rows"], importance["exchanges"]) == (score, 400, 3)
        expected = inspection.permutation_importance(model, X, target, scoring=scoring, n_repeats=20, random_state=0)
        for column in importance["columns"]:
            j = int(column["column"][1:])
            error = abs(column["increase"] - expected.importances_mean[j])
            assert error < 4 * column["standard_error"] + 2 * expected.importances_std[j] + 1e-6, (column, expected.importances_mean)


def test_a_loaded_model_has_the_expected_class(tmp_path):
    X, y = rows(100)
    kmill.SVC(rank=20).fit(X, y > 0).save(tmp_path / "m.safetensors")
    assert type(kmill.load(tmp_path / "m.safetensors", kmill.SVC)) is kmill.SVC
    with pytest.raises(TypeError, match="a model of SVC, and KernelRidge was expected"):
        kmill.load(tmp_path / "m.safetensors", kmill.KernelRidge)
