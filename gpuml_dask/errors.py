"""Errors of work on a cluster."""

# Said where workers die again and again.
SEE_LOGS = "Look at the workers' logs: something ends them, or takes their memory."
# Further errors of requests to a scheduler that is gone, or while the client closes: its
# connections (RuntimeError) and its scheduler (AttributeError) close first.
NO_ANSWER = (OSError, TimeoutError, AttributeError, RuntimeError)


class ClusterError(RuntimeError):
    """The cluster cannot do the work: client closed, no workers, or data lost for good.

    The message says what happened and what to do about it.
    """


class FitTimeoutError(TimeoutError):
    """A fit took longer than `fit_timeout`, and `error_score` is "raise".

    The message contains the parameters of the fit.
    """


class NoAnswer(ClusterError, TimeoutError):
    """The scheduler, or a worker that has a result, did not answer in time."""
