"""Search a DataFrame with categories and missing values
=====================================================

A `ColumnTransformer` treats each kind of column in its own way. Imputers, scalers and encoders are
fitted fold by fold, in the same pass as the model; no dummy columns are made.
"""

import numpy as np
import pandas as pd
from matplotlib import pyplot as plt

from gpuml.compose import make_column_transformer
from gpuml.impute import SimpleImputer
from gpuml.inspection import SearchDisplay
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import GridSearchCV
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import OneHotEncoder, StandardScaler

# %%
# Customers with an age, a number of visits and a town. One age in ten is missing.
random = np.random.default_rng(0)
n = 2000
towns = [f"town {i:02d}" for i in range(40)]
X = pd.DataFrame(
    {
        "age": random.normal(45, 12, n).round(),
        "visits": random.poisson(4, n).astype(float),
        "town": random.choice(towns, n, p=np.arange(40, 0, -1) / 820),
    }
)
effects = dict(zip(towns, random.normal(0, 1.2, 40), strict=True))
logit = 0.04 * (X["age"] - 45) + 0.2 * (X["visits"] - 4) + X["town"].map(effects)
y = random.uniform(size=n) < 1 / (1 + np.exp(-logit))
X.loc[random.uniform(size=n) < 0.1, "age"] = np.nan

# %%
# Search over the imputation, the rare levels and the penalty at once.
numbers = make_pipeline(SimpleImputer(), StandardScaler())
columns = make_column_transformer(
    (numbers, ["age", "visits"]), (OneHotEncoder(handle_unknown="ignore"), ["town"])
)
pipe = make_pipeline(columns, LogisticRegression())
grid = {
    "columntransformer__onehotencoder__min_frequency": [None, 10, 50, 100],
    "logisticregression__C": np.logspace(-2, 2, 5),
}
search = GridSearchCV(pipe, grid, cv=5, scoring="roc_auc").fit(X, y)
print(search.plan_)
SearchDisplay.from_search(search)
plt.title("ROC AUC over five folds")
plt.show()
