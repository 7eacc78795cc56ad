"""A row of weight 2 counts as two copies of the row, and a row of weight 0 is ignored."""

import logging

import numpy as np
import pytest
import scipy.sparse

import kmill

logging.disable(logging.WARNING)


@pytest.mark.parametrize("width", [4, 2000, 200_000])
def test_gamma_scale_is_weighted(width, tmp_path):
    rng = np.random.default_rng(5)
    X = scipy.sparse.csr_array(scipy.sparse.random(60, width, density=min(0.5, 6 / width), random_state=1, format="csr") + scipy.sparse.csr_array(
        (10.0 * np.arange(60), (np.arange(60), np.zeros(60, int))), shape=(60, width)))
    y, weight = rng.normal(size=60), np.arange(60) % 4
    again = np.repeat(np.arange(60), weight)
    forms = [X] if width > 4 else [X, X.toarray()]
    for rows_ in forms:
        weighted, plain = (kmill.SVR(gamma="scale", scale="none").fit(*arguments) for arguments in [(rows_, y, weight), (rows_[again], y[again])])
        sigma = [float(model.kernel_.split("=")[1].rstrip(")")) for model in (weighted, plain)]
        assert sigma[0] == pytest.approx(sigma[1], rel=1e-12)
    if width == 4:
        table = np.column_stack([X.toarray(), y, weight])
        np.savetxt(tmp_path / "t.csv", table, delimiter=",", header="a,b,c,d,y,w", comments="", fmt="%.17g")
        model = kmill.KernelRidge(alpha=1.0, kernel="rbf").fit_files(tmp_path / "t.csv", "y", sample_weight="w")
        assert model.lambda_ == 1.0 / weight.sum()


def test_trace_errors_and_standard_deviations_are_weighted():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(90, 4))
    y, weight = np.sin(X[:, 0]), np.arange(90) % 4
    again = np.repeat(np.arange(90), weight)

    def fit(*rows):
        own = {"gamma": 0.1, "landmarks": X[1:15], "precision": "f64", "std": True, "lambdas": 1e-3}
        model = kmill.KernelRidge(**own).fit(*rows)
        return [model.trace_error_, *model.predict(X, return_std=True)]

    weighted, plain, alike = fit(X, y, weight), fit(X[again], y[again]), fit(X, y)
    assert abs(alike[0] / plain[0] - 1.0) > 1e-3
    for one, other in zip(weighted, plain):
        np.testing.assert_allclose(one, other, rtol=1e-9)
