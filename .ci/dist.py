"""Builds dist/*.whl and dist/*.tar.gz, the same bytes for the same commit: `make dist`.

setuptools writes wheels whose times are those of SOURCE_DATE_EPOCH, but keeps times, owners and
order of files in an sdist. So the sdist is packed again.
"""

import gzip
import io
import os
import subprocess
import sys
import tarfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
DIST = ROOT / "dist"


def main() -> None:
    epoch = os.environ.get("SOURCE_DATE_EPOCH") or time_of_commit()
    build = [sys.executable, "-m", "build", "--outdir", str(DIST), str(ROOT)]
    subprocess.run(build, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": epoch})
    for path in DIST.glob("*.tar.gz"):
        path.write_bytes(packed_again(path.read_bytes(), int(epoch)))
    for path in sorted(DIST.iterdir()):
        print(path.relative_to(ROOT))


def time_of_commit() -> str:
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def packed_again(archive: bytes, epoch: int) -> bytes:
    """A .tar.gz of the same files, in order of their names, without what differs between builds."""
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(archive)) as old,
        gzip.GzipFile("", "wb", fileobj=out, mtime=epoch) as packed,
        tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as new,
    ):
        for member in sorted(old.getmembers(), key=lambda one: one.name):
            clean = tarfile.TarInfo(member.name)
            clean.type, clean.size, clean.mtime = member.type, member.size, epoch
            clean.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            new.addfile(clean, old.extractfile(member) if member.isfile() else None)
    return out.getvalue()


if __name__ == "__main__":
    main()
