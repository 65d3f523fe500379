"""A scaler fitted to all training parts from moments is the scaler fitted to each part."""

import re
from pathlib import Path

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import clone
from sklearn.model_selection import KFold

import gpuml.decomposition
import gpuml.preprocessing
from gpuml.data import resident
from gpuml.extending import AffineStep
from gpuml.preprocessing import MaxAbsScaler, MinMaxScaler, StandardScaler
from gpuml.resampling.atoms import make_folds
from gpuml.resampling.multifit import STEPS
from gpuml.resampling.split import split_rows
from gpuml.solvers.affine import Parts
from gpuml.solvers.described import describe, training_parts

CANDIDATES = {
    StandardScaler: [
        {},
        {"with_mean": False},
        {"with_std": False},
        {"with_mean": False, "with_std": False},
    ],
    MinMaxScaler: [{}, {"feature_range": (-2, 3)}],
    MaxAbsScaler: [{}],
}


def parts_of(library, X, w, *, mean_of_y=0.0):
    y = X[:, :1] + mean_of_y
    arrays = [None if a is None else library.asarray(a) for a in (X, y, w)]
    batch = resident(*arrays, "auto")
    folds = make_folds(batch, split_rows(KFold(3), X, y, len(X)))
    (training,) = training_parts(folds)
    described = describe(folds)
    parts = Parts(
        batch=batch,
        moments=described.combined(training),
        n_rows=tuple(split.n_train for split in folds.splits),
        weighted=w is not None,
        stacked=lambda s: described.stacked(training.part(s)),
        extrema=lambda: described.extrema(training),
    )
    return parts, [train for train, _ in KFold(3).split(X)]


def rows(rng, dtype):
    X = rng.normal(500, 1, size=(120, 4)) * 10.0 ** np.arange(-2, 2)
    X[:, 2] = 0.1  # constant
    X[:40, 3] = 3.0
    X[40:, 3] = 3.0 + 1e-3 * rng.normal(size=80)
    return X.astype(dtype)


@pytest.mark.pairwise
@pytest.mark.filterwarnings("ignore:invalid value encountered in sqrt:RuntimeWarning")
@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("cls", CANDIDATES)
def test_batched_is_one_by_one(library, rng, dtype, weighted, cls):
    X = rows(rng, dtype)
    w = rng.uniform(0.1, 2, size=120).astype(dtype) if weighted else None
    parts, trains = parts_of(library, X, w)
    steps = cls().multi_affine(parts, CANDIDATES[cls])
    for step, params in zip(steps, CANDIDATES[cls], strict=True):
        for s, train in enumerate(trains):
            takes_weights = weighted and cls is StandardScaler
            weights = {"sample_weight": library.asarray(w[train])} if takes_weights else {}
            one = cls(**params).fit(library.asarray(X[train]), **weights)
            picked = step.pick(s)
            batched = clone(one)
            vars(batched).update(picked, n_features_in_=4)
            for name, found in picked.items():
                expected = getattr(one, name)
                assert type(found) is type(expected)
                if expected is not None:
                    found, expected = library.to_numpy(found), library.to_numpy(expected)
                    assert found.dtype == expected.dtype
                    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)
            maps = [library.to_numpy(a) for a in (step.maps.matrix, step.maps.offset)]
            image = batched.transform(library.asarray(X[train].astype("float64")))
            np.testing.assert_allclose(
                X[train] @ maps[0][s] + maps[1][s], library.to_numpy(image), rtol=1e-7, atol=1e-7
            )


@pytest.mark.parametrize("value", [0.0, 3.3, 1e5])
def test_what_varies_in_held_out_rows_alone_is_constant(library, rng, value):
    X = rng.normal(size=(1350, 3))
    X[:, 1] = value
    X[-2:, 1] += 1.0
    parts, _ = parts_of(library, X, None)
    (step,) = StandardScaler().multi_affine(parts, [{}])
    scale = [library.to_numpy(step.pick(s)["scale_"])[1] for s in range(3)]
    # A factor of 1e9 or so, of what rounding leaves of the variance, would reach held-out scores.
    assert scale[2] == 1.0
    np.testing.assert_allclose(scale[:2], X[450:, 1].std(), rtol=1e-6)


def test_images_under_a_step_before(library, rng):
    # Centred and scaled rows have mean 0 and scale 1, so the second scaler finds the identity.
    parts, _ = parts_of(library, rows(rng, "float64")[:, :2], None)
    first = StandardScaler().multi_affine(parts, [{}])[0]
    second = StandardScaler().multi_affine(parts.through(first.maps), [{}])[0]
    matrix, offset = (library.to_numpy(a) for a in (second.maps.matrix, second.maps.offset))
    np.testing.assert_allclose(matrix, np.broadcast_to(np.eye(2), (3, 2, 2)), atol=1e-9)
    np.testing.assert_allclose(offset, np.zeros((3, 2)), atol=1e-9)


def test_every_step_has_a_row_in_each_table():
    steps = {
        name: cls
        for module in (gpuml.preprocessing, gpuml.decomposition)
        for name, cls in ((name, getattr(module, name)) for name in module.__all__)
        if issubclass(cls, AffineStep)
    }
    scalers = {cls for cls in steps.values() if cls.affine_is_diagonal}
    assert scalers == set(CANDIDATES), "CANDIDATES, above, have a case for each scaler"
    assert steps.keys() == STEPS.keys(), "STEPS say what to import in place of scikit-learn's"
    page = (Path(__file__).parents[2] / "docs" / "pipelines.md").read_text()
    told = set(re.findall(r"`(\w+)`", "".join(re.findall(r"^\| (`.*?) \|", page, re.M))))
    assert steps.keys() <= told, "the page on pipelines has a table of steps"


@pytest.mark.parametrize("cls", CANDIDATES)
def test_the_protocol_is_met(rng, cls):
    assert isinstance(cls(), AffineStep)
    assert cls.affine_is_diagonal
    assert cls().affine_ready(rows(rng, "float64"))
    assert cls().affine_ready([[0.0], [1.0]])
    assert not cls().affine_ready(sparse.eye_array(3, format="csr"))


@pytest.mark.parametrize("cls", [MinMaxScaler, MaxAbsScaler])
def test_clipping_is_no_affine_map(rng, cls):
    assert not cls(clip=True).affine_ready(rows(rng, "float64"))
