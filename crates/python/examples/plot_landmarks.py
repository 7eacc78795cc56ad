"""Compare landmark schemes, and plot error against rank and where the landmarks lie."""

import matplotlib.pyplot as plt
from sklearn.datasets import make_moons

import kmill

X, _ = make_moons(2000, noise=0.1, random_state=0)
found = kmill.curve(X, ["rpcholesky", "uniform", "greedy"], [5, 10, 20, 40], gamma=2.0)
print(found[["method", "rank", "trace_error", "seconds"]].to_string(index=False))

figure, (left, right) = plt.subplots(1, 2, figsize=(9, 4))
for method, part in found.groupby("method"):
    left.loglog(part["rank"], part["trace_error"], marker="o", label=method)
left.set(xlabel="rank", ylabel="relative trace error")
left.legend()
chosen = kmill.landmarks(X, gamma=2.0, rank=40)["row"]
right.scatter(*X.T, s=2, color="silver")
right.scatter(*X[chosen].T, s=20)
figure.savefig("landmarks.png")
