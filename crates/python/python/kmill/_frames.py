"""The result of :func:`kmill.curve` as a DataFrame; this module needs pandas."""

from __future__ import annotations

from typing import Any

import pandas

from ._draw import draw_curve


class CurvePlot(pandas.DataFrame.plot):  # type: ignore[misc, name-defined]
    """The attribute ``plot`` of a comparison: a call without x, y and kind draws errors against ranks, all others are calls of pandas."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        frame = self._parent
        own = not args and kwargs.keys() <= {"error", "against", "ax"} and {"method", "rank", "trace_error"} <= set(frame.columns)
        return frame.plot_errors(**kwargs) if own else super().__call__(*args, **kwargs)


class CurveFrame(pandas.DataFrame):  # type: ignore[misc]
    """A comparison of approximations: a DataFrame with a row for each method, rank and repeat."""

    @property
    def _constructor(self) -> type[CurveFrame]:
        return CurveFrame

    @property
    def plot(self) -> CurvePlot:
        """The plots of pandas; called without x, y and kind, it is :meth:`plot_errors`."""
        return CurvePlot(self)

    def plot_errors(self, error: str = "trace_error", against: str = "rank", ax: Any = None) -> Any:
        """Draw an error of each method on logarithmic axes; needs matplotlib.

        Parameters
        ----------
        error : str, default="trace_error"
            The column of the error: ``trace_error``, ``frobenius`` or ``spectral``.
        against : str, default="rank"
            The column of the horizontal axis: ``rank``, ``seconds`` or ``kernel_evaluations``.
        ax : matplotlib.axes.Axes, optional
            The axes to draw on. None creates a figure.

        Returns
        -------
        matplotlib.axes.Axes
            The axes.
        """
        return draw_curve(self, error, against, ax)
