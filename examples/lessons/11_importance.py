"""Which features matter? Permutation importance
=============================================

Shuffle a feature, and see how much the score falls. For a linear model, gpuml scores all shuffled
features from one prediction.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from gpuml.inspection import permutation_importance
from gpuml.linear_model import Ridge
from gpuml.model_selection import train_test_split
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

X, y = load_diabetes(return_X_y=True, as_frame=True)
X_train, X_test, y_train, y_test = train_test_split(X, y, random_state=0)
model = make_pipeline(StandardScaler(), Ridge(alpha=10.0)).fit(X_train, y_train)
print(f"R2 on held-out rows: {model.score(X_test, y_test):.2f}")

# %%
# Use held-out rows: on training rows, a feature may matter only because the model overfits.
found = permutation_importance(model, X_test, y_test, n_repeats=30, random_state=0)

# %%
# Each box shows the fall of R2 over 30 shuffles.
order = np.argsort(found.importances_mean)
plt.boxplot(found.importances[order].T, orientation="horizontal")
plt.yticks(range(1, len(order) + 1), X.columns[order])
plt.axvline(0, color="black", linewidth=0.5)
plt.xlabel("fall of R2 when the feature is shuffled")
plt.tight_layout()
plt.show()
