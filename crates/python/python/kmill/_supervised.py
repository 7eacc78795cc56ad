"""Regressors and classifiers: each a solver of the engine under scikit-learn's names and conventions."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from ._base import figures_of
from ._docs import document
from ._learners import Classifier, Coordinates, Probabilities, Ranker, Regressor, SupportVectors, Weighted
from ._parameters import Parameter, estimator, option_text
from ._rows import is_stream, check_storage

_ALPHA = Parameter("alpha", 1.0, "float", "The penalty in scikit-learn's convention: alpha |w|^2 beside the sum of squared errors; "
                   "the engine's lambda is alpha / n_samples.")
_ALPHAS = Parameter("alphas", None, "Sequence[float] | None", "Penalties to compare by cross-validation, in the place of alpha.")


class _Ridge(Weighted):
    """The regularisation parameters of ridge regression in scikit-learn's convention.

    Attributes
    ----------
    alpha_, lambda_ : float
        The chosen regularisation parameter, in scikit-learn's convention and per row:
        alpha = lambda n_samples.
    surface_ : dict of arrays
        Rank, alpha, lambda and cross-validated mean squared error of every cell that was compared.
    """

    alpha: Any
    alphas: Any

    def _solver_options(self, rows: int | None) -> dict[str, str]:
        engine: dict[str, str] = super()._solver_options(rows)
        if "lambda" not in engine:
            if rows is None:
                raise ValueError(
                    "alpha is divided by the number of rows, which where= and missing= leave open until they are read; give "
                    "lambdas, the penalty per row"
                )
            if np.ndim(self.alpha) > 0:
                raise ValueError("alpha must be one number, which all targets share; fit targets with penalties of their own one by one")
            alphas = [self.alpha] if self.alphas is None else self.alphas
            engine["lambda"] = option_text([float(alpha) / rows for alpha in alphas]) or ""
        return engine

    def _set_model(self, model: Any, found: dict[str, Any]) -> None:
        super()._set_model(model, found)
        report = found["report"]
        weight = report.get("weight", report["rows"])
        self.alpha_ = report["lambda"] * weight
        cells = report["surface"]
        self.surface_ = {
            "rank": np.array([cell["rank"] for cell in cells]),
            "lambda": np.array([cell["lambda"] for cell in cells]),
            "alpha": np.array([cell["lambda"] * weight for cell in cells]),
            "cv_mse": np.array([np.nan if cell["cv_mse"] is None else cell["cv_mse"] for cell in cells]),
            "gcv": np.array([np.nan if cell["gcv"] is None else cell["gcv"] for cell in cells]),
        }


@estimator("ridge", first=("alpha",), own=(_ALPHA, _ALPHAS), without=("task", "select", "weights"),
           fixed={"task": "regression"})
class KernelRidge(_Ridge, Regressor):
    """Kernel ridge regression, with ranks and penalties compared in one pass over the rows.

    It minimises ``sum (y - f(x))^2 + alpha |f|^2`` over functions in the span of the landmarks. In the place of
    ``make_pipeline(Nystroem(...), Ridge(...))``.

    Notes
    -----
    Unlike ``sklearn.kernel_ridge.KernelRidge`` the kernel is rbf unless it is named, and the constant is free:
    ``intercept='none'`` leaves it out. There is no ``dual_coef_``, which would have a number for each row: the model has
    coefficients of its landmarks only.

    References
    ----------
    Rudi, Camoriano, Rosasco, "Less is more: Nystroem computational regularization", NeurIPS 2015.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelRidge
    >>> X = np.linspace(0, 6, 500).reshape(-1, 1)
    >>> model = KernelRidge(alpha=1e-3, gamma=1.0, rank=50).fit(X, np.sin(X).ravel())
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 1e-3)
    True
    """

    _multi_output = True

    @document
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the target of rows.

        Parameters
        ----------
        return_std : bool, default=False
            Also return standard deviations of new observations; the estimator needs ``std=True``.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            The predictions; with ``return_std`` a pair of arrays.
        """
        if not return_std:
            return super().predict(X)
        mean, deviation = self._extra(X, "std")
        return (mean.ravel(), deviation.ravel()) if self._single_target else (mean, deviation)


@estimator("ridge", first=("alpha",), own=(_ALPHA, _ALPHAS), without=("task", "std", "weights"),
           fixed={"task": "classification"})
class KernelRidgeClassifier(_Ridge, Classifier):
    """Classes by kernel ridge regression on codes of 1 and -1, one class against the rest.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import KernelRidgeClassifier
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> bool(KernelRidgeClassifier(alpha=0.1, gamma=2.0, rank=50).fit(X, y).score(X, y) > 0.98)
    True
    """


class _Losses(Weighted):
    """Solvers that minimise ``|w|^2 / 2 + C sum loss``.

    Attributes
    ----------
    lambda_ : float
        The regularisation parameter per row: 1 / (2 n_samples C).
    """


@estimator("svm", first=("C",), without=("weights",), C=1.0, gamma="scale", coef0=0.0)
class SVC(Probabilities, SupportVectors, _Losses, Classifier):
    """Support vector machine for classes, on landmarks, or with ``map="exact"`` of the kernel itself.

    It minimises ``|w|^2 / 2 + C sum loss``, one class against the rest, or with ``pairs=True`` every class against every other.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import SVC
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> bool(SVC(C=10.0, gamma=2.0, rank=50).fit(X, y).score(X, y) > 0.98)
    True
    """

    _kernel_of_arrays = True


@estimator("logistic", first=("C",), without=("weights",), C=1.0)
class KernelLogisticRegression(Probabilities, _Losses, Classifier):
    """Kernel logistic regression: probabilities of two or more classes.

    It minimises ``|w|^2 / 2 + C sum log-loss``.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import KernelLogisticRegression
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = KernelLogisticRegression(C=10.0, gamma=2.0, rank=50).fit(X, y)
    >>> model.predict_proba(X).shape
    (300, 2)
    """


@estimator("perceptron")
class Perceptron(Classifier):
    """The kernel perceptron, averaged over the rows it has seen.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import Perceptron
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> bool(Perceptron(gamma=2.0, rank=50).fit(X, y).score(X, y) > 0.98)
    True
    """


@estimator("online", without=("std",))
class OnlineRegressor(Regressor):
    """Regression row by row, in the order of the rows: each is predicted before it is learned.

    With ``rule="rls"``, recursive least squares, the coefficients end at those of ridge regression; ``forgetting`` lets rows of the past
    fade. ``rule="lms"`` is least mean squares.

    Attributes
    ----------
    lambda_ : float
        The penalty per row.
    report_ : dict
        The report of the fit: its figures have the running mse of each pass.

    References
    ----------
    Widrow, Hoff, "Adaptive switching circuits", 1960; Haykin, "Adaptive filter theory".

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import OnlineRegressor
    >>> X = np.linspace(0, 6, 500).reshape(-1, 1)
    >>> model = OnlineRegressor(gamma=1.0, rank=30).fit(X, np.sin(X).ravel())
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 1e-2)
    True
    """

    _multi_output = True

    def _solver_options(self, rows: int | None) -> dict[str, str]:
        engine: dict[str, str] = super()._solver_options(rows)
        # what it takes to go on learning
        return engine if engine.get("rule") == "lms" else {**engine, "std": "true"}

    @document
    def partial_fit(self, X: Any, y: Any) -> Any:
        """Continue learning by recursive least squares: each row is predicted, and then learned.

        The first call is :meth:`fit`, so its rows should be like those that follow: they determine
        the scaling and the landmarks.

        Returns
        -------
        self
            With ``running_mse_``, the mean squared error of the rows before they were learned.
        """
        if not hasattr(self, "model_"):
            self.fit(X, y)
            self.running_mse_ = figures_of(self.report_)["running mse of each pass"][0]
            return self
        more: list[tuple[str, Any]] = []
        check_storage(y, "y")
        X = X if self._reads_by_name(X) else self._check_rows(X)
        count = len(y) if is_stream(X) else X.shape[0]
        targets = self._targets(y, count, self._columns(), more)
        request = json.dumps({"rows": {"targets": targets}, "run": self._run()})
        forgetting = 1.0 if self.forgetting is None else float(self.forgetting)
        self.model_, _, self.running_mse_ = self.model_.learn(self._table(X, more), request, forgetting)
        return self


@estimator("ranking")
class KernelRanker(Ranker):
    """The order of rows in groups, learned from grades: RankSVM, and with ``loss="logistic"`` RankNet's loss, on kernel features.

    It minimises the mean loss of the pairs of rows of a group with different grades, plus ``lambdas |w|^2``. Scores are compared within a
    group, and mean nothing by themselves.

    Attributes
    ----------
    lambda_ : float
        The penalty per pair.
    report_ : dict
        The report of the fit: its figures have the share of the pairs in the wrong order.

    References
    ----------
    Joachims, "Optimizing search engines using clickthrough data", 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelRanker
    >>> X = np.linspace(0, 6, 600).reshape(-1, 1)
    >>> query = np.arange(600) % 30
    >>> grade = np.round(2 * np.sin(X).ravel()) + query
    >>> bool(KernelRanker(gamma=1.0, rank=30).fit(X, grade, group=query).score(X, grade, group=query) > 0.98)
    True
    """


@estimator("fisher")
class KernelFisher(Coordinates, Classifier):
    """Kernel Fisher discriminants: classes by the nearest mean within the scatter of classes.

    ``transform`` gives the coordinates along the discriminants, of which there is one less than there are classes.

    Attributes
    ----------
    lambda_ : float
        The penalty on the scatter within classes.

    References
    ----------
    Mika, Raetsch, Weston, Schoelkopf, Mueller, "Fisher discriminant analysis with kernels", 1999.

    Examples
    --------
    >>> from sklearn.datasets import make_moons
    >>> from kmill import KernelFisher
    >>> X, y = make_moons(300, noise=0.1, random_state=0)
    >>> model = KernelFisher(gamma=2.0, rank=50).fit(X, y)
    >>> bool(model.score(X, y) > 0.98)
    True
    >>> model.transform(X).shape
    (300, 1)
    """

    n_components: Any

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        engine = super()._solver_options(rows)
        if self.n_components is None and hasattr(self, "classes_"):
            engine["components"] = str(len(self.classes_) - 1)
        return engine


@estimator("pls", without=("task", "ranks"), fixed={"task": "regression"})
class KernelPLS(Coordinates, Regressor):
    """Kernel partial least squares: regression on the components of greatest covariance with the target.

    ``transform`` gives the coordinates along the components. With a linear kernel and all rows as landmarks it is
    ``sklearn.cross_decomposition.PLSRegression(scale=False)``.

    References
    ----------
    Rosipal, Trejo, "Kernel partial least squares regression in reproducing kernel Hilbert space", 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelPLS
    >>> X = np.linspace(0, 6, 500).reshape(-1, 1)
    >>> model = KernelPLS(n_components=8, gamma=1.0, rank=50).fit(X, np.sin(X).ravel())
    >>> bool(model.score(X, np.sin(X).ravel()) > 0.999), model.transform(X).shape
    (True, (500, 8))
    """

    _multi_output = True


# of a target in its own units most of the loss stays, and a gap of 1e-3 of it is some percent of the target's deviation: 1e-6 is as near to the
# optimum as scikit-learn's default, and takes at most three times as long
@estimator("svr", first=("C",), without=("weights",), C=1.0, gamma="scale", coef0=0.0, tol=1e-6)
class SVR(SupportVectors, _Losses, Regressor):
    """Support vector regression: errors up to ``epsilon`` cost nothing.

    It minimises ``|w|^2 / 2 + C sum loss``.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import SVR
    >>> X = np.linspace(0, 6, 500).reshape(-1, 1)
    >>> model = SVR(C=10.0, epsilon=0.01, gamma=1.0, rank=50).fit(X, np.sin(X).ravel())
    >>> bool(abs(model.predict([[1.5]])[0] - np.sin(1.5)) < 0.05)
    True
    """

    _kernel_of_arrays = True
