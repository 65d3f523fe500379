"""Adaptive searches over the workers of a Dask cluster: successive halving and Hyperband."""

from itertools import accumulate
from typing import Any, ClassVar
from uuid import uuid4

import numpy as np
from distributed import Client
from sklearn.base import is_classifier

import gpuml
from gpuml.model_selection import halving, hyperband
from gpuml.model_selection.one_by_one import Task
from gpuml.model_selection.row_blocks import RowBlocks
from gpuml.model_selection.trainers import Lesson, classes_of, with_classes
from gpuml_dask.rows.placement import Placed, Table, place
from gpuml_dask.searching.chains import ClusterTrainer
from gpuml_dask.searching.parameters import with_parameters_of_one_device
from gpuml_dask.searching.search import ClusterSearch
from gpuml_dask.searching.session import Session
from gpuml_dask.searching.tasks import with_columns
from gpuml_dask.waiting import answers


class _Halving(ClusterSearch):
    """Shared parts of successive halving on a cluster."""

    in_rounds = True

    def _check_input_parameters(self, X, y, split_params):
        if self._session is not None and isinstance(y, Placed) and is_classifier(self.estimator):
            y = _labels(self._session.client, y)
        super()._check_input_parameters(X=X, y=y, split_params=split_params)


@with_parameters_of_one_device()
class HalvingGridSearchCV(_Halving, halving.HalvingGridSearchCV):
    """Search over a grid of parameters by successive halving, on the workers of a Dask cluster.

    Parameters, attributes and results are those of `gpuml.model_selection.HalvingGridSearchCV`.
    It uses the cluster like `gpuml_dask.model_selection.GridSearchCV`. Each worker gets the rows
    once for all rounds, and for each round the indices of the sampled rows.

    Examples
    --------
    >>> import numpy as np
    >>> from distributed import Client
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml_dask.searching.adaptive import HalvingGridSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> grid = {"alpha": np.logspace(-3, 3, 9)}
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     search = HalvingGridSearchCV(Ridge(), grid, random_state=0, client=client).fit(X, y)
    >>> search.n_candidates_, search.n_resources_
    ([9, 3, 1], [49, 147, 441])
    """


@with_parameters_of_one_device()
class HalvingRandomSearchCV(_Halving, halving.HalvingRandomSearchCV):
    """Search over randomly drawn candidates by successive halving, on a Dask cluster.

    It works like `HalvingGridSearchCV`, except that scikit-learn's `ParameterSampler` draws the
    candidates of the first round.

    Examples
    --------
    >>> from distributed import Client
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_diabetes
    >>> from gpuml.linear_model import Ridge
    >>> from gpuml_dask.searching.adaptive import HalvingRandomSearchCV
    >>> X, y = load_diabetes(return_X_y=True)
    >>> draws, some = {"alpha": loguniform(1e-3, 1e3)}, {"n_candidates": 9, "random_state": 0}
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     search = HalvingRandomSearchCV(
    ...         Ridge(), draws, min_resources="exhaust", **some, client=client
    ...     ).fit(X, y)
    >>> search.n_resources_
    [49, 147, 441]
    """


@with_parameters_of_one_device(ignored=("predict_meta", "predict_proba_meta", "transform_meta"))
class HyperbandSearchCV(ClusterSearch, hyperband.HyperbandSearchCV):
    """Search over randomly drawn candidates by Hyperband, on the workers of a Dask cluster.

    Candidates, results and the best model are those of `gpuml.model_selection.HyperbandSearchCV`
    for the same chunks of rows. With ``chunk_size=None``, each chunk of a dask collection is the
    data of one call of `partial_fit`, and stays on its worker; other data is one chunk. Each call
    is a task that continues from the model of the task before. If a worker dies, its tasks run
    again with the same results. All brackets run at the same time.

    `checkpoint` and `fit_timeout` must be None if models are trained by `partial_fit`, because
    models between calls are not stored, and a fit is many tasks.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from scipy.stats import loguniform
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.linear_model import SGDClassifier
    >>> from gpuml_dask.searching.adaptive import HyperbandSearchCV
    >>> X, y = load_digits(return_X_y=True)
    >>> draws = {"alpha": loguniform(1e-6, 1e1), "average": [True, False]}
    >>> with Client(processes=False, dashboard_address=":0") as client:
    ...     X, y = da.from_array(X / 16, chunks=(600, -1)), da.from_array(y, chunks=600)
    ...     search = HyperbandSearchCV(
    ...         SGDClassifier(), draws, max_iter=9, random_state=0, client=client
    ...     ).fit(X, y)
    >>> search.metadata_["partial_fit_calls"], bool(search.best_score_ > 0.9)
    (69, True)
    """

    in_rounds = True
    _not_by_calls: ClassVar[dict] = {
        **hyperband.HyperbandSearchCV._not_by_calls,
        "fit_timeout": "a model is trained by many tasks, none of which is a fit",
    }

    def _bounds(self, X: Any) -> tuple[int, ...]:
        if isinstance(X, Placed) and self.chunk_size is None:
            return (0, *accumulate(X.table.sizes))
        return super()._bounds(X)

    def _make_trainer(self, X: Any, y: Any, blocks: RowBlocks, task: Task, seed: int) -> Any:
        session = self._session
        if session is None or self._resource() != hyperband.CALLS:
            return super()._make_trainer(X, y, blocks, task, seed)
        self._check_by_calls()
        labels = y
        if isinstance(y, Placed):
            labels = _labels(session.client, y) if is_classifier(self.estimator) else None
        task = with_classes(self.estimator, labels, task)
        table, task = _table_of(session, X, y, blocks, task)
        order, settings = blocks.order(self.max_iter), {**gpuml.get_config(), "progress": False}
        lesson = Lesson(self.estimator, seed, order, task, settings)
        return ClusterTrainer(session.client, lesson, blocks, table)


def _labels(client: Client, y: Placed) -> np.ndarray:
    """Sorted labels of rows on workers."""
    key = f"labels-of-{y.name}-{uuid4().hex}"
    found = y.table[y.name].rows.submit(classes_of, y.future, key=key)  # where their device is
    (labels,) = answers(client, [found], "the labels")
    return labels


def _handle(session: Session, x: Any) -> Any:
    """The handle of rows that workers have already, so that `place` makes no copy; else `x`."""
    return next((there for here, there in session.elsewhere if x is here), x)


def _table_of(
    session: Session, X: Any, y: Any, blocks: RowBlocks, task: Task
) -> tuple[Table, Task]:
    """Rows in the chunks that blocks have, and the task with columns in place of arrays."""
    task, columns = with_columns(task, blocks.bounds[-1])
    table = place(
        _handle(session, X),
        None if y is None else _handle(session, y),
        {name: _handle(session, value) for name, value in columns.items()},
        client=session.client,
        chunks=np.diff(blocks.bounds).tolist(),
        numeric=False,
    )
    return table, task
