"""Remove rows from workers when the client that sent them has gone.

Rows go straight to a worker, and the scheduler is told of them when they have arrived. If the
client is killed in between, Dask leaves them on the worker; if the message comes after the
scheduler has removed the client, the scheduler keeps them. So their keys contain the id of their
client, and before a client sends rows to a worker it tells the scheduler the worker's address. When
the client has gone, the scheduler makes those workers drop the remaining rows. Clients that are
connected are left alone, however slow they are.
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
    """The key of a chunk, by its number, that a client sends to a worker by itself.

    `name` is unlike any other. `n_late` counts the times that the chunk was given up as too slow:
    it may arrive after all, and releasing it must not release the one that was sent instead.
    """
    return name, number, n_late, client.id


async def see_to_rows_of(client: Client, worker: str) -> None:
    """Let the scheduler look for rows of a client on a worker once the client has gone."""
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
                sent = [key for key in keys if isinstance(key, tuple) and key[-1] == client]
                left = [key for key in sent if key not in scheduler.tasks]
                if left and worker in scheduler.workers:
                    stimulus = f"rows-of-{client}"
                    message = {"op": "free-keys", "keys": left, "stimulus_id": stimulus}
                    scheduler.worker_send(worker, message)

    return cloudpickle.dumps(AbandonedRows(TOPIC, PAUSES_S))
