"""Data frames have the defaults of the command, arrays those of scikit-learn; both issue warnings through ``warnings``."""

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


def test_a_frame_is_scaled_and_its_length_scale_chosen(tmp_path):
    frame, price = houses()
    new, new_price = frame[1200:], price[1200:]
    model = kmill.KernelRidge(rank=300, alpha=1e-2).fit(frame[:1200], price[:1200])
    assert model.score(new, new_price) > 0.95
    assert 900 < model.report_["length"]["rows"] < 1100
    # a fit on a file gives the same predictions
    frame[:1200].assign(price=price[:1200]).to_parquet(tmp_path / "houses.parquet")
    from_file = kmill.KernelRidge(rank=300, lambdas=1e-2 / 1200).fit_files(tmp_path / "houses.parquet", "price")
    assert np.allclose(from_file.predict(new), model.predict(new), atol=1e-9)
    # a purely numeric frame has the same defaults
    numbers = frame[["area", "rooms"]]
    assert "length" in kmill.SVR().fit(numbers, price).report_
    assert "length" not in kmill.SVR(gamma=0.5).fit(numbers, price).report_


def test_times_of_day_and_row_counters_are_recognised_as_in_files(tmp_path):
    random = np.random.default_rng(5)
    minute = random.integers(0, 1440, 2000)
    frame = pandas.DataFrame({"id": np.arange(2000), "dep": minute // 60 * 100 + minute % 60, "x": random.normal(size=2000)})
    late = np.sin(2 * np.pi * minute / 1440) + 0.3 * frame["x"].to_numpy()
    options = {"rank": 100, "lambdas": 1e-6}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = kmill.KernelRidge(**options).fit(frame, late)
        frame.assign(late=late).to_parquet(tmp_path / "flights.parquet")
        from_file = kmill.KernelRidge(**options).fit_files(tmp_path / "flights.parquet", "late")
    assert model.feature_names_in_.tolist() == ["dep", "x"] and model._card()["features"][:2] == ["dep", "dep.hour.sin"]
    model.save(tmp_path / "frame")
    from_file.save(tmp_path / "file")
    assert np.array_equal(model.predict(frame), from_file.predict(frame))
    # a few new rows do not show the type of a column; they are matched by name
    assert np.array_equal(model.predict(frame[:7]), model.predict(frame)[:7])
    loaded = kmill.load(tmp_path / "frame")
    assert np.array_equal(loaded.predict(frame[:7]), model.predict(frame)[:7])


def test_new_rows_of_a_frame_are_clipped_to_the_training_range():
    frame, price = houses()
    numbers = frame[["area", "rooms"]]
    model, plain = kmill.KernelRidge(rank=200, lambdas=1e-6).fit(numbers, price), kmill.KernelRidge(rank=200, lambdas=1e-6, clip=False).fit(numbers, price)
    outlier, edge = numbers[:1].assign(area=1e6), numbers[:1].assign(area=numbers["area"].max())
    assert np.allclose(model.predict(outlier), model.predict(edge)) and not np.allclose(plain.predict(outlier), plain.predict(edge))
    assert np.allclose(model.predict(numbers), plain.predict(numbers))


def test_an_array_has_the_defaults_of_scikit_learn_and_warns():
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


def test_a_warning_is_issued_once_for_all_folds():
    frame, price = houses(300)
    X = frame[["area", "rooms"]].to_numpy()
    with warnings.catch_warnings(record=True) as issued:
        warnings.simplefilter("default")
        cross_val_score(kmill.SVR(), X, price, cv=5)
    assert len([warning for warning in issued if "deviations" in str(warning.message)]) == 1


@pytest.mark.parametrize("missing", ["mean", "indicator"])
def test_the_constructor_defines_the_treatment_of_missing_values(missing):
    frame, price = houses(400)
    incomplete = frame.copy()
    incomplete.loc[::7, "rooms"] = np.nan
    with pytest.raises(ValueError, match="rooms"):
        kmill.KernelRidge().fit(incomplete, price)
    model = kmill.KernelRidge(missing=missing).fit(incomplete, price)
    assert np.isfinite(model.predict(incomplete)).all()
    X = incomplete[["area", "rooms"]].to_numpy()
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


def test_a_column_without_values_is_missing_in_new_rows_and_omitted_by_a_fit():
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
