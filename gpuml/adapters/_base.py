"""The base of all adapters: the choice of the library, and the fitted model.

An object is in one of three states. *Plain*: scikit-learn fitted it from rows in CPU memory; all
is as in scikit-learn. *Engine*: cuML fitted it. *Guest*: scikit-learn fitted a twin from a copy of
rows of a device. The last two have a `Fitted` record in `_fitted`, and no other fitted attributes
of their own but `n_features_in_` and `feature_names_in_`.
"""

import pickle
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from copy import copy
from typing import Any, ClassVar

from sklearn import config_context
from sklearn.base import ClassifierMixin, RegressorMixin, is_classifier

from gpuml._arrays import HOST, Place, as_array, is_cupyx_sparse, is_foreign, to_host
from gpuml._arrays.small_arrays import small_arrays
from gpuml._inputs.nulls import refuse_missing_labels
from gpuml._inputs.validation import check_finite, unchanged_on_error
from gpuml._persistence.travel import Travels, must_load_to_gpu
from gpuml._settings.config import current_settings
from gpuml.adapters._calls import engines_of, note_call
from gpuml.adapters._engine import Engine
from gpuml.adapters._fallback import fall_back, warn_of_precision
from gpuml.adapters._fitted import OF_INPUT, Fitted, is_of_fit, new_twin, plain
from gpuml.adapters._inputs import (
    check_data,
    check_transformed,
    check_X,
    clause_before_checks,
    host_call,
    in_memory,
    reads_texts,
    refused_rows,
    refused_weight,
)
from gpuml.adapters._intelex import engine_at, serves_rows_of_cpu, wanted, was_asked
from gpuml.adapters._lifting import is_fitted, lift, lifted
from gpuml.adapters._method import Method
from gpuml.adapters._outputs import Kind, in_kind, kind_for, kind_of, labels_in_kind
from gpuml.adapters._parameters import params_of, valid_params
from gpuml.adapters._place import gpu_for, has_cuml, home_of, is_gpu, size_of
from gpuml.adapters._row import Data, NotConvertible, NotFinite, Row, UnsupportedHere
from gpuml.extending import Extension

# The object whose method scikit-learn is running: its calls of other methods of the same object
# (`fit_predict` calls `fit`) are its own affair.
_inside: ContextVar[Any] = ContextVar("gpuml_adapter_inside", default=None)


@contextmanager
def inside(estimator: Any) -> Iterator[None]:
    """scikit-learn's own methods run on an object, as if it were scikit-learn's."""
    token = _inside.set(estimator)
    try:
        yield
    finally:
        _inside.reset(token)


class Adapter(Extension, Travels):
    """scikit-learn's estimator; cuML does its work if that pays."""

    _row: ClassVar[Row]

    # ------------------------------------------------------------ what Python asks for

    def __getattr__(self, name):
        # Called only for what is nowhere else.
        fitted = self.__dict__.get("_fitted")
        known = name.endswith("_") and not name.startswith("__") and name not in OF_INPUT
        if fitted is None or not (known or name in fitted.row.light):
            return self._not_there(name)
        return fitted.attribute(name)

    def _not_there(self, name):
        """Raise AttributeError in the words of scikit-learn's class, if it has some."""
        known = getattr(type(self), name, None)
        if isinstance(known, property) and known.fget is not None:
            # Python forgot what it raised when it went on to ask `__getattr__`.
            return known.fget(self)
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def _fitted_attribute(self, name, compute):
        """The value of a property of scikit-learn's class."""
        if name in self.__dict__:  # travelled beside the model
            return self.__dict__[name]
        fitted = self.__dict__.get("_fitted")
        return compute(self) if fitted is None else fitted.attribute(name)

    def _run(self, method: Method, args: tuple, kwargs: Mapping[str, Any]) -> Any:
        """Every forwarded method of scikit-learn's class."""
        if _inside.get() is self:
            return method.original(self, *args, **kwargs)
        call = in_memory(method.bind(self, args, kwargs))
        with small_arrays():
            if not method.fits:
                return self._use(method, call)
            with unchanged_on_error(self):
                return self._fit_somewhere(method, call)

    @property
    def engine_(self) -> dict[str, str]:
        """By method, the library that did the work of its last call since the fit."""
        return engines_of(self)

    def computes_on_gpu(self) -> bool:
        """Whether large rows in CPU memory would be fitted on a GPU, as far as parameters tell."""
        return has_cuml() and self._row.refuses_parameters(self._plain_params()) is None

    # ------------------------------------------------------------ fitting

    def _fit_somewhere(self, method, call):
        X = self._rows(call.X)
        if is_classifier(self):
            refuse_missing_labels(call.rest.get("y"))
        row, place = self._engine_of_fit(X)
        if place is None:
            return self._fit_on_host(method, call, X)
        given = valid_params(self)
        params = plain(given)
        clause = clause_before_checks(row, X, params)
        if clause is None:
            data = check_data(self, row, call)
            row.checks(params, data)
            reason = (
                refused_rows(self, row, data.X)
                or row.refuses_data(params, data)
                or refused_weight(row, data)
            )
            clause = reason and f"{row.library} has no {reason}"
        if clause is None:
            try:
                return self._fit_engine(row, method, data, place, given)
            except UnsupportedHere as error:
                clause = error.clause
        if was_asked(place):
            fall_back(self, method.name, clause, home_of(X))
        return self._fit_on_host(method, call, X)

    def _engine_of_fit(self, X) -> tuple[Row, Place | None]:
        """Whose model is fitted, and where; scikit-learn's is at no place."""
        place = self._place_of_fit(X)
        if place is None:
            row = wanted(self._row, home_of(X), lambda row: self._work_of_fit(X, row))
            if row is not None:
                return row, HOST
        return self._row, place

    def _place_of_fit(self, X) -> Place | None:
        row, setting = self._row, current_settings().device
        home = home_of(X)
        if row.cuml is None and setting == "auto" and not is_gpu(home):
            return None
        return gpu_for(home, lambda: self._work_of_fit(X), setting)

    def _work_of_fit(self, X, row=None):
        # Rows count on parameters of the right types.
        return (row or self._row).work(*size_of(X), plain(valid_params(self)))

    def _fit_engine(self, row: Row, method, data: Data, place: Place, params: Mapping[str, Any]):
        known = plain(params, data.classes)
        kind = engine_at(place)
        brought = kind.brought(row, data, place)
        engine = kind.made(row, new_twin(row, known), row.changes(known, brought), place)
        if row.float32_only and str(getattr(data.X, "dtype", "")).endswith("float64"):
            warn_of_precision(self)
        try:
            given = engine.fit(brought, method.name, known)
        except NotFinite:
            self._raise_not_finite(data.X)
        self._forget()
        inputs = {name: value for name, value in self.__dict__.items() if name in OF_INPUT}
        self._fitted = Fitted(
            row, kind_of(data.X), params, engine=engine, classes=data.classes, inputs=inputs
        )
        note_call(self, method.name, row.library)
        if method.name == "fit":
            return self
        return self._result_of_fit(method.name, brought, given)

    def _raise_not_finite(self, X):
        try:
            check_finite(X, "X", self)
        except ValueError as error:
            raise error from None

    def _result_of_fit(self, name, data, given):
        """What `fit_predict` and `fit_transform` return after the model was fitted."""
        row, engine = self._fitted.row, self._fitted.engine
        assert engine is not None
        if name == "fit_predict" and "labels_" in row.light:
            return self.labels_
        if given is None and "embedding_" in row.light:
            given = self.embedding_
        if given is None:
            given = engine.call(name.removeprefix("fit_"), data.X, {})
        return self._in_kind(given, name, self._fitted.kind, row)

    def _fit_on_host(self, method, call, X):
        """scikit-learn fits this object, or a twin where attributes have to be brought back."""
        note_call(self, method.name, self._row.host_library)
        warm = self.get_params(deep=False).get("warm_start")
        if is_foreign(X) or is_cupyx_sparse(X):
            return self._fit_guest(method, call, X, warm)
        if warm:
            self._settle()
        self.__dict__.pop("_fitted", None)
        for name in self._row.kept:
            self.__dict__.pop(name, None)
        return self._on_host(self, method, call)

    def _fit_guest(self, method, call, X, warm):
        params = self.get_params(deep=False)
        twin = self._twin().set_params(**params) if warm else new_twin(self._row, params)
        result = self._on_host(twin, method, call)
        self._forget()
        for name in OF_INPUT:
            self.__dict__.pop(name, None)
        inputs = {name: value for name, value in vars(twin).items() if name in OF_INPUT}
        self.__dict__.update(inputs)
        self._fitted = Fitted(self._row, kind_of(X), params, twin=twin, inputs=inputs)
        return self if result is twin else self._in_kind(result, method.name, kind_of(X))

    def _forget(self):
        """Delete the results of earlier fits, but not the attributes of this fit's input."""
        for name in [n for n in self.__dict__ if n.endswith("_") and n not in OF_INPUT]:
            delattr(self, name)
        self.__dict__.pop("_lifted", None)

    # ------------------------------------------------------------ using

    def _use(self, method, call):
        X = self._rows(call.X)
        on_device = is_foreign(X) or is_cupyx_sparse(X)
        if (on_device or "_fitted" in self.__dict__) and self._scores_predictions(method):
            return self._score(call)  # predictions look at the record, if they need it
        fitted = self._current_record()
        clause: str | None = None
        try:
            engine = self._engine_for(method, fitted, X)
            if engine is not None:
                return self._use_engine(engine, method, call, X)
        except UnsupportedHere as error:
            engine = None if fitted is None else fitted.engine
            clause = error.clause if engine is None or was_asked(engine.place) else None
        if clause is not None:
            home = fitted.kind.place if X is None and fitted is not None else home_of(X)
            fall_back(self, method.name, clause, home, once=True)
        return self._use_host(method, call, fitted, X)

    def _use_engine(self, engine, method, call, X):
        kind = self.__dict__["_fitted"].kind if "_fitted" in self.__dict__ else Kind(HOST, None)
        if method.name == "inverse_transform":
            X = check_transformed(self, call.X)
            kind = kind_of(X)
        elif X is not None and not reads_texts(self):
            X = check_X(self, engine.row, call.X, reset=False)
            reason = refused_rows(self, engine.row, X)
            if reason is not None:
                raise UnsupportedHere(reason, engine.row.library)
            kind = kind_of(X)
        result = engine.call(method.name, X, call.rest)
        note_call(self, method.name, engine.row.library)
        if method.name == "predict" and is_classifier(self):
            return labels_in_kind(result, self.classes_, kind)
        if method.name == "score":
            return float(result)
        return self._in_kind(result, method.name, kind, engine.row)

    def _use_host(self, method, call, fitted, X):
        host = self if fitted is None else fitted.host()
        note_call(self, method.name, self._row.host_library)
        result = self._on_host(host, method, call)
        if result is host:
            # A method that changes the model (`partial_fit`, `sparsify`): it is plain from here on.
            self._settle()
            return self
        if fitted is None and not (is_foreign(X) or is_cupyx_sparse(X)):
            return result
        kind = kind_of(X) if X is not None else fitted.kind
        if method.name == "predict" and is_classifier(self):
            kind = kind._replace(floats=None)  # labels keep their dtype
        return self._in_kind(result, method.name, kind)

    def _in_kind(self, result, name, kind, row=None):
        """The result of a method, in the form of the input rows."""
        dtypes = (row or self._row).dtypes
        return in_kind(result, kind_for(self, name, kind), dtypes.get(name))

    def _scores_predictions(self, method):
        of_mixin = method.original in (ClassifierMixin.score, RegressorMixin.score)
        return of_mixin or (self._row.mixin_score and method.name == "score")

    def _score(self, call):
        """What scikit-learn's mixins inherit to all classifiers and regressors."""
        from gpuml.metrics import accuracy_score, r2_score

        metric = accuracy_score if is_classifier(self) else r2_score
        y, weight = as_array(call.given("y")), as_array(call.given("sample_weight"))
        return metric(y, self.predict(call.X), sample_weight=weight)

    def _on_host(self, host, method, call):
        """scikit-learn's method of this object, or of a twin whose output is to be an array."""
        if host is self:
            with inside(self):
                return method.call(self, host_call(call))
        with config_context(transform_output="default"):
            return method.call(host, host_call(call))

    # ------------------------------------------------------------ which model is asked

    def _current_record(self) -> Fitted | None:
        """The record of the fitted model, brought up to date with what users did to the object."""
        fitted = self.__dict__.get("_fitted")
        if fitted is None:
            return None
        if any(name.endswith("_") and name not in OF_INPUT for name in self.__dict__):
            self._settle()  # a fitted attribute was set from outside
            return None
        changed = fitted.changed(params := params_of(self))
        return self._with_parameters(fitted, changed, params) if changed else fitted

    def _with_parameters(self, fitted, changed, params):
        """A record of the same model with other parameters, which scikit-learn reads at use."""
        # The record may be that of other objects, too.
        twin = copy(fitted.host()).set_params(**changed)
        renewed = Fitted(
            fitted.row,
            fitted.kind,
            params,
            twin=twin,
            classes=fitted.classes,
            inputs=fitted.inputs,
        )
        if fitted.engine is not None:
            try:
                renewed.engine = lift(fitted.row, twin, fitted.engine.place)
            except UnsupportedHere as error:
                if was_asked(fitted.engine.place):
                    fall_back(self, "set_params", error.clause, fitted.kind.place)
        self._fitted = renewed
        return renewed

    def _engine_for(self, method, fitted, X) -> Engine | None:
        """The cuML model to ask, or None for scikit-learn's.

        Raises
        ------
        UnsupportedHere
            If scikit-learn's is asked though a GPU was meant to do the work.
        """
        on_gpu = is_gpu(home_of(X))
        engine = None if fitted is None else fitted.engine
        # Rows on a GPU are processed there, also by a model that a CPU fitted.
        if engine is not None and not (on_gpu and engine.place.is_host):
            if not (on_gpu or serves_rows_of_cpu(engine)):
                return None
            if method.name not in engine.row.methods:
                raise UnsupportedHere(method.name, engine.row.library)
            return engine
        if fitted is not None and engine is None:
            return None
        knows = method.name in self._row.methods
        if X is None or self._row.cuml is None or not (knows or on_gpu):
            return None
        place = self._place_of_use(X)
        if place is None or not is_fitted(self):
            return None
        if not knows:
            raise UnsupportedHere(method.name)
        return lifted(self, place)

    def _place_of_use(self, X) -> Place | None:
        """Where rows for scikit-learn's model are worked on; None is the CPU."""
        work, setting = self._row.use_work, current_settings().device
        return gpu_for(home_of(X), lambda: work(*size_of(X), self._plain_params()), setting)

    # ------------------------------------------------------------ as scikit-learn's

    def _twin(self):
        """The same model as a plain scikit-learn object; its arrays are shared."""
        twin = new_twin(self._row, self.get_params(deep=False))
        vars(twin).update(self._sklearn_state())
        return twin

    def _settle(self):
        """Make the object plain: the twin's attributes become its own, under those set by users."""
        if "_fitted" in self.__dict__:
            state = self._host_state()
            self.__dict__.clear()
            self.__dict__.update(state)
        self.__dict__.pop("_lifted", None)

    def _sklearn_state(self) -> dict[str, Any]:
        state = self._host_state()
        return {name: state[name] for name in state if name not in self._row.kept}

    def _host_state(self) -> dict[str, Any]:
        own = {name: v for name, v in self.__dict__.items() if name not in ("_fitted", "_lifted")}
        fitted = self.__dict__.get("_fitted")
        if fitted is None:
            return own
        try:
            of_fit = {**vars(fitted.host()), **fitted.kept()}
        except NotConvertible as error:
            raise pickle.PicklingError(str(error)) from error
        return of_fit | {n: v for n, v in own.items() if n not in of_fit or not is_of_fit(n)}

    def __setstate__(self, state):
        super().__setstate__(state)
        if must_load_to_gpu() and self._row.methods and is_fitted(self):
            self._load_to_gpu()

    def _load_to_gpu(self):
        place = gpu_for(HOST, lambda: 0, "cuda")
        assert place is not None  # `place` is a GPU, or an error was raised
        try:
            lifted(self, place)
        except UnsupportedHere as error:
            raise RuntimeError(
                f"device='cuda' is set, but {type(self).__name__} stays in CPU memory: "
                f"{error.clause}."
            ) from error

    def _take_over(self, attributes):
        """Be the model that scikit-learn's class would be with these attributes.

        Arrays that no library of CPU memory has are the kind of those that the model gives.
        """
        arrays = [value for value in attributes.values() if is_foreign(value)]
        if not arrays:
            self.__dict__.update(attributes)
            return
        inputs = {name: value for name, value in self.__dict__.items() if name in OF_INPUT}
        twin = new_twin(self._row, params_of(self))
        on_host = {n: to_host(v) if is_foreign(v) else v for n, v in attributes.items()}
        vars(twin).update({**on_host, **inputs})
        kind = kind_of(arrays[0])
        self._fitted = Fitted(self._row, kind, params_of(self), twin=twin, inputs=inputs)

    def _plain_params(self):
        return plain(params_of(self))

    def _rows(self, X):
        """Rows in the form in which their place is known."""
        return X if X is None or reads_texts(self) else as_array(X)
