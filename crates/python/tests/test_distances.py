"""Landmark multidimensional scaling of objects with a distance, compared with dense classical scaling."""

import pickle

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

import kmill


def edit_distance(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a):
        diagonal, row[0] = row[0], i + 1
        for j, y in enumerate(b):
            diagonal, row[j + 1] = row[j + 1], min(diagonal + (x != y), row[j] + 1, row[j + 1] + 1)
    return row[-1]


def euclidean(A, B):
    return np.sqrt(((np.asarray(A)[:, None] - np.asarray(B)) ** 2).sum(2))


def words(count):
    random = np.random.default_rng(3)
    return ["".join(random.choice(list("abcde"), random.integers(3, 9))) for _ in range(count)]


def classical(D):
    """Eigenvalues in descending order, and eigenvectors, of the centred matrix of a matrix of distances."""
    H = np.eye(len(D)) - 1 / len(D)
    values, vectors = np.linalg.eigh(-0.5 * H @ D**2 @ H)
    return values[::-1], vectors[:, ::-1]


def test_words_have_the_coordinates_of_the_dense_formula():
    texts = words(150)
    model = kmill.LandmarkMDS(n_components=3, metric=edit_distance, n_landmarks=40, random_state=1).fit(texts)
    D = np.array([[edit_distance(a, b) for b in model.landmarks_] for a in texts], dtype=float)
    assert model.landmarks_ == [texts[i] for i in model.landmark_indices_]
    among = D[model.landmark_indices_]
    values, vectors = classical(among)
    expected = -0.5 * (D**2 - (among**2).mean(0)) @ (vectors[:, :3] / np.sqrt(values[:3]))
    Z = model.transform(texts)
    assert np.allclose(Z * np.sign((Z * expected).sum(0)), expected, atol=1e-10)
    assert not model.euclidean_ and model.spectrum_["negative_count"] == (values < -1e-9).sum() > 5
    assert model.spectrum_["positive_fraction"] == pytest.approx(values[values > 0].sum() / np.abs(values).sum())
    assert model.trace_error_ == pytest.approx(values[3:][values[3:] > 0].sum() / values[values > 0].sum())
    # all positive eigenvalues, new objects, processes, pickles
    parameters = {"metric": edit_distance, "n_landmarks": 40, "random_state": 1}
    everything = kmill.LandmarkMDS(n_components=None, tolerance=0.0, **parameters).fit(texts)
    assert everything.transform(texts[:2]).shape == (2, (values > 1e-9).sum())
    assert (pickle.loads(pickle.dumps(model)).transform(["abc", "eeee"]) == model.transform(["abc", "eeee"])).all()
    assert (kmill.LandmarkMDS(n_components=3, n_jobs=2, **parameters).fit_transform(texts) == Z).all()


def test_euclidean_distances_are_preserved(tmp_path):
    X = np.random.default_rng(0).normal(size=(3000, 3))
    model = kmill.LandmarkMDS(n_components=None, metric=euclidean, in_blocks=True, n_landmarks=20).fit(X)
    Z = model.transform(X)
    assert Z.shape == (3000, 3) and model.euclidean_
    assert list(model.get_feature_names_out()) == ["landmarkmds0", "landmarkmds1", "landmarkmds2"]
    assert np.allclose(euclidean(Z[:50], Z[2000:2050]), euclidean(X[:50], X[2000:2050]))
    # the same model of a precomputed matrix
    L = X[model.landmark_indices_]
    precomputed = kmill.LandmarkMDS(n_components=None).fit(euclidean(L, L))
    assert (precomputed.transform(euclidean(X, L)) == Z).all()
    coordinates = kmill.LandmarkMDS(metric=euclidean, in_blocks=True, n_landmarks=30, n_components=3)
    pipeline = make_pipeline(coordinates, kmill.KernelRidge(kernel="linear"))
    assert pipeline.fit(X, X[:, 0]).score(X, X[:, 0]) > 0.999
    # the command computes the coordinates of tables of distances
    model.save(tmp_path / "map")
    assert (kmill._kmill.Model.load(tmp_path / "map").predict(euclidean(X[:9], L)) == Z[:9]).all()


def test_errors_have_a_remedy():
    D = np.array([[0.0, 1.0, 2.0], [1.5, 0.0, 1.0], [2.0, 1.0, 0.0]])
    with pytest.raises(ValueError, match="symmetric matrix"):
        kmill.LandmarkMDS().fit(D)
    with pytest.raises(ValueError, match="square matrix"):
        kmill.LandmarkMDS().fit(D[:2])
    D[1, 0] = 1.0
    model = kmill.LandmarkMDS().fit(D)
    with pytest.raises(ValueError, match="object 1 has -1.0 for landmark 2"):
        model.transform([[0.0, 1.0, 2.0], [1.0, 1.0, -1.0]])
    with pytest.raises(ValueError, match="needs 3 columns"):
        model.transform([[0.0, 1.0]])
    with pytest.raises(ValueError, match="callable or 'precomputed'"):
        kmill.LandmarkMDS(metric="euclidean").fit(["a", "b"])
    with pytest.raises(ValueError, match="n_landmarks must be an integer"):
        kmill.LandmarkMDS(metric=edit_distance, n_landmarks=0).fit(["a", "b"])
    with pytest.raises(ValueError, match="expected one of"):
        kmill.LandmarkMDS(of="similarity").fit(D)
    with pytest.raises(ValueError, match="a distance for each pair"):
        kmill.LandmarkMDS(metric=lambda A, B: np.zeros(3), in_blocks=True).fit(["a", "b"])
    with pytest.raises(ValueError, match="all distances are 0"):
        kmill.LandmarkMDS(metric=edit_distance).fit(["a", "a"])
