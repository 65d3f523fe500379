"""Design matrices: X as an operator over rows, read block by block.

A solver asks a `Design` for products with coefficients and with numbers per row, and does not know
what the design holds: an array (`Dense`), with flags behind it (`Flagged`), a sparse matrix
(`Sparse`), codes of categories (`Coded`), several of these side by side (`Columns`), images that
differ from split to split (`Mapped`), levels beside such images (`Beside`), or rows that others
hold (`Divided`).
"""

from typing import TYPE_CHECKING

from gpuml._settings.first_use import at_first_use
from gpuml.designs.base import Block, Design
from gpuml.designs.columns import Columns
from gpuml.designs.dense import Dense
from gpuml.designs.sparse import Sparse

if TYPE_CHECKING:
    from gpuml.designs.beside import Beside
    from gpuml.designs.coded import Coded
    from gpuml.designs.divided import Divided
    from gpuml.designs.flagged import Flagged
    from gpuml.designs.mapped import Mapped

__all__ = [
    "Beside",
    "Block",
    "Coded",
    "Columns",
    "Dense",
    "Design",
    "Divided",
    "Flagged",
    "Mapped",
    "Sparse",
]

# Names that least squares does not need.
_LATER = {
    "Beside": "gpuml.designs.beside",
    "Coded": "gpuml.designs.coded",
    "Divided": "gpuml.designs.divided",
    "Flagged": "gpuml.designs.flagged",
    "Mapped": "gpuml.designs.mapped",
}
__getattr__, __dir__ = at_first_use(__name__, _LATER)
