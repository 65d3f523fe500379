"""Model counts with a Poisson regression
======================================

Counts are not negative, and vary more where they are large. A Poisson regression models their
logarithm, here with splines of the hour of the day.
"""

import numpy as np
from matplotlib import pyplot as plt

from gpuml.linear_model import PoissonRegressor, Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import SplineTransformer

# %%
# Bicycles that pass a bridge in an hour.
random = np.random.default_rng(0)
hour = random.uniform(0, 24, size=(3000, 1))
mean = 2 + 60 * np.exp(-((hour[:, 0] - 8) ** 2) / 3) + 45 * np.exp(-((hour[:, 0] - 18) ** 2) / 6)
y = random.poisson(mean)

# %%
# Fit a Poisson regression and a ridge regression, each with its own best penalty.
splines = SplineTransformer(n_knots=12)
poisson = GridSearchCV(
    make_pipeline(splines, PoissonRegressor()),
    {"poissonregressor__alpha": np.logspace(-5, 0, 6)},
    scoring="neg_mean_poisson_deviance",
).fit(hour, y)
ridge = GridSearchCV(make_pipeline(splines, Ridge()), {"ridge__alpha": np.logspace(-3, 2, 6)}).fit(
    hour, y
)
print(poisson.best_params_, ridge.best_params_)

# %%
# Ridge predicts negative counts at night; Poisson cannot.
grid = np.linspace(0, 24, 200)[:, None]
plt.scatter(hour[::5], y[::5], s=6, color="0.75", label="hours")
plt.plot(grid, ridge.predict(grid), label="Ridge")
plt.plot(grid, poisson.predict(grid), label="PoissonRegressor")
plt.axhline(0, color="black", linewidth=0.5)
plt.xlabel("hour of the day")
plt.ylabel("bicycles")
plt.legend()
plt.show()
