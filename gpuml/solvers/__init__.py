"""Solvers: functions of arrays over small frozen records."""

from gpuml.solvers._result import Status

__all__ = ["Status"]
