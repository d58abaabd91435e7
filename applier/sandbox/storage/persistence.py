"""Persistence of a sandbox in a directory: a snapshot, and a log of the events after the snapshot.

The first line of both files names the format. Each record is a line: a checksum (CRC-32, hexadecimal), a space, a JSON
document. A log belongs to the snapshot with the same number.

The store logs an event before any client sees the event, so every answer survives the end of the process. Only the last
record of a log may be incomplete, and no client has seen the event of this record. If a file has any other damage, the
process rejects the whole directory.
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
COMPACT_AFTER_BYTES = 64 * 1024 * 1024
"""Size in bytes above which a snapshot replaces a log."""


class CorruptDataError(ConfigurationError):
    """Damage in the files of a sandbox. The message contains the file and a remedy."""

    def __init__(self, file: Path, detail: str) -> None:
        super().__init__(
            f"{file}: {detail}: the objects in {file.parent} are damaged and cannot be used; "
            "restore the directory from a copy, or remove it to begin with an empty sandbox"
        )


@dataclass(frozen=True, slots=True)
class PersistedState:
    """Contents of a sandbox's data directory."""

    contents: dict[StoredKey, bytes]
    """Objects in JSON, by key."""
    version: int
    """resourceVersion of the last event."""


class DataDirectory:
    """Directory with the objects of a sandbox, used by one process at a time.

    Call `open`, pass `store` to a sandbox, and call `close` at the end.
    """

    def __init__(self, path: Path, lock: IO[bytes]) -> None:
        self._path = path
        self._lock = lock
        self._generation = 0
        self._log: FileIO | None = None
        self.store = Store()

    @classmethod
    def open(cls, path: Path) -> Self:
        """Return the directory at `path` with its contents.

        If the directory is absent, create the directory.

        Raises: ConfigurationError if `path` cannot be used or another process uses the directory, CorruptDataError if
        files are damaged.
        """
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
            lock = (path / "lock").open("ab")
        except OSError as error:
            raise ConfigurationError(
                f"{path} cannot be used for the sandbox: {error.strerror}; choose another directory with --data"
            ) from None
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            lock.close()
            raise ConfigurationError(
                f"{path}: another sandbox uses this directory; stop that sandbox, or choose another one with --data"
            ) from None
        directory = cls(path, lock)
        try:
            directory._load()
        except BaseException:
            lock.close()
            raise
        return directory

    def close(self) -> None:
        """Write a snapshot, so that the next start reads no log, and release the directory."""
        self._compact()
        if self._log:
            self._log.close()
        self._lock.close()

    def _load(self) -> None:
        self._generation = max(self._generations("snapshot-"), default=0)
        for generation in self._generations("log-"):
            # While a snapshot is being written, its log exists and has no records.
            if generation > self._generation and list(_records(self._log_file(generation), allow_torn=True)):
                raise CorruptDataError(self._snapshot_file(generation), "the file is missing")
        state = read_state(self._path, self._generation)
        self.store.restore(state.contents, state.version)
        self.store.journal = self._append
        self._compact()

    def _generations(self, prefix: str) -> Iterator[int]:
        for file in self._path.glob(f"{prefix}*"):
            if file.name.removeprefix(prefix).isdecimal():
                yield int(file.name.removeprefix(prefix))

    def _append(self, event: StoreEvent) -> None:
        """Append `event` to the log, and pass the bytes to the operating system.

        Therefore a killed process loses no event, but a power failure may lose the last seconds.

        Raises: Refusal (500 if the log cannot be written).
        """
        assert self._log is not None
        content = None if event.type == "DELETED" else event.after.content.decode()
        entry = encode_record([event.version, *event.after.key, content])
        offset = self._log.tell()
        try:
            if self._log.write(entry) != len(entry):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            self._log.seek(offset)
            self._log.truncate()
            message = (
                f"the sandbox cannot write to {self._path}, and stored no object: {error.strerror}; "
                "free disk space or restore write access"
            )
            raise Refusal(500, "InternalError", message) from None
        if offset > COMPACT_AFTER_BYTES:
            # Read the files, because the store does not have the event yet. If the read fails, the next event retries.
            with suppress(OSError):
                self._start_generation(read_state(self._path, self._generation))

    def _compact(self) -> None:
        resource_stores = (self.store.resource_store(resource) for resource in self.store.resources())
        contents = {
            stored.key: stored.content
            for resource_store in resource_stores
            for stored in resource_store.objects.values()
        }
        self._start_generation(PersistedState(contents, self.store.version))

    def _start_generation(self, state: PersistedState) -> None:
        """Write a new snapshot and an empty log, then delete the old pair.

        If the process crashes at any point, one pair of files is complete.
        """
        generation = self._generation + 1
        records = [
            encode_record([state.version]),
            *(encode_record([*key, content.decode()]) for key, content in state.contents.items()),
        ]
        log = self._log_file(generation).open("wb", buffering=0)
        log.write(HEADER)
        temporary = self._path / "new"
        with temporary.open("wb") as file:
            file.write(HEADER + b"".join(records) + encode_record([len(state.contents)]))
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(self._snapshot_file(generation))
        if self._log:
            self._log.close()
        self._log, self._generation = log, generation
        for prefix in ("snapshot-", "log-"):
            for old in [candidate for candidate in self._generations(prefix) if candidate != generation]:
                (self._path / f"{prefix}{old}").unlink()

    def _snapshot_file(self, generation: int) -> Path:
        return self._path / f"snapshot-{generation}"

    def _log_file(self, generation: int) -> Path:
        return self._path / f"log-{generation}"


def encode_record(document: Any) -> bytes:
    """Return a record: CRC-32 of the JSON in eight hexadecimal digits, a space, the JSON and a line feed."""
    text = orjson.dumps(document)
    return b"%08x %s\n" % (zlib.crc32(text), text)


def read_state(path: Path, generation: int) -> PersistedState:
    """Return the state in the snapshot and the log with the number `generation`.

    If `generation` is 0, return an empty state.

    Raises: CorruptDataError if a file is damaged.
    """
    if generation == 0:
        return PersistedState({}, 0)
    state = _read_snapshot(path / f"snapshot-{generation}")
    return _replay(path / f"log-{generation}", state)


def _read_snapshot(file: Path) -> PersistedState:
    records = list(_records(file, allow_torn=False))
    match records:
        case [[int(version)], *objects, [int(count)]] if count == len(objects):
            contents: dict[StoredKey, bytes] = {}
            for entry in objects:
                match entry:
                    case [str(resource), str(namespace), str(name), str(content)]:
                        contents[StoredKey(resource, namespace, name)] = content.encode()
                    case _:
                        raise CorruptDataError(file, "a record does not describe an object")
            return PersistedState(contents, version)
        case _:
            raise CorruptDataError(file, "the file is not complete")


def _replay(file: Path, state: PersistedState) -> PersistedState:
    contents, version = dict(state.contents), state.version
    for entry in _records(file, allow_torn=True):
        match entry:
            case [int(number), str(resource), str(namespace), str(name), content] if number == version + 1:
                key, version = StoredKey(resource, namespace, name), number
            case _:
                raise CorruptDataError(file, f"the next record does not follow version {version}")
        match content:
            case str():
                contents[key] = content.encode()
            case None if key in contents:
                del contents[key]
            case _:
                raise CorruptDataError(file, f"version {version} removes an object that does not exist")
    return PersistedState(contents, version)


def _records(file: Path, *, allow_torn: bool) -> Iterator[Any]:
    """Yield the records of `file`.

    Args:
        allow_torn: True to skip an incomplete last record.

    Raises: CorruptDataError if the file is damaged.
    """
    try:
        content = file.read_bytes()
    except OSError as error:
        raise CorruptDataError(file, f"the file cannot be read: {error.strerror}") from None
    if not content.startswith(HEADER):
        if allow_torn and HEADER.startswith(content):
            return
        raise CorruptDataError(file, "the file does not have the format of this version")
    lines = content[len(HEADER) :].split(b"\n")
    if lines[-1] and not allow_torn:
        raise CorruptDataError(file, "the file ends in the middle of a record")
    for number, line in enumerate(lines[:-1], start=2):
        checksum, _, text = line.partition(b" ")
        if checksum != b"%08x" % zlib.crc32(text):
            raise CorruptDataError(file, f"line {number} does not match its checksum")
        yield orjson.loads(text)
