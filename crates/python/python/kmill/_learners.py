"""The bases of regressors, classifiers, rankers, transformers, outlier detectors and clusterers."""

from __future__ import annotations

from typing import Any, NamedTuple

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
from ._draw import draw_bars
from ._rows import unused_name


class Linear:
    """Weights and intercept of a model with ``kernel="linear"``: its outputs are ``X @ coef_.T + intercept_``."""

    model_: Any
    _coordinates: Any

    def _linear(self) -> Any:
        check_is_fitted(self, "model_")
        head = None if self._coordinates is not None else self.model_.linear()
        if head is None:
            raise AttributeError("the model has no coef_ and no intercept_, because it is not linear in the columns; they exist with "
                                 "kernel='linear' on dense numeric columns, without a metric, and with scale none, standard, minmax or robust")
        return head

    @property
    def coef_(self) -> Any:
        """The weights of the columns, one row for each output, if ``kernel="linear"``."""
        return np.ascontiguousarray(self._linear()[0].T)

    @property
    def intercept_(self) -> Any:
        """The intercept of each output, if ``kernel="linear"``."""
        return self._linear()[1]


class Explanation(NamedTuple):
    """The contributions of the columns to predictions, with the field names of ``shap.Explanation``.

    ``shap.Explanation(*explanation)`` converts it for the plots of the package ``shap``.

    Attributes
    ----------
    values : array of shape (n_samples, n_columns) or (n_samples, n_columns, n_targets)
        The Shapley value of each column for each prediction. For classes, the value for the score of the predicted class, and with two
        classes for the score of the second class.
    base_values : array of shape (n_samples,) or (n_samples, n_targets)
        The mean prediction of the background. With the contributions of a row, it sums to the output of the row.
    data : array of shape (n_samples, n_columns)
        The rows.
    feature_names : list of str
        The names of the columns.
    """

    values: Any
    base_values: Any
    data: Any
    feature_names: list[str]

    def plot(self, ax: Any = None, max_columns: int = 12) -> Any:
        """Draw the mean absolute contribution of each column, the largest on top; needs matplotlib.

        Parameters
        ----------
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. None creates a figure.
        max_columns : int, default=12
            Maximum number of columns.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        sizes = np.abs(self.values)
        return draw_bars(self.feature_names, sizes.mean(axis=(0, *range(2, sizes.ndim))), "mean absolute contribution", max_columns, ax)


class Supervised(KernelEstimator):
    """Estimators with a target."""

    @document
    def fit(self, X: Any, y: Any) -> Any:
        """Fit the model."""
        return self._fit_rows(X, y)

    @document
    def explain(self, X: Any, background: Any = None) -> Explanation:
        """Compute the contribution of each column to the prediction of each row: its Shapley value.

        The values are exact for kernels that are products over the columns, such as ``gaussian`` and ``laplacian``. For other kernels they
        are means over 128 random orders of the columns.

        Parameters
        ----------
        background : rows, optional
            The rows that contributions are relative to; 64 of them are drawn. The default are 64 landmarks of the model, or 64 rows of ``X``
            if it has none in the units of the table.

        Returns
        -------
        Explanation
            The contributions, as the package ``shap`` represents them.
        """
        outputs, values = self._extra(X, "contributions", background)
        names = self.model_.explained_columns
        values = np.reshape(values, (len(outputs), len(names) + 1, -1))
        values = values[:, :, 0] if values.shape[2] == 1 else values
        data = np.stack([np.asarray(X[name]) for name in names], axis=1) if hasattr(X, "columns") else np.asarray(X)
        return Explanation(np.ascontiguousarray(values[:, :-1]), np.ascontiguousarray(values[:, -1]), data, list(names))


class Weighted(Supervised):
    """Estimators with a target and row weights."""

    @document
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        """Fit the model."""
        return self._fit_rows(X, y, sample_weight)


class Regressor(RegressorMixin, Linear, Supervised):
    """Estimators that predict one or several numbers for each row."""

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
        targets = [("y", y)] if self._single_target else [(f"y{j}", y[:, j]) for j in range(y.shape[1])]
        columns = [(unused_name(name, names), np.ascontiguousarray(column)) for name, column in targets]
        more.extend(columns)
        return [name for name, _ in columns]

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
    """Estimators that predict a class label for each row: an integer, a boolean or text.

    Attributes
    ----------
    classes_ : array of shape (n_classes,)
        The class labels.
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
            raise ValueError(f"y has {len(self.classes_)} class, and {type(self).__name__} needs at least two classes")
        name = unused_name("y", names)
        more.append((name, _labels(y, self.classes_, codes)))
        return [name]

    def _class_label(self, label: Any) -> str:
        classes = getattr(self, "classes_", None)
        if classes is not None and np.any(classes == label):
            label = _labels(classes, classes, np.arange(len(classes)))[np.flatnonzero(classes == label)[0]]
        return str(label).lower() if isinstance(label, (bool, np.bool_)) else str(label)

    def _after_files(self, card: dict[str, Any]) -> None:
        if not hasattr(self, "classes_"):
            self.classes_ = np.array([next(iter(label.values())) if isinstance(label, dict) else label
                                      for label in card["classes"]])

    @document
    def decision_function(self, X: Any) -> Any:
        """Compute the scores of the classes.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            The scores. For two classes, the score of the second class, which is predicted if its score is positive.
        """
        scores = self._scores(X)
        return scores.ravel() if scores.shape[1] == 1 else scores

    @document
    def predict(self, X: Any) -> Any:
        """Predict the classes of rows.

        Returns
        -------
        array of shape (n_samples,)
            The predicted class labels.
        """
        scores = self._require_scores(self._scores(X))
        return self.classes_[self.model_.decide(scores)]


class PredictionIntervals:
    """Regressors with prediction intervals, if the constructor has ``interval``, such as ``interval=0.9``."""

    model_: Any
    _extra: Any
    _single_target: bool

    @document
    def predict_interval(self, X: Any) -> Any:
        """Predict intervals that contain the target of new rows with the requested probability.

        Returns
        -------
        pair of arrays
            The outputs of ``predict``, and the lower and the upper ends of the intervals, of shape (n_samples, 2, n_levels), as in MAPIE;
            with several targets of shape (n_samples, 2, n_levels, n_targets). Levels are in ascending order.
        """
        outputs, values = self._extra(X, "interval")
        levels = len(self.model_.interval_levels)
        ends = np.transpose(np.reshape(values, (len(values), levels, -1, 2)), (0, 3, 1, 2))
        outputs = outputs.ravel() if outputs.shape[1] == 1 else outputs
        return outputs, np.ascontiguousarray(ends[..., 0] if self._single_target else ends)


class Probabilities:
    """Class probabilities, which ``SVC`` has with ``probability=True`` only."""

    model_: Any
    classes_: Any
    _scores: Any
    _extra: Any
    _require_scores: Any

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
        incomplete = np.isnan(scores).any(axis=1)
        probabilities = self.model_.probabilities(np.where(incomplete[:, None], 0.0, scores))
        probabilities[incomplete] = np.nan
        return probabilities

    @available_if(lambda self: getattr(self, "probability", True))
    @document
    def predict_log_proba(self, X: Any) -> Any:
        """Compute the logarithms of the probabilities of the classes.

        ``SVC`` needs ``probability=True`` for it.

        Returns
        -------
        array of shape (n_samples, n_classes)
            The logarithms of the probabilities, in the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @available_if(lambda self: getattr(self, "probability", True))
    @document
    def predict_set(self, X: Any) -> Any:
        """Predict sets of classes that contain the class of new rows with the requested probability.

        It needs ``interval`` in the constructor, such as ``interval=0.9``.

        Returns
        -------
        pair of arrays
            The predicted classes, and the sets, of shape (n_samples, n_classes, n_levels), as in MAPIE: true if the set contains the class.
            Levels are in ascending order.
        """
        scores, values = self._extra(X, "interval")
        levels = len(self.model_.interval_levels)
        sets = np.reshape(values, (len(values), levels, -1)).transpose(0, 2, 1) != 0.0
        return self.classes_[self.model_.decide(self._require_scores(scores))], np.ascontiguousarray(sets)


class Ranker(Supervised):
    """Estimators that learn to order the rows within groups, from relevance grades."""

    _target = "numbers"
    _multi_output = False
    _targets = Regressor._targets
    _after_files = Regressor._after_files

    @document
    def fit(self, X: Any, y: Any, group: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        y : array of shape (n_samples,), or str
            The relevance grade of each row; rows with larger grades rank first. For a stream it may be the name of a column.
        group : array of shape (n_samples,), or str, optional
            The group (query) of each row, in any order. For a stream it may be the name of a column. None puts all rows into one group.
        """
        return self._fit_rows(X, y, group=group)

    @document
    def predict(self, X: Any) -> Any:
        """Compute the scores of rows; within a group, rows with larger scores rank first.

        Returns
        -------
        array of shape (n_samples,)
            The scores.
        """
        return self._scores(X).ravel()

    def score(self, X: Any, y: Any, group: Any = None) -> float:
        """Compute the fraction of correctly ordered pairs, among the pairs of rows of a group with different grades.

        Parameters
        ----------
        X, y, group : arrays
            As in ``fit``.

        Returns
        -------
        float
            The fraction: 1 for a perfect order, about 0.5 for a random order. A pair with equal scores counts one half.
        """
        scores, y = self.predict(X), column_or_1d(y)
        group = np.zeros(len(y)) if group is None else column_or_1d(group)
        check_consistent_length(scores, y, group)
        correct = pairs = 0.0
        for query in np.unique(group):
            group_scores, grades = scores[group == query], y[group == query]
            for grade in np.unique(grades):
                better, worse = group_scores[grades == grade], np.sort(group_scores[grades < grade])
                below, up_to = np.searchsorted(worse, better, side="left"), np.searchsorted(worse, better, side="right")
                correct, pairs = correct + 0.5 * float(np.sum(below + up_to)), pairs + len(better) * len(worse)
        if pairs == 0.0:
            raise ValueError("no two rows of a group have different grades, so there is no order to score; pass groups with different grades")
        return correct / pairs


def _labels(y: Any, classes: Any, codes: Any) -> Any:
    """Returns labels in a type that model files support; labels of other types as their indices in ``classes``."""
    if y.dtype.kind == "b":
        return np.ascontiguousarray(y, dtype=bool)
    if y.dtype.kind in "iu" and classes.max() <= np.iinfo(np.int64).max:
        return np.ascontiguousarray(y, dtype=np.int64)
    if y.dtype.kind in "UO" and all(isinstance(label, str) for label in classes):
        return [str(label) for label in y]
    return np.ascontiguousarray(codes.ravel(), dtype=np.int64)


class WithoutTarget(KernelEstimator):
    """Estimators without a target."""

    @document
    def fit(self, X: Any, y: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        y : None
            Ignored; present for API consistency.
        """
        return self._fit_rows(X, y)


class WeightedRows(WithoutTarget):
    """Estimators without a target, with row weights."""

    @document
    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Any:
        """Fit the model.

        Parameters
        ----------
        y : None
            Ignored; present for API consistency.
        """
        return self._fit_rows(X, y, sample_weight)


class Transformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, WithoutTarget):
    """Estimators that compute new features for rows."""

    @document
    def transform(self, X: Any) -> Any:
        """Compute the new features of rows.

        Returns
        -------
        array of shape (n_samples, n_features_out)
            The new features.
        """
        return self._scores(X)

    @property
    def _n_features_out(self) -> int:
        return self.model_.outputs


class Coordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin):
    """Estimators that compute coordinates in addition to predictions."""

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
        The threshold of ``score_samples``: ``decision_function`` is ``score_samples`` minus ``offset_``.
    """

    def _set_attributes(self, source: dict[str, Any]) -> None:
        super()._set_attributes(source)
        # the intercept of the score
        self.offset_ = -float(self.model_.coefficients()[1][0])

    @document
    def decision_function(self, X: Any) -> Any:
        """Compute the scores of rows relative to the threshold; outliers have negative scores.

        Returns
        -------
        array of shape (n_samples,)
            The scores.
        """
        return self._scores(X).ravel()

    @document
    def score_samples(self, X: Any) -> Any:
        """Compute the scores of rows without a threshold; the higher, the more normal.

        For ``OneClassSVM`` it is the sum of kernel values times dual coefficients, which scikit-learn's is times n ``nu``. For
        ``KernelNovelty`` it is minus the squared distance from the mean of the rows of the fit, in feature space.

        Returns
        -------
        array of shape (n_samples,)
            The scores; their threshold is ``offset_``.
        """
        return self.decision_function(X) + self.offset_

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
        The cluster of each row of the fit; it exists only if the rows were in memory.
    """

    def _after_rows(self, X: Any) -> None:
        self.labels_ = self.predict(X)

    @document
    def predict(self, X: Any) -> Any:
        """Predict the cluster of rows.

        Returns
        -------
        array of shape (n_samples,)
            The cluster indices, from 0.
        """
        return np.argmax(self._require_scores(self._scores(X)), axis=1)


def landmarks_of(model: Any) -> tuple[Any, Any]:
    """Returns the landmarks after scaling (a sparse array for sparse rows), and their row indices."""
    if model.sparse is None:
        landmarks = model.landmarks()
    else:
        landmarks = model.sparse_landmarks()
        if landmarks is not None:
            *entries, rows = landmarks
            landmarks = csr_array(tuple(entries), shape=(len(rows), model.sparse)), rows
    if landmarks is None:
        raise AttributeError("the model has no landmarks and no support vectors, because its map has none; fit with map='nystrom' or 'exact'")
    return landmarks[0], landmarks[1].astype(np.int64)


class SupportVectors(Linear):
    """The support vectors of an exact SVM (``map="exact"``).

    The scores are ``K(X, support_vectors_) @ dual_coef_.T + intercept_``.

    Attributes
    ----------
    support_, support_vectors_, dual_coef_, intercept_ : array
        With ``map="exact"``: the row indices of the support vectors, the support vectors after
        scaling, their dual coefficients (one row for each output), and the intercepts.
    """

    def _exact_model(self) -> Any:
        check_is_fitted(self, "model_")
        if self.map != "exact":
            raise AttributeError(f"a model with a feature map has no support vectors; fit {type(self).__name__} with map='exact'")
        return self.model_

    @property
    def support_(self) -> Any:
        """The row indices of the support vectors."""
        return landmarks_of(self._exact_model())[1]

    @property
    def support_vectors_(self) -> Any:
        """The support vectors after scaling."""
        return landmarks_of(self._exact_model())[0]

    @property
    def dual_coef_(self) -> Any:
        """The dual coefficients of the support vectors, one row for each output."""
        return np.ascontiguousarray(self._exact_model().coefficients()[0].T)

    @property
    def intercept_(self) -> Any:
        """The intercept of each output."""
        return self._exact_model().coefficients()[1] if self.map == "exact" else super().intercept_
