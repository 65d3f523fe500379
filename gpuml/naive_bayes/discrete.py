"""Naive Bayes for counts and for features that are there or not, on the device of the rows."""

from sklearn import naive_bayes as sk

from gpuml._arrays import is_sparse, namespace
from gpuml._inputs.csr import with_values
from gpuml.naive_bayes._discrete import Discrete
from gpuml.naive_bayes._input import values_of


class MultinomialNB(Discrete, sk.MultinomialNB):
    r"""Multinomial naive Bayes for counts, such as those of words.

    .. math:: \log P(y = c, x) = \log \pi_c + \sum_j x_j \log p_{cj} + \mathrm{const}, \qquad
        p_{cj} = (N_{cj} + \alpha_j) / \sum_i (N_{ci} + \alpha_i)

    with the sums N of the features over the rows of class c. Dense rows of NumPy, CuPy, torch and
    other libraries, and CSR matrices of SciPy and cupyx, stay on their device, with
    float64 sums.

    Parameters
    ----------
    alpha : float or array-like of shape (n_features,), default=1.0
        Smoothing, added to each count.
    force_alpha : bool, default=True
        False raises values of alpha below 1e-10 to that, with a warning.
    fit_prior : bool, default=True
        Whether prior probabilities are the shares of the classes of the total weight; otherwise
        they are equal.
    class_prior : array-like of shape (n_classes,), default=None
        Prior probabilities of the classes, instead of those of `fit_prior`.

    Attributes
    ----------
    class_count_ : array of shape (n_classes,)
        Weight of the rows of each class. Arrays are float64, in the library and on the device of
        the X of the last fit.
    class_log_prior_ : array of shape (n_classes,)
    classes_ : array of shape (n_classes,)
        Sorted labels, of the dtype of y.
    feature_count_ : array of shape (n_classes, n_features)
        N.
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
    r"""Complement naive Bayes for counts: a class is described by the rows of all other classes.

    .. math:: \mathrm{score}_c(x) = - \sum_j x_j \log q_{cj}, \qquad
        q_{cj} = (N_j - N_{cj} + \alpha_j) / \sum_i (N_i - N_{ci} + \alpha_i)

    with the sums N of the features over all rows and over those of class c. It is steadier than
    `MultinomialNB` where classes differ much in size. Where rows are worked on is as there.

    Parameters
    ----------
    alpha, force_alpha, fit_prior, class_prior
        As for `MultinomialNB`. Probabilities of classes matter only where there is one class.
    norm : bool, default=False
        Whether the weights of each class are divided by their sum.

    Attributes
    ----------
    class_count_, class_log_prior_, classes_, feature_count_, n_features_in_, feature_names_in_
        As for `MultinomialNB`.
    feature_all_ : array of shape (n_features,)
        Sums of the features over all rows.
    feature_log_prob_ : array of shape (n_classes, n_features)
        Weights of the features.

    See Also
    --------
    MultinomialNB : Describes a class by its own rows.

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
    CategoricalNB : For features of more than two values.

    Notes
    -----
    An array as `alpha` has one value per feature. scikit-learn 1.9 uses it as one value per class
    where it counts rows.

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
        """All values are above the threshold, or not."""

    def _values(self, X):
        if self.binarize is None:
            return X
        values = values_of(X)
        xp = namespace(values)
        if not is_sparse(X):
            return xp.astype(xp.astype(values, xp.float64, copy=False) > self.binarize, xp.float64)
        # The threshold is not negative: what is not stored is not there.
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
