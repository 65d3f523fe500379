"""A record of the coefficients of a model and their uncertainty."""

from dataclasses import dataclass
from html import escape
from typing import Any

import numpy as np

from gpuml._arrays.frames import in_pandas


@dataclass(frozen=True)
class Summary:
    """Result of `gpuml.inspection.summarize`; arrays are in CPU memory.

    Attributes
    ----------
    names : tuple of q str
        Names of the features, then "intercept" if the model has one.
    coef, std_error, statistic, p_value : ndarray of shape (q,)
        Coefficients, their standard errors, the quotients of the two, and the probability of a
        quotient at least as large in size if the coefficient is 0.
    interval : ndarray of shape (q, 2)
        Confidence intervals.
    covariance : ndarray of shape (q, q)
        Covariance of the coefficients.
    kind : str
        Kind of the covariance, such as "HC3".
    level : float
        Confidence level of the intervals.
    n_rows : float
        Number of rows, or the sum of their weights.
    df : float
        Degrees of freedom of the residuals.
    df_test : float
        Degrees of freedom of the t distribution of `statistic`; inf for a normal one.
    n_groups : int
        Number of groups of a clustered covariance; otherwise 0.
    scale : float
        Scale of the variance.
    log_likelihood, aic, bic : float
        ``aic = 2 q - 2 log_likelihood``, with q coefficients and without the scale; nan if the
        distribution has no closed form.
    r2 : float
        Share of the deviance that the model explains: R^2 for least squares, D^2 for others.
    model : str
        Class of the model.
    """

    names: tuple[str, ...]
    coef: np.ndarray
    std_error: np.ndarray
    statistic: np.ndarray
    p_value: np.ndarray
    interval: np.ndarray
    covariance: np.ndarray
    kind: str
    level: float
    n_rows: float
    df: float
    df_test: float
    n_groups: int
    scale: float
    log_likelihood: float
    aic: float
    bic: float
    r2: float
    model: str

    def to_frame(self) -> Any:
        """A pandas DataFrame with a row for each coefficient, named by it.

        Returns
        -------
        frame : pandas.DataFrame

        Raises
        ------
        ImportError
            If pandas is not installed.
        """
        frame = in_pandas(dict(zip(self._heads, self._columns, strict=True)))
        frame.index = list(self.names)
        return frame

    def __str__(self) -> str:
        rows = [["", *self._heads], *self._cells()]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        lines = [
            "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
            for row in rows
        ]
        return "\n".join([self._title(), *lines, self._foot()])

    def _repr_html_(self) -> str:
        head = "".join(f"<th>{escape(name)}</th>" for name in ("", *self._heads))
        body = "".join(
            "<tr><th>" + escape(name) + "</th>" + "".join(f"<td>{x}</td>" for x in row) + "</tr>"
            for name, *row in self._cells()
        )
        return (
            f"<table><caption>{escape(self._title())}<br>{escape(self._foot())}</caption>"
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
        )

    @property
    def _heads(self):
        tail = 50 * (1 - self.level)
        letter = "z" if np.isinf(self.df_test) else "t"
        return "coef", "std_error", letter, "p_value", f"{tail:g}%", f"{100 - tail:g}%"

    @property
    def _columns(self):
        return self.coef, self.std_error, self.statistic, self.p_value, *self.interval.T

    def _cells(self):
        for j, name in enumerate(self.names):
            coef, error, statistic, p_value, low, high = (column[j] for column in self._columns)
            yield [
                name,
                *(f"{coef:.5g}", f"{error:.4g}", f"{statistic:.2f}", f"{p_value:.3g}"),
                *(f"{low:.5g}", f"{high:.5g}"),
            ]

    def _title(self):
        groups = f" of {self.n_groups} groups" if self.n_groups else ""
        return f"{self.model}, {self.n_rows:g} rows, {self.kind} covariance{groups}"

    def _foot(self):
        return (
            f"df {self.df:g}, scale {self.scale:.5g}, R2 {self.r2:.4f}, "
            f"log likelihood {self.log_likelihood:.6g}, AIC {self.aic:.6g}, BIC {self.bic:.6g}"
        )
