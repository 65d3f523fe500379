"""Modules that give user code other objects than what they hold.

Nothing in a module is changed but its class. A name that is taken out, and given by a module's
``__getattr__``, would be missing to the functions of the module itself, and be back after a reload.
"""

import importlib
import sys
from collections.abc import Iterable
from threading import RLock
from types import ModuleType
from typing import NamedTuple

from gpuml._accelerate.callers import is_user_code, reads_attribute
from gpuml._accelerate.table import Replacement


class Order(NamedTuple):
    """Replacements that somebody asked for, and the packages that count as user code to them."""

    replacements: tuple[Replacement, ...]
    packages: tuple[str, ...]


class _Offers:
    """What the modules of this process give to whom, by the name that is asked for."""

    def __init__(self):
        self.lock = RLock()
        self.orders: list[Order] = []
        # Replaced, never changed: read without the lock by every access to an attribute.
        self.by_name: dict[str, tuple[tuple[Replacement, tuple[str, ...]], ...]] = {}

    def change(self, orders: list[Order]) -> None:
        by_name: dict = {}
        for order in orders:
            for one in order.replacements:
                by_name[one.name] = (*by_name.get(one.name, ()), (one, order.packages))
        self.orders, self.by_name = orders, by_name


_offers = _Offers()


class AcceleratedModule(ModuleType):
    """A module some of whose names are other objects to user code."""

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        for one, packages in _offers.by_name.get(name, ()):
            # Something else is there if a test, a user or another package put it there.
            if one.theirs is not value or one.module is not self:
                continue
            caller = sys._getframe(1)
            if is_user_code(caller, packages) and (
                not one.is_defined_there or reads_attribute(caller)
            ):
                return one.ours
        return value

    def __reduce__(self):
        # cloudpickle knows modules by their exact class.
        return importlib.import_module, (self.__name__,)


def put(order: Order) -> list[Replacement]:
    """Fulfil an order; what it replaces that was not replaced before."""
    with _offers.lock:
        modules = _modules([order])
        strange = [module.__name__ for module in modules if not _is_ours_to_change(module)]
        if strange:
            raise RuntimeError(
                f"The class of the module {strange[0]} was changed by another package, so gpuml "
                "cannot see the callers of its names. Use only one of the two packages."
            )
        before = {one.path for order in _offers.orders for one in order.replacements}
        _offers.change([*_offers.orders, order])
        for module in modules:
            module.__class__ = AcceleratedModule
        return [one for one in order.replacements if one.path not in before]


def take_back(order: Order) -> None:
    """Undo what `put` did for this order; others stay."""
    with _offers.lock:
        left = [one for one in _offers.orders if one is not order]
        needed = {id(module) for module in _modules(left)}
        _offers.change(left)
        for module in _modules([order]):
            if id(module) not in needed and type(module) is AcceleratedModule:
                module.__class__ = ModuleType  # type: ignore[assignment]


def is_put(order: Order) -> bool:
    return any(one is order for one in _offers.orders)


def _is_ours_to_change(module: ModuleType) -> bool:
    return type(module) in (ModuleType, AcceleratedModule)


def _modules(orders: Iterable[Order]) -> list[ModuleType]:
    """The modules of the orders, each once."""
    modules = [one.module for order in orders for one in order.replacements]
    return list({id(module): module for module in modules}.values())
