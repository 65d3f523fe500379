"""Naive Bayes classifiers with scikit-learn's names, computed on the device of X."""

from gpuml._settings.first_use import at_first_use
from gpuml.naive_bayes.categorical import CategoricalNB
from gpuml.naive_bayes.discrete import BernoulliNB, ComplementNB, MultinomialNB
from gpuml.naive_bayes.gaussian import GaussianNB

__all__ = ["BernoulliNB", "CategoricalNB", "ComplementNB", "GaussianNB", "MultinomialNB"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.naive_bayes")
