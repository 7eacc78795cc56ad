"""HTML representations in notebooks."""

import html
import pickle

import numpy as np
import pytest
import sklearn
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils import estimator_html_repr

import kmill


def rows(n=400):
    X = np.random.default_rng(0).normal(size=(n, 4))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def test_a_report_shows_the_page_of_the_command():
    X, y = rows()
    model = kmill.KernelRidge(alphas=[1e-3, 1e-1], ranks=[20, 50], metric="diagonal", scale="standard").fit(X, y)
    page = html.unescape(model.report_._repr_html_())
    # summary, surface with a cell for each combination, certificate of each rank, metric, stages
    assert page.startswith("<iframe srcdoc=") and page.count('class="heat"') >= 4 and 'id="certificate"' in page
    for text in ("ridge fit", "Surface", "Metric", "Stages of the run", f"{model.lambda_:.3g}"[:3]):
        assert text in page, text
    assert '<pre class="command">' not in page
    assert model._repr_html_() == model.report_._repr_html_()
    # notebooks call _repr_mimebundle_ first
    bundle = model._repr_mimebundle_(include=None, exclude=None)
    assert bundle == {"text/html": model.report_._repr_html_(), "text/plain": repr(model)}
    copy = pickle.loads(pickle.dumps(model))
    assert copy.report_ == model.report_ and copy.report_._repr_html_() == model.report_._repr_html_()
    # names are escaped
    classifier = kmill.SVC(rank=20).fit(X, np.where(y > 0, "<b>up", "down"))
    assert "<b>up" not in html.unescape(classifier.report_._repr_html_())


def test_scikit_learns_displays_remain():
    X, y = rows()
    model, unfitted = kmill.KernelRidge(rank=20).fit(X, y), kmill.KernelRidge(rank=20)
    assert "sk-container" in unfitted._repr_mimebundle_()["text/html"] and "iframe" not in unfitted._repr_mimebundle_()["text/html"]
    assert "iframe" not in estimator_html_repr(model) and "sk-container" in estimator_html_repr(model)
    pipeline = make_pipeline(StandardScaler(), kmill.KernelRidge(rank=20)).fit(X, y)
    html = pipeline._repr_mimebundle_()["text/html"]
    assert "sk-container" in html and "KernelRidge" in html and "iframe" not in html
    with sklearn.config_context(display="text"):
        assert model._repr_mimebundle_() == {"text/plain": repr(model)} and not hasattr(model, "_repr_html_")
        assert pipeline._repr_mimebundle_().keys() == {"text/plain"}
    with sklearn.config_context(print_changed_only=False):
        assert "alphas=None" in model._repr_mimebundle_()["text/plain"]


def test_a_loaded_model_shows_its_metadata(tmp_path):
    X, y = rows()
    kmill.KernelPCA(3, rank=30).fit(X).save(tmp_path / "m.safetensors")
    page = html.unescape(kmill.load(tmp_path / "m.safetensors")._repr_html_())
    assert "kpca model" in page and "gaussian(sigma=" in page
    assert "iframe" not in kmill.KernelPCA()._repr_html_()


def test_plot_returns_a_picture(tmp_path):
    X = np.random.default_rng(0).normal(size=(300, 2))
    y = X[:, 0] * X[:, 1] > 0
    picture = kmill.plot(kmill.SVC(gamma=1.0).fit(X, y), X, y)
    assert picture.svg.startswith("<svg") and picture.svg.count("<circle") > 200 and picture._repr_svg_() == picture.svg
    picture.save(tmp_path / "picture.svg")
    assert (tmp_path / "picture.svg").read_text() == picture.svg
    with pytest.raises(ValueError, match="does not end with .svg"):
        picture.save(tmp_path / "picture.png")
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"size": X[:, 0], "age": X[:, 1], "city": np.where(y, "Ulm", "Bonn")})
    model = kmill.KernelRidge(rank=50).fit(frame, X[:, 0])
    assert "age" in kmill.plot(model, frame, axes=("size", "age")).svg
    with pytest.raises(ValueError, match="no such feature"):
        kmill.plot(model, frame, axes=("size", "colour"))
    one = kmill.KernelRidge(rank=50).fit(X[:, :1], X[:, 0])
    assert "<path" in kmill.plot(one, X[:, :1], X[:, 0]).svg
