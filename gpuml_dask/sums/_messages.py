"""Messages between the ranks of a communicator, and what it takes to carry them."""

import io
import pickle
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import cloudpickle

from gpuml.data import Array, Place
from gpuml_dask.errors import ClusterError


class RankLost(ClusterError):
    """A rank of a communicator is gone, or the others were told to stop.

    The communicator is of no more use. Work that was under way has to be done again with another.
    """


@dataclass(frozen=True)
class Message:
    """A pickled value, and the arrays that the pickle refers to by number."""

    text: bytes
    arrays: Sequence[Array] = ()


# Ranks of a node of the tree in which answers come together, which is complete but for its end.
FAN_IN = 8


def parent_of(rank: int) -> int:
    """The rank to which a rank sends its answers, and those of its children, its neighbours.

    >>> [parent_of(rank) for rank in (1, 7, 8, 9, 63, 64, 72, 100)]
    [0, 0, 0, 8, 56, 0, 64, 96]
    """
    step = 1
    while rank and rank // step % FAN_IN == 0:
        step *= FAN_IN
    return rank - rank // step % FAN_IN * step


def children_of(rank: int, size: int) -> list[int]:
    """The ranks, of `size` in all, that send their answers to this rank."""
    return [child for child in range(rank + 1, size) if parent_of(child) == rank]


class Transport(Protocol):
    """How messages travel between the ranks; arrays that it carries are at its place."""

    rank: int
    size: int
    place: Place

    def carries(self, x: Any) -> bool:
        """Whether `x` is an array that travels by itself, not pickled."""

    def broadcast(self, message: Message | None = None) -> Message:
        """The message of rank 0, as all ranks get it: on rank 0 too its arrays are copies."""

    def collect(self) -> list[Message]:
        """Messages of `children_of` this rank."""

    def send(self, message: Message) -> None:
        """A message to `parent_of` this rank."""

    def abort(self) -> None:
        """End it, from any thread: a wait for another rank raises `RankLost` soon."""

    def close(self) -> None:
        """End it when nobody waits."""


class Alone:
    """The transport of one rank, which talks to nobody."""

    rank, size = 0, 1

    def __init__(self, place: Place):
        self.place = place

    def carries(self, x: Any) -> bool:
        """Device arrays stay as they are; the rest is pickled, as it is with more ranks."""
        return is_device_array(x)

    def broadcast(self, message: Message | None = None) -> Message:
        """The same message, with arrays in the order and alignment that other ranks would get."""
        assert message is not None
        return Message(message.text, [_plain(x) for x in message.arrays])

    def collect(self) -> list[Message]:
        return []

    def send(self, message: Message) -> None:
        """Nobody to send to."""

    def abort(self) -> None:
        """Nothing to end."""

    def close(self) -> None:
        """Nothing to end."""


# What is sent starts at multiples of this, as new memory of CuPy does.
ALIGNMENT = 256


def is_device_array(x: Any) -> bool:
    kind = type(x)
    return kind.__name__ == "ndarray" and kind.__module__.startswith("cupy")


def _plain(x):
    # A matrix product may round differently for another order or alignment.
    aligned = not is_device_array(x) or x.data.ptr % ALIGNMENT == 0
    return x if x.flags.c_contiguous and aligned else x.copy()


class _Pickler(cloudpickle.Pickler):
    def __init__(self, file, carries):
        super().__init__(file, protocol=pickle.HIGHEST_PROTOCOL)
        self._carries = carries
        self.arrays = []

    def persistent_id(self, x):
        if not self._carries(x):
            return None
        self.arrays.append(x)
        return len(self.arrays) - 1


class _Unpickler(pickle.Unpickler):
    def __init__(self, file, arrays):
        super().__init__(file)
        self._arrays = arrays

    def persistent_load(self, number):
        return self._arrays[number]


def encode(value: Any, carries: Callable[[Any], bool]) -> Message:
    """A value as a message; arrays that are carried stay where they are."""
    file = io.BytesIO()
    pickler = _Pickler(file, carries)
    pickler.dump(value)
    return Message(file.getvalue(), pickler.arrays)


def decode(message: Message) -> Any:
    return _Unpickler(io.BytesIO(message.text), message.arrays).load()


def joined(messages: Sequence[Message]) -> Message:
    parts = [(message.text, len(message.arrays)) for message in messages]
    arrays = [x for message in messages for x in message.arrays]
    return Message(pickle.dumps(parts, pickle.HIGHEST_PROTOCOL), arrays)


def parted(message: Message) -> list[Message]:
    parts, arrays = [], iter(message.arrays)
    for text, n_arrays in pickle.loads(message.text):
        parts.append(Message(text, list(islice(arrays, n_arrays))))
    return parts
