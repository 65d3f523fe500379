"""scikit-learn's trees and forests with fewer trees, or with cut or pruned ones, read off others.

The first m trees of a forest of n > m are the forest of m: each tree has a seed of its own, which
is drawn in turn. A pruned tree is the tree that was grown, pruned. Both are exact.

A tree of depth d is, in distribution, a deeper one without what is below depth d: whether a node is
split depends on its depth and its number of rows, and how it is split on its rows alone. It is
not the same tree bit by bit, because the random numbers of one tree come from one stream, which a
deeper tree has read further at each node after the first that is cut. The same holds for
`min_samples_split`. It does not hold for `min_samples_leaf`, which changes what a split may be, nor
for trees with `max_leaf_nodes`, which split the best leaf first.
"""

import sys
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from math import ceil
from numbers import Real
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import is_classifier
from sklearn.utils.parallel import Parallel, delayed

from gpuml._arrays import is_foreign
from gpuml._settings.config import current_settings
from gpuml._sklearn import Tree, _build_pruned_tree_py, _num_samples
from gpuml.model_selection.candidates import CUT, GROWN, PRUNED
from gpuml.model_selection.one_fit import OneFit, is_count, is_seed, of_sklearn, shallow
from gpuml.resampling.keys import estimator_key

# scikit-learn's classes and their modules; subclasses may grow trees differently.
FORESTS = (
    *("RandomForestClassifier", "RandomForestRegressor"),
    *("ExtraTreesClassifier", "ExtraTreesRegressor"),
)
TREES = (
    *("DecisionTreeClassifier", "DecisionTreeRegressor"),
    *("ExtraTreeClassifier", "ExtraTreeRegressor"),
)
EXACT = ("n_estimators", "ccp_alpha")
CUTS = ("max_depth", "min_samples_split")
WORDS = {"n_estimators": GROWN, "ccp_alpha": PRUNED, **dict.fromkeys(CUTS, CUT)}


def is_forest(estimator: Any) -> bool:
    """Whether an estimator is a forest of scikit-learn's trees, gpuml's included."""
    return _is_of(estimator, FORESTS, ("sklearn.ensemble", "gpuml.ensemble"))


def _is_tree(estimator):
    return _is_of(estimator, TREES, ("sklearn.tree",))


def _is_of(estimator, names, modules):
    # No import is needed: without the modules there is no such estimator.
    kind = type(estimator)
    found = (vars(sys.modules[name]).get(kind.__name__) for name in modules if name in sys.modules)
    return kind.__name__ in names and any(kind is each for each in found)


class OneForest(OneFit):
    """Forests or trees that are read off one with the most and deepest trees."""

    def __init__(self, fitted: Any, X: Any, y: Any, parts: Sequence[Any]):
        super().__init__(fitted, X, y, parts)
        self._cut: tuple[Any, list[Any]] = (None, [])
        self._sums: dict[int, Sums] = {}

    @staticmethod
    def varying(estimator: Any) -> tuple[str, ...]:
        """The number of trees, and the parameters that cut or prune."""
        if is_forest(estimator):
            return EXACT + (CUTS if current_settings().cut_trees else ())
        if _is_tree(estimator):
            return ("ccp_alpha",) + (CUTS if current_settings().cut_trees else ())
        return ()

    @staticmethod
    def key(estimator: Any) -> Hashable | None:
        """A key, equal for models that differ only in their number of trees and in cuts."""
        model = estimator
        names = OneForest.varying(model)
        if not names or OneForest.why_alone(model) is not None or not _are_valid(model):
            return None
        if model.max_leaf_nodes is not None:
            names = tuple(name for name in names if name not in CUTS)
        return estimator_key(model, without=names)

    @staticmethod
    def why_alone(model: Any) -> str | None:
        """The reason why a model cannot be read off another one, if any."""
        cuts, seed = current_settings().cut_trees, model.random_state
        if not is_seed(seed) and not (cuts and seed is None):
            return "candidates can share trees only with an integer random_state"
        if getattr(model, "warm_start", False):
            return "warm_start=True fits each candidate anew; leave warm_start at the default"
        if getattr(model, "oob_score", False) is not False:
            return (
                "oob_score is computed in each fit; leave oob_score at the default, or set cv='oob'"
            )
        return None

    @staticmethod
    def refused_rows(model: Any, X: Any) -> str | None:
        """The reason why trees of these rows are not available, if any."""
        return "forests of rows in GPU memory are grown one by one" if is_foreign(X) else None

    @staticmethod
    def largest(models: Sequence[Any], X: Any) -> Any:
        """The model with the most trees and the weakest cuts."""
        n_rows, params = _num_samples(X), {}
        first = models[0]
        if hasattr(first, "n_estimators"):
            params["n_estimators"] = max(model.n_estimators for model in models)
        depths = [model.max_depth for model in models]
        params["max_depth"] = None if None in depths else max(depths)
        smallest = min(models, key=lambda model: _least_rows(model, n_rows))
        params["min_samples_split"] = smallest.min_samples_split
        return shallow(first).set_params(**params, ccp_alpha=0.0)

    @staticmethod
    def words(names: Collection[str]) -> tuple[str, ...]:
        """Text: what models that differ in some parameters share."""
        return tuple(dict.fromkeys(words for name, words in WORDS.items() if name in names))

    def refused(self, model: Any) -> str | None:
        """The reason why a fitted forest cannot be used: another library grew its trees."""
        grown = vars(self.fitted).keys() & {"estimators_", "tree_"}
        return None if grown else "the trees were not grown by scikit-learn"

    def order(self, model: Any) -> Any:
        """A sort key: cut after cut, and for each cut from few to many trees."""
        depth = np.inf if model.max_depth is None else model.max_depth
        n_rows = _num_samples(self.X)
        cut = model.ccp_alpha, depth, _least_rows(model, n_rows)
        return *cut, getattr(model, "n_estimators", 1)

    def model(self, unfitted: Any) -> Any:
        """A forest of the first trees, cut; or a cut tree."""
        params = unfitted.get_params(deep=False)
        trees = self._trees(unfitted)
        if not is_forest(unfitted):
            return shallow(trees[0]).set_params(**params)
        out = shallow(self.fitted).set_params(**params)
        out.estimators_ = trees[: unfitted.n_estimators]
        return out

    def answering(self, unfitted: Any) -> Any:
        """A model with the same predictions, continued from those of fewer trees."""
        model = self.model(unfitted)
        if not is_forest(model):
            return model
        return predicting(model, self, lambda part: self._mean(part, model))

    def _trees(self, unfitted):
        """All trees with the cut of an unfitted model; the last cut is cached."""
        *cut, _ = self.order(unfitted)
        if self._cut[0] != cut:
            whole = self.fitted.estimators_ if is_forest(unfitted) else [self.fitted]
            least = _least_rows(unfitted, _num_samples(self.X))
            self._cut = cut, [cut_tree(tree, unfitted, least) for tree in whole]
        return self._cut[1]

    def new_sums(self, part: int, X: Any, cut: Any) -> "Sums":
        """An accumulator of predictions for one part."""
        return Sums(X, cut)

    def _mean(self, part, model):
        *cut, n_trees = self.order(model)
        sums = self._sums.get(part)
        if sums is None or sums.cut != cut or sums.n_trees > n_trees:
            rows = self.parts[part]
            X = sums.X if sums is not None else of_sklearn(model)._validate_X_predict(rows)
            sums = self._sums[part] = self.new_sums(part, X, cut)
        sums.add(model.estimators_[sums.n_trees :], model)
        return sums.mean()


class Sums:
    """Sums of tree predictions for some rows, in the order of the trees."""

    def __init__(self, X: Any, cut: Any = None):
        self.X, self.cut, self.n_trees = X, cut, 0
        self._sums: list[Any] = []

    def add(self, trees: Sequence[Any], forest: Any) -> None:
        """Add the predictions of more trees."""
        for predicted in predictions(trees, [self.X] * len(trees), forest):
            each = predicted if isinstance(predicted, list) else [predicted]
            if not self._sums:
                self._sums = [np.zeros(values.shape) for values in each]
            for total, values in zip(self._sums, each, strict=True):
                total += values
            self.n_trees += 1

    def mean(self) -> Any:
        """The output of a classifier's `predict_proba`, or of a regressor's `predict`."""
        means = [total / self.n_trees for total in self._sums]
        return means[0] if len(means) == 1 else means


def predictions(trees: Iterable[Any], rows: Iterable[Any], forest: Any) -> Iterator[Any]:
    """The predictions of trees in order, by as many threads as the forest uses."""
    name = "predict_proba" if is_classifier(forest) else "predict"
    methods = (getattr(tree, name) for tree in trees)
    pairs = zip(methods, rows, strict=True)
    if effective_n_jobs(forest.n_jobs) == 1:
        return (method(X, check_input=False) for method, X in pairs)
    threads = Parallel(n_jobs=forest.n_jobs, require="sharedmem", return_as="generator")
    return threads(delayed(method)(X, check_input=False) for method, X in pairs)


def predicting(model: Any, one: OneFit, answer: Callable[[int], Any]) -> Any:
    """A forest whose predictions for the parts of a fit are known."""
    reads, out = of_sklearn(model), shallow(model)
    name = "predict_proba" if is_classifier(model) else "predict"
    setattr(reads, name, one.known(getattr(reads, name), answer))
    for method in ("predict", "predict_proba", "predict_log_proba"):
        if hasattr(reads, method):
            setattr(out, method, getattr(reads, method))
    return out


# ---------------------------------------------------------------- trees


def cut_tree(grown: Any, params: Any, least_rows: int) -> Any:
    """A fitted tree with other values of `max_depth`, `min_samples_split`, `ccp_alpha`.

    Parameters
    ----------
    grown : decision tree
        Fitted without pruning, with weaker limits.
    params : estimator
        That has these parameters.
    least_rows : int
        Nodes of fewer rows are leaves.
    """
    out = shallow(grown)
    for name in (*CUTS, "ccp_alpha"):
        setattr(out, name, getattr(params, name))
    tree = grown.tree_
    is_leaf = tree.children_left == -1
    stops = is_leaf | (tree.n_node_samples < least_rows)
    if params.max_depth is not None and params.max_depth < tree.max_depth:
        stops |= _depths(tree) >= params.max_depth
    if not np.array_equal(stops, is_leaf):
        out.tree_ = Tree(tree.n_features, tree.n_classes, tree.n_outputs)
        _build_pruned_tree_py(out.tree_, tree, stops.astype(np.uint8))
    out._prune_tree()
    return out


def _depths(tree):
    """The depth of each node."""
    depths = np.zeros(tree.node_count, np.intp)
    left, right = tree.children_left, tree.children_right
    level, depth = np.zeros(1, np.intp), 0
    while len(level):
        depths[level] = depth
        level = level[left[level] >= 0]
        level = np.concatenate([left[level], right[level]])
        depth += 1
    return depths


def _least_rows(model, n_rows):
    """The fewest rows of a node that scikit-learn still splits."""
    least = model.min_samples_split
    return max(2, least if is_count(least) else ceil(least * n_rows))


def _are_valid(model):
    """Whether the varying parameters have valid values; a fit raises the error if not."""
    least, depth = model.min_samples_split, model.max_depth
    share = isinstance(least, Real) and not is_count(least) and 0 < float(least) <= 1
    return (
        (depth is None or is_count(depth))
        and (share or (is_count(least) and least >= 2))
        and isinstance(model.ccp_alpha, Real)
        and float(model.ccp_alpha) >= 0
        and is_count(getattr(model, "n_estimators", 1))
    )
