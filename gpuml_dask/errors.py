"""Errors of work on a cluster."""


class ClusterError(RuntimeError):
    """The cluster cannot do the work: client closed, no workers, or data lost for good.

    The message says what happened and what to do about it.
    """
