"""What every estimator does: hand rows to the engine, keep the model, predict, save, pickle."""

from __future__ import annotations

import json
import logging
import os
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse
from sklearn.base import BaseEstimator, clone
from sklearn.model_selection import check_cv
from sklearn.utils.validation import _check_sample_weight, check_consistent_length, check_is_fitted, column_or_1d, validate_data

from . import _kmill
from ._html import Report, iframe
from ._job import JobParameters
from ._kernel import is_precomputed
from ._matrix import Coordinates, needs_coordinates, reject_feature_parameters
from ._parameters import check, check_arguments
from ._progress import Progress
from ._splits import choose
from ._rows import unused_name, has_names, is_stream, check_numeric, paths_of, stream_table, table_of, check_storage

_LOG = logging.getLogger("kmill")


def figures_of(report: dict[str, Any]) -> dict[str, Any]:
    """The figures that a solver reports, by their names."""
    return {figure["name"]: figure["values"] for figure in report.get("figures", [])}


def _row_indices(rows: Any) -> Any:
    """Row numbers, of which masks are another form."""
    rows = np.asarray(rows)
    return np.flatnonzero(rows) if rows.dtype == bool else rows


def _nonempty(**values: Any) -> dict[str, Any]:
    """The values that are set."""
    return {name: value for name, value in values.items() if value}


def _check_weights(weight: Any, X: Any) -> Any:
    """Weights as numbers, checked as scikit-learn does; None if all rows count alike."""
    if weight is None:
        return None
    weight = _check_sample_weight(weight, X if hasattr(X, "shape") else np.asarray(X), dtype=np.float64, ensure_non_negative=True)
    return None if np.all(weight == 1.0) else weight


# deviations of two features beyond this ratio leave the kernel but one of them to see, and rows that tell deviations
_MAX_RATIO, _SPREAD_ROWS = 100.0, 1000


_ISSUED: set[str] = set()


def _warn(text: str) -> None:
    """Warns once of the same thing, unless filters want every warning. Python's own memory is lost when scikit-learn changes filters, in
    every fold."""
    text = text.replace("`no_clip` of the fit", "`clip=False`")
    action = next((entry[0] for entry in warnings.filters if issubclass(UserWarning, entry[2])), "default")
    if action != "default" or text not in _ISSUED:
        _ISSUED.add(text)
        warnings.warn(text, UserWarning, stacklevel=4)


def _warn_of_spread(X: Any, name: str) -> None:
    """Warns of features of an array that a kernel on them as they are does not see."""
    few = X[:: max(1, len(X) // _SPREAD_ROWS)].astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore"):
        deviations = few.std(axis=0)
    deviations = deviations[deviations > 0.0]
    if deviations.size and deviations.max() > _MAX_RATIO * deviations.min():
        _warn(f"{name}: the deviations of the features differ more than {_MAX_RATIO:.0f} times, so that the kernel sees the widest alone; "
              "scale='standard' scales them")


class KernelEstimator(JobParameters, BaseEstimator):
    """The base of all estimators; its subclasses name a solver.

    Attributes
    ----------
    kernel_ : str
        The kernel, with the numbers that the fit resolved.
    rank_ : int
        The rank of the model, chosen if several ranks were compared.
    trace_error_ : float or None
        The certificate: the exact relative trace-norm error of the approximation of the kernel
        matrix, measured on all rows. None without a certificate, as for random Fourier features.
    report_ : dict
        The report of the fit: seconds of each stage, warnings, memory, figures of the solver.
    n_features_in_ : int
        The number of columns of the fit.
    feature_names_in_ : array of shape (n_features_in_,)
        The names of these columns, if they have names.
    """

    _target: str | None = None  # "numbers", "classes", or nothing to learn from
    _kernel_of_arrays = False  # whether a kernel that is a function takes two arrays, as in sklearn.svm, or two rows
    _learn = staticmethod(_kmill.fit)
    _is_search = False  # whether `tune` learns, which compares on folds
    _has_categories = False  # whether columns of the model are categories
    _by_name = False  # whether the rows of the fit were a table whose columns the engine chose among

    # -- fits

    def _fit_rows(self, X: Any, y: Any = None, sample_weight: Any = None, group: Any = None) -> Any:
        """Fits rows in memory or of a stream, and returns the estimator."""
        sample_weight = _check_weights(sample_weight, X)
        more: list[tuple[str, Any]] = []
        given = X
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
            known = getattr(self, "feature_names_in_", None)
            if needs_coordinates(self.kernel):
                reject_feature_parameters(self)
                self._coordinates = Coordinates(self, X, self._seed(), self._max_rank(X))
                X, known = self._coordinates.rows, None
            names = [f"x{j}" for j in range(X.shape[1])] if known is None else [str(name) for name in known]
            count = X.shape[0]
        options = {**self._weights(sample_weight, names, more), **self._folds(X, y, names, more, (given, sample_weight, group)), **self._group(group, count, names, more)}
        if sample_weight is not None and not is_stream(X) and np.any(sample_weight == 0.0):
            # rows without weight are no rows: they are no landmarks, and their class is none
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
            self._after_rows(given)
        return self

    def _after_rows(self, X: Any) -> None:
        """Does what a fit in memory does with its rows once there is a model."""

    def _targets(self, y: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> list[str]:
        """Adds the columns of the target to ``more``, and returns their names."""
        return []

    def _folds(self, X: Any, y: Any, names: list[str], more: list[tuple[str, Any]], given: tuple[Any, ...]) -> dict[str, str]:
        """The options of the folds if ``cv`` is a splitter of scikit-learn.

        Splits that hold each row out once and learn from all others, or from all rows before (ridge), become a column of folds in ``more``.
        Other splits have fits of their own, which choose here.
        """
        cv = getattr(self, "cv", None)
        if cv is None or isinstance(cv, (int, str)):
            return {}
        if is_stream(X):
            raise ValueError("cv must be a number, or text such as 'blocks:6', where rows come as a stream")
        try:
            splits = [tuple(map(_row_indices, split)) for split in check_cv(cv, y).split(X, y, given[2])]
        except ValueError as error:
            if "groups" not in str(error):
                raise
            raise ValueError(f"cv={cv!r} needs groups, which fit does not take: give its splits, cv=list(splitter.split(X, y, groups))") from None
        folds, overlap = np.full(X.shape[0], -1, dtype=np.int64), False
        for number, (_, test) in enumerate(splits):
            overlap |= bool(np.any(folds[test] >= 0))
            folds[test] = number

        def learns(rows: Any) -> bool:
            return not overlap and all(np.array_equal(np.sort(train), np.flatnonzero(rows(number))) for number, (train, _) in enumerate(splits))

        name = unused_name("fold", names)
        if np.all(folds >= 0) and learns(lambda number: folds != number):
            more.append((name, folds))
            return {"folds": f"column:{name}"}
        if self._solver == "ridge" and learns(lambda number: folds < number):
            # the rows before the first test come first
            more.append((name, folds + 1))
            return {"folds": f"forward:{len(splits)}:{name}"}
        if self._is_search:
            raise ValueError("tune compares on folds: cv must hold every row out once and learn from all others, or, of ridge and any solver, "
                             "from all rows before a fold")
        return choose(self, y, splits, *given)

    def _weights(self, weight: Any, names: list[str], more: list[tuple[str, Any]]) -> dict[str, str]:
        """Adds the column of the weights to ``more``, and returns the option that names it."""
        if weight is None:
            return {}
        name = unused_name("sample_weight", names)
        more.append((name, np.ascontiguousarray(weight, dtype=np.float64)))
        return {"weights": name}

    def _group(self, group: Any, count: int, names: list[str], more: list[tuple[str, Any]]) -> dict[str, str]:
        """Adds the column of the groups to ``more``, and returns the option that names it."""
        if group is None or isinstance(group, str):
            return {} if group is None else {"group": group}
        group = column_or_1d(group)
        check_consistent_length(np.empty(count), group)
        name = unused_name("group", names)
        more.append((name, np.unique(group, return_inverse=True)[1].astype(np.int64)))
        return {"group": name}

    def _fit_table(self, table: Any, rows: dict[str, Any], run: dict[str, Any], options: dict[str, str],
                   total: float | None = None, **shared: Any) -> None:
        job, landmarks = self._job(table, rows, run, options, total)
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
        sample_weight: str | None = None,
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
            Files, folders and glob patterns, read as one table in the order of their paths.
        target : str or list of str, optional
            The column to learn from, or several of numbers.
        features : list of str, optional
            Names or patterns of the features. None is every column of numbers or text without another role.
        where : str, optional
            A condition on one column: ``"fold != 3"``.
        rows : str, optional
            Stored rows to use, half-open: ``"..284217"``.
        missing, categories, times, text : optional
            As in the constructor, in the place of what was given there.
        hash : int, optional
            Features for a column of text with more values, by a hash. None leaves such a column out.
        types : dict, optional
            Types of columns of .csv by their names, ``{"zip": "text", "day": "date"}``: text, number or date, which also reads seconds since
            1970. Others are found from the first rows.
        missing_words : list of str, optional
            Words that stand for missing values in .csv and .jsonl, in columns of text too.
        sample_weight : str, optional
            A column with a weight for each row, for solvers that read weights.
        memory : int or str, optional
            Memory that the process may take, in the place of the estimator's ``memory``.
        scratch : path, optional
            A folder for decoded rows and features that do not fit the memory.
        states : path, optional
            A folder in which processes that make the same fit share the passes over the rows. Start as many as you like, on as many
            machines; each has the model that one process would have, to the bit.
        patience : float
            Seconds without a sign of life after which another process counts as gone, and its part is done again.
        engine : kmill.dask.Engine, kmill.ray.Engine or kmill.spark.Engine, optional
            A cluster whose workers make the fit. They must see the files under the same paths.

        Returns
        -------
        self
        """
        asked = {"target": target, "features": features, "where": where, "rows": rows, "missing": missing, "categories": categories,
                 "hash": hash, "times": times, "text": text, "types": types, "missing_words": missing_words,
                 "sample_weight": sample_weight, "memory": memory, "scratch": scratch}
        check_arguments(KernelEstimator.fit_files, **asked, patience=patience)
        self._reset_fit()
        if engine is not None:
            self.__dict__.update(engine.fit(clone(self), paths_of(paths), asked, patience).__dict__)
            return self
        self._is_table = True
        table = _kmill.Table.open(paths_of(paths), types or {}, list(missing_words or []))
        targets = [target] if isinstance(target, str) else list(target or [])
        selection = {"features": features or [], "targets": targets, **_nonempty(where=where, rows=rows, hash=hash),
                     **self._row_options(missing, categories, times, text)}
        options = {"weights": sample_weight} if sample_weight else {}
        shared = {} if states is None else {"states": states, "patience": patience}
        self._fit_table(table, selection, self._run(memory=memory, scratch=scratch), options, **shared)
        self._after_files(self._read_card())
        return self

    def _row_options(self, missing: str | None = None, categories: Any = None, times: str | None = None,
                text: Any = None) -> dict[str, Any]:
        """How values become features, as it was given here or in the constructor."""
        given = {"missing": missing, "categories": categories, "times": times, "text": text}
        given = {name: getattr(self, name, None) if value is None else value for name, value in given.items()}
        for parameter in (parameter for parameter in self._parameters if parameter.name in given):
            check(parameter.name, given[parameter.name], parameter.type)
        for name in ("categories", "text"):
            value = given[name]
            given[name] = [value] if isinstance(value, str) else None if value is None else list(value)
        return {name: value for name, value in given.items() if value is not None}

    def _validate(self, X: Any, *y: Any, **options: Any) -> Any:
        """The rows as scikit-learn checks them; its message about missing values names the parameter that treats them."""
        try:
            return validate_data(self, X, *y, **options)
        except ValueError as error:
            found = str(error).split("\n")[0]
            if not found.startswith("Input X contains NaN") or not hasattr(self, "missing"):
                raise
            remedy = "missing='indicator' or 'mean' fills them, missing='drop' leaves the rows out"
            raise ValueError(f"{found} {type(self).__name__} reads missing values if it is told how: {remedy}; or clean the data.") from None

    def _reset_fit(self) -> None:
        """Forgets what an earlier fit learned from rows in memory."""
        for name in ("classes_", "labels_", "cv_results_", "_coordinates", "_has_categories"):
            self.__dict__.pop(name, None)

    def _read_card(self) -> dict[str, Any]:
        card = self._card()
        self._set_feature_names(card)
        return card

    def _columns(self) -> list[str]:
        """The columns that the model reads: features, or what these are made of."""
        card = self._card()
        return [column["name"] for column in card.get("encoding", [])] or card["features"]

    def _set_feature_names(self, card: dict[str, Any]) -> None:
        """Takes the names of the columns."""
        names = self._columns()
        self.feature_names_in_ = np.array(names, dtype=object)
        self.n_features_in_ = len(names)
        self._has_categories = "encoding" in card

    def _after_files(self, card: dict[str, Any]) -> None:
        """Sets what a fit in memory learns from the target."""

    def _set_model(self, model: Any, found: dict[str, Any]) -> None:
        """Takes the model and the report as learned state."""
        self.model_ = model
        report = found["report"]
        facts = {**report, "seconds": dict(found["seconds"]), "warnings": found["warnings"]}
        self.report_ = Report(facts, found["page"])
        self._set_attributes(report)
        if self._coordinates is not None:
            # of the columns that were taken; the linear kernel on them is exact
            self.kernel_ = self.kernel if is_precomputed(self.kernel) else repr(self.kernel)
            self.trace_error_ = self._coordinates.trace_error
        figures = figures_of(report)
        steps = figures.get("steps") or figures.get("newton steps") or [len(figures.get("mistakes of each sweep", []))]
        if hasattr(self, "max_iter"):
            self.n_iter_ = max(1, int(steps[0]))
        self._warn_all(found["warnings"])

    def _set_attributes(self, found: dict[str, Any]) -> None:
        """Sets the attributes that the report of a fit and the metadata of a model both hold."""
        self.kernel_, self.rank_, certificate = found["kernel"], found["rank"], found["certificate"]
        self.trace_error_ = None if certificate is None else certificate["trace_error"]
        if found["lambda"] is not None:
            self.lambda_ = found["lambda"]

    def _warn_all(self, warnings: list[str]) -> None:
        """Passes warnings of the engine on."""
        for text in warnings:
            told = f"{type(self).__name__}: {text}"
            if text.startswith("rank reduced"):
                # what small tables have, and no fault
                _LOG.info(told)
            else:
                _warn(told)

    # -- predictions

    def _scores(self, X: Any) -> Any:
        """The outputs of the model for rows, n x outputs, as float64."""
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
                pass  # a value that is not finite: scikit-learn's check says where
        check_is_fitted(self, "model_")
        if self._reads_by_name(X):
            return self._table_scores(X)[0]
        return self._outputs(self._check_rows(X))

    def _reads_by_name(self, X: Any) -> bool:
        """Whether the engine finds the columns of these rows by their names."""
        return is_stream(X) or (self._has_categories or self._by_name) and has_names(X)

    def _outputs(self, X: Any) -> Any:
        """The outputs of the model for checked rows. The engine reads columns of categories, and warns of rows far outside, only in tables."""
        whole = self._ensure_finite() is True and not issparse(X) and self.model_.plain
        return self.model_.predict(X) if whole else self._table_scores(X)[0]

    def _require_scores(self, scores: Any) -> Any:
        """The scores, if every row has them: a class or a cluster has no value for a row without."""
        lacking = np.flatnonzero(np.isnan(scores).any(axis=1))
        if lacking.size:
            rows = ", ".join(map(str, lacking[:5])) + (", …" if lacking.size > 5 else "")
            raise ValueError(f"rows {rows} have missing values, and the fit left such rows out (missing='drop'): they have no prediction; "
                             "leave them out, or fit with missing='indicator' or 'mean'")
        return scores

    def _ensure_finite(self) -> Any:
        """Whether values of arrays must be there, as scikit-learn's check is told."""
        return True if getattr(self, "missing", "error") == "error" else "allow-nan"

    def _check_rows(self, X: Any) -> Any:
        if self._has_categories:
            raise ValueError("the model has columns of categories: give a table with its columns, such as a DataFrame")
        check_storage(X, "X")
        check_numeric(X)
        sparse = False if self._coordinates is not None else "csr"
        X = self._validate(X, reset=False, dtype=[np.float64, np.float32], order="C", accept_sparse=sparse,
                            ensure_all_finite=self._ensure_finite())
        return X if self._coordinates is None else self._coordinates.of(X)

    def _table_scores(self, X: Any, *extras: str) -> Any:
        *found, warnings = self.model_.scores(self._table(X), json.dumps({"run": self._run(), "extras": extras}))
        self._warn_all(warnings)
        return found

    def _table(self, X: Any, more: Any = ()) -> Any:
        """The rows as a table of the engine, with more columns."""
        if self._reads_by_name(X):
            table = stream_table(X, self._run().get("memory"))
            return table.with_columns(list(more)) if more else table
        names = self._columns() if self.model_.sparse is None else [f"x{j}" for j in range(X.shape[1])]
        return table_of(X if self.model_.sparse is None else csr_array(X), names, list(more))

    def _extra(self, X: Any, extra: str) -> tuple[Any, Any]:
        """The outputs, and what the model tells beside them."""
        check_is_fitted(self, "model_")
        return self._table_scores(X if self._reads_by_name(X) else self._check_rows(X), extra)

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
            Files, folders and glob patterns with the columns of the features.
        output : path
            The file to write; its extension is the format, such as ``.parquet``.
        keep : list of str, optional
            Columns to carry along.
        extras : list of str, optional
            What is written beside the predictions: ``probabilities``, ``std``, ``novelty``, ``preimage``.
        where, rows, missing, memory
            As in :meth:`fit_files`; missing values are treated as in the fit where nothing is said, and a row that the fit would have left
            out has an empty prediction.

        Returns
        -------
        int
            The number of rows.
        """
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            raise ValueError("files have no rows of a precomputed kernel, of distances or of a function: use predict")
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
        """Write the model as a safetensors file, which the command, Rust and :func:`kmill.load` open.

        Parameters
        ----------
        path : path
            The file; it is written whole or not at all.
        """
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            raise _kmill.Error("a file holds kernels by their names; a model of a precomputed kernel, of distances or of a function can be pickled")
        self.model_.save(os.fspath(path))

    def to_onnx(self) -> bytes:
        """The model as an ONNX file, for runtimes that know nothing of kernels.

        The input ``X`` has the features in float64, in the units of the table; outputs are ``prediction``, or ``label`` and
        ``scores``, or ``scores``. Kernels that ONNX has no operations for, and maps without landmarks, are refused.

        Returns
        -------
        bytes
            The content of the file.
        """
        check_is_fitted(self, "model_")
        if self._coordinates is not None:
            raise _kmill.Error("a precomputed kernel, distances or a function have no ONNX operations")
        return self.model_.to_onnx()

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        # notebooks ask for this one first
        bundle: dict[str, str] = super()._repr_mimebundle_(**kwargs)
        return {**bundle, "text/html": self._repr_html_inner()} if "text/html" in bundle else bundle

    def _repr_html_inner(self) -> str:
        inherited: str = super()._repr_html_inner()
        if hasattr(self, "report_"):
            return inherited + self.report_._repr_html_()
        return inherited + iframe(self.model_.contents()) if hasattr(self, "model_") else inherited

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.allow_nan = self._ensure_finite() is not True
        tags.input_tags.pairwise = is_precomputed(self.kernel)
        return tags

