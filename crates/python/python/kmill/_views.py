"""Estimators that compute components of two views: two sets of columns of the same rows."""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import Any

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from . import _kmill
from ._base import KernelEstimator
from ._docs import document
from ._parameters import estimator
from ._rows import check_numeric, check_storage, has_names, unused_name


class TwoViews(ClassNamePrefixFeaturesOutMixin, TransformerMixin, KernelEstimator):
    """Estimators for two views: two arrays with the same rows."""

    _target = "numbers"

    @document
    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model on two views of the same rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The first view.
        y : array of shape (n_samples,) or (n_samples, n_targets)
            The second view.
        """
        self._reset_fit()
        check_storage(X, "X")
        check_storage(y, "y")
        check_numeric(X)
        self._is_table = has_names(X)
        options = {"dtype": [np.float64, np.float32], "order": "C", "ensure_min_samples": 2, "y_numeric": True}
        X, y = validate_data(self, X, y, multi_output=True, **options)
        second = np.asarray(y, dtype=np.float64).reshape(len(X), -1)
        names = [f"x{j}" for j in range(X.shape[1])]
        others = [unused_name(f"y{j}", names) for j in range(second.shape[1])]
        self._view_columns = list(range(X.shape[1])), list(range(X.shape[1], X.shape[1] + second.shape[1]))
        more: list[tuple[str, Any]] = []
        folds = self._folds(X, y, names + others, more, (X, None, None))
        table = _kmill.Table.from_array(np.ascontiguousarray(np.hstack([X, second])), names + others, more)
        self._fit_table(table, {"targets": []}, self._run(), {"with": ",".join(others), **folds})
        return self

    def fit_transform(self, X: Any, y: Any) -> Any:
        """Fit the model on two views, and return the coordinates of the first view."""
        return self.fit(X, y).transform(X)

    def transform(self, X: Any, y: Any = None) -> Any:
        """Compute the coordinates of rows.

        Parameters
        ----------
        X : array of shape (n_samples, n_features)
            The first view.
        y : array of shape (n_samples,) or (n_samples, n_targets), optional
            The second view of the same rows.

        Returns
        -------
        array of shape (n_samples, n_components), or a pair of them
            The coordinates of the first view; if ``y`` is given, a pair of the coordinates of each view.
        """
        check_is_fitted(self, "model_")
        X = self._check_rows(X)
        # the coordinates of a view do not depend on the other view, which may be 0
        first, second = self._view_columns
        rows = np.zeros((len(X), len(first) + len(second)))
        rows[:, first] = X
        if y is not None:
            rows[:, second] = np.asarray(y, dtype=np.float64).reshape(len(X), len(second))
        both = self.model_.predict(rows)
        q = both.shape[1] // 2
        return both[:, :q] if y is None else (both[:, :q], both[:, q:])

    def _after_files(self, card: dict[str, Any]) -> None:
        """Assigns the columns of a loaded model to the two views."""
        names, option = card["features"], card["options"]["solver_options"]["with"]
        patterns = option.split(",") if isinstance(option, str) else option
        second = [j for j, name in enumerate(names) if any(fnmatchcase(name, pattern) for pattern in patterns)]
        first = [j for j in range(len(names)) if j not in second]
        self._view_columns = first, second
        self.feature_names_in_, self.n_features_in_ = np.array([names[j] for j in first], dtype=object), len(first)

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.outputs) // 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = False
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = False
        return tags


@estimator("cca", without=("with", "landmarks", "missing", "categories", "times", "text"), lambdas=1e-3)
class KernelCCA(TwoViews):
    """Kernel canonical correlation analysis: the directions of largest correlation between two views of the same rows.

    Attributes
    ----------
    lambda_ : float
        The regularisation parameter, which penalises the norm of the directions; several ``lambdas``
        are cross-validated on the folds of ``cv``.
    report_ : dict
        The report of the fit; its figures include the correlations, with folds also those on the
        validation rows.

    Notes
    -----
    With many features, any two views are perfectly correlated on the training rows. Regularisation is therefore required, and only the
    correlations on other rows are meaningful.

    References
    ----------
    Bach, Jordan, "Kernel independent component analysis", 2002.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelCCA
    >>> t = np.random.default_rng(0).uniform(0, 6, size=500)
    >>> X, Y = np.column_stack([np.cos(t), np.sin(t)]), t.reshape(-1, 1)
    >>> a, b = KernelCCA(n_components=1, gamma=1.0, rank=50).fit(X, Y).transform(X, Y)
    >>> bool(np.corrcoef(a.ravel(), b.ravel())[0, 1] > 0.99)
    True
    """


@estimator("covariance", without=("with", "landmarks", "missing", "categories", "times", "text"))
class KernelPLSSVD(TwoViews):
    """Maximal covariance analysis: the directions of largest covariance between two views of the same rows.

    With linear kernels it equals ``sklearn.cross_decomposition.PLSSVD(scale=False)``; it needs no regularisation.

    Attributes
    ----------
    report_ : dict
        The report of the fit; its figures include the covariances.

    References
    ----------
    Shawe-Taylor, Cristianini, "Kernel Methods for Pattern Analysis", section 6.5, 2004.

    Examples
    --------
    >>> import numpy as np
    >>> from kmill import KernelPLSSVD
    >>> t = np.random.default_rng(0).uniform(0, 6, size=500)
    >>> X, Y = np.column_stack([np.cos(t), np.sin(t)]), t.reshape(-1, 1)
    >>> KernelPLSSVD(n_components=1, gamma=1.0, rank=50).fit(X, Y).transform(X).shape
    (500, 1)
    """
