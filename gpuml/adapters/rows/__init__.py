"""The table: a module for each public module, a `Row` for each of its classes."""

# Public modules with classes of the table. A module that is not there yet has no line.
PUBLIC = (
    "gpuml.cluster",
    "gpuml.covariance",
    "gpuml.ensemble",
    "gpuml.kernel_ridge",
    "gpuml.manifold",
    "gpuml.neighbors",
    "gpuml.svm",
)
