"""Texts as sparse matrices, with scikit-learn's names; on a GPU cuML cuts and counts the words."""

from gpuml.feature_extraction._counting import CountVectorizer, TfidfVectorizer
from gpuml.feature_extraction._hashing import HashingVectorizer
from gpuml.feature_extraction._tfidf import TfidfTransformer

__all__ = ["CountVectorizer", "HashingVectorizer", "TfidfTransformer", "TfidfVectorizer"]
