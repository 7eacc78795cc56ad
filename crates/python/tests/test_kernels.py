"""Precomputed and callable kernels, distances, sparse rows, text, and the inverse transform of kernel PCA."""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import kernel_ridge, svm
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.metrics.pairwise import euclidean_distances, polynomial_kernel, rbf_kernel
from sklearn.model_selection import GridSearchCV

import kmill

EXACT = {"precision": "f64"}


def rows(n=200, d=4, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def overlap(a, b):
    """The histogram intersection kernel of two rows, which has no expression."""
    return np.minimum(a, b).sum()


def overlaps(A, B):
    return np.minimum(A[:, None], B[None]).sum(axis=2)


def test_precomputed_kernels_match_named_kernels():
    X, y = rows()
    new, _ = rows(50, seed=1)
    K, K_new = rbf_kernel(X, gamma=0.3), rbf_kernel(new, X, gamma=0.3)
    for cls, target, more in [
        (kmill.KernelRidge, np.c_[y, -y], {"alpha": 0.1, "intercept": "none"}),
        (kmill.KernelRidgeClassifier, y > 0, {"alpha": 0.1}),
        (kmill.SVC, y > 0, {"C": 2.0, "tol": 1e-9}),
        (kmill.KernelLogisticRegression, y > 0, {"C": 2.0}),
    ]:
        named = cls(gamma=0.3, **more, **EXACT).fit(X, target)
        precomputed = cls(kernel="precomputed", **more, **EXACT).fit(K, target)
        output = "predict" if target.ndim == 2 else "decision_function"
        near = {"atol": 1e-6 if cls is not kmill.SVC else 1e-4}
        np.testing.assert_allclose(getattr(precomputed, output)(K_new), getattr(named, output)(new), **near)
        again = pickle.loads(pickle.dumps(precomputed))
        assert np.array_equal(again.predict(K_new), precomputed.predict(K_new))
    assert precomputed.kernel_ == "precomputed" and precomputed.trace_error_ < 1e-12
    theirs = kernel_ridge.KernelRidge(kernel="precomputed", alpha=0.1).fit(K, y)
    ours = kmill.KernelRidge(kernel="precomputed", alpha=0.1, intercept="none", **EXACT).fit(K, y)
    np.testing.assert_allclose(ours.predict(K_new), theirs.predict(K_new), atol=1e-8)


def test_the_rank_and_the_tolerance_of_a_precomputed_kernel():
    X, y = rows(400)
    K = rbf_kernel(X, gamma=0.05)
    low = kmill.Nystroem("precomputed", n_components=30, **EXACT).fit(K)
    features = low.transform(K)
    assert features.shape == (400, 30) and len(low.component_indices_) == 30
    # the certificate equals the trace error of the matrix
    assert low.trace_error_ == pytest.approx(1.0 - (features**2).sum() / np.trace(K), rel=1e-6)
    np.testing.assert_allclose(features @ features[low.component_indices_].T, K[:, low.component_indices_], atol=1e-8)
    some = kmill.KernelRidge(kernel="precomputed", tolerance=0.05, rank=300).fit(K, y)
    assert some.rank_ < 100 and 0.0 < some.trace_error_ <= 0.05
    surface = kmill.KernelRidge(kernel="precomputed", ranks=[10, 40], alphas=[0.1, 1.0]).fit(K, y).surface_
    assert sorted(set(surface["rank"])) == [10, 40]


def test_callable_kernels():
    X, y = rows()
    X, new = np.abs(X), np.abs(rows(50, seed=1)[0])
    theirs = kernel_ridge.KernelRidge(kernel=overlap, alpha=0.1).fit(X, y).predict(new)
    ours = kmill.KernelRidge(kernel=overlap, alpha=0.1, intercept="none", **EXACT).fit(X, y)
    np.testing.assert_allclose(ours.predict(new), theirs, atol=1e-8)
    assert np.array_equal(pickle.loads(pickle.dumps(ours)).predict(new), ours.predict(new))
    # callables for SVMs take two arrays, as in scikit-learn
    theirs = svm.SVC(kernel=overlaps, tol=1e-8).fit(X, y > 0).decision_function(new)
    ours = kmill.SVC(kernel=overlaps, tol=1e-9, **EXACT).fit(X, y > 0)
    np.testing.assert_allclose(ours.decision_function(new), theirs, atol=1e-3)
    scaled = kmill.Nystroem(lambda a, b, weight: weight * (a @ b), kernel_params={"weight": 9.0}, n_components=4, **EXACT)
    phi = scaled.fit_transform(X)
    np.testing.assert_allclose(phi @ phi.T, 9.0 * X @ X.T, atol=1e-8)


def test_exceptions_of_callables_are_raised():
    X, y = rows(50)

    def broken(a, b):
        raise LookupError("no value for these rows")

    with pytest.raises(LookupError, match="no value for these rows"):
        kmill.KernelRidge(kernel=broken).fit(X, y)
    with pytest.raises(ValueError, match="not positive"):
        kmill.KernelRidge(kernel=lambda a, b: -(a @ b)).fit(X, y)
    with pytest.raises(ValueError, match="expected"):
        kmill.SVC(kernel=lambda A, B: np.ones((1, 1))).fit(X, y > 0)


def test_unsupported_uses_of_precomputed_kernels_raise_errors(tmp_path):
    X, y = rows(60)
    K = rbf_kernel(X)
    with pytest.raises(ValueError, match="square matrix. Input is a 60x4"):
        kmill.KernelRidge(kernel="precomputed").fit(X, y)
    for wrong, match in [({"gamma": 1.0}, "Don't pass gamma"), ({"scale": "standard"}, "scale or metric"),
                         ({"landmarks": "greedy"}, "landmarks or map")]:
        with pytest.raises(ValueError, match=match):
            kmill.KernelRidge(kernel="precomputed", **wrong).fit(K, y)
    fitted = kmill.KernelRidge(kernel="precomputed").fit(K, y)
    with pytest.raises(kmill.Error, match="can be pickled"):
        fitted.save(tmp_path / "m.safetensors")
    with pytest.raises(ValueError, match="59 features"):
        fitted.predict(K[:, :59])
    (tmp_path / "d.csv").write_text("a,y\n1,2\n2,3\n3,5\n")
    with pytest.raises(ValueError, match="need rows in memory"):
        kmill.KernelRidge(kernel="precomputed").fit_files(tmp_path / "d.csv", "y")
    with pytest.raises(ValueError, match="files have no rows of a precomputed"):
        fitted.predict_files(tmp_path / "d.csv", tmp_path / "p.csv")
    # a later fit with an expression discards the matrix
    fitted.set_params(kernel="rbf").fit(X, y).save(tmp_path / "m.safetensors")


def test_grid_search_slices_precomputed_kernels():
    X, y = rows(120)
    search = GridSearchCV(kmill.KernelRidge(kernel="precomputed", **EXACT), {"alpha": [0.01, 1.0]}, cv=3).fit(rbf_kernel(X), y)
    named = GridSearchCV(kmill.KernelRidge(gamma=0.25, **EXACT), {"alpha": [0.01, 1.0]}, cv=3).fit(X, y)
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"], atol=1e-6)


def test_distances_match_points_with_these_distances():
    X, y = rows(120)
    new, _ = rows(50, seed=1)
    D, D_new = euclidean_distances(X), euclidean_distances(new, X)
    # the origin of the points affects the intercept only
    for cls, target, output, more in [
        (kmill.KernelRidge, y, "predict", {"alpha": 0.1, "intercept": "free"}),
        (kmill.SVC, y > 0, "decision_function", {"C": 2.0, "tol": 1e-9}),
        (kmill.KernelPCA, None, "transform", {"n_components": 4}),
    ]:
        named = cls(kernel="linear", **more, **EXACT).fit(X, target)
        model = clone(cls(kernel="distances", rank=120, **more, **EXACT)).fit(D, target)
        assert model.kernel_ == "distances" and model.trace_error_ < 1e-12
        values, expected = getattr(model, output)(D_new), getattr(named, output)(new)
        sign = np.sign((values * expected).sum(axis=0)) if output == "transform" else 1.0
        np.testing.assert_allclose(values * sign, expected, atol=1e-6 if cls is not kmill.SVC else 1e-4)
        assert np.array_equal(getattr(pickle.loads(pickle.dumps(model)), output)(D_new), values)
    search, named = [GridSearchCV(kmill.KernelRidge(kernel=kernel, **EXACT), {"alpha": [0.01, 1.0]}, cv=3).fit(matrix, y)
                     for kernel, matrix in [("distances", D), ("linear", X)]]
    np.testing.assert_allclose(search.cv_results_["mean_test_score"], named.cv_results_["mean_test_score"], atol=1e-6)
    # at a lower rank the trace error is still exact
    low = kmill.Nystroem("distances", n_components=2, **EXACT).fit(D)
    assert low.trace_error_ == pytest.approx(1.0 - (low.transform(D) ** 2).sum() / (D[0] ** 2).sum(), rel=1e-6)


def test_distances_that_are_not_euclidean_raise_errors():
    X, y = rows(300)
    D = euclidean_distances(X)
    for place, value, match in [((299, 1), 9.0, "row 1, column 299 has .*, and row 299, column 1 has 9.0"),
                                ((280, 280), 1.0, "from itself must be 0: row 280, column 280 has 1.0")]:
        wrong = D.copy()
        wrong[place] = value
        with pytest.raises(ValueError, match=match):
            kmill.KernelRidge(kernel="distances").fit(wrong, y)
    with pytest.raises(ValueError, match="at least 0"):
        kmill.KernelRidge(kernel="distances").fit(-D, y)
    # violates the triangle inequality
    detour = np.array([[0.0, 1.0, 5.0], [1.0, 0.0, 1.0], [5.0, 1.0, 0.0]])
    # path lengths in graphs; a residual diagonal entry is 0 if the first row is the centre, or is opposite the pivot
    star = np.where(np.eye(5), 0.0, np.where((np.arange(5) == 0) | (np.arange(5)[:, None] == 0), 1.0, 2.0))
    ring = np.abs(np.arange(6) - np.arange(6)[:, None])
    for wrong in (detour, star, np.minimum(ring, 6 - ring)):
        with pytest.raises(ValueError, match="no points have these distances"):
            kmill.Nystroem("distances", **EXACT).fit(wrong)
        # the square roots of the last two are Euclidean
        if wrong is not detour:
            features = kmill.Nystroem("distances", **EXACT).fit_transform(np.sqrt(wrong))
            np.testing.assert_allclose(euclidean_distances(features) ** 2, wrong, atol=1e-8)


@pytest.mark.parametrize("form", [sparse.csr_matrix, sparse.csr_array, sparse.csc_array, sparse.coo_array])
def test_sparse_rows_match_dense_rows(form):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((9000, 70)) < 0.1, rng.normal(size=(9000, 70)), 0.0)
    y = X[:, 0] + np.sin(X[:, 1])
    labels = (y > 0).astype(int)
    weight = np.where(np.arange(9000) % 3 == 0, 0.0, 1.5)
    for model, fit in [
        (kmill.KernelRidge(rank=60, scale="standard"), {"y": y, "sample_weight": weight}),
        (kmill.KernelRidge(rank=60, alphas=[0.1, 1.0], cv=3), {"y": y}),
        (kmill.SVC(rank=40), {"y": labels}),
        (kmill.KernelKMeans(n_clusters=3, rank=30), {}),
    ]:
        dense = model.fit(X, **fit)
        expected, labelled = dense.model_.to_bytes(), getattr(dense, "labels_", None)
        predicted = dense.predict(X)
        sparse_model = model.fit(form(X), **fit)
        assert sparse_model.model_.to_bytes() == expected
        assert np.array_equal(sparse_model.predict(form(X)), predicted)
        assert labelled is None or np.array_equal(sparse_model.labels_, labelled)


def test_duplicate_entries_are_summed_and_invalid_entries_raise_errors():
    X, y = rows(30, 3)
    twice = sparse.csr_array((np.r_[X.ravel(), X.ravel()][np.argsort(np.tile(np.arange(90), 2) // 3, kind="stable")],
                              np.tile(np.arange(3), 60), 6 * np.arange(31)), shape=(30, 3))
    fitted = kmill.KernelRidge().fit(twice, y)
    assert fitted.model_.to_bytes() == kmill.KernelRidge().fit(2 * X, y).model_.to_bytes()
    with pytest.raises(ValueError, match="entries outside"):
        kmill._kmill.Table.from_sparse(np.ones(1), np.array([3], dtype=np.int32), np.array([0, 1]), ["a", "b", "c"])
    bad = sparse.csr_array(np.where(np.arange(90).reshape(30, 3) == 5, np.nan, X))
    with pytest.raises(ValueError, match="NaN"):
        kmill.KernelRidge().fit(bad, y)
    with pytest.raises(TypeError, match="[Ss]parse"):
        kmill.KernelRidge(kernel=overlap).fit(sparse.csr_array(X), y)


def words(rows, width=3000, seed=0):
    """Returns sparse rows of a dozen words each, and their topic, which determines four of the words."""
    rng = np.random.default_rng(seed)
    topic = rng.integers(0, 2, rows)
    entries = [np.unique(np.r_[rng.integers(0, 20, 4) + 20 * t, rng.integers(40, width, 8)]) for t in topic]
    starts = np.r_[0, np.cumsum([len(row) for row in entries])].astype(np.int32)
    places = np.concatenate(entries).astype(np.int32)
    return sparse.csr_array((rng.random(len(places)) + 0.5, places, starts), shape=(rows, width)), topic


def test_factors_of_sparse_columns_lower_the_error():
    rng = np.random.default_rng(0)
    X, topic = words(900)
    # most words say nothing about the topic
    noise = sparse.random(900, 3000, density=0.01, random_state=rng, data_rvs=lambda size: rng.random(size) + 0.5)
    X = sparse.csr_array(X + sparse.hstack([sparse.csr_array((900, 40)), sparse.csr_array(noise)[:, 40:]]))
    errors = {}
    for metric in (None, "linear"):
        model = kmill.KernelLogisticRegression(rank=100, kernel="gaussian()", metric=metric).fit(X[:600], topic[:600])
        assert model.model_.sparse == 3000
        errors[metric] = 1 - model.score(X[600:], topic[600:])
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict_proba(X[600:]), model.predict_proba(X[600:]))
    assert errors["linear"] < 0.5 * errors[None]
    # the metric keeps rows sparse that would otherwise be dense
    assert kmill.KernelRidge(rank=20, metric="linear").fit(X[:200, :60], topic[:200]).model_.sparse == 60
    with pytest.raises(ValueError, match="these rows are dense"):
        kmill.KernelRidge(rank=20, metric="linear").fit(X[:200, :60].toarray(), topic[:200])


def test_rows_with_few_entries_stay_sparse():
    X, topic = words(900)
    dense = {"scale": "standard"}
    for estimator in [kmill.SVC(rank=60, C=10.0), kmill.SVC(kernel="linear", map="exact"), kmill.KernelLogisticRegression(rank=60, gamma=0.05)]:
        model = estimator.fit(X[:600], topic[:600])
        assert model.model_.sparse == 3000 and model.n_features_in_ == 3000
        assert model.score(X[600:], topic[600:]) > 0.8
        # dense rows and other sparse formats give the same predictions
        predicted = model.predict(X[600:])
        for form in (X[600:].toarray(), sparse.coo_array(X[600:]), X[600:].astype(np.float32).astype(np.float64)):
            assert (model.predict(form) == predicted).mean() > 0.99
        again = pickle.loads(pickle.dumps(model))
        assert np.array_equal(again.predict(X[600:]), predicted)
    exact = kmill.SVC(gamma=0.1, map="exact", precision="f64", tol=1e-8).fit(X[:300], topic[:300])
    theirs = svm.SVC(gamma=0.1, tol=1e-8).fit(X[:300], topic[:300])
    np.testing.assert_allclose(exact.decision_function(X[600:]), theirs.decision_function(X[600:]), atol=1e-5)
    assert sparse.issparse(exact.support_vectors_) and exact.support_vectors_.shape[1] == 3000
    # more columns than dense rows may have: 'auto' and 'scale' count the zeros
    wide = sparse.csr_array((X.data, X.indices, X.indptr), shape=(900, 150_000))
    size = 900 * 150_000
    variance = X.power(2).sum() / size - (X.sum() / size) ** 2
    for gamma, value in [("auto", 1 / 150_000), ("scale", 1 / (150_000 * variance))]:
        by_name, by_value = [kmill.KernelRidge(rank=30, gamma=g, alpha=1e-6, **EXACT).fit(wide, topic) for g in (gamma, value)]
        assert by_name.model_.sparse == 150_000
        np.testing.assert_allclose(by_name.predict(wide), by_value.predict(wide), rtol=1e-6)
    # standard scaling reads the rows as dense rows
    assert kmill.SVC(rank=30, **dense).fit(X, topic).model_.sparse is None
    # a row with more entries than any training row
    longer = sparse.csr_array(np.where(np.arange(3000) < 100, 1.0, 0.0)[None, :])
    assert exact.predict(longer).shape == (1,)
    with pytest.raises(ValueError, match="3000"):
        exact.predict(X[:, :100])
    assert kmill.SVC(rank=30, scale="tf-idf").fit(X, topic).model_.sparse == 3000


def test_words_of_text_are_counted():
    rng = np.random.default_rng(0)
    topic = rng.integers(0, 2, 600)
    comments = [" ".join(rng.choice([["good", "fine", "well"], ["bad", "poor", "ill"]][t], 3)) + f" number{i}" for i, t in enumerate(topic)]
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"comment": comments, "size": rng.random(600)})
    model = kmill.SVC(kernel="linear", map="exact", text="comment").fit(frame[["comment"]][:400], topic[:400])
    assert model.score(frame[["comment"]][400:], topic[400:]) > 0.98
    assert kmill.SVC(rank=50, text=["comment:char(2,3)"]).fit(frame[["comment"]], topic).score(frame[["comment"]], topic) > 0.98
    # text together with a numeric column
    both = kmill.KernelRidge(rank=100, text="comment").fit(frame[:400], topic[:400] + frame["size"][:400])
    assert both.score(frame[400:], topic[400:] + frame["size"][400:]) > 0.9
    # as dense features, words that occur in a single row are omitted
    assert both.model_.features == 1 + 6


def test_inverse_transform_matches_scikit_learn():
    X, _ = rows(150)
    theirs = KernelPCA(20, kernel="rbf", gamma=0.1, fit_inverse_transform=True, alpha=1e-3).fit(X)
    ours = kmill.KernelPCA(20, gamma=0.1, fit_inverse_transform=True, alpha=1e-3, eigen_solver="dense", **EXACT).fit(X)
    back = ours.inverse_transform(ours.transform(X))
    np.testing.assert_allclose(back, theirs.inverse_transform(theirs.transform(X)), atol=1e-6)
    assert np.linalg.norm(back - X) < 0.1 * np.linalg.norm(X)
    with pytest.raises(NotFittedError):
        kmill.KernelPCA(2).fit(X).inverse_transform(X[:, :2])
    with pytest.raises(ValueError, match="Cannot fit_inverse_transform with a precomputed kernel"):
        kmill.KernelPCA(2, kernel="precomputed", fit_inverse_transform=True).fit(rbf_kernel(X))


def test_components_without_variance():
    X, _ = rows(40, 3)
    every = kmill.KernelPCA(None, kernel="linear", **EXACT).fit(X)
    assert every.transform(X).shape == (40, 3) and (every.eigenvalues_ > 0).all()
    padded = kmill.KernelPCA(5, kernel="linear", remove_zero_eig=False, **EXACT).fit(X)
    assert padded.transform(X).shape == (40, 5) and len(padded.get_feature_names_out()) == 5
    assert padded.eigenvalues_[3:].tolist() == [0.0, 0.0] and not padded.transform(X)[:, 3:].any()
    linear = KernelPCA(3, kernel="precomputed").fit(polynomial_kernel(X, degree=2))
    ours = kmill.KernelPCA(3, kernel="precomputed", **EXACT).fit(polynomial_kernel(X, degree=2))
    np.testing.assert_allclose(ours.eigenvalues_, linear.eigenvalues_, rtol=1e-8)


@pytest.mark.parametrize("cls", [kmill.KernelRidge, kmill.SVC, kmill.KernelLogisticRegression, kmill.KernelPCA])
def test_a_callable_matches_its_expression_on_degenerate_rows(cls):
    random = np.random.default_rng(0)
    X = random.normal(size=(200, 5))
    y = X @ np.arange(5.0) > 0
    twins = [lambda a, b: a @ b.T if a.ndim > 1 else a @ b, "linear"]
    few = {"n_components": 3} if cls is kmill.KernelPCA else {}
    # rank above the dimension, nearly equal columns, repeated rows, very large and small values, and constant rows
    for rows in [X, np.hstack([X, X[:, :2] + 1e-9 * X[:, 1:3]]), np.repeat(X[:4], 50, axis=0), 1e6 * X, 1e-4 * X, np.ones((200, 3))]:
        answers = []
        for kernel in twins:
            try:
                model = cls(kernel=kernel, rank=50, precision="f64", **few).fit(rows, y)
                found = model.transform(rows) if few else model.predict(rows) if cls is kmill.KernelRidge else model.decision_function(rows)
                # signs, and directions of components of equal variance, are arbitrary
                answers.append((model.rank_, found @ found.T if few else found))
            except (ValueError, kmill.Error) as error:
                answers.append((str(error), np.zeros(1)))
        assert answers[0][0] == answers[1][0]
        np.testing.assert_allclose(answers[0][1], answers[1][1], rtol=0, atol=1e-5 * max(np.abs(answers[1][1]).max(), 1e-12))
    for kernel in twins:
        with pytest.raises(ValueError, match="is zero on every row"):
            cls(kernel=kernel, rank=10).fit(np.zeros((50, 3)), np.arange(50) > 20)
