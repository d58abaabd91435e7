"""A cache on a disk that is too small, full of files, or read-only: a program, to be run where it may mount (`unshare --mount`).

Arguments: the repository, the directory for the cache. Prints one JSON object: what each attempt came to.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from gitops.errors import SourceError
from gitops.source import BranchRef, Mirror, SourceTarget
from tests.support.git.repository import WorkTree


def mount(cache: Path, options: str) -> None:
    subprocess.run(("mount", "-t", "tmpfs", "-o", options, "tmpfs", str(cache)), check=True)


def main(repository: Path, cache: Path) -> None:
    work, mirror = WorkTree(repository), Mirror(SourceTarget(str(repository), BranchRef("main")), cache)

    def attempt(name: str) -> None:
        try:
            said[name] = mirror.fetch()
        except SourceError as error:
            said[name] = f"{type(error).__name__} {error}"

    def readable(commit: str) -> int:
        return len(Mirror(mirror.target, cache).read_snapshot(commit).files)

    said: dict[str, object] = {}
    mount(cache, "size=600k")
    first = mirror.fetch()
    (repository / "big.bin").write_bytes(os.urandom(2_000_000))
    said["new"] = work.commit()
    attempt("full")
    said["left over"] = [file.name for pattern in ("tmp_*", "*.lock") for file in cache.rglob(pattern)]
    said["readable while full"] = readable(first)
    mount(cache, "remount,ro")
    attempt("read-only")
    said["readable while read-only"] = readable(first)
    mount(cache, "remount,rw,size=64m")
    attempt("with room")
    subprocess.run(("umount", str(cache)), check=True)
    mount(cache, "size=64m,nr_inodes=6")
    attempt("out of inodes")
    mount(cache, "remount,nr_inodes=10000")
    attempt("with inodes")
    print(json.dumps(said))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
