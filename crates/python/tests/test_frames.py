"""A data frame has the defaults of the command, an array those of scikit-learn; what is wrong is said through ``warnings``."""

import hashlib
import json
import warnings

import numpy as np
import pytest
from sklearn.model_selection import cross_val_score

import kmill

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")


def houses(n=1500):
    random = np.random.default_rng(4)
    frame = pandas.DataFrame({
        "area": random.uniform(30, 4000, n),
        "rooms": random.integers(1, 7, n).astype(float),
        "city": np.array(["Bonn", "Köln", "Ulm"])[random.integers(3, size=n)],
    })
    price = np.sin(frame["area"] / 600) + 0.2 * frame["rooms"] + (frame["city"] == "Ulm")
    return frame, price.to_numpy() + 0.05 * random.normal(size=n)


def test_a_frame_is_scaled_and_its_length_found(tmp_path):
    frame, price = houses()
    new, paid = frame[1200:], price[1200:]
    model = kmill.KernelRidge(rank=300, alpha=1e-2).fit(frame[:1200], price[:1200])
    assert model.score(new, paid) > 0.95
    assert 900 < model.report_["length"]["rows"] < 1100
    # the file has the bytes of the frame
    frame[:1200].assign(price=price[:1200]).to_parquet(tmp_path / "houses.parquet")
    filed = kmill.KernelRidge(rank=300, lambdas=1e-2 / 1200).fit_files(tmp_path / "houses.parquet", "price")
    assert np.allclose(filed.predict(new), model.predict(new), atol=1e-9)
    # and a frame of numbers alone that of the others
    numbers = frame[["area", "rooms"]]
    assert "length" in kmill.SVR().fit(numbers, price).report_
    assert "length" not in kmill.SVR(gamma=0.5).fit(numbers, price).report_


def test_numbers_that_are_times_of_day_or_count_the_rows_are_what_they_are_in_files(tmp_path):
    random = np.random.default_rng(5)
    minute = random.integers(0, 1440, 2000)
    frame = pandas.DataFrame({"id": np.arange(2000), "dep": minute // 60 * 100 + minute % 60, "x": random.normal(size=2000)})
    late = np.sin(2 * np.pi * minute / 1440) + 0.3 * frame["x"].to_numpy()
    options = {"rank": 100, "lambdas": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kmill.KernelRidge(**options).fit(frame, late)
        frame.assign(late=late).to_parquet(tmp_path / "flights.parquet")
        filed = kmill.KernelRidge(**options).fit_files(tmp_path / "flights.parquet", "late")
    assert model.feature_names_in_.tolist() == ["dep", "x"] and model._card()["features"][:2] == ["dep", "dep.hour.sin"]
    model.save(tmp_path / "frame")
    filed.save(tmp_path / "file")
    assert np.array_equal(model.predict(frame), filed.predict(frame))
    # a few new rows show nothing of it, and are read by their names
    assert np.array_equal(model.predict(frame[:7]), model.predict(frame)[:7])
    loaded = kmill.load(tmp_path / "frame")
    assert np.array_equal(loaded.predict(frame[:7]), model.predict(frame)[:7])


def test_a_stray_value_of_a_new_row_is_that_of_the_edge_in_a_frame():
    frame, price = houses()
    numbers = frame[["area", "rooms"]]
    model, plain = kmill.KernelRidge(rank=200, lambdas=1e-6).fit(numbers, price), kmill.KernelRidge(rank=200, lambdas=1e-6, clip=False).fit(numbers, price)
    stray, edge = numbers[:1].assign(area=1e6), numbers[:1].assign(area=numbers["area"].max())
    assert np.allclose(model.predict(stray), model.predict(edge)) and not np.allclose(plain.predict(stray), plain.predict(edge))
    assert np.allclose(model.predict(numbers), plain.predict(numbers))


def test_an_array_keeps_the_defaults_of_scikit_learn_and_warns():
    frame, price = houses(300)
    X = frame[["area", "rooms"]].to_numpy()
    with pytest.warns(UserWarning, match="scale='standard'"):
        plain = kmill.KernelRidge().fit(X, price)
    assert plain.kernel_ == "gaussian(sigma=1)" and "length" not in plain.report_
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        kmill.KernelRidge(scale="standard").fit(X, price)
        kmill.KernelRidge(scale="none").fit(X, price)
        kmill.KernelRidge().fit(frame[["area", "rooms"]], price)


def test_a_warning_is_given_once_and_not_by_every_fold():
    frame, price = houses(300)
    X = frame[["area", "rooms"]].to_numpy()
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("default")
        cross_val_score(kmill.SVR(), X, price, cv=5)
    assert len([warning for warning in found if "deviations" in str(warning.message)]) == 1


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_missing_values_are_treated_as_the_constructor_says(missing):
    frame, price = houses(400)
    holed = frame.copy()
    holed.loc[::7, "rooms"] = np.nan
    with pytest.raises(ValueError, match="rooms"):
        kmill.KernelRidge().fit(holed, price)
    model = kmill.KernelRidge(missing=missing).fit(holed, price)
    assert np.isfinite(model.predict(holed)).all()
    X = holed[["area", "rooms"]].to_numpy()
    with pytest.raises(ValueError, match="NaN"):
        kmill.KernelRidge().fit(X, price)
    model = kmill.KernelRidge(missing=missing, scale="standard").fit(X, price)
    assert np.isfinite(model.predict(X)).all()


def test_categories_and_times_are_parameters():
    frame, price = houses(400)
    dated = frame.assign(day=pandas.date_range("2020-01-01", periods=400))
    model = kmill.KernelRidge(categories=["rooms", "city"], times="position").fit(dated, price)
    columns = dict(model.report_["columns"])
    assert columns["rooms"] == "6 values" and set(columns) >= {"city", "rooms"}
    features = model._card()["features"]
    assert sum(name.startswith("day") for name in features) == 1
    assert model.get_params()["times"] == "position"


def test_two_views_are_loaded(tmp_path):
    t = np.random.default_rng(0).uniform(0, 6, size=300)
    X, Y = np.column_stack([np.cos(t), np.sin(t)]), t.reshape(-1, 1)
    for cls in (kmill.KernelCCA, kmill.KernelPLSSVD):
        model = cls(n_components=1, gamma=1.0, rank=50).fit(X, Y)
        model.save(tmp_path / "m.safetensors")
        loaded = kmill.load(tmp_path / "m.safetensors")
        assert type(loaded) is cls and loaded.n_features_in_ == 2
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert all(np.array_equal(a, b) for a, b in zip(loaded.transform(X, Y), model.transform(X, Y)))
        assert hashlib.sha256(loaded.model_.to_bytes()).digest() == hashlib.sha256(model.model_.to_bytes()).digest()


def test_a_second_view_may_have_several_columns():
    X = np.random.default_rng(0).normal(size=(200, 3))
    for cls in (kmill.KernelCCA, kmill.KernelPLSSVD):
        first, second = cls(n_components=1, rank=50).fit(X, X[:, :2] ** 3).transform(X, X[:, :2] ** 3)
        assert first.shape == second.shape == (200, 1) and np.corrcoef(first[:, 0], second[:, 0])[0, 1] > 0.8


def test_a_column_without_a_value_is_missing_in_new_rows_and_no_feature_of_a_fit():
    frame, price = houses(400)
    frame.loc[::7, "rooms"] = np.nan
    model = kmill.KernelRidge(rank=50, lambdas=1e-4, missing="indicator").fit(frame, price)
    some = frame[:50].assign(rooms=np.nan)
    for blank in (None, pandas.NA):
        assert np.allclose(model.predict(frame[:50].assign(rooms=blank)), model.predict(some), rtol=1e-12)
    with pytest.warns(UserWarning, match="(?s)rooms.*no value"):
        without = kmill.KernelRidge(rank=50, lambdas=1e-4, missing="indicator").fit(frame.assign(rooms=None), price)
    assert "rooms" not in json.loads(without.model_.card())["features"]
    assert np.allclose(without.predict(frame), kmill.KernelRidge(rank=50, lambdas=1e-4).fit(frame[["area", "city"]], price).predict(frame))
