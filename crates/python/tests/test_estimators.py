"""scikit-learn's estimator checks, and comparisons with scikit-learn's estimators."""

import logging
import pickle
import warnings

import numpy as np
import pytest
from sklearn import kernel_approximation, kernel_ridge, svm
from sklearn.base import clone
from sklearn.datasets import make_blobs, make_friedman1
from sklearn.decomposition import KernelPCA
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import GridSearchCV, GroupKFold, TimeSeriesSplit, check_cv, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import estimator_checks_generator

import kmill

# objects of LandmarkMDS are not rows of numbers; see test_distances.py
ESTIMATORS = [
    cls for cls in (getattr(kmill, name) for name in kmill.__all__) if hasattr(cls, "_parameters")
]
# checks that are expected to fail, with the reason
_EQUIVALENCE = [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")]
EXPECTED = {
    "KernelPCA": dict.fromkeys(_EQUIVALENCE, "the check shuffles the rows: components agree to 1e-12 up to their signs, which depend on "
                               "the order of the landmarks; see test_weights_equal_repeated_rows"),
    "OneClassSVM": dict.fromkeys(_EQUIVALENCE, "rows on the margin have scores that differ by 4e-14, and predict returns their signs"),
    "KernelKMeans": dict.fromkeys(["check_sample_weights_shape", "check_sample_weights_not_overwritten"],
                                  "the rows have four distinct values, and more clusters than distinct rows raise an error"),
}
# the check compares to 1e-7, which float32 and the default tolerances of the SVMs do not reach
_SVM = {"precision": "f64", "tol": 1e-12, "max_iter": 5000}
TIGHT = {
    **dict.fromkeys(["KernelRidge", "KernelRidgeClassifier", "KernelLogisticRegression", "KernelPCA", "KernelKMeans"], {"precision": "f64"}),
    **dict.fromkeys(["SVC", "SVR", "OneClassSVM"], _SVM),
    "KernelQuantileRegressor": {**_SVM, "lambdas": 1e-3},
    "KernelGLM": {"precision": "f64", "lambdas": 1e-3},
}


def checks(estimator):
    expected = EXPECTED.get(type(estimator).__name__, {})
    name = type(estimator).__name__
    tight = type(estimator)(**TIGHT.get(name, {}))
    return [(tight if check.func.__name__ in _EQUIVALENCE else instance, check, expected)
            for instance, check in estimator_checks_generator(estimator)]


def test_coordinates_match_scikit_learn():
    from sklearn.cross_decomposition import PLSRegression
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    rng = np.random.default_rng(2)
    X = rng.normal(size=(200, 5)) @ rng.normal(size=(5, 5))
    y = X @ rng.normal(size=5) + rng.normal(size=200)
    linear = {"kernel": "linear()", "rank": 200, "landmarks": X, "precision": "f64"}
    ours = kmill.KernelPLS(n_components=3, **linear).fit(X, y)
    theirs = PLSRegression(n_components=3, scale=False).fit(X, y)
    assert np.allclose(ours.predict(X), theirs.predict(X), rtol=0, atol=1e-8 * np.abs(y).max())
    for a, b in zip(ours.transform(X).T, theirs.transform(X).T):
        assert abs(abs(np.corrcoef(a, b)[0, 1]) - 1) < 1e-10
    assert ours.get_feature_names_out().tolist() == ["kernelpls0", "kernelpls1", "kernelpls2"]
    codes = np.digitize(y, np.quantile(y, [0.33, 0.66]))
    ours = kmill.KernelFisher(lambdas=1e-12, **linear)
    mine = ours.fit(X, codes).transform(X)
    lda = LinearDiscriminantAnalysis(solver="eigen").fit(X, codes).transform(X)
    assert mine.shape == lda.shape == (200, 2)
    for a, b in zip(mine.T, lda.T):
        assert abs(abs(np.corrcoef(a, b)[0, 1]) - 1) < 1e-6


def test_class_weights_equal_repeated_rows():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(300, 2))
    y = np.where(X[:, 0] + 0.5 * rng.normal(size=300) > 0.8, "rare", "common")
    rare = y == "rare"
    again = lambda values: np.concatenate([values, values[rare], values[rare]])
    for make in (kmill.KernelLogisticRegression, kmill.SVC):
        # every row is a landmark, so that repeated rows do not change the landmarks
        weighted = make(rank=300, precision="f64", gamma=0.5, landmarks=X, class_weight={"rare": 3.0}, C=1.0).fit(X, y)
        plain = make(rank=300, precision="f64", gamma=0.5, landmarks=X, C=1.0).fit(X, y)
        repeated = make(rank=300, precision="f64", gamma=0.5, landmarks=X, C=1.0).fit(again(X), again(y))
        far = np.abs(plain.decision_function(X) - repeated.decision_function(X)).max()
        near = np.abs(weighted.decision_function(X) - repeated.decision_function(X)).max()
        assert near < 0.02 * far, (make.__name__, near, far)
    for labels in (rare, rare.astype(float), rare.astype(int) - 1):
        heavy = dict(zip(np.unique(labels), (1.0, 5.0)))
        more = kmill.SVC(class_weight=heavy).fit(X, labels).predict(X) == labels.max()
        assert more.sum() > (kmill.SVC().fit(X, labels).predict(X) == labels.max()).sum()
    with pytest.raises(ValueError, match="no row is of class odd"):
        kmill.SVC(class_weight={"odd": 2.0}).fit(X, y)


@pytest.mark.parametrize("cls", [kmill.SVC, kmill.KernelLogisticRegression, kmill.KernelRidgeClassifier])
def test_a_class_of_zero_weight_is_ignored(cls):
    X, y = rows(150)
    labels = np.array(["a", "b", "c"])[np.digitize(X[:, 0], [-0.5, 0.5])]
    weight = np.where(labels == "a", 0.0, 1.0)
    kept = weight > 0
    fitted = cls(rank=30).fit(X, labels, sample_weight=weight)
    assert fitted.classes_.tolist() == ["b", "c"]
    assert (fitted.predict(X)[kept] == labels[kept]).mean() > 0.9
    if hasattr(fitted, "predict_proba"):
        assert fitted.predict_proba(X).shape == (150, 2)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("cls", ESTIMATORS, ids=lambda cls: cls.__name__)
def test_scikit_learn_checks(cls):
    logging.disable(logging.WARNING)
    failed, passed = [], 0
    # at rank 50 each fit solves a semidefinite programme, which takes several seconds
    estimator = cls(rank=10) if cls is kmill.MaximumVarianceUnfolding else cls()
    for instance, check, expected in checks(estimator):
        name = check.func.__name__
        try:
            check(instance)
            passed += 1
        except Exception as error:
            if "SkipTest" in type(error).__name__:
                continue
            if name not in expected:
                failed.append((name, error))
    assert not failed
    # rankers have the fewest checks, because they are neither regressors nor classifiers
    assert passed >= 40


@pytest.mark.parametrize(
    "make",
    [
        lambda: kmill.SVC(C=0.7, gamma=0.5, map="exact", precision="f64", tol=1e-12, max_iter=2000),
        lambda: kmill.SVR(C=0.7, gamma=0.5, map="exact", precision="f64", tol=1e-12, max_iter=2000),
        lambda: kmill.OneClassSVM(nu=0.2, gamma=0.5, map="exact", precision="f64", tol=1e-12, max_iter=2000),
        lambda: kmill.KernelLogisticRegression(C=2.0, gamma=0.5, precision="f64", rank=400),
        lambda: kmill.KernelKMeans(n_clusters=3, gamma=0.5, precision="f64", rank=400),
        lambda: kmill.KernelPCA(n_components=3, gamma=0.5, precision="f64", rank=400),
    ],
)
def test_weights_equal_repeated_rows(make):
    X, y = rows(90, 3)
    weight = np.arange(90) % 4
    target = y > 0 if make()._target == "classes" else y
    again = np.repeat(np.arange(90), weight)
    weighted, plain = make().fit(X, target, sample_weight=weight), make().fit(X[again], target[again])

    def outputs(model):
        values = next(getattr(model, name) for name in ("decision_function", "transform", "predict") if hasattr(model, name))(X)
        return np.abs(values) if hasattr(model, "transform") else values  # the signs of components are arbitrary

    np.testing.assert_allclose(outputs(weighted), outputs(plain), atol=1e-6)
    if not isinstance(plain, kmill.KernelKMeans):
        assert np.abs(outputs(make().fit(X, target)) - outputs(plain)).max() > 1e-3
    if hasattr(plain, "eigenvalues_"):
        np.testing.assert_allclose(weighted.eigenvalues_, plain.eigenvalues_, rtol=1e-6)


def rows(n=300, d=4, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


@pytest.mark.parametrize(
    "kernel",
    [
        {"kernel": "rbf", "gamma": 0.3},
        {"kernel": "poly", "degree": 2, "gamma": 0.5, "coef0": 1.0},
        {"kernel": "laplacian", "gamma": 0.1},
        {"kernel": "linear"},
    ],
    ids=lambda kernel: kernel["kernel"],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_kernel_ridge_matches_scikit_learn_at_full_rank(kernel, weighted):
    X, y = rows()
    weight = np.random.default_rng(1).uniform(0.1, 2.0, len(X)) if weighted else None
    new, _ = rows(50, seed=2)
    theirs = kernel_ridge.KernelRidge(alpha=0.5, **kernel).fit(X, y, weight).predict(new)
    ours = kmill.KernelRidge(alpha=0.5, intercept="none", precision="f64", **kernel).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(new), theirs, atol=1e-10)


def test_svms_match_scikit_learn_at_full_rank():
    X, y = rows()
    new, _ = rows(50, seed=2)
    theirs = svm.SVC(C=2.0, tol=1e-6).fit(X, y > 0).decision_function(new)
    np.testing.assert_allclose(kmill.SVC(C=2.0, tol=1e-6).fit(X, y > 0).decision_function(new), theirs, atol=1e-3)
    theirs = svm.SVR(C=2.0, tol=1e-6).fit(X, y).predict(new)
    np.testing.assert_allclose(kmill.SVR(C=2.0, tol=1e-6).fit(X, y).predict(new), theirs, atol=1e-3)


def test_inner_products_of_features_approximate_the_kernel():
    X, _ = rows()
    kernel = np.exp(-0.3 * ((X[:, None] - X[None]) ** 2).sum(2))
    ours = kmill.Nystroem(gamma=0.3, n_components=300, precision="f64").fit_transform(X)
    np.testing.assert_allclose(ours @ ours.T, kernel, atol=1e-8)
    theirs = kernel_approximation.Nystroem(gamma=0.3, n_components=300).fit_transform(X)
    np.testing.assert_allclose(ours @ ours.T, theirs @ theirs.T, atol=1e-8)
    low = kmill.Nystroem(gamma=0.3, n_components=20, precision="f64").fit(X)
    phi = low.transform(X)
    assert low.trace_error_ == pytest.approx(1.0 - (phi**2).sum() / len(X), abs=1e-9)
    points = X[low.component_indices_]
    np.testing.assert_allclose(low.components_, points, atol=1e-12)
    fourier = kmill.RandomFourier(gamma=0.3, n_components=4000).fit_transform(X)
    assert np.abs(fourier @ fourier.T - kernel).max() < 0.12


def test_components_match_scikit_learn_at_full_rank():
    X, _ = rows()
    theirs = KernelPCA(n_components=3, kernel="rbf", gamma=0.3).fit(X)
    ours = kmill.KernelPCA(n_components=3, gamma=0.3, precision="f64").fit(X)
    np.testing.assert_allclose(ours.eigenvalues_, theirs.eigenvalues_, rtol=1e-8)
    np.testing.assert_allclose(np.abs(ours.transform(X)), np.abs(theirs.transform(X)), atol=1e-7)


def test_the_surface_selects_the_model_and_folds_match_scikit_learn():
    X, y = rows(600)
    model = kmill.KernelRidge(alphas=[1e-3, 1e-1, 1e1], ranks=[20, 100], gamma=0.3).fit(X, y)
    assert len(model.surface_["rank"]) == 6 and model.rank_ in (20, 100)
    best = np.argmin(model.surface_["cv_mse"])
    assert (model.surface_["rank"][best], model.surface_["lambda"][best]) == (model.rank_, model.lambda_)
    assert model.alpha_ == pytest.approx(model.lambda_ * 600)

    # the splits of a splitter become folds: compute the error of each cell directly
    groups = np.arange(600) % 3
    folds = list(GroupKFold(3).split(X, y, groups))
    for cv in [folds, TimeSeriesSplit(3)]:
        model = kmill.KernelRidge(alphas=[1e-1, 1e1], gamma=0.3, rank=600, cv=cv, precision="f64").fit(X, y)
        for place, alpha in enumerate([1e-1, 1e1]):
            errors = []
            for train, test in check_cv(cv).split(X, y):
                # alpha refers to all rows; lambda, the parameter per row, is the same in each fold
                own = kmill.KernelRidge(lambdas=alpha / 600, gamma=0.3, rank=600, precision="f64").fit(X[train], y[train])
                errors.extend((own.predict(X[test]) - y[test]) ** 2)
            assert model.surface_["cv_mse"][place] == pytest.approx(np.mean(errors), rel=1e-6)



def test_a_learned_metric_improves_the_model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 12))
    y = np.sin(2 * X[:, 0]) + X[:, 1] * X[:, 2]
    plain = kmill.KernelRidge(alpha=1e-2, gamma="median", rank=300, scale="standard").fit(X[:1500], y[:1500])
    learned = kmill.KernelRidge(alpha=1e-2, gamma="median", rank=300, scale="standard", metric="learn")
    learned.fit(X[:1500], y[:1500])
    assert learned.score(X[1500:], y[1500:]) > plain.score(X[1500:], y[1500:]) + 0.05
    assert {name for name, _ in learned.model_.importance()[:3]} == {"x0", "x1", "x2"}
    with pytest.raises(ValueError, match="expected none, learn, diagonal"):
        kmill.KernelRidge(metric="other").fit(X, y)


def test_metrics_and_landmarks_as_arrays(tmp_path):
    X, y = rows(600)
    own = {"alpha": 0.1, "gamma": 0.3, "precision": "f64", "rank": 100}
    factors = np.array([2.0, 1.0, 0.5, 0.0])
    diagonal = kmill.KernelRidge(metric=factors, **own).fit(X, y)
    np.testing.assert_allclose(diagonal.predict(X), kmill.KernelRidge(**own).fit(X * factors, y).predict(X * factors), atol=1e-8)
    matrix = kmill.KernelRidge(metric=np.diag(factors), **own).fit(X, y)
    np.testing.assert_allclose(diagonal.predict(X), matrix.predict(X), atol=1e-8)
    diagonal.save(tmp_path / "m.safetensors")
    named = kmill.KernelRidge(metric=str(tmp_path / "m.safetensors"), **own).fit(X, y)
    assert np.array_equal(named.predict(X), diagonal.predict(X))

    # ridge regression in the span of these landmarks, in closed form
    kernel = lambda a, b: np.exp(-0.3 * ((a[:, None] - b[None]) ** 2).sum(2))
    points, K = X[:50], kernel(X, X[:50])
    weights = np.linalg.solve(K.T @ K + 0.1 * kernel(points, points), K.T @ y)
    ours = kmill.KernelRidge(alpha=0.1, gamma=0.3, precision="f64", intercept="none", landmarks=points).fit(X, y)
    assert ours.rank_ == 50
    np.testing.assert_allclose(ours.predict(X), K @ weights, atol=1e-7)
    with pytest.raises(ValueError, match="give one of rpcholesky"):
        kmill.KernelRidge(landmarks="other").fit(X, y)


def test_a_tolerance_selects_the_rank():
    X, y = rows(600)
    model = kmill.KernelRidge(tolerance=0.05, gamma=0.05, rank=300).fit(X, y)
    assert model.rank_ < 300 and model.trace_error_ <= 0.05


def test_standard_deviations_and_multiple_targets():
    X, y = rows()
    noisy = y + np.random.default_rng(3).normal(scale=0.5, size=len(y))
    mean, deviation = kmill.KernelRidge(alpha=1.0, gamma=0.3, std=True).fit(X, noisy).predict(X, return_std=True)
    assert mean.shape == deviation.shape == (300,) and 0.3 < deviation.mean() < 0.9
    both = kmill.KernelRidge(alpha=0.1, gamma=0.3).fit(X, np.c_[y, 2 * y])
    np.testing.assert_allclose(both.predict(X)[:, 1], 2 * both.predict(X)[:, 0], rtol=1e-4, atol=1e-4)


def test_pipelines_searches_and_processes():
    X, y = rows()
    pipeline = make_pipeline(StandardScaler(), kmill.KernelRidge(rank=50))
    search = GridSearchCV(pipeline, {"kernelridge__gamma": [0.01, 0.3]}, cv=3, n_jobs=2).fit(X, y)
    assert search.best_params_ == {"kernelridge__gamma": 0.3}
    assert len(cross_val_score(clone(pipeline), X, y > 0, cv=3)) == 3
    copy = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(copy.predict(X), search.predict(X))


def test_frames_in_and_out():
    pandas = pytest.importorskip("pandas")
    X, _ = rows()
    frame = pandas.DataFrame(X, columns=list("abcd"))
    out = kmill.KernelPCA(n_components=2).set_output(transform="pandas").fit_transform(frame)
    assert list(out.columns) == ["kernelpca0", "kernelpca1"]


def test_invalid_kernels_raise_errors():
    X, y = rows()
    with pytest.raises(ValueError, match="kernel must be"):
        kmill.KernelRidge(kernel=3).fit(X, y)
    with pytest.raises(ValueError, match="is zero on every row"):
        kmill.KernelRidge(kernel=lambda a, b: 0.0).fit(X, y)
    with pytest.raises(ValueError, match="no kernel|kernel"):
        kmill.KernelRidge(kernel="gausian").fit(X, y)
    with pytest.raises(ValueError, match="gamma"):
        kmill.KernelRidge(gamma=-1.0).fit(X, y)
    with pytest.raises(ValueError, match="leave gamma out"):
        kmill.KernelRidge(kernel="matern(nu=2.5, sigma=3)", gamma=1.0).fit(X, y)


def test_exact_svms_match_libsvm():
    """`map="exact"` agrees with LIBSVM: classes, predictions and support vectors."""
    X, y = make_blobs(600, 4, centers=5, cluster_std=3.0, random_state=0)
    exact = kmill.SVC(C=3.0, gamma=0.05, map="exact", multiclass="one-vs-one", tol=1e-7, scale="none", precision="f64").fit(X, y)
    reference = svm.SVC(C=3.0, gamma=0.05, tol=1e-6).fit(X, y)
    assert np.mean(exact.predict(X) == reference.predict(X)) >= 0.998
    assert exact.report_["rank"] == pytest.approx(len(reference.support_), rel=0.02)
    assert exact.trace_error_ == 0.0

    X, y = make_friedman1(500, noise=0.5, random_state=1)
    exact = kmill.SVR(C=5.0, epsilon=0.2, gamma=0.3, map="exact", tol=1e-8, scale="none", precision="f64").fit(X, y)
    reference = svm.SVR(C=5.0, epsilon=0.2, gamma=0.3, tol=1e-7).fit(X, y)
    np.testing.assert_allclose(exact.predict(X), reference.predict(X), atol=2e-3)
    # the dual coefficients agree up to the tolerances, and reproduce the scores
    dual = np.zeros((2, len(X)))
    dual[0, exact.support_], dual[1, reference.support_] = exact.dual_coef_[0], reference.dual_coef_[0]
    assert np.linalg.norm(dual[0] - dual[1]) < 0.01 * np.linalg.norm(dual[1])
    np.testing.assert_array_equal(exact.support_vectors_, X[exact.support_])
    scores = rbf_kernel(X, exact.support_vectors_, gamma=0.3) @ exact.dual_coef_.T + exact.intercept_
    np.testing.assert_allclose(scores[:, 0], exact.predict(X), atol=1e-9)
    assert not hasattr(kmill.SVR(rank=20).fit(X, y), "dual_coef_")


def test_partial_fit_continues_the_fit():
    random = np.random.default_rng(5)
    X = random.normal(size=(900, 2))
    y = np.sin(X[:, 0]) + X[:, 0] * X[:, 1] + 0.1 * random.normal(size=900)
    options = {"gamma": 0.5, "rank": 60, "lambdas": 1e-4}
    model = kmill.OnlineRegressor(**options).partial_fit(X[:300], y[:300])
    assert model.running_mse_ > 0.05
    errors = []
    for first in (300, 600):
        model.partial_fit(X[first : first + 300], y[first : first + 300])
        errors.append(model.running_mse_)
        assert model.growth_["rows"] == 300 and model.growth_["verdict"] == "fits", model.growth_
    assert max(errors) < 0.05, errors
    assert model.growth_since_fit_["rows"] == 600
    whole = kmill.OnlineRegressor(**options).fit(X, y)
    assert abs(model.score(X, y) - whole.score(X, y)) < 0.01
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, :1], y)
    with pytest.raises(ValueError, match="with `std`"):
        kmill.OnlineRegressor(rule="lms").fit(X, y).partial_fit(X, y)
    assert whole.partial_fit(X, y).running_mse_ < 0.02
    with pytest.warns(UserWarning, match="outgrown its landmarks"):
        whole.partial_fit(X[:200] + np.array([4.0, 0.0]), y[:200])
    # new rows of arrays are not clipped, so the model has no ranges
    assert whole.growth_["ranges"] == []
    assert whole.growth_["missed"]["new_rows"] > 2 * whole.growth_["missed"]["fit_rows"]


def test_rankers_order_rows_within_groups():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(900, 3))
    query = np.array(["a", "b", "c", "d", "e", "f"])[rng.integers(6, size=900)]
    grade = np.round(2 * np.sin(X[:, 0]) + X[:, 1] * X[:, 2]) + 5 * (query == "a")
    model = kmill.KernelRanker(rank=100, lambdas=1e-5).fit(X, grade, group=query)
    assert model.score(X, grade, group=query) > 0.95 > 0.9 > model.score(X, grade)
    # pairs in the wrong order, in the right order, and with equal scores
    class FixedScores(kmill.KernelRanker):
        def predict(self, X):
            return np.asarray(X).ravel()
    assert FixedScores().score([0.0, 1.0, 1.0, 3.0], [2, 0, 1, 1], group=[0, 0, 1, 1]) == 0.0
    assert FixedScores().score([0.0, 0.0, 1.0], [0, 1, 2]) == pytest.approx(2.5 / 3)
    chosen = kmill.KernelRanker(rank=50, lambdas=[1e-6, 1e-2], cv=3).fit(X, grade, group=query)
    assert chosen.lambda_ in (1e-6, 1e-2)
    # only the order within a group matters
    moved = kmill.KernelRanker(rank=100, lambdas=1e-5).fit(X, np.exp(grade), group=query)
    np.testing.assert_array_equal(moved.predict(X), model.predict(X))
    with pytest.raises(ValueError, match="no pair can be ranked"):
        kmill.KernelRanker(rank=50).fit(X, np.ones(900), group=query)
    with pytest.raises(ValueError, match="no order to score"):
        model.score(X, np.ones(900), group=query)


def test_logistic_regression_converges_at_its_defaults_without_warnings():
    from sklearn.datasets import make_classification

    for seed in range(3):
        for classes in (2, 3):
            X, y = make_classification(300, 6, n_informative=4, n_classes=classes, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                single = kmill.KernelLogisticRegression(rank=50).fit(X, y)
            double = kmill.KernelLogisticRegression(rank=50, precision="f64").fit(X, y)
            assert np.abs(single.predict_proba(X) - double.predict_proba(X)).max() < 1e-4
            assert np.array_equal(single.predict_log_proba(X), np.log(single.predict_proba(X)))


def test_linear_models_have_coef_and_intercept():
    from sklearn.linear_model import Ridge

    random = np.random.default_rng(0)
    X = random.normal(size=(300, 4)) * [1, 5, 0.2, 2] + [0, 3, 0, -1]
    y = X @ [1.0, 0.2, -3.0, 0.5] + 0.1 * random.normal(size=300)
    expected = Ridge(alpha=1.0).fit(X, y)
    model = kmill.KernelRidge(kernel="linear", alpha=1.0, rank=10, precision="f64").fit(X, y)
    np.testing.assert_allclose(model.coef_[0], expected.coef_, atol=1e-8)
    np.testing.assert_allclose(model.intercept_[0], expected.intercept_, atol=1e-8)
    for other in [kmill.SVC(kernel="linear", rank=10, scale="standard", precision="f64").fit(X, np.digitize(y, [-1, 1])),
                  kmill.SVR(kernel="linear", map="exact", precision="f64").fit(X, y)]:
        scores = other.decision_function(X) if hasattr(other, "decision_function") else other.predict(X)[:, None]
        np.testing.assert_allclose(X @ other.coef_.T + other.intercept_, scores, atol=1e-7)
    assert not hasattr(kmill.KernelRidge(rank=10).fit(X, y), "coef_") and not hasattr(kmill.KernelRidge(kernel="linear"), "coef_")


def test_distances_to_cluster_centres():
    from sklearn.datasets import make_blobs
    from sklearn.metrics.pairwise import rbf_kernel

    X, _ = make_blobs(200, centers=3, random_state=0, cluster_std=0.5)
    model = kmill.KernelKMeans(n_clusters=3, gamma=0.1, rank=200, precision="f64").fit(X)
    K, labels = rbf_kernel(X, gamma=0.1), model.labels_
    # |x - mean|^2 = k(x, x) - 2 mean k(x, .) + mean k(., .)
    members = [labels == j for j in range(3)]
    squares = np.column_stack([1.0 - 2.0 * K[:, m].mean(axis=1) + K[np.ix_(m, m)].mean() for m in members])
    np.testing.assert_allclose(model.transform(X), np.sqrt(squares), atol=1e-6)
    assert np.array_equal(model.transform(X).argmin(axis=1), labels)
    assert list(model.get_feature_names_out()) == ["kernelkmeans0", "kernelkmeans1", "kernelkmeans2"]
    # several numbers of clusters are compared
    for counts in (range(2, 5), [2, 3, 4], "2..4"):
        chosen = kmill.KernelKMeans(n_clusters=counts, gamma=0.1, rank=200, precision="f64").fit(X)
        assert len(chosen.get_feature_names_out()) == 3


def test_svr_converges_to_the_optimum_of_scikit_learn():
    from sklearn.datasets import load_diabetes

    X, y = load_diabetes(return_X_y=True)
    for C in (1.0, 100.0):
        expected = svm.SVR(C=C, tol=1e-9).fit(X, y).predict(X)
        for options in ({"map": "exact"}, {"rank": len(y)}):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                actual = kmill.SVR(C=C, **options).fit(X, y).predict(X)
            # a thousandth of the standard deviation of the target, which is 77
            assert np.abs(actual - expected).max() < 0.077, (C, options)


def test_quantiles_match_scikit_learn():
    from sklearn.linear_model import QuantileRegressor

    rng = np.random.default_rng(4)
    X = rng.normal(size=(200, 3))
    y = X @ [1.0, -2.0, 0.5] + (1 + X[:, 0] ** 2) * rng.standard_t(3, size=200)
    options = {"kernel": "linear", "precision": "f64", "lambdas": 1e-9, "tol": 1e-10, "max_iter": 2000}
    model = kmill.KernelQuantileRegressor([0.9, 0.2], **options).fit(X, y)
    for level, ours in zip([0.2, 0.9], model.predict(X).T):
        theirs = QuantileRegressor(quantile=level, alpha=0.0).fit(X, y)
        np.testing.assert_allclose(ours, theirs.predict(X), atol=1e-4)
    median = kmill.KernelQuantileRegressor(**options).fit(X, y)
    assert median.predict(X).shape == (200,)
    assert median.score(X, y) == pytest.approx(QuantileRegressor(alpha=0.0).fit(X, y).score(X, y), abs=1e-4)
    several = kmill.KernelQuantileRegressor("0.2,0.5,0.9", **options).fit(X, y)
    assert several.score(X, y) == pytest.approx(median.score(X, y), abs=1e-6)
    with pytest.raises(ValueError, match="has no levels"):
        kmill.KernelQuantileRegressor(0.5, loss="huber").fit(X, y)
    huber = kmill.KernelQuantileRegressor(loss="huber", delta=0.5, lambdas=1e-9, kernel="linear").fit(X, y)
    expectile = kmill.KernelQuantileRegressor([0.5], loss="expectile", lambdas=1e-9, kernel="linear").fit(X, y)
    assert np.abs(huber.predict(X) - expectile.predict(X)).max() > 0.01


def test_intervals_and_sets_have_the_shapes_of_mapie():
    rng = np.random.default_rng(5)
    X = rng.uniform(-2, 2, size=(400, 2))
    y = np.sin(2 * X[:, 0]) + 0.3 * rng.normal(size=400)
    new = rng.uniform(-2, 2, size=(1000, 2))
    truth = np.sin(2 * new[:, 0]) + 0.3 * rng.normal(size=1000)
    for model in (kmill.KernelRidge(rank=50, interval=[0.5, 0.9]), kmill.SVR(rank=50, interval="0.5,0.9"),
                  kmill.KernelQuantileRegressor([0.1, 0.9], rank=50, interval=[0.9, 0.5])):
        outputs, ends = model.fit(X, y).predict_interval(new)
        np.testing.assert_array_equal(outputs, model.predict(new))
        assert ends.shape == (1000, 2, 2) and (ends[:, 0] < ends[:, 1]).all()
        coverage = np.mean((ends[:, 0] <= truth[:, None]) & (truth[:, None] <= ends[:, 1]), axis=0)
        assert np.abs(coverage - [0.5, 0.9]).max() < 0.1, (model, coverage)
    two = kmill.KernelRidge(rank=50, interval=0.9).fit(X, np.column_stack([y, 3 * y]))
    ends = two.predict_interval(new)[1]
    assert ends.shape == (1000, 2, 1, 2)
    np.testing.assert_allclose(ends[..., 1], 3 * ends[..., 0], rtol=1e-4, atol=1e-4)
    labels = np.where(y > 0.3, "high", np.where(y > -0.3, "middle", "low"))
    for classifier in (kmill.KernelLogisticRegression(rank=50, interval=0.9), kmill.SVC(rank=50, probability=True, interval=0.9)):
        classes, sets = classifier.fit(X, labels).predict_set(new)
        np.testing.assert_array_equal(classes, classifier.predict(new))
        assert sets.shape == (1000, 3, 1) and sets.dtype == bool and 1.0 < sets.sum(axis=1).mean() < 3.0
    with pytest.raises(ValueError, match="fitted without it"):
        kmill.KernelRidge(rank=50).fit(X, y).predict_interval(new)


@pytest.mark.parametrize(("options", "power"), [({}, 1.0), ({"family": "gamma"}, 2.0), ({"family": "tweedie", "power": 1.3}, 1.3)])
def test_glm_equals_scikit_learn_on_the_same_columns(options, power):
    from sklearn.linear_model import TweedieRegressor

    rng = np.random.default_rng(6)
    X = rng.normal(size=(500, 3))
    mean = np.exp(0.5 + X @ [0.5, -0.3, 0.0])
    y = rng.poisson(mean).astype(float) if power < 2 else mean * rng.gamma(2.0, size=500)
    exposure = rng.integers(1, 4, size=500).astype(float)
    weight = exposure ** (2 - power)
    theirs = TweedieRegressor(power=power, alpha=2e-3, link="log", tol=1e-12, max_iter=10000).fit(X, y / exposure, sample_weight=weight)
    ours = kmill.KernelGLM(kernel="linear", precision="f64", lambdas=1e-3, **options).fit(X, y / exposure, sample_weight=weight)
    np.testing.assert_allclose(ours.predict(X), theirs.predict(X), rtol=1e-5)
    assert ours.score(X, y / exposure, weight) == pytest.approx(theirs.score(X, y / exposure, weight), abs=1e-6)
    with pytest.raises(ValueError, match="the value -1"):
        kmill.KernelGLM(**options).fit(X, np.where(y > 3, -1.0, y + 1))


def test_contributions_sum_to_the_prediction():
    rng = np.random.default_rng(0)
    X = rng.uniform(-1, 1, (300, 4))
    y = np.sin(2 * X[:, 0]) * X[:, 1] + X[:, 2] ** 2
    for kernel in ("laplacian", "matern"):
        model = kmill.KernelRidge(rank=100, kernel=kernel).fit(X, y)
        explanation = model.explain(X[:7], background=X[100:])
        assert explanation.values.shape == (7, 4) and explanation.feature_names == ["x0", "x1", "x2", "x3"]
        np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, model.predict(X[:7]), atol=1e-4)
        # the last column has no effect
        sizes = np.abs(explanation.values).mean(axis=0)
        assert sizes[3] < 0.5 * sizes[:3].min(), sizes
    # of two classes, the score of the second one; of several, that of the predicted one
    for classes in (2, 3):
        model = kmill.KernelLogisticRegression(rank=60).fit(X, np.minimum((y > 0.2).astype(int) + (X[:, 3] > 0), classes - 1))
        scores = model.decision_function(X[:5])
        explanation = model.explain(X[:5])
        expected = scores if classes == 2 else scores.max(axis=1)
        np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, expected, atol=1e-4)
    two = kmill.KernelRidge(rank=100).fit(X, np.column_stack([y, -y]))
    explanation = two.explain(X[:5])
    assert explanation.values.shape == (5, 4, 2) and explanation.base_values.shape == (5, 2)
    np.testing.assert_allclose(explanation.values[:, :, 0], -explanation.values[:, :, 1], atol=1e-5)
    # without landmarks, the rows of X replace them, if there are enough
    fourier = kmill.KernelRidge(rank=50, map="fourier").fit(X, y)
    explanation = fourier.explain(X[:20])
    np.testing.assert_allclose(explanation.values.sum(axis=1) + explanation.base_values, fourier.predict(X[:20]), atol=1e-4)
    with pytest.raises(ValueError, match="background"):
        fourier.explain(X[:5])
