"""Fit a model on Parquet files within a memory budget, and write predictions for them."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import kmill

rng = np.random.default_rng(0)
for part in range(4):
    X = rng.normal(size=(50_000, 6))
    columns = {f"x{j}": X[:, j] for j in range(6)}
    pq.write_table(pa.table(columns | {"y": np.sin(X[:, 0]) + X[:, 1] * X[:, 2], "fold": np.arange(50_000) % 5}), f"part{part}.parquet")

model = kmill.KernelRidge(gamma="median", scale="standard", rank=200, lambdas=1e-6)
model.fit_files("part*.parquet", "y", features=["x*"], where="fold != 0", memory="256MiB")
print(f"{model.report_['rows']:,} rows, trace error {model.trace_error_:.3g}, {model.report_['train']}")
model.save("model.safetensors")
rows = kmill.load("model.safetensors").predict_files("part*.parquet", "predictions.parquet", keep=["y"], where="fold == 0")
table = pq.read_table("predictions.parquet").to_pandas()
print(f"{rows:,} predictions, mse {((table.prediction - table.y) ** 2).mean():.4f}")
