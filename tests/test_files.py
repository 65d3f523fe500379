"""What is written anew is what a plain `open` would have written, all of it or nothing."""

import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

import gpuml
from gpuml._persistence.files import is_unfinished, replacing, unfinished_name
from gpuml.linear_model import Ridge

posix = pytest.mark.skipif(os.name != "posix", reason="permissions and links of POSIX")


def plainly(path):
    with open(path, "wb") as file:
        file.write(b"new")


def whole(path):
    with replacing(path) as file:
        file.write(b"new")


WRITERS = {"replacing": whole, "save": lambda path: gpuml.save(Ridge(), path)}


def anew(folder):
    return folder / "file"


def file_of(mode):
    def make(folder):
        path = folder / "file"
        path.write_bytes(b"old")
        path.chmod(mode)
        return path

    make.__name__ = f"file-{mode:o}"
    return make


def link(folder):
    target = file_of(0o600)(folder)
    (folder / "link").symlink_to(target)
    return folder / "link"


def link_to_a_link_elsewhere(folder):
    (folder / "there").mkdir()
    target = file_of(0o640)(folder / "there")
    (folder / "there" / "link").symlink_to(target.name)
    (folder / "link").symlink_to("there/link")
    return folder / "link"


def link_to_nothing(folder):
    (folder / "link").symlink_to("file")
    return folder / "link"


def folder_that_is_a_link(folder):
    (folder / "there").mkdir()
    (folder / "here").symlink_to("there")
    return folder / "here" / "file"


MODES = [file_of(mode) for mode in (0o600, 0o644, 0o660, 0o666, 0o755, 0o604)]
SITUATIONS = [anew, *MODES, link, link_to_a_link_elsewhere, link_to_nothing, folder_that_is_a_link]


def state(folder):
    """Kinds, permissions and targets of all there is."""
    return {
        str(path.relative_to(folder)): (
            oct(path.lstat().st_mode),
            os.readlink(path).removeprefix(str(folder)) if path.is_symlink() else None,
        )
        for path in folder.rglob("*")
    }


@pytest.mark.pairwise
@posix
@pytest.mark.pairwise
@pytest.mark.parametrize("umask", [0o022, 0o077], ids=oct)
@pytest.mark.parametrize("situation", SITUATIONS, ids=lambda make: make.__name__)
@pytest.mark.parametrize("writer", WRITERS)
def test_permissions_and_links_are_those_of_a_plain_open(writer, situation, umask, tmp_path):
    found = []
    for name, write in (("plain", plainly), ("whole", WRITERS[writer])):
        folder = tmp_path / name
        folder.mkdir()
        path = situation(folder)
        before = os.umask(umask)
        try:
            write(path)
        finally:
            os.umask(before)
        assert path.read_bytes() != b"old"
        found.append(state(folder))
    assert found[0] == found[1]


@posix
@pytest.mark.parametrize("mode", [0o600, 0o640, None])
def test_nobody_can_read_more_while_it_is_written(mode, tmp_path):
    path = tmp_path / "file"
    if mode is not None:
        file_of(mode)(tmp_path)
    allowed = 0o644 if mode is None else mode
    before = os.umask(0o022)
    opened = []
    open_file = os.open

    def spy(*args, **options):
        descriptor = open_file(*args, **options)
        opened.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return descriptor

    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(os, "open", spy)
            with replacing(path) as file:
                opened.append(stat.S_IMODE(os.fstat(file.fileno()).st_mode))
    finally:
        os.umask(before)
    assert opened
    *modes, folder = opened
    assert folder == stat.S_IMODE(tmp_path.stat().st_mode)
    assert not any(found & ~allowed for found in modes)


@posix
@pytest.mark.parametrize("writer", WRITERS)
def test_what_is_there_is_on_disk(writer, tmp_path, monkeypatch):
    """The file before it gets its name, and the name before the writer goes on."""
    done = []
    sync, replace = os.fsync, os.replace
    monkeypatch.setattr(os, "fsync", lambda fd: (done.append(os.fstat(fd).st_ino), sync(fd)))
    monkeypatch.setattr(os, "replace", lambda *names: (done.append("replace"), replace(*names)))
    path = tmp_path / "file"
    WRITERS[writer](path)
    assert done == [path.stat().st_ino, "replace", tmp_path.stat().st_ino]


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_what_fails_leaves_all_as_it_was(call, writer, tmp_path, monkeypatch):
    path = file_of(0o644)(tmp_path)

    def fail(*args):
        raise OSError("No space left on device")

    monkeypatch.setattr(os, call, fail)
    with pytest.raises(OSError, match="No space"):
        WRITERS[writer](path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@posix
def test_what_is_no_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, error in ((tmp_path, IsADirectoryError), (tmp_path / "pipe", OSError)):
        with pytest.raises(error, match="is not a file"):
            whole(path)
    assert [path.name for path in tmp_path.iterdir()] == ["pipe"]
    (tmp_path / "loop").symlink_to("loop")
    with pytest.raises(OSError, match="symbolic links"):
        whole(tmp_path / "loop")


WRITE = """
import os, sys
from gpuml._persistence.files import replacing

if os.getuid() == 0:  # who may write everything
    os.setgid(12345)
    os.setuid(12345)
for path in sys.argv[1:]:
    try:
        with replacing(path) as file:
            file.write(b"new")
    except PermissionError:
        pass
"""


@posix
def test_a_file_that_is_read_only_stays():
    root = Path(gpuml.__file__).parents[1]
    with tempfile.TemporaryDirectory() as name:  # not tmp_path, which is in a folder of one user
        folder = Path(name)
        folder.chmod(0o777)
        (folder / "a").mkdir(mode=0o777)
        (folder / "a").chmod(0o777)
        paths = file_of(0o444)(folder), file_of(0o666)(folder / "a")
        done = subprocess.run([sys.executable, "-c", WRITE, *paths], cwd=root, check=False)
        assert done.returncode == 0
        assert [path.read_bytes() for path in paths] == [b"old", b"new"]


@posix
@pytest.mark.skipif(os.name == "posix" and os.getuid() != 0, reason="only root gives files away")
def test_files_of_others_stay_theirs(tmp_path):
    path = file_of(0o640)(tmp_path)
    os.chown(path, 12345, 54321)
    whole(path)
    status = path.stat()
    assert (status.st_uid, status.st_gid, stat.S_IMODE(status.st_mode)) == (12345, 54321, 0o640)


def test_where_the_owner_cannot_be_kept_nobody_else_may_read(tmp_path, monkeypatch):
    path = file_of(0o664)(tmp_path)

    def refused(*args):
        raise PermissionError

    monkeypatch.setattr(os, "chown", refused)
    whole(path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_names_of_unfinished_files_are_known():
    assert is_unfinished(unfinished_name())
    assert unfinished_name() != unfinished_name()
    assert not any(map(is_unfinished, ["x.tmp", ".gpuml-.tmp", f"{unfinished_name()}.tmp"]))
