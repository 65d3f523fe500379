"""Sums over rows that workers have: by a tree of tasks, or from GPU to GPU."""
