"""Naive Bayes for counts and for binary features, on the device of the rows."""

from sklearn import naive_bayes as sk

from gpuml._arrays import is_sparse, namespace
from gpuml._inputs.csr import with_values
from gpuml.naive_bayes._discrete import Discrete
from gpuml.naive_bayes._input import values_of


class MultinomialNB(Discrete, sk.MultinomialNB):
    r"""Multinomial naive Bayes for counts, such as those of words.

    .. math:: \log P(y = c, x) = \log \pi_c + \sum_j x_j \log p_{cj} + \mathrm{const}, \qquad
        p_{cj} = (N_{cj} + \alpha_j) / \sum_i (N_{ci} + \alpha_i)

    with the weighted sums :math:`N_{cj}` of feature j over the rows of class c. NumPy, CuPy, torch
    and other arrays, and CSR matrices of SciPy and cupyx, stay on their device; sums are float64.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        Smoothing, added to each count.
    force_alpha : bool, default=True
        Whether to use alpha as it is. False raises values below 1e-10 to 1e-10, with a warning.
    fit_prior : bool, default=True
        Whether the prior probability of a class is its share of the total weight; otherwise all
        classes have the same prior.
    class_prior : array-like of shape (n_classes,), default=None
        Prior probabilities of the classes, instead of those of `fit_prior`.

    Attributes
    ----------
    class_count_ : array of shape (n_classes,)
        Weight of the rows of each class. All arrays of floats are float64, in the library and on
        the device of the X of the last fit.
    class_log_prior_ : array of shape (n_classes,)
        Logarithms of the prior probabilities.
    classes_ : array of shape (n_classes,)
        Sorted labels, of the dtype of y.
    feature_count_ : array of shape (n_classes, n_features)
        The sums N.
    feature_log_prob_ : array of shape (n_classes, n_features)
        log p.
    n_features_in_ : int
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Set only if all columns of X have string names.

    See Also
    --------
    ComplementNB : For classes of very different sizes.

    References
    ----------
    C. D. Manning, P. Raghavan, H. Schuetze, "Introduction to Information Retrieval", Cambridge
    University Press (2008), chapter 13.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.naive_bayes import MultinomialNB
    >>> X = np.array([[2, 1, 0], [3, 0, 0], [0, 1, 4], [0, 0, 2]])
    >>> MultinomialNB().fit(X, ["a", "a", "b", "b"]).predict([[1, 1, 0]])
    array(['a'], dtype='<U1')
    """

    def _update_feature_log_prob(self, alpha):
        xp = namespace(self.feature_count_)
        smoothed = self.feature_count_ + self._near_counts(alpha)
        total = xp.sum(smoothed, axis=1, keepdims=True)
        self.feature_log_prob_ = xp.log(smoothed) - xp.log(total)

    def _linear(self):
        return self.feature_log_prob_, 0.0


class ComplementNB(Discrete, sk.ComplementNB):
    r"""Complement naive Bayes for counts: the model of a class uses the rows of all other classes.

    .. math:: \mathrm{score}_c(x) = - \sum_j x_j \log q_{cj}, \qquad
        q_{cj} = (N_j - N_{cj} + \alpha_j) / \sum_i (N_i - N_{ci} + \alpha_i)

    with the sums :math:`N_j` of feature j over all rows, and :math:`N_{cj}` over those of class c.
    It is more stable than `MultinomialNB` if classes differ much in size. For the device, see
    `MultinomialNB`.

    Parameters
    ----------
    alpha, force_alpha, fit_prior, class_prior
        As for `MultinomialNB`. Priors affect predictions only if there is a single class.
    norm : bool, default=False
        Whether to divide the weights of each class by their sum.

    Attributes
    ----------
    class_count_, class_log_prior_, classes_, feature_count_, n_features_in_, feature_names_in_
        As for `MultinomialNB`.
    feature_all_ : array of shape (n_features,)
        Sums of the features over all rows.
    feature_log_prob_ : array of shape (n_classes, n_features)
        Weights of the features, ``-log q``, or divided by their sum with `norm`.

    See Also
    --------
    MultinomialNB : Uses the rows of the class itself.

    References
    ----------
    J. D. Rennie, L. Shih, J. Teevan, D. R. Karger, "Tackling the poor assumptions of naive Bayes
    text classifiers", ICML 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.naive_bayes import ComplementNB
    >>> X = np.array([[2, 1, 0], [3, 0, 0], [0, 1, 4], [0, 0, 2]])
    >>> ComplementNB().fit(X, [0, 0, 1, 1]).predict([[1, 1, 0], [0, 1, 1]])
    array([0, 1])
    """

    multifit_params = (*Discrete.multifit_params, "norm")

    def _update_feature_log_prob(self, alpha):
        xp = namespace(self.feature_count_)
        self.feature_all_ = xp.sum(self.feature_count_, axis=0)
        others = self.feature_all_ + self._near_counts(alpha) - self.feature_count_
        logged = xp.log(others / xp.sum(others, axis=1, keepdims=True))
        if self.norm:
            self.feature_log_prob_ = logged / xp.sum(logged, axis=1, keepdims=True)
        else:
            self.feature_log_prob_ = -logged

    def _linear(self):
        return self.feature_log_prob_, 0.0

    def _log_prior(self):
        prior = self.class_log_prior_
        # The complement of the only class has no rows.
        return prior if prior.shape[0] == 1 else 0.0 * self.class_count_


class BernoulliNB(Discrete, sk.BernoulliNB):
    r"""Bernoulli naive Bayes, for binary features.

    .. math:: \log P(y = c, x) = \log \pi_c + \sum_j b_j \log p_{cj} + (1 - b_j) \log (1 - p_{cj}),
        \qquad p_{cj} = (N_{cj} + \alpha_j) / (N_c + 2 \alpha_j)

    where :math:`b_j` is 1 if feature j is above a threshold, :math:`N_c` is the weight of the rows
    of class c, and :math:`N_{cj}` that of its rows with :math:`b_j = 1`. For the device, see
    `MultinomialNB`.

    Parameters
    ----------
    alpha, force_alpha
        As for `MultinomialNB`.
    binarize : float or None, default=0.0
        The threshold; None means that X contains only 0 and 1.
    fit_prior, class_prior
        As for `MultinomialNB`.

    Attributes
    ----------
    class_count_, class_log_prior_, classes_, feature_count_, n_features_in_, feature_names_in_
        As for `MultinomialNB`.
    feature_log_prob_ : array of shape (n_classes, n_features)
        log p.

    See Also
    --------
    CategoricalNB : For features with more than two values.

    Notes
    -----
    An array as `alpha` has one value per feature. scikit-learn 1.9 uses it as one value per class
    in the denominator of p.

    References
    ----------
    A. McCallum, K. Nigam, "A comparison of event models for naive Bayes text classification",
    AAAI/ICML-98 Workshop on Learning for Text Categorization (1998).

    Examples
    --------
    >>> import numpy as np
    >>> from gpuml.naive_bayes import BernoulliNB
    >>> X = np.array([[1, 1, 0], [1, 0, 0], [0, 1, 1], [0, 0, 1]])
    >>> BernoulliNB().fit(X, [0, 0, 1, 1]).predict([[1, 0, 0], [0, 0, 1]])
    array([0, 1])
    """

    def _check_values(self, X):
        """Accept all values: each is above the threshold or not."""

    def _values(self, X):
        if self.binarize is None:
            return X
        values = values_of(X)
        xp = namespace(values)
        if not is_sparse(X):
            return xp.astype(xp.astype(values, xp.float64, copy=False) > self.binarize, xp.float64)
        # The threshold is not negative, so values that are not stored (0) are not above it.
        return with_values(X, xp.astype(values > self.binarize, xp.float64))

    def _update_feature_log_prob(self, alpha):
        xp = namespace(self.feature_count_)
        alpha = self._near_counts(alpha)
        total = self.class_count_[:, None] + 2 * alpha
        self.feature_log_prob_ = xp.log(self.feature_count_ + alpha) - xp.log(total)

    def _linear(self):
        xp = namespace(self.feature_log_prob_)
        absent = xp.log(1 - xp.exp(self.feature_log_prob_))
        return self.feature_log_prob_ - absent, xp.sum(absent, axis=1)
