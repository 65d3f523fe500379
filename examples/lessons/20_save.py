"""Save a model, and use it without gpuml
======================================

You can load a saved model on a machine without a GPU. `as_sklearn` turns it into scikit-learn's
classes, for machines without gpuml.
"""

import tempfile
from pathlib import Path

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

import gpuml
from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

X, y = load_diabetes(return_X_y=True)
pipe = make_pipeline(StandardScaler(), Ridge())
search = GridSearchCV(pipe, {"ridge__alpha": np.logspace(-2, 3, 11)}).fit(X, y)
model = search.best_estimator_

# %%
# Save it, and load it again.
with tempfile.TemporaryDirectory() as folder:
    path = Path(folder) / "model.joblib"
    gpuml.save(model, path)
    again = gpuml.load(path)
print("same predictions:", np.array_equal(again.predict(X), model.predict(X)))

# %%
# The twin consists of scikit-learn's classes only.
twin = gpuml.as_sklearn(model)
print([type(step).__module__.partition(".")[0] for step in twin])

# %%
# Its predictions are the same up to rounding.
plt.scatter(model.predict(X), twin.predict(X), s=8)
plt.axline((150, 150), slope=1, color="black", linewidth=0.5)
plt.xlabel("predicted by gpuml")
plt.ylabel("predicted by scikit-learn")
plt.gca().set_aspect("equal")
plt.show()
