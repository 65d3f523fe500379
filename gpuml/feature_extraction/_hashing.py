"""Texts as counts of hashed terms."""

from sklearn.feature_extraction import text as sk

from gpuml._persistence.travel import Travels
from gpuml.feature_extraction import _engine
from gpuml.feature_extraction._texts import place_texts
from gpuml.feature_extraction._tfidf import normalised


class HashingVectorizer(Travels, sk.HashingVectorizer, auto_wrap_output_keys=None):
    """Turn texts into sparse counts of terms; the column of a term is its hash.

    On a CPU this is scikit-learn's class. On a GPU cuML cuts the texts into words and hashes
    them (by MurmurHash3, as scikit-learn does, so columns are the same). The GPU is taken for
    texts of a cuDF series, with ``gpuml.set_config(device="cuda")``, and for many texts; the
    result stays there in the first two cases, and comes back in the third.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, stop_words, \
token_pattern, ngram_range, analyzer, n_features, binary, norm, alternate_sign, dtype
        As for scikit-learn's class. cuML has no callables, no accents to strip, words of the
        default `token_pattern` only, strings only (no files or bytes) and floating dtypes only; in
        other cases scikit-learn does the work, with a `gpuml.exceptions.FallbackWarning`. So it
        does where texts have characters that cuDF knows otherwise than Python.

    See Also
    --------
    CountVectorizer : With a vocabulary.

    Notes
    -----
    A term whose hash is 0 counts 0 on a GPU, and one whose hash is the least integer may get
    another column: two of four milliards.

    Examples
    --------
    >>> from gpuml.feature_extraction.text import HashingVectorizer
    >>> HashingVectorizer(n_features=16).transform(["one text", "another text"]).shape
    (2, 16)
    """

    def transform(self, X):
        """Count hashed terms.

        Parameters
        ----------
        X : iterable of str, or cudf.Series

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
            Of SciPy, or of cupyx on a GPU.

        Raises
        ------
        ValueError
            For a single string, and for missing documents.
        gpuml.exceptions.FallbackError
            If cuML cannot do it, and the setting `fallback` is "error".
        """
        texts = place_texts(self, X, "transform")
        if not texts.on_gpu:
            return texts.home(super().transform(texts.documents), self.dtype)
        self._validate_ngram_range()
        self.build_analyzer()  # for its errors and warnings
        counted = _engine.hashes(self, texts.documents)
        counted = counted if self.norm is None else normalised(counted, self.norm)
        return texts.home(counted, self.dtype)
