"""Vectorisers: scikit-learn's on the host; what is theirs of cuML's work, with a stand-in."""

import pickle
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import sklearn.feature_extraction.text as sk
import sklearn.naive_bayes as sk_nb
from scipy import sparse
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import RandomizedSearchCV as SklearnSearch
from sklearn.pipeline import make_pipeline as sklearn_pipeline
from sklearn.utils import estimator_checks

import gpuml.feature_extraction.text as ours_text
from gpuml import config_context
from gpuml.exceptions import FallbackError, FallbackWarning
from gpuml.feature_extraction import _engine, _texts
from gpuml.feature_extraction._engine import character_of, cut_by_python
from gpuml.feature_extraction._vocabulary import columns_of
from gpuml.feature_extraction.text import (
    CountVectorizer,
    HashingVectorizer,
    TfidfTransformer,
    TfidfVectorizer,
)
from gpuml.model_selection import RandomizedSearchCV
from gpuml.naive_bayes import MultinomialNB
from gpuml.pipeline import make_pipeline

CLASSES = [CountVectorizer, TfidfVectorizer, HashingVectorizer]
WORDS = [
    "the",
    "a",
    "of",
    "cat",
    "dog_1",
    "Dog",
    "mat",
    "sat",
    "on",
    "in",
    "x2",
    "y",
    "an42",
    "one",
    "two",
    "three",
    "four",
    "it's",
    "e-mail",
]
COUNTS = [
    {},
    {"max_features": 7},
    {"max_features": 3, "dtype": np.float32},
    {"max_features": 5, "binary": True, "dtype": np.int8},
    {"min_df": 0.4, "max_df": 0.8},
    {"min_df": 2, "max_df": 12, "max_features": 6},
    {"stop_words": "english", "ngram_range": (1, 2)},
    {"stop_words": ["cat", "dog_1", "two"], "lowercase": False},
    {"vocabulary": ["mat", "cat", "zebra"]},
    {"vocabulary": {"mat": 1, "cat": 0}},
]
WEIGHTS = [{}, {"norm": "l1", "max_features": 5}, {"sublinear_tf": True}, {"use_idf": False}]
HASHES = [
    {"n_features": 64},
    {"n_features": 32, "alternate_sign": False, "norm": "l1"},
    {"n_features": 64, "binary": True, "norm": None},
    {"ngram_range": (1, 2), "dtype": np.float32},
]
ALL = [
    *[(CountVectorizer, params) for params in COUNTS],
    *[(TfidfVectorizer, params) for params in WEIGHTS],
    *[(HashingVectorizer, params) for params in HASHES],
]


def texts(rng, n=30):
    return [" ".join(rng.choice(WORDS, size=rng.integers(1, 20))) for _ in range(n)]


def theirs(cls):
    return getattr(sk, cls.__name__)


def assert_same(found, expected):
    assert found.dtype == expected.dtype
    assert_close(found, expected)


def assert_close(found, expected):
    """Sparse matrices of so many columns that dense ones would take seconds."""
    found = found.get() if hasattr(found, "get") else found
    assert found.shape == expected.shape
    difference = sparse.csr_matrix(found, dtype=float) - sparse.csr_matrix(expected, dtype=float)
    assert abs(difference.data).max(initial=0.0) < 1e-6 * max(1.0, abs(expected.data).max())


# ---------------------------------------------------------------- on the host


@pytest.mark.filterwarnings("ignore:Your stop_words")
@pytest.mark.parametrize(("cls", "params"), ALL)
def test_on_the_host_it_is_sklearns(rng, cls, params):
    raw = texts(rng)
    ours, other = cls(**params), theirs(cls)(**params)
    found, expected = ours.fit_transform(raw), other.fit_transform(raw)
    assert type(found) is type(expected)
    assert_same(found, expected)
    assert_same(ours.transform(raw[:3]), other.transform(raw[:3]))
    assert_same(cls(**params).fit(raw).transform(raw), expected)
    if cls is not HashingVectorizer:
        assert ours.vocabulary_ == other.vocabulary_
        assert list(ours.get_feature_names_out()) == list(other.get_feature_names_out())
        for a, b in zip(
            ours.inverse_transform(found), other.inverse_transform(expected), strict=True
        ):
            np.testing.assert_array_equal(a, b)


def polars_series(raw):
    return pytest.importorskip("polars").Series(raw)


@pytest.mark.parametrize("cls", CLASSES)
@pytest.mark.parametrize("kind", [tuple, np.array, pd.Series, polars_series, pa.array, iter])
def test_containers_of_texts(rng, cls, kind):
    raw = texts(rng)
    assert_same(cls().fit_transform(kind(raw)), theirs(cls)().fit_transform(raw))


@pytest.mark.parametrize("cls", CLASSES)
def test_parameters_are_sklearns(cls):
    assert cls().get_params().keys() == theirs(cls)().get_params().keys()
    model = cls(lowercase=False, analyzer="char", ngram_range=(2, 3))
    assert clone(model).get_params() == model.get_params()
    assert not hasattr(model, "set_output")


@pytest.mark.parametrize("cls", CLASSES)
def test_pickles(rng, cls):
    raw = texts(rng)
    model = cls().fit(raw)
    for back in (pickle.loads(pickle.dumps(model)), model.as_sklearn()):
        assert_same(back.transform(raw), model.transform(raw))
    assert type(back) is theirs(cls)


def test_weights_may_be_set(rng):
    raw = texts(rng)
    model = TfidfVectorizer(vocabulary=["cat", "mat"])
    model.idf_ = np.array([1.0, 2.0])
    other = sk.TfidfVectorizer(vocabulary=["cat", "mat"])
    other.idf_ = np.array([1.0, 2.0])
    assert_same(model.transform(raw), other.transform(raw))


@pytest.mark.parametrize("cls", [CountVectorizer, TfidfVectorizer])
def test_bad_input_changes_nothing(rng, cls):
    model = cls().fit(texts(rng))
    before = dict(vars(model))
    for bad in ("one text", [""], [np.nan]):
        with pytest.raises(ValueError, match=r"string object|empty vocabulary|invalid document"):
            model.fit(bad)
    model.set_params(min_df=0.9, max_df=0.1)
    with pytest.raises(ValueError, match="max_df corresponds"):
        model.fit(texts(rng))
    assert all(vars(model)[name] is before[name] for name in before if name.endswith("_"))
    with pytest.raises(NotFittedError):
        cls().transform(["text"])
    with pytest.raises(ValueError, match="string object received"):
        HashingVectorizer().transform("text")


def test_a_gpu_that_is_asked_for_must_be_there(rng, monkeypatch):
    monkeypatch.setattr("gpuml._arrays.places.has_gpu", lambda: False)
    for cls in CLASSES:
        with config_context(device="cuda"), pytest.raises(RuntimeError, match="sees no GPU"):
            cls().fit_transform(texts(rng))


SPACE = {
    "hashingvectorizer__n_features": [16, 256],
    "hashingvectorizer__ngram_range": [(1, 1), (1, 2)],
    "tfidftransformer__norm": ["l1", "l2"],
    "multinomialnb__alpha": [0.01, 1.0],
}


def test_a_pipeline_of_texts_is_searched_as_by_sklearn(rng):
    raw = texts(rng, 60)
    y = np.array(["cat" if "cat" in text else "none" for text in raw])

    def steps(module):
        return (
            module.HashingVectorizer(alternate_sign=False),
            module.TfidfTransformer(),
        )

    settings = {"n_iter": 5, "cv": 3, "random_state": 0}
    found = RandomizedSearchCV(make_pipeline(*steps(ours_text), MultinomialNB()), SPACE, **settings)
    other = SklearnSearch(sklearn_pipeline(*steps(sk), sk_nb.MultinomialNB()), SPACE, **settings)
    found.fit(raw, y)
    other.fit(raw, y)
    assert found.best_params_ == other.best_params_
    np.testing.assert_allclose(
        found.cv_results_["mean_test_score"], other.cv_results_["mean_test_score"]
    )
    np.testing.assert_array_equal(found.predict(raw), other.predict(raw))


# ---------------------------------------------------------------- with a stand-in for cuML


class OnGpu(sparse.csr_matrix):
    """Stands in for a cupyx matrix."""


class Series(list):
    """Stands in for a cuDF series of texts."""

    __module__ = "cudf.core.series"


def fake_counts(model, series, terms):
    assert isinstance(series, Series)
    engine = sk.CountVectorizer(
        **_engine._params(model), vocabulary=terms, dtype=_engine.float_dtype(model.dtype)
    )
    X = OnGpu(engine.fit_transform(list(series)))
    return (list(engine.get_feature_names_out()) if terms is None else list(terms)), X


def fake_hashes(model, series):
    assert isinstance(series, Series)
    engine = sk.HashingVectorizer(
        **_engine._params(model),
        n_features=model.n_features,
        alternate_sign=model.alternate_sign,
        norm=None,
        dtype=model.dtype,
    )
    return OnGpu(engine.transform(list(series)))


def series_of(raw):
    return Series(raw) if all(isinstance(text, str) for text in raw) else None


@pytest.fixture
def fake_gpu(monkeypatch):
    replaced = {
        "is_installed": lambda: True,
        "series_of": series_of,
        "listed": list,
        "has_missing": lambda series: None in series,
        "odd_characters": lambda series, lowercase: "İ" if any("İ" in x for x in series) else "",
        "counts": fake_counts,
        "hashes": fake_hashes,
        "to_gpu": OnGpu,
        "to_host": lambda X, dtype: sparse.csr_matrix(X).astype(dtype),
    }
    for name, function in replaced.items():
        monkeypatch.setattr(_engine, name, function)
    monkeypatch.setattr(_texts, "has_gpu", lambda: True)
    monkeypatch.setattr(_texts, "compute_place", lambda *args: None)
    monkeypatch.setattr(_texts, "gpu_place", lambda: _texts.HOST)


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.filterwarnings("ignore:Your stop_words")
@pytest.mark.parametrize("given", ["series", "cuda", "auto"])
@pytest.mark.parametrize(("cls", "params"), ALL)
def test_what_follows_cuml_is_as_in_sklearn(rng, monkeypatch, cls, params, given):
    monkeypatch.setattr(_texts, "WORTH_MOVING_BYTES", 1)
    raw = texts(rng)
    rows = Series(raw) if given == "series" else raw
    ours, other = cls(**params), theirs(cls)(**params)
    expected = other.fit_transform(raw)
    with config_context(device="cuda" if given == "cuda" else "auto"):
        found = ours.fit_transform(rows)
        again = ours.transform(rows)
        alone = cls(**params).fit(rows).transform(rows)
    for X in (found, again, alone):
        assert isinstance(X, OnGpu) == (given != "auto")
        if given == "auto":
            assert X.dtype == expected.dtype
        assert_close(X, expected)
    if cls is not HashingVectorizer:
        assert ours.vocabulary_ == other.vocabulary_
    # What is fitted is on the host.
    with config_context(device="cpu"):
        assert_same(ours.transform(raw), other.transform(raw))


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.parametrize("cls", CLASSES)
def test_few_texts_stay_on_the_host(rng, cls):
    assert not isinstance(cls().fit_transform(texts(rng)), OnGpu)


REFUSED = [
    {"analyzer": "char"},
    {"analyzer": "char_wb", "ngram_range": (2, 4)},
    {"strip_accents": "unicode"},
    {"preprocessor": str.upper},
    {"tokenizer": str.split, "token_pattern": None},
    {"token_pattern": r"\w+"},
]


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.parametrize("params", REFUSED)
@pytest.mark.parametrize("cls", CLASSES)
def test_what_cuml_lacks_is_sklearns_work(rng, cls, params):
    raw = texts(rng)
    expected = theirs(cls)(**params).fit_transform(raw)
    name = next(iter(params))
    with pytest.warns(FallbackWarning, match=f"{cls.__name__}.*cuML has no {name}"):
        found = cls(**params).fit_transform(Series(raw))
    assert isinstance(found, OnGpu)
    assert_close(found, expected)
    strict = config_context(fallback="error", device="cuda")
    with strict, pytest.raises(FallbackError, match=name):
        cls(**params).fit_transform(raw)
    with warnings.catch_warnings(), config_context(fallback="silent", device="cuda"):
        warnings.simplefilter("error")
        found = cls(**params).fit_transform(raw)
    assert_close(found, expected)


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.parametrize("cls", CLASSES)
def test_texts_that_cuml_reads_otherwise_are_sklearns_work(rng, cls):
    for raw, reason in (([*texts(rng), "İzmir"], "characters 'İ'"), ([b"a text", "b"], "strings")):
        expected = theirs(cls)().fit_transform(raw)
        with config_context(device="cuda"), pytest.warns(FallbackWarning, match=reason):
            found = cls().fit_transform(raw)
        assert_close(found, expected)
    with pytest.raises(ValueError, match="invalid document"):
        cls().fit_transform(Series(["a text", None]))


@pytest.mark.usefixtures("fake_gpu")
def test_integers_are_not_hashed_on_a_gpu(rng):
    with config_context(device="cuda"), pytest.warns(FallbackWarning, match="cuML has no dtype"):
        HashingVectorizer(dtype=np.int64, norm=None).transform(texts(rng))


@pytest.mark.usefixtures("fake_gpu")
@pytest.mark.parametrize("cls", [CountVectorizer, TfidfVectorizer])
def test_errors_and_warnings_are_sklearns(rng, cls):
    raw = Series(texts(rng))
    with pytest.raises(ValueError, match="max_df corresponds"):
        cls(min_df=20, max_df=2).fit(raw)
    with pytest.raises(ValueError, match="After pruning, no terms remain"):
        cls(min_df=29, max_df=30).fit(Series([*raw[:28], "z1", "z2"]))
    with pytest.raises(ValueError, match="lower boundary larger"):
        cls(ngram_range=(2, 1)).fit(raw)
    with pytest.raises(ValueError, match="repeated indices"):
        cls(vocabulary={"a1": 0, "b1": 0}).fit(raw)
    with pytest.raises(NotFittedError):
        cls().transform(raw)
    with pytest.warns(UserWarning, match="Upper case characters found"):
        cls(vocabulary=["Cat"]).fit(raw)


def test_kept_columns(rng):
    X = sparse.random(20, 9, 0.4, format="csr", random_state=0)
    X.data[0] = 0.0
    kept = rng.uniform(size=9) < 0.5
    found = columns_of(X, kept)
    np.testing.assert_array_equal(found.toarray(), X.toarray()[:, kept])
    assert found.has_canonical_format


def test_characters_of_numbers():
    for character in "aé漢😀\0":
        code = int.from_bytes(character.encode(), "big")
        assert character_of(code) == character
        signed = code - 2**32 if code >= 2**31 else code
        assert character_of(signed) == character
    assert cut_by_python("É", True) == "é"
    assert cut_by_python("€", True) == " "
    assert len(cut_by_python("İ", True)) == 2


class Strings:
    """As much of a cuDF series as the search for odd characters needs; its case is Python's."""

    def __init__(self, texts, has_no_letter=""):
        self.texts, self.has_no_letter, self.str = list(texts), has_no_letter, self

    def _each(self, function):
        return Strings([function(text) for text in self.texts], self.has_no_letter)

    def byte_count(self):
        return np.array([len(text.encode()) for text in self.texts])

    def len(self):
        return np.array([len(text) for text in self.texts])

    def __getitem__(self, mask):
        return Strings([t for t, keep in zip(self.texts, mask, strict=True) if keep])

    def code_points(self):
        points = [int.from_bytes(c.encode(), "big") for text in self.texts for c in text]
        return pd.Series(np.array(points, dtype=np.int64))

    def lower(self):
        return self._each(lambda text: "".join(c.lower()[:1] for c in text))

    def filter_alphanum(self, replacement, keep):
        known = self.has_no_letter
        return self._each(
            lambda text: "".join(c if c.isalnum() and c not in known else replacement for c in text)
        )


@pytest.mark.parametrize(
    ("raw", "lowercase", "odd"),
    [
        (["plain ASCII", "text_1"], True, ""),
        (["Ähre", "漢字 €"], True, ""),
        (["Ähre", "İzmir"], True, "İ"),
        (["Ähre", "İzmir"], False, ""),
        (["Σας"], True, "Σ"),
        (["Σας"], False, ""),
        (["plain", "x²"], True, "²"),
    ],
)
def test_odd_characters_are_found(monkeypatch, raw, lowercase, odd):
    monkeypatch.setattr(_engine, "_as_series", lambda texts: Strings(texts, has_no_letter="²"))
    monkeypatch.setattr(_engine, "listed", lambda series: series.texts)
    assert _engine.odd_characters(Strings(raw), lowercase) == odd


# ---------------------------------------------------------------- on a GPU

ODD = "straße ÉCOLE ångström Ω ДА 漢字 e\u0301 \uff12\uff13 x² ⅷ ªº ٣ İ Σας _a_ a_b \u200bz \u00a0q ß ŉ ǅ"


def unicode_texts(rng, n=200):
    pools = (range(0x20, 0x7F), range(0xA1, 0x250), range(0x370, 0x590), range(0x4E00, 0x4E40))
    points = np.concatenate([np.array(pool) for pool in pools])
    return ["".join(map(chr, rng.choice(points, size=40))) for _ in range(n)] + ODD.split()


@pytest.mark.gpu
@pytest.mark.filterwarnings("ignore:Your stop_words")
@pytest.mark.parametrize(("cls", "params"), ALL)
def test_cuml_gives_what_sklearn_gives(rng, cls, params):
    cudf = pytest.importorskip("cudf")
    pytest.importorskip("cuml")
    from cupyx.scipy.sparse import isspmatrix_csr

    raw = texts(rng)
    ours, other = cls(**params), theirs(cls)(**params)
    expected = other.fit_transform(raw)
    with config_context(fallback="error"):
        found = ours.fit_transform(cudf.Series(raw, dtype="str"))
        with config_context(device="cuda"):
            again = ours.transform(raw)
    for X in (found, again):
        assert isspmatrix_csr(X)
        assert_close(X, expected)
    if cls is not HashingVectorizer:
        assert ours.vocabulary_ == other.vocabulary_


@pytest.mark.gpu
@pytest.mark.each
@pytest.mark.parametrize("lowercase", [True, False])
@pytest.mark.parametrize("cls", CLASSES)
def test_characters_of_the_world_are_never_silently_different(rng, cls, lowercase):
    cudf = pytest.importorskip("cudf")
    pytest.importorskip("cuml")
    for raw in [unicode_texts(rng), *[[text, "plain text"] for text in unicode_texts(rng, 60)]]:
        expected = theirs(cls)(lowercase=lowercase).fit_transform(raw)
        with config_context(fallback="silent"):
            found = cls(lowercase=lowercase).fit_transform(cudf.Series(raw, dtype="str"))
        assert_close(found, expected)


@pytest.mark.gpu
def test_a_pipeline_of_texts_stays_on_the_gpu(rng):
    cudf = pytest.importorskip("cudf")
    cupy = pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    raw = texts(rng, 200)
    y = np.array([int("cat" in text) for text in raw])
    steps = CountVectorizer(), TfidfTransformer(), MultinomialNB()
    found = make_pipeline(*steps).fit(cudf.Series(raw, dtype="str"), cupy.asarray(y))
    proba = found.predict_proba(cudf.Series(raw, dtype="str"))
    assert isinstance(proba, cupy.ndarray)
    expected = make_pipeline(*map(clone, steps)).fit(raw, y).predict_proba(raw)
    np.testing.assert_allclose(proba.get(), expected, rtol=1e-9)


# scikit-learn's list of checks is for rows of numbers; these are of parameters alone.
CHECKS = [
    estimator_checks.check_estimator_cloneable,
    estimator_checks.check_estimator_repr,
    estimator_checks.check_get_params_invariance,
    estimator_checks.check_no_attributes_set_in_init,
    estimator_checks.check_parameters_default_constructible,
    estimator_checks.check_set_params,
    estimator_checks.check_mixin_order,
    estimator_checks.check_valid_tag_types,
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("cls", CLASSES)
def test_check_estimator(cls, check):
    check(cls.__name__, cls())
