"""What kmill is timed beside runs on the BLAS as it comes, also where the environment holds OpenBLAS to the kernels of another processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
HELD = {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_L2_SIZE": "262144"}


def seen(code: str):
    """What a program prints that runs among the scripts with OpenBLAS held to an old processor."""
    command = [sys.executable, "-c", f"import json, os, sys; sys.argv = ['script']; {code}"]
    done = subprocess.run(command, cwd=SCRIPTS, env=os.environ | HELD, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_variables_hold_openblas_where_nobody_removes_them():
    pytest.importorskip("threadpoolctl")
    kernels = seen("import numpy, blas; print(json.dumps(blas.kernels()))")
    if not any("openblas" in kernel for kernel in kernels):
        pytest.skip(f"NumPy has another BLAS here: {kernels}")
    assert any("Nehalem" in kernel for kernel in kernels)


@pytest.mark.parametrize("script", ["peers", "rates"])
def test_scripts_that_load_numpy_free_it_first(script):
    for needed in ("threadpoolctl", "pyarrow", "scipy"):
        pytest.importorskip(needed)
    kernels = seen(f"import {script}, blas; print(json.dumps(blas.kernels()))")
    assert kernels and not any("Nehalem" in kernel for kernel in kernels)


def test_peers_are_started_without_the_variables():
    child = "import json, os; print(json.dumps({name: os.environ.get(name) for name in ('OPENBLAS_CORETYPE', 'OMP_NUM_THREADS')}))"
    found = seen(f"import compare; print(json.dumps(compare.measured([sys.executable, '-c', {child!r}], 3, 60)[1]))")
    assert found == {"OPENBLAS_CORETYPE": None, "OMP_NUM_THREADS": "3"}
