"""Run a scikit-learn script with gpuml, without editing it.

    python examples/accelerated_script.py
    python -m gpuml examples/accelerated_script.py

Both print the same table: the best penalty of ridge regression on standardised columns of the
diabetes data, and of logistic regression on the digits, with what each reaches on rows that were
kept out. The second says first, on standard error, which names of scikit-learn it replaced; the
column "library" shows whose classes did the work.
"""

import numpy as np
from sklearn.datasets import load_diabetes, load_digits
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import StandardScaler


def main():
    print(f"{'data':10} {'best parameter':28} {'score':>8} {'mean of folds':>14}  library")
    ridge = Ridge(), {"model__alpha": np.logspace(-2, 4, 13)}
    report("diabetes", load_diabetes(return_X_y=True), *ridge)
    # Tight, so that no digit of the data is read otherwise because a solver stopped elsewhere.
    logistic = LogisticRegression(tol=1e-6, max_iter=1000), {"model__C": [0.001, 0.01, 0.1]}
    report("digits", load_digits(return_X_y=True), *logistic)


def report(name, data, model, grid):
    """Search, and print a line of the table."""
    X, X_kept, y, y_kept = train_test_split(*data, test_size=0.25, random_state=0)
    pipeline = Pipeline([("scaler", StandardScaler()), ("model", model)])
    search = GridSearchCV(pipeline, grid, cv=5).fit(X, y)
    ((parameter, value),) = search.best_params_.items()
    best, score = f"{parameter}={value:.4g}", search.score(X_kept, y_kept)
    library = type(search.best_estimator_["model"]).__module__.partition(".")[0]
    print(f"{name:10} {best:28} {score:8.4f} {search.best_score_:14.4f}  {library}")


if __name__ == "__main__":
    main()
