"""Searches over the workers of a cluster."""
