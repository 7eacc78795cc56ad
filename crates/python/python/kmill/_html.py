"""A report as HTML, for notebooks."""

from __future__ import annotations

import html
from typing import Any

import numpy as np


def page(report: dict[str, Any]) -> str:
    """The facts of a fit, the surface as a heat map, and the seconds of its stages."""
    certificate = report["certificate"]
    facts = [
        ("solver", report["solver"]),
        ("rows", f"{report['rows']:,}"),
        ("features", report["features"]),
        ("kernel", report["kernel"]),
        ("rank", f"{report['rank']:,}"),
        ("lambda", report["lambda"]),
        ("relative trace error", None if certificate is None else f"{certificate['trace_error']:.3g}"),
        *(("warning", text) for text in report["warnings"]),
        *((name, f"{seconds:.2f} s") for name, seconds in report["seconds"].items()),
    ]
    told = [(name, value) for name, value in facts if value is not None]
    lines = "".join(f"<tr><th>{_safe(name)}</th><td>{_safe(value)}</td></tr>" for name, value in told)
    return f'<table class="kmill-report">{lines}</table>' + _surface(report["surface"])


def _safe(value: Any) -> str:
    return html.escape(str(value))


def _surface(cells: list[dict[str, Any]]) -> str:
    """Cross-validated errors by lambda and rank; darker is better."""
    errors = {(cell["lambda"], cell["rank"]): cell["cv_mse"] for cell in cells if cell["cv_mse"] is not None}
    if len(errors) < 2:
        return ""
    low, high = min(errors.values()), max(errors.values())
    span = np.log(high / low) if low > 0.0 and high > low else 1.0

    def shade(error: float) -> str:
        share = float(np.log(error / low) / span) if low > 0.0 else 0.0
        return f"background:rgba(46,110,180,{0.75 * (1.0 - share):.2f})"

    lambdas, ranks = sorted({key[0] for key in errors}), sorted({key[1] for key in errors})
    head = "".join(f"<th>{rank:,}</th>" for rank in ranks)
    rows = ""
    for penalty in lambdas:
        values = [errors.get((penalty, rank)) for rank in ranks]
        found = "".join("<td></td>" if v is None else f'<td style="{shade(v)}">{v:.4g}</td>' for v in values)
        rows += f"<tr><th>{penalty:.3g}</th>{found}</tr>"
    return f'<table class="kmill-surface"><caption>cross-validated mse</caption><tr><th>lambda \\ rank</th>{head}</tr>{rows}</table>'
