#!/usr/bin/env python3
"""Golden values from independent implementations, as small JSON files in tests/golden/.

    python scripts/golden.py kernels

Needs numpy and scikit-learn; their versions stand in the files. Run again only to add cases: the files are committed.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import sklearn
from sklearn.gaussian_process.kernels import Matern
from sklearn.metrics import pairwise

GOLDEN = Path(__file__).resolve().parent.parent / "tests" / "golden"


def kernels():
    """Every kernel between 7 and 5 points in 6 dimensions, one of them shared and one far away."""
    rng = np.random.default_rng(20240611)
    x, z = rng.normal(size=(7, 6)), rng.normal(size=(5, 6))
    z[2] = x[3]
    x[5] *= 4
    cases = {
        "gaussian(sigma=2)": pairwise.rbf_kernel(x, z, gamma=1 / 8),
        "laplacian(sigma=4)": pairwise.laplacian_kernel(x, z, gamma=1 / 4),
        "polynomial(degree=3, gamma=0.5, c0=1)": pairwise.polynomial_kernel(x, z, degree=3, gamma=0.5, coef0=1),
        "polynomial(degree=2, gamma=0.25, c0=0)": pairwise.polynomial_kernel(x, z, degree=2, gamma=0.25, coef0=0),
        "linear()": pairwise.linear_kernel(x, z),
        "gaussian(sigma=3) + 0.5*linear()": pairwise.rbf_kernel(x, z, gamma=1 / 18) + 0.5 * pairwise.linear_kernel(x, z),
        "cauchy(sigma=2)": 1 / (1 + pairwise.euclidean_distances(x, z, squared=True) / 4),
        "exponential(sigma=3)": Matern(length_scale=3, nu=0.5)(x, z),
    }
    for nu in (0.5, 1.5, 2.5):
        cases[f"matern(nu={nu}, sigma=3)"] = Matern(length_scale=3, nu=nu)(x, z)
    return {
        "x": x.tolist(),
        "z": z.tolist(),
        "kernels": [{"spec": spec, "values": values.tolist()} for spec, values in cases.items()],
    }


SECTIONS = {"kernels": kernels}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("section", nargs="*", choices=[*SECTIONS, []], help="which files to write (default: all)")
    versions = {"numpy": np.__version__, "scikit-learn": sklearn.__version__}
    for name in parser.parse_args().section or SECTIONS:
        path = GOLDEN / f"{name}.json"
        path.write_text(json.dumps({"versions": versions, **SECTIONS[name]()}, indent=1) + "\n")
        print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
