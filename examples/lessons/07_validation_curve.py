"""See under- and overfitting with a validation curve
==================================================

A validation curve shows training and test scores over one parameter. gpuml fits all values on all
folds together.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import ValidationCurveDisplay
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

# %%
# Is a handwritten digit even?
X, y = load_digits(return_X_y=True)
even = y % 2 == 0
model = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))

# %%
# A small C is a strong penalty. On the left both scores are low: the model underfits. On the right
# they part: it overfits.
display = ValidationCurveDisplay.from_estimator(
    model,
    X,
    even,
    param_name="logisticregression__C",
    param_range=np.logspace(-4, 2, 7),
    scoring="accuracy",
    cv=5,
)
best = display.param_range[display.test_scores.mean(axis=1).argmax()]
print(f"best C: {best:g}")
plt.axvline(best, color="black", linestyle=":")
plt.title("Even or odd?")
plt.show()
