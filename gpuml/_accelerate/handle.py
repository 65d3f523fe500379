"""`gpuml.accelerate`, and what it returns."""

import sys
from collections.abc import Iterable
from typing import Any, Self

from gpuml._accelerate.callers import NEVER, is_within
from gpuml._accelerate.modules import Order, is_put, put, take_back
from gpuml._accelerate.report import Report
from gpuml._accelerate.table import Replacement, chosen

# So many names are listed; of more there is a count.
FEW_NAMES = 5


class Acceleration:
    """Result of `gpuml.accelerate`: the replaced names, and a method to undo the replacement.

    As a context manager, it undoes the replacement at the end of the ``with`` block.

    Attributes
    ----------
    replaced : dict
        What user code gets when it imports a name: for ``"sklearn.linear_model.Ridge"``,
        `gpuml.linear_model.Ridge`.
    kept : dict
        Names in ``__main__`` that were imported before the call and still hold scikit-learn's
        objects, with the public name of each. Import them again after the call.

    Examples
    --------
    >>> import gpuml
    >>> acceleration = gpuml.accelerate("sklearn.linear_model.Ridge", quiet=True)
    >>> acceleration
    <Acceleration of 1 name: sklearn.linear_model.Ridge>
    >>> acceleration.undo()
    >>> acceleration
    <Acceleration of 1 name: sklearn.linear_model.Ridge; undone>
    """

    def __init__(self, order: Order):
        self._order = order
        self.replaced: dict[str, Any] = {one.path: one.ours for one in order.replacements}
        self.kept: dict[str, str] = _held_by_main(order.replacements)

    def undo(self) -> None:
        """Undo the replacement; a second call does nothing.

        Other calls of `gpuml.accelerate` stay in force, and can be undone in any order. Names that
        you imported and objects that you created meanwhile do not change.
        """
        take_back(self._order)

    def __enter__(self) -> Self:
        if not is_put(self._order):
            raise RuntimeError("This acceleration was undone; call gpuml.accelerate again.")
        return self

    def __exit__(self, *error):
        self.undo()

    def __repr__(self):
        first, *others = self.replaced
        plural = "s" if others else ""
        more = ", ..." if others else ""
        state = "" if is_put(self._order) else "; undone"
        return f"<Acceleration of {len(self.replaced)} name{plural}: {first}{more}{state}>"


def accelerate(*names: str, packages: Iterable[str] = (), quiet: bool = False) -> Acceleration:
    """Replace scikit-learn's classes with gpuml's in the imports of your code.

    After the call, ``from sklearn.linear_model import Ridge`` and ``sklearn.linear_model.Ridge``
    give `gpuml.linear_model.Ridge`. Names that gpuml does not have stay scikit-learn's. User code
    is ``__main__`` (scripts, notebooks), modules that are not installed, and `packages`.
    scikit-learn itself, installed packages and the standard library (especially `pickle`) keep
    scikit-learn's classes.

    The call replaces

    - classes of gpuml's public modules that are subclasses of scikit-learn's with the same public
      path;
    - functions with the same path and signature, except metrics;
    - ``umap.UMAP``, if umap-learn was imported before or you name it.

    Each class is a subclass with the same parameters, so its objects work wherever scikit-learn's
    do.

    Parameters
    ----------
    *names : str
        Modules to replace, or names in them: ``"sklearn.cluster"``, ``"sklearn.cluster.KMeans"``.
        Without names, the call replaces everything that gpuml has.
    packages : iterable of str, default=()
        Installed packages whose code counts as user code.
    quiet : bool, default=False
        Whether to print nothing. Otherwise a line on standard error says what this call replaced,
        and another line names what ``__main__`` imported before the call, which therefore is still
        scikit-learn's. `replaced` lists all names.

    Returns
    -------
    acceleration : Acceleration
        Its method `undo` restores scikit-learn's names; so does the end of a ``with`` block.

    Raises
    ------
    ValueError
        If gpuml has no counterpart for a name, or if scikit-learn is among the packages.
    TypeError
        If a name is not a string, or `packages` is one.
    RuntimeError
        If ``cuml.accel`` is enabled, which replaces the same names.

    Notes
    -----
    Names that a module imported before the call do not change. After the call,
    ``isinstance(model, Ridge)`` in user code tests for gpuml's class: it is False for a model that
    scikit-learn or an installed package created. New processes (of "spawn", or of joblib's loky)
    are not accelerated unless they run the call; you can send objects of gpuml's classes to them.

    Examples
    --------
    >>> import gpuml
    >>> names = "sklearn.linear_model.Ridge", "sklearn.decomposition.PCA"
    >>> with gpuml.accelerate(*names, quiet=True) as acceleration:
    ...     print(*acceleration.replaced)
    sklearn.decomposition.PCA sklearn.linear_model.Ridge
    >>> acceleration.replaced["sklearn.decomposition.PCA"]
    <class 'gpuml.decomposition.pca.PCA'>
    """
    _check_names(names)
    of_users = _checked_packages(packages)
    accel = sys.modules.get("cuml.accel")
    if accel is not None and accel.enabled():
        raise RuntimeError("cuml.accel is enabled and replaces the same names; use one of the two.")
    order = Order(tuple(chosen(names).values()), of_users)
    acceleration = Acceleration(order)
    new = put(order)
    if not quiet:
        _tell(new, acceleration.kept)
    return acceleration


def _check_names(names: tuple[str, ...]) -> None:
    for name in names:
        if not isinstance(name, str):
            raise TypeError(
                f"Names are strings such as 'sklearn.cluster.KMeans'; got {name!r}. Pass each "
                "name as an argument of its own."
            )


def _checked_packages(packages: Iterable[str]) -> tuple[str, ...]:
    if isinstance(packages, str):
        raise TypeError(f"packages must be several names, such as ({packages!r},).")
    packages = tuple(packages)
    for name in packages:
        if is_within(name, NEVER):
            raise ValueError(f"packages has {name!r}, whose modules must keep their own classes.")
    return packages


def _held_by_main(replacements: Iterable[Replacement]) -> dict[str, str]:
    """Names in ``__main__`` that hold what is replaced, and its path."""
    paths = {id(one.theirs): one.path for one in replacements}
    # A copy, as other threads may bind names meanwhile.
    held = list(vars(sys.modules["__main__"]).items())
    return {name: paths[id(value)] for name, value in held if id(value) in paths}


def _tell(new: list[Replacement], kept: dict[str, str]) -> None:
    """Say on standard error what was replaced, and what was imported too early."""
    lines = []
    if new:
        modules = {one.module.__name__ for one in new}
        few = len(new) <= FEW_NAMES
        names = ", ".join(one.path for one in new) if few else f"{len(new)} names"
        of = "" if few else f" of {len(modules)} scikit-learn modules"
        lines.append(f"replaced {names}{of}")
    if new and kept:
        held = ", ".join(f"{name} ({path})" for name, path in kept.items())
        lines.append(f"imported before, so still scikit-learn's in __main__: {held}")
    sys.stderr.write("".join(f"gpuml: {line}\n" for line in lines))


_in_notebook: list[tuple[Acceleration, Report]] = []


def load_ipython_extension(shell: Any) -> None:
    """Accelerate a notebook: ``%load_ext gpuml``, in its first cell."""
    _in_notebook.append((accelerate(), Report().begin()))


def unload_ipython_extension(shell: Any) -> None:
    """Undo it, and report what searches did: ``%unload_ext gpuml``."""
    while _in_notebook:
        acceleration, report = _in_notebook.pop()
        acceleration.undo()
        report.end()
