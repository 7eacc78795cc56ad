"""Converts the parameters of an estimator to a job of the engine."""

from __future__ import annotations

import json
import os
import re
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from . import _kernel, _kmill, _parameters
from ._matrix import Coordinates


class JobParameters:
    """The part of an estimator that converts its parameters to a job of the engine, as JSON."""

    _solver: str
    _fixed: dict[str, str]
    _parameters: list[_parameters.Parameter]
    _rank_name = "rank"
    _coordinates: Coordinates | None = None
    _is_table = False  # whether the rows have names and types: the defaults are then those of the command
    kernel: Any
    random_state: Any

    def _solver_options(self, rows: float | None) -> dict[str, str]:
        """Returns the parameters of the solver as text.

        ``rows`` is the number of rows, or the sum of their weights; None if it is unknown before the rows are read.
        """
        engine = dict(self._fixed)
        for parameter in self._parameters:
            value = getattr(self, parameter.name)
            if isinstance(value, dict):
                value = {self._class_label(label): weight for label, weight in value.items()}
            splitter = parameter.engine == "folds" and not isinstance(value, (int, str))
            value = None if splitter else _parameters.option_text(value)
            if parameter.engine is not None and value is not None:
                engine[parameter.engine] = value
        if "lambda" in engine:
            engine.pop("C", None)
        return engine

    def _class_label(self, label: Any) -> str:
        """Returns a class label as the engine writes it."""
        return str(label)

    def _run(self, **overrides: Any) -> dict[str, Any]:
        """Returns the resources of a job: memory, threads and scratch folder."""
        _parameters.check("memory", getattr(self, "memory", None), "int | str | None")
        _parameters.check("n_jobs", getattr(self, "n_jobs", None), "int | None")
        memory = overrides.get("memory") if overrides.get("memory") is not None else getattr(self, "memory", None)
        jobs = getattr(self, "n_jobs", None)
        run: dict[str, Any] = {}
        if memory is not None:
            run["memory"] = str(memory)
        if jobs is not None and jobs > 0:
            run["threads"] = int(jobs)
        if overrides.get("scratch") is not None:
            run["scratch"] = os.fspath(overrides["scratch"])
        return run

    def _job(self, table: Any, rows: dict[str, Any], run: dict[str, Any], options: dict[str, str],
             total: float | None) -> tuple[dict[str, Any], Any]:
        """Returns the job, and a table of landmarks if ``landmarks`` is an array."""
        for parameter in self._parameters:
            _parameters.check(parameter.name, getattr(self, parameter.name), parameter.type)
        surveys: dict[bool, Any] = {}
        # targets, weights, groups, folds and the second view are not features
        folds = re.compile(r"^(column|groups:\d+|blocks:\d+|forward:\d+(\+\d+)?):")
        column_options = [text for name, text in options.items() if name not in ("lambda", "ranks", "with")]
        column_options += [*filter(folds.match, [str(getattr(self, "cv", None))]), *filter(None, [getattr(self, "group", None)])]
        second_view = filter(None, options.get("with", "").split(","))
        others = [*rows["targets"], *dict.fromkeys([*(folds.sub("", text) for text in column_options), *second_view])]
        features = json.dumps({**rows, "targets": [], "keep": others})

        def survey(variance: bool = False) -> Any:
            if variance not in surveys:
                names, width, count, var = table.survey(features, json.dumps(run), variance, options.get("weights"))
                surveys[variance] = (width, var, count, names)
            return surveys[variance]

        # a default gamma is chosen by the engine for a table, and is that of scikit-learn for an array
        default = next((p.default for p in self._parameters if p.name == "gamma"), None)
        choose_scale = self._is_table and getattr(self, "gamma", None) == default
        kernel = "linear()" if self._coordinates is not None else None if self.kernel is None else _kernel.expression(
            self.kernel, getattr(self, "gamma", None), getattr(self, "coef0", None), getattr(self, "degree", None),
            lambda variance: survey(variance)[:2], choose_scale)
        job: dict[str, Any] = {
            "solver": self._solver,
            "options": {**self._solver_options(survey()[2] if total is None else total), **options},
            "kernel": kernel,
            "seed": self._seed() if self._coordinates is None else 0,
            "rows": rows,
            "run": run,
        }
        # of the exact solvers only ridge has a rank, that of its preconditioner
        rank = self._rank() if getattr(self, "map", None) != "exact" or self._solver == "ridge" else None
        if rank is not None and "ranks" not in job["options"]:
            job["rank"] = rank
        if not self._is_table:
            job["scale"] = "none"
        clip = getattr(self, "clip", None)
        if self._is_table if clip is None else clip:
            job["clip"] = True
        for name in ("scale", "map", "precision"):
            if getattr(self, name, None) is not None:
                job[name] = getattr(self, name)
        job.update(self._map())
        metric = getattr(self, "metric", None)
        if metric is not None:
            job["metric"] = metric if isinstance(metric, str) else np.asarray(metric, dtype=float).tolist()
        candidates = getattr(self, "candidates", None)
        if candidates is not None:
            job["candidates"] = str(candidates)
        landmarks, scheme = None, getattr(self, "landmarks", None)
        if self._coordinates is not None:
            # the landmarks are all pivots, in their order; the choice of pivots has already applied the tolerance
            scheme = self._coordinates.landmarks
            job["options"].pop("tolerance", None)
        if isinstance(scheme, str):
            job["landmarks"] = scheme
        elif scheme is not None:
            points = np.ascontiguousarray(scheme, dtype=np.float64)
            landmarks = _kmill.Table.from_array(points, survey()[3])
            job.pop("rank", None)
        return job, landmarks

    def _map(self) -> dict[str, str]:
        return {}

    def _seed(self) -> int:
        seed = self.random_state
        return int(seed if isinstance(seed, (int, np.integer)) else check_random_state(seed).randint(2**31 - 1))

    def _rank(self) -> int | None:
        rank = getattr(self, self._rank_name)
        if rank is None:
            return None
        if isinstance(rank, bool) or not isinstance(rank, (int, np.integer)) or rank < 1:
            raise ValueError(f"{self._rank_name} must be an integer of at least 1, got {rank!r}")
        return int(rank)

    def _max_rank(self, X: Any) -> int:
        """Returns the largest requested rank, at most the number of rows."""
        ranks = getattr(self, "ranks", None)
        requested = [] if ranks is None or isinstance(ranks, str) else [int(rank) for rank in ranks]
        return min(X.shape[0], max(requested, default=self._rank() or 1000))
