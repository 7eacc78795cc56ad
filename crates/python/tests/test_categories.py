"""Text, categorical and Boolean columns in every kind of table."""

import hashlib
import logging

import numpy as np
import pytest

import kmill

logging.disable(logging.WARNING)


def sales(n=600):
    random = np.random.default_rng(0)
    city = np.array(["Bonn", "Köln", "Ulm"])[random.integers(3, size=n)]
    open_ = random.random(n) < 0.5
    size = random.normal(size=n)
    price = np.where(city == "Ulm", 2.0, 0.0) + np.sin(size) * open_
    return {"city": city, "open": open_, "size": size}, price


def model(**more):
    return kmill.KernelRidge(kernel="gaussian(sigma=1)", scale="none", rank=60, lambdas=1e-5, **more)


def digest(fitted):
    return hashlib.sha256(fitted.model_.to_bytes()).hexdigest()


def test_all_table_types_give_the_same_model(tmp_path):
    arrow, pandas = pytest.importorskip("pyarrow"), pytest.importorskip("pandas")
    columns, price = sales()
    frame = pandas.DataFrame(columns)
    fitted = model().fit(frame, price)
    assert list(fitted.feature_names_in_) == ["city", "open", "size"] and fitted.n_features_in_ == 3
    assert fitted.report_["columns"] == [["city", "3 values"]]
    others = [frame.astype({"city": "category"}), frame.astype({"city": "string"}), frame.set_index(frame.index + 5),
              arrow.table(columns)]
    try:
        import polars

        others += [polars.DataFrame(columns), polars.DataFrame(columns).with_columns(polars.col("city").cast(polars.Categorical))]
    except ImportError:
        pass
    for other in others:
        again = model().fit(other, price)
        assert digest(again) == digest(fitted), type(other)
        assert np.array_equal(again.predict(other), fitted.predict(frame))
    frame.assign(price=price).to_csv(tmp_path / "sales.csv", index=False)
    assert np.allclose(model().fit_files(tmp_path / "sales.csv", "price").predict(frame), fitted.predict(frame), atol=1e-4)


def test_categories_equal_indicators_and_accept_new_values(tmp_path):
    pandas = pytest.importorskip("pandas")
    columns, price = sales()
    frame = pandas.DataFrame(columns)
    fitted = model().fit(frame, price)
    flags = [frame["city"] == city for city in ["Bonn", "Köln", "Ulm"]]
    indicators = np.column_stack([*flags, frame["open"], frame["size"]]).astype(float)
    assert np.array_equal(model().fit(indicators, price).predict(indicators), fitted.predict(frame))
    fitted.save(tmp_path / "m.safetensors")
    loaded = kmill.load(tmp_path / "m.safetensors")
    new = frame.head(4).assign(city=["Oslo", "Ulm", "Bonn", "Oslo"])
    assert np.array_equal(loaded.predict(new), fitted.predict(new)) and np.isfinite(loaded.predict(new)).all()
    with pytest.raises(ValueError, match="columns of categories"):
        fitted.predict(indicators)


def test_classifiers_and_missing_values(tmp_path):
    pandas = pytest.importorskip("pandas")
    columns, price = sales()
    frame = pandas.DataFrame(columns)
    classifier = kmill.SVC(kernel="gaussian(sigma=1)", rank=40).fit(frame, price > 1)
    assert classifier.score(frame, price > 1) > 0.9
    incomplete = frame.assign(price=price)
    incomplete.loc[::9, "city"] = None
    incomplete.to_parquet(tmp_path / "t.parquet")
    with pytest.raises(ValueError, match="city"):
        model().fit_files(tmp_path / "t.parquet", "price")
    fitted = model().fit_files(tmp_path / "t.parquet", "price", missing="indicator")
    assert fitted.report_["columns"] == [["city", "3 values and missing"]]
    assert fitted.predict_files(tmp_path / "t.parquet", tmp_path / "out.parquet") == len(frame)
