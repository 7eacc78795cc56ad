"""The bases of regressors, classifiers, rankers, transformers, outlier detectors and clusterers."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import (
    ClassifierMixin,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    OutlierMixin,
    RegressorMixin,
    TransformerMixin,
)
from sklearn.utils.metaestimators import available_if
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_consistent_length, check_is_fitted, column_or_1d

from ._base import KernelEstimator
from ._docs import document
from ._rows import unused_name


class Linear:
    """What a model with ``kernel="linear"`` is: ``X @ coef_.T + intercept_``."""

    model_: Any
    _coordinates: Any

    def _linear(self) -> Any:
        check_is_fitted(self, "model_")
        found = None if self._coordinates is not None else self.model_.linear()
        if found is None:
            raise AttributeError("coef_ and intercept_ are those of kernel='linear' on dense columns of numbers, without a metric and scaled by none, "
                                 "standard, minmax or robust")
        return found

    @property
    def coef_(self) -> Any:
        """The weights of the columns, one row for each output, of a model with ``kernel="linear"``."""
        return np.ascontiguousarray(self._linear()[0].T)

    @property
    def intercept_(self) -> Any:
        """The constant of each output, of a model with ``kernel="linear"``."""
        return self._linear()[1]


class Supervised(KernelEstimator):
    """Estimators that learn from rows and a target."""

    @document
    def fit(self, X: Any, y: Any) -> Any:
        """Learn from rows."""
        return self._fit_rows(X, y)


class Weighted(Supervised):
    """Estimators that learn from rows and a target, with a weight for each row."""

    @document
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Learn from rows."""
        return self._fit_rows(X, y, sample_weight)


class Regressor(RegressorMixin, Linear, Supervised):
    """Estimators that predict numbers, one or several for each row."""

    _target = "numbers"
    _multi_output = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self._multi_output
        return tags

    def _targets(self, y: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> list[str]:
        self._single_target = True
        if isinstance(y, str):
            return [y]
        y = np.asarray(y, dtype=np.float64)
        if y.ndim == 2 and y.shape[1] == 1 or not self._multi_output:
            y = column_or_1d(y, warn=True)
        check_consistent_length(np.empty(count), y)
        self._single_target = y.ndim == 1
        columns = [("y", y)] if self._single_target else [(f"y{j}", y[:, j]) for j in range(y.shape[1])]
        named = [(unused_name(name, names), np.ascontiguousarray(column)) for name, column in columns]
        more.extend(named)
        return [name for name, _ in named]

    def _after_files(self, card: dict[str, Any]) -> None:
        self._single_target = len(card["targets"]) == 1

    @document
    def predict(self, X: Any) -> Any:
        """Predict the target of rows.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_targets)
            The predictions.
        """
        scores = self._scores(X)
        return scores.ravel() if self._single_target else scores


class Classifier(ClassifierMixin, Linear, Supervised):
    """Estimators that predict labels: integers, truth values or text, one for each row.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The classes.
    """

    _target = "classes"

    def _targets(self, y: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> list[str]:
        if isinstance(y, str):
            return [y]
        check_classification_targets(y)
        y = column_or_1d(y, warn=True)
        check_consistent_length(np.empty(count), y)
        self.classes_, codes = np.unique(y, return_inverse=True)
        if len(self.classes_) < 2:
            raise ValueError(f"{type(self).__name__} needs at least two classes; y has {len(self.classes_)} class")
        name = unused_name("y", names)
        more.append((name, _labels(y, self.classes_, codes)))
        return [name]

    def _class_label(self, label: Any) -> str:
        known = getattr(self, "classes_", None)
        if known is not None and np.any(known == label):
            label = _labels(known, known, np.arange(len(known)))[np.flatnonzero(known == label)[0]]
        return str(label).lower() if isinstance(label, (bool, np.bool_)) else str(label)

    def _after_files(self, card: dict[str, Any]) -> None:
        if not hasattr(self, "classes_"):
            self.classes_ = np.array([next(iter(label.values())) if isinstance(label, dict) else label
                                      for label in card["classes"]])

    @document
    def decision_function(self, X: Any) -> Any:
        """Scores of the classes.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            Of two classes the score of the second, positive where it is predicted.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @document
    def predict(self, X: Any) -> Any:
        """Predict the class of rows.

        Returns
        -------
        array of shape (n_samples,)
            The classes.
        """
        scores = self._require_scores(self._scores(X))
        return self.classes_[self.model_.decide(scores)]


class Probabilities:
    """Probabilities of the classes, always or with ``probability=True``."""

    model_: Any
    _scores: Any

    @available_if(lambda self: getattr(self, "probability", True))
    @document
    def predict_proba(self, X: Any) -> Any:
        """Compute the probabilities of the classes.

        ``SVC`` needs ``probability=True`` for it.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The probabilities, in the order of ``classes_``.
        """
        scores = self._scores(X)
        lacking = np.isnan(scores).any(axis=1)
        probabilities = self.model_.probabilities(np.where(lacking[:, None], 0.0, scores))
        probabilities[lacking] = np.nan
        return probabilities

    @available_if(lambda self: getattr(self, "probability", True))
    @document
    def predict_log_proba(self, X: Any) -> Any:
        """Compute the logarithms of the probabilities of the classes.

        ``SVC`` needs ``probability=True`` for it.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The logarithms, in the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))


class Ranker(Supervised):
    """Estimators that learn from grades, by which the rows of a group are ordered."""

    _target = "numbers"
    _multi_output = False
    _targets = Regressor._targets
    _after_files = Regressor._after_files

    @document
    def fit(self, X: Any, y: Any, group: Any = None) -> Any:
        """Learn from rows.

        Parameters
        ----------
        y : array of shape (n_samples,)
            The grade of each row, the larger the earlier it comes; of a stream also the name of its column.
        group : array of shape (n_samples,), optional
            The group of each row, in any order; of a stream also the name of its column. Without it all rows are one group.
        """
        return self._fit_rows(X, y, group=group)

    @document
    def predict(self, X: Any) -> Any:
        """Score rows: within a group the row of the larger score comes first.

        Returns
        -------
        array of shape (n_samples,)
            The scores.
        """
        return self._scores(X).ravel()

    def score(self, X: Any, y: Any, group: Any = None) -> float:
        """Compute the fraction of pairs in the right order: pairs of rows of a group with unlike grades.

        Parameters
        ----------
        X, y, group : arrays
            As in ``fit``.

        Returns
        -------
        float
            1 for the best order, about 0.5 for a random one. A pair with equal scores counts half.
        """
        scores, y = self.predict(X), column_or_1d(y)
        group = np.zeros(len(y)) if group is None else column_or_1d(group)
        check_consistent_length(scores, y, group)
        right = pairs = 0.0
        for one in np.unique(group):
            of, grades = scores[group == one], y[group == one]
            for grade in np.unique(grades):
                better, worse = of[grades == grade], np.sort(of[grades < grade])
                below, least = np.searchsorted(worse, better, side="left"), np.searchsorted(worse, better, side="right")
                right, pairs = right + 0.5 * float(np.sum(below + least)), pairs + len(better) * len(worse)
        if pairs == 0.0:
            raise ValueError("no two rows of a group have different grades: there is no order to score")
        return right / pairs


def _labels(y: Any, classes: Any, codes: Any) -> Any:
    """Labels as the model file holds them; those that it has no type for as their positions."""
    if y.dtype.kind == "b":
        return np.ascontiguousarray(y, dtype=bool)
    if y.dtype.kind in "iu" and classes.max() <= np.iinfo(np.int64).max:
        return np.ascontiguousarray(y, dtype=np.int64)
    if y.dtype.kind in "UO" and all(isinstance(label, str) for label in classes):
        return [str(label) for label in y]
    return np.ascontiguousarray(codes.ravel(), dtype=np.int64)


class WithoutTarget(KernelEstimator):
    """Estimators that learn from rows alone."""

    @document
    def fit(self, X: Any, y: Any = None) -> Any:
        """Learn from rows.

        Parameters
        ----------
        y : ignored
        """
        return self._fit_rows(X, y)


class WeightedRows(WithoutTarget):
    """Estimators that learn from rows alone, with a weight for each row."""

    @document
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Learn from rows.

        Parameters
        ----------
        y : ignored
        """
        return self._fit_rows(X, y, sample_weight)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WithoutTarget):
    """Estimators that compute features of rows."""

    @document
    def transform(self, X: Any) -> Any:
        """Compute the features of rows.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            The features.
        """
        return self._scores(X)

    @property
    def _n_features_out(self) -> int:
        return self.model_.outputs


class Coordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Coordinates that a model has beside its predictions."""

    model_: Any
    _extra: Any

    @document
    def transform(self, X: Any) -> Any:
        """Compute the coordinates of rows along the components.

        Returns
        -------
        array of shape (n_samples, n_components)
            The coordinates.
        """
        return self._extra(X, "components")[1]

    @property
    def _n_features_out(self) -> int:
        return int(self.model_.components)


class Novelty(OutlierMixin, WithoutTarget):
    """Estimators that detect outliers: rows unlike those of the fit.

    Attributes
    ----------
    offset_ : float
        0: ``score_samples`` and ``decision_function`` are the same.
    """

    offset_ = 0.0

    @document
    def decision_function(self, X: Any) -> Any:
        """Scores of rows, negative for novel ones.

        Returns
        -------
        array of shape (n_samples,)
            The scores.
        """
        return self._scores(X).ravel()

    def score_samples(self, X: Any) -> Any:
        """The scores of :meth:`decision_function` plus ``offset_``, which is 0."""
        return self.decision_function(X)

    @document
    def predict(self, X: Any) -> Any:
        """Predict which rows are outliers.

        Returns
        -------
        array of shape (n_samples,)
            -1 for an outlier, 1 for any other row.
        """
        return np.where(self._require_scores(self._scores(X)).ravel() < 0.0, -1, 1)


class Clusters(ClusterMixin, WithoutTarget):
    """Estimators that predict the cluster of each row.

    Attributes
    ----------
    labels_ : array of shape (n_samples,)
        The cluster of each row of the fit, if the rows were in memory.
    """

    def _after_rows(self, X: Any) -> None:
        self.labels_ = self.predict(X)

    @document
    def predict(self, X: Any) -> Any:
        """Predict the cluster of rows.

        Returns
        -------
        array of shape (n_samples,)
            The clusters, numbered from 0.
        """
        return np.argmax(self._require_scores(self._scores(X)), axis=1)


def landmarks_of(model: Any) -> tuple[Any, Any]:
    """The landmarks as the kernel sees them, of sparse rows a sparse array, and the numbers of their rows."""
    if model.sparse is None:
        found = model.landmarks()
    else:
        found = model.sparse_landmarks()
        if found is not None:
            *entries, rows = found
            found = csr_array(tuple(entries), shape=(len(rows), model.sparse)), rows
    if found is None:
        raise AttributeError("the model has weights of features and no landmarks or support vectors")
    return found[0], found[1].astype(np.int64)


class SupportVectors(Linear):
    """The support vectors of an SVM with ``map="exact"``.

    Its scores are ``K(X, support_vectors_) @ dual_coef_.T + intercept_``.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_ : array
        With ``map="exact"``: the row numbers of the support vectors, the support vectors as the
        kernel sees them, their dual coefficients (one row for each output), and the intercepts.
    """

    def _exact_model(self) -> Any:
        check_is_fitted(self, "model_")
        if self.map != "exact":
            raise AttributeError(f"a model on landmarks has no support vectors; fit {type(self).__name__} with map='exact'")
        return self.model_

    @property
    def support_(self) -> Any:
        """The rows that are support vectors."""
        return landmarks_of(self._exact_model())[1]

    @property
    def support_vectors_(self) -> Any:
        """The support vectors, scaled as the kernel sees them."""
        return landmarks_of(self._exact_model())[0]

    @property
    def dual_coef_(self) -> Any:
        """The coefficients of the support vectors, one row for each output."""
        return np.ascontiguousarray(self._exact_model().coefficients()[0].T)

    @property
    def intercept_(self) -> Any:
        """The constant of each output."""
        return self._exact_model().coefficients()[1] if self.map == "exact" else super().intercept_
