"""Files that are written whole or not at all."""

import contextlib
import os
import re
import shutil
import stat
from collections.abc import Iterator
from functools import partial
from typing import BinaryIO
from uuid import uuid4

__all__ = ["is_unfinished", "replacing", "unfinished_name"]


def unfinished_name() -> str:
    """A unique name for a file until it is complete."""
    return f".gpuml-{uuid4().hex}.tmp"


def is_unfinished(name: str) -> bool:
    """Whether that function gave the name."""
    return re.fullmatch(r"\.gpuml-[0-9a-f]{32}\.tmp", name) is not None


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """A file to write, which is on disk under its name when the block ends without an error.

    Until then, and if anything fails, what was there stays. As if it had been opened and written,
    a link stays and its target is replaced, a file keeps its owner and permissions, and a new one
    has those that the umask allows.

    Raises
    ------
    OSError
        If there is something that may not be written, or is no file.
    """
    target = os.path.realpath(path)
    folder = os.path.dirname(target)
    unfinished = os.path.join(folder, unfinished_name())
    is_new = not os.path.lexists(target)
    if not is_new:
        _check_replaceable(target)
    try:
        # A replacement must not be readable by others before it has the old permissions.
        opener = partial(os.open, mode=0o666 if is_new else 0o600)
        with open(unfinished, "xb", opener=opener) as file:
            if not is_new:
                _grant_as(target, unfinished)
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.remove(unfinished)
        raise
    if hasattr(os, "O_DIRECTORY"):  # the new name lasts once its folder is on disk
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


def _check_replaceable(target):
    mode = os.stat(target).st_mode
    if not stat.S_ISREG(mode):
        kind = IsADirectoryError if stat.S_ISDIR(mode) else OSError
        raise kind(f"{target} is not a file. Pass a file name.")
    os.close(os.open(target, os.O_WRONLY))  # a file that is read-only stays


def _grant_as(target, unfinished):
    """Give a file the owner, permissions and access list of another, or leave it to us alone."""
    if not hasattr(os, "chown"):  # Windows, where files inherit permissions from their folder
        return
    status = os.stat(target)
    for owner in (status.st_uid, -1):
        try:
            os.chown(unfinished, owner, status.st_gid)
        except OSError:
            continue
        shutil.copystat(target, unfinished)
        return
