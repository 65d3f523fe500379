"""Random projection by a sparse matrix."""

from sklearn import random_projection as sk

from gpuml.random_projection._projection import RandomProjection


class SparseRandomProjection(RandomProjection, sk.SparseRandomProjection):
    r"""Project rows by a random matrix with few numbers that are not 0, :math:`Z = X C'`.

    The entries of C are 0, or :math:`\pm \sqrt{1 / (d k)}` with the probability d, for k
    components. scikit-learn draws C by NumPy, so that a seed gives the same matrix everywhere;
    the product is taken where X is, as for `GaussianRandomProjection`.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number k of columns of Z; "auto" is what the Johnson-Lindenstrauss lemma asks for.
    density : float or "auto", default="auto"
        d; "auto" is one by the square root of the number of features.
    eps : float, default=0.1
        Distortion that "auto" allows.
    dense_output : bool, default=False
        Whether sparse X gives dense Z; dense X does anyway.
    compute_inverse_components : bool, default=False
        Whether `fit` learns the pseudo-inverse of C, which `inverse_transform` needs.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    n_components_ : int
    components_ : sparse matrix or array of shape (n_components, n_features)
        C: a CSR matrix of SciPy, or of cupyx if the X of `fit` is on CuPy's side, unless d is 1;
        for other libraries an array of theirs.
    density_ : float
        d.
    inverse_components_ : array of shape (n_features, n_components)
        Only with `compute_inverse_components`.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    GaussianRandomProjection : With normal numbers.

    References
    ----------
    P. Li, T. J. Hastie, K. W. Church, "Very sparse random projections", KDD 2006.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.random_projection import SparseRandomProjection
    >>> X = np.random.RandomState(0).uniform(size=(25, 300))
    >>> SparseRandomProjection(n_components=10, random_state=0).fit_transform(X).shape
    (25, 10)
    """
