"""Predict quantiles instead of means
==================================

A quantile regression predicts the value below which a given share of the targets lies. Three of
them show how the spread grows.
"""

import numpy as np
from matplotlib import pyplot as plt

from gpuml.linear_model import QuantileRegressor
from gpuml.model_selection import KFold, cross_val_predict
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import SplineTransformer

# %%
# The noise grows with x, and is skewed.
random = np.random.default_rng(0)
x = np.sort(random.uniform(0, 10, size=(600, 1)), axis=0)
y = np.sin(x[:, 0]) + random.exponential(0.1 + 0.15 * x[:, 0])

# %%
# Check on held-out rows: a share q of the targets should be below the q-quantile.
models = {
    q: make_pipeline(SplineTransformer(n_knots=6), QuantileRegressor(quantile=q, alpha=1e-4))
    for q in (0.1, 0.5, 0.9)
}
for q, model in models.items():
    folds = KFold(5, shuffle=True, random_state=0)
    below = np.mean(y < cross_val_predict(model, x, y, cv=folds))
    print(f"quantile {q}: {below:.0%} of the held-out targets are below")

# %%
# Fit on all rows, and plot the three curves.
low, middle, high = (model.fit(x, y).predict(x) for model in models.values())
plt.scatter(x, y, s=6, color="0.6")
plt.fill_between(x[:, 0], low, high, alpha=0.25, label="10 % to 90 %")
plt.plot(x, middle, label="median")
plt.legend()
plt.show()
