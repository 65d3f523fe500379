"""scikit-learn's searches over the workers of a Dask cluster."""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import closing, nullcontext
from copy import copy
from functools import partial
from typing import Any, Self

import dask
import numpy as np
from distributed import Client
from sklearn.base import clone, is_classifier
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from gpuml._sklearn import _search_estimator_has
from gpuml.divided import StoredRows, rows_like
from gpuml.metrics.blocks import scores_blocks
from gpuml.model_selection import search as one_device
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.explain import Outlook, explain_search
from gpuml.model_selection.one_pass import OnePassSearch
from gpuml_dask import predict
from gpuml_dask._annotations import asked_by
from gpuml_dask.client import address_of, client_for
from gpuml_dask.rows.lazy import lives_on_workers
from gpuml_dask.rows.placement import Placed
from gpuml_dask.searching.limits import check_fit_timeout
from gpuml_dask.searching.parameters import with_parameters_of_one_device
from gpuml_dask.searching.session import Session, computed, draw, graph_of, score_there

IID = (
    "iid= has no effect, and a later version will reject it: mean scores weight all folds equally, "
    "as in scikit-learn since 0.24. Leave it out. To weight folds by their sizes, pass a function "
    "as refit=, which chooses the best candidate."
)

NO_PREDICTIONS = (
    "return_predictions is for a search without a cluster: workers return scores only. Leave it "
    "out, or use gpuml.model_selection.GridSearchCV."
)
STORED = (
    "Rows of gpuml.read_parquet and similar functions are read by one process: use the search of "
    "the same name in gpuml.model_selection. On a cluster, pass a collection that its workers "
    "read, such as dask.dataframe.read_parquet(path)."
)
READS_ROWS = (
    "{} needs the rows, so all of them are copied to one place. A metric of targets and "
    "predictions is computed block by block: scoring=make_scorer(metric)."
)
NEEDS_CLUSTER = (
    "workers=, priority=, resources= and fit_timeout= need a cluster: start one with "
    "gpuml_dask.local_client(), or give client=."
)


def _of_best(name: str, words: str) -> Any:
    """A method of the best model, for rows here and lazily, block by block, for those of Dask."""

    def method(self, X):
        if not lives_on_workers(X):
            return getattr(super(ClusterSearch, self), name)(X)
        check_is_fitted(self)
        return getattr(predict, name)(self.best_estimator_, X)

    method.__name__, method.__qualname__, method.__doc__ = name, f"ClusterSearch.{name}", words
    return available_if(_search_estimator_has(name))(method)


class ClusterSearch(OnePassSearch):
    """`fit` of a search on a cluster, and predictions for rows of Dask.

    Its parameters come after those of the search on one device; see `searching.parameters`.
    """

    # Whether rounds draw rows of their own, by their labels. Otherwise splits of labels on workers
    # follow from how many there are of each (`Session.splits`), and the first round is the last.
    in_rounds = False
    # What the search has on the cluster while it is fitted there.
    _session: Session | None = None

    def __init__(
        self,
        *args,
        client=None,
        workers=None,
        priority=None,
        resources=None,
        fit_timeout=None,
        scheduler=None,
        cache_cv=True,
        iid="deprecated",
        **kwargs,
    ):
        super().__init__(*args, **kwargs)
        self.client, self.fit_timeout = client, fit_timeout
        self.workers, self.priority, self.resources = workers, priority, resources
        self.scheduler, self.cache_cv, self.iid = scheduler, cache_cv, iid

    def fit(self, X, y=None, **params) -> Self:
        """Fit and score all candidates on all splits, and the best one on all rows.

        Parameters
        ----------
        X : array-like, DataFrame, or dask array, dask DataFrame, Delayed, Future, list of these
            Rows on workers stay there. Rows of this process are sent to the workers once.
        y : array-like, or one of those of Dask, default=None
            The target. It is copied to this process if the splits depend on it: for classifiers,
            unless `cv` is a splitter that does not use y.
        **params : dict
            `sample_weight`, `groups` and other parameters of `fit`, as for scikit-learn's
            searches. `groups` are copied to this process.

        Returns
        -------
        self : object

        Raises
        ------
        ClusterError
            If the client is closed, or the cluster has no workers for a minute (Dask's setting
            ``gpuml.patience``).
            Also if `fit_timeout` is given and a worker has no nanny that could restart it.
        FitTimeoutError
            If a fit takes longer than `fit_timeout`, and `error_score` is "raise".
        ValueError
            If scikit-learn's searches would raise it. A failed fit leaves the search as it was.
        """
        check_fit_timeout(self.fit_timeout)
        if self.iid != "deprecated":
            warnings.warn(IID, FutureWarning, stacklevel=2)
        asked = asked_by(self)
        with dask.annotate(**asked), client_for(self.client, self.scheduler) as client:
            if client is None:
                if self.fit_timeout is not None or asked:
                    raise ValueError(NEEDS_CLUSTER)
                X, y, params = self._computed(X, y, params)
                super().fit(X, y, **params)
                self.dask_graph_ = graph_of(map(str, self.plan_.steps))
                return self
            if isinstance(X, StoredRows):
                raise TypeError(STORED)
            if self.return_predictions:
                raise ValueError(NO_PREDICTIONS)
            checkpoints = self._checkpoints(fit_timeout=self.fit_timeout)
            with closing(Session(client, checkpoints, self.fit_timeout)) as session:
                X, y, params = session.take(self, X, y, params)
                self._session = session
                try:
                    super().fit(X, y, **params)
                finally:
                    del self._session
                names = [name for each in session.evaluators for name in each.names]
                self.dask_graph_ = graph_of(names)
        return self

    def explain(self, X, y=None, **params):
        """Return the plan of a `fit` to these rows on the cluster, without fitting anything.

        Parameters
        ----------
        X, y, **params
            As for `fit`. Like `fit`, this computes lazy rows, and keeps them on the workers until
            it returns.

        Returns
        -------
        explanation : Explanation
            As for `gpuml.model_selection.GridSearchCV.explain`; the speed is that of a worker.

        Raises
        ------
        ClusterError, ValueError
            As for `fit`.
        """
        check_fit_timeout(self.fit_timeout)
        with dask.annotate(**asked_by(self)), client_for(self.client, self.scheduler) as client:
            if client is None:
                return explain_search(clone(self), *self._computed(X, y, params))
            search = clone(self)
            with closing(Session(client, None, self.fit_timeout)) as session:
                X, y, params = session.take(search, X, y, params)
                search._session = session
                return explain_search(search, X, y, params)

    def _computed(self, X, y, params):
        """Rows of Dask, computed in this process, for a search without a cluster."""
        here = partial(computed, scheduler=self.scheduler)
        return here(X), here(y), {name: here(value) for name, value in params.items()}

    def _stand_in(self, X: Any) -> Any:
        if not isinstance(X, Placed):
            return X
        facts = X.rows.facts
        named = facts.columns is not None and facts.head is not None
        if named and hasattr(self.estimator, "steps"):
            return rows_like(facts.head, min(X.shape))  # steps ask whether columns are fewer
        return np.broadcast_to(np.zeros((), X.dtype), X.shape)  # nothing is read of it

    def _outlook(self, job: Job, routes: Sequence[Any]) -> Outlook:
        here = super()._outlook if self._session is None else self._session.outlook
        return here(job, routes)

    def _works_here(self) -> bool:
        return self._session is None

    def _make_evaluator(self, job: Job) -> Any:
        if self._session is None:
            return super()._make_evaluator(job)
        return self._session.evaluator(job, refits=not self.in_rounds and self.refit is True)

    def _split(self, cv: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Sequence[Any]:
        given = any(value is not None for value in params.values())
        there = isinstance(y, Placed) and is_classifier(self.estimator)
        if self._session is not None and there and not given:
            return self._session.splits(cv, y)
        return super()._split(cv, X, y, params)

    def _format_results(self, candidate_params, n_splits, out, more_results=None):
        results = super()._format_results(candidate_params, n_splits, out, more_results)
        of_each = [out[i : i + n_splits] for i in range(0, len(out), n_splits)]
        for name in ("worker", "device"):
            if name in out[0]:
                words = [filter(None, (each[name] for each in some)) for some in of_each]
                texts = [", ".join(dict.fromkeys(some)) for some in words]
                results[name] = np.array(texts, dtype=object)
        return results

    def visualize(self, filename="mydask", format=None, **kwargs):
        """Draw the tasks of the last fit as a graph, with Dask and graphviz.

        Parameters
        ----------
        filename : str or None, default="mydask"
            The file to write, without its extension; None writes no file.
        format : {"png", "pdf", "dot", "svg", "jpeg", "jpg"}, default=None
            None is "png".
        **kwargs : dict
            As for `dask.visualize`.

        Returns
        -------
        image : IPython.display.Image, IPython.display.SVG or None
            None without IPython, or if it cannot show the format ("dot", "pdf").

        Raises
        ------
        ImportError
            If graphviz is not installed: the Python package, or the program that draws.
        """
        check_is_fitted(self, "dask_graph_")
        return draw(self.dask_graph_, filename=filename, format=format, **kwargs)

    # ------------------------------------------------------------ clones and pickles

    def __sklearn_clone__(self):
        # A client cannot be copied, and a clone is to use the same one.
        bare = copy(self)
        bare.client = bare.scheduler = None
        out = super(ClusterSearch, bare).__sklearn_clone__()
        out.client, out.scheduler = self.client, self.scheduler
        return out

    def __getstate__(self):
        state = dict(super().__getstate__())
        state.pop("_session", None)
        return {**state, "client": _address(self.client), "scheduler": _address(self.scheduler)}

    # ------------------------------------------------------------ rows of Dask

    def score(self, X, y=None, **params):
        """Score of the best model on the given rows; workers score rows of Dask block by block.

        See `predict.score`. A scorer that reads the rows gets all on one worker, with a warning.
        """
        there = any(map(lives_on_workers, (X, y, *params.values())))
        if not there or not hasattr(self, "best_estimator_"):  # then this is an error
            return super().score(X, y, **params)
        with client_for(self.client, self.scheduler) as client:
            if scores_blocks(self) and params.keys() <= {"sample_weight"}:
                with nullcontext() if client is None else client.as_current():
                    return predict.score(self, X, y, **params)
            warnings.warn(READS_ROWS.format(self.scorer_), UserWarning, stacklevel=2)
            if client is None:
                X, y, params = self._computed(X, y, params)
                return super().score(X, y, **params)
            return score_there(client, self, X, y, params)

    predict = _of_best("predict", "Predictions of the best model; lazy for dask collections.")
    predict_proba = _of_best("predict_proba", "Class probabilities of this model; see `predict`.")
    predict_log_proba = _of_best("predict_log_proba", "Their logarithms; see `predict`.")
    decision_function = _of_best("decision_function", "Decision values; see `predict`.")
    transform = _of_best("transform", "Rows transformed by the best model; see `predict`.")
    inverse_transform = _of_best("inverse_transform", "The inverse of `transform`; see `predict`.")
    score_samples = _of_best("score_samples", "Scores of single rows; see `predict`.")


def _address(client):
    """The address of a client's scheduler; None of one in this process."""
    if not isinstance(client, Client):
        return client
    address = address_of(client)
    return None if address is None or address.startswith("inproc") else address


@with_parameters_of_one_device()
class GridSearchCV(ClusterSearch, one_device.GridSearchCV):
    """Exhaustive search over a grid of parameters, on the workers of a Dask cluster.

    Parameters, attributes and results are those of scikit-learn's class of this name, and scores
    those of `gpuml.model_selection.GridSearchCV`. A task fits all candidates that the estimator can
    fit together, or some candidates on one split. Each worker that gets tasks gets all rows, once.
    If the rows take 64 MiB or more, and models can be fitted from sums over rows, the rows stay
    divided over the workers instead, and scores may differ from those of one device by rounding.
    In both cases, scores of gpuml's estimators are the same, bit for bit, on any number of workers
    of one kind, also if workers die.

    It also accepts the arguments of dask-ml's class of this name.

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml_dask.model_selection import GridSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> client = Client(processes=False, dashboard_address=":0")
    >>> search = GridSearchCV(Ridge(), {"alpha": np.logspace(-3, 3, 7)}, client=client).fit(X, y)
    >>> print(search.plan_)
    35 fits in 1 pass on 1 worker (numpy:cpu) (all candidates together)
    >>> client.close()
    """


@with_parameters_of_one_device()
class RandomizedSearchCV(ClusterSearch, one_device.RandomizedSearchCV):
    """Search over randomly drawn candidates, on the workers of a Dask cluster.

    It works like `GridSearchCV`, except that scikit-learn's `ParameterSampler` draws the
    candidates: the same `random_state` gives the candidates of scikit-learn's class of this name.

    Examples
    --------
    >>> from distributed import Client
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml_dask.model_selection import RandomizedSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     search = RandomizedSearchCV(
    ...         Ridge(), {"alpha": loguniform(1e-3, 1e3)}, random_state=0, client=client
    ...     ).fit(X, y)
    >>> print(round(search.best_params_["alpha"], 3))
    0.2
    """
