"""What steps of a search cost, in seconds, by a small table of measured rates.

The table decides between plans that differ by factors, not by per cents; it promises no times.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Costs:
    """Rates in bytes and seconds. Defaults: H200s of one host, EPYC cores, TCP between hosts.

    Attributes
    ----------
    client_link : float
        Bytes/s from the client to a worker (4 GB in 4.7 s over TCP on one host).
    worker_link : float
        Bytes/s between workers that are no GPUs of one host.
    gpu_link : float
        Bytes/s between GPUs of one host (4 GB in 0.03 s by UCXX).
    upload : float
        Bytes/s from host memory to a GPU, pageable (2.8 GB in 0.37 s).
    gpu_pass, thread_pass : float
        Bytes/s of rows that one GPU, or one CPU thread, reads and multiplies (second moments of
        2.8 GB of 100 float32 features: 7.7 ms on a GPU).
    round_trip, task, hop : float
        Seconds of a call through the scheduler and back, of a task for the scheduler, and of one
        level of a tree of tasks.
    nccl_start, nccl_reduce : float
        Seconds to set up a communicator, and of one small all-reduce.
    single_passes : float
        Passes that a fit of an estimator we know nothing of is taken to need.
    """

    client_link: float = 0.85e9
    worker_link: float = 1e9
    gpu_link: float = 1e11
    upload: float = 7.5e9
    gpu_pass: float = 3.5e11
    thread_pass: float = 1e9
    round_trip: float = 0.040
    task: float = 0.001
    hop: float = 0.005
    nccl_start: float = 0.43
    nccl_reduce: float = 50e-6
    single_passes: float = 20.0

    def link(self, kind: str, n_hosts: int) -> float:
        """Bytes/s between workers of one kind on that many hosts."""
        return self.gpu_link if kind == "gpu" and n_hosts == 1 else self.worker_link

    def all_reduce(self, kind: str, link: float, n_workers: int, depth: int, n_bytes: float):
        """Seconds of one sum over workers that has to be there before the next pass begins."""
        if n_workers == 1:
            return 0.0
        if kind == "gpu":
            return self.nccl_reduce + 2 * n_bytes / link
        return self.round_trip + n_workers * self.task + self.tree(link, depth, n_bytes)

    def tree(self, link: float, depth: int, n_bytes: float, arity: int = 8) -> float:
        """Seconds of a tree of tasks, from its leaves' sums to its root's."""
        return depth * (self.hop + arity * n_bytes / link)


COSTS = Costs()
