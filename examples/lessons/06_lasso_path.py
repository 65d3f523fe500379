"""Follow the coefficients along a lasso path
==========================================

The lasso sets more coefficients to zero the larger the penalty is. `LassoCV` chooses the penalty by
cross-validation.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from gpuml.linear_model import LassoCV, lars_path
from gpuml.preprocessing import StandardScaler

X, y = load_diabetes(return_X_y=True, as_frame=True)
names = X.columns
X = StandardScaler().fit_transform(X)

# %%
# Choose the penalty on five folds.
model = LassoCV(cv=5).fit(X, y)
kept = [name for name, value in zip(names, model.coef_, strict=True) if value != 0]
print(f"alpha = {model.alpha_:.2f} keeps {kept}")

# %%
# `lars_path` returns every penalty at which a feature enters or leaves.
alphas, _, coefficients = lars_path(X, np.asarray(y) - y.mean(), method="lasso")
for name, line in zip(names, coefficients, strict=True):
    plt.plot(alphas[:-1], line[:-1], label=name)
plt.axvline(model.alpha_, color="black", linestyle=":", label="chosen")
plt.xscale("log")
plt.gca().invert_xaxis()
plt.xlabel("alpha")
plt.ylabel("coefficient")
plt.legend(ncols=2, fontsize="small")
plt.show()
