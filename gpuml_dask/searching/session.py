"""What a search has on a cluster while it is fitted: a client, its rows, its evaluators."""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from typing import Any

import cloudpickle
import dask
from dask.base import is_dask_collection
from distributed import Client, Future
from sklearn.base import is_classifier
from sklearn.model_selection import StratifiedKFold

from gpuml._sklearn import _is_arraylike, _num_samples
from gpuml.divided import Share, divided_splits
from gpuml.model_selection.candidates import number
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.explain import Outlook, speed_of
from gpuml.model_selection.resuming import Checkpoints
from gpuml.model_selection.route import AtOnce
from gpuml_dask.rows import blocks
from gpuml_dask.rows.inputs import twin
from gpuml_dask.rows.lazy import lives_on_workers
from gpuml_dask.rows.placement import Placed, Table, place
from gpuml_dask.searching.by_rows import plan_for
from gpuml_dask.searching.evaluator import ClusterEvaluator
from gpuml_dask.sums.divided import fetch, repeated
from gpuml_dask.sums.holders import TaskHolders
from gpuml_dask.waiting import answers, workers_there


class Session:
    """The cluster as one fit of a search sees it: its evaluators, and its rows on workers.

    `fit_timeout` are the seconds that a fit of the table may take. `elsewhere` are arrays of this
    process, each with the `Placed` that stands for it on workers.
    """

    def __init__(
        self,
        client: Client,
        checkpoints: Checkpoints | None = None,
        fit_timeout: float | None = None,
    ):
        self.client, self.checkpoints, self.fit_timeout = client, checkpoints, fit_timeout
        self.elsewhere: list[tuple[Any, Placed]] = []
        self.evaluators: list[ClusterEvaluator] = []
        self._table: Table | None = None

    def take(self, search: Any, X: Any, y: Any, params: Mapping[str, Any]) -> tuple:
        """X, y and parameters as a search of local arrays reads them.

        Of values on workers, y and groups come here if splits depend on them. All others get a
        stand-in, so that they stay there.
        """
        params = dict(params)
        if lives_on_workers(params.get("groups")):
            with place(params["groups"], client=self.client, numeric=False) as table:
                params["groups"] = self._values(table, "X")
        remote = {name: value for name, value in params.items() if lives_on_workers(value)}
        if not (lives_on_workers(X) or lives_on_workers(y) or remote):
            return X, y, params
        memory = None if search.in_rounds else "auto"
        table = self._table = place(X, y, client=self.client, numeric=False, memory=memory)
        for name in params.keys() - remote.keys() - {"groups"}:
            if _is_arraylike(params[name]) and _num_samples(params[name]) == table.n_rows:
                remote[name] = params[name]
        if remote:
            table = self._with_params(table, remote, params)
        if y is not None and not lives_on_workers(y):
            self.elsewhere.append((y, table["y"]))
        elif y is not None:
            y = table["y"]
            classifier = is_classifier(search.estimator)
            counted = not search.in_rounds and params.get("groups") is None
            dealt = counted and _is_dealt(search.cv, y, classifier)
            if not dealt and _splits_look_at_y(search.cv, classifier):
                here = self._values(table, "y")
                self.elsewhere.append((here, y))
                y = here
        return table["X"], y, params

    def _with_params(self, X: Table, remote: Mapping[str, Any], params: dict[str, Any]) -> Table:
        """Parameters with one value a row, as columns of the table; others, brought here."""
        columns: dict[str, Any] = {}
        with ExitStack() as stack:
            for name, value in remote.items():
                try:
                    column = place(value, client=self.client, numeric=False)
                except ValueError:  # no rows
                    params[name] = blocks.host_copy(self._value(value))
                    continue
                stack.enter_context(column)
                if column.n_rows == X.n_rows:
                    columns[name] = column.X
                else:
                    params[name] = self._values(column, "X")
            if columns:
                # In place of the one before, with more columns.
                self._table = place(X.X, X.y, columns, client=self.client, numeric=False)
                X.close()
                X = self._table
                params.update({name: X[name] for name in columns})
        return X

    def splits(self, cv: Any, y: Placed) -> Sequence[Any]:
        """Stratified splits of labels that are on workers; only how many there are comes here."""
        table = y.table

        def found():
            # Futures that were lost stay so: each attempt asks for them anew.
            holders = TaskHolders(self.client, table.futures(y.name), "labels")
            try:
                shares = holders.map(partial(Share, None))
                return divided_splits(cv, shares, table.sizes, classifier=True)
            finally:
                holders.futures.release()

        return repeated(table, found)

    def evaluator(self, job: Job, *, refits: bool = False) -> ClusterEvaluator:
        """An evaluator on this cluster, closed with the session."""
        self.evaluators.append(ClusterEvaluator(job, self, refits=refits))
        return self.evaluators[-1]

    def outlook(self, job: Job, routes: Sequence[Any]) -> Outlook:
        """The workers that will do the work of some routes, and the speed of a worker."""
        facts = workers_there(self.client)
        groups = [each.group for each in routes if isinstance(each, AtOnce)]
        n_alone = sum(len(r.positions) for r in routes if not isinstance(r, AtOnce))
        divided = plan_for(job, groups, n_alone, facts).mode == "rows"
        asked = self.client.submit(speed_of, "numpy:cpu")
        (speed,) = answers(self.client, [asked], "a worker's speed")
        limit = self.fit_timeout
        return Outlook(
            place=number(len(facts), "worker"),
            speed=speed,
            at_once=len(facts) if divided else 1,
            alone=sum(worker["nthreads"] for worker in facts.values()),
            divided=divided,
            limit="" if limit is None else f"{limit:g} s for each fit at most",
        )

    def close(self) -> None:
        """Release everything on workers that was put there for this fit."""
        for evaluator in self.evaluators:
            evaluator.close()
        if self._table is not None:
            self._table.close()

    def _value(self, x):
        future = twin(x) if isinstance(x, Future) else self.client.compute(x)
        (value,) = answers(self.client, [future], "a parameter of fit")
        return value

    def _values(self, table, name):
        copied = self.client.submit(blocks.host_copy, table.whole(name))
        return answers(self.client, [copied], "values that splits depend on")[0]


def score_there(client: Client, search: Any, X: Any, y: Any, params: Mapping[str, Any]) -> Any:
    packed = cloudpickle.dumps(search)
    with place(X, y, params, client=client, numeric=False) as table:

        def found():
            rows = {name: table.whole(name) for name in table.names}
            return fetch(client, [client.submit(scored, packed, **rows, pure=False)])[0]

        return repeated(table, found)


def scored(packed: bytes, X: Any, y: Any = None, **params: Any) -> Any:
    return cloudpickle.loads(packed).score(X, y, **params)


def computed(x: Any, scheduler: Any) -> Any:
    """Rows that Dask makes, in this process, with one of Dask's local schedulers."""
    if not lives_on_workers(x):
        return x
    parts = list(x) if isinstance(x, list | tuple) else [x]
    if not all(map(is_dask_collection, parts)):
        raise TypeError(
            f"{type(parts[0]).__name__} objects live on a cluster: give the search its client=."
        )
    return blocks.join(*dask.compute(*parts, scheduler=scheduler))


def _is_dealt(cv, y, classifier):
    """Whether splits follow from how many rows of each class every chunk has."""
    usual = cv is None or isinstance(cv, int) or (type(cv) is StratifiedKFold and not cv.shuffle)
    return classifier and usual and y.ndim == 1 and y.dtype.kind in "iubU"


def _splits_look_at_y(cv, classifier):
    """Whether splits depend on y: of classifiers, and of splitters that are not known not to."""
    if hasattr(cv, "split"):
        theirs = type(cv).__module__.startswith("sklearn.model_selection")
        return not theirs or "Stratified" in type(cv).__name__
    # None and a number mean stratified folds for classifiers; an iterable has its indices.
    return classifier and (cv is None or isinstance(cv, int))


# ---------------------------------------------------------------- what was done


def graph_of(names: Iterable[str]) -> dict[str, list[str]]:
    """A graph of what was done: each unit, and what it needed."""
    units = list(names)
    return {"rows": [], **{name: ["rows"] for name in units}, "table of scores": units}


def draw(graph: Mapping[str, Sequence[str]], **options: Any) -> Any:
    """Draw a graph of names; `options` as for `dask.visualize`.

    Each name is mapped to those that it needs, which stand before it; all lead to the last.
    """
    done: dict[str, Any] = {}
    for name, needed in graph.items():
        inputs = [done[each] for each in needed]
        done[name] = dask.delayed(_symbol, pure=False)(*inputs, dask_key_name=name)
    try:
        return done[name].visualize(**options)
    except (ImportError, RuntimeError) as error:
        raise ImportError(
            "Drawing needs graphviz, the program and the Python package: conda install "
            "python-graphviz, or pip install graphviz and your system's graphviz."
        ) from error


def _symbol(*needed):
    """The function of all nodes."""
