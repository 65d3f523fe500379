"""cuML's vectorisers, and all that is asked of cuDF.

cuML gives counts and hashes; everything that follows (pruning, weights, norms) is done here as
scikit-learn does it, so that nothing but the cutting of texts into words can differ. Where that
does, for some characters, `odd_characters` finds them.
"""

import importlib.util
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuml._cuml import import_cudf, import_cuml

# cuDF cuts as this pattern does.
PATTERN = r"(?u)\b\w\w+\b"
# At the end of a word its lower case is another one than elsewhere.
SIGMA = "\N{GREEK CAPITAL LETTER SIGMA}"
FLOATS = (np.dtype(np.float32), np.dtype(np.float64))


def is_installed() -> bool:
    """Whether cuML and cuDF are."""
    return all(importlib.util.find_spec(name) is not None for name in ("cuml", "cudf"))


def refusal(model: Any) -> str | None:
    """What a vectoriser asks for that cuML lacks or does otherwise, in words; None for nothing."""
    for name in ("strip_accents", "preprocessor", "tokenizer"):
        if getattr(model, name) is not None:
            return f"{name}={getattr(model, name)!r}"
    for name, known in (("input", "content"), ("token_pattern", PATTERN), ("analyzer", "word")):
        if getattr(model, name) != known:
            return f"{name}={getattr(model, name)!r}"
    if model.ngram_range[0] < 1:
        return f"ngram_range={model.ngram_range}"
    if hasattr(model, "n_features") and np.dtype(model.dtype) not in FLOATS:
        return f"dtype={model.dtype!r}"
    return None


# ---------------------------------------------------------------- series of texts


def is_series(texts: Any) -> bool:
    """Whether texts are a cuDF series."""
    return type(texts).__module__.startswith("cudf") and type(texts).__name__ == "Series"


def series_of(texts: Sequence) -> Any:
    """Texts as a cuDF series; None if some are no strings."""
    if not all(isinstance(text, str) for text in texts):
        return None
    return import_cudf().Series([str(text) for text in texts], dtype="str")


def listed(series: Any) -> list:
    """The texts of a series as strings in CPU memory."""
    return series.to_arrow().to_pylist()


def has_missing(series: Any) -> bool:
    """Whether some document is not there."""
    return bool(series.isna().any())


def odd_characters(series: Any, lowercase: bool) -> str:
    """Characters of the texts that cuDF lowers, or takes for parts of words, unlike Python."""
    is_wide = series.str.byte_count() != series.str.len()
    if not bool(is_wide.any()):
        return ""  # of ASCII both have the same tables
    codes = series[is_wide].str.code_points().drop_duplicates().to_numpy()
    characters = [character_of(int(code)) for code in codes]
    there = _as_series(characters)
    lowered = there.str.lower() if lowercase else there
    found = listed(lowered.str.filter_alphanum(" ", keep=True))
    return "".join(
        character
        for character, text in zip(characters, found, strict=True)
        if text != cut_by_python(character, lowercase) or (lowercase and character == SIGMA)
    )


def _as_series(characters):
    return import_cudf().Series(characters, dtype="str")


def character_of(code: int) -> str:
    """The character whose UTF-8 bytes make a number, as cuDF gives it."""
    return (code & 0xFFFFFFFF).to_bytes(4, "big").lstrip(b"\0").decode() or "\0"


def cut_by_python(character: str, lowercase: bool) -> str:
    """A character in lower case, with spaces for what is no letter or digit."""
    text = character.lower() if lowercase else character
    return "".join(c if c.isalnum() else " " for c in text)


# ---------------------------------------------------------------- matrices


def counts(model: Any, series: Any, terms: Sequence[str] | None) -> tuple[list[str], Any]:
    """Sorted terms, or those given, and their counts in each text: a cupyx CSR matrix."""
    import_cuml()
    from cuml.feature_extraction.text import CountVectorizer

    vocabulary = None if terms is None else _as_series(list(terms))
    engine = CountVectorizer(
        **_params(model), vocabulary=vocabulary, dtype=float_dtype(model.dtype)
    )
    X = _run(engine, series)
    return (listed(engine.vocabulary_) if terms is None else list(terms)), X


def hashes(model: Any, series: Any) -> Any:
    """Counts of hashed terms: a cupyx CSR matrix."""
    import_cuml()
    from cuml.feature_extraction.text import HashingVectorizer

    engine = HashingVectorizer(
        **_params(model),
        n_features=int(model.n_features),
        alternate_sign=bool(model.alternate_sign),
        norm=None,
        dtype=float_dtype(model.dtype),
    )
    return _run(engine, series)


def _params(model):
    stop_words = model.get_stop_words()
    low, high = model.ngram_range
    return {
        "lowercase": bool(model.lowercase),
        "stop_words": sorted(stop_words) if stop_words else None,
        "ngram_range": (int(low), int(high)),
        "binary": bool(model.binary),
    }


def _run(engine, series):
    with import_cuml().using_output_type("cupy"):
        return engine.fit_transform(series)


def float_dtype(dtype: Any) -> np.dtype:
    """The dtype of a matrix on a GPU, where there are none of integers."""
    dtype = np.dtype(dtype)
    return dtype if dtype in FLOATS else np.dtype(np.float64)


def to_gpu(X: Any) -> Any:
    """A SciPy matrix as cupyx CSR."""
    from cupyx.scipy.sparse import csr_matrix

    return csr_matrix(X.astype(float_dtype(X.dtype)))


def to_host(X: Any, dtype: Any) -> Any:
    """A cupyx matrix as SciPy's, in a dtype."""
    from gpuml._sklearn import _align_api_if_sparse

    return _align_api_if_sparse(X.get().astype(dtype))
