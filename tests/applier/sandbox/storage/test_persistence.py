"""What a directory keeps survives; what is damaged is refused."""

from __future__ import annotations

import resource
import signal
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from applier.errors import ConfigurationError
from applier.sandbox.server import Sandbox
from applier.sandbox.storage import persistence
from applier.sandbox.storage.persistence import CorruptDataError, DataDirectory
from applier.sandbox.storage.store import Store, StoredKey
from applier.sandbox.wire import Request

CONFIGS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data"


def ask(sandbox: Sandbox, method: str, target: str, body: Any = None) -> Any:
    answer = sandbox.handle(Request(method, target, {}, b"" if body is None else orjson.dumps(body)))
    assert answer.status < 300, answer.body
    return orjson.loads(answer.body)


def contents(store: Store) -> dict[StoredKey, bytes]:
    return {
        stored.key: stored.content
        for resource in store.resources()
        for stored in store.resource_store(resource).objects.values()
    }


def kill(directory: DataDirectory) -> None:
    """The process is gone: its files are as they are, its lock is free."""
    directory._lock.close()
    if directory._log:
        directory._log.close()


def logs(path: Path) -> list[Path]:
    return sorted(path.glob("log-*"))


def filled(path: Path) -> tuple[DataDirectory, Sandbox]:
    directory = DataDirectory.open(path)
    sandbox = Sandbox(store=directory.store)
    for name in ("a", "b", "c"):
        ask(sandbox, "POST", CONFIGS, {"metadata": {"name": name}, "data": {"text": "ünï\n"}})
    ask(sandbox, "DELETE", f"{CONFIGS}/b")
    return directory, sandbox


@pytest.mark.parametrize("end", [DataDirectory.close, kill])
def test_everything_is_there_after_a_restart(path: Path, end: Any) -> None:
    directory, sandbox = filled(path)
    before, version = contents(directory.store), directory.store.version
    end(directory)
    again = DataDirectory.open(path)
    assert (contents(again.store), again.store.version) == (before, version)
    sandbox = Sandbox(store=again.store)
    assert contents(again.store) == before
    assert ask(sandbox, "GET", f"{CONFIGS}/a")["data"] == {"text": "ünï\n"}
    again.close()


def test_a_watch_cannot_go_back_behind_a_restart(path: Path) -> None:
    """What was removed before the restart is not in the history any more."""
    directory, _ = filled(path)
    version = directory.store.version
    directory.close()
    again = DataDirectory.open(path)
    assert again.store.resource_store("configmaps").compacted_version == version
    assert again.store.resource_store("secrets").compacted_version == version
    again.close()


def test_custom_kinds_are_served_again(path: Path) -> None:
    directory = DataDirectory.open(path)
    schema = {"openAPIV3Schema": {"type": "object", "x-kubernetes-preserve-unknown-fields": True}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "widgets", "kind": "Widget"}
    spec = {"group": "a.test", "scope": "Cluster", "names": names, "versions": [version]}
    sandbox = Sandbox(store=directory.store)
    definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    ask(sandbox, "POST", definitions, {"metadata": {"name": "widgets.a.test"}, "spec": spec})
    ask(
        sandbox,
        "POST",
        "/apis/a.test/v1/widgets",
        {"apiVersion": "a.test/v1", "kind": "Widget", "metadata": {"name": "w"}},
    )
    kill(directory)
    again = DataDirectory.open(path)
    assert ask(Sandbox(store=again.store), "GET", "/apis/a.test/v1/widgets")["items"][0]["metadata"]["name"] == "w"
    again.close()


def test_what_was_being_deleted_goes_on(path: Path) -> None:
    directory = DataDirectory.open(path)
    sandbox = Sandbox(store=directory.store)
    ask(sandbox, "POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})
    ask(sandbox, "POST", "/api/v1/namespaces/gone/configmaps", {"metadata": {"name": "a"}})
    ask(sandbox, "DELETE", "/api/v1/namespaces/gone")
    kill(directory)
    again = DataDirectory.open(path)
    Sandbox(store=again.store).tick_until_stable()
    assert not [key for key in contents(again.store) if "gone" in key]
    again.close()


def test_a_crash_at_every_byte_of_the_log(path: Path, tmp_path: Path) -> None:
    """Of a log that was cut short, every whole record counts, and nothing else."""
    Sandbox(store=(begun := DataDirectory.open(path)).store)
    begun.close()
    directory = DataDirectory.open(path)
    sandbox = Sandbox(store=directory.store)
    ask(sandbox, "POST", CONFIGS, {"metadata": {"name": "a"}})
    ask(sandbox, "DELETE", f"{CONFIGS}/a")
    ask(sandbox, "POST", CONFIGS, {"metadata": {"name": "b"}})
    kill(directory)
    (log,) = logs(path)
    whole = log.read_bytes()
    start, number = int(directory.store.version), log.name.removeprefix("log-")
    snapshot = (path / f"snapshot-{number}").read_bytes()
    records = whole.count(b"\n") - 1
    copy = tmp_path / "copy"
    copy.mkdir()
    (copy / f"snapshot-{number}").write_bytes(snapshot)
    for size in range(len(whole) + 1):
        (copy / log.name).write_bytes(whole[:size])
        kept = persistence.read_state(copy, int(number))
        assert kept.version == start - records + max(0, whole[:size].count(b"\n") - 1)


def test_a_crash_while_a_snapshot_is_made(path: Path) -> None:
    """The old pair counts until the new one is whole."""
    directory, _ = filled(path)
    before = contents(directory.store)
    kill(directory)
    (log,) = logs(path)
    number = int(log.name.removeprefix("log-"))
    (path / "new").write_bytes(b"levelgate sandb")
    (path / f"log-{number + 1}").write_bytes(persistence.HEADER)
    again = DataDirectory.open(path)
    assert contents(again.store) == before
    again.close()


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_any_changed_byte_is_noticed(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("data")
    directory, _ = filled(path)
    kill(directory)
    file = data.draw(st.sampled_from([*logs(path), *path.glob("snapshot-*")]))
    content = bytearray(file.read_bytes())
    place = data.draw(st.integers(0, len(content) - 2))
    content[place] ^= data.draw(st.integers(1, 255))
    file.write_bytes(bytes(content))
    with pytest.raises(CorruptDataError, match=r"damaged .* remove it to begin"):
        DataDirectory.open(path)
    assert file.read_bytes() == bytes(content)


@pytest.mark.parametrize("missing", ["log-*", "snapshot-*"])
def test_a_missing_file(path: Path, missing: str) -> None:
    directory, _ = filled(path)
    kill(directory)
    for file in path.glob(missing):
        file.unlink()
    with pytest.raises(CorruptDataError):
        DataDirectory.open(path)


def test_two_processes_do_not_share_a_directory(path: Path) -> None:
    directory = DataDirectory.open(path)
    with pytest.raises(ConfigurationError, match="another sandbox uses this directory"):
        DataDirectory.open(path)
    directory.close()


def test_a_directory_that_cannot_be_made(path: Path) -> None:
    path.write_text("a file")
    with pytest.raises(ConfigurationError, match="cannot be used for the sandbox"):
        DataDirectory.open(path)


def test_a_long_log_becomes_a_snapshot(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(persistence, "COMPACT_AFTER_BYTES", 2000)
    directory, sandbox = filled(path)
    for number in range(50):
        ask(sandbox, "POST", CONFIGS, {"metadata": {"name": f"n{number}"}})
        (log,) = logs(path)
        assert log.stat().st_size < 4000
    before = contents(directory.store)
    kill(directory)
    again = DataDirectory.open(path)
    assert contents(again.store) == before
    again.close()


def test_a_full_disk_refuses_writes_and_keeps_the_rest(path: Path) -> None:
    directory, sandbox = filled(path)
    before, version = contents(directory.store), directory.store.version
    limit = logs(path)[0].stat().st_size + 100
    old = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, old[1]))
    try:
        body = orjson.dumps({"metadata": {"name": "late"}, "data": {"a": "x" * 500}})
        answer = sandbox.handle(Request("POST", CONFIGS, {}, body))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, old)
        signal.signal(signal.SIGXFSZ, handler)
    assert answer.status == 500
    assert "stored no object" in orjson.loads(answer.body)["message"]
    assert (contents(directory.store), directory.store.version) == (before, version)
    ask(sandbox, "POST", CONFIGS, {"metadata": {"name": "later"}})
    kill(directory)
    again = DataDirectory.open(path)
    assert StoredKey("configmaps", "default", "later") in contents(again.store)
    again.close()
