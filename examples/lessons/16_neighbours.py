"""Choose the number of neighbours
===============================

The 5 nearest neighbours are the first of the 50 nearest. gpuml asks for the neighbours once per
fold, and answers all candidates from them.
"""

from matplotlib import pyplot as plt
from sklearn.datasets import load_digits

from gpuml.model_selection import GridSearchCV
from gpuml.neighbors import KNeighborsClassifier

X, y = load_digits(return_X_y=True)

# %%
# Sixteen values of k, with equal weights and with weights by distance.
neighbours = [1, 2, 3, 4, 5, 6, 8, 10, 12, 15, 20, 25, 30, 35, 40, 50]
grid = {"n_neighbors": neighbours, "weights": ["uniform", "distance"]}
search = GridSearchCV(KNeighborsClassifier(), grid, cv=5).fit(X, y)
print(search.plan_)
print(search.best_params_)

# %%
# Weights by distance make the choice of k matter less.
results = search.cv_results_
for weights in grid["weights"]:
    chosen = results["param_weights"] == weights
    plt.plot(neighbours, results["mean_test_score"][chosen], "o-", label=weights)
plt.xlabel("n_neighbors")
plt.ylabel("accuracy over five folds")
plt.legend(title="weights")
plt.show()
