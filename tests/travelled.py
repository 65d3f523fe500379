"""What a trip over a network does to arrays: they come out of buffers, and start at any byte."""

import pickle
from typing import Any

import cloudpickle
import numpy as np

# A network puts some bytes before the first array of a message, any number of them.
OFFSET = 1


def travelled(value: Any) -> Any:
    """The same, as Dask's messages bring it: all arrays in it start where no number of theirs does."""
    buffers: list[pickle.PickleBuffer] = []
    text = cloudpickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(text, buffers=[_arrived(buffer.raw()) for buffer in buffers])


def _arrived(data):
    room = np.empty(data.nbytes + OFFSET, np.uint8)  # starts where any number may
    room[OFFSET:] = np.frombuffer(data, np.uint8)
    return room[OFFSET:].data
