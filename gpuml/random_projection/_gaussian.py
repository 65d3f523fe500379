"""Random projection by a matrix of normal numbers."""

from sklearn import random_projection as sk

from gpuml.random_projection._projection import RandomProjection


class GaussianRandomProjection(RandomProjection, sk.GaussianRandomProjection):
    r"""Project rows by a matrix of random normal numbers, :math:`Z = X C'`.

    scikit-learn draws C by NumPy, so that a seed gives the same matrix everywhere; it needs
    nothing of X but its shape. The product is taken where X is: NumPy, CuPy, torch and other
    arrays, and sparse matrices of SciPy and cupyx. Dense rows in CPU memory go to a GPU where
    ``gpuml.set_config(device=...)`` says so; results come back.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of columns of Z; "auto" is what the Johnson-Lindenstrauss lemma asks for.
    eps : float, default=0.1
        Distortion that "auto" allows.
    compute_inverse_components : bool, default=False
        Whether `fit` learns the pseudo-inverse of C, which `inverse_transform` needs.
    random_state : int, RandomState instance or None, default=None

    Attributes
    ----------
    n_components_ : int
    components_ : array of shape (n_components, n_features)
        C, in the library, on the device and of the dtype of the X of `fit`.
    inverse_components_ : array of shape (n_features, n_components)
        Only with `compute_inverse_components`; likewise.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Only where the columns of X have string names.

    See Also
    --------
    SparseRandomProjection : With few numbers that are not 0.

    References
    ----------
    E. Bingham, H. Mannila, "Random projection in dimensionality reduction", KDD 2001.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.random_projection import GaussianRandomProjection
    >>> X = np.random.RandomState(0).uniform(size=(25, 300))
    >>> GaussianRandomProjection(n_components=10, random_state=0).fit_transform(X).shape
    (25, 10)
    """
