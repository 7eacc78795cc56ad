"""ONNX models, run with onnxruntime."""

import numpy as np
import pytest

import kmill

onnxruntime = pytest.importorskip("onnxruntime")

KERNELS = [
    "gaussian(sigma=2)", "gaussian(sigma=[1, 2, 3])", "exponential(sigma=3)",
    "0.25 * exponential(sigma=[1, 2, 3]) + matern(nu=1.5, sigma=[3, 2, 1]) + laplacian(sigma=[2, 5, 3]) + cauchy(sigma=[2, 2, 1])",
    "matern(nu=1.5, sigma=2)", "matern(nu=2.5, sigma=2)",
    "laplacian(sigma=4)", "rational_quadratic(alpha=0.5, sigma=2)", "cauchy(sigma=2)", "linear()", "polynomial(degree=3)", "cosine() + constant(value=0.5)", "2 * gaussian(sigma=2, on=[x0, x2]) * (linear() + 1)", "exp(0.1 * linear())",
    "matern(nu=1.5, sigma=2) + laplacian(sigma=[2, 1, 3], scale=quantile) + gaussian(sigma=1, on=[x2, x0], scale=quantile)",
]


def rows(n=300):
    random = np.random.default_rng(1)
    return random.normal(size=(n, 3)) * [1, 10, 0.1] + [0, 5, 0]


def run(model, x):
    session = onnxruntime.InferenceSession(model.to_onnx())
    return dict(zip([output.name for output in session.get_outputs()], session.run(None, {"X": x})))


@pytest.mark.parametrize("kernel", KERNELS)
def test_values(kernel):
    x = rows()
    y = np.sin(x[:, 0]) + 0.1 * x[:, 1]
    model = kmill.KernelRidge(kernel=kernel, scale="standard", rank=40, lambdas=1e-3, precision="f64").fit(x, y)
    actual = run(model, x)["prediction"][:, 0]
    # |x|^2 + |z|^2 - 2 <x, z> loses half of the digits if the row is a landmark
    close = 1e-6 if "exponential" in kernel else 1e-11
    np.testing.assert_allclose(actual, model.predict(x), rtol=0, atol=close * np.abs(y).max())


def test_quantile_scaling_with_ties_and_tails():
    x = rows()
    x[:, 2] = np.round(10 * x[:, 2])  # few distinct values, so that knots are tied
    x[:150, 1] = 5.0
    y = np.sin(x[:, 0]) + x[:, 2]
    model = kmill.KernelRidge(kernel="gaussian(sigma=2)", scale="quantile", rank=40, lambdas=1e-3, precision="f64", clip=False).fit(x, y)
    outside = np.vstack([x, 30 * x, np.zeros((1, 3))])
    np.testing.assert_allclose(run(model, outside)["prediction"][:, 0], model.predict(outside), rtol=0, atol=1e-11 * np.abs(y).max())


@pytest.mark.parametrize("labels", [["bad", "good"], [3, 7, 11], [False, True]])
def test_labels(labels):
    x = rows()
    cut = np.digitize(x[:, 0] + 5 * x[:, 2], [0] if len(labels) == 2 else [-0.5, 0.5])
    y = np.array(labels)[cut]
    model = kmill.SVC(scale="asinh", rank=40).fit(x, y)
    actual = run(model, x)
    assert list(actual["label"]) == list(model.predict(x))
    scores = np.asarray(model.decision_function(x)).reshape(len(x), -1)
    np.testing.assert_allclose(actual["scores"], scores, rtol=0, atol=1e-4 * np.abs(scores).max())


@pytest.mark.parametrize("classes", [2, 3])
@pytest.mark.parametrize("model", [kmill.KernelLogisticRegression(rank=40, precision="f64"), kmill.SVC(rank=40, probability=True, precision="f64")])
def test_probabilities(model, classes):
    x = rows()
    model.fit(x, np.digitize(x[:, 0] + 5 * x[:, 2], [0] if classes == 2 else [-0.5, 0.5]))
    actual = run(model, np.vstack([x, 1e3 * x]))["probabilities"]
    np.testing.assert_allclose(actual, model.predict_proba(np.vstack([x, 1e3 * x])), rtol=0, atol=1e-10)
    assert "probabilities" not in run(kmill.SVC(rank=40).fit(x, x[:, 0] > 0), x)


def test_unsupported_kernels_raise_errors():
    x = rows()
    model = kmill.KernelRidge(kernel="periodic(period=3)", rank=20, lambdas=1e-3).fit(x, x[:, 0])
    with pytest.raises(kmill.Error, match="the kernel periodic has no ONNX operations"):
        model.to_onnx()
