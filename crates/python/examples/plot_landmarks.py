"""Compare landmark schemes; plot the error against the rank, and the positions of the landmarks."""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

import kmill

X, _ = make_moons(1000, noise=0.1, random_state=0)
errors = kmill.curve(X, ["rpcholesky", "uniform", "greedy"], [5, 10, 20, 40], gamma=2.0)
print(errors[["method", "rank", "trace_error", "seconds"]].to_string(index=False))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
errors.plot(ax=left)
indices = kmill.landmarks(X, gamma=2.0, rank=40)["row"]
right.scatter(*X.T, s=2, color="silver")
right.scatter(*X[indices].T, s=20)
figure.savefig("landmarks.png")
