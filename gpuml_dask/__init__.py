"""Searches and estimators over many devices, through Dask (not part of this release yet)."""
