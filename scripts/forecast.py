#!/usr/bin/env python3
"""Makes the tables of docs/forecasting.md, and fits LightGBM and scikit-learn to them for its comparison.

    scripts/forecast.py flights.parquet FOLDER

Needs pandas, pyarrow, scikit-learn and, if it is to be compared, lightgbm.
"""

import sys
from pathlib import Path

import pandas as pd
from sklearn.ensemble import HistGradientBoostingRegressor

LAGS = [([], []), ([1, 24, 168], [24, 168]), ([1, 2, 24, 25, 168, 169], [24, 168]),
        ([1, 2, 3, 23, 24, 25, 48, 167, 168, 169, 336], [3, 24, 168])]
TEST = "2013-11-07T06:00:00"  # the first test row of --test last:15%:hour


def hourly(path):
    """Returns the departures of each hour and airport, 0 in hours without a flight."""
    flights = pd.read_parquet(path, columns=["origin", "time_hour"])
    hour = pd.to_datetime(flights["time_hour"]).dt.tz_convert("America/New_York").dt.tz_localize(None)
    counts = flights.groupby([hour.rename("hour"), flights["origin"].rename("airport")]).size()
    hours = pd.date_range(hour.min().normalize(), hour.max(), freq="h")
    grid = pd.MultiIndex.from_product([hours, sorted(flights["origin"].unique())], names=["hour", "airport"])
    return counts.reindex(grid, fill_value=0).rename("count").astype(float).reset_index()


def features(table, lags, windows):
    """Returns what a user of boosting writes: the hour, the weekday, the code of the airport, and past values."""
    series = table.groupby("airport")["count"]
    columns = {"hour": table["hour"].dt.hour, "weekday": table["hour"].dt.weekday, "airport": table["airport"].astype("category").cat.codes}
    columns |= {f"lag{k}": series.shift(k) for k in lags}
    columns |= {f"mean{w}": series.transform(lambda counts, w=w: counts.shift(1).rolling(w).mean()) for w in windows}
    return pd.DataFrame(columns)


def main():
    folder = Path(sys.argv[2])
    table = hourly(sys.argv[1])
    table.to_parquet(folder / "hourly.parquet", index=False)
    future = table.copy()
    future.loc[future["hour"] >= "2013-12-25", "count"] = None
    future.to_parquet(folder / "future.parquet", index=False)
    learners = {"scikit-learn": HistGradientBoostingRegressor}
    try:
        from lightgbm import LGBMRegressor
        learners["LightGBM"] = lambda: LGBMRegressor(verbose=-1)
    except ImportError:
        print("lightgbm is not installed", file=sys.stderr)
    is_test, y = table["hour"] >= TEST, table["count"]
    week_ago = table.groupby("airport")["count"].shift(168)
    print(f"the value of a week ago: rmse {((week_ago - y)[is_test] ** 2).mean() ** .5:.3f}")
    for lags, windows in LAGS:
        x = features(table, lags, windows)
        for rows, is_training in (("all rows", ~is_test), ("rows with a past", ~is_test & x.notna().all(axis=1))):
            for name, learner in learners.items():
                error = learner().fit(x[is_training], y[is_training]).predict(x[is_test]) - y[is_test]
                print(f"{name}, lags {lags}, means {windows}, {rows}: rmse {(error ** 2).mean() ** .5:.3f}, mae {error.abs().mean():.3f}")


if __name__ == "__main__":
    main()
