"""Labels are numbered, and get columns, where they are, as scikit-learn does it in CPU memory."""

import pickle

import numpy as np
import pytest
from sklearn import preprocessing as sk

from gpuml._arrays import place_of
from gpuml.preprocessing import LabelBinarizer, LabelEncoder

LABELS = {
    "two": np.asarray([3, 7, 3, 3, 7, 7, 3]),
    "several": np.asarray([5, 2, 9, 2, 5, 5, -1, 9]),
    "one": np.asarray([4, 4, 4]),
    "truths": np.asarray([True, False, True, True]),
    "floats": np.asarray([1.0, 3.0, 2.0, 1.0, 2.0, 3.0]),
}
MATRIX = np.asarray([[1, 0, 1], [0, 0, 1], [1, 1, 0], [0, 0, 0]])
SIGNS = [{}, {"neg_label": -2, "pos_label": 3}]


@pytest.mark.parametrize("name", LABELS)
def test_numbers_of_labels(name, library):
    y, expected = LABELS[name], sk.LabelEncoder().fit(LABELS[name])
    there = library.asarray(y)
    encoder = LabelEncoder()
    for codes in (encoder.fit_transform(there), encoder.fit(there).transform(there)):
        assert place_of(codes) == place_of(there)
        np.testing.assert_array_equal(library.to_numpy(codes), expected.transform(y))
    np.testing.assert_array_equal(encoder.classes_, expected.classes_)
    np.testing.assert_array_equal(library.to_numpy(encoder.inverse_transform(codes)), y)


@pytest.mark.pairwise
@pytest.mark.parametrize("params", SIGNS, ids=str)
@pytest.mark.parametrize("name", [*LABELS, "matrix"])
def test_columns_of_labels(name, params, library):
    y = MATRIX if name == "matrix" else LABELS[name]
    theirs, there = sk.LabelBinarizer(**params).fit(y), library.asarray(y)
    ours = LabelBinarizer(**params).fit(there)
    assert ours.y_type_ == theirs.y_type_
    np.testing.assert_array_equal(ours.classes_, theirs.classes_)
    Y = ours.transform(there)
    assert place_of(Y) == place_of(there)
    np.testing.assert_array_equal(library.to_numpy(Y), theirs.transform(y))
    back = library.to_numpy(ours.inverse_transform(Y))
    np.testing.assert_array_equal(back, theirs.inverse_transform(theirs.transform(y)))
    values = np.random.default_rng(0).normal(size=Y.shape)
    found = ours.inverse_transform(library.asarray(values), threshold=0.2)
    expected = theirs.inverse_transform(values, threshold=0.2)
    np.testing.assert_array_equal(library.to_numpy(found), expected)


@pytest.mark.parametrize("kind", [LabelEncoder, LabelBinarizer])
def test_what_is_fitted_there_is_pickled_for_anywhere(kind, library):
    y = LABELS["several"]
    again = pickle.loads(pickle.dumps(kind().fit(library.asarray(y))))
    np.testing.assert_array_equal(again.transform(y), kind().fit(y).transform(y))


def test_unseen_labels(library):
    known, other = (library.asarray(np.asarray(y)) for y in ([1, 2, 3, 2], [2, 8]))
    with pytest.raises(ValueError, match="previously unseen labels"):
        LabelEncoder().fit(known).transform(other)
    with pytest.raises(ValueError, match="previously unseen labels"):
        LabelEncoder().fit(known).inverse_transform(other)
    Y = LabelBinarizer().fit(known).transform(other)
    np.testing.assert_array_equal(library.to_numpy(Y), [[0, 1, 0], [0, 0, 0]])
    for fitted in ([1, 2], [1, 2, 3]):
        model, theirs = (kind().fit(fitted) for kind in (LabelBinarizer, sk.LabelBinarizer))
        for y in ([1, 2, 2], [2, 8], [1, 2, 8], [7, 8, 9]):
            found = library.to_numpy(model.transform(library.asarray(np.asarray(y))))
            np.testing.assert_array_equal(found, theirs.transform(y))


@pytest.mark.parametrize("estimator", [LabelEncoder(), LabelBinarizer()])
def test_measurements_are_no_labels(estimator):
    torch = pytest.importorskip("torch")
    y = torch.asarray([[0.5, 1.5], [2.5, 3.5]])
    with pytest.raises(ValueError, match=r"1d array|[Mm]ultioutput"):
        estimator.fit(y)
    assert not hasattr(estimator, "classes_")


def test_what_labels_on_a_device_cannot_have():
    torch = pytest.importorskip("torch")
    y = torch.asarray([1, 2, 1])
    with pytest.raises(ValueError, match="sparse_output=True is for labels in CPU memory"):
        LabelBinarizer(sparse_output=True).fit(y)
    names = LabelEncoder().fit(["a", "b"])
    with pytest.raises(ValueError, match="Convert y to NumPy"):
        names.inverse_transform(torch.asarray([0, 1]))
