"""Boosters of other libraries, for tests: a test of a library that is missing is skipped."""

import pytest


def xgboost(name, **params):
    """A class of XGBoost, on one core."""
    module = pytest.importorskip("xgboost")
    return getattr(module, name)(n_jobs=1, **params)


def lightgbm(name, **params):
    """A class of LightGBM, on one core, which grows trees of few rows."""
    module = pytest.importorskip("lightgbm")
    return getattr(module, name)(n_jobs=1, verbose=-1, min_child_samples=5, **params)


def catboost(name, **params):
    """A class of CatBoost, on one core, which writes nothing."""
    module = pytest.importorskip("catboost")
    quiet = {"verbose": 0, "allow_writing_files": False, "thread_count": 1}
    return getattr(module, name)(**quiet, **params)
