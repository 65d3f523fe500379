"""Search a pipeline: scaler, PCA and ridge
========================================

Put preprocessing into the pipeline, so that each fold learns it from its training set only.
gpuml fits the steps of all candidates on all folds in one pass over the data.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from gpuml.decomposition import PCA
from gpuml.inspection import SearchDisplay
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

X, y = load_diabetes(return_X_y=True)

# %%
# Parameters of a step are named `step__parameter`.
pipe = make_pipeline(StandardScaler(), PCA(), Ridge())
grid = {
    "pca__n_components": [2, 4, 6, 8, 10],
    "ridge__alpha": np.logspace(-1, 3, 9).round(2),
}
search = GridSearchCV(pipe, grid, cv=5).fit(X, y)
print(search.plan_)
print(search.best_params_)

# %%
# With two parameters, `SearchDisplay` draws a heat map.
SearchDisplay.from_search(search)
plt.title("Mean R2 over five folds")
plt.show()
