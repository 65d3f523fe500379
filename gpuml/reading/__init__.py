"""Matrices that are read in blocks: where from, how they stream, and visits of all their rows."""
