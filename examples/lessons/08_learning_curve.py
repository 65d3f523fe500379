"""Would more data help? A learning curve
======================================

A learning curve shows the score over the size of the training set. gpuml sums rows that several
training sets share only once.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_regression

from gpuml.linear_model import LinearRegression, Ridge
from gpuml.model_selection import LearningCurveDisplay

# %%
# A hundred features, of which twenty matter, and much noise.
X, y = make_regression(1500, 100, n_informative=20, noise=150.0, random_state=0)

# %%
# Least squares needs many more rows than features; a penalty helps while there are few. The curves
# are almost flat on the right: more rows would help little.
sizes = np.linspace(0.08, 1.0, 8)
axes = plt.subplots(1, 2, sharey=True, figsize=(9, 4), layout="tight")[1]
for model, ax in zip((LinearRegression(), Ridge(alpha=30.0)), axes, strict=True):
    display = LearningCurveDisplay.from_estimator(model, X, y, train_sizes=sizes, cv=5, ax=ax)
    ax.set_title(type(model).__name__)
    ax.set_ylim(0, 1)
    few, *_, many = display.test_scores.mean(axis=1)
    print(f"{type(model).__name__}: R2 {few:.2f} with few rows, {many:.2f} with all")
plt.show()
