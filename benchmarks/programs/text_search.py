"""What is a text about? Choose the penalty of a logistic regression on hashed words.

    python benchmarks/programs/text_search.py [--texts N] [--device ...]

Texts with topics are generated (`gpuml.datasets.make_texts`; nothing is downloaded), in the manner
of 20 newsgroups. HashingVectorizer counts their words in 2^15 columns, of which many stay empty,
TfidfTransformer weighs the counts, and LogisticRegression is fitted to the sparse rows: they are
multiplied, and never made dense. RandomizedSearchCV draws values of C and ways to weigh. The words
of a fold are counted once for all candidates, and all values of C behind the same weights are
fitted in the same passes over the rows. A fifth of the texts is kept out of the search.

scikit-learn's search runs beside, on the same candidates and on the first `--rival-texts` of the
texts. The script fails if the two do not agree on them.
"""

import argparse
import sys
import time
from dataclasses import dataclass

import numpy as np
import sklearn.feature_extraction.text
import sklearn.linear_model
from rich.console import Console
from rich.table import Table
from sklearn.model_selection import RandomizedSearchCV as SklearnRandomizedSearchCV
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from threadpoolctl import threadpool_limits

import gpuml
from gpuml.datasets import make_texts
from gpuml.feature_extraction.text import HashingVectorizer, TfidfTransformer
from gpuml.linear_model import LogisticRegression
from gpuml.model_selection import RandomizedSearchCV

# Tight enough for two minima to be compared.
MODEL = {"max_iter": 1_000, "tol": 1e-5}
# By how much the mean accuracy over folds may differ, and how many texts of all besides.
AGREEMENT = 2e-3
TEXTS_APART = 2


def main():
    args = parse_arguments()
    gpuml.set_config(device=args.device)
    texts, labels = make_texts(args.texts, n_classes=args.topics)
    texts, kept, y, y_kept = train_test_split(
        texts, labels, test_size=0.2, random_state=0, stratify=labels
    )
    result = compare(args, texts, y)
    console = Console()
    console.print(table_of(result, kept, y_kept))
    console.print(f"Plan: {result.search.plan_}", soft_wrap=True)
    complain_if_different(result)


# ---------------------------------------------------------------- the two searches


def our_search(args):
    """The search this example is about; only the imports differ from scikit-learn's."""
    vectorizer = HashingVectorizer(n_features=args.features)
    pipeline = make_pipeline(vectorizer, TfidfTransformer(), LogisticRegression(**MODEL))
    return RandomizedSearchCV(pipeline, space(), **options(args))


def their_search(args):
    text, linear_model = sklearn.feature_extraction.text, sklearn.linear_model
    pipeline = make_pipeline(
        text.HashingVectorizer(n_features=args.features),
        text.TfidfTransformer(),
        linear_model.LogisticRegression(**MODEL),
    )
    return SklearnRandomizedSearchCV(pipeline, space(), **options(args))


def space():
    """What candidates are drawn from."""
    return {
        "logisticregression__C": np.logspace(-5, 1, 13),
        "tfidftransformer__use_idf": [False, True],
    }


def options(args):
    return {"n_iter": args.n_iter, "cv": 5, "random_state": 0}


# ---------------------------------------------------------------- comparing them


@dataclass(frozen=True)
class Comparison:
    """gpuml's search on all texts, and both searches on as many as scikit-learn was given.

    `rival` is None where it was left out.
    """

    search: RandomizedSearchCV
    seconds: float
    n_texts: int
    n_columns: int
    rival_texts: int
    ours: RandomizedSearchCV
    our_seconds: float
    rival: SklearnRandomizedSearchCV | None
    their_seconds: float | None

    @property
    def difference(self):
        """Largest difference of the mean accuracy over folds, of all candidates."""
        means = [search.cv_results_["mean_test_score"] for search in (self.ours, self.rival)]
        return float(np.abs(np.subtract(*means)).max())

    @property
    def allowed(self):
        return AGREEMENT + TEXTS_APART / self.rival_texts


def compare(args, texts, y):
    """Search all texts with gpuml, and those that scikit-learn gets with both."""
    search, seconds = timed(our_search(args), texts, y)
    n = min(args.rival_texts, len(texts))
    ours, our_seconds = search, seconds
    if n < len(texts) and not args.skip_rival:
        ours, our_seconds = timed(our_search(args), texts[:n], y[:n])
    rival = their_seconds = None
    if not args.skip_rival:
        print(f"scikit-learn searches {n:,} texts ...", file=sys.stderr)
        # With more threads it takes longer: its vectors are short.
        with threadpool_limits(1):
            rival, their_seconds = timed(their_search(args), texts[:n], y[:n])
    sizes = len(texts), args.features, n
    return Comparison(search, seconds, *sizes, ours, our_seconds, rival, their_seconds)


def timed(search, texts, y):
    start = time.perf_counter()
    search.fit(texts, y)
    return search, time.perf_counter() - start


# ---------------------------------------------------------------- telling about it


def table_of(result, kept, y_kept):
    """One row for each thing worth knowing."""
    search = result.search
    table = Table(title="Topics of texts: HashingVectorizer, TfidfTransformer, LogisticRegression")
    table.add_column("")
    table.add_column("", justify="right")
    n_fits = len(search.cv_results_["params"]) * search.n_splits_
    facts = {
        "texts": f"{result.n_texts:,}",
        "topics": str(len(search.classes_)),
        "columns": f"{result.n_columns:,}",
        "fits": str(n_fits),
        "best C": f"{search.best_params_['logisticregression__C']:.3g}",
        "inverse document frequencies": str(search.best_params_["tfidftransformer__use_idf"]),
        "mean accuracy of five folds": f"{search.best_score_:.4f}",
        f"accuracy on {len(kept):,} texts kept out": f"{search.score(kept, y_kept):.4f}",
        "seconds, gpuml": f"{result.seconds:.2f}",
    }
    if result.rival is not None:
        facts |= {
            "texts that scikit-learn got": f"{result.rival_texts:,}",
            "seconds on those, gpuml": f"{result.our_seconds:.2f}",
            "seconds on those, scikit-learn": f"{result.their_seconds:.2f}",
            "ratio": f"{result.their_seconds / result.our_seconds:.1f} x",
            "largest difference of scores": f"{result.difference:.1e}",
        }
    for label, value in facts.items():
        table.add_row(label, value)
    return table


def complain_if_different(result):
    """Leave with an error that says what differs."""
    if result.rival is not None and not result.difference <= result.allowed:
        sys.exit(
            f"Mean accuracies differ by {result.difference:.1e} from scikit-learn's, where "
            f"{result.allowed:.1e} is allowed."
        )


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    add = parser.add_argument
    add("--texts", type=int, default=10_000, help="texts to generate")
    add("--topics", type=int, default=8, help="topics that they are about")
    add("--features", type=int, default=2**15, help="columns that words are hashed to")
    add("--n-iter", type=int, default=8, help="candidates of the search")
    add("--rival-texts", type=int, default=200, help="texts that scikit-learn gets")
    add("--skip-rival", action="store_true", help="leave scikit-learn's search out")
    add("--device", choices=["auto", "cpu", "cuda"], default="auto")
    return parser.parse_args()


if __name__ == "__main__":
    main()
