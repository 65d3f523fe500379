"""Messages in buffers of fixed sizes, for links whose ends must both know the size beforehand.

A message becomes a head of fixed length and a body, which travels with the head in a buffer as long
as the body of the message before needed, rounded up; the rest, if it has grown since, follows once
the head has told its length. A solver repeats its commands: nearly always one transfer does.
"""

import math
import pickle
import struct
from typing import Any

import numpy as np

from gpuml.data import Array
from gpuml_dask.sums._messages import ALIGNMENT, Message, children_of, parent_of

HEAD_BYTES = 4096
SMALLEST_ROOM, LARGEST_ROOM = 2**16, 2**24
_LENGTHS = struct.Struct("<qq")  # of the text and of the body


class FramedTransport:
    """A `Transport` over a link, such as `gpuml_dask.sums._nccl.NcclLink`.

    Links transfer buffers, one-dimensional arrays of bytes, between the ranks. Transfers of one
    rank happen in the order in which they are requested. Only `read` and `wait` wait, for all of
    them, and buffers are kept until then. Everything may raise `RankLost`.
    """

    def __init__(self, link: Any):
        self.rank, self.size, self.place = link.rank, link.size, link.place
        self.carries = link.carries
        self._link = link
        self._order_room = self._reply_room = SMALLEST_ROOM
        self._rooms = dict.fromkeys(children_of(link.rank, link.size), SMALLEST_ROOM)

    def broadcast(self, message: Message | None = None) -> Message:
        room = self._order_room
        if message is None:
            link = self._link
            head, body = link.empty(HEAD_BYTES), link.empty(room)
            link.broadcast([head, body])
            opened = _Opened(link, link.read(head))
            n_bytes = opened.n_bytes
            if n_bytes > room:
                body = _longer(link, body, n_bytes)
                link.broadcast([body[room:]])
                link.wait()
            received = opened.message(body)
        else:
            n_bytes, head, body, arrays = self._packed(message, room)
            self._link.broadcast([head, body[:room]])
            if n_bytes > room:
                self._link.broadcast([body[room:n_bytes]])
            received = Message(message.text, arrays)
        self._order_room = room_for(n_bytes)
        return received

    def send(self, message: Message) -> None:
        room, parent = self._reply_room, parent_of(self.rank)
        n_bytes, head, body, _ = self._packed(message, room)
        self._link.send(parent, [head, body[:room]])
        if n_bytes > room:
            self._link.send(parent, [body[room:n_bytes]])
        self._reply_room = room_for(n_bytes)

    def collect(self) -> list[Message]:
        link, rooms = self._link, self._rooms
        if not rooms:
            return []
        heads = link.empty(HEAD_BYTES * len(rooms))
        parts = [slice(i * HEAD_BYTES, (i + 1) * HEAD_BYTES) for i in range(len(rooms))]
        bodies = {child: link.empty(room) for child, room in rooms.items()}
        pairs = zip(bodies.items(), parts, strict=True)
        link.receive({child: [heads[part], body] for (child, body), part in pairs})
        data = link.read(heads)
        opened = {c: _Opened(link, data[part]) for c, part in zip(rooms, parts, strict=True)}
        rest: dict[int, list[Array]] = {}
        for child, each in opened.items():
            if each.n_bytes > rooms[child]:
                bodies[child] = _longer(link, bodies[child], each.n_bytes)
                rest[child] = [bodies[child][rooms[child] :]]
        if rest:
            link.receive(rest)
            link.wait()
        self._rooms = {child: room_for(each.n_bytes) for child, each in opened.items()}
        return [each.message(bodies[child]) for child, each in opened.items()]

    def _packed(self, message, room):
        """Length of the body; head and body, at least as long as the room; arrays of the body."""
        link = self._link
        layout = [(x.shape, x.dtype.str) for x in message.arrays]
        text = pickle.dumps((message.text, layout), pickle.HIGHEST_PROTOCOL)
        in_head = HEAD_BYTES - _LENGTHS.size
        tail = text[in_head:]
        offsets, n_bytes = _offsets(len(tail), layout)
        head, body = link.empty(HEAD_BYTES), link.empty(max(n_bytes, room))
        link.write(head, _LENGTHS.pack(len(text), n_bytes) + text[:in_head])
        if tail:
            link.write(body[: len(tail)], tail)
        arrays = _views(link, body, offsets, layout)
        for x, there in zip(message.arrays, arrays, strict=True):
            there[...] = x
        return n_bytes, head, body, arrays

    def abort(self) -> None:
        self._link.abort()

    def close(self) -> None:
        self._link.abort()


class _Opened:
    """What the head of a message tells about its body."""

    def __init__(self, link: Any, head: bytes):
        self._link = link
        self._n_text, self.n_bytes = _LENGTHS.unpack_from(head)
        self._text = head[_LENGTHS.size : _LENGTHS.size + self._n_text]

    def message(self, body: Array) -> Message:
        """The message, with arrays that are views of its body."""
        n_tail = self._n_text - len(self._text)
        tail = self._link.read(body[:n_tail]) if n_tail else b""
        text, layout = pickle.loads(self._text + tail)
        offsets, _ = _offsets(n_tail, layout)
        return Message(text, _views(self._link, body, offsets, layout))


def _views(link, body, offsets, layout):
    """Arrays of some shapes and dtypes, which stand in a body."""
    pairs = zip(offsets, layout, strict=True)
    return [link.view(body, offset, *one) for offset, one in pairs]


def _offsets(start, layout):
    """Where arrays stand in a body, after some bytes of text, and the length of the body."""
    offsets = []
    for shape, dtype in layout:
        start = -(-start // ALIGNMENT) * ALIGNMENT
        offsets.append(start)
        start += math.prod(shape) * np.dtype(dtype).itemsize
    return offsets, start


def _longer(link, body, n_bytes):
    longer = link.empty(n_bytes)
    longer[: body.size] = body
    return longer


def room_for(n_bytes: int) -> int:
    """Bytes that are transferred at once after a body of `n_bytes`."""
    return min(LARGEST_ROOM, max(SMALLEST_ROOM, 1 << max(0, n_bytes - 1).bit_length()))
