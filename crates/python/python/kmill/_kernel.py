"""Kernels: scikit-learn's names and numbers as expressions of the engine."""

from __future__ import annotations

import math
from typing import Any

# name of scikit-learn -> (expression, numbers that it reads)
_EXPRESSIONS = {
    "rbf": ("gaussian(sigma={sigma})", "gamma"),
    "gaussian": ("gaussian(sigma={sigma})", "gamma"),
    "laplacian": ("laplacian(sigma={inverse})", "gamma"),
    "chi2": ("chi_squared(sigma={inverse})", "gamma"),
    "linear": ("linear()", ""),
    "cosine": ("cosine()", ""),
    "additive_chi2": ("additive_chi_squared()", ""),
    "poly": ("polynomial(degree={degree}, gamma={gamma}, c0={coef0})", "gamma"),
    "polynomial": ("polynomial(degree={degree}, gamma={gamma}, c0={coef0})", "gamma"),
    "sigmoid": ("sigmoid(gamma={gamma}, c0={coef0})", "gamma"),
}

# of these X is a matrix between all pairs of rows: of kernel values, and of distances
_PRECOMPUTED = ("precomputed", "distances")


def is_precomputed(kernel: Any) -> bool:
    """Whether X is a matrix between all pairs of rows."""
    return isinstance(kernel, str) and kernel in _PRECOMPUTED


def is_expression(kernel: Any) -> bool:
    """Whether a kernel is an expression of the engine, such as ``matern(nu=2.5, sigma=3)``."""
    return isinstance(kernel, str) and kernel not in _EXPRESSIONS and kernel not in _PRECOMPUTED


def expression(kernel: Any, gamma: Any, coef0: Any, degree: Any, survey: Any, choose_scale: bool = False) -> str:
    """The expression of a kernel.

    ``survey`` is called, only where it is needed, for the number of features and, where its argument is true, the variance of all
    values. Where the length scale is ``choose_scale`` the engine finds it.
    """
    if is_precomputed(kernel) or callable(kernel):
        raise ValueError(
            "kernel must be the name of a kernel or an expression such as 'matern(nu=2.5, sigma=3)' for files, streams and two views: "
            "precomputed matrices, distances and functions need rows in memory"
        )
    if not isinstance(kernel, str):
        raise ValueError(f"kernel must be a name or an expression, got {kernel!r}")
    if is_expression(kernel):
        if isinstance(gamma, (int, float)):
            raise ValueError(f"kernel {kernel!r} holds its own numbers; leave gamma out")
        return kernel if "(" in kernel else f"{kernel}()"
    form, reads = _EXPRESSIONS[kernel]
    if not reads:
        return form
    if choose_scale and not form.startswith(("poly", "sigmoid")):
        return f"{form.split('(')[0]}()"
    if gamma == "median":
        if form.startswith(("poly", "sigmoid")):
            raise ValueError(f"kernel {kernel!r} has no length scale: gamma must be a number, 'scale' or 'auto'")
        return f"{form.split('(')[0]}(sigma=median)"
    # scikit-learn's own default for this kernel is 1, for the others 1/n_features
    number = _gamma(1.0 if gamma is None and kernel == "chi2" else gamma, survey)
    return form.format(
        sigma=repr(math.sqrt(1.0 / (2.0 * number))),
        inverse=repr(1.0 / number),
        gamma=repr(number),
        coef0=repr(float(1.0 if coef0 is None else coef0)),
        degree=_whole(3 if degree is None else degree),
    )


def _whole(degree: Any) -> str:
    return str(int(degree)) if float(degree) == int(degree) else repr(float(degree))


def _gamma(gamma: Any, survey: Any) -> float:
    if gamma is None or gamma == "auto":
        return 1.0 / survey(False)[0]
    if gamma == "scale":
        features, variance = survey(True)
        return 1.0 / (features * variance) if variance > 0.0 else 1.0
    if isinstance(gamma, str) or not math.isfinite(gamma) or gamma <= 0.0:
        raise ValueError(f"gamma must be a number above 0, 'scale', 'auto', 'median' or None, got {gamma!r}")
    return float(gamma)
