"""Texts as sparse matrices, with scikit-learn's names; on a GPU cuML cuts and counts the words."""

from gpuml._settings.first_use import at_first_use
from gpuml.feature_extraction._counting import CountVectorizer, TfidfVectorizer
from gpuml.feature_extraction._hashing import HashingVectorizer
from gpuml.feature_extraction._tfidf import TfidfTransformer

__all__ = ["CountVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"]

__getattr__, __dir__ = at_first_use(__name__, mirrors="sklearn.feature_extraction.text")
