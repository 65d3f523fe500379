"""The law of steps in a search: fitting to all parts at once is fitting to each of them."""

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import KFold

from gpuml.data import count_rows, resident
from gpuml.decomposition import PCA, TruncatedSVD
from gpuml.extending import AffineStep
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.split import split_rows
from gpuml.solvers.affine import Affine, Parts
from gpuml.solvers.described import describe


def parts_of(library, X, cv):
    """Training parts of a splitter, and the same rows on the host."""
    y = np.arange(float(len(X)))
    batch = resident(library.asarray(X), library.asarray(y), None, "cpu")
    folds = make_folds(batch, split_rows(cv, X, y, len(X)))
    (partition,) = folds.partitions
    described = describe(folds)
    sizes = np.asarray([count_rows(atom) for atom in partition.atoms])
    moments = described.moments[0].combine(partition.train)
    parts = Parts(
        batch=batch,
        moments=moments,
        n_rows=tuple(int(n) for n in partition.train @ sizes),
        weighted=False,
        stacked=lambda s: described.factors_of(0).stack(partition.train[s]),
    )
    return parts, [X[train] for train, _ in cv.split(X)]


def rows(rng, n, p=7):
    return rng.normal(size=(n, p)) @ np.diag(np.linspace(4, 0.3, p)) @ rng.normal(size=(p, p)) + 3


def compare(library, step, model, candidate, parts, training):
    """Attributes, and what the maps do to rows, against one fit at a time."""
    for s, X in enumerate(training):
        single = clone(model).set_params(**candidate).fit(library.asarray(X))
        picked = step.pick(s)
        fitted = {
            name: value
            for name, value in vars(single).items()
            if name not in single.get_params() and name != "n_features_in_"
        }
        assert set(picked) == set(fitted)
        for name, value in fitted.items():
            if isinstance(value, str | int):
                assert picked[name] == value, name
                continue
            expected, got = library.to_numpy(value), library.to_numpy(picked[name])
            assert got.shape == expected.shape
            np.testing.assert_allclose(got, expected, rtol=1e-7, atol=1e-7, err_msg=name)
            assert type(picked[name]) is type(value)
        matrix, offset = (
            library.to_numpy(step.maps.matrix)[s],
            library.to_numpy(step.maps.offset)[s],
        )
        image = X @ matrix + offset
        expected = library.to_numpy(single.transform(library.asarray(X)))
        k = expected.shape[1]
        np.testing.assert_allclose(image[:, :k], expected, atol=1e-6)
        np.testing.assert_array_equal(image[:, k:], 0)
        if step.widths is not None:
            assert step.widths[s] == k


PCA_CANDIDATES = [
    {"n_components": 3},
    {"n_components": 1, "whiten": True},
    {"n_components": None},
    {"n_components": 0.9, "whiten": True},
    {"n_components": 0.995},
    {"n_components": "mle"},
    {},
]


@pytest.mark.pairwise
@pytest.mark.parametrize("solver", ["auto", "covariance_eigh", "full"])
@pytest.mark.parametrize("n", [40, 180])
def test_pca_at_once_is_pca_one_by_one(library, rng, solver, n):
    parts, training = parts_of(library, rows(rng, n), KFold(3))
    model = PCA(2, svd_solver=solver)
    assert isinstance(model, AffineStep)
    assert model.affine_ready(parts.batch.X)
    steps = model.multi_affine(parts, PCA_CANDIDATES)
    for candidate, step in zip(PCA_CANDIDATES, steps, strict=True):
        compare(library, step, model, candidate, parts, training)


def test_few_of_many_components(library, rng):
    X = rng.normal(size=(400, 300)) @ np.diag(np.r_[[9, 8, 7, 6], np.ones(296)])
    parts, training = parts_of(library, X, KFold(2))
    model = PCA(svd_solver="covariance_eigh")
    candidates = [{"n_components": 2}, {"n_components": 4}]
    for candidate, step in zip(candidates, model.multi_affine(parts, candidates), strict=True):
        compare(library, step, model, candidate, parts, training)


def test_parts_that_differ_in_their_number_of_components(library, rng):
    X = rng.normal(size=(90, 6))
    X[:30, 0] *= 100  # parts with these rows vary in one direction, the other one in all
    parts, training = parts_of(library, X, KFold(3))
    model = PCA()
    (step,) = model.multi_affine(parts, [{"n_components": 0.97}])
    assert len(set(step.widths)) > 1
    compare(library, step, model, {"n_components": 0.97}, parts, training)


@pytest.mark.parametrize("algorithm", ["randomized", "arpack"])
def test_svd_at_once_is_svd_one_by_one(library, rng, algorithm):
    parts, training = parts_of(library, rows(rng, 60), KFold(3))
    model = TruncatedSVD(algorithm=algorithm, random_state=0)
    assert isinstance(model, AffineStep)
    assert model.affine_ready(parts.batch.X)
    candidates = [{"n_components": 3}, {}, {"n_components": 5}]
    steps = model.multi_affine(parts, candidates)
    for candidate, step in zip(candidates, steps, strict=True):
        compare(library, step, model, candidate, parts, training)


def test_steps_after_others_see_what_those_left(rng):
    """Shifts then differ between parts."""
    X = rows(rng, 80)
    library = np

    class Host:
        asarray, to_numpy = staticmethod(np.asarray), staticmethod(np.asarray)

    parts, training = parts_of(Host, X, KFold(2))
    matrix = rng.normal(size=(2, 7, 5))
    offset = rng.normal(size=(2, 5))
    after = parts.through(Affine(library.asarray(matrix), library.asarray(offset)))
    images = [X @ matrix[s] + offset[s] for s, X in enumerate(training)]
    for model in (PCA(3), PCA(3, svd_solver="full"), TruncatedSVD(3)):
        (step,) = model.multi_affine(after, [{}])
        compare(Host, step, model, {}, after, images)


@pytest.mark.parametrize("bad", [0.0, 8, -1, "some"])
def test_a_bad_candidate_is_refused_as_fit_does(rng, bad):
    class Host:
        asarray = staticmethod(np.asarray)

    parts, training = parts_of(Host, rows(rng, 60), KFold(3))
    with pytest.raises(ValueError, match="n_components"):
        PCA(n_components=bad).fit(training[0])
    with pytest.raises(ValueError, match="n_components"):
        PCA().multi_affine(parts, [{"n_components": 2}, {"n_components": bad}])
    if bad != 0.0:
        with pytest.raises(ValueError, match="n_components"):
            TruncatedSVD().multi_affine(parts, [{"n_components": bad}])


def test_what_is_ready_for_it(rng):
    from scipy import sparse

    X = rows(rng, 60)
    assert not PCA().affine_ready(sparse.csr_array(X))
    assert not TruncatedSVD().affine_ready(sparse.csr_array(X))
    for solver in ("randomized", "arpack", "jacobi", "cuml-full"):
        assert not PCA(svd_solver=solver).affine_ready(X)
    large = np.broadcast_to(0.0, (20_000, 2_000))
    assert not PCA().affine_ready(large)
    assert PCA().affine_ready(np.broadcast_to(0.0, (40_000, 2_000)))
    assert PCA(svd_solver="full").affine_ready(large)
    assert not PCA(svd_solver="full").affine_ready(np.broadcast_to(0.0, (100, 6_000)))
    assert not TruncatedSVD().affine_ready(large)
    assert not TruncatedSVD(algorithm="arpack", tol=0.1).affine_ready(X)
