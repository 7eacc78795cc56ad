"""Regressors, classifiers and rankers: solvers of the engine, with scikit-learn's names and conventions."""

from __future__ import annotations

import json
import warnings
from typing import Any

import numpy as np
from sklearn.metrics import d2_tweedie_score, r2_score

from ._base import figures_of
from ._docs import document
from ._learners import Classifier, Coordinates, PredictionIntervals, Probabilities, Ranker, Regressor, SupportVectors, Weighted
from ._parameters import Parameter, as_list, estimator, option_text
from ._rows import check_storage, is_stream

_ALPHA = Parameter("alpha", 1.0, "float", "Regularisation parameter in scikit-learn's convention: the fit minimises the sum of squared errors "
                   "plus alpha |w|^2; lambda = alpha / n_samples.")
_ALPHAS = Parameter("alphas", None, "Sequence[float] | None", "Regularisation parameters to cross-validate, instead of alpha. None uses alpha.")


class _Ridge(Weighted):
    """The regularisation parameters of ridge regression in scikit-learn's convention.

    Attributes
    ----------
    alpha_, lambda_ : float
        The selected regularisation parameter, in scikit-learn's convention and per row:
        alpha = lambda * n_samples.
    surface_ : dict of arrays
        Rank, alpha, lambda, cross-validated mean squared error (cv_mse) and generalised
        cross-validation score (gcv) of each combination that was compared.
    """

    alpha: Any
    alphas: Any

    def _solver_options(self, rows: int | None) -> dict[str, str]:
        engine: dict[str, str] = super()._solver_options(rows)
        if "lambda" not in engine:
            if rows is None:
                raise ValueError(
                    "alpha is divided by the number of rows, which is unknown before the fit with where= or missing=; set lambdas, the "
                    "regularisation parameter per row, instead"
                )
            if np.ndim(self.alpha) > 0:
                raise ValueError("alpha must be a single number for all targets; to use a different alpha for each target, fit the targets one "
                                 "by one")
            alphas = [self.alpha] if self.alphas is None else self.alphas
            engine["lambda"] = option_text([float(alpha) / rows for alpha in alphas]) or ""
        return engine

    def _set_model(self, model: Any, outcome: dict[str, Any]) -> None:
        super()._set_model(model, outcome)
        report = outcome["report"]
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
class KernelRidge(PredictionIntervals, _Ridge, Regressor):
    """Kernel ridge regression; one pass over the rows compares all ranks and regularisation parameters.

    It minimises ``sum (y - f(x))^2 + alpha |f|^2`` over functions f in the span of the kernel sections at the landmarks. It replaces
    ``make_pipeline(Nystroem(...), Ridge(...))``.

    Notes
    -----
    Differences from ``sklearn.kernel_ridge.KernelRidge``: the default kernel is rbf instead of linear, and the model has an unpenalised
    intercept (``intercept='none'`` removes it). There is no ``dual_coef_``, because the model has dual coefficients for its landmarks
    only, not for each row.

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
    >>> y = np.sin(X).ravel() + np.random.default_rng(0).normal(size=500)
    >>> model = KernelRidge(gamma=1.0, rank=50, interval=0.9).fit(X, y)
    >>> predictions, ends = model.predict_interval(X)
    >>> ends.shape, bool(0.85 < np.mean((ends[:, 0, 0] <= y) & (y <= ends[:, 1, 0])) < 0.95)
    ((500, 2, 1), True)
    """

    _multi_output = True

    @document
    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predict the target of rows.

        Parameters
        ----------
        return_std : bool, default=False
            Whether to also return the standard deviation of a new observation; requires ``std=True`` in the constructor.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            The predictions; if ``return_std`` is true, a pair of predictions and standard deviations.
        """
        if not return_std:
            return super().predict(X)
        mean, deviation = self._extra(X, "std")
        return (mean.ravel(), deviation.ravel()) if self._single_target else (mean, deviation)


@estimator("ridge", first=("alpha",), own=(_ALPHA, _ALPHAS), without=("task", "std", "interval", "weights"),
           fixed={"task": "classification"})
class KernelRidgeClassifier(_Ridge, Classifier):
    """Classification by kernel ridge regression on labels 1 and -1, one-vs-rest.

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
    """Support vector classification on landmarks, or with the exact kernel (``map="exact"``).

    It minimises ``|w|^2 / 2 + C sum loss``, one-vs-rest, or one-vs-one with ``multiclass="one-vs-one"``.

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
    """Kernel logistic regression for two or more classes, with probabilities.

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


@estimator("glm", without=("weights",))
class KernelGLM(Weighted, Regressor):
    """Regression of counts and positive numbers: Poisson, Gamma or Tweedie distribution with a logarithmic link.

    It minimises half the mean deviance plus ``lambdas |w|^2``; alpha of scikit-learn's ``PoissonRegressor``, ``GammaRegressor`` and
    ``TweedieRegressor`` is 2 lambda. By default validation rows choose one of four values.

    Notes
    -----
    ``exposure`` names a column of files. For an array of exposures e, fit ``y / e`` with ``sample_weight=e ** (2 - power)``: power is 1 for
    family poisson and 2 for gamma.

    Attributes
    ----------
    lambda_ : float
        The regularisation parameter per row.

    References
    ----------
    McCullagh, Nelder, "Generalized linear models", 1989.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelGLM
    >>> X = np.linspace(0, 6, 1000).reshape(-1, 1)
    >>> y = np.random.default_rng(0).poisson(np.exp(1 + np.sin(X).ravel()))
    >>> model = KernelGLM(gamma=1.0, rank=30).fit(X, y)
    >>> bool(abs(model.predict([[1.5]])[0] - np.exp(1 + np.sin(1.5))) < 0.8)
    True
    """

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.positive_only = True
        return tags

    @document
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the explained fraction of the deviance, D².

        Returns
        -------
        float
            1 for perfect predictions, 0 for the mean of the target.
        """
        tweedie = 1.5 if self.power is None else self.power
        power = {"poisson": 1.0, "gamma": 2.0}.get(self.family, tweedie)
        return float(d2_tweedie_score(y, self.predict(X), sample_weight=sample_weight, power=power))


@estimator("perceptron")
class Perceptron(Classifier):
    """The averaged kernel perceptron.

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
    """Online regression: each row is predicted, then used for an update, in the order of the rows.

    ``rule="rls"`` is recursive least squares, whose final weights are those of ridge regression; ``forgetting`` discounts earlier rows.
    ``rule="lms"`` is least mean squares.

    Attributes
    ----------
    lambda_ : float
        The regularisation parameter per row.
    report_ : dict
        The report of the fit; its figures include the running mean squared error of each pass.
    growth_, growth_since_fit_ : dict
        After ``partial_fit``: its rows, and all rows since the fit, compared with the rows of the fit.

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
        # `std` stores the matrix that partial_fit updates
        return engine if engine.get("rule") == "lms" else {**engine, "std": "true"}

    @document
    def partial_fit(self, X: Any, y: Any) -> Any:
        """Update the model with new rows by recursive least squares; each row is predicted before its update.

        The first call is :meth:`fit`; its rows determine the scaling and the landmarks, so they should be
        representative of later rows.

        Returns
        -------
        self
            ``running_mse_`` is the mean squared error of the rows, each predicted before its update. ``growth_`` compares the rows with the
            rows of the first call: the fraction of the trace that the landmarks miss, the ranges that moved, unseen values, and a verdict;
            ``growth_since_fit_`` compares all rows since the first call.

        Warns
        -----
        UserWarning
            If the model has outgrown the rows of the first call: call :meth:`fit` on old and new rows.
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
        self.model_, self.running_mse_, growth, growth_since_fit = self.model_.learn(self._table(X, more), request, forgetting)
        self.growth_, self.growth_since_fit_ = json.loads(growth), json.loads(growth_since_fit)
        outgrown = [found for found in (self.growth_, self.growth_since_fit_) if found["verdict"] == "outgrown"]
        if outgrown:
            warnings.warn(outgrown[0]["sentence"], UserWarning, stacklevel=2)
        return self


@estimator("ranking")
class KernelRanker(Ranker):
    """Pairwise learning to rank within groups, from relevance grades: RankSVM, or RankNet's loss with ``loss="logistic"``.

    It minimises the mean loss over the pairs of rows of a group with different grades, plus ``lambdas |w|^2``. Only the order of the scores
    within a group is meaningful.

    Attributes
    ----------
    lambda_ : float
        The regularisation parameter per pair.
    report_ : dict
        The report of the fit; its figures include the fraction of wrongly ordered pairs.

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
    """Kernel Fisher discriminant analysis: classification by the nearest class mean along the discriminants.

    ``transform`` returns the coordinates along the discriminants; their number is at most the number of classes minus 1.

    Attributes
    ----------
    lambda_ : float
        The regularisation parameter, which is added to the within-class scatter.

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
    """Kernel partial least squares: regression on the components of largest covariance with the target.

    ``transform`` returns the coordinates along the components. With a linear kernel and all rows as landmarks, it equals
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


# the gap is relative to the loss, most of which remains at the optimum for a target in its own units: a gap of 1e-3 may be some percent of the
# target's standard deviation; 1e-6 is as close to the optimum as scikit-learn's default, and takes at most three times as long
@estimator("svr", first=("C",), without=("weights",), C=1.0, gamma="scale", coef0=0.0, tol=1e-6)
class SVR(PredictionIntervals, SupportVectors, _Losses, Regressor):
    """Support vector regression with the epsilon-insensitive loss: errors up to ``epsilon`` have no loss.

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


@estimator("quantile", first=("quantiles",), without=("weights",), tol=1e-4)
class KernelQuantileRegressor(PredictionIntervals, Weighted, Regressor):
    """Quantile regression; also expectiles (``loss="expectile"``) and robust means (``loss="huber"``).

    It minimises the mean loss plus ``lambdas |w|^2`` for each quantile, on common features. The pinball loss is multiplied by the standard
    deviation of the target, so that ``lambdas`` does not depend on its unit. By default validation rows choose one of four values
    for each quantile. The quantiles of a row are sorted, so they do not cross.

    Attributes
    ----------
    lambda_ : float or list of float
        The regularisation parameter per row; a list with the parameter of each quantile if validation rows chose different values.
        A loaded model has only a common value.

    References
    ----------
    Koenker, Bassett, "Regression quantiles", 1978; Chernozhukov, Fernandez-Val, Galichon, "Quantile and probability curves without
    crossing", 2010.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelQuantileRegressor
    >>> X = np.linspace(0, 6, 1000).reshape(-1, 1)
    >>> y = np.sin(X).ravel() + np.random.default_rng(0).normal(size=1000)
    >>> model = KernelQuantileRegressor([0.1, 0.9], gamma=1.0, rank=30).fit(X, y)
    >>> low, high = model.predict(X).T
    >>> bool(0.75 < np.mean((low <= y) & (y <= high)) < 0.85)
    True
    """

    @document
    def predict(self, X: Any) -> Any:
        """Predict the quantiles of rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_quantiles)
            The predictions, in ascending order of the quantiles; one dimension for a single quantile.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @document
    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Return the coefficient of determination of the quantile nearest to 0.5.

        Returns
        -------
        float
            1 for perfect predictions, 0 for the mean of the target.
        """
        levels = self.quantiles if self.quantiles is not None else 0.5
        levels = [float(level) for level in (levels.split(",") if isinstance(levels, str) else np.atleast_1d(as_list(levels)))]
        central = int(np.argmin(np.abs(np.sort(levels) - 0.5)))
        return float(r2_score(y, np.reshape(self._scores(X), (-1, len(levels)))[:, central], sample_weight=sample_weight))
