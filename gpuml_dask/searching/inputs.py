"""What the units of a search take: objects of the client's on the workers, made again when lost."""

import uuid
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import cloudpickle
from dask.sizeof import sizeof
from distributed import Client, Future

from gpuml._sklearn import _num_samples
from gpuml.model_selection.evaluate import Job
from gpuml.model_selection.one_by_one import Task, is_foreign
from gpuml_dask._annotations import submit_near
from gpuml_dask.rows.placement import Placed
from gpuml_dask.rows.sending import Homes, send
from gpuml_dask.searching.tasks import Spec, keep, touch, unpacked, with_columns
from gpuml_dask.waiting import release, wait_until_done

# What is smaller is a part of the task graph, which the scheduler keeps: then it is never lost.
SMALL_BYTES = 2**17
# Smaller rows are fetched by a worker in no time when it gets its first unit.
SPREAD_BYTES = 2**22
SEND_SECONDS = 60


class Sent:
    """An object of this process, on a worker; kept here to be sent again.

    A small one is a task that Dask can repeat. A large one goes straight to a worker, and has to be
    sent again if that dies. `title` names it on Dask's dashboard.
    """

    def __init__(self, client: Client, value: Any, title: str):
        self._client, self._value, self._title = client, value, title
        self.n_bytes = sizeof(value)
        # Another library's arrays may be a GPU's, and a worker without one could not read them.
        self._homes = Homes(client, [self.n_bytes], on_gpu=is_foreign(value))
        self.future = self._sent()

    def revive(self) -> bool:
        """Send it again if it was lost; returns whether it was."""
        if self.future.status in ("finished", "pending"):
            return False
        self.future = self._sent()
        return True

    def _sent(self):
        # Never the same key twice: one that was cancelled stays so.
        key = f"{self._title}-{uuid.uuid4().hex}"
        if self.n_bytes > SMALL_BYTES:
            (future,) = send(self._client, key, {0: self._value}, self._homes)
            return future
        packed = cloudpickle.dumps(self._value)
        return self._client.submit(unpacked, packed, key=key, pure=False)


class SearchInputs:
    def __init__(self, client: Client, spec: Spec, rows: Mapping[str, Sent | Placed]):
        self._client, self._rows = client, rows
        self._name, self._n_unpacked = spec.name, 0
        self._keepers: dict[str, Future] = {}
        # As bytes, of which the size is known.
        self._packed = Sent(client, cloudpickle.dumps(spec), "search")
        self._spec = self._unpacked()

    def arguments(self) -> dict[str, Future]:
        return {"spec": self._spec, **self._row_futures()}

    def revive(self) -> None:
        for sent in self._rows.values():
            sent.revive()
        if self._packed.revive() or self._spec.status in ("cancelled", "lost"):
            self._spec = self._unpacked()

    def _unpacked(self):
        self._n_unpacked += 1
        key = (f"search-{self._name}", self._n_unpacked)
        return self._client.submit(unpacked, self._packed.future, key=key, pure=False)

    def _row_futures(self):
        return {name: sent.future for name, sent in self._rows.items()}

    def keep_on(self, workers: Collection[str]) -> None:
        if len(workers) < 2:
            return  # the only copy of the spec stays
        homes = {(f"keep-{self._name}", w): w for w in workers if w not in self._keepers}
        tasks = dict.fromkeys(homes, (keep, self._name))
        # Before units that make something.
        made = submit_near(self._client, tasks, homes, priority=1) if homes else []
        self._keepers.update(zip(homes.values(), made, strict=True))

    def spread(self, workers: Sequence[str]) -> None:
        """Bring large rows to some workers before there is work.

        Dask would rather give a few units to the one worker that has the rows, one after another.
        """
        n_bytes = sum(sent.n_bytes for sent in self._rows.values())
        if n_bytes < SPREAD_BYTES or len(workers) < 2:
            return
        word = uuid.uuid4().hex
        homes = {(f"touch-{word}", i): worker for i, worker in enumerate(workers)}
        tasks = dict.fromkeys(homes, (touch, *self._row_futures().values()))
        touched = submit_near(self._client, tasks, homes)
        try:
            wait_until_done(self._client, touched, "copies of the rows", limit=SEND_SECONDS)
        except Exception:
            return  # whatever was lost: the units will notice
        finally:
            release(touched)


def send_rows(
    client: Client, job: Job, elsewhere: Sequence[tuple[Any, Placed]] = ()
) -> tuple[dict[str, Sent | Placed], Task]:
    """X, y and all that has one value a row, by name, and the task with columns in their place.

    `elsewhere` are arrays of this process that workers have too.
    """
    known = {id(here): there for here, there in elsewhere}
    task, columns = with_columns(job.task, _num_samples(job.X))
    rows: dict[str, Sent | Placed] = {}
    for name, value in {"X": job.X, "y": job.y, **columns}.items():
        there = value if isinstance(value, Placed) else known.get(id(value))
        if value is not None:
            rows[name] = there or Sent(client, value, name)
    return rows, task
