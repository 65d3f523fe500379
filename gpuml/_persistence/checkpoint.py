"""Checkpoints: finished parts of a search in a folder, or in any store that fsspec knows.

A checkpoint is a folder. Its manifest identifies the search; each finished unit of work has a file,
written whole or not at all. Files are text (JSON), hold results and never code, and end with a
checksum, so that a file that was cut short, or belongs to another search, is found and named.
Whoever may write to the folder can write that as well: it protects from accidents, not forgery.
"""

import hashlib
import json
import os
import re
import struct
import time
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import sklearn

from gpuml import __version__
from gpuml._persistence.files import is_unfinished, replacing, unfinished_name

__all__ = ["Checkpoint", "Manifest"]

FORMAT, FORMAT_VERSION = "gpuml checkpoint", 1
MANIFEST, SUFFIX = "manifest.json", ".unit.json"
ABANDONED_SECONDS = 3600
# Stores where an object appears only when it is complete. Elsewhere a file is first written under
# another name.
PUT_WHOLE = {"memory", "s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "oss", "oci"}
DIFFERS = {
    "estimator": "another estimator",
    "candidates": "other candidates",
    "data": "another data set",
    "splits": "other splits",
    "scoring": "another scoring",
    "random_state": "another random_state",
    "versions": "other versions of gpuml or scikit-learn",
}
WHAT_TO_DO = (
    "Resume with those of the first run, or use another folder (or delete this one) to start again."
)

Results = list[dict[str, Any]]


@dataclass(frozen=True)
class Manifest:
    """The identity of a search: a token of each part, see `gpuml._persistence.tokens`.

    Whatever changes results has to be in one of them: weights and other parameters of fit are in
    `data`, `error_score` and `return_train_score` in `scoring`.
    """

    estimator: str
    candidates: str
    data: str
    splits: str
    scoring: str
    random_state: str = ""

    @property
    def parts(self) -> dict[str, str]:
        """All of these, and the versions that made the results."""
        versions = f"gpuml {__version__}, scikit-learn {sklearn.__version__}"
        return {**asdict(self), "versions": versions}


class Checkpoint:
    """A folder of finished units of a search, or a URL that fsspec knows; made if it is not there.

    `key` is a name for this search within the folder, where several share it.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> from gpuml._persistence.checkpoint import Checkpoint, Manifest
    >>> manifest, folder = Manifest("ridge", "3 alphas", "diabetes", "5 folds", "r2"), mkdtemp()
    >>> checkpoint = Checkpoint(folder).open(manifest)
    >>> checkpoint.get("group 0") is None
    True
    >>> checkpoint.put("group 0", [{"test_scores": 0.5, "fit_error": None}])
    >>> Checkpoint(folder).open(manifest).get("group 0")
    [{'test_scores': 0.5, 'fit_error': None}]
    """

    def __init__(self, url: Any, *, key: str = "search"):
        if not re.fullmatch(r"\w[\w.-]*", key):
            raise ValueError(f"key={key!r}: use letters, digits, '-', '_' and '.'.")
        if not isinstance(url, str | os.PathLike):
            raise TypeError(f"A checkpoint is a folder or a URL, got {type(url).__name__}.")
        if not os.fspath(url):
            raise ValueError("checkpoint='' is not a folder. Use checkpoint=None to store nothing.")
        self.url, self.key = os.fspath(url), key
        self._files, folder = _store_of(self.url)
        protocol = self._files.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)
        self._folder = f"{folder.rstrip('/')}/{key}"
        self._search = ""

    def open(self, manifest: Manifest) -> "Checkpoint":
        """Start or resume; the first process writes the manifest, others compare theirs.

        A ValueError is raised if the folder is of another search (the message says what differs),
        or holds other files, or a truncated manifest.
        """
        self._search = _digest(json.dumps(manifest.parts, sort_keys=True))
        self._files.makedirs(self._folder, exist_ok=True)
        names = self._names()
        for name in names:
            # Ignore temporary files of other programs.
            if name != MANIFEST and not name.endswith((SUFFIX, ".tmp")) and name[0] != ".":
                raise ValueError(
                    f"{self._path(name)} is not a checkpoint file: give the checkpoint a folder "
                    "of its own."
                )
        if MANIFEST not in names:
            if any(name.endswith(SUFFIX) for name in names):
                raise ValueError(
                    f"{self._folder} has finished units but no {MANIFEST}, so gpuml cannot tell "
                    "which search they belong to: delete the folder, or use another."
                )
            self._write(MANIFEST, {"manifest": manifest.parts})
        # Always read back: another process may have written its own at the same time.
        content = self._read(MANIFEST)
        self._compare(content, manifest.parts)
        self._remove_abandoned()
        return self

    def get(self, unit_key: str) -> Results | None:
        """Results of a unit, bit for bit as stored; None if it is not finished.

        A ValueError is raised if its file was cut short or changed, or is of another search or
        unit.
        """
        self._check_open()
        name = _unit_name(unit_key)
        content = self._read(name)
        if content is None:
            return None
        if content.get("search") != self._search or content.get("unit") != unit_key:
            raise ValueError(
                f"{self._path(name)} belongs to another search or unit: it was copied there or "
                "renamed. Delete it; the search then repeats its work."
            )
        return _decoded(content["results"])

    def put(self, unit_key: str, results: Results) -> None:
        """Store the results of a finished unit. The last of several writers wins.

        A TypeError is raised for results that are no number, text, list, tuple, dict or array of
        numbers; fitted estimators, for one.
        """
        self._check_open()
        content = {"search": self._search, "unit": unit_key, "results": _encoded(results)}
        self._write(_unit_name(unit_key), content)

    def done(self) -> int:
        """The number of finished units."""
        self._check_open()
        return sum(name.endswith(SUFFIX) for name in self._names())

    # ------------------------------------------------------------ files

    def _check_open(self):
        if not self._search:
            raise ValueError("Call open(manifest) first: it says which search this is.")

    def _path(self, name):
        return f"{self._folder}/{name}"

    def _names(self):
        self._files.invalidate_cache(self._folder)
        try:
            found = self._files.ls(self._folder, detail=False)
        except FileNotFoundError:  # a store without folders
            return []
        names = [path.rstrip("/").rsplit("/", 1)[-1] for path in found]
        return [name for name in names if name and name != self.key]

    def _write(self, name, content):
        header = {"format": FORMAT, "version": FORMAT_VERSION, "gpuml": __version__}
        body = f"{json.dumps(header)}\n{json.dumps(content)}\n"
        whole = f"{body}{_digest(body)}\n".encode("ascii")
        path = self._path(name)
        if self._protocols & PUT_WHOLE:
            self._files.pipe_file(path, whole)
        elif "file" in self._protocols:
            with replacing(path) as file:
                file.write(whole)
        else:
            unfinished = self._path(unfinished_name())
            self._files.pipe_file(unfinished, whole)
            self._files.mv(unfinished, path)

    def _read(self, name):
        """The content of a file; None if it does not exist."""
        path = self._path(name)
        try:
            whole = self._files.cat_file(path)
        except FileNotFoundError:
            return None
        lines = whole.split(b"\n")
        header = _json_or_none(lines[0])
        if not isinstance(header, dict) or header.get("format") != FORMAT:
            # A file cut within its first line cannot be told from a foreign one.
            raise ValueError(
                f"{path} was truncated within its first line, or is not a checkpoint file. "
                f"{_advice(name)}"
            )
        if header.get("version") != FORMAT_VERSION:
            raise ValueError(
                f"{path} is a checkpoint of format {header.get('version')}, written by gpuml "
                f"{header.get('gpuml')}; this is gpuml {__version__}, which reads format "
                f"{FORMAT_VERSION}. {WHAT_TO_DO}"
            )
        body = b"\n".join(lines[:2]) + b"\n"
        if len(lines) != 4 or lines[3] or lines[2].decode("latin-1") != _digest(body):
            raise ValueError(f"{path} was truncated or changed. {_advice(name)}")
        return json.loads(lines[1])

    def _compare(self, content, parts):
        found = content.get("manifest", {})
        others = [words for name, words in DIFFERS.items() if found.get(name) != parts[name]]
        if others:
            versions = ""
            if found.get("versions") != parts["versions"]:
                versions = f" ({found.get('versions')}; this is {parts['versions']})"
            raise ValueError(
                f"The checkpoint at {self._folder} was made for {_listed(others)}{versions}. "
                f"{WHAT_TO_DO}"
            )

    def _remove_abandoned(self):
        """Remove unfinished files of killed processes; recent ones may belong to running ones."""
        if "file" not in self._protocols:
            return
        for name in filter(is_unfinished, self._names()):
            path = self._path(name)
            try:
                if time.time() - os.path.getmtime(path) > ABANDONED_SECONDS:
                    os.remove(path)
            except FileNotFoundError:  # another process was faster
                continue


class _Folders:
    """Folders of this machine, as a file system of fsspec, which is then not needed."""

    protocol = "file"
    makedirs = staticmethod(os.makedirs)

    def invalidate_cache(self, path: str) -> None:
        """Nothing is cached."""

    def ls(self, path: str, detail: bool = False) -> list[str]:
        return os.listdir(path)

    def cat_file(self, path: str) -> bytes:
        with open(path, "rb") as file:
            return file.read()


def _store_of(url):
    """The file system of a folder or URL, and the path there."""
    if "://" not in url and "::" not in url:
        return _Folders(), os.path.abspath(url)
    try:
        import fsspec
    except ImportError as error:
        raise ImportError(f"{url} is stored by fsspec. Type: pip install fsspec") from error
    return fsspec.core.url_to_fs(url)


def _unit_name(unit_key):
    """A short file name for a key, which may be long and hold any character."""
    readable = re.sub(r"[^\w-]+", "-", unit_key, flags=re.ASCII)[:40].strip("-")
    return f"{readable}-{_digest(unit_key)[:32]}{SUFFIX}"


def _digest(text):
    return hashlib.sha256(text if isinstance(text, bytes) else text.encode()).hexdigest()


def _json_or_none(line):
    try:
        return json.loads(line)
    except ValueError:
        return None


def _advice(name):
    if name == MANIFEST:
        return "Delete the folder, or use another, to start again."
    return "Delete it; the search then repeats its work."


def _listed(words):
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


# ---------------------------------------------------------------- results as JSON, bit for bit


def _encoded(x: Any) -> Any:
    """JSON values unchanged; others as a list of a type word and the content."""
    if x is None or type(x) in (bool, int, str):
        return x
    if type(x) is float:
        return ["float", struct.pack(">d", x).hex()]
    if type(x) in (list, tuple):
        return [type(x).__name__, [_encoded(item) for item in x]]
    if type(x) is dict and all(type(key) is str for key in x):
        return {key: _encoded(value) for key, value in x.items()}
    if isinstance(x, np.ndarray | np.generic) and not x.dtype.hasobject and x.dtype.names is None:
        kind = "array" if isinstance(x, np.ndarray) else "scalar"
        return [kind, x.dtype.str, list(x.shape), x.tobytes().hex()]
    raise TypeError(
        f"A checkpoint holds numbers, text, and lists, tuples, dicts and arrays of them, no "
        f"{type(x).__module__}.{type(x).__qualname__}."
    )


def _decoded(x: Any) -> Any:
    if isinstance(x, dict):
        return {key: _decoded(value) for key, value in x.items()}
    if not isinstance(x, list):
        return x
    kind, *rest = x
    if kind == "float":
        return struct.unpack(">d", bytes.fromhex(rest[0]))[0]
    if kind in ("list", "tuple"):
        items = [_decoded(item) for item in rest[0]]
        return items if kind == "list" else tuple(items)
    dtype, shape, data = rest
    array = np.frombuffer(bytes.fromhex(data), dtype=np.dtype(dtype)).reshape(shape).copy()
    return array if kind == "array" else array[()]
