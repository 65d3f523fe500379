"""How good cuML's embeddings are beside those of scikit-learn and umap-learn.

Coordinates differ, so what is compared is how far neighbours stay neighbours (trustworthiness), and
for spectral embeddings correlations, as their columns may have the other sign.
"""

import pickle

import numpy as np
import pytest
from scipy import sparse
from sklearn import manifold, neighbors
from sklearn.datasets import load_digits
from sklearn.manifold import trustworthiness

import gpuml
from gpuml._arrays import place_of, to_host
from gpuml.manifold import TSNE, UMAP, SpectralEmbedding

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.filterwarnings("ignore::gpuml.exceptions.PrecisionWarning"),
]

DIGITS, NUMBERS = load_digits(return_X_y=True)
PIXELS = DIGITS / 16.0


@pytest.fixture(autouse=True)
def always():
    pytest.importorskip("cupy")
    pytest.importorskip("cuml")
    with gpuml.config_context(device="cuda", fallback="error"):
        yield


@pytest.fixture(params=["numpy", "cupy", "torch"])
def rows_of(request):
    """Makes rows of a library, those of a device on a GPU."""
    if request.param == "numpy":
        return np.asarray
    library = pytest.importorskip(request.param)
    if request.param == "cupy":
        return library.asarray
    return lambda x: library.asarray(x, device="cuda")


def quality(rows, embedding):
    return trustworthiness(rows, to_host(embedding), n_neighbors=10)


@pytest.mark.each
@pytest.mark.parametrize("params", [{}, {"perplexity": 60}, {"early_exaggeration": 20.0}])
def test_tsne(rows_of, params):
    embedding = TSNE(random_state=0, **params).fit_transform(rows_of(PIXELS))
    oracle = manifold.TSNE(random_state=0, **params).fit_transform(PIXELS)
    assert place_of(embedding) == place_of(rows_of(PIXELS))
    assert quality(PIXELS, embedding) > quality(PIXELS, oracle) - 0.01


def test_tsne_without_approximations_and_twice_the_same():
    model = TSNE(method="exact", random_state=0).fit(PIXELS[:500])
    assert quality(PIXELS[:500], model.embedding_) > 0.97
    assert model.learning_rate_ == 50
    first, second = (TSNE(random_state=0).fit_transform(PIXELS[:500]) for _ in range(2))
    np.testing.assert_array_equal(first, second)


def test_tsne_of_many_rows():
    """The schedule of rates and exaggeration that we give cuML separates ten clusters of 20,000."""
    rng = np.random.default_rng(0)
    labels = rng.integers(10, size=20_000)
    rows = rng.normal(size=(10, 20))[labels] * 5 + rng.normal(size=(20_000, 20))
    embedding = TSNE(random_state=0).fit_transform(rows)
    known = neighbors.KNeighborsClassifier().fit(embedding[:15_000], labels[:15_000])
    assert known.score(embedding[15_000:], labels[15_000:]) > 0.99


def test_spectral_embedding(rows_of):
    params = {"n_components": 2, "n_neighbors": 60, "random_state": 0}
    found = to_host(SpectralEmbedding(**params).fit_transform(rows_of(PIXELS)))
    expected = manifold.SpectralEmbedding(**params).fit_transform(PIXELS)
    for ours, theirs in zip(found.T, expected.T, strict=True):
        assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.99
    np.testing.assert_allclose(found.std(axis=0), expected.std(axis=0), rtol=0.05)


def test_spectral_embedding_of_a_graph():
    graph = neighbors.kneighbors_graph(PIXELS, 30, include_self=True)
    graph = 0.5 * (graph + graph.T)
    params = {"affinity": "precomputed", "random_state": 0}
    expected = manifold.SpectralEmbedding(**params).fit_transform(graph)
    for affinity in (graph, graph.toarray()):
        found = SpectralEmbedding(**params).fit_transform(affinity)
        for ours, theirs in zip(found.T, expected.T, strict=True):
            assert abs(np.corrcoef(ours, theirs)[0, 1]) > 0.99


@pytest.mark.parametrize(
    "params", [{}, {"metric": "cosine"}, {"init": "random"}, {"n_epochs": 200}]
)
def test_umap(rows_of, params):
    """0.97 is what umap-learn reaches on these rows."""
    rows = rows_of(PIXELS)
    model = UMAP(random_state=0, **params)
    embedding = model.fit_transform(rows[:1500])
    assert quality(PIXELS[:1500], embedding) > 0.96
    np.testing.assert_array_equal(to_host(model.transform(rows[:1500])), to_host(embedding))
    known = neighbors.KNeighborsClassifier().fit(to_host(embedding), NUMBERS[:1500])
    assert known.score(to_host(model.transform(rows[1500:])), NUMBERS[1500:]) > 0.9


def test_umap_gives_rows_of_points(rows_of):
    """0.64 is what umap-learn leaves of the distances from the mean row."""
    model = UMAP(random_state=0).fit(rows_of(PIXELS[:1500]))
    rows = model.inverse_transform(model.embedding_[:100])
    assert place_of(rows) == place_of(model.embedding_)
    left = np.linalg.norm(to_host(rows) - PIXELS[:100], axis=1).mean()
    assert left < 0.75 * np.linalg.norm(PIXELS[:100] - PIXELS.mean(axis=0), axis=1).mean()


def test_umap_by_targets_and_of_sparse_rows():
    unknown = np.where(np.arange(len(NUMBERS)) % 2, NUMBERS, -1)
    assert quality(PIXELS, UMAP(random_state=0).fit(PIXELS, unknown).embedding_) > 0.94
    rows = sparse.csr_matrix(PIXELS)
    model = UMAP(random_state=0).fit(rows)
    assert quality(PIXELS, model.embedding_) > 0.96
    np.testing.assert_array_equal(model.transform(rows), model.embedding_)
    assert model.transform(rows[:7]).shape == (7, 2)


def test_umap_travels():
    pytest.importorskip("umap")
    model = UMAP(random_state=0).fit(PIXELS[:1500])
    with gpuml.config_context(device="cpu"):
        loaded = pickle.loads(pickle.dumps(model))
        np.testing.assert_array_equal(loaded.transform(PIXELS[:1500]), model.embedding_)
        embedded = loaded.transform(PIXELS[1500:])
    known = neighbors.KNeighborsClassifier().fit(model.embedding_, NUMBERS[:1500])
    assert known.score(embedded, NUMBERS[1500:]) > 0.9
    again = loaded.transform(PIXELS[1500:])
    assert "_lifted" in vars(loaded)
    assert known.score(again, NUMBERS[1500:]) > 0.9
