"""Estimate the score of a search by nested cross-validation
=========================================================

`best_score_` is optimistic, because the search chose the candidate by this score. Nested
cross-validation scores the whole search on outer folds that played no part in the choice.
"""

import numpy as np
from matplotlib import pyplot as plt

from gpuml.linear_model import Ridge
from gpuml.model_selection import GridSearchCV, KFold, cross_validate

# %%
# Few rows, many features and a target that is mostly noise: the best of many candidates is luck.
random = np.random.default_rng(0)
X = random.normal(size=(60, 30))
y = X[:, 0] + 3 * random.normal(size=60)
grid = {"alpha": np.logspace(-2, 4, 25)}

# %%
# Repeat both estimates with different folds.
plain, nested = [], []
for seed in range(20):
    inner = KFold(5, shuffle=True, random_state=seed)
    outer = KFold(5, shuffle=True, random_state=100 + seed)
    search = GridSearchCV(Ridge(), grid, cv=inner)
    plain.append(search.fit(X, y).best_score_)
    nested.append(cross_validate(search, X, y, cv=outer)["test_score"].mean())
print(f"best_score_ {np.mean(plain):.3f}, nested {np.mean(nested):.3f}")

# %%
# Points below the line: the search promised more than it gave.
plt.scatter(plain, nested)
low, high = min(plain + nested), max(plain + nested)
plt.plot([low, high], [low, high], color="black", linewidth=0.5)
plt.xlabel("best_score_ of the search")
plt.ylabel("nested cross-validation")
plt.show()
