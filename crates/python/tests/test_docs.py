"""Documentation: examples in docstrings, example scripts, type stubs."""

import doctest
import logging
import re
import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kmill
from kmill import _distances, _embeddings, _evaluate, _parameters, _plot, _research, _supervised, _tune, _unsupervised, _views

ROOT = Path(__file__).parent.parent
logging.disable(logging.WARNING)


MODULES = [_distances, _embeddings, _evaluate, _plot, _research, _supervised, _tune, _unsupervised, _views]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_examples_in_docstrings(module):
    result = doctest.testmod(module)
    assert result.attempted > 3 and result.failed == 0


@pytest.mark.parametrize("page", ["docs/python.md", "crates/python/README.md"])
def test_examples_of_the_guide_run(page, tmp_path, monkeypatch):
    """The Python blocks of a page run one after the other, in a folder with the tables that they read."""
    pytest.importorskip("matplotlib").use("Agg")
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    monkeypatch.chdir(tmp_path)
    random = np.random.default_rng(0)
    table = arrow.table({name: random.normal(size=600) for name in ("a", "b", "y")} | {"fold": np.arange(600) % 5})
    (tmp_path / "data").mkdir()
    for path in ("beijing-pm25.parquet", "data/part.parquet"):
        pyarrow.parquet.write_table(table, path)
    blocks = re.findall(r"^```python\n(.*?)^```$", (ROOT.parent.parent / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert blocks
    names = {"X": random.normal(size=(300, 3)), "y": random.normal(size=300)}
    for block in blocks:
        exec(compile(block, page, "exec"), names)


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
