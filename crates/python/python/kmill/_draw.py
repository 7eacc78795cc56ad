"""Pictures with matplotlib, which draw on given axes or on new ones, and return the axes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

# errors and costs of the comparison of approximations, as labels of the axes
_LABELS = {
    "trace_error": "relative trace error",
    "frobenius": "relative Frobenius error",
    "spectral": "relative spectral error",
    "seconds": "seconds",
    "kernel_evaluations": "kernel evaluations",
}


def axes_of(ax: Any) -> Any:
    """Returns the axes to draw on: ``ax``, or the axes of a new figure."""
    if ax is not None:
        return ax
    try:
        from matplotlib import pyplot
    except ImportError:
        raise ImportError("plot needs matplotlib, which is not installed; install it with pip install matplotlib") from None
    return pyplot.subplots()[1]


def draw_curve(columns: Mapping[str, Any], error: str, against: str, ax: Any) -> Any:
    """Draws an error of each method against the rank or a cost, on logarithmic axes.

    The line is the mean over the repeats of a rank, and the band has their smallest and largest errors.
    """
    for name in (error, against):
        if name not in columns:
            raise ValueError(f"{name!r} is not a column of the comparison; expected one of {', '.join(map(str, columns))}")
    ax = axes_of(ax)
    methods, ranks = np.asarray(columns["method"]), np.asarray(columns["rank"])
    x, y = (np.asarray(columns[name], dtype=np.float64) for name in (against, error))
    for method in dict.fromkeys(methods.tolist()):
        # an error of 0 or of unknown size has no place on a logarithmic axis
        known = (methods == method) & np.isfinite(y) & (y > 0.0)
        groups = [known & (ranks == rank) for rank in np.unique(ranks[known])]
        if groups:
            (line,) = ax.plot([x[rows].mean() for rows in groups], [y[rows].mean() for rows in groups], marker="o", label=method)
            if any(rows.sum() > 1 for rows in groups):
                ends = [[y[rows].min() for rows in groups], [y[rows].max() for rows in groups]]
                ax.fill_between([x[rows].mean() for rows in groups], *ends, alpha=0.2, color=line.get_color(), linewidth=0)
    ax.set(xscale="log", yscale="log", xlabel=_LABELS.get(against, against), ylabel=_LABELS.get(error, error))
    ax.legend()
    return ax


def draw_predictions(points: Any, ax: Any) -> Any:
    """Draws true values against predictions, with the line on which they are equal."""
    ax = axes_of(ax)
    predictions, truths = np.asarray(points, dtype=np.float64).T
    ends = [min(predictions.min(), truths.min()), max(predictions.max(), truths.max())]
    ax.scatter(predictions, truths, s=8, alpha=0.6, linewidth=0)
    ax.plot(ends, ends, color="grey", linewidth=1)
    ax.set(xlabel="prediction", ylabel="true value")
    return ax


def draw_rates(points: Any, labels: tuple[str, str], diagonal: bool, ax: Any) -> Any:
    """Draws a curve of two rates between 0 and 1."""
    ax = axes_of(ax)
    ax.plot(*np.asarray(points, dtype=np.float64).T[:2], marker="o" if labels[0].startswith("predicted") else None)
    if diagonal:
        ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel=labels[0], ylabel=labels[1])
    return ax


def draw_class_curves(curves: list[Any], classes: list[Any], ax: Any) -> Any:
    """Draws the ROC curve of each class against the rest; a class without a curve is left out."""
    ax = axes_of(ax)
    for label, points in zip(classes, curves, strict=True):
        if points:
            ax.plot(*np.asarray(points, dtype=np.float64).T, label=str(label))
    ax.legend()
    ax.plot([0, 1], [0, 1], color="grey", linewidth=1)
    ax.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="false positive rate", ylabel="true positive rate")
    return ax


def draw_confusion(counts: Any, classes: list[Any], ax: Any) -> Any:
    """Draws a confusion matrix: the fraction of the rows of each true class by predicted class, with the numbers of rows."""
    ax = axes_of(ax)
    counts = np.asarray(counts, dtype=np.float64)
    fractions = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1.0)
    ax.imshow(fractions, cmap="Blues", vmin=0.0, vmax=1.0)
    for (i, j), count in np.ndenumerate(counts):
        ax.text(j, i, f"{count:g}", ha="center", va="center", color="white" if fractions[i, j] > 0.5 else "black")
    ax.set_xticks(range(len(classes)), [str(label) for label in classes])
    ax.set_yticks(range(len(classes)), [str(label) for label in classes])
    ax.set(xlabel="predicted class", ylabel="true class")
    return ax


def draw_bars(names: list[str], values: Any, label: str, most: int, ax: Any) -> Any:
    """Draws horizontal bars of the largest values, the largest on top."""
    ax = axes_of(ax)
    largest = np.argsort(-np.asarray(values), kind="stable")[:most][::-1]
    ax.barh([names[j] for j in largest], [float(values[j]) for j in largest])
    ax.set(xlabel=label)
    return ax
