"""Make probabilities honest by calibration
========================================

Of all days with a predicted 70 % chance of rain, it should rain on 70 %. Naive Bayes is too sure of
itself, because it counts correlated features twice; calibration corrects this.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import make_classification

from gpuml.calibration import CalibratedClassifierCV
from gpuml.inspection import CalibrationDisplay
from gpuml.metrics import brier_score_loss
from gpuml.model_selection import cross_val_predict
from gpuml.naive_bayes import GaussianNB

X, y = make_classification(4000, 20, n_informative=3, n_redundant=10, random_state=1)

# %%
# `CalibratedClassifierCV` fits the models of all folds together.
models = {
    "GaussianNB": GaussianNB(),
    "calibrated": CalibratedClassifierCV(GaussianNB(), method="isotonic", cv=5),
}

# %%
# Use out-of-fold probabilities: the model has not seen these rows.
ax = plt.gca()
for name, model in models.items():
    probabilities = cross_val_predict(model, X, y, cv=5, method="predict_proba")[:, 1]
    loss = brier_score_loss(y, probabilities)
    print(f"{name}: Brier score {loss:.3f}")
    CalibrationDisplay.from_predictions(
        y, probabilities, n_bins=10, strategy="quantile", name=name, ax=ax
    )
plt.title("Predicted and observed shares")
plt.show()
