"""The kind of worker that an estimator needs, and the steps where a pipeline changes workers."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal

import sklearn
from sklearn.pipeline import Pipeline
from sklearn.utils import get_tags

import gpuml
from gpuml.model_selection.residence import all_estimators, computes_on_gpu

Kind = Literal["gpu", "cpu"]
Need = Literal["gpu", "cpu", "any"]

# Parameters by which other libraries select a GPU: xgboost, LightGBM, skorch; CatBoost.
DEVICE_PARAMETERS = ("device", "device_type", "task_type")


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
    have the tag ``array_api_support`` (scikit-learn's need its setting ``array_api_dispatch``
    besides). "cpu" for all others, and for gpuml's where the setting is ``device="cpu"`` or only
    the host has a use for what they make.

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
    if _root(estimator) == "cuml":
        return True
    params = estimator.get_params(deep=False) if hasattr(estimator, "get_params") else {}
    if _root(estimator) == "gpuml":
        return False
    return any(
        str(params.get(name)).lower().startswith(("cuda", "gpu")) for name in DEVICE_PARAMETERS
    )


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
    first = []
    for kind, (name, transformer) in zip(kinds, estimator.steps, strict=True):
        if kind == "gpu":
            break
        if transformer is not None and transformer != "passthrough":
            first.append(name)
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
