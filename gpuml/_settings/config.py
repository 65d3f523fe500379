"""Settings of the library: where data in CPU memory is worked on, how much one block may take."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from typing import Literal, TypedDict, Unpack, get_args

Device = Literal["auto", "cpu", "cuda"]
Fallback = Literal["error", "warn", "silent"]
CpuEngine = Literal["auto", "sklearn", "intelex"]
DEVICES: tuple[str, ...] = get_args(Device)
FALLBACKS: tuple[str, ...] = get_args(Fallback)
CPU_ENGINES: tuple[str, ...] = get_args(CpuEngine)
# Settings that are numbers of bytes, and the least that they may be.
SIZES = {"block_bytes": 1, "solver_bytes": 1, "cache_bytes": 1, "copy_bytes": 0}


class Options(TypedDict, total=False):
    """The options of `set_config` and `config_context`, for editors and type checkers."""

    device: Device
    block_bytes: int | None
    solver_bytes: int | None
    cache_bytes: int | None
    copy_bytes: int | None
    progress: bool
    cut_trees: bool
    fallback: Fallback
    cpu_engine: CpuEngine


@dataclass(frozen=True)
class Settings:
    """What `set_config` and `config_context` change; each field is described in `set_config`."""

    device: str = "auto"
    block_bytes: int | None = None
    solver_bytes: int | None = None
    cache_bytes: int | None = None
    copy_bytes: int | None = None
    progress: bool = False
    fallback: str = "warn"
    cut_trees: bool = True
    cpu_engine: str = "auto"

    def __post_init__(self):
        if self.device not in DEVICES:
            raise ValueError(f"device must be one of {DEVICES}, got {self.device!r}.")
        for name, least in SIZES.items():
            size = getattr(self, name)
            is_size = isinstance(size, int) and not isinstance(size, bool) and size >= least
            if size is not None and not is_size:
                zero = "" if least else ", 0"
                raise ValueError(
                    f"{name} must be None{zero} or a positive number of bytes, got {size!r}."
                )
        for name in ("progress", "cut_trees"):
            if not isinstance(getattr(self, name), bool):
                raise ValueError(f"{name} must be True or False, got {getattr(self, name)!r}.")
        if self.fallback not in FALLBACKS:
            raise ValueError(f"fallback must be one of {FALLBACKS}, got {self.fallback!r}.")
        if self.cpu_engine not in CPU_ENGINES:
            raise ValueError(f"cpu_engine must be one of {CPU_ENGINES}, got {self.cpu_engine!r}.")


# The process-wide settings are one mutable cell; a context lays its own on top for the current
# thread or task only, so that two searches in two threads can differ.
_process_wide = [Settings()]
_in_context: ContextVar[Settings | None] = ContextVar("gpuml_settings", default=None)


def current_settings() -> Settings:
    """The settings that hold here."""
    return _in_context.get() or _process_wide[0]


def get_config() -> dict:
    """Return the current settings as a dict.

    Returns
    -------
    config : dict
        The names and values that `set_config` takes.

    Examples
    --------
    >>> import gpuml
    >>> gpuml.get_config()["device"]
    'auto'
    """
    return asdict(current_settings())


def set_config(**settings: Unpack[Options]) -> None:
    """Change settings for the whole process.

    Parameters
    ----------
    device : {"auto", "cpu", "cuda"}, default="auto"
        Where to compute with data in CPU memory (NumPy, pandas, polars, lists). "auto" uses a GPU
        if there is one and the work is worth the copy. Data on a GPU always stays there.
    block_bytes : int or None, default=None
        The most bytes of workspace for one block of rows. None chooses a size for the device: small
        enough for the cache of a CPU, large enough to keep a GPU busy. Lower it if a device runs
        out of memory.
    solver_bytes : int or None, default=None
        The most bytes that an iterative solver uses for the models that it fits together, for
        curvatures and earlier steps. If candidates need more, they are fitted in several batches.
        None is a quarter of the device's free memory.
    cache_bytes : int or None, default=None
        The most bytes of rows, transformed by the first steps of pipelines, that a search caches on
        each device and in CPU memory. If the cache is full, the least recently used rows leave
        first, from a GPU to page-locked CPU memory, and from there altogether; they are computed
        again when needed. None is a quarter of the free memory of each.
    copy_bytes : int or None, default=None
        The most bytes of copies of NumPy arrays to keep on each device between calls, so that an
        array that you fit many times is copied once. A copy lives as long as its NumPy array, and
        its content is compared before each use, so it is never out of date. 0 keeps none. None
        keeps copies only if dask-ml is loaded (its searches fit each fold many times), up to
        `cache_bytes` or a quarter of the device's free memory.
    progress : bool, default=False
        Whether searches show a progress bar (on standard error).
    fallback : {"warn", "error", "silent"}, default="warn"
        What to do if cuML cannot do the work as scikit-learn does. "warn" and "silent":
        scikit-learn does it on the CPU, with or without a `gpuml.exceptions.FallbackWarning`.
        "error": raise a `gpuml.exceptions.FallbackError`. Results are scikit-learn's in any case.
    cut_trees : bool, default=True
        Whether searches over trees and forests may grow the deepest trees once, and cut them for
        candidates with a smaller `max_depth` or larger `min_samples_split`. A cut tree is equal in
        distribution to a grown one, but not bit for bit, because it uses other random numbers.
        Trees with ``random_state=None`` are then shared too. False grows every tree that
        scikit-learn grows. Exact shortcuts (fewer trees, `ccp_alpha`) are used in both cases.
    cpu_engine : {"auto", "sklearn", "intelex"}, default="auto"
        Which library fits and predicts on the CPU where scikit-learn-intelex has a class of
        `gpuml.neighbors`, `gpuml.svm`, `gpuml.cluster`, `gpuml.ensemble` or `gpuml.manifold`.
        "auto" uses scikit-learn-intelex for nearest neighbours, if it is installed and the data is
        large enough; results equal scikit-learn's up to rounding. "intelex" uses it for
        data of any size and for all classes, including forests and t-SNE, whose models differ from
        scikit-learn's. "sklearn" never uses it. The fitted attribute `engine_` says which library
        did the work. `fallback` applies to what scikit-learn-intelex does not support under
        "intelex"; under "auto" scikit-learn does that without a warning.

    Raises
    ------
    TypeError
        If a setting is unknown.
    ValueError
        If a value is not one of those above.

    Examples
    --------
    >>> import gpuml
    >>> gpuml.set_config(device="cpu")
    >>> gpuml.set_config(device="auto")
    """
    _process_wide[0] = _changed(_process_wide[0], settings)


@contextmanager
def config_context(**settings: Unpack[Options]) -> Iterator[None]:
    """Change settings inside a ``with`` block, for the current thread.

    Parameters
    ----------
    **settings
        As for `set_config`.

    Yields
    ------
    None

    Raises
    ------
    TypeError, ValueError
        For a setting or a value that `set_config` does not take.

    Examples
    --------
    >>> import gpuml
    >>> with gpuml.config_context(device="cpu"):
    ...     gpuml.get_config()["device"]
    'cpu'
    """
    token = _in_context.set(_changed(current_settings(), settings))
    try:
        yield
    finally:
        _in_context.reset(token)


def _settings_of_scikit_learn():
    sklearn = sys.modules.get("sklearn")  # no import: who sets them has imported it
    return set() if sklearn is None else set(sklearn.get_config())


def _changed(settings, changes):
    known = [field.name for field in fields(Settings)]
    unknown = sorted(set(changes) - set(known))
    if unknown:
        from gpuml._settings.suggestions import did_you_mean

        meant = did_you_mean(unknown[0], known)
        if set(unknown) <= _settings_of_scikit_learn():
            meant = " These are scikit-learn's: set them by sklearn.set_config."
        raise TypeError(f"Unknown setting(s) {unknown}; gpuml knows {known}.{meant}")
    return replace(settings, **changes)
