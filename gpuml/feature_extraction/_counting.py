"""Texts as counts of terms of a vocabulary, and as weights of terms."""

from typing import Any, Self

from sklearn.feature_extraction import text as sk
from sklearn.utils.validation import check_is_fitted

from gpuml._arrays import is_array, to_host
from gpuml._inputs.validation import unchanged_on_error
from gpuml._persistence.travel import Travels
from gpuml._sklearn import _fit_context
from gpuml.feature_extraction import _engine
from gpuml.feature_extraction._texts import Texts, place_texts
from gpuml.feature_extraction._tfidf import TfidfTransformer
from gpuml.feature_extraction._vocabulary import pruned


class _Counting(Travels):
    """Counts by scikit-learn or cuML. What is fitted is scikit-learn's, in CPU memory."""

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, raw_documents, y=None) -> Self:
        """Find the vocabulary, and the weights of its terms if they have some.

        Parameters
        ----------
        raw_documents : iterable of str, or cudf.Series
        y : None
            Ignored.

        Returns
        -------
        self : estimator

        Raises
        ------
        ValueError
            For a single string, missing documents, and where no terms are left. A failed fit
            leaves the estimator as it was.
        gpuml.exceptions.FallbackError
            If cuML cannot do it, and the setting `fallback` is "error".
        """
        with unchanged_on_error(self):
            self._learn(place_texts(self, raw_documents, "fit"))
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_transform(self, raw_documents, y=None):
        """As `fit`, then `transform` of the same texts.

        Parameters
        ----------
        raw_documents : iterable of str, or cudf.Series
        y : None
            Ignored.

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
            Of SciPy, or of cupyx on a GPU.
        """
        with unchanged_on_error(self):
            texts = place_texts(self, raw_documents, "fit_transform")
            return self._home(texts, self._learn(texts))

    def transform(self, raw_documents):
        """Count, or weigh, the terms of the vocabulary in texts.

        Parameters
        ----------
        raw_documents : iterable of str, or cudf.Series

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
            Of SciPy, or of cupyx on a GPU.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`, unless there are no weights and the vocabulary is the user's.
        """
        texts = place_texts(self, raw_documents, "transform")
        return self._home(texts, self._counts(texts))

    def _learn(self, texts: Texts) -> Any:
        """Fit; gives counts where the work was done."""
        if not texts.on_gpu:
            return sk.CountVectorizer.fit_transform(self, texts.documents)
        self._validate_ngram_range()
        self._warn_for_unused_params()
        self._validate_vocabulary()
        self.build_analyzer()  # for its errors and warnings
        if self.fixed_vocabulary_:
            self._warn_of_upper_case()
            return self._counts(texts)
        terms, X = _engine.counts(self, texts.documents, None)
        terms, X = pruned(self, terms, X)
        self.vocabulary_ = {term: i for i, term in enumerate(terms)}
        return X

    def _counts(self, texts: Texts) -> Any:
        """Counts of the terms of the vocabulary, where the work was done."""
        if not texts.on_gpu:
            return sk.CountVectorizer.transform(self, texts.documents)
        self._check_vocabulary()
        terms = sorted(self.vocabulary_, key=self.vocabulary_.__getitem__)
        return _engine.counts(self, texts.documents, terms)[1]

    def _home(self, texts: Texts, X: Any) -> Any:
        """What `transform` gives of counts, where it was asked for."""
        return texts.home(X, self.dtype)

    def _warn_of_upper_case(self):
        # scikit-learn's warning is in the midst of its fit; without texts that fit is short.
        probe = sk.CountVectorizer(vocabulary=self.vocabulary, lowercase=self.lowercase)
        probe.fit_transform([])


class CountVectorizer(_Counting, sk.CountVectorizer):
    """Turn texts into sparse counts of the terms of a vocabulary.

    On a CPU, this is scikit-learn's class. On a GPU, cuML splits the texts into words and counts
    them; everything else is as in scikit-learn, including ties of `max_features`. The GPU is used
    for texts in a cuDF series, with ``gpuml.set_config(device="cuda")``, and if there are many
    texts. In the last case, the result comes back to CPU memory; otherwise it stays on the GPU.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, stop_words, \
token_pattern, ngram_range, analyzer, max_df, min_df, max_features, vocabulary, binary, dtype
        As for scikit-learn's class. On a GPU, cuML supports neither callables nor `strip_accents`,
        only the default `token_pattern`, and only strings (no files or bytes). In all other cases,
        and if texts have characters that cuDF treats differently from Python, scikit-learn does the
        work, with a `gpuml.exceptions.FallbackWarning`. Matrices that stay on a GPU are float32 for
        ``dtype=float32``, and float64 otherwise.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each term.
    fixed_vocabulary_ : bool
        Whether you passed the vocabulary.

    See Also
    --------
    HashingVectorizer : Needs no vocabulary.
    TfidfVectorizer : Weights the counts by tf-idf.

    Examples
    --------
    >>> from gpuml.feature_extraction.text import CountVectorizer
    >>> model = CountVectorizer()
    >>> model.fit_transform(["one text", "another text, a text"]).toarray()
    array([[0, 1, 1],
           [1, 0, 2]])
    >>> model.get_feature_names_out()
    array(['another', 'one', 'text'], dtype=object)
    """


class TfidfVectorizer(_Counting, sk.TfidfVectorizer):
    """Turn texts into sparse tf-idf weights: `CountVectorizer`, then `TfidfTransformer`.

    Parameters
    ----------
    input, encoding, decode_error, strip_accents, lowercase, preprocessor, tokenizer, analyzer, \
stop_words, token_pattern, ngram_range, max_df, min_df, max_features, vocabulary, binary, dtype
        As for `CountVectorizer`.
    norm, use_idf, smooth_idf, sublinear_tf
        As for `TfidfTransformer`.

    Attributes
    ----------
    vocabulary_ : dict
        The column of each term.
    fixed_vocabulary_ : bool
        Whether you passed the vocabulary.
    idf_ : ndarray of shape (n_features,)
        Weights of the terms, in CPU memory; only with `use_idf`.

    See Also
    --------
    CountVectorizer : Without weights; says when a GPU is taken, and what cuML lacks.

    Examples
    --------
    >>> from gpuml.feature_extraction.text import TfidfVectorizer
    >>> TfidfVectorizer().fit_transform(["one text", "another text"]).toarray().round(2)
    array([[0.  , 0.81, 0.58],
           [0.81, 0.  , 0.58]])
    """

    def transform(self, raw_documents):
        """Weigh the terms of texts.

        Parameters
        ----------
        raw_documents : iterable of str, or cudf.Series

        Returns
        -------
        X : CSR matrix of shape (n_samples, n_features)
            Of SciPy, or of cupyx on a GPU.

        Raises
        ------
        sklearn.exceptions.NotFittedError
            Before `fit`.
        """
        check_is_fitted(self, msg="The TF-IDF vectorizer is not fitted")
        return super().transform(raw_documents)

    def _learn(self, texts):
        self._check_params()
        X = super()._learn(texts)
        weights = TfidfTransformer(
            norm=self.norm,
            use_idf=self.use_idf,
            smooth_idf=self.smooth_idf,
            sublinear_tf=self.sublinear_tf,
        ).fit(X)
        if is_array(getattr(weights, "idf_", None)):
            weights.idf_ = to_host(weights.idf_)
        self._tfidf = weights
        return X

    def _home(self, texts, X):
        weights = TfidfTransformer()
        # May be scikit-learn's, if the user has set `idf_`.
        weights.__dict__.update(self._tfidf.__dict__)
        weighted = weights.transform(X, copy=False)
        return texts.home(weighted, weighted.dtype)
