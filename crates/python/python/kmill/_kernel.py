"""Converts scikit-learn's kernel names and parameters to kernel expressions of the engine."""

from __future__ import annotations

import math
from typing import Any

# scikit-learn's name -> (template of the expression, "gamma" if the kernel has parameters)
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

# with these kernels X is a square matrix: of kernel values, or of distances
_PRECOMPUTED = ("precomputed", "distances")


def is_precomputed(kernel: Any) -> bool:
    """Returns whether X is a matrix of kernel values or distances between all pairs of rows."""
    return isinstance(kernel, str) and kernel in _PRECOMPUTED


def is_expression(kernel: Any) -> bool:
    """Returns whether a kernel is an expression of the engine, such as ``matern(nu=2.5, sigma=3)``."""
    return isinstance(kernel, str) and kernel not in _EXPRESSIONS and kernel not in _PRECOMPUTED


def expression(kernel: Any, gamma: Any, coef0: Any, degree: Any, survey: Any, choose_scale: bool = False) -> str:
    """Returns the expression of a kernel.

    ``survey(variance)`` returns the number of features and, if ``variance`` is true, the variance of all values; it is called only if
    ``gamma`` depends on them. If ``choose_scale`` is true, the engine chooses the length scale.
    """
    if is_precomputed(kernel) or callable(kernel):
        raise ValueError(
            "for files, streams and two views kernel must be the name of a kernel or an expression such as 'matern(nu=2.5, sigma=3)'; "
            "precomputed matrices, distances and functions need rows in memory: pass an array to fit"
        )
    if not isinstance(kernel, str):
        raise ValueError(f"kernel must be a name, an expression or a callable, got {kernel!r}")
    if is_expression(kernel):
        if isinstance(gamma, (int, float)):
            raise ValueError(f"gamma={gamma!r} conflicts with kernel {kernel!r}, an expression with its own parameters; leave gamma out")
        return kernel if "(" in kernel else f"{kernel}()"
    template, parameters = _EXPRESSIONS[kernel]
    if not parameters:
        return template
    if choose_scale and not template.startswith(("poly", "sigmoid")):
        return f"{template.split('(')[0]}()"
    if gamma == "median":
        if template.startswith(("poly", "sigmoid")):
            raise ValueError(f"gamma='median' is a length scale, and kernel {kernel!r} has none; gamma must be a number, 'scale' or 'auto'")
        return f"{template.split('(')[0]}(sigma=median)"
    # scikit-learn's default is 1 for chi2, and 1/n_features for the other kernels
    value = _gamma(1.0 if gamma is None and kernel == "chi2" else gamma, survey)
    return template.format(
        sigma=repr(math.sqrt(1.0 / (2.0 * value))),
        inverse=repr(1.0 / value),
        gamma=repr(value),
        coef0=repr(float(1.0 if coef0 is None else coef0)),
        degree=_degree(3 if degree is None else degree),
    )


def _degree(degree: Any) -> str:
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
