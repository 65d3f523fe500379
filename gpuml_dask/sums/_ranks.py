"""Ranks of a communicator: rank 0 drives, the others serve.

Each command of the driver, a function with arguments, goes to every rank; each calls the function
on its pieces, and the results come to rank 0 by a tree of ranks, which combine what they can on the
way. Which results are combined, and in which order, follows from the positions of the pieces alone,
so that they are the same to the last bit for any number of ranks and any division of the pieces.
Nothing here depends on Dask, or on how a `Transport` carries messages.
"""

import operator
import sys
import traceback
import weakref
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from gpuml.data import Place
from gpuml.divided import InProcess, moved
from gpuml_dask.sums._messages import Message, Transport, decode, encode, joined, parted

# ---------------------------------------------------------------- a fixed tree over pieces

# Results known for runs of neighbouring pieces, by first piece and the one after the last.
Runs = dict[tuple[int, int], Any]


def fold(known: Runs, start: int, stop: int, combine: Callable[[Any, Any], Any]) -> Runs:
    """Combine known runs of some pieces by the fixed tree, into as few runs as possible.

    The tree combines neighbours two by two, level after level, as `gpuml.divided.tree` does,
    whether or not a rank that holds neighbours has combined them before.
    """
    starts = sorted(first for first, _ in known)

    def runs(start: int, stop: int) -> Runs:
        if (start, stop) in known:
            return {(start, stop): known[start, stop]}
        i = bisect_left(starts, start)
        if i == len(starts) or starts[i] >= stop:
            return {}
        # The largest power of two below the number of pieces: the left branch is complete.
        middle = start + (1 << (stop - start - 1).bit_length() - 1)
        parts = runs(start, middle) | runs(middle, stop)
        if (start, middle) in parts and (middle, stop) in parts:
            return {(start, stop): combine(parts[start, middle], parts[middle, stop])}
        return parts

    return runs(start, stop)


# ---------------------------------------------------------------- what every rank does


class Order(NamedTuple):
    """A command of rank 0: a method of `Rank`, and what to do with which pieces."""

    kind: str
    function: Any = None
    args: tuple = ()
    source: int = 0
    target: int = 0
    each_with: Sequence[Any] | None = None
    combine: Any = None
    n_pieces: int = 0
    forget: Sequence[int] = ()


class Reply(NamedTuple):
    """The result of a command on some ranks, by position or run of pieces; or the first error."""

    result: Mapping[Any, Any] = {}
    error: BaseException | None = None
    failed_at: int = -1


class _PieceFailed(Exception):
    def __init__(self, position):
        self.position = position


class Rank:
    """The pieces of one rank by their positions among all; results of commands go to a place."""

    def __init__(self, pieces: Mapping[int, Any], place: Place):
        self.stopped = False
        self._last = Order("stop")
        self._place = place
        self._held = {0: dict(sorted(pieces.items()))}

    def obey(self, message: Message) -> Reply:
        """The result of the last of several orders, which are done in turn until one fails.

        A reply may be an error, also one in reading the orders.
        """
        try:
            result: Mapping[Any, Any] = {}
            for order in map(decode, parted(message)):
                for name in order.forget:
                    self._held.pop(name, None)
                self._last = order
                result = getattr(self, f"_{order.kind}")(order) or {}
            return Reply(result)
        except _PieceFailed as failure:
            return Reply(error=failure.__cause__, failed_at=failure.position)
        except Exception as error:
            return Reply(error=error, failed_at=sys.maxsize)

    def joined(self, replies: Sequence[Reply]) -> Reply:
        """Merge the replies of this rank and of others to the last order."""
        failed = [reply for reply in replies if reply.error is not None]
        if failed:
            return min(failed, key=lambda reply: reply.failed_at)
        found = {key: value for reply in replies for key, value in reply.result.items()}
        if self._last.kind != "total" or len(replies) == 1:
            return Reply(found)
        try:
            return Reply(fold(found, 0, self._last.n_pieces, self._last.combine))
        except Exception as error:
            return Reply(error=error, failed_at=sys.maxsize)

    def _results(self, order) -> Iterator[tuple[int, Any]]:
        for position, piece in self._held[order.source].items():
            own = () if order.each_with is None else (order.each_with[position],)
            try:
                yield position, order.function(piece, *order.args, *own)
            except Exception as error:
                raise _PieceFailed(position) from error

    def _positions(self, order):
        return dict.fromkeys(self._held[order.source])

    def _map(self, order):
        self._held[order.target] = dict(self._results(order))

    def _each(self, order):
        return {i: moved(result, self._place) for i, result in self._results(order)}

    def _total(self, order):
        known = {(i, i + 1): moved(result, self._place) for i, result in self._results(order)}
        return fold(known, 0, order.n_pieces, order.combine)

    def _stop(self, order):
        self._held.clear()
        self.stopped = True


def serve(transport: Transport, pieces: Mapping[int, Any]) -> None:
    """Execute the commands of rank 0 on the pieces of this rank, until the command to stop.

    `RankLost` is raised if the communicator was ended meanwhile.
    """
    rank = Rank(pieces, transport.place)
    try:
        while not rank.stopped:
            own = rank.obey(transport.broadcast())
            if own.error is not None:
                own = own._replace(error=_portable(own.error, transport))
            reply = rank.joined([own, *map(decode, transport.collect())])
            transport.send(_encoded(reply, transport))
            del own, reply  # what they hold may be large
    except BaseException:
        transport.abort()
        raise


def _encoded(reply, transport):
    try:
        return encode(reply, transport.carries)
    except Exception as error:  # a result that cannot be pickled
        reply = Reply(error=_portable(error, transport), failed_at=sys.maxsize)
        return encode(reply, transport.carries)


def _portable(error, transport):
    """An error as it can be sent, with a note of where it was raised."""
    where = "".join(traceback.format_exception(error))
    try:
        copy = decode(encode(error, transport.carries))
    except Exception:
        copy = RuntimeError(f"{type(error).__name__}: {error}")
    copy.add_note(f"On rank {transport.rank}:\n{where}")
    return copy


# ---------------------------------------------------------------- what rank 0 sees


class Driver:
    """Pieces of all ranks, as rank 0 sees them: `gpuml.data.Holders`.

    To be used in a ``with`` block, at whose end the other ranks stop serving. `pieces` are those of
    rank 0, by position among all.
    """

    def __init__(self, transport: Transport, pieces: Mapping[int, Any]):
        self._ranks = _Ranks(transport, Rank(pieces, transport.place))
        self._name = 0
        positions = sorted(self._ranks.command(Order("positions")))
        self._n_pieces = len(positions)
        if positions != list(range(self._n_pieces)):
            self._ranks.stop()
            raise ValueError(f"Pieces must be numbered 0, 1, 2, ...; got {positions}.")

    @property
    def place(self) -> Place:
        return self._ranks.transport.place

    def __len__(self) -> int:
        return self._n_pieces

    def __enter__(self) -> "Driver":
        return self

    def __exit__(self, *error) -> None:
        self._ranks.stop()

    def map(
        self, function: Callable[..., Any], *args: Any, each_with: Sequence[Any] | None = None
    ) -> "Driver":
        """The results of a function of every piece, which stay on the rank that holds the piece.

        They are made together with the next command, so that an error in them is raised then.
        """
        if each_with is not None and len(each_with) != len(self):
            raise ValueError(f"{len(self)} pieces, but each_with has {len(each_with)} elements.")
        target = next(self._ranks.names)
        own = None if each_with is None else list(each_with)
        self._ranks.later(self._order("map", function, args, target=target, each_with=own))
        mapped = object.__new__(type(self))
        mapped._ranks, mapped._name, mapped._n_pieces = self._ranks, target, self._n_pieces
        weakref.finalize(mapped, self._ranks.forget.append, target)
        return mapped

    def each(self, function: Callable[..., Any], *args: Any) -> list[Any]:
        by_position = self._ranks.command(self._order("each", function, args))
        return [by_position[i] for i in range(len(self))]

    def total(
        self,
        function: Callable[..., Any],
        *args: Any,
        combine: Callable[[Any, Any], Any] = operator.add,
    ) -> Any:
        if len(self) == 0:
            raise ValueError("There are no pieces to combine results of.")
        order = self._order("total", function, args, combine=combine)
        return self._ranks.command(order)[0, len(self)]

    def gathered(
        self, function: Callable[..., Any], build: Callable[[list[Any]], Any]
    ) -> InProcess:
        return InProcess([build(self.each(function))], self.place)

    def _order(self, kind, function, args, **settings):
        return Order(kind, function, args, self._name, n_pieces=self._n_pieces, **settings)


class _Ranks:
    def __init__(self, transport, own):
        self.transport = transport
        self.forget: list[int] = []
        self._own = own
        self.names = count(1)
        self._later: list[Message] = []
        self._stopped = False

    def later(self, order) -> None:
        """Have an order done before the next command, in one message with it."""
        self._check()
        self._later.append(self._encoded(order))

    def command(self, order) -> Mapping[Any, Any]:
        """Send an order to all ranks, and return their merged results."""
        self._check()
        message = joined([*self._later, self._encoded(order)])
        self._later = []
        try:
            # From the message too: what a trip does to arguments, it does to those of all ranks.
            own = self._own.obey(self.transport.broadcast(message))
            answers = self.transport.collect()
        except BaseException:
            # The others wait for something else than what would come next.
            self._stopped = True
            self.transport.abort()
            raise
        reply = self._own.joined([own, *map(decode, answers)])
        if reply.error is not None:
            raise reply.error
        return reply.result

    def _check(self):
        if self._stopped:
            raise RuntimeError("The ranks no longer serve: the block of their driver has ended.")

    def _encoded(self, order):
        """Encode an order; its message also tells ranks which results they may release."""
        n_forgotten = len(self.forget)
        order = order._replace(forget=self.forget[:n_forgotten])
        message = encode(order, self.transport.carries)
        del self.forget[:n_forgotten]
        return message

    def stop(self):
        self._later = []
        if not self._stopped:
            self.command(Order("stop"))
            self._stopped = True
