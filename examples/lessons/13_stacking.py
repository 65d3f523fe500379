"""Combine models by stacking
==========================

Stacking trains a final model on the out-of-fold predictions of others. gpuml fits the models of all
folds together if it can.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_friedman1

from gpuml.ensemble import StackingRegressor
from gpuml.linear_model import Ridge, RidgeCV
from gpuml.model_selection import cross_val_score
from gpuml.neighbors import KNeighborsRegressor
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

X, y = make_friedman1(600, noise=1.0, random_state=0)

# %%
# Three models that make different errors.
models = {
    "splines": make_pipeline(SplineTransformer(), Ridge()),
    "products": make_pipeline(PolynomialFeatures(2), StandardScaler(), Ridge(alpha=10.0)),
    "neighbours": make_pipeline(StandardScaler(), KNeighborsRegressor(10)),
}
stack = StackingRegressor(list(models.items()), final_estimator=RidgeCV(), cv=5)

# %%
# Compare them on five folds that no model has seen.
scores = {
    name: cross_val_score(model, X, y, cv=5) for name, model in {**models, "stack": stack}.items()
}
for name, values in scores.items():
    print(f"{name:10}  R2 {values.mean():.3f}")
means = [np.mean(values) for values in scores.values()]
plt.bar(scores.keys(), means, yerr=[np.std(values) for values in scores.values()])
plt.ylabel("R2 over five folds")
plt.ylim(0, 1)
plt.show()
