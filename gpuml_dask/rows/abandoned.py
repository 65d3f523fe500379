"""Rows of clients that have gone, of which the scheduler was not told, or too late.

Rows go straight to a worker, and the scheduler is told of them when they are there. Of a client
that is killed in between, Dask leaves them with the worker until that ends. Where the message is on
its way just then, the scheduler may read it after it has seen the client off; then it keeps the
rows for a client that is no more.

So keys of such rows name their client, which says beforehand to which worker it is going to send.
When it has gone, the scheduler lets those workers forget what is left of it. Clients that are
connected are left alone, however long they take.
"""

import asyncio
from functools import cache
from typing import Any

import cloudpickle
from distributed import Client, SchedulerPlugin

# Pauses between looks at the workers. One that was too busy to read what it was sent does so soon
# after it has answered a look.
PAUSES_S = (0.5, 5.0, 30.0)
# Of Dask's events.
TOPIC = "gpuml_dask-rows"


def key_of(client: Client, name: str, number: int, n_late: int = 0) -> tuple:
    """The key of something that a client sends to a worker by itself.

    Parameters
    ----------
    client : Client
    name : str
        Unlike any other; Dask's dashboard shows what stands before the last "-".
    number : int
        Of the chunk.
    n_late : int, default=0
        How often it was given up as too slow before. It may come after all, and letting go of that
        must not let go of what was sent instead.
    """
    return name, number, n_late, client.id


async def see_to_rows_of(client: Client, worker: str) -> None:
    """Let the scheduler look for rows of a client on a worker when it goes: two short messages."""
    scheduler: Any = client.scheduler
    await scheduler.register_scheduler_plugin(
        plugin=_packed_plugin(), name="gpuml_dask-abandoned-rows", idempotent=True
    )
    await scheduler.log_event(topic=TOPIC, msg={"client": client.id, "worker": worker})


@cache
def _packed_plugin():
    # A class of a function travels by value: schedulers need not have this package.
    class AbandonedRows(SchedulerPlugin):
        def __init__(self, topic: str, pauses: tuple[float, ...]):
            self._topic, self._pauses = topic, pauses
            self._sent_to: dict[str, set[str]] = {}
            self._looking: dict[str, asyncio.Task] = {}

        def log_event(self, topic: str, msg: Any) -> None:
            if topic == self._topic:
                self._sent_to.setdefault(msg["client"], set()).add(msg["worker"])

        def remove_client(self, scheduler: Any, client: str) -> None:
            known = client in self._sent_to and client not in self._looking
            if scheduler.status.name == "running" and known:
                self._looking[client] = asyncio.create_task(self._look_several(scheduler, client))

        async def close(self) -> None:
            for task in self._looking.values():
                task.cancel()

        async def _look_several(self, scheduler, client):
            try:
                for pause in self._pauses:
                    await asyncio.sleep(pause)
                    await self._look(scheduler, client)
            finally:
                del self._looking[client]
                if client not in scheduler.client_comms:
                    self._sent_to.pop(client, None)

        async def _look(self, scheduler, client):
            if client in scheduler.clients and client not in scheduler.client_comms:
                scheduler.remove_client(client)  # it was told of rows after the client had gone
            workers = sorted(self._sent_to[client] & scheduler.workers.keys())
            held = await scheduler.broadcast(msg={"op": "keys"}, workers=workers, on_error="ignore")
            if client in scheduler.client_comms:
                return  # it is back, and may be sending
            for worker, keys in held.items():
                left = [key for key in keys if is_left(scheduler, client, key)]
                if left and worker in scheduler.workers:
                    stimulus = f"rows-of-{client}"
                    message = {"op": "free-keys", "keys": left, "stimulus_id": stimulus}
                    scheduler.worker_send(worker, message)

    def is_left(scheduler, client, key):
        return isinstance(key, tuple) and key[-1] == client and key not in scheduler.tasks

    return cloudpickle.dumps(AbandonedRows(TOPIC, PAUSES_S))
