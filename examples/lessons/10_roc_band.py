"""Draw a ROC curve with its variation over folds
==============================================

One ROC curve says nothing about chance. `RocBandDisplay` draws the mean over folds with a band of
one standard deviation.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_classification

from gpuml.inspection import RocBandDisplay
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import cross_validate
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

X, y = make_classification(400, 20, n_informative=4, flip_y=0.2, random_state=0)

# %%
# Keep the model and the rows of each fold.
model = make_pipeline(StandardScaler(), LogisticRegression())
folds = cross_validate(
    model, X, y, cv=10, scoring="roc_auc", return_estimator=True, return_indices=True
)
scores = folds["test_score"]
print(f"ROC AUC {scores.mean():.3f} +- {scores.std():.3f}")

# %%
# `folds=True` adds a thin line for each fold.
RocBandDisplay.from_cv_results(folds, X, y, folds=True)
plt.title("ROC curve over ten folds")
plt.show()
