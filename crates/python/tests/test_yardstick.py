"""Benchmarks run other programs with OpenBLAS's default kernels, even if environment variables select the kernels of another processor."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[3] / "scripts"
OLD_KERNELS = {"OPENBLAS_CORETYPE": "Nehalem", "OPENBLAS_L2_SIZE": "262144"}


def output_of(code: str):
    """Runs code in the folder of the scripts, with OpenBLAS set to the kernels of an old processor, and returns its output."""
    command = [sys.executable, "-c", f"import json, os, sys; sys.argv = ['script']; {code}"]
    done = subprocess.run(command, cwd=SCRIPTS, env=os.environ | OLD_KERNELS, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)


def test_the_variables_select_old_kernels_unless_removed():
    pytest.importorskip("threadpoolctl")
    kernels = output_of("import numpy, blas; print(json.dumps(blas.kernels()))")
    if not any("openblas" in kernel for kernel in kernels):
        pytest.skip(f"NumPy has another BLAS here: {kernels}")
    assert any("Nehalem" in kernel for kernel in kernels)


@pytest.mark.parametrize("script", ["peers", "rates"])
def test_scripts_remove_the_variables_before_numpy_is_loaded(script):
    for needed in ("threadpoolctl", "pyarrow", "scipy"):
        pytest.importorskip(needed)
    kernels = output_of(f"import {script}, blas; print(json.dumps(blas.kernels()))")
    assert kernels and not any("Nehalem" in kernel for kernel in kernels)


def test_peers_run_without_the_variables():
    child = "import json, os; print(json.dumps({name: os.environ.get(name) for name in ('OPENBLAS_CORETYPE', 'OMP_NUM_THREADS')}))"
    variables = output_of(f"import compare; print(json.dumps(compare.measured([sys.executable, '-c', {child!r}], 3, 60)[1]))")
    assert variables == {"OPENBLAS_CORETYPE": None, "OMP_NUM_THREADS": "3"}
