"""Models that a user would use instead of kmill tune: gradient boosting with default and with tuned parameters, and xRFM.

Tuning tries the defaults, then random parameters, as many as --time allows. Each trial is fitted on four fifths of the training rows; the
other rows are validation rows, for early stopping and for the choice. Boosting is then fitted on all training rows. xRFM returns the model of
the best trial, because its fit needs validation rows.
"""

import time

import numpy as np

# maximum number of trees, and rounds without improvement, with early stopping
MAX_TREES = 5_000
PATIENCE = 100


def is_classification(y):
    return not np.issubdtype(y.dtype, np.floating)


def error(model, x, y):
    """Returns the error rate, or the mean squared error."""
    prediction = np.asarray(model.predict(x)).ravel()
    return float(np.mean(prediction != y if is_classification(y) else (prediction.astype(np.float64) - y) ** 2))


def wrong_pairs(scores, grades, groups):
    """Returns the fraction of wrongly ordered pairs, among pairs of rows of a group with different grades; equal scores count one half."""
    wrong = pairs = 0
    for first in np.split(np.arange(len(groups)), np.flatnonzero(np.diff(groups)) + 1):
        better = grades[first][:, None] > grades[first]
        lead = (scores[first][:, None] - scores[first])[better]
        wrong, pairs = wrong + np.sum(lead < 0) + 0.5 * np.sum(lead == 0), pairs + len(lead)
    return float(wrong / pairs)


def split(y, seed):
    """Returns the indices of training rows (four fifths) and validation rows."""
    rows = np.random.default_rng(seed).permutation(len(y))
    return rows[len(y) // 5 :], rows[: len(y) // 5]


def hgb(a, classes, **_):
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return (HistGradientBoostingClassifier if classes else HistGradientBoostingRegressor)(random_state=a.seed)


def xgboost(a, classes, **_):
    from xgboost import XGBClassifier, XGBRegressor

    return (XGBClassifier if classes else XGBRegressor)(n_jobs=a.threads, random_state=a.seed)


def lightgbm(a, classes, trees=None, **settings):
    from lightgbm import LGBMClassifier, LGBMRegressor

    settings |= {"n_estimators": trees} if trees else {}
    kind = LGBMClassifier if classes else LGBMRegressor
    return kind(n_jobs=a.threads, random_state=a.seed, verbose=-1, **settings)


def lightgbm_ranker(a, *_):
    from lightgbm import LGBMRanker

    return LGBMRanker(n_jobs=a.threads, random_state=a.seed, verbose=-1)


def catboost(a, classes, trees=None, **settings):
    from catboost import CatBoostClassifier, CatBoostRegressor

    settings |= {"iterations": trees} if trees else {}
    kind = CatBoostClassifier if classes else CatBoostRegressor
    return kind(thread_count=a.threads, random_seed=a.seed, verbose=0, allow_writing_files=False, **settings)


def lightgbm_settings(random):
    return {
        "learning_rate": float(10 ** random.uniform(-2, -0.5)),
        "num_leaves": int(random.choice([15, 31, 63, 127, 255])),
        "min_child_samples": int(random.choice([2, 5, 10, 20, 50])),
        "colsample_bytree": float(random.choice([0.5, 0.7, 1.0])),
        "subsample": float(random.choice([0.7, 0.9, 1.0])),
        "subsample_freq": 1,
        "reg_lambda": float(10 ** random.uniform(-6, 1)),
    }


def catboost_settings(random):
    return {
        "learning_rate": float(10 ** random.uniform(-1.7, -0.5)),
        "depth": int(random.choice([4, 6, 8, 10])),
        "l2_leaf_reg": float(10 ** random.uniform(-0.5, 1)),
        "random_strength": float(10 ** random.uniform(-1, 0.5)),
    }


def lightgbm_trees(model, x, y, validation):
    """Fits until the validation error stops improving; returns the number of trees."""
    import lightgbm as library

    model.fit(x, y, eval_set=[validation], callbacks=[library.early_stopping(PATIENCE, verbose=False)])
    return model.best_iteration_


def catboost_trees(model, x, y, validation):
    model.fit(x, y, eval_set=validation, early_stopping_rounds=PATIENCE, use_best_model=True)
    return model.tree_count_


SEARCHED = {
    "lightgbm-tuned": (lightgbm, lightgbm_settings, lightgbm_trees),
    "catboost-tuned": (catboost, catboost_settings, catboost_trees),
}


def settings(draw, seed):
    """Yields the defaults, then random parameters."""
    random = np.random.default_rng(seed)
    yield {}
    while True:
        yield draw(random)


def within_time(tries, seconds):
    """Yields trials for half of the time, at least one; the fit on all rows takes the other half."""
    started = time.monotonic()
    for one in tries:
        yield one
        if time.monotonic() - started > seconds / 2:
            return


def tuned(a, x, y):
    """Returns a boosting model with the best parameters, not yet fitted on all rows."""
    make, draw, fit_trees = SEARCHED[a.peer]
    (train, validation), best = split(y, a.seed), (np.inf, {}, None)
    for parameters in within_time(settings(draw, a.seed), a.time):
        model = make(a, is_classification(y), trees=MAX_TREES, **parameters)
        trees = fit_trees(model, x[train], y[train], (x[validation], y[validation]))
        best = min(best, (error(model, x[validation], y[validation]), parameters, trees), key=lambda trial: trial[0])
    return make(a, is_classification(y), trees=best[2], **best[1])


def xrfm_settings(random):
    return {
        "kernel": str(random.choice(["l2", "l1"])),
        "bandwidth": float(10 ** random.uniform(0, 1.5)),
        "exponent": float(random.choice([0.7, 1.0, 1.3])),
        "diag": bool(random.choice([False, True])),
        "reg": float(10 ** random.uniform(-6, 0)),
    }


class Xrfm:
    """xRFM of its authors, on standardised rows."""

    def __init__(self, a):
        self.a = a

    def fit(self, x, y):
        import torch

        torch.manual_seed(self.a.seed)
        torch.set_num_threads(self.a.threads)
        self.mean, self.scale = (0, 1) if is_classification(y) else (y.mean(), y.std() or 1.0)
        (train, validation), best = split(y, self.a.seed), (np.inf, None)
        for parameters in within_time(settings(xrfm_settings, self.a.seed), 2 * self.a.time):
            self.model = self.fit_trial(parameters, x, y, train, validation)
            best = min(best, (error(self, x[validation], y[validation]), self.model), key=lambda trial: trial[0])
        self.model = best[1]

    def fit_trial(self, parameters, x, y, train, validation):
        import torch
        from xrfm import xRFM

        parameters = {"kernel": "l2", "bandwidth": 10.0, "exponent": 1.0, "diag": False, "reg": 1e-3} | parameters
        fit = {"reg": parameters.pop("reg"), "iters": 5, "early_stop_rfm": True}
        rfm = {"model": parameters | {"bandwidth_mode": "constant"}, "fit": fit}
        metric, number = ("accuracy", np.int64) if is_classification(y) else ("mse", np.float32)
        target = ((y - self.mean) / self.scale).astype(number)[:, None]
        part = lambda rows: (torch.from_numpy(x[rows]), torch.from_numpy(target[rows]))
        model = xRFM(rfm_params=rfm, device=torch.device("cpu"), max_leaf_size=12_000, tuning_metric=metric)
        model.fit(*part(train), *part(validation))
        return model

    def predict(self, x):
        import torch

        return np.asarray(self.model.predict(torch.from_numpy(x))).ravel() * self.scale + self.mean


PEERS = {
    "hgb": (hgb, "scikit-learn"),
    "lightgbm": (lightgbm, "lightgbm"),
    "lightgbm-tuned": (None, "lightgbm"),
    "xgboost": (xgboost, "xgboost"),
    "catboost": (catboost, "catboost"),
    "catboost-tuned": (None, "catboost"),
    "xrfm": (lambda a, _: Xrfm(a), "xrfm"),
}


def model(a, x, y):
    """Returns the model of the peer for these rows."""
    make = PEERS[a.peer][0]
    return make(a, is_classification(y)) if make else tuned(a, x, y)
