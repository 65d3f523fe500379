"""scikit-learn's own tests pass with our classes in their place."""

import os
import re
import subprocess
import sys

import pytest

from tests.test_architecture import ROOT

# Packages, and how many tests of them there are at least.
PACKAGES = {
    "preprocessing": 1800,
    "impute": 340,
    "compose": 150,
    "feature_selection": 150,
    "inspection": 450,
    "model_selection": 700,
    "covariance": 38,
    "cross_decomposition": 50,
    "decomposition": 540,
    "discriminant_analysis": 55,
    "feature_extraction": 120,
    "random_projection": 230,
    "linear_model": 1960,
    "linear_model._glm": 250,
    "metrics": 2750,
    "pipeline": 160,
    "naive_bayes": 90,
    "svm": 300,
    "calibration": 410,
    "cluster": 590,
    "gaussian_process": 440,
    "kernel_approximation": 30,
    "kernel_ridge": 9,
    "mixture": 150,
    "multiclass": 60,
    "multioutput": 60,
    "ensemble": 630,
    "neighbors": 1150,
    "inspection._plot": 280,
    "metrics._plot": 330,
    "manifold": 110,
    "frozen": 45,
    "semi_supervised": 30,
    "utils": 60,
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("package", PACKAGES)
def test_their_tests_pass_with_our_classes(package):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "tests/their_tests.py",
    ]
    done = subprocess.run(
        [*command, "-k", f"of_{package}_ or classes_are_ours"],
        cwd=ROOT,
        env={**os.environ, "THEIR_PACKAGE": package},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-4000:]
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None
    assert int(passed[1]) >= PACKAGES[package]
