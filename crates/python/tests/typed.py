"""A user script that must pass mypy --strict."""

import numpy as np
import kmill

X = np.zeros((10, 2))
model = kmill.KernelRidge(alpha=0.1, rank=50, metric="learn").fit(X, X[:, 0])
prediction: float = float(model.predict(X)[0])
classes = kmill.SVC(C=2.0, gamma="scale").fit(X, np.arange(10) % 2).classes_
features = kmill.Nystroem("rbf", n_components=5).fit_transform(X)
kmill.KernelRidge().fit_files("a.parquet", "y", where="fold != 3", memory="2GiB").save("m.safetensors")
chosen = kmill.tune(X, X[:, 0], "any", time=60.0, rank=100)
back = kmill.KernelPCA(2, fit_inverse_transform=True).fit(X).inverse_transform(X)
kmill.KernelRidge(kernel=lambda a, b: float(a @ b), kernel_params=None).fit(X, X[:, 0])
kmill.MDS(n_components=2).fit_transform(X)
kmill.KernelDimensionReduction(1).fit(X, X[:, 0]).transform(X)
loaded = kmill.load("m.safetensors", kmill.SVC)
label = loaded.predict(X)[0], loaded.predict_proba(X), kmill.load("m.safetensors").predict(X)
scores = kmill.evaluate(loaded, X, np.arange(10) % 2, top=3)
error: float = scores["error"] + (scores.standard_errors["error"] or 0.0)
tested = kmill.KernelRidge().fit_files("a.parquet", "y", test="last:15%:day").test_scores_.to_dict()
best: float = kmill.KernelRidge(alphas=[0.1, 1.0]).fit(X, X[:, 0]).best_score_
print(chosen, back, label, error, tested, best, kmill.KernelRidge(metric="learn").fit(X, X[:, 0]).feature_importances_.sum())
print(prediction, classes.shape, features, kmill.load("m.safetensors"), kmill.curve(X), kmill.Error)
