"""Finished parts of a search in a folder or a store, to resume from."""
