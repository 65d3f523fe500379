"""Let Optuna propose the candidates
=================================

A `Session` prepares the data once. Each candidate that Optuna proposes is then scored from sums
that are already known. You need `pip install 'gpuml[optuna]'`.
"""

import numpy as np
import optuna
from matplotlib import pyplot as plt
from scipy.stats import loguniform, uniform
from sklearn.datasets import load_diabetes

from gpuml.linear_model import ElasticNet
from gpuml.model_selection import Session
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import StandardScaler

optuna.logging.set_verbosity(optuna.logging.WARNING)
X, y = load_diabetes(return_X_y=True)

# %%
# Describe the space, and run 60 trials, one after another.
pipe = make_pipeline(StandardScaler(), ElasticNet())
space = {
    "elasticnet__alpha": loguniform(1e-3, 10),
    "elasticnet__l1_ratio": uniform(0.05, 0.95),
}
sampler = optuna.samplers.TPESampler(seed=0)
study = optuna.create_study(direction="maximize", sampler=sampler)
with Session(pipe, X, y, cv=5, scoring="r2") as session:
    study.optimize(session.objective(space), n_trials=60)
    best = session.refit()
print(f"best R2 {study.best_value:.3f} with {study.best_params}")

# %%
# The sampler soon proposes candidates near the best ones.
scores = [trial.value for trial in study.trials]
plt.plot(scores, "o", label="trial")
plt.plot(np.maximum.accumulate(scores), label="best so far")
plt.xlabel("trial")
plt.ylabel("mean R2 over five folds")
plt.legend(loc="lower right")
plt.show()
