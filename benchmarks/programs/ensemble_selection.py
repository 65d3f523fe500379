"""Which models should you average? Hill climbing over out-of-fold predictions.

    python benchmarks/programs/ensemble_selection.py [--rows N] [--steps N] [--bags N]

Ten models of one target with noise (Friedman's function: products, a square and lines of ten
features): ridge regressions of the features as they are, of their products and of splines, nearest
neighbours and random forests. Each predicts every row by a model that has not seen it. Ensemble
selection (R. Caruana et al., ICML 2004) then adds the model that helps the average most, again and
again; one may be added several times. Rows that no step has seen tell what the ensemble is worth.

The script fails if a step of the library is not the best of all that one could take, each tried by
itself, or if the ensemble is worse on new rows than the best single model.
"""

import argparse
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.datasets import make_friedman1

from gpuml.ensemble import RandomForestRegressor, select_ensemble
from gpuml.linear_model import Ridge
from gpuml.metrics import r2_score
from gpuml.model_selection import cross_val_predict
from gpuml.neighbors import KNeighborsRegressor
from gpuml.pipeline import make_pipeline
from gpuml.preprocessing import PolynomialFeatures, SplineTransformer, StandardScaler

NEW_ROWS = 2000
# Of R2, between sums of residuals and residuals themselves.
AGREEMENT = 1e-9


def main():
    args = parse_arguments()
    X, y = make_friedman1(args.rows + NEW_ROWS, noise=1.0, random_state=0)
    new = slice(args.rows, None)
    X_new, y_new, X, y = X[new], y[new], X[: args.rows], y[: args.rows]
    models = library()
    held_out = {name: cross_val_predict(model, X, y, cv=5) for name, model in models.items()}

    start = time.perf_counter()
    options = {"n_steps": args.steps, "n_bags": args.bags, "random_state": 0}
    found = select_ensemble(held_out, y, scoring="r2", **options)
    seconds = time.perf_counter() - start

    predicted = {name: model.fit(X, y).predict(X_new) for name, model in models.items()}
    alone = [r2_score(y_new, prediction) for prediction in predicted.values()]
    together = r2_score(y_new, found.combine(predicted))
    console = Console()
    console.print(as_table(found, alone, together))
    console.print(f"{found.order.size} steps in {seconds:.3f} s")
    complain(found, held_out, y, max(alone), together)


# ---------------------------------------------------------------- models


def library():
    """Models by their names."""
    products = PolynomialFeatures(2, include_bias=False)
    return {
        **{f"ridge {a:g}": make_pipeline(StandardScaler(), Ridge(a)) for a in (1, 100)},
        **{f"products {a:g}": make_pipeline(products, Ridge(a)) for a in (0.1, 10)},
        **{f"splines {k}": make_pipeline(SplineTransformer(k), Ridge(0.1)) for k in (5, 10)},
        **{f"neighbours {k}": KNeighborsRegressor(k) for k in (5, 20)},
        **{
            f"forest {leaf}": RandomForestRegressor(50, min_samples_leaf=leaf, random_state=0)
            for leaf in (1, 5)
        },
    }


# ---------------------------------------------------------------- telling about it


def as_table(found, alone, together):
    """One row for each model, and the ensemble below."""
    table = Table(title="Ensemble selection: R2")
    for heading in ("model", "held out", "new rows", "share"):
        table.add_column(heading, justify="left" if heading == "model" else "right")
    columns = (found.names, found.model_scores, alone, found.weights)
    for name, held_out, new, share in zip(*columns, strict=True):
        table.add_row(name, f"{held_out:.4f}", f"{new:.4f}", f"{share:.2f}" if share else "")
    table.add_row("ensemble", f"{found.score:.4f}", f"{together:.4f}", "1.00")
    return table


def complain(found, held_out, y, best_alone, together):
    """Leave with an error that says what is not right."""
    P, counts = np.stack(list(held_out.values())), np.zeros(len(held_out))
    for chosen, score in zip(found.order[0], found.scores[0], strict=True):
        # Of several bags one does not know which other models were in.
        candidates = range(len(P)) if len(found.order) == 1 else [chosen]
        best = max(r2_score(y, (counts @ P + P[j]) / (counts.sum() + 1)) for j in candidates)
        if not abs(score - best) <= AGREEMENT:
            sys.exit(f"A step scored {score}, and the best one scores {best}.")
        counts[chosen] += 1
    if not together >= best_alone:
        sys.exit(f"The ensemble scores {together:.4f}, and one of its models {best_alone:.4f}.")


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=2000, help="rows to fit")
    parser.add_argument("--steps", type=int, default=50, help="models that are added")
    parser.add_argument("--bags", type=int, default=1, help="random sets of models")
    return parser.parse_args()


if __name__ == "__main__":
    main()
