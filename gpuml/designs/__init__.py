"""What X is to a solver: an operator over rows, of which blocks are read.

A solver asks a `Design` for products with coefficients and with numbers per row, and does not know
what the design holds: an array (`Dense`), a sparse matrix (`Sparse`), codes of categories
(`Coded`), several of these side by side (`Columns`), images that differ from split to split
(`Mapped`), or rows that others hold (`Divided`).
"""

from gpuml.designs.base import Block, Design
from gpuml.designs.coded import Coded
from gpuml.designs.columns import Columns
from gpuml.designs.dense import Dense
from gpuml.designs.divided import Divided
from gpuml.designs.mapped import Mapped
from gpuml.designs.sparse import Sparse

__all__ = ["Block", "Coded", "Columns", "Dense", "Design", "Divided", "Mapped", "Sparse"]
