"""Documentation: examples in docstrings, example scripts, type stubs."""

import doctest
import logging
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

import kmill
from kmill import _distances, _embeddings, _parameters, _research, _supervised, _tune, _unsupervised, _views

ROOT = Path(__file__).parent.parent
logging.disable(logging.WARNING)


@pytest.mark.parametrize("module", [_distances, _embeddings, _research, _supervised, _tune, _unsupervised, _views], ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted > 3 and result.failed == 0


def test_every_parameter_is_described():
    for name in kmill.__all__:
        cls = getattr(kmill, name)
        for parameter in getattr(cls, "_parameters", []):
            assert f"\n{parameter.name} : " in cls.__doc__, (name, parameter.name)
    # every parameter of the solver is a parameter of the estimator; weights are an argument of fit
    svc = {parameter.engine for parameter in kmill.SVC._parameters} - {None}
    assert svc == {p["name"] for p in _parameters._SOLVERS["svm"]["parameters"]} - {"weights"}


def test_stubs_match_the_classes():
    assert subprocess.run([sys.executable, ROOT / "stubs.py", "--check"]).returncode == 0


def test_a_user_script_passes_mypy():
    pytest.importorskip("mypy")
    done = subprocess.run([sys.executable, "-m", "mypy", "--strict", ROOT / "tests" / "typed.py"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_a_user_script_passes_pyright():
    pytest.importorskip("pyright")
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, ROOT / "tests" / "typed.py"]
    done = subprocess.run(command, capture_output=True, text=True)
    if "error:" not in done.stdout and "0 errors" not in done.stdout:
        pytest.skip("pyright fetches its program from the network")
    assert "0 errors" in done.stdout, done.stdout


@pytest.mark.parametrize("script", sorted((ROOT / "examples").glob("*.py")), ids=lambda path: path.stem)
def test_examples_run(script, tmp_path, monkeypatch):
    pytest.importorskip("pyarrow")
    if "plot" in script.stem:
        pytest.importorskip("matplotlib").use("Agg")
    monkeypatch.chdir(tmp_path)
    runpy.run_path(str(script))
