"""Shared parts of searches and of estimators with built-in searches: splits, stacks, scores."""
