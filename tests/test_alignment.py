"""Arrays that start at any byte are worked on as if they started where numbers do.

That results are then the same to the bit is tested with searches on divided rows, and with
decompositions of dask arrays.
"""

import numpy as np
import pytest
from sklearn.dummy import DummyRegressor

from gpuml._arrays import HOST, aligned, as_array, move
from gpuml.designs import Dense
from gpuml.linear_model import Ridge
from gpuml.losses import BINOMIAL
from gpuml.model_selection.one_by_one import Task
from gpuml.reading.sources import source_of
from gpuml.reading.streams import blocks, parts_of
from gpuml.solvers.loss_rows import LossRows
from tests.inputs_table import estimators, fitted
from tests.targets import suited
from tests.travelled import travelled


def arrays(rng):
    for dtype in ("f8", "f4", "i8"):
        x = rng.integers(0, 9, (5, 3)).astype(dtype)
        yield from (x, np.asfortranarray(x), x[:, 0].copy())


def test_only_what_starts_between_numbers_is_copied(rng):
    for x in arrays(rng):
        assert aligned(x) is as_array(x) is move(x, HOST) is x
        far = travelled(x)
        assert not far.flags.aligned
        for found in (aligned(far), as_array(far), move(far, HOST)):
            assert found.flags.aligned
            assert found.strides == x.strides
            np.testing.assert_array_equal(found, x)


def test_what_has_no_bytes_of_its_own_is_left_alone():
    for x in (None, 3.0, np.float64(3.0), [1.0], "a", np.array(["a"]), np.array([None])):
        assert aligned(x) is x


@pytest.mark.parametrize("order", ["C", "F"])
def test_records_of_rows_are_aligned_where_they_come_to(rng, order):
    X = np.asarray(rng.normal(size=(90, 3)), order=order)
    batch = Ridge().multifit_batch(X, rng.normal(size=90), rng.random(90))
    design = Dense(X, HOST)
    rows = LossRows(design, batch.y[:, 0], batch.weight[None, :], BINOMIAL, 1)
    for record in (batch, design, rows):
        arrived = vars(travelled(record))
        for name, value in vars(record).items():
            if isinstance(value, np.ndarray):
                assert arrived[name].flags.aligned
                assert arrived[name].flags.f_contiguous == value.flags.f_contiguous
                np.testing.assert_array_equal(arrived[name], value)


@pytest.mark.parametrize("shape", [(90, 7), (7, 90)])
def test_a_file_of_records_is_read_block_by_block(tmp_path, rng, shape):
    a = rng.normal(size=shape)
    (tmp_path / "a.bin").write_bytes(b"#" + a.tobytes())
    source = source_of(np.memmap(tmp_path / "a.bin", float, "r", offset=1, shape=shape))
    assert source.place is None
    parts = parts_of(source, HOST, 200)
    assert len(parts) > 1
    found = [block for _, block in blocks(source, parts, HOST)]
    assert all(block.flags.aligned for block in found)
    np.testing.assert_array_equal(np.concatenate(found), a)


@pytest.mark.bits
@pytest.mark.parametrize("estimator", dict(estimators()).values(), ids=dict(estimators()))
@pytest.mark.parametrize("order", ["C", "F"])
def test_every_estimator_gives_the_bits_of_aligned_rows(estimator, order, rng):
    X = np.asarray(rng.integers(0, 5, (60, 6)) + 0.25, order=order)
    y = suited(
        estimator, 1.0 + (X @ np.arange(6) > 34)
    )  # Gamma regression takes positive targets only.
    here, there = (fitted(estimator, *rows) for rows in ((X, y), (travelled(X), travelled(y))))
    np.testing.assert_array_equal(here, there)


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore:n_quantiles:UserWarning")
@pytest.mark.parametrize("estimator", dict(estimators()).values(), ids=dict(estimators()))
def test_models_that_come_over_a_network_are_aligned(estimator, rng):
    X = rng.normal(size=(60, 6))
    estimator.fit(X, suited(estimator, 1.0 + (X[:, 0] > 0)))
    found = vars(travelled(estimator)).values()
    assert all(x.flags.aligned for x in found if isinstance(x, np.ndarray))


def test_a_search_on_a_cluster_gives_any_estimator_aligned_rows(rng):
    tasks = pytest.importorskip("gpuml_dask.searching.tasks")
    task = Task(None, {}, {}, False, np.nan, 0)
    spec = tasks.Spec(DummyRegressor(), [], task, {}, {}, [], "of a test", "a search")
    rows = {"X": travelled(rng.normal(size=(30, 3))), "y": travelled(rng.normal(size=30))}
    job = spec.kept(rows).evaluator.job
    assert job.X.flags.aligned
    assert job.y.flags.aligned
