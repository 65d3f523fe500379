"""Parameters of searches: those of gpuml's class of the same name, and the cluster's."""

from collections.abc import Callable
from inspect import Parameter, Signature, cleandoc, signature
from typing import Any, TypeVar

from gpuml_dask._documents import of_gpuml, with_sections

Search = TypeVar("Search", bound=type)

OF_CLUSTER = """\
client : distributed.Client, address, cluster or None, default=None
    The cluster to use. None is the current client; if there is none, the search runs in this
    process. Pickles of the search store the address of the scheduler.
workers : str or list of str, default=None
    Addresses, names or hosts of the workers to use; None is all of them.
priority : int, default=None
    Dask's priority of the tasks of this search: of all waiting tasks, those with the highest
    number run first. None is 0.
resources : dict of str to float, default=None
    Dask resources that each fit needs, such as ``{"memory": 8e9}``. Only workers that declare
    them run fits. Dask gets `workers`, `priority` and `resources` (`dask.annotate`).
fit_timeout : float, default=None
    The most seconds for a fit of one candidate on one split, with its scores. A fit that takes
    longer gets `error_score`, and its worker, which needs a nanny, restarts. A task of several
    fits may take this long for each of them; if it takes longer, its fits run again one by one.
    The refit has no limit. Fits with divided rows have none either, and give a warning.
scheduler : Client, address or str, default=None
    The same as `client`, for code written for dask-ml; or "threads", "sync" or "processes" for a
    search in this process.
cache_cv : bool, default=True
    Ignored: workers always take folds from the rows that they have.
iid : bool, default="deprecated"
    Ignored, with a warning.
"""
IGNORED = """\
{} : array or DataFrame, default=None
    Ignored: only dask-ml's class needs them, if it cannot infer what a model returns.
"""
ON_CLUSTER = """
On a cluster, `n_jobs` and `pre_dispatch` have no effect: Dask's workers and threads decide.
A fit that takes longer than `fit_timeout`, or kills its worker, gets `error_score`.
`return_predictions` and ``cv="oob"`` raise a ValueError. `cv_results_` also has the "worker" and
"device" of each candidate. `dask_graph_` holds the tasks that ran and what each needed; `visualize`
draws it.
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
