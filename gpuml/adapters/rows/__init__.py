"""The table: a module for each public module, a `Row` for each of its classes."""

import pkgutil

# Public modules with classes of the table.
PUBLIC = tuple(f"gpuml.{found.name}" for found in pkgutil.iter_modules(__path__))
