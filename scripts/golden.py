#!/usr/bin/env python3
"""Writes golden values of independent implementations as small JSON files to tests/golden/.

    python scripts/golden.py kernels

Needs numpy, scipy, scikit-learn and scikit-image; the files record their versions. Run it only to add cases, because the files are committed.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import scipy
import skimage
import sklearn
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.stats import gamma
from skimage.metrics import structural_similarity
from sklearn.cluster import KMeans
from sklearn.decomposition import KernelPCA
from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
from sklearn.gaussian_process.kernels import RBF, ExpSineSquared, Matern, RationalQuadratic
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegression
from sklearn.manifold import Isomap, LocallyLinearEmbedding
from sklearn.metrics import pairwise
from sklearn.svm import SVC, SVR, LinearSVC, OneClassSVM

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"


def kernels():
    """Values of every kernel between 7 and 5 points in 6 dimensions; one point is shared, and one is distant."""
    rng = np.random.default_rng(20240611)
    x, z = rng.normal(size=(7, 6)), rng.normal(size=(5, 6))
    z[2] = x[3]
    x[5] *= 4
    cases = {
        "gaussian(sigma=2)": pairwise.rbf_kernel(x, z, gamma=1 / 8),
        "gaussian(sigma=[1, 2, 3, 0.5, 4, 2.5])": RBF(length_scale=[1, 2, 3, 0.5, 4, 2.5])(x, z),
        "laplacian(sigma=4)": pairwise.laplacian_kernel(x, z, gamma=1 / 4),
        "polynomial(degree=3, gamma=0.5, c0=1)": pairwise.polynomial_kernel(x, z, degree=3, gamma=0.5, coef0=1),
        "polynomial(degree=2, gamma=0.25, c0=0)": pairwise.polynomial_kernel(x, z, degree=2, gamma=0.25, coef0=0),
        "linear()": pairwise.linear_kernel(x, z),
        "gaussian(sigma=3) + 0.5*linear()": pairwise.rbf_kernel(x, z, gamma=1 / 18) + 0.5 * pairwise.linear_kernel(x, z),
        "cauchy(sigma=2)": 1 / (1 + pairwise.euclidean_distances(x, z, squared=True) / 4),
        "exponential(sigma=3)": Matern(length_scale=3, nu=0.5)(x, z),
    }
    for nu in (0.5, 1.5, 2.5):
        cases[f"matern(nu={nu}, sigma=3)"] = Matern(length_scale=3, nu=nu)(x, z)
    cases |= {
        "rational_quadratic(alpha=0.75, sigma=2)": RationalQuadratic(length_scale=2, alpha=0.75)(x, z),
        "sigmoid(gamma=0.125, c0=-0.5)": pairwise.sigmoid_kernel(x, z, gamma=0.125, coef0=-0.5),
        "cosine()": pairwise.cosine_similarity(x, z),
    }
    # scikit-learn uses the sine of the Euclidean distance, which agrees for one feature; the kernel is the product over features
    columns = [ExpSineSquared(length_scale=1.5, periodicity=3)(x[:, [k]], z[:, [k]]) for k in range(x.shape[1])]
    cases["periodic(period=3, sigma=1.5)"] = np.prod(columns, axis=0)
    for nu in (1.5, 2.5):
        columns = [Matern(length_scale=3, nu=nu)(x[:, [k]], z[:, [k]]) for k in range(x.shape[1])]
        cases[f"matern_product(nu={nu}, sigma=3)"] = np.prod(columns, axis=0)
    columns = [pairwise.rbf_kernel(x[:, [k]], z[:, [k]], gamma=1 / 8) for k in range(x.shape[1])]
    cases["anova(sigma=2, degree=3)"] = np.sum(columns, axis=0) ** 3

    # histograms: non-negative, with features that are 0 in both points
    p, q = (np.maximum(points, 0) for points in (x, z))
    additive = pairwise.additive_chi2_kernel(p, q)
    histograms = {
        "chi_squared(sigma=2)": pairwise.chi2_kernel(p, q, gamma=1 / 2),
        "additive_chi_squared()": (p.sum(1)[:, None] + q.sum(1)[None, :] + additive) / 2,
        "intersection()": (p.sum(1)[:, None] + q.sum(1)[None, :] - cdist(p, q, "cityblock")) / 2,
    }
    # sets as indicators; the last one is empty
    a, b = (np.vstack([points[:-1] > 0, np.zeros((1, points.shape[1]), bool)]) for points in (x, z))
    sets = {"jaccard()": 1 - cdist(a, b, "jaccard")}

    # pictures of 6 x 5 pixels from 0 to 255; one is a brighter version of another, and one is constant
    g, h = (rng.integers(0, 256, size=(n, 30)).astype(float) for n in (7, 5))
    h[2], h[3] = g[3] / 2 + 60, 99
    seen = {"data_range": 255, "win_size": 3, "use_sample_covariance": False}
    similar = [[structural_similarity(a.reshape(6, 5), b.reshape(6, 5), **seen) for b in h] for a in g]
    pictures = {"ssim(width=5, window=3, step=1)": np.array(similar)}

    points = {"any": (x, z), "histograms": (p, q), "sets": (a.astype(float), b.astype(float)), "pictures": (g, h)}
    kernels = {"any": cases, "histograms": histograms, "sets": sets, "pictures": pictures}
    return {
        "points": {name: {"x": x.tolist(), "z": z.tolist()} for name, (x, z) in points.items()},
        "kernels": [
            {"spec": spec, "points": name, "values": values.tolist()}
            for name, cases in kernels.items()
            for spec, values in cases.items()
        ],
    }


class RidgedCovariance:
    """Covariance estimator for scikit-learn's discriminant analysis: S + lambda I, the regularisation of kmill."""

    penalty = 1e-4

    def fit(self, x):
        centred = x - x.mean(axis=0)
        self.covariance_ = centred.T @ centred / len(x) + self.penalty * np.eye(x.shape[1])
        return self


def libsvm(model, k):
    """Returns the dual coefficients of a LIBSVM model and half of their squared norm, in the units of LIBSVM."""
    beta = np.zeros(len(k))
    beta[model.support_] = model.dual_coef_[0]
    return beta, 0.5 * beta @ k @ beta


def logistic(phi, label, phi_new):
    """Logistic regression on exact features at C = 1/(2 n lambda), converged to the rounding error of the gradient."""
    cases = {}
    for name, rows in (("logistic", np.arange(len(label))), ("logistic_two", np.flatnonzero(label < 2))):
        for weight in (None, "balanced"):
            # classes of unequal size, because balanced weights would otherwise be 1
            kept = rows[(label[rows] != 1) | (rows // 3 % 2 == 0)]
            penalty = 1e-3
            model = LogisticRegression(
                C=1 / (2 * len(kept) * penalty), solver="newton-cg", tol=1e-13, max_iter=100_000, class_weight=weight
            ).fit(phi[kept], label[kept])
            scores = np.atleast_2d(model.decision_function(phi_new).T).T
            case = {"lambda": penalty, "rows": kept.tolist(), "scores": scores.tolist(), "intercept": model.intercept_.tolist()}
            case["square"] = float((model.coef_**2).sum())
            cases[name if weight is None else f"{name}_balanced"] = case
    return cases


def svms(k, phi, x, label, k_new, phi_new, k_test):
    """SVMs of LIBSVM on the exact kernel, and of LIBLINEAR on exact features."""
    cases, n = {}, len(label)
    for c in (1.0, 100.0):
        objectives, scores, test = [], [], []
        for own in range(3):
            y = np.where(label == own, 1, -1)
            model = SVC(kernel="precomputed", C=c, tol=1e-9).fit(k, y)
            beta, square = libsvm(model, k)
            objectives.append(np.abs(beta).sum() - square)
            scores.append(model.decision_function(k_new).tolist())
            test.append(model.decision_function(k_test))
        cases[f"svm_{c:g}"] = {
            "c": c,
            "objectives": objectives,
            "scores": np.transpose(scores).tolist(),
            "labels": np.argmax(test, axis=0).tolist(),
        }
    # one-vs-one; in scikit-learn a positive score means the first class of the pair
    model = SVC(kernel="precomputed", C=10.0, tol=1e-10, decision_function_shape="ovo").fit(k, label)
    cases["pairs"] = {
        "c": 10.0,
        "scores": (-model.decision_function(k_new)).tolist(),
        "labels": model.predict(k_test).tolist(),
    }
    y = np.where(label == 0, 1, -1)
    for loss in ("hinge", "squared_hinge"):
        model = LinearSVC(loss=loss, C=1.0, tol=1e-7, max_iter=3_000_000, dual=True).fit(phi, y)
        slack = np.maximum(0, 1 - y * model.decision_function(phi))
        cost = (slack if loss == "hinge" else slack**2).sum()
        objective = 0.5 * (model.coef_**2).sum() + 0.5 * model.intercept_[0] ** 2 + cost
        scores = model.decision_function(phi_new)
        cases[f"penalised_{loss}"] = {"c": 1.0, "objective": objective, "scores": scores.tolist()}
    z = np.round(np.sin(2 * x[:, 0]) + 0.3 * x[:, 1] + 3, 6)
    for c in (1.0, 10.0):
        model = SVR(kernel="precomputed", C=c, epsilon=0.1, tol=1e-10).fit(k, z)
        beta, square = libsvm(model, k)
        objective = z @ beta - 0.1 * np.abs(beta).sum() - square
        cases[f"svr_{c:g}"] = {"c": c, "y": z.tolist(), "objective": objective, "values": model.predict(k_new).tolist()}
    for nu in (0.1, 0.5):
        model = OneClassSVM(kernel="precomputed", nu=nu, tol=1e-10).fit(k)
        # the sum of LIBSVM's dual coefficients is nu n
        scores = model.decision_function(k_new) / (nu * n)
        beta, square = libsvm(model, k)
        cases[f"oneclass_{nu:g}"] = {"nu": nu, "objective": -square / (nu * n) ** 2, "scores": scores.tolist()}
    return cases


def solvers():
    """Results of scikit-learn on the exact kernel for every solver, on 150 rows, which are all landmarks."""
    rng = np.random.default_rng(20241121)
    sigma, n = 1.5, 150
    label = np.arange(n) % 3
    x = rng.normal(size=(n, 3)) + 1.2 * np.array([[0, 0, 0], [1, 1, 0], [-1, 1, 1]])[label]
    new = rng.normal(size=(20, 3))
    k, k_new = (pairwise.rbf_kernel(a, x, gamma=1 / (2 * sigma**2)) for a in (x, new))
    # exact features of the rows: K = phi phi^T
    values, vectors = np.linalg.eigh(k)
    kept = values > 1e-13 * values[-1]
    root = np.sqrt(values[kept])
    phi, phi_new = vectors[:, kept] * root, k_new @ vectors[:, kept] / root

    pca = KernelPCA(n_components=6, kernel="precomputed", eigen_solver="dense").fit(k)
    cases = {"kpca": {"variance": (pca.eigenvalues_ / n).tolist(), "scores": pca.transform(k_new).tolist()}}
    for name, rows in (("fisher", np.arange(n)), ("fisher_two", np.flatnonzero(label < 2))):
        model = LinearDiscriminantAnalysis(solver="lsqr", covariance_estimator=RidgedCovariance())
        model.fit(phi[rows], label[rows])
        scores = np.atleast_2d(model.decision_function(phi_new).T).T
        cases[name] = {"lambda": RidgedCovariance.penalty, "scores": scores.tolist()}
    model = LinearDiscriminantAnalysis(solver="eigen", covariance_estimator=RidgedCovariance()).fit(phi, label)
    cases["fisher"]["share"] = model.explained_variance_ratio_.tolist()
    means = KMeans(n_clusters=4, n_init=50, tol=0, max_iter=1000, random_state=0).fit(phi)
    cases["kmeans"] = {"mean_square": means.inertia_ / n}
    degrees = k.sum(axis=1)
    normalised = k / np.sqrt(np.outer(degrees, degrees))
    cases["spectral"] = {"eigenvalues": np.linalg.eigvalsh(normalised)[::-1][:5].tolist()}
    test = np.round(rng.normal(size=(1000, 3)) + 0.7 * np.array([0, 1, 0]), 3)
    k_test = pairwise.rbf_kernel(test, x, gamma=1 / (2 * sigma**2))
    cases |= logistic(phi, label, phi_new) | svms(k, phi, x, label, k_new, phi_new, k_test)
    cases["test"] = test.tolist()
    return {"kernel": f"gaussian(sigma={sigma})", "x": x.tolist(), "y": label.tolist(), "new": new.tolist(), "cases": cases}


def ridge():
    """Kernel ridge regression without an intercept on 200 rows: predictions, and leave-one-out predictions from 200 fits."""
    rng = np.random.default_rng(20241122)
    sigma, n, penalty = 1.5, 200, 1e-5
    x, new = rng.normal(size=(n, 3)), rng.normal(size=(30, 3))
    y = np.sin(1.5 * x[:, 0]) + x[:, 1] * x[:, 2] + 2 + 0.1 * rng.normal(size=n)

    def model(rows):
        # leave-one-out fits use lambda n of all n rows
        return KernelRidge(alpha=penalty * n, kernel="rbf", gamma=1 / (2 * sigma**2)).fit(x[rows], y[rows])

    left_out = [model(np.arange(n) != i).predict(x[i : i + 1])[0] for i in range(n)]
    case = {"lambda": penalty, "predictions": model(np.arange(n)).predict(new).tolist(), "left_out": left_out}
    return {"kernel": f"gaussian(sigma={sigma})", "x": x.tolist(), "y": y.tolist(), "new": new.tolist(), **case}


def imhof(weights, x):
    """P(weighted sum of chi-squared variables > x) by Imhof's integral, with SciPy's quadrature."""
    weights = np.asarray(weights)

    def integrand(u):
        theta = 0.5 * np.arctan(weights * u).sum() - 0.5 * x * u
        return np.sin(theta) / (u * np.exp(0.25 * np.log1p((weights * u) ** 2).sum()))

    # the integrand decays like a power of u: integrate over the intervals of an exponential grid up to 1e9
    total, low, high = 0.0, 1e-12, 1.0
    while high < 1e9:
        part = quad(integrand, low, high, limit=2000, epsabs=1e-13, epsrel=1e-12)[0]
        total, low, high = total + part, high, high * 1.5
    return 0.5 + total / np.pi


def statistics():
    """Two-sample and dependence statistics, computed with loops over pairs of rows; p-values of SciPy from dense spectra."""
    rng = np.random.default_rng(20241123)
    sigma = 1.5

    def k(x, z):
        return np.exp(-np.sum((x - z) ** 2) / (2 * sigma**2))

    a, b = rng.normal(size=(30, 2)), rng.normal(size=(45, 2)) * 1.3 + [0.6, -0.2]
    m, n = len(a), len(b)
    aa = [[k(x, z) for z in a] for x in a]
    bb = [[k(x, z) for z in b] for x in b]
    ab = [[k(x, z) for z in b] for x in a]
    biased = sum(map(sum, aa)) / m**2 + sum(map(sum, bb)) / n**2 - 2 * sum(map(sum, ab)) / (m * n)
    off = [sum(kk[i][j] for i in range(len(kk)) for j in range(len(kk)) if i != j) for kk in (aa, bb)]
    unbiased = off[0] / (m * (m - 1)) + off[1] / (n * (n - 1)) - 2 * sum(map(sum, ab)) / (m * n)
    pooled = np.vstack([a, b])
    gram = np.array([[k(x, z) for z in pooled] for x in pooled])
    centre = np.eye(m + n) - 1 / (m + n)
    weights = np.linalg.eigvalsh(centre @ gram @ centre) / (m + n - 1)
    scaled, mean, variance = biased * m * n / (m + n), weights.sum(), 2 * (weights**2).sum()
    mmd = {
        "a": a.tolist(),
        "b": b.tolist(),
        "biased": biased,
        "unbiased": unbiased,
        "spectrum": imhof(weights[weights > 1e-12], scaled),
        "gamma": float(gamma.sf(scaled, mean**2 / variance, scale=variance / mean)),
    }

    n = 50
    x = rng.normal(size=(n, 2))
    y = 0.5 * x[:, :1] ** 2 + rng.normal(size=(n, 1))
    kk, ll = (np.array([[k(u, v) for v in z] for u in z]) for z in (x, y))
    h = np.eye(n) - 1 / n
    biased = np.trace(kk @ h @ ll @ h) / n**2
    # Song et al., equation 5, with zero diagonals
    k0, l0 = kk - np.diag(np.diag(kk)), ll - np.diag(np.diag(ll))
    one = np.ones(n)
    unbiased = (
        np.trace(k0 @ l0)
        + (one @ k0 @ one) * (one @ l0 @ one) / ((n - 1) * (n - 2))
        - 2 / (n - 2) * (one @ k0 @ l0 @ one)
    ) / (n * (n - 3))
    values = [np.linalg.eigvalsh(h @ g @ h) / (n - 1) for g in (kk, ll)]
    products = np.outer(*values).ravel()
    # Gretton et al. 2007, theorem 4, in the units of the biased statistic
    means = [(g.sum() - np.trace(g)) / (n * (n - 1)) for g in (kk, ll)]
    mean = (1 + means[0] * means[1] - means[0] - means[1]) / n
    norms = [((h @ g @ h) ** 2).sum() / n**2 for g in (kk, ll)]
    variance = 2 * (n - 4) * (n - 5) / (n * (n - 1) * (n - 2) * (n - 3)) * norms[0] * norms[1]
    hsic = {
        "x": x.tolist(),
        "y": y.tolist(),
        "biased": biased,
        "unbiased": unbiased,
        "alignment": biased / np.sqrt(norms[0] * norms[1]),
        "spectrum": imhof(products[products > 1e-12], n * biased),
        "gamma": float(gamma.sf(biased, mean**2 / variance, scale=variance / mean)),
    }
    return {"kernel": f"gaussian(sigma={sigma})", "mmd": mmd, "hsic": hsic}


def embeddings():
    """Isomap and locally linear embedding of a Swiss roll and of new rows, with all rows as nodes and landmarks."""
    rng = np.random.default_rng(20261123)

    def swiss_roll(n):
        t, v = 1.5 * np.pi * (1 + 2 * rng.uniform(size=n)), rng.uniform(size=n)
        return np.column_stack([t * np.cos(t), 21 * v, t * np.sin(t)])

    x, new, k = swiss_roll(250), swiss_roll(20), 8
    isomap = Isomap(n_neighbors=k, n_components=2, eigen_solver="dense").fit(x)
    lle = LocallyLinearEmbedding(n_neighbors=k, n_components=2, eigen_solver="dense").fit(x)
    cases = {
        name: {"rows": model.embedding_.tolist(), "new": model.transform(new).tolist()}
        for name, model in (("isomap", isomap), ("lle", lle))
    }
    return {"neighbours": k, "x": x.tolist(), "new": new.tolist(), "cases": cases}


SECTIONS = {"embeddings": embeddings, "kernels": kernels, "solvers": solvers, "ridge": ridge, "statistics": statistics}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", choices=[*SECTIONS, []], help="which files to write (default: all)")
    versions = {"numpy": np.__version__, "scipy": scipy.__version__, "scikit-learn": sklearn.__version__, "scikit-image": skimage.__version__}
    for name in parser.parse_args().section or SECTIONS:
        path = GOLDEN / f"{name}.json"
        path.write_text(json.dumps({"versions": versions, **SECTIONS[name]()}, indent=1) + "\n")
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
