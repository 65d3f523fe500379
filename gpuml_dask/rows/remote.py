"""What stands for rows on workers where a search would have an array."""

import math

from distributed import Future

from gpuml_dask.rows.placement import Table


class Remote:
    """Rows that are on workers already, in the place of an array: a column of a table.

    Has the shape and the length of the array, for whoever only asks for these.
    """

    def __init__(self, table: Table, name: str):
        self.table, self.name = table, name
        placed = table[name]
        self.shape, self.dtype, self.ndim = placed.shape, placed.dtype, placed.ndim

    @property
    def future(self) -> Future:
        """All rows in one, on one worker."""
        return self.table.whole(self.name)

    @property
    def n_bytes(self) -> int:
        """Size of the rows, about."""
        return self.dtype.itemsize * math.prod(self.shape)

    def revive(self) -> bool:
        """Make again what was lost."""
        return self.table.revive()

    def content_token(self) -> str:
        """A hash of the values of the whole table, computed on workers."""
        return f"{self.name} of {self.table.content_token()}"

    def __len__(self):
        return self.shape[0]

    def __getitem__(self, key):
        raise TypeError(
            f"{self.name} is on the workers of a cluster; its values are not read here. A "
            "splitter or scorer that needs them gets them from an array or frame passed to fit."
        )
