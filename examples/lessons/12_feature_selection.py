"""How many features do you need?
==============================

`RFECV` removes the weakest feature again and again; `best_subset` compares all subsets. With a
linear model, both read the data once.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_diabetes

from gpuml.feature_selection import RFECV, best_subset
from gpuml.linear_model import Ridge

X, y = load_diabetes(return_X_y=True, as_frame=True)

# %%
# Recursive elimination needs few fits.
selector = RFECV(Ridge(alpha=0.01), cv=5).fit(X, y)
print(selector.plan_)
print("RFECV keeps", list(selector.get_feature_names_out()))

# %%
# Ten features have 1,023 subsets: gpuml scores every one of them on every fold.
subsets = best_subset(X, y, cv=5)
print("the best subset is", list(X.columns[subsets.support]))

# %%
# The best subset of each size is at least as good as what elimination finds.
results = selector.cv_results_
plt.plot(results["n_features"], results["mean_test_score"], "o-", label="RFECV")
plt.plot(subsets.n_features, subsets.scores.mean(axis=1), "s-", label="best subset")
plt.xlabel("features")
plt.ylabel("mean R2 over five folds")
plt.legend()
plt.show()
