"""Figures of a daemon with 10,000 objects on a real API server: `python -m bench.standing [SECONDS [OBJECTS]]`.

The bench measures three costs. The first is the start without a copy of the repository. The second is a time of SECONDS
(60) without events, including polls. The third is the time from a commit to its first write at the server. Either
watchdog sees the commit, or a hook announces it.

The audit log gives the requests and the times of writes. Figures are seconds of CPU, including Git's processes, unless
a label names another unit. In ten minutes, the daemon reconciles everything once: `python -m bench.standing 660`. If a
figure exceeds its limit, the bench names the figure, and ends with exit code 1.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from math import ceil
from pathlib import Path
from statistics import median
from typing import Final
from urllib.request import Request, urlopen

from bench._proc import cpu, memory
from bench._wanted import end, missed
from bench.applying import Bench
from tests.support.cluster.audit import AuditEvent, AuditLog
from tests.support.cluster.control_plane import ControlPlane
from tests.support.cluster.waiting import eventually
from tests.support.git.repository import Repository
from tests.support.git.server import GitServer, serving

OBJECTS: Final = 10_000
SECONDS: Final = 60.0
COMMITS: Final = 5
SECRET: Final = "a secret of this bench"
STILL: Final = 5.0
"""Seconds without work after which the daemon is at rest."""

FIRST_WRITE, IDLE, MEMORY = 0.3, 0.01, 250.0
"""Limits: seconds, share of a core, MiB."""

PAGE: Final = 500
"""Number of objects in a page of a list."""

_PAGE = re.compile(r"http://127\.0\.0\.1:\d+")
_TEXT = re.compile(r'"text": "\d*')


def main(seconds: float = SECONDS, objects: int = OBJECTS) -> list[str]:
    with tempfile.TemporaryDirectory(prefix="levelgate-bench-") as name, ControlPlane.start(Path(name)) as server:
        bench = Bench(server, objects)
        repository = bench.repository("standing")
        bench.run(bench.command(repository))
        with serving(repository.path.parent) as git:
            daemon = Daemon(server, repository, git, Path(name))
            daemon.configure(repository.path, {})
            with daemon.running():
                return [
                    *daemon.start(objects),
                    *daemon.idle(seconds),
                    *daemon.heard_by_watchdog(),
                    *daemon.heard_by_hook(),
                ]


@dataclass
class Daemon:
    """Daemon that follows a repository, first by its directory, then by `git http-backend`."""

    server: ControlPlane
    repository: Repository
    git: GitServer
    directory: Path
    commits: int = 0

    def __post_init__(self) -> None:
        self.audit = AuditLog(self.server.audit_log)
        (self.directory / "secret").write_text(SECRET)

    def configure(self, url: str | Path, more: Mapping[str, object]) -> None:
        hooks = {"generic": {"secretFile": str(self.directory / "secret")}}
        sources = [{"name": self.repository.path.name, "url": str(url), **more}]
        config = {"apiVersion": "levelgate.dev/v1alpha1", "kind": "Config", "hooks": hooks, "sources": sources}
        (self.directory / "levelgate.yaml").write_text(json.dumps(config))

    @contextmanager
    def running(self) -> Iterator[None]:
        main, self.begun = "from gitops.cli import main; main()", self.audit.mark()
        command = (sys.executable, "-c", main, "run", "-c", str(self.directory / "levelgate.yaml"))
        own = {"KUBECONFIG": str(self.server.kubeconfig("levelgate")), "XDG_CACHE_HOME": str(self.directory)}
        with subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0"],
            env={**os.environ, **own},
            stdout=subprocess.PIPE,
            text=True,
        ) as self.process:
            assert self.process.stdout
            self.page = next(found[0] for line in self.process.stdout if (found := _PAGE.search(line)))
            threading.Thread(target=self.process.stdout.read, daemon=True).start()
            try:
                yield
            finally:
                self.process.send_signal(signal.SIGTERM)

    def start(self, objects: int) -> list[str]:
        _rested(self.process.pid)
        events = self._events(self.begun)
        asked = {(event.resource, event.namespace) for event in events}
        pages, most = ceil(objects / PAGE), memory(self.process.pid)
        print(f"\n{f'daemon, {objects:,} objects':<44} {'':>12}")
        print(f"{'start, seconds':<44} {cpu(self.process.pid):>12.2f}")
        print(f"{'  requests':<44} {_told(events)}")
        print(f"{'  of kinds, each in one namespace or in all':<44} {len(asked):>12}")
        print(f"{'memory at rest, and at most, MiB':<44} {f'{most[0]:.0f}, {most[1]:.0f}':>12}")
        ours = [event for event in events if event.resource != "leases"]
        # Of each kind its API, the list to decide on, the list that its watch begins with, and the watch; lists have pages.
        return [
            *missed("requests of a start", len(ours), 5 * len(asked) + 3 * pages),
            *missed("memory at rest, MiB", most[0], MEMORY),
        ]

    def idle(self, seconds: float) -> list[str]:
        before, resting = cpu(self.process.pid), self.audit.mark()
        time.sleep(seconds)
        spent, events = (cpu(self.process.pid) - before) / seconds, self._events(resting)
        print(f"{f'nothing happens for {seconds:.0f} s, of a core':<44} {spent:>12.2%}")
        print(f"{'  requests':<44} {_told(events) or 'none'}")
        writes = [event for event in events if event.is_write and event.resource != "leases"]
        return [*missed("of a core while nothing happens", spent, IDLE), *missed("writes meanwhile", len(writes), 0)]

    def heard_by_watchdog(self) -> list[str]:
        """Measure the latency from the move of the ref."""
        return _latencies(
            "watchdog, commit to first write, seconds", [self._commit().total_seconds() for _ in range(COMMITS)]
        )

    def heard_by_hook(self) -> list[str]:
        """Measure the latency from the hook, which follows the commit at once.

        The daemon polls the repository once an hour.
        """
        self.configure(self.git.url(self.repository.path.name), {"interval": "1h"})
        eventually(lambda: self.git.fetches, within=60)
        _rested(self.process.pid)
        return _latencies(
            "hook, commit to first write, seconds", [self._commit(self._hook).total_seconds() for _ in range(COMMITS)]
        )

    def _commit(self, tell: Callable[[], datetime] | None = None) -> timedelta:
        """Commit a change of one of many objects, and return the time until the server has received its write."""
        since, file = self.audit.mark(), self.repository.path / "00000.json"
        self.commits += 1
        self.repository.commit({file.name: _TEXT.sub(f'"text": "{self.commits}', file.read_text(), count=1)})
        begun = tell() if tell else self._moved()
        written = eventually(lambda: _write(self.audit, since), within=60)
        time.sleep(STILL)
        return written - begun

    def _moved(self) -> datetime:
        head = self.repository.path / ".git" / self.repository.git("symbolic-ref", "HEAD").strip()
        return datetime.fromtimestamp(head.stat().st_mtime, UTC)

    def _hook(self) -> datetime:
        body = json.dumps({"url": self.git.url(self.repository.path.name)}).encode()
        proof = hmac.new(SECRET.encode(), body, hashlib.sha256).hexdigest()
        headers = {"X-Levelgate-Signature": f"sha256={proof}", "Content-Type": "application/json"}
        begun = datetime.now(UTC)
        with urlopen(Request(f"{self.page}/hooks/generic", body, headers), timeout=30) as answer:
            assert answer.status < 300
        return begun

    def _events(self, since: int) -> list[AuditEvent]:
        return self.audit.events(user="levelgate", since=since)


def _latencies(label: str, taken: Sequence[float]) -> list[str]:
    least, middle, most = min(taken), median(taken), max(taken)
    print(f"{label:<44} {middle:>12.2f} ({least:.2f} to {most:.2f}, {len(taken)} commits)")
    return missed(label, middle, FIRST_WRITE)


def _rested(pid: int) -> None:
    before = -1.0
    while (now := cpu(pid)) > before + 0.05 or now < 1:
        before = now
        time.sleep(STILL)


def _write(audit: AuditLog, since: int) -> datetime:
    writes = [event for event in audit.events(user="levelgate", since=since) if event.name.startswith("item-")]
    assert writes, "the commit has not been taken yet"
    return writes[0].time


def _told(events: Iterable[AuditEvent]) -> str:
    counts = Counter(f"{event.verb}{' lease' if event.resource == 'leases' else ''}" for event in events)
    return ", ".join(f"{verb} {number}" for verb, number in sorted(counts.items()))


if __name__ == "__main__":
    end(main(float(next(iter(sys.argv[1:]), SECONDS)), int(next(iter(sys.argv[2:]), OBJECTS))))
