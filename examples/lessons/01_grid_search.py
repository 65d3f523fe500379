"""Choose the penalty of a ridge regression
========================================

A grid search fits every candidate on every fold. gpuml reads the data once for all of them.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from gpuml.inspection import SearchDisplay
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV

X, y = load_diabetes(return_X_y=True)

# %%
# Twenty penalties on ten folds are 200 fits and 200 scores.
grid = {"alpha": np.logspace(-4, 2, 20)}
search = GridSearchCV(Ridge(), grid, cv=10, return_train_score=True).fit(X, y)
print(search.plan_)
print(search.best_params_)

# %%
# The results have scikit-learn's form. `results_` shows them as a DataFrame, best candidate first.
print(search.results_[["alpha", "score", "score_std"]].head().to_string())

# %%
# Plot the mean score of each penalty, with a band of one standard deviation over the folds.
# Too small a penalty overfits: the training score is high, and the test score falls.
SearchDisplay.from_search(search)
plt.title("R2 of a ridge regression")
plt.show()
