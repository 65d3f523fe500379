"""Put intervals around predictions
================================

A conformal interval covers a given share of new targets, whatever the model is. It uses residuals
of rows that the models of the folds have not seen.
"""

import numpy as np
from matplotlib import pyplot as plt

from gpuml.linear_model import Ridge
from gpuml.model_selection import ConformalRegressor
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import SplineTransformer

random = np.random.default_rng(0)


def draw(n):
    """Rows of a curve with noise that has heavy tails."""
    x = random.uniform(0, 10, n)
    return x[:, None], np.sin(x) + 0.3 * random.standard_t(4, n)


# %%
# `method="plus"` fits the models of ten folds together.
model = make_pipeline(SplineTransformer(n_knots=8), Ridge(alpha=0.1))
conformal = ConformalRegressor(model, method="plus", cv=10).fit(*draw(300))

# %%
# On new rows the share of covered targets is close to what you asked for.
X, y = draw(2000)
for coverage in (0.5, 0.8, 0.9, 0.95):
    lower, upper = conformal.predict_interval(X, coverage=coverage)
    print(f"{coverage:.0%} intervals cover {np.mean((lower <= y) & (y <= upper)):.1%}")

# %%
# Plot the 90 % interval.
line = np.linspace(0, 10, 200)[:, None]
lower, upper = conformal.predict_interval(line, coverage=0.9)
plt.scatter(X[::4], y[::4], s=5, color="0.6")
plt.fill_between(line[:, 0], lower, upper, alpha=0.3, label="90 % interval")
plt.plot(line, conformal.predict(line), label="prediction")
plt.legend()
plt.show()
