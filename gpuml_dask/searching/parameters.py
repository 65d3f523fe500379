"""Parameters of searches: those of gpuml's class of the same name, and the cluster's."""

from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, TypeVar

from gpuml_dask._documents import of_gpuml, with_sections

Search = TypeVar("Search", bound=type)

OF_CLUSTER = """\
client : distributed.Client, address, cluster or None, default=None
    None is the current client. Without any, the search runs in this process. Pickles hold the
    address of its scheduler.
workers : str or list of str, default=None
    Addresses, names or hosts of the workers that do the work; None is all of them.
priority : int, default=None
    Of its tasks. Of all that wait, those of the highest number run first; without one it is 0.
resources : dict of str to float, default=None
    Of Dask, that each fit asks for, such as ``{"memory": 8e9}``; only workers that declare them
    fit. These three are passed to Dask as they are (`dask.annotate`).
fit_timeout : float, default=None
    Seconds that a fit may take, of one candidate on one split, with its scores. One that takes
    longer gets `error_score`: its worker, which needs a nanny, is restarted. Fits in one task
    may take so much each; if it takes longer, they run again one by one, each with this limit.
    The refit has no limit, and fits over divided rows have none, with a warning.
scheduler : Client, address or str, default=None
    As in dask-ml: what `client` is, or "threads", "sync", "processes" for a search in this
    process.
cache_cv : bool, default=True
    Is ignored: folds are always taken out of rows that are on the worker.
iid : bool, default="deprecated"
    Is ignored, with a warning.
"""
IGNORED = """\
{} : array or DataFrame, default=None
    Are ignored: dask-ml's class needs them where it can't infer what a model returns.
"""
ON_CLUSTER = """
On a cluster, `n_jobs` and `pre_dispatch` have no effect: Dask's workers and threads decide.
`error_score` is also the score of a fit that takes longer than `fit_timeout`, or ends the process
that runs it. `return_predictions` and ``cv="oob"`` are a ValueError. `cv_results_` has "worker" and
"device" of each candidate too, and `dask_graph_` what was done and what each part needed;
`visualize` draws it.
"""


def with_parameters_of_one_device(ignored: tuple[str, ...] = ()) -> Callable[[Search], Search]:
    """A decorator for a search that derives from gpuml's class of the same name.

    scikit-learn, `help` and editors read the parameters from the signature of ``__init__``, users
    from the docstring. Those in `ignored` are None by default, and only stored.
    """

    def decorate(kind):
        every = _signature(kind, ignored)

        def __init__(self, *args, **kwargs):
            given = every.bind(self, *args, **kwargs).arguments
            del given["self"]
            for name in ignored:
                setattr(self, name, given.pop(name, None))
            super(kind, self).__init__(**given)

        init: Any = __init__
        init.__signature__ = every
        kind.__init__ = init
        head, mark, examples = cleandoc(kind.__doc__ or "").partition("\nExamples\n")
        more = (IGNORED.format(", ".join(ignored)) if ignored else "") + OF_CLUSTER
        kind.__doc__ = with_sections(kind, head + ON_CLUSTER, mark + examples, more)
        return kind

    return decorate


def _signature(kind, ignored):
    """Parameters on one device, with the ignored ones among them, and those of a cluster."""
    own = next(vars(k)["__init__"] for k in kind.__mro__[1:] if "__init__" in vars(k))
    theirs = list(signature(of_gpuml(kind).__init__).parameters.values())
    n_positional = sum(p.kind is Parameter.POSITIONAL_OR_KEYWORD for p in theirs)
    unused = [Parameter(n, Parameter.POSITIONAL_OR_KEYWORD, default=None) for n in ignored]
    of_cluster = [p for p in signature(own).parameters.values() if p.kind is Parameter.KEYWORD_ONLY]
    return Signature([*theirs[:n_positional], *unused, *theirs[n_positional:], *of_cluster])
