"""Jobs: files, model files, signals, threads, forks, memory, and the cost of a call."""

import logging
import math
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from sklearn.base import clone, is_classifier

import kmill
from kmill._parameters import check

logging.disable(logging.WARNING)


def rows(n=2000, d=5):
    X = np.random.default_rng(0).normal(size=(n, d))
    return X, np.sin(X[:, 0]) + X[:, 1] * X[:, 2]


def test_files_in_and_out(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    X, y = rows()
    table = arrow.table({f"x{j}": X[:, j] for j in range(5)} | {"y": y, "kind": np.where(y > 0, "up", "down")})
    for part in range(2):
        pyarrow.parquet.write_table(table.slice(1000 * part, 1000), tmp_path / f"part{part}.parquet")
    pattern = tmp_path / "part*.parquet"
    model = kmill.KernelRidge(lambdas=1e-6, rank=100).fit_files(pattern, "y", features=["x*"], rows="..1500", scratch=tmp_path)
    assert model.report_["rows"] == 1500
    assert model.predict_files(pattern, tmp_path / "p.parquet", keep=["y"], rows="1500..") == 500
    written = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    assert written.column_names == ["y", "prediction"]
    frame = pytest.importorskip("pandas").DataFrame(X[1500:], columns=model.feature_names_in_)
    assert np.array_equal(written["prediction"].to_numpy(), model.predict(frame))
    noisy = kmill.KernelRidge(lambdas=1e-3, rank=50, std=True).fit_files(pattern, "y", features=["x*"])
    noisy.predict_files(pattern, tmp_path / "p.parquet", extras=["std"])
    written = pyarrow.parquet.read_table(tmp_path / "p.parquet")
    mean, deviation = noisy.predict(table.select(list(noisy.feature_names_in_))), noisy._extra(table, "std")[1].ravel()
    assert np.array_equal(written["prediction"], mean) and np.array_equal(written["std"], deviation)
    classes = kmill.KernelLogisticRegression(rank=50).fit_files(pattern, "kind", features=["x*"])
    assert list(classes.classes_) == ["down", "up"]
    assert classes.predict_files(pattern, tmp_path / "c.csv", extras=["probabilities"]) == 2000
    # the fold column is not a feature, so gamma is 1/5
    grouped = kmill.KernelRidge(lambdas=[1e-6, 1e-3], rank=50, cv="column:kind", gamma="auto").fit_files(pattern, "y")
    assert grouped.kernel_ == f"gaussian(sigma={np.sqrt(2.5)})" and len(grouped.report_["surface"]) == 2
    assert sorted(os.listdir(tmp_path)) == ["c.csv", "p.parquet", "part0.parquet", "part1.parquet"]


def test_fits_run_if_the_system_refuses_threads():
    script = """
import os, resource, warnings
import numpy as np, kmill
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal(size=(9000, 3))
# load all modules before the user changes
kmill.KernelRidge(rank=20, lambdas=1e-3).fit(X[:500], X[:500, 0]).score(X, X[:, 0])
os.setuid(65534)
resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
model = kmill.KernelRidge(rank=20, lambdas=1e-3).fit(X[:500], X[:500, 0])
print(np.isfinite(model.predict(X)).all())
try:
    kmill.KernelRidge(rank=20, memory="1MiB").fit(X, X[:, 0])
except MemoryError:
    print("rejected")
"""
    if os.getuid() != 0:
        pytest.skip("the limit of threads is set for another user")
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, env={**os.environ, "OPENBLAS_NUM_THREADS": "1"})
    assert ended.stdout.split() == ["True", "rejected"] and "panicked" not in ended.stderr, ended.stderr


def test_types_and_missing_words_of_text_files(tmp_path):
    lines = [f"{i % 7:05d},{'-' if i % 5 == 0 else 'ab'[i % 2]},{i % 7 + i % 2}" for i in range(400)]
    (tmp_path / "t.csv").write_text("zip,kind,y\n" + "\n".join(lines))
    own = {"lambdas": 1e-6, "rank": 40, "missing": "indicator"}
    plain = kmill.KernelRidge(**own).fit_files(tmp_path / "t.csv", "y")
    typed = kmill.KernelRidge(**own).fit_files(tmp_path / "t.csv", "y", types={"zip": "number"}, missing_words=["-"])
    features = [model.model_.features for model in (plain, typed)]
    # zip has seven categories, kind three; then zip is a number, and kind has two categories and an indicator
    assert features == [10, 4], features
    assert typed.predict_files(tmp_path / "t.csv", tmp_path / "p.csv") == 400
    assert np.corrcoef(np.loadtxt(tmp_path / "p.csv", skiprows=1), [i % 7 + i % 2 for i in range(400)])[0, 1] > 0.9
    chosen = kmill.tune(str(tmp_path / "t.csv"), "y", "ridge", work="1,0", task="regression", types={"zip": "number"}, missing="indicator")
    assert "zip" in chosen.model_.card()
    with pytest.raises(ValueError, match="text, number or date"):
        kmill.KernelRidge().fit_files(tmp_path / "t.csv", "y", types={"zip": "code"})


ESTIMATORS = sorted(name for name in kmill.__all__ if hasattr(getattr(kmill, name), "_parameters"))


@pytest.mark.parametrize("name", ESTIMATORS)
def test_models_are_saved_loaded_and_pickled(name, tmp_path):
    X, y = rows(300)
    cls = getattr(kmill, name)
    # classifiers have a decision function
    y = y > 0 if hasattr(cls, "decision_function") else y
    # counts are positive
    y = np.exp(y) if name == "KernelGLM" else y
    sizes = {"n_clusters": 3, "n_components": 20, "rank": 20}
    # the number of components is limited by the classes, the columns and the landmarks
    sizes["n_components"] = {"KernelFisher": 1, "KernelDimensionReduction": 2, "MaximumVarianceUnfolding": 2, "MDS": 4}.get(name, 19)
    model = cls(**{size: value for size, value in sizes.items() if size in cls().get_params()}).fit(X, y)
    model.save(tmp_path / "m.safetensors")
    if name in ("KernelCCA", "KernelPLSSVD"):
        for again in (kmill.load(tmp_path / "m.safetensors"), pickle.loads(pickle.dumps(model))):
            assert type(again) is cls and again.model_.to_bytes() == model.model_.to_bytes()
            np.testing.assert_array_equal(again.transform(X), model.transform(X))
        return
    loaded = kmill.load(tmp_path / "m.safetensors")
    # the file has the parameters of a feature map, but not the estimator class RandomFourier
    assert type(loaded) is (kmill.Nystroem if name == "RandomFourier" else cls)
    assert loaded.model_.to_bytes() == model.model_.to_bytes() == pickle.loads(pickle.dumps(model)).model_.to_bytes()
    assert clone(model).fit(X, y).model_.to_bytes() == model.model_.to_bytes()
    if name not in ("RandomFourier", "MaximumVarianceUnfolding"):
        # the file has the parameters of the fit, except for the number of landmarks of mvu
        loaded = loaded.set_params(map=None) if "map" in loaded.get_params() else loaded
        again = loaded.fit(X, y).model_.predict(X)
        np.testing.assert_allclose(again, model.model_.predict(X), rtol=1e-6, atol=1e-6)


def test_concurrent_fits_are_bit_identical_to_sequential_fits():
    X, y = rows()
    alone = [kmill.KernelRidge(rank=100, random_state=seed).fit(X, y).model_.to_bytes() for seed in range(4)]
    concurrent = [b""] * 4

    def fit(seed):
        concurrent[seed] = kmill.KernelRidge(rank=100, random_state=seed, n_jobs=1 + seed % 2).fit(X, y).model_.to_bytes()

    threads = [threading.Thread(target=fit, args=[seed]) for seed in range(4)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert concurrent == alone


def _forked(queue, X, y):
    queue.put(kmill.KernelRidge(rank=50).fit(X, y).predict(X).sum())


def test_a_fork_can_fit_and_predict():
    X, y = rows()
    here = kmill.KernelRidge(rank=50).fit(X, y).predict(X).sum()
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    process = context.Process(target=_forked, args=(queue, X, y))
    process.start()
    assert queue.get(timeout=60) == here
    process.join()


def processor_seconds(pid):
    fields = open(f"/proc/{pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@pytest.mark.skipif(not os.path.exists("/proc/self/stat"), reason="needs /proc")
def test_ctrl_c_stops_within_a_second(tmp_path):
    code = """
import sys, time, numpy as np, kmill
X = np.random.default_rng(0).normal(size=(200_000, 20))
kmill.KernelRidge(rank=10).fit(X[:100], X[:100, 0])  # loads modules
print("go", flush=True)
try:
    kmill.KernelRidge(rank=3000, n_jobs=2).fit(X, X[:, 0])
except KeyboardInterrupt:
    print("stopped", time.process_time(), flush=True)
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert process.stdout.readline() == "go\n"
    # the engine is running once the process has used a second of processor time, whatever the load of the machine
    began = processor_seconds(process.pid)
    while processor_seconds(process.pid) < began + 1.0:
        assert process.poll() is None
        time.sleep(0.01)
    began = processor_seconds(process.pid)
    process.send_signal(signal.SIGINT)
    word, ended = process.stdout.readline().split()
    process.wait()
    assert os.listdir(tmp_path) == [] and word == "stopped"
    # one second of two threads; processor time does not depend on other processes
    assert float(ended) - began < 2.0


def test_repeated_fits_do_not_leak_memory():
    pages = lambda: int(open("/proc/self/statm").read().split()[1]) * 4096
    if not os.path.exists("/proc/self/statm"):
        pytest.skip("needs /proc")
    X, y = rows(200)
    fit = lambda: kmill.KernelRidge(rank=20).fit(X, y).predict(X)
    [fit() for _ in range(200)]
    before = pages()
    [fit() for _ in range(800)]
    assert pages() - before < 16 << 20


def test_predicting_single_rows_is_fast():
    X, y = rows(4000, 10)
    model = kmill.KernelRidge(rank=1000, gamma="median").fit(X, y)
    assert model.rank_ == 1000
    row = X[:1].copy()
    times = []
    for _ in range(2000):
        # processor time does not depend on other processes
        began = time.process_time()
        model.predict(row)
        times.append(time.process_time() - began)
    assert np.median(times) < 500e-6  # about 100 us on an idle machine
    assert model.predict(row)[0] == model.predict(X)[0]


def test_progress_and_warnings(capsys, caplog):
    X, y = rows(20_000)
    kmill.KernelRidge(rank=1000, verbose=1).fit(X, y)
    assert "Gram matrix" in capsys.readouterr().err
    logging.disable(logging.NOTSET)
    with caplog.at_level(logging.INFO, logger="kmill"):
        kmill.KernelRidge(rank=4000).fit(X[:100], y[:100])
    logging.disable(logging.WARNING)
    assert any("rank reduced" in record.message for record in caplog.records)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_type_errors_name_the_parameter(name):
    X, y = rows(60, 3)
    y = y > 0 if is_classifier(getattr(kmill, name)()) else np.column_stack([y, -y]) if name in ("KernelCCA", "KernelPLSSVD") else y
    for parameter in getattr(kmill, name)._parameters:
        for wrong in ["a", 1j, object, [None], {}]:
            try:
                check(parameter.name, wrong, parameter.type)
                continue  # valid for this type, or checked elsewhere
            except ValueError as error:
                message = str(error)
            model = getattr(kmill, name)(**{parameter.name: wrong})
            with pytest.raises(ValueError) as raised:
                model.fit(X, y)
            assert str(raised.value) == message and "\n" not in message, (parameter, wrong)
            assert message.startswith(f"{parameter.name} must be ") and "got " in message


def test_type_errors_name_the_argument(tmp_path):
    arrow = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    X, y = rows(60, 3)
    pyarrow.parquet.write_table(arrow.table({f"x{j}": X[:, j] for j in range(3)} | {"y": y}), tmp_path / "t.parquet")
    path = tmp_path / "t.parquet"
    for arguments in [{"hash": "a"}, {"where": 5}, {"rows": 5}, {"missing": 5}, {"features": 5}, {"categories": 5}, {"target": 5},
                  {"sample_weight": 5}, {"memory": 1j}, {"patience": "a"}]:
        name = next(iter(arguments))
        with pytest.raises(ValueError, match=f"^{name} must be .*, got "):
            kmill.KernelRidge(rank=5).fit_files(path, **{"target": "y", **arguments})
    model = kmill.KernelRidge(rank=5).fit_files(path, "y")
    for arguments in [{"keep": 5}, {"extras": 5}, {"where": 5}, {"rows": 5}, {"missing": 5}, {"memory": 1j}]:
        name = next(iter(arguments))
        with pytest.raises(ValueError, match=f"^{name} must be .*, got "):
            model.predict_files(path, tmp_path / "p.csv", **arguments)
    for call in [lambda: kmill.curve(X, ranks=5), lambda: kmill.curve(X, sample="a"), lambda: kmill.curve(X, repeats="a"),
                 lambda: kmill.tune(X, y, sample="a"), lambda: kmill.tune(X, y, kernels=5), lambda: kmill.tune(X, y, time="a")]:
        with pytest.raises(ValueError, match="must be .*, got "):
            call()


def test_dates_are_features_in_frames_and_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    days = pandas.date_range("2019-01-01", periods=900)
    y = np.where(days.weekday < 5, 1.0, -1.0)
    table = pandas.DataFrame({"day": days, "a": np.sin(np.arange(900.0))})
    table.assign(y=y).to_csv(tmp_path / "t.csv", index=False)
    table.assign(y=y).to_parquet(tmp_path / "t.parquet")
    new = lambda: kmill.KernelRidge(kernel="gaussian(sigma=1)", scale="standard", rank=200)  # noqa: E731
    of_frame = new().fit(table, y)
    assert of_frame.score(table, y) > 0.9
    of_files = [new().fit_files(tmp_path / name, "y") for name in ("t.csv", "t.parquet")]
    for model, name in zip(of_files, "ab"):
        model.save(tmp_path / name)
        assert np.array_equal(model.predict(table), of_frame.predict(table))
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()
    assert "day.weekday.sin" in of_files[0]._read_card()["features"]
    left_out = new().fit_files(tmp_path / "t.csv", "y", features=["a", "day"], times="position")
    assert left_out.score(table, y) < 0.5


def test_errors_about_durations_name_the_column():
    pandas = pytest.importorskip("pandas")
    X, y = rows(60, 3)
    table = pandas.DataFrame(X, columns=list("abc"))
    model = kmill.KernelRidge(rank=5).fit(table, y)
    table["b"] = pandas.to_timedelta(np.arange(60), unit="D")
    for call in (lambda: model.predict(table), lambda: kmill.KernelRidge(rank=5).fit(table, y)):
        with pytest.raises(ValueError, match="column 'b' of X has type timedelta64.*convert the column to numbers, or drop it"):
            call()


def test_past_values_of_files_are_features_and_are_forecast(tmp_path):
    hours, stations = 200, ["north", "south"]
    lines, counts = ["hour,station,count"], [20.0, 30.0]
    for hour in range(hours):
        for s, station in enumerate(stations):
            counts[s] = 0.8 * counts[s] + 6 + s + 5 * math.sin(hour / 4) + (hour * 37 + s * 91) % 101 / 101
            lines.append(f"{hour},{station},{counts[s] if hour < hours - 6 else ''}")
    (tmp_path / "counts.csv").write_text("\n".join(lines) + "\n")
    model = kmill.KernelRidge(rank=40, lambdas=1e-5, missing="drop").fit_files(
        tmp_path / "counts.csv", "count", lags={"count": [1, 24]}, rolling={"count": 6}, by="station", order="hour")
    assert list(model.feature_names_in_)[-3:] == ["count_lag1", "count_lag24", "count_mean6"]
    rows = model.predict_files(tmp_path / "counts.csv", tmp_path / "out.csv", where=f"hour >= {hours - 6}", keep=["hour"])
    forecast = [float(line.split(",")[1]) for line in (tmp_path / "out.csv").read_text().splitlines()[1:]]
    assert rows == len(forecast) == 12 and all(math.isfinite(value) for value in forecast)
    model.fit_files(tmp_path / "counts.csv", "count", lags={"count": [1, 24]}, by="station", order="hour", difference={"count": 1})
    assert list(model.feature_names_in_)[-1] == "count_lag24_minus_lag1"
    model.predict_files(tmp_path / "counts.csv", tmp_path / "level.csv", where=f"hour >= {hours - 6}", keep=["hour"])
    level = [float(line.split(",")[1]) for line in (tmp_path / "level.csv").read_text().splitlines()[1:]]
    np.testing.assert_allclose(level, forecast, rtol=0.2)
    with pytest.raises(ValueError, match="difference names 2 columns"):
        model.fit_files(tmp_path / "counts.csv", "count", lags={"count": 1}, difference={"count": 1, "hour": 1})
    with pytest.raises(ValueError, match="sort the table"):
        model.fit_files(tmp_path / "counts.csv", "count", lags={"count": 1}, order="hour")
    with pytest.raises(ValueError, match="dictionary"):
        model.fit_files(tmp_path / "counts.csv", "count", lags="count:1")
