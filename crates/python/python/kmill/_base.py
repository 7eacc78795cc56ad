"""The base of all estimators: it passes rows to the engine, stores the model, predicts, saves and pickles."""

from __future__ import annotations

import json
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from . import _cv, _kmill
from ._evaluate import Evaluation, with_labels
from ._html import Report, iframe
from ._job import JobParameters
from ._kernel import is_precomputed
from ._matrix import Coordinates, needs_coordinates, reject_feature_parameters
from ._parameters import check, check_arguments, option_text
from ._progress import Progress
from ._splits import choose
from ._rows import check_numeric, check_storage, has_names, is_stream, paths_of, stream_table, table_of, unused_name

_LOG = logging.getLogger("kmill")


def figures_of(report: dict[str, Any]) -> dict[str, Any]:
    """Returns the figures that a solver reports, by name."""
    return {figure["name"]: figure["values"] for figure in report.get("figures", [])}


def _row_indices(rows: Any) -> Any:
    """Returns row indices; a mask is converted to indices."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _nonempty(**values: Any) -> dict[str, Any]:
    """Returns the arguments whose values are not empty."""
    return {name: value for name, value in values.items() if value}


def _past_values(lags: dict[str, Any] | None, rolling: dict[str, Any] | None, by: str | Sequence[str] | None,
                 order: str | None, difference: dict[str, int] | None) -> dict[str, Any]:
    """Returns the description of lags and rolling means, as the command line writes their columns."""
    def rows_back(columns: dict[str, Any] | None) -> list[str]:
        return [f"{name}:{option_text(rows)}" for name, rows in (columns or {}).items()]
    if len(difference or {}) > 1:
        raise ValueError(f"difference names {len(difference or {})} columns; name the target, such as {{'count': 1}}")
    return _nonempty(lags=rows_back(lags), rolling=rows_back(rolling), by=[by] if isinstance(by, str) else list(by or []), order=order,
                     difference=next(iter(rows_back(difference)), None))


def _check_weights(weight: Any, X: Any) -> Any:
    """Returns the weights as float64, checked as scikit-learn does; None if all weights are 1."""
    if weight is None:
        return None
    weight = _check_sample_weight(weight, X if hasattr(X, "shape") else np.asarray(X), dtype=np.float64, ensure_non_negative=True)
    return None if np.all(weight == 1.0) else weight


# if two standard deviations differ by a larger ratio, an rbf kernel depends on the wider feature alone
_MAX_RATIO = 100.0
# number of rows from which standard deviations are estimated
_SPREAD_ROWS = 1000

_FOLDER = os.path.dirname(os.path.abspath(__file__))

# warnings that were already issued
_ISSUED: set[str] = set()


def _warn(text: str) -> None:
    """Issues a warning once per text, unless a filter requests every warning.

    Python's own registry of issued warnings is cleared whenever scikit-learn changes the filters, which it does in every fold.
    """
    text = text.replace("`no_clip` of the fit", "`clip=False`")
    action = next((entry[0] for entry in warnings.filters if issubclass(UserWarning, entry[2])), "default")
    if action != "default" or text not in _ISSUED:
        _ISSUED.add(text)
        warnings.warn(text, UserWarning, stacklevel=_caller_level())


def _caller_level() -> int:
    """Returns the stack level of the first frame outside this package, so that a warning names the line of the caller."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_FOLDER):
        frame, level = frame.f_back, level + 1
    return level


def _warn_of_spread(X: Any, name: str) -> None:
    """Warns if the standard deviations of unscaled features differ so much that the kernel ignores the narrow ones."""
    sample = X[:: max(1, len(X) // _SPREAD_ROWS)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = sample.std(axis=0)
    deviations = deviations[deviations > 0.0]
    if deviations.size and deviations.max() > _MAX_RATIO * deviations.min():
        _warn(f"{name}: the standard deviations of the features differ by more than a factor of {_MAX_RATIO:.0f}, so the kernel depends on "
              "the widest features only; set scale='standard'")


class KernelEstimator(JobParameters, BaseEstimator):
    """The base of all estimators; its subclasses name a solver.

    Attributes
    ----------
    kernel_ : str
        The kernel, with the parameters that the fit resolved.
    rank_ : int
        The rank of the model; the best one if several ranks were compared.
    trace_error_ : float or None
        The certificate: the exact relative trace-norm error of the approximation of the kernel
        matrix, measured on all rows. None without a certificate, as for random Fourier features.
    report_ : dict
        The report of the fit: seconds of each stage, warnings, memory, and the figures of the
        solver.
    n_features_in_ : int
        The number of columns in the fit.
    feature_names_in_ : array of shape (n_features_in_,)
        The names of these columns, if they have names as in a data frame.
    feature_importances_ : array of shape (n_features_in_,)
        The importance of each column, with sum 1; it exists if the model has a metric, or if the fit
        computed slopes (``importance=True``). With a metric M after scaling, it is the fraction of
        the column in the squared norm of M, which says how fast the kernel changes along the column
        and not how much the prediction depends on it. With ``importance=True``, it is the
        fraction in the sum of squared root mean square slopes of the prediction, per standard
        deviation of the column, which costs one more pass in the fit. Other models have :meth:`explain`, and
        ``sklearn.inspection.permutation_importance`` accepts all of them.
    cv_results_ : dict
        If the fit compared candidates on folds, their scores in the form of
        ``sklearn.model_selection.GridSearchCV``: ``params``, ``mean_test_score``,
        ``rank_test_score`` and, if the solver reports each fold, ``split0_test_score``, ... and
        ``std_test_score``. Scores are higher for better candidates. The mean is over the rows. There
        are no times of candidates, because one pass computes all.
    best_index_, best_params_, best_score_ : int, dict, float
        The chosen candidate of ``cv_results_``, its parameters and its mean score.
    scoring_ : str
        The name of the scores in ``cv_results_``, such as ``neg_mean_squared_error``.
    test_scores_ : Evaluation
        The scores on the test rows, if ``test`` was set.
    """

    _target: str | None = None  # "numbers" or "classes"; None without a target
    _kernel_of_arrays = False  # whether a callable kernel takes two arrays, as in sklearn.svm, instead of two rows
    _learn = staticmethod(_kmill.fit)
    _is_search = False  # whether `tune` runs the fit; it needs folds
    _has_categories = False  # whether the model has categorical columns
    _by_name = False  # whether the fit read a table from which the engine selected columns by name

    # -- fits

    def _fit_rows(self, X: Any, y: Any = None, sample_weight: Any = None, group: Any = None) -> Any:
        """Fits the estimator on an array, a data frame or a stream, and returns it."""
        sample_weight = _check_weights(sample_weight, X)
        more: list[tuple[str, Any]] = []
        original = X
        self._reset_fit()
        self._is_table = is_stream(X) or has_names(X)
        self._by_name = is_stream(X) and has_names(X)
        if is_stream(X):
            stream = stream_table(X, self._run().get("memory"))
            names, count = [name for name, _, _ in stream.columns], stream.rows
        else:
            check_storage(X, "X")
            check_storage(y, "y")
            check_numeric(X)
            numeric = {"y_numeric": True, "multi_output": True} if self._target == "numbers" else {}
            sparse = False if needs_coordinates(self.kernel) else "csr"
            options = {"dtype": [np.float64, np.float32], "order": "C", "ensure_min_samples": 2, "accept_sparse": sparse,
                       "ensure_all_finite": self._ensure_finite(), **numeric}
            if self._target is None:
                X = self._validate(X, **options)
            else:
                X, y = self._validate(X, y, **options)
            if self._ensure_finite() is True and not self._is_table and self.scale is None and not issparse(X) and not needs_coordinates(self.kernel):
                _warn_of_spread(X, type(self).__name__)
            names_in = getattr(self, "feature_names_in_", None)
            if needs_coordinates(self.kernel):
                reject_feature_parameters(self)
                self._coordinates = Coordinates(self, X, self._seed(), self._max_rank(X))
                X, names_in = self._coordinates.rows, None
            names = [f"x{j}" for j in range(X.shape[1])] if names_in is None else [str(name) for name in names_in]
            count = X.shape[0]
        options = {**self._weights(sample_weight, names, more), **self._folds(X, y, names, more, (original, sample_weight, group)),
                   **self._group(group, count, names, more)}
        if sample_weight is not None and not is_stream(X) and np.any(sample_weight == 0.0):
            # rows of weight 0 are removed: they must not become landmarks, nor add a class
            kept = np.flatnonzero(sample_weight)
            X, more, count = X[kept], [(name, np.asarray(column)[kept]) for name, column in more], len(kept)
            y = y if self._target is None or isinstance(y, str) else y[kept]
        targets = self._targets(y, count, names, more)
        if is_stream(X):
            table = stream.with_columns(more) if more else stream
        else:
            table = table_of(X, names, more)
        total = None if sample_weight is None else float(np.sum(sample_weight))
        self._fit_table(table, {"targets": targets, **self._row_options()}, self._run(), options, total)
        if is_stream(X):
            self._after_files(self._read_card())
        else:
            self._after_rows(original)
        return self

    def _after_rows(self, X: Any) -> None:
        """Hook for attributes that need the rows in memory and the fitted model."""

    def _targets(self, y: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> list[str]:
        """Adds the target columns to ``more``, and returns their names."""
        return []

    def _folds(self, X: Any, y: Any, names: list[str], more: list[tuple[str, Any]], rows: tuple[Any, ...]) -> dict[str, str]:
        """Returns the options that define the folds if ``cv`` is a splitter of scikit-learn.

        Splits that test each row once and train on all other rows, or on all earlier rows (ridge), become a fold column in ``more``.
        Other splits cost one fit per split, which this method runs to choose rank and regularisation parameter.
        """
        cv = getattr(self, "cv", None)
        if cv is None or isinstance(cv, (int, str)):
            return {}
        if is_stream(X):
            raise ValueError("cv is a splitter, but X is a stream; cv must be a number, or text such as 'blocks:6'")
        try:
            splits = [tuple(map(_row_indices, split)) for split in check_cv(cv, y).split(X, y, rows[2])]
        except ValueError as error:
            if "groups" not in str(error):
                raise
            raise ValueError(f"cv={cv!r} needs groups, which fit does not accept; pass its splits, cv=list(splitter.split(X, y, groups))") from None
        folds, overlap = np.full(X.shape[0], -1, dtype=np.int64), False
        for number, (_, test) in enumerate(splits):
            overlap |= bool(np.any(folds[test] >= 0))
            folds[test] = number

        def trains_on(selected: Any) -> bool:
            return not overlap and all(np.array_equal(np.sort(train), np.flatnonzero(selected(number))) for number, (train, _) in enumerate(splits))

        name = unused_name("fold", names)
        if np.all(folds >= 0) and trains_on(lambda number: folds != number):
            more.append((name, folds))
            return {"folds": f"column:{name}"}
        if self._solver == "ridge" and trains_on(lambda number: folds < number):
            # rows before the first test fold get fold 0
            more.append((name, folds + 1))
            return {"folds": f"forward:{len(splits)}:{name}"}
        if self._is_search:
            raise ValueError("the splits of cv are not folds, and tune compares on folds; cv must hold every row out once and train on all "
                             "other rows, or, for solver ridge or any, on all rows before a fold")
        return choose(self, y, splits, *rows)

    def _weights(self, weight: Any, names: list[str], more: list[tuple[str, Any]]) -> dict[str, str]:
        """Adds the weight column to ``more``, and returns the option that names it."""
        if weight is None:
            return {}
        name = unused_name("sample_weight", names)
        more.append((name, np.ascontiguousarray(weight, dtype=np.float64)))
        return {"weights": name}

    def _group(self, group: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> dict[str, str]:
        """Adds the group column to ``more``, and returns the option that names it."""
        if group is None or isinstance(group, str):
            return {} if group is None else {"group": group}
        group = column_or_1d(group)
        check_consistent_length(np.empty(count), group)
        name = unused_name("group", names)
        more.append((name, np.unique(group, return_inverse=True)[1].astype(np.int64)))
        return {"group": name}

    def _fit_table(self, table: Any, rows: dict[str, Any], run: dict[str, Any], options: dict[str, str],
                   total: float | None = None, test: float | str | None = None, **shared: Any) -> None:
        job, landmarks = self._job(table, rows, run, options, total)
        if test is not None:
            job["test"] = str(test)
        with Progress(self.verbose) as show:
            model, report = self._learn(json.dumps(job), table, landmarks, show, **shared)
        self._set_model(model, json.loads(report))

    def fit_files(
        self,
        paths: Any,
        target: str | Sequence[str] | None = None,
        *,
        features: Sequence[str] | None = None,
        where: str | None = None,
        rows: str | None = None,
        missing: str | None = None,
        categories: str | Sequence[str] | None = None,
        hash: int | None = None,
        times: str | None = None,
        text: str | Sequence[str] | None = None,
        types: dict[str, str] | None = None,
        missing_words: Sequence[str] | None = None,
        lags: dict[str, Any] | None = None,
        rolling: dict[str, Any] | None = None,
        by: str | Sequence[str] | None = None,
        order: str | None = None,
        difference: dict[str, int] | None = None,
        sample_weight: str | None = None,
        test: float | str | None = None,
        memory: int | str | None = None,
        scratch: Any = None,
        states: Any = None,
        patience: float = 90.0,
        engine: Any = None,
    ) -> Any:
        """Fit on files of any size: Parquet, Arrow, .npy, .csv, .svm.

        Parameters
        ----------
        paths : str, path or list of them
            Files, folders and glob patterns, which are read as one table in the order of their paths.
        target : str or list of str, optional
            The target column, or several numeric target columns.
        features : list of str, optional
            Names or patterns of the feature columns. None selects every column of numbers or text without another role.
        where : str, optional
            A condition on one column: ``"fold != 3"``.
        rows : str, optional
            A half-open range of stored rows: ``"..284217"``.
        missing, categories, times, text : optional
            As in the constructor, and they override its values.
        hash : int, optional
            Number of hashed features for each text column with more than 1,000 values. None uses target encoding instead, and leaves a
            column out if the fit has no target or if nearly every row has a different value.
        types : dict, optional
            Types of columns of text files by name, ``{"zip": "text", "day": "date"}``: text, number, or date, which also reads seconds
            since 1970. The types of other columns are inferred from the first rows.
        missing_words : list of str, optional
            Words that mean a missing value in .csv and .jsonl files, also in text columns.
        lags, rolling : dict, optional
            Past values as features, by column: ``lags={"count": [1, 24]}`` are the values 1 and 24 rows before a row, and
            ``rolling={"count": 24}`` is the mean of the 24 rows before it. The model computes them for new files too, and forecasts
            rows after the last target step by step.
        by : str or list of str, optional
            The columns that name the series of ``lags`` and ``rolling``. None means that the table is one series.
        order : str, optional
            A column of times or numbers that increases within each series.
        difference : dict, optional
            The target and a number of rows: ``{"count": 1}`` learns the change of count since the row before, and adds it to the value of
            this row. Past values of the target are then relative to this value. It helps if the series has a trend.
        sample_weight : str, optional
            The column of the row weights, for solvers that support weights.
        test : float or str, optional
            Test rows, which the fit does not read; ``test_scores_`` has the scores of the model on them. ``"20%"`` (or 0.2) are random rows,
            and for classes 20 % of each class; ``"20%:region"`` are 20 % of each value of a column; ``"last:15%"`` are the last rows;
            ``"last:15%:date"`` the rows with the largest values of a column; ``"groups:20%:subject"`` whole groups; and
            ``"where fold == 9"`` the rows that satisfy a condition. It needs a target. Without ``cv``, the folds hold out rows of the
            same kind: blocks for ``"last:15%"``, groups for ``"groups:20%:subject"``. The standard errors of the scores are over these
            groups, or over blocks of consecutive rows.
        memory : int or str, optional
            Memory budget of the process, which overrides the estimator's ``memory``.
        scratch : path, optional
            A folder for decoded rows and features that exceed the memory budget.
        states : path, optional
            A folder in which processes that run the same fit share the passes over the rows. Start any number of processes, on any number
            of machines; each returns the same model as a single process, bit for bit.
        patience : float, default=90.0
            Seconds without activity after which another process counts as lost, and its work is repeated.
        engine : kmill.dask.Engine, kmill.ray.Engine or kmill.spark.Engine, optional
            A cluster whose workers run the fit. All workers must find the files under the same paths.

        Returns
        -------
        self
        """
        arguments = {"target": target, "features": features, "where": where, "rows": rows, "missing": missing, "categories": categories,
                     "hash": hash, "times": times, "text": text, "types": types, "missing_words": missing_words, "lags": lags,
                     "rolling": rolling, "by": by, "order": order, "difference": difference, "sample_weight": sample_weight, "test": test, "memory": memory, "scratch": scratch}
        check_arguments(KernelEstimator.fit_files, **arguments, patience=patience)
        self._check_test(test)
        self._reset_fit()
        if engine is not None:
            self.__dict__.update(engine.fit(clone(self), paths_of(paths), arguments, patience).__dict__)
            return self
        self._is_table = True
        table = _kmill.Table.open(paths_of(paths), types or {}, list(missing_words or []))
        targets = [target] if isinstance(target, str) else list(target or [])
        selection = {"features": features or [], "targets": targets, **_nonempty(where=where, rows=rows, hash=hash),
                     **_nonempty(lags=_past_values(lags, rolling, by, order, difference)), **self._row_options(missing, categories, times, text)}
        options = {"weights": sample_weight} if sample_weight else {}
        shared = {} if states is None else {"states": states, "patience": patience}
        self._fit_table(table, selection, self._run(memory=memory, scratch=scratch), options, test=test, **shared)
        self._after_files(self._read_card())
        return self

    def _check_test(self, test: float | str | None) -> None:
        if test is not None and self._target is None:
            raise ValueError(f"{type(self).__name__} learns without a target, so that there is no test error; omit test")

    def _row_options(self, missing: str | None = None, categories: Any = None, times: str | None = None,
                text: Any = None) -> dict[str, Any]:
        """Returns the options that define how values become features: the arguments, else the constructor's values."""
        values = {"missing": missing, "categories": categories, "times": times, "text": text}
        values = {name: getattr(self, name, None) if value is None else value for name, value in values.items()}
        for parameter in (parameter for parameter in self._parameters if parameter.name in values):
            check(parameter.name, values[parameter.name], parameter.type)
        for name in ("categories", "text"):
            value = values[name]
            values[name] = [value] if isinstance(value, str) else None if value is None else list(value)
        return {name: value for name, value in values.items() if value is not None}

    def _validate(self, X: Any, *y: Any, **options: Any) -> Any:
        """Validates rows as scikit-learn does; an error about missing values also names the parameter ``missing``."""
        try:
            return validate_data(self, X, *y, **options)
        except ValueError as error:
            message = str(error).split("\n")[0]
            if not message.startswith("Input X contains NaN") or not hasattr(self, "missing"):
                raise
            remedy = "missing='indicator' or 'mean' imputes them, missing='drop' removes the rows"
            raise ValueError(f"{message} {type(self).__name__} rejects missing values by default; {remedy}; or clean the data.") from None

    def _reset_fit(self) -> None:
        """Deletes the attributes that an earlier fit set from rows in memory."""
        for name in ("classes_", "labels_", "_coordinates", "_has_categories", "test_scores_", *_cv.ATTRIBUTES):
            self.__dict__.pop(name, None)

    def _read_card(self) -> dict[str, Any]:
        card = self._card()
        self._set_feature_names(card)
        return card

    def _columns(self) -> list[str]:
        """Returns the names of the input columns: the encoded columns, or the features themselves."""
        card = self._card()
        return [column["name"] for column in card.get("encoding", [])] or card["features"]

    def _set_feature_names(self, card: dict[str, Any]) -> None:
        """Sets the names and the number of the input columns."""
        names = self._columns()
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self._has_categories = "encoding" in card

    def _after_files(self, card: dict[str, Any]) -> None:
        """Hook for attributes that a fit in memory sets from the target, here set from the metadata of the model."""

    def _set_model(self, model: Any, outcome: dict[str, Any]) -> None:
        """Sets the model and the attributes from the outcome of the fit."""
        self.model_ = model
        report = outcome["report"]
        entries = {**report, "seconds": dict(outcome["seconds"]), "warnings": outcome["warnings"]}
        self.report_ = Report(entries, outcome["page"])
        self._set_attributes(report)
        self.__dict__.update(_cv.of_report(self, report))
        self._set_test_scores(outcome.get("test"))
        if self._coordinates is not None:
            # the engine fits a linear kernel on the coordinates; kernel and error are those of the original matrix
            self.kernel_ = self.kernel if is_precomputed(self.kernel) else repr(self.kernel)
            self.trace_error_ = self._coordinates.trace_error
        figures = figures_of(report)
        steps = figures.get("steps") or figures.get("newton steps") or [len(figures.get("mistakes of each sweep", []))]
        if hasattr(self, "max_iter"):
            self.n_iter_ = max(1, int(steps[0]))
        self._warn_all(outcome["warnings"])

    def _set_test_scores(self, test: dict[str, Any] | None) -> None:
        if test is not None:
            evaluation = with_labels(json.loads(test["evaluation"]), getattr(self, "classes_", None))
            self.test_scores_ = Evaluation(evaluation, test["page"], test["test_rows"])

    @property
    def feature_importances_(self) -> Any:
        """The importance of each column of the fit, with sum 1."""
        check_is_fitted(self, "model_")
        importance = [] if self._coordinates is not None else self.model_.importance()
        if importance is None:
            slopes = getattr(self, "report_", {}).get("importance") or []
            importance = [(name, slope * slope) for name, slope in slopes]
        if not importance:
            raise AttributeError("the model has no feature_importances_: they exist with a metric, such as metric='diagonal', and for a ridge regression "
                                 "with importance=True; explain and sklearn.inspection.permutation_importance do not need them")
        columns = self._columns()
        totals = dict.fromkeys(columns, 0.0)
        for feature, fraction in importance:
            # the features of a column are named after it, such as city=Bonn and date.hour.sin
            sources = [name for name in columns if feature == name or feature.startswith((f"{name}=", f"{name}."))]
            totals[max(sources, key=len)] += fraction
        values = np.array(list(totals.values()))
        return values / values.sum() if values.sum() > 0.0 else values

    def _set_attributes(self, source: dict[str, Any]) -> None:
        """Sets the attributes that both the report of a fit and the metadata of a model contain."""
        self.kernel_, self.rank_, certificate = source["kernel"], source["rank"], source["certificate"]
        self.trace_error_ = None if certificate is None else certificate["trace_error"]
        levels = [figure["values"] for figure in source.get("figures") or [] if figure["name"] == "lambda of each level"]
        if source["lambda"] is not None or levels:
            self.lambda_ = source["lambda"] if source["lambda"] is not None else levels[0]

    def _warn_all(self, warnings: list[str]) -> None:
        """Issues the warnings of the engine."""
        for text in warnings:
            message = f"{type(self).__name__}: {text}"
            if text.startswith("rank reduced"):
                # expected for small tables, so it is logged instead of issued
                _LOG.info(message)
            else:
                _warn(message)

    # -- predictions

    def _scores(self, X: Any) -> Any:
        """Returns the outputs of the model for rows, n x outputs, as float64."""
        model = getattr(self, "model_", None)
        if (
            model is not None
            and self._coordinates is None
            and type(X) is np.ndarray
            and X.ndim == 2
            and X.dtype in (np.float64, np.float32)
            and X.flags.c_contiguous
            and 0 < X.shape[0]
            and X.shape[1] == model.features
            and model.plain
            and not hasattr(self, "feature_names_in_")
        ):
            try:
                return model.predict(X)
            except ValueError:
                pass  # a value is not finite: scikit-learn's check below raises an error with its position
        check_is_fitted(self, "model_")
        if self._reads_by_name(X):
            return self._table_scores(X)[0]
        return self._outputs(self._check_rows(X))

    def _reads_by_name(self, X: Any) -> bool:
        """Returns whether the engine selects the columns of these rows by name."""
        return is_stream(X) or (self._has_categories or self._by_name) and has_names(X)

    def _outputs(self, X: Any) -> Any:
        """Returns the outputs of the model for validated rows.

        Only tables support missing values, sparse rows, clipping and warnings about rows outside the training range.
        """
        direct = self._ensure_finite() is True and not issparse(X) and self.model_.plain
        return self.model_.predict(X) if direct else self._table_scores(X)[0]

    def _require_scores(self, scores: Any) -> Any:
        """Returns the scores; raises an error if a row has none, because no class or cluster means missing."""
        incomplete = np.flatnonzero(np.isnan(scores).any(axis=1))
        if incomplete.size:
            rows = ", ".join(map(str, incomplete[:5])) + (", …" if incomplete.size > 5 else "")
            raise ValueError(f"rows {rows} have missing values and therefore no prediction, because the fit dropped such rows "
                             "(missing='drop'); remove these rows, or fit with missing='indicator' or 'mean'")
        return scores

    def _ensure_finite(self) -> Any:
        """Returns the argument ``ensure_all_finite`` of scikit-learn's validation."""
        return True if getattr(self, "missing", "error") == "error" else "allow-nan"

    def _check_rows(self, X: Any) -> Any:
        if self._has_categories:
            raise ValueError("the model has columns of categories, and X is an array; pass a table with these columns, such as a DataFrame")
        check_storage(X, "X")
        check_numeric(X)
        sparse = False if self._coordinates is not None else "csr"
        X = self._validate(X, reset=False, dtype=[np.float64, np.float32], order="C", accept_sparse=sparse,
                            ensure_all_finite=self._ensure_finite())
        return X if self._coordinates is None else self._coordinates.of(X)

    def _table_scores(self, X: Any, *extras: str, background: Any = None) -> Any:
        request = json.dumps({"run": self._run(), "extras": extras})
        *outputs, warnings = self.model_.scores(self._table(X), request, None if background is None else self._table(background))
        self._warn_all(warnings)
        return outputs

    def _table(self, X: Any, more: Any = ()) -> Any:
        """Returns the rows as a table of the engine, with further columns."""
        if self._reads_by_name(X):
            table = stream_table(X, self._run().get("memory"))
            return table.with_columns(list(more)) if more else table
        names = self._columns() if self.model_.sparse is None else [f"x{j}" for j in range(X.shape[1])]
        return table_of(X if self.model_.sparse is None else csr_array(X), names, list(more))

    def _extra(self, X: Any, extra: str, background: Any = None) -> tuple[Any, Any]:
        """Returns the outputs, and the values of an extra output."""
        check_is_fitted(self, "model_")
        X, background = (rows if rows is None or self._reads_by_name(rows) else self._check_rows(rows) for rows in (X, background))
        return self._table_scores(X, extra, background=background)

    def predict_files(
        self,
        paths: Any,
        output: Any,
        *,
        keep: Sequence[str] | None = None,
        extras: Sequence[str] | None = None,
        where: str | None = None,
        rows: str | None = None,
        missing: str | None = None,
        memory: int | str | None = None,
    ) -> int:
        """Write predictions for files of any size to a file.

        Parameters
        ----------
        paths : str, path or list of them
            Files, folders and glob patterns; they must have the feature columns of the model.
        output : path
            The file to write; its extension selects the format, such as ``.parquet``.
        keep : list of str, optional
            Columns of the table to copy to the output.
        extras : list of str, optional
            Further outputs to write next to the predictions: ``probabilities``, ``std``, ``components``, ``novelty``, ``preimage``.
        where, rows, missing, memory
            As in :meth:`fit_files`. By default missing values are treated as in the fit, and a row that the fit would have dropped has
            an empty prediction.

        Returns
        -------
        int
            The number of rows written.
        """
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            raise ValueError("files have no rows of a precomputed kernel, of distances or of a callable kernel; pass arrays to predict")
        check_arguments(KernelEstimator.predict_files, keep=keep, extras=extras, where=where, rows=rows, missing=missing, memory=memory)
        selection = {"keep": keep or [], **_nonempty(missing=missing, where=where, rows=rows)}
        table = _kmill.Table.open(paths_of(paths))
        with Progress(self.verbose) as show:
            request = {"rows": selection, "run": self._run(memory=memory), "extras": extras or []}
            count, warnings = self.model_.write(table, json.dumps(request), os.fspath(output), show)
        self._warn_all(warnings)
        return int(count)

    # -- the model file

    def _card(self) -> dict[str, Any]:
        return json.loads(self.model_.card())

    def save(self, path: Any) -> None:
        """Write the model to a safetensors file, which the command, the Rust library and :func:`kmill.load` read.

        Parameters
        ----------
        path : path
            The file to write. The write is atomic: a failure leaves the old file, if there was one.
        """
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            raise _kmill.Error("a model file stores the kernel as an expression, and a precomputed kernel, distances and a callable have "
                               "none; such an estimator can be pickled")
        self.model_.save(os.fspath(path))

    def to_onnx(self) -> bytes:
        """Convert the model to ONNX, which runs without kmill.

        The input ``X`` has the features in float64, in the units of the table. The outputs are ``prediction`` for a regression;
        ``label`` and ``scores`` for a classification, with ``probabilities`` if the model has them; ``group`` and ``scores`` for a
        clustering; otherwise ``scores``. Kernels without ONNX operations, and maps without landmarks, raise an error.

        Returns
        -------
        bytes
            The content of the ONNX file.
        """
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            raise _kmill.Error("a precomputed kernel, distances and a callable kernel have no ONNX operations; use predict")
        return self.model_.to_onnx()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        # notebooks call this method before _repr_html_; scikit-learn omits text/html if its option display is "text"
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def _repr_html_inner(self) -> str:
        """Returns the page of a fitted estimator, and scikit-learn's diagram of an unfitted one."""
        if hasattr(self, "report_"):
            return self.report_._repr_html_()
        return iframe(self.model_.contents()) if hasattr(self, "model_") else super()._repr_html_inner()

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._ensure_finite() is not True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

