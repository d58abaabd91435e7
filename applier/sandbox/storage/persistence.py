"""Keeps the objects of a sandbox in a directory: a snapshot, and a log of what came after it.

Format: both files begin with a line that names it. Each record is one line, a checksum (CRC-32, hexadecimal), a space, a
JSON document. Each log belongs to the snapshot of the same number. Invariants: an event is in the log before anybody
sees it, so what was answered survives a killed process; a record that was not completely written was never answered,
and only the last one can be such. Anything else that does not fit is damage and is refused, never half-read.
"""

from __future__ import annotations

import errno
import fcntl
import os
import zlib
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO
from pathlib import Path
from typing import IO, Any, Self

import orjson

from applier.errors import ConfigurationError
from applier.sandbox.storage.store import Store, StoredKey, StoreEvent
from applier.sandbox.wire import Refusal
from renderer.frozen import dataclass

HEADER = b"levelgate sandbox 1\n"
COMPACT_AFTER = 64 * 1024 * 1024
"""Bytes of a log after which it is replaced by a snapshot."""


class DamagedError(ConfigurationError):
    """The files of a sandbox cannot be trusted."""

    def __init__(self, file: Path, why: str) -> None:
        super().__init__(
            f"{file}: {why}: the objects kept in {file.parent} are damaged and are not used; "
            "restore the directory from a copy, or remove it to begin with an empty sandbox"
        )


@dataclass(frozen=True, slots=True)
class PersistedState:
    """What a directory holds: objects by key, and the version of the last event."""

    contents: dict[StoredKey, bytes]
    version: int


class Directory:
    """One directory, used by one process at a time. `open` it, then give `store` to a sandbox, and `close` it."""

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self._path = path
        self._lock = lock
        self._number = 0
        self._log: FileIO | None = None
        self.store = Store()

    @classmethod
    def open(cls, path: Path) -> Self:
        """The directory with what it holds; made if it is missing.

        Raises ConfigurationError if it cannot be used or another process uses it, DamagedError.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (path / "lock").open("ab")
        except OSError as error:
            raise ConfigurationError(f"{path}: cannot be used for the sandbox: {error.strerror}") from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ConfigurationError(
                f"{path}: another sandbox is using it: stop that one, or use another --data"
            ) from None
        directory = cls(path, lock)
        try:
            directory._read()
        except BaseException:
            lock.close()
            raise
        return directory

    def close(self) -> None:
        """Write a snapshot, so that the next start has no log to read, and let go of the directory."""
        self._compact()
        if self._log:
            self._log.close()
        self._lock.close()

    def _read(self) -> None:
        self._number = max(self._numbers("snapshot-"), default=0)
        for number in self._numbers("log-"):
            # One that is begun before its snapshot is whole has nothing in it yet.
            if number > self._number and list(_records(self._log_file(number), torn=True)):
                raise DamagedError(self._snapshot(number), "it is missing")
        kept = read(self._path, self._number)
        self.store.restore(kept.contents, kept.version)
        self.store.journal = self._append
        self._compact()

    def _numbers(self, prefix: str) -> Iterator[int]:
        for file in self._path.glob(f"{prefix}*"):
            if file.name.removeprefix(prefix).isdecimal():
                yield int(file.name.removeprefix(prefix))

    def _append(self, event: StoreEvent) -> None:
        """Record an event. It is in the hands of the operating system then: a killed process loses nothing, a machine
        that loses power may lose the last seconds.
        """
        assert self._log is not None
        content = None if event.type == "DELETED" else event.after.content.decode()
        entry = record([event.version, *event.after.key, content])
        size = self._log.tell()
        try:
            if self._log.write(entry) != len(entry):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._log.seek(size)
            self._log.truncate()
            message = f"nothing was stored: the sandbox cannot write to {self._path}: {error.strerror}"
            raise Refusal(500, "InternalError", message) from None
        if size > COMPACT_AFTER:
            # The event is in this log, and not yet in the store. What cannot be done now is done after the next event.
            with suppress(OSError):
                self._begin(read(self._path, self._number))

    def _compact(self) -> None:
        shelves = (self.store.shelf(resource) for resource in self.store.resources())
        contents = {stored.key: stored.content for shelf in shelves for stored in shelf.objects.values()}
        self._begin(PersistedState(contents, self.store.version))

    def _begin(self, kept: PersistedState) -> None:
        """A new snapshot and an empty log, then the old ones go: whenever this is cut short, one pair is whole."""
        number = self._number + 1
        records = [record([kept.version]), *(record([*key, text.decode()]) for key, text in kept.contents.items())]
        log = self._log_file(number).open("wb", buffering=0)
        log.write(HEADER)
        temporary = self._path / "new"
        with temporary.open("wb") as file:
            file.write(HEADER + b"".join(records) + record([len(kept.contents)]))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._snapshot(number))
        if self._log:
            self._log.close()
        self._log, self._number = log, number
        for prefix in ("snapshot-", "log-"):
            for old in [one for one in self._numbers(prefix) if one != number]:
                (self._path / f"{prefix}{old}").unlink()

    def _snapshot(self, number: int) -> Path:
        return self._path / f"snapshot-{number}"

    def _log_file(self, number: int) -> Path:
        return self._path / f"log-{number}"


def record(document: Any) -> bytes:
    text = orjson.dumps(document)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def read(path: Path, number: int) -> PersistedState:
    """The objects of a snapshot and its log; none for number 0. Raises DamagedError."""
    if number == 0:
        return PersistedState({}, 0)
    kept = _read_snapshot(path / f"snapshot-{number}")
    return _replay(path / f"log-{number}", kept)


def _read_snapshot(file: Path) -> PersistedState:
    records = list(_records(file, torn=False))
    match records:
        case [[int(version)], *objects, [int(count)]] if count == len(objects):
            contents: dict[StoredKey, bytes] = {}
            for one in objects:
                match one:
                    case [str(resource), str(namespace), str(name), str(content)]:
                        contents[StoredKey(resource, namespace, name)] = content.encode()
                    case _:
                        raise DamagedError(file, "a record is none of an object")
            return PersistedState(contents, version)
        case _:
            raise DamagedError(file, "it is not complete")


def _replay(file: Path, kept: PersistedState) -> PersistedState:
    contents, version = dict(kept.contents), kept.version
    for one in _records(file, torn=True):
        match one:
            case [int(number), str(resource), str(namespace), str(name), content] if number == version + 1:
                key, version = StoredKey(resource, namespace, name), number
            case _:
                raise DamagedError(file, f"the record after version {version} does not follow it")
        match content:
            case str():
                contents[key] = content.encode()
            case None if key in contents:
                del contents[key]
            case _:
                raise DamagedError(file, f"version {version} removes what was not there")
    return PersistedState(contents, version)


def _records(file: Path, *, torn: bool) -> Iterator[Any]:
    """The records of a file; with `torn` the last one may be incomplete and is then left out. Raises DamagedError."""
    try:
        content = file.read_bytes()
    except OSError as error:
        raise DamagedError(file, f"cannot be read: {error.strerror}") from None
    if not content.startswith(HEADER):
        if torn and HEADER.startswith(content):
            return
        raise DamagedError(file, "is not a file of a sandbox of this version")
    lines = content[len(HEADER) :].split(b"\n")
    if lines[-1] and not torn:
        raise DamagedError(file, "it ends in the middle of a record")
    for number, line in enumerate(lines[:-1], start=2):
        checksum, _, text = line.partition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            raise DamagedError(file, f"line {number} is not as it was written")
        yield orjson.loads(text)
