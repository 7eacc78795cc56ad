"""Splitters of scikit-learn that the engine has no folds for: one fit for each split, rank and regularisation parameter."""

import logging

import numpy as np
import pytest
from sklearn.metrics.pairwise import rbf_kernel
from sklearn.model_selection import (
    GridSearchCV,
    GroupShuffleSplit,
    LeaveOneGroupOut,
    PredefinedSplit,
    RepeatedKFold,
    ShuffleSplit,
    TimeSeriesSplit,
)

import kmill

logging.disable(logging.WARNING)


def rows(n=300, d=4, seed=0):
    X = np.random.default_rng(seed).normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def split_scores(model):
    """Returns the scores by candidate and split."""
    return np.transpose([model.cv_results_[f"split{j}_test_score"] for j in range(model.n_splits_)])


SPLITTERS = [
    TimeSeriesSplit(3, gap=5),
    TimeSeriesSplit(3, max_train_size=60),
    ShuffleSplit(3, test_size=0.3, random_state=1),
    RepeatedKFold(n_splits=2, n_repeats=2, random_state=0),
    PredefinedSplit(np.arange(240) % 3 - 1),
]


@pytest.mark.parametrize("cv", SPLITTERS, ids=lambda cv: type(cv).__name__)
def test_any_splitter_selects_rank_and_lambda(cv):
    X, y = rows(240)
    weight = 1.0 + np.arange(240) % 3
    own = {"gamma": 0.3, "precision": "f64"}
    for weights in (None, weight):
        model = kmill.KernelRidge(lambdas=[1e-5, 1e-1], ranks=[20, 240], cv=cv, **own).fit(X, y, sample_weight=weights)
        results, errors = model.cv_results_, []
        for candidate in results["params"]:
            rank, lambda_ = candidate["rank"], candidate["lambdas"]
            fits = [(kmill.KernelRidge(lambdas=lambda_, rank=rank, **own).fit(X[train], y[train], None if weights is None else weights[train]), test)
                    for train, test in cv.split(X)]
            errors.append([np.average((fit.predict(X[test]) - y[test]) ** 2, weights=None if weights is None else weights[test])
                           for fit, test in fits])
        np.testing.assert_allclose(split_scores(model), -np.array(errors), rtol=1e-12)
        np.testing.assert_allclose(results["mean_test_score"], -np.mean(errors, axis=1), rtol=1e-12)
        np.testing.assert_allclose(results["std_test_score"], np.std(errors, axis=1), rtol=1e-9)
        best = int(np.argmin(np.mean(errors, axis=1)))
        assert len(errors) == 4 and model.best_params_ == {"rank": model.rank_, "lambdas": model.lambda_} == results["params"][best]
        assert (model.best_index_, results["rank_test_score"][best]) == (best, 1) and model.best_score_ == results["mean_test_score"][best]
        plain = kmill.KernelRidge(lambdas=model.lambda_, rank=model.rank_, **own).fit(X, y, sample_weight=weights)
        assert np.array_equal(model.predict(X), plain.predict(X))


def test_splitters_with_every_kind_of_estimator():
    X, y = rows(240)
    labels, query = np.where(y > 0, "yes", "no"), np.arange(240) // 8
    cv = ShuffleSplit(3, test_size=0.25, random_state=1)
    for cls in (kmill.SVC, kmill.KernelLogisticRegression, kmill.KernelFisher, kmill.KernelRidgeClassifier):
        model = cls(lambdas=[1e-6, 1e2], rank=50, cv=cv).fit(X, labels)
        fits = [(cls(lambdas=1e-6, rank=50).fit(X[train], labels[train]), test) for train, test in cv.split(X)]
        assert model.cv_results_["mean_test_score"][0] == pytest.approx(np.mean([fit.score(X[test], labels[test]) for fit, test in fits]))
        assert model.lambda_ == 1e-6
    # solvers other than ridge have no forward folds
    assert len(kmill.SVR(lambdas=[1e-6, 1.0], rank=50, cv=TimeSeriesSplit(3)).fit(X, y).cv_results_["params"]) == 2
    ranker = kmill.KernelRanker(lambdas=[1e-6, 1e-2], rank=50, cv=list(GroupShuffleSplit(3, random_state=0).split(X, y, query)))
    assert split_scores(ranker.fit(X, np.digitize(y, [-0.5, 0.5]), group=query)).shape == (2, 3)
    masks = [(query < 20, query >= 20), (query >= 10, query < 10)]
    assert split_scores(kmill.KernelPLS(n_components=2, rank=50, cv=masks).fit(X, y)).shape == (1, 2)
    kept = GridSearchCV(kmill.KernelRidge(kernel="precomputed", lambdas=[1e-6, 1e-3], cv=cv), {"intercept": ["none"]}, cv=2)
    assert split_scores(kept.fit(rbf_kernel(X, gamma=0.3), y).best_estimator_).shape == (2, 3)
    for cls, target in [(kmill.KernelPCA, None), (kmill.KernelCCA, y)]:
        with pytest.raises(ValueError, match="hold every row out once"):
            cls(rank=50, cv=cv).fit(X, target)
    with pytest.raises(ValueError, match="needs groups, which fit does not accept.*list"):
        kmill.KernelRidge(alphas=[0.1, 1.0], cv=LeaveOneGroupOut()).fit(X, y)
    # tune supports folds only
    tuned = kmill.tune(X, y, work="1,1", rank=20, cv=TimeSeriesSplit(3))
    assert tuned.choice_["folds"].startswith("forward:3")
    with pytest.raises(ValueError, match="tune compares on folds"):
        kmill.tune(X, y, "svr", work="1,1", rank=20, cv=cv)
    left = list(LeaveOneGroupOut().split(X, y, query // 10))
    folds = kmill.KernelRidge(alphas=[0.1, 1.0], cv=left).fit(X, y)
    # one pass computes these folds
    assert np.array_equal(folds.cv_results_["mean_test_score"], -folds.surface_["cv_mse"])
