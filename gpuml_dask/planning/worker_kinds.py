"""Kinds of workers: which one an estimator needs, which there are, and who gets which candidate."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile
from typing import Any, Literal

import sklearn
from distributed import Client
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

import gpuml
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.fitted_prefixes import may_be_prepared
from gpuml.model_selection.one_by_one import is_foreign
from gpuml.model_selection.residence import all_estimators, computes_on_gpu, configured
from gpuml.resampling.keys import value_key
from gpuml_dask.waiting import facts_of

Kind = Literal["gpu", "cpu"]
Need = Literal["gpu", "cpu", "any"]

# Parameters by which other libraries select a GPU: xgboost, LightGBM, skorch; CatBoost.
DEVICE_PARAMETERS = ("device", "device_type", "task_type")
RESOURCES: Mapping[Kind, str] = {"gpu": "GPU", "cpu": "CPU"}
# The amount of a resource that a task needs: only having it matters, and the worker's threads limit
# how many tasks run. (A power of two, so that sums are exact.)
SHARE = 2.0**-20


@dataclass(frozen=True)
class Placing:
    """Where a candidate is fitted: the kind of worker (None is any), and its first steps.

    `first` names the first steps of a pipeline that a CPU worker does before.
    """

    kind: Kind | None = None
    first: tuple[str, ...] = ()


ANYWHERE = Placing()


def need_of(estimator: Any) -> Need:
    """The kind of worker that an estimator needs; a step may be None or "passthrough".

    "gpu" for gpuml's and cuML's estimators, for others with a parameter such as ``device="cuda"``,
    and for estimators around one of those. "any" for those that compute where their rows are: they
    have the tag ``array_api_support``. "cpu" for all others, and for gpuml's where the setting is
    ``device="cpu"`` or only the host has a use for what they make.

    >>> from sklearn.svm import SVC
    >>> from gpuml.linear_model import Ridge
    >>> need_of(Ridge()), need_of(SVC())
    ('gpu', 'cpu')
    """
    if estimator is None or isinstance(estimator, str):
        return "any"
    parts = list(all_estimators(estimator))
    uses_gpus = gpuml.get_config()["device"] != "cpu"
    if must_have_gpu(estimator) or (uses_gpus and any(map(computes_on_gpu, parts))):
        return "gpu"
    return "any" if len(parts) == 1 and _follows_rows(estimator) else "cpu"


def must_have_gpu(estimator: Any) -> bool:
    """Whether an estimator, or one inside it, only computes on a GPU."""
    if estimator is None or isinstance(estimator, str):
        return False
    return any(map(_itself_must_have_gpu, all_estimators(estimator)))


def _itself_must_have_gpu(estimator):
    root = _root(estimator)
    if root in ("cuml", "gpuml") or not hasattr(estimator, "get_params"):
        return root == "cuml"
    params = estimator.get_params(deep=False)
    words = [str(params.get(name)).lower() for name in DEVICE_PARAMETERS]
    return any(word.startswith(("cuda", "gpu")) for word in words)


def placing_of(estimator: Any) -> Placing:
    """The place of an estimator's fit in a cluster with both kinds of workers.

    A pipeline goes to a GPU worker from its first step on that needs one; steps before that need
    none are done by a CPU worker. If its model needs no GPU, and its other steps can do without,
    all of it is done by a CPU worker.

    >>> from sklearn.feature_extraction.text import HashingVectorizer
    >>> from sklearn.pipeline import make_pipeline
    >>> from gpuml.linear_model import LogisticRegression
    >>> placing_of(make_pipeline(HashingVectorizer(), LogisticRegression()))
    Placing(kind='gpu', first=('hashingvectorizer',))
    """
    if type(estimator) is not Pipeline or not estimator.steps:
        need = need_of(estimator)
        return Placing(None if need == "any" else need)
    needs = [need_of(step) for _, step in estimator.steps]
    if set(needs) == {"any"}:
        return ANYWHERE
    kinds = _kinds(needs)
    if kinds[-1] == "cpu" and not must_have_gpu(estimator):
        return Placing("cpu")
    before = takewhile(lambda pair: pair[0] != "gpu", zip(kinds, estimator.steps, strict=True))
    first = [name for _, (name, step) in before if step is not None and step != "passthrough"]
    return Placing("gpu", tuple(first))


def _kinds(needs: Sequence[Need]) -> list[Kind]:
    """The kind of worker of each step: "any" stays with the rows, at first with the next step."""
    at: Kind = next(need for need in needs if need != "any")
    kinds: list[Kind] = []
    for need in needs:
        at = at if need == "any" else need
        kinds.append(at)
    return kinds


def _follows_rows(estimator):
    with suppress(Exception):  # objects that are no scikit-learn estimators
        if _root(estimator) == "sklearn" and not sklearn.get_config()["array_api_dispatch"]:
            return False
        return _root(estimator) != "gpuml" and get_tags(estimator).array_api_support
    return False


def _root(estimator):
    return type(estimator).__module__.partition(".")[0]


# ---------------------------------------------------------------- the workers there are


class Kinds:
    """The kinds of the existing workers, by the resources that each declares.

    >>> kinds = Kinds({"a": {"GPU": 1.0}, "b": {"CPU": 4.0}})
    >>> kinds.are_mixed, kinds.workers("cpu"), list(kinds.demand("gpu"))
    (True, ['b'], ['GPU'])
    >>> Kinds({"a": {"GPU": 1.0}}).demand("gpu")  # nothing to choose
    {}
    """

    def __init__(self, resources: Mapping[str, Mapping[str, float]]):
        self.addresses = sorted(resources)
        self._of = {
            kind: [a for a in self.addresses if resources[a].get(name)]
            for kind, name in RESOURCES.items()
        }

    @property
    def differ(self) -> bool:
        """Whether some workers have a GPU and others do not."""
        return 0 < len(self._of["gpu"]) < len(self.addresses)

    @property
    def are_mixed(self) -> bool:
        """Whether some workers have a GPU, and others declare that they are for CPU work."""
        return bool(self._of["gpu"]) and bool(set(self._of["cpu"]) - set(self._of["gpu"]))

    @property
    def resources(self) -> set[str]:
        return {name for kind, name in RESOURCES.items() if self._of[kind]}

    def workers(self, kind: Kind | None) -> list[str]:
        """Addresses of the workers for a kind of work."""
        return self._of[kind] if kind is not None and self.demand(kind) else self.addresses

    def demand(self, kind: Kind | None) -> dict[str, float]:
        """Resources that a task needs; none that no worker or every worker has."""
        chosen = self.differ if kind == "gpu" else self.are_mixed
        return {RESOURCES[kind]: SHARE} if kind is not None and chosen else {}


def kinds_of(client: Client) -> Kinds:
    """The kinds of a cluster's workers; none if the scheduler does not answer."""
    return kinds_among(facts_of(client))


def kinds_among(workers: Mapping[str, Mapping[str, Any]]) -> Kinds:
    return Kinds({address: worker["resources"] for address, worker in workers.items()})


# ---------------------------------------------------------------- candidates


@dataclass(frozen=True)
class Spot:
    """Candidates that are fitted by one kind of worker, and have the same first steps there."""

    placing: Placing
    candidates: list[int]


class Placer:
    def __init__(self, job: Job, kinds: Kinds):
        self.job, self.kinds = job, kinds
        # Rows of another library than NumPy may be in the memory of GPUs.
        table = getattr(job.X, "table", None)
        self._on_gpu = is_foreign(job.X) if table is None else table["X"].rows.facts.on_gpu

    def placing(self, params: Mapping[str, Any]) -> Placing:
        """Where a candidate is fitted; anywhere if all workers are of one kind."""
        if not self.kinds.differ:
            return ANYWHERE
        job = self.job
        try:
            placing = placing_of(configured(job.estimator, params))
        except Exception:
            return ANYWHERE  # its fit will tell what is wrong
        if self._on_gpu:
            return Placing("gpu")  # where its rows are
        divisible = self.kinds.are_mixed and placing.first
        if divisible and may_be_prepared(job.estimator, params, job.task.fit_params, job.task):
            return placing
        return Placing(placing.kind)

    def spots(self, candidates: Mapping[int, Mapping[str, Any]]) -> list[Spot]:
        """Group candidates, given by number, by where they are fitted."""
        if not self.kinds.differ:
            return [Spot(ANYWHERE, list(candidates))]
        found: dict[Any, Spot] = {}
        models = []  # a key is good as long as what it names
        for number, params in candidates.items():
            placing, key = self.placing(params), None
            if placing.first:
                models.append(configured(self.job.estimator, params))
                key = tuple(value_key(models[-1].named_steps[name]) for name in placing.first)
            found.setdefault((placing, key), Spot(placing, [])).candidates.append(number)
        return list(found.values())
