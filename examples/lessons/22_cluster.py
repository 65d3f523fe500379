"""Search on a cluster
===================

`gpuml_dask` has the same searches. They divide the candidates, or the rows, over the workers of a
Dask cluster, here two on this machine. You need `pip install 'gpuml[dask]'`.
"""

import numpy as np
from matplotlib import pyplot as plt
from sklearn.datasets import make_classification

from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV
from gpuml_dask import GridSearchCV as GridSearchOnCluster
from gpuml_dask import local_client


# %%
# Thirteen penalties on five folds, in this process and on two workers.
def search_here_and_there():
    """The same search in this process and on two workers."""
    X, y = make_classification(5000, 30, n_informative=5, flip_y=0.2, random_state=0)
    grid = {"C": np.logspace(-4, 2, 13)}
    here = GridSearchCV(LogisticRegression(), grid, cv=5).fit(X, y)
    with local_client(2, device="cpu", dashboard_address=None):
        there = GridSearchOnCluster(LogisticRegression(), grid, cv=5).fit(X, y)
    return here, there


# %%
# Each worker imports this script when it starts: keep the call below the guard.
if __name__ == "__main__":
    here, there = search_here_and_there()
    print(there.plan_)

    C = here.cv_results_["param_C"].astype(float)
    for search, style, name in ((here, "o", "this process"), (there, "-", "two workers")):
        plt.plot(C, search.cv_results_["mean_test_score"], style, label=name)
    plt.xscale("log")
    plt.xlabel("C")
    plt.ylabel("accuracy over five folds")
    plt.legend()
    plt.show()
